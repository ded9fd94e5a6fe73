"""Panels as pictures: figures of matplotlib saved as PNG and PDF, and single panels as SVG for the page.

Bands are 95% intervals. One legend serves all panels of a figure and stands outside them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.numbers import axis_number
from psconrl.errors import InvalidArgumentError
from psconrl.io import writing
from psconrl.report.panels import Line, Panel
from psconrl.report.styles import COLORS, Style, styles

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 3.3, 2.5
"""Inches of one panel."""
_PAGE_SIZE = (4.0, 2.7)
"""Inches of one panel on the page, which scales it."""
_PAGE_POINTS = 250
"""Points of a line on the page."""
_MARGIN = 0.7
"""Inches beside a panel for the names of its levels."""
_ABREAST = 4
"""Panels of one environment that stand side by side."""
_LETTERS = 30
"""Characters that fit beside a panel."""
_SERIES = "series-"
"""What the names of lines in a drawing begin with."""
_DPI = 200
_FONTS: dict[Any, Any] = {
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "axes.labelsize": 9.0,
    "legend.fontsize": 9.0,
    "pdf.fonttype": 42,
    "svg.fonttype": "none",
    "text.parse_math": False,  # names may hold dollar signs
}
_PAGE_COLORS = {color: f"c{k}" for k, color in enumerate(COLORS)} | {
    "#ffffff": "ground",
    "#e4e4e4": "rule",
    "#888888": "control",
    "#222222": "ink",
    "#666666": "muted",
}
"""Names of the page's colors, which change with its theme, for those of the pictures."""


def draw(rows: Sequence[Sequence[Panel]], caption: str = "") -> Figure:
    """Draw panels as a matplotlib figure with one legend below.

    Args:
        rows: a row of axes for each row of panels.
        caption: a title above them all.

    Returns:
        The figure, without a display.

    Raises:
        InvalidArgumentError: there are no panels.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    if not rows or not rows[0]:
        raise InvalidArgumentError("there is nothing to draw: no runs of this figure are stored")
    if len(rows[0]) == 1 < len(rows) <= _ABREAST:
        rows = [[panel for (panel,) in rows]]
    with rc_context(_FONTS):
        columns = len(rows[0])
        beside = _MARGIN * any(level.label for row in rows for panel in row for level in panel.levels)
        size = (_WIDTH + beside) * columns + 0.4, _HEIGHT * len(rows) + 0.6
        figure = Figure(figsize=size, layout="constrained")
        axes = figure.subplots(len(rows), columns, squeeze=False)
        labels = list(dict.fromkeys(line.label for row in rows for panel in row for line in panel.lines))
        looks = styles(labels)
        for r, row in enumerate(rows):
            for c, panel in enumerate(row):
                _fill(axes[r, c], panel, looks)
                if c and panel.y_label == row[0].y_label:
                    axes[r, c].set_ylabel("")
                if r < len(rows) - 1 and panel.x_label == rows[-1][c].x_label:
                    axes[r, c].set_xlabel("")
        # A single point says by its color whose it is, and by its place what.
        lines = {line.label for row in rows for panel in row for line in panel.lines if line.marker != "D"}
        _legend(figure, axes.ravel(), [label for label in labels if label in lines])
        if caption:
            figure.suptitle(caption, fontsize=10)
        return figure


def save(figure: Figure, folder: str | Path, name: str) -> list[Path]:
    """Write a figure as PNG and PDF.

    Args:
        figure: any figure of matplotlib, for instance what `draw` made.
        folder: where to write; it is made if it does not exist.
        name: of the files, without their endings.

    Returns:
        The two files.
    """
    from matplotlib import rc_context

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.{kind}" for kind in ("png", "pdf")]
    with rc_context(_FONTS):
        for path in paths:
            # Without dates equal figures are equal files.
            metadata = {"CreationDate": None} if path.suffix == ".pdf" else {"Software": None}
            with writing.replacing(path) as file:
                figure.savefig(file, format=path.suffix[1:], dpi=_DPI, facecolor="white", metadata=metadata)
            figure.set_layout_engine("none")  # laid out once, which takes long
    return paths


def svg(panel: Panel, looks: Mapping[str, Style]) -> str:
    """Draw a panel as SVG for the page: without caption and legend, in the page's own fonts and colors.

    Args:
        panel: what to draw.
        looks: a style for each label.

    Returns:
        An element that refers to nothing outside itself and holds neither styles nor scripts. Each line is a group of
        class `series`, with its label. Nothing if no line has a number.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    lines = [_thinned(line, bool(panel.logarithmic)) for line in panel.lines if np.isfinite(line.mean).any()]
    if not lines:
        return ""
    shown = replace(panel, lines=lines, title="", y_label="")
    # Names inside the drawing are hashes: with a salt of its own, no other drawing on the page has the same.
    salt = f"{panel.title}|{panel.y_label}|{[line.mean.tobytes() for line in lines]}"
    with rc_context(_FONTS | {"svg.hashsalt": salt}):
        figure = Figure(figsize=_PAGE_SIZE, layout="constrained")
        _fill(figure.add_subplot(), shown, looks)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    return _for_page(buffer.getvalue(), list(looks), " ".join(f"{panel.title} {panel.y_label}".split()))


def _thinned(line: Line, logarithmic: bool) -> Line:
    chosen = thinned(line.x, logarithmic)
    return replace(line, **{name: getattr(line, name)[chosen] for name in ("x", "mean", "low", "high")})


def thinned(x: Floats, logarithmic: bool = False, points: int = _PAGE_POINTS) -> Ints:
    """Indices of at most so many of the places x, the first and the last among them."""
    if len(x) <= points:
        return np.arange(len(x))
    if logarithmic:
        return np.unique(np.searchsorted(x, np.geomspace(x[0], x[-1], points) * (1 - 1e-12)).clip(max=len(x) - 1))
    return np.unique(np.linspace(0, len(x) - 1, points).round().astype(np.int64))


def _for_page(text: str, labels: Sequence[str], name: str) -> str:
    """A drawing of matplotlib as an element of the page."""
    text = re.sub(r"<(metadata|style)\b.*?</\1>", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"<[^>]+>", lambda tag: _tag(tag[0]), text)
    size = re.search(r'viewBox="[^"]*"', text)
    assert size is not None
    opening = f'<svg class="plot" role="img" aria-label="{escape(name)}" {size[0]}>'
    groups = [f'<g class="series" data-label="{escape(label)}"' for label in labels]
    body = re.sub(rf'<g id="{_SERIES}(\d+)"', lambda group: groups[int(group[1])], text[text.index(">") + 1 :])
    return opening + body.strip()


def _tag(tag: str) -> str:
    """A tag with attributes for styles, which the page's security policy forbids, and numbers of two decimals."""
    tag = re.sub(rf'<g id="(?!{_SERIES})[^"]*"', "<g", tag)
    tag = re.sub(r' style="([^"]*)"', lambda style: _attributes(style[1]), tag)
    return re.sub(r"-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}", tag)


def _attributes(style: str) -> str:
    found = []
    for name, _, value in (entry.strip().partition(": ") for entry in style.split(";")):
        if name == "font":
            found.append(f'font-size="{value.split("px")[0]}"')
        elif name:
            color = _PAGE_COLORS.get(value.lower())
            found.append(f'{name}="{f"var(--{color})" if color else value}"')
    return " " + " ".join(found)


def _fill(ax: Axes, panel: Panel, looks: Mapping[str, Style]) -> None:
    if panel.empty:
        ax.set_axis_off()
        return
    _lines(ax, panel.lines, looks)
    _scales(ax, panel)
    if panel.ticks:
        ax.set_xticks([x for x, _ in panel.ticks], [label for _, label in panel.ticks])
        ax.minorticks_off()
    if panel.y_limits:
        ax.set_ylim(*panel.y_limits)
    for level in panel.levels:
        _level(ax, level.text, level.value, level.kind)
    ax.set_title(panel.title)
    ax.set_xlabel(panel.x_label)
    ax.set_ylabel("\n".join(part for line in panel.y_label.splitlines() for part in wrap(line, _LETTERS)))
    ax.grid(True, color="#e4e4e4", linewidth=0.6)
    ax.set_axisbelow(True)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)


def _lines(ax: Axes, lines: Sequence[Line], looks: Mapping[str, Style]) -> None:
    for line in lines:
        look, gid = looks[line.label], f"{_SERIES}{list(looks).index(line.label)}"
        color, dashes = COLORS[look.color], (0, look.dashes) if look.dashes else "-"
        single = len(line.x) == 1
        ax.plot(
            line.x,
            line.mean,
            color=color,
            linestyle="none" if single else dashes,
            lw=1.6,
            marker=line.marker or None,
            markersize=4,
            label=line.label,
            zorder=3,
            gid=gid,
        )
        if single and (line.high > line.low).any():
            ax.vlines(line.x, line.low, line.high, color=color, lw=1.2, zorder=3, gid=gid)
        elif (line.high > line.low).any():
            ax.fill_between(line.x, line.low, line.high, color=color, alpha=0.18, linewidth=0, zorder=2, gid=gid)


def _scales(ax: Axes, panel: Panel) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    last = max(float(line.x.max()) for line in panel.lines)
    # Long numbers need room: fewer of them stand side by side.
    marks = {ax.xaxis: 5 if last < 10_000 else 4 if last < 100_000 else 3, ax.yaxis: 5}
    for axis, logarithmic in ((ax.xaxis, bool(panel.logarithmic)), (ax.yaxis, panel.logarithmic == "both")):
        if not logarithmic:
            # Without steps of 2 the last round has a number, be it 5,000, 20,000 or 500,000.
            steps = [1, 2.5, 5, 10] if axis is ax.xaxis else [1, 2, 2.5, 5, 10]
            axis.set_major_locator(MaxNLocator(marks[axis], steps=steps))
            axis.set_major_formatter(FuncFormatter(_tick))
    if panel.logarithmic:
        ax.set_xscale("log")
        _readable(ax.xaxis, (1.0,))
    else:
        # Points at the edge are shown whole.
        room = 0.04 * last if any(line.marker for line in panel.lines) else 0.0
        ax.set_xlim(-room, last + room)
    if panel.logarithmic == "both":
        ax.set_yscale("log")
        low, high = panel.y_limits or ax.get_ylim()
        _readable(ax.yaxis, (1.0, 2.0, 5.0) if high < 200 * low else (1.0,))


def _readable(axis: Axis, first_digits: tuple[float, ...]) -> None:
    """Numbers on a logarithmic axis as people write them, at some first digits alone."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(10.0, first_digits))
    axis.set_major_formatter(FuncFormatter(_tick))
    axis.set_minor_formatter(NullFormatter())


def _tick(x: float, _: int | None = None) -> str:
    """A number on an axis, as matplotlib asks for it."""
    return axis_number(x)


def _level(ax: Axes, label: str, value: float, kind: str) -> None:
    looks: dict[str, dict[str, Any]] = {
        "zero": {"color": "#888888", "linewidth": 0.8},
        "optimal": {"color": "#222222", "linewidth": 1.0, "linestyle": "--"},
        "other": {"color": "#222222", "linewidth": 1.0, "linestyle": ":"},
    }
    ax.axhline(value, zorder=1.5, **looks[kind])
    if label:
        ax.annotate(
            "\n".join(wrap(label, _LETTERS // 2, max_lines=3, placeholder="…")),
            (1.0, value),
            xycoords=("axes fraction", "data"),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            ha="left",
            fontsize=7.5,
            color="#222222",
            annotation_clip=False,
        )


def _legend(figure: Figure, axes: Iterable[Axes], labels: Sequence[str]) -> None:
    handles: dict[str, Any] = {}
    for ax in axes:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        [handles[label] for label in labels],
        labels,
        loc="outside lower center",
        ncols=_columns(labels, figure.get_figwidth()),
        frameon=False,
        handlelength=3.2,
    )


def _columns(labels: Sequence[str], width: float) -> int:
    """How many entries of a legend fit side by side into so many inches."""
    entry = 0.75 + 0.075 * max(len(label) for label in labels)
    return max(1, min(len(labels), int(width / entry)))
