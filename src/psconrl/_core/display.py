"""What notebooks show: small tables in HTML, and the plots of sweeps, runs and estimates."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from psconrl._core.checks import Floats
from psconrl._core.numbers import number

COLOR, LIMIT_COLOR, OLD_COLOR = "#0072b2", "#d55e00", "#555555"
"""Of curves, limits, and what was done before: blue, vermilion and gray, which color-blind readers can tell apart."""
LISTED = 10
"""Rows of a policy that a notebook shows."""


def html_table(caption: str, header: Sequence[str], rows: Iterable[Sequence[Any]], note: str = "") -> str:
    """A table for a notebook.

    Args:
        caption: a line above it.
        header: names of columns.
        rows: texts, or numbers, which are written with four digits.
        note: a line below it.
    """

    def cell(value: Any) -> str:
        text = number(float(value)) if isinstance(value, (float, np.floating)) else str(value)
        return f"<td>{escape(text)}</td>"

    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in rows)
    below = f"<p>{escape(note)}</p>" if note else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if body else ""
    return f"<div><p><b>{escape(caption)}</b></p>{table}{below}</div>"


def latex_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table for LaTeX, without packages; the words are escaped."""
    lines = [r"\begin{tabular}{" + "l" * len(header) + "}", r"\hline"]
    lines += [" & ".join(map(_latex, row)) + r" \\" for row in (header, *rows)]
    lines.insert(3, r"\hline")
    return "\n".join([*lines, r"\hline", r"\end{tabular}", ""])


def _latex(text: str) -> str:
    if text.startswith("-") and text[1:2].isdigit():
        return f"$-${_latex(text[1:])}"
    return "".join(_LATEX.get(c, f"\\{c}" if c in "&%$#_{}" else c) for c in text)


_LATEX = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\n": " ",
    "<": "$<$",
    ">": "$>$",
    "±": r"$\pm$",
    "∞": r"$\infty$",
}


def html_figure(caption: str, axes: Any) -> str:
    """A plot for a notebook, as a picture in the page; the plot is closed."""
    from matplotlib import pyplot

    picture = io.BytesIO()
    axes.figure.savefig(picture, format="png", dpi=100, bbox_inches="tight")
    pyplot.close(axes.figure)
    data = base64.b64encode(picture.getvalue()).decode()
    return f'<div><p><b>{escape(caption)}</b></p><img alt="{escape(caption)}" src="data:image/png;base64,{data}"></div>'


def plot_sweep(
    thresholds: Floats, values: Floats, least: float, idle: float, names: tuple[str, str], ax: Any = None
) -> Any:
    """The trade-off curve: the least main cost at each limit, and where the limit cannot be met or costs nothing."""
    from matplotlib import pyplot

    if ax is None:
        _, ax = pyplot.subplots(figsize=(6, 4), layout="constrained")
    ax.plot(thresholds, values, color=COLOR, marker=".")
    if thresholds.min() < least:
        ax.axvspan(thresholds.min(), least, color=LIMIT_COLOR, alpha=0.15, label="cannot be met")
    if least < idle <= thresholds.max():
        ax.axvline(idle, color=OLD_COLOR, linestyle=":", label="from here on it costs nothing")
    ax.set_xlabel(f"limit on {names[1]}")
    ax.set_ylabel(f"least {names[0]}")
    if ax.get_legend_handles_labels()[1]:
        ax.legend()
    return ax


def _stacked(n: int, height: float) -> Any:
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(n, 1, figsize=(7, height * n), layout="constrained", squeeze=False)
    del figure
    return axes[:, 0]


def plot_averages(grid: Any, averages: Floats, limits: Sequence[float | None], names: Sequence[str]) -> Any:
    """The averages (m + 1, G) so far of a run, one axes per cost, with its limit."""
    axes = _stacked(len(names), 1.9)
    for ax, average, limit, name in zip(axes, averages, limits, names, strict=True):
        ax.plot(grid, average, color=COLOR)
        if limit is not None:
            ax.axhline(limit, color=LIMIT_COLOR, linestyle="--", label="limit")
            ax.legend(loc="upper right")
        ax.set_ylabel(f"average {name}")
    axes[-1].set_xlabel("steps")
    return axes


def plot_intervals(policies: dict[str, Any], limits: Sequence[float | None], names: Sequence[str]) -> Any:
    """Averages and intervals of policies, one axes per cost, with its limit.

    Args:
        policies: by what they are called, average_costs (m + 1,) and intervals (m + 1, 2).
        limits: of each cost, None where there is none.
        names: of the costs.
    """
    axes = _stacked(len(names), 1.3)
    colors = [OLD_COLOR, COLOR]
    for i, (ax, limit, name) in enumerate(zip(axes, limits, names, strict=True)):
        for y, (found, color) in enumerate(zip(policies.values(), colors, strict=True)):
            low, high = found.intervals[i]
            ax.plot([low, high], [y, y], color=color, linewidth=3, solid_capstyle="butt", alpha=0.6)
            ax.plot(found.average_costs[i], y, "o", color=color)
        if limit is not None:
            ax.axvline(limit, color=LIMIT_COLOR, linestyle="--", label="limit")
            ax.legend(loc="upper right")
        ax.set_yticks(range(len(policies)), list(policies))
        ax.set_ylim(-0.6, len(policies) - 0.4)
        ax.set_xlabel(f"long-run average of {name}")
    return axes
