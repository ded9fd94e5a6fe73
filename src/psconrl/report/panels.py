"""From stored runs to what is drawn: lines with intervals, levels and captions, without any drawing.

A panel is one pair of axes. Lines are means over runs with pointwise 95% bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.numbers import number
from psconrl.agents import catalogue
from psconrl.analysis import curves
from psconrl.analysis.groups import Group, Groups
from psconrl.analysis.statistics import band

TITLES = {
    "marsrover-4x4": "Marsrover 4x4",
    "marsrover-8x8": "Marsrover 8x8",
    "box": "Box",
    "toy": "Toy",
    "garnet": "Garnet",
    "dirichlet": "Dirichlet",
}
REGRET, VIOLATION = "Cumulative regret", "Cumulative violation"
DWARFED = 20
"""How many times larger the largest line of a panel must be for another to be shown enlarged."""
EARLY = 0.02
"""Share of a run before which its average so far says little, and would set the scale."""


@dataclass(frozen=True, eq=False)
class Line:
    """A mean (n,) at x (n,) with its interval; label: also what chooses colour and dashes; marker: of each point.

    directed: that the first marker is hollow, to tell it from the last.
    """

    label: str
    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    marker: Literal["", "o", "D"] = ""
    directed: bool = False


@dataclass(frozen=True)
class Level:
    """A horizontal line, named in the margin of the panel, or its caption."""

    label: str
    value: float
    kind: Literal["optimal", "other", "zero"]

    @property
    def text(self) -> str:
        """Its name and its value; nothing if it has no name."""
        return f"{self.label} {number(self.value)}" if self.label else ""


@dataclass(frozen=True, eq=False)
class Panel:
    """One pair of axes.

    symmetric: that numbers of both signs and all sizes are shown, so that pictures have axes that are logarithmic but
    near 0; the page, which can be zoomed, has plain ones.
    """

    title: str
    y_label: str
    lines: Sequence[Line]
    levels: Sequence[Level] = field(default_factory=tuple)
    x_label: str = "Rounds"
    logarithmic: Literal["", "x", "both"] = ""
    ticks: Sequence[tuple[float, str]] = field(default_factory=tuple)
    y_limits: tuple[float, float] | None = None
    symmetric: bool = False

    @property
    def empty(self) -> bool:
        """Whether it only fills a place."""
        return not (self.title or self.y_label or self.lines)

    @property
    def dwarfed(self) -> tuple[Line, ...]:
        """The lines that look flat beside the others, so that a part of the panel should show them enlarged."""
        sizes = [float(max(np.abs(line.low).max(), np.abs(line.high).max())) for line in self.lines]
        if self.logarithmic or self.symmetric or not sizes:
            return ()
        return tuple(line for line, size in zip(self.lines, sizes, strict=True) if 0 < size < max(sizes) / DWARFED)


def line(label: str, x: Floats | Ints, runs: Floats) -> Line:
    """The mean over runs, with its pointwise 95% bootstrap interval.

    Args:
        label: the name in the legend, by which colour and dashes are chosen.
        x: (n,), the times.
        runs: (R, n), a curve for each run.

    Returns:
        The line.
    """
    return Line(label, np.asarray(x, dtype=np.float64), *band(runs))


def title(env: str, states: int | None = None) -> str:
    """The environment's name in captions; of Box, which has two versions, with the number of its states."""
    return TITLES.get(env, env) + (f", {states} states" if env == "box" and states else "")


def runs_title(name: str, groups: Sequence[Group]) -> str:
    """A caption with the number of runs behind each line."""
    counts = sorted({group.runs for group in groups})
    numbers = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    return f"{name} ({numbers} run{'s' if counts[-1] > 1 else ''})"


def agent_label(group: Group) -> str:
    """The agent, with the setting that tells it from others of its kind."""
    rule = group.settings.get("infeasible", "uniform")
    return group.agent if rule == "uniform" else f"{group.agent} ({rule})"


def overview(groups: Groups) -> list[list[Panel]]:
    """Signed regret above signed violation of any stored cells; one column for each environment."""
    return _rows([regret_column(found, title(name, found[0].S), _distinct(found)) for name, found in _by_world(groups)])


def uses(groups: Groups) -> list[list[Panel]]:
    """Averages so far of any stored cells, the main cost above the limits; one column for each environment."""
    return _rows([[_use(found, name, i) for i in range(found[0].m + 1)] for name, found in _by_world(groups)])


def prices(groups: Groups) -> list[list[Panel]]:
    """Shadow prices in the plans of any stored cells, a panel for each limit; one column for each environment."""
    columns = []
    for name, found in _by_world(groups):
        priced = [
            (label, group, prices)
            for label, group in zip(_distinct(found), found, strict=True)
            if np.isfinite(prices := curves.prices(group)).any()
        ]
        if priced:
            columns.append([_price(priced, name, i) for i in range(found[0].m)])
    return _rows(columns)


def _price(priced: Sequence[tuple[str, Group, Floats]], env: str, limit: int) -> Panel:
    """The price of a limit in the plans, with that in the true model where all runs share it."""
    groups = [group for _, group, _ in priced]
    lines = []
    for label, group, prices in priced:
        settled = group.grid >= EARLY * group.horizon
        lines.append(line(label, group.grid[settled], prices[:, limit, settled]))
    true, *others = dict.fromkeys(price for group in groups for price in group.multipliers[:, limit].tolist())
    levels = [] if others or not np.isfinite(true) else [Level("in truth", true, "optimal")]
    caption = "" if limit else runs_title(title(env, groups[0].S), groups)
    return Panel(caption, f"Price of {groups[0].cost_names[limit + 1]}\n(in plans)", lines, levels)


def _by_world(groups: Groups) -> list[tuple[str, list[Group]]]:
    """The groups of each environment, with its name; agents in the order in which psconrl lists them."""
    known = list(catalogue.registry())
    found: dict[str, list[Group]] = {}
    for group in sorted(groups.values(), key=lambda g: known.index(g.agent) if g.agent in known else len(known)):
        found.setdefault(group.label.rsplit(" / ", 1)[0], []).append(group)
    return list(found.items())


def _use(groups: Sequence[Group], env: str, cost: int) -> Panel:
    """The average of a cost so far, with the level that it is held against where all runs share it."""
    lines = []
    for label, group in zip(_distinct(groups), groups, strict=True):
        settled = group.grid >= EARLY * group.horizon
        lines.append(line(label, group.grid[settled], group.cumulative[:, cost, settled] / group.grid[settled]))
    level, *others = dict.fromkeys(level for group in groups for level in curves.levels(group)[:, cost].tolist())
    levels = []
    if not others and np.isfinite(level):
        levels = [Level("limit" if cost else "optimum", level, "optimal")]
    name = groups[0].cost_names[cost]
    return Panel(
        "" if cost else runs_title(title(env, groups[0].S), groups), f"{name}\n(average so far)", lines, levels
    )


Curves = Callable[[Group], tuple[Ints, Floats]]
"""Of a group: times (n,) and values (R, m + 1, n), regret in row 0 and violations in the others."""


def regret_column(
    groups: Sequence[Group],
    name: str,
    labels: Sequence[str] | None = None,
    values: Curves | None = None,
    kind: str = "signed",
) -> list[Panel]:
    """A column of panels: regret above the violation of each limit.

    Args:
        groups: the runs of some agents in one environment.
        name: of the environment, for the caption.
        labels: of the lines; the agents' names by default.
        values: what is drawn; signed regret and violation by default.
        kind: what the values are, in words.

    Returns:
        1 + m panels.
    """
    labels = labels or [agent_label(group) for group in groups]
    above: list[Line] = []
    below: list[list[Line]] = []
    for label, group in zip(labels, groups, strict=True):
        times, sums = values(group) if values else (group.grid, curves.signed(group))
        above.append(line(label, times, sums[:, 0]))
        below.append([line(label, times, sums[:, i]) for i in range(1, group.m + 1)])
    zero = () if values else (Level("", 0.0, "zero"),)
    names = groups[0].cost_names[1:]
    limits = [VIOLATION if len(names) == 1 else f"Violation of {name}" for name in names]
    return [
        Panel(runs_title(name, groups), f"{REGRET}\n({kind})", above, zero),
        *(
            Panel("", f"{limit}\n({kind})", list(lines), zero)
            for limit, lines in zip(limits, zip(*below, strict=True), strict=True)
        ),
    ]


def _rows(columns: Sequence[Sequence[Panel]]) -> list[list[Panel]]:
    """Columns of panels as rows; shorter ones end with empty places."""
    return [list(row) for row in zip_longest(*columns, fillvalue=Panel("", "", ()))]


def _distinct(groups: Sequence[Group]) -> list[str]:
    """A label for each; the settings and horizon are added where agents repeat."""
    labels = [agent_label(group) for group in groups]
    return [
        label
        if labels.count(label) == 1
        else f"{label} {', '.join(f'{k}={v}' for k, v in sorted(g.settings.items()))} T={g.horizon:,}"
        for label, g in zip(labels, groups, strict=True)
    ]
