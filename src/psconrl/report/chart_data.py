"""Panels as numbers for the page: thinned, rounded, and with a look for every line.

A figure on the page is made of strips. The panels of a strip belong together, above all regret and violation in one
environment: they stand side by side, and are zoomed and read off at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl.report.panels import Line, Panel
from psconrl.report.styles import Style, styles

POINTS = 250
"""Most points of a line."""

_DIGITS = 4
"""Decimal digits of the largest number in a panel that are kept."""

Rows = Sequence[Sequence[Panel]]


def figure(rows: Rows) -> dict[str, Any]:
    """The strips of a figure, and its legend."""
    strips = [list(column) for column in zip(*rows, strict=True)] if len(rows) > 1 else [list(rows[0])]
    labels = [line.label for strip in strips for panel in strip for line in panel.lines]
    # A legend stands beside the panels of each strip, with what is in them.
    return {
        "legend": [_look(label, style) for label, style in styles(labels).items()],
        "strips": [_strip([panel for panel in strip if not panel.empty], len(rows) > 1) for strip in strips],
    }


def _look(label: str, style: Style) -> dict[str, Any]:
    return {"label": label, "colour": style.colour, "dash": " ".join(f"{length:g}" for length in style.page_dashes)}


def _strip(panels: Sequence[Panel], stacked: bool) -> dict[str, Any]:
    """Panels that were stacked have one title above them all; the others each have their own."""
    labels = dict.fromkeys(line.label for panel in panels for line in panel.lines)
    return {
        "title": panels[0].title if stacked else "",
        "labels": list(labels),
        "panels": [_panel(panel, " ".join(panel.y_label.split()) if stacked else panel.title) for panel in panels],
    }


def _panel(panel: Panel, title: str) -> dict[str, Any]:
    shown = [line for line in panel.lines if np.isfinite(line.mean).any()]
    values = np.concatenate(
        [np.abs(part[np.isfinite(part)]) for line in shown for part in _parts(line)] or [np.zeros(1)]
    )
    decimals = _DIGITS - int(np.floor(np.log10(values.max()))) if values.size and values.max() > 0 else _DIGITS
    return {
        "title": title,
        "x": panel.x_label,
        "y": " ".join(panel.y_label.split()),
        "log": panel.logarithmic,
        "ticks": [list(tick) for tick in panel.ticks],
        "limits": list(panel.y_limits) if panel.y_limits else None,
        "levels": [
            {"label": level.text, "value": round(level.value, 6), "kind": level.kind}
            for level in panel.levels
            if np.isfinite(level.value)
        ],
        "lines": [_line(line, decimals, bool(panel.logarithmic)) for line in shown],
    }


def _parts(line: Line) -> tuple[Floats, ...]:
    return line.mean, line.low, line.high


def _line(line: Line, decimals: int, logarithmic: bool) -> dict[str, Any]:
    kept = thinned(line.x, logarithmic)
    document: dict[str, Any] = {
        "label": line.label,
        "x": [round(float(x), 6) for x in line.x[kept]],
        "mean": rounded(line.mean[kept], decimals),
        "marker": line.marker,
    }
    if (line.high > line.low).any():
        document |= {"low": rounded(line.low[kept], decimals), "high": rounded(line.high[kept], decimals)}
    return document


def thinned(x: Floats, logarithmic: bool = False) -> Ints:
    """Indices of at most POINTS of the places x, the first and the last among them."""
    if len(x) <= POINTS:
        return np.arange(len(x))
    if logarithmic:
        return np.unique(np.searchsorted(x, np.geomspace(x[0], x[-1], POINTS) * (1 - 1e-12)).clip(max=len(x) - 1))
    return np.unique(np.linspace(0, len(x) - 1, POINTS).round().astype(np.int64))


def rounded(values: Floats, decimals: int) -> list[float | int | None]:
    """Numbers for JSON; whole ones without a point, None where there is none."""
    return [_short(float(v)) if np.isfinite(v) else None for v in np.round(values, decimals)]


def _short(value: float) -> float | int:
    return int(value) if value.is_integer() else value
