"""Panels, the pairs of axes that figures are made of, and the panels that every report has.

Lines are means over runs with pointwise 95% bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Literal

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.numbers import number, plural
from psconrl.analysis import curves
from psconrl.analysis.groups import Group
from psconrl.analysis.statistics import band
from psconrl.report.environments import EnvironmentRuns, agent_label

EARLY = 0.02
"""Share of a run before which its average so far says little, and would set the scale."""


@dataclass(frozen=True, eq=False)
class Line:
    """A mean with its interval.

    Args:
        label: the name in the legend, by which color and dashes are chosen.
        x: (n,), where the points are.
        mean: (n,), nan where there is none.
        low: (n,), the lower end of the interval.
        high: (n,), the upper end.
        marker: of each point; a line without markers by default.
    """

    label: str
    x: Floats
    mean: Floats
    low: Floats
    high: Floats
    marker: Literal["", "o", "D"] = ""


@dataclass(frozen=True)
class Level:
    """A horizontal line.

    Args:
        label: its name, written beside the panel with its value; nothing is written if it has none.
        value: where it lies.
        kind: how it is drawn.
    """

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

    Args:
        title: a line above it.
        y_label: what is drawn, one or two lines.
        lines: the curves.
        levels: horizontal lines.
        x_label: what the curves are drawn over.
        logarithmic: which axes are logarithmic.
        ticks: places on the x axis with their texts; chosen automatically by default.
        y_limits: the ends of the y axis; chosen automatically by default.
    """

    title: str
    y_label: str
    lines: Sequence[Line]
    levels: Sequence[Level] = ()
    x_label: str = "Steps"
    logarithmic: Literal["", "x", "both"] = ""
    ticks: Sequence[tuple[float, str]] = ()
    y_limits: tuple[float, float] | None = None

    @property
    def empty(self) -> bool:
        """Whether it only fills a place."""
        return not (self.title or self.y_label or self.lines)


PanelRows = Sequence[Sequence[Panel]]
"""A figure: rows of panels, as many in each row."""


def line(label: str, x: Floats | Ints, runs: Floats) -> Line:
    """The mean over runs, with its pointwise 95% bootstrap interval.

    Args:
        label: the name in the legend, by which color and dashes are chosen.
        x: (n,), the times.
        runs: (R, n), a curve for each run.

    Returns:
        The line.
    """
    return Line(label, np.asarray(x, dtype=np.float64), *band(runs))


def runs_title(name: str, groups: Sequence[Group]) -> str:
    """A caption with the number of runs behind each line.

    Args:
        name: what the caption says first.
        groups: the runs of each line.

    Returns:
        For instance "Toy (20 runs)".
    """
    counts = sorted({group.runs for group in groups})
    fewest = "" if len(counts) == 1 else f"{counts[0]} to "
    return f"{name} ({fewest}{plural(counts[-1], 'run')})"


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
    drawn = [values(group) if values else (group.grid, group.signed) for group in groups]
    limits = groups[0].cost_names[1:]
    names = ["Cumulative regret"]
    names += ["Cumulative violation"] if len(limits) == 1 else [f"Violation of {limit}" for limit in limits]
    return [
        Panel(
            "" if i else runs_title(name, groups),
            f"{what}\n({kind})",
            [line(label, times, sums[:, i]) for label, (times, sums) in zip(labels, drawn, strict=True)],
            () if values else (Level("", 0.0, "zero"),),
        )
        for i, what in enumerate(names)
    ]


def overview(environments: Sequence[EnvironmentRuns]) -> PanelRows:
    """Signed regret above signed violation; a column for each environment."""
    return _rows([regret_column(env.groups, env.title, env.labels) for env in environments])


def averages(environments: Sequence[EnvironmentRuns]) -> PanelRows:
    """The average of each cost so far, the main cost above the limits; a column for each environment."""
    return _rows([[_average(env, i) for i in range(env.groups[0].m + 1)] for env in environments])


def prices(environments: Sequence[EnvironmentRuns]) -> PanelRows:
    """Shadow prices in the plans, a panel for each limit; a column for each environment whose agents know prices."""
    columns = []
    for env in environments:
        priced = [(agent.label, agent.group, curves.prices(agent.group)) for agent in env.agents]
        priced = [entry for entry in priced if np.isfinite(entry[2]).any()]
        if priced:
            columns.append([_price(priced, env.title, i) for i in range(env.groups[0].m)])
    return _rows(columns)


def _average(env: EnvironmentRuns, cost: int) -> Panel:
    """The average of a cost so far, with the level that it is held against where all runs share it."""
    lines = [
        _settled(agent.label, agent.group, agent.group.cumulative[:, cost] / agent.group.grid) for agent in env.agents
    ]
    level = _shared(np.concatenate([group.levels[:, cost] for group in env.groups]))
    return Panel(
        "" if cost else runs_title(env.title, env.groups),
        f"{env.groups[0].cost_names[cost]}\n(average so far)",
        lines,
        [Level("limit" if cost else "optimum", level, "optimal")] if np.isfinite(level) else [],
    )


def _price(priced: Sequence[tuple[str, Group, Floats]], title: str, limit: int) -> Panel:
    """The price of a limit in the plans, with that in the true model where all runs share it."""
    groups = [group for _, group, _ in priced]
    true = _shared(np.concatenate([group.multipliers[:, limit] for group in groups]))
    return Panel(
        "" if limit else runs_title(title, groups),
        f"Price of {groups[0].cost_names[limit + 1]}\n(in plans)",
        [_settled(label, group, found[:, limit]) for label, group, found in priced],
        [Level("true", true, "optimal")] if np.isfinite(true) else [],
    )


def _settled(label: str, group: Group, runs: Floats) -> Line:
    """The line of some curves (R, G) without the first steps."""
    settled = group.grid >= EARLY * group.horizon
    return line(label, group.grid[settled], runs[:, settled])


def _shared(values: Floats) -> float:
    """The value that all have; nan if they differ."""
    return float(values[0]) if (values == values[0]).all() else np.nan


def _rows(columns: Sequence[Sequence[Panel]]) -> list[list[Panel]]:
    """Columns of panels as rows; shorter ones end with empty places."""
    return [list(row) for row in zip_longest(*columns, fillvalue=Panel("", "", ()))]
