"""The panels of the paper's figures, and of the studies beyond it, from stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np

from psconrl.analysis import Group, Groups, Interval, curves, growth_exponent
from psconrl.report import Level, Line, Panel, agent_label, line, regret_column, runs_title, title
from reproduction import Floats, Ints, references
from reproduction.agents import ALGORITHM
from reproduction.measures import as_plotted
from reproduction.presets import Selected, select
from reproduction.settings import PAPER

Quantity = Literal["signed", "plotted"]
REGRET, VIOLATION = "Cumulative regret", "Cumulative violation"
_SETTINGS = {setting.env: setting for setting in PAPER}
_ZERO = (Level("", 0.0, "zero"),)
_FIRST = "First round of the window"


def _label(group: Group) -> str:
    """The agent; of those of the released code, the algorithm."""
    return ALGORITHM.get(group.agent) or agent_label(group)


def _plotted(group: Group) -> tuple[Ints, Floats]:
    """What the paper plots, over the first round of the window."""
    setting = _SETTINGS[group.env]
    times, values = as_plotted(group, setting.window, setting.level)
    return times - setting.window, values


def _column(groups: Sequence[Group], env: str, quantity: Quantity) -> list[Panel]:
    labels, name = [_label(group) for group in groups], title(env, groups[0].S)
    if quantity == "signed":
        return regret_column(groups, name, labels)
    panels = regret_column(groups, name, labels, _plotted, "smoothed, positive part")
    return [replace(panel, x_label=_FIRST) for panel in panels]


def regret_and_violation(preset: str, groups: Groups, quantity: Quantity) -> list[list[Panel]]:
    """Two rows, regret above violation; one column for each environment of a preset."""
    found = select(preset, groups)
    columns = [
        _column([f.group for f in found if f.cell.env == env], env, quantity)
        for env in dict.fromkeys(f.cell.env for f in found)
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def averages(groups: Groups) -> list[list[Panel]]:
    """Average reward above average consumption, smoothed as the paper does, with the levels of three policies."""
    found = select("authors", groups)
    columns = []
    for env in dict.fromkeys(f.cell.env for f in found):
        here = [f.group for f in found if f.cell.env == env]
        levels = references.levels(env)
        above, below = [], []
        for group in here:
            times, average = curves.moving_average(group, _SETTINGS[env].window)
            first = times - _SETTINGS[env].window
            above.append(line(_label(group), first, -average[:, 0]))
            below.append(line(_label(group), first, average[:, 1]))
        rewards = (
            Level("optimal", -levels.optimal[0], "optimal"),
            Level("fast", -levels.fast[0], "other"),
            Level("safe", -levels.safe[0], "other"),
        )
        limit = (Level("threshold", float(here[0].thresholds[0, 0]), "optimal"),)
        columns.append(
            [
                Panel(
                    runs_title(title(env, here[0].S), here), "Average reward\n(moving average)", above, rewards, _FIRST
                ),
                Panel("", "Average consumption\n(moving average)", below, limit, _FIRST),
            ]
        )
    return [list(row) for row in zip(*columns, strict=True)]


def counterexample(groups: Groups) -> list[list[Panel]]:
    """The toy: regret, violation and share of infeasible steps, side by side."""
    found = [f.group for f in select("counterexample", groups)]
    labels = [_label(group) for group in found]
    steps = [line(x, g.grid, curves.infeasible_steps(g) / g.grid) for x, g in zip(labels, found, strict=True)]
    regret = [line(x, g.grid, g.regret) for x, g in zip(labels, found, strict=True)]
    violation = [line(x, g.grid, g.violation[:, 0]) for x, g in zip(labels, found, strict=True)]
    return [
        [
            Panel(runs_title("Signed regret", found), REGRET, regret, _ZERO),
            Panel("Signed violation", VIOLATION, violation, _ZERO),
            Panel("Infeasible samples", "Share of steps so far", steps, y_limits=(0.0, 1.0)),
        ]
    ]


def feasibility(groups: Groups) -> list[list[Panel]]:
    """How many steps of infeasible episodes there were until each round, against sqrt(T)."""
    found = [f.group for f in select("feasibility", groups) if curves.infeasible_steps(f.group).any()]
    most = max((curves.infeasible_steps(group).mean(axis=0)[-1] for group in found), default=1.0)
    return [[_infeasible(group, (1.0, 3.0 * most)) for group in found]]


def _infeasible(group: Group, limits: tuple[float, float]) -> Panel:
    steps = curves.infeasible_steps(group)
    exponent = growth_exponent(group.grid, steps)
    fitted = _slope(exponent)
    lines = [line(_label(group), group.grid, steps), _root(group, steps)]
    name = f"{runs_title(title(group.env), [group])}, {fitted}"
    return Panel(name, "Infeasible steps so far", lines, logarithmic="both", y_limits=limits)


def _slope(exponent: Interval) -> str:
    # Adding 0 takes the sign from a rounded zero.
    mean, low, high = (round(x, 2) + 0.0 for x in (exponent.mean, exponent.low, exponent.high))
    return f"slope {mean:.2f} [{low:.2f}, {high:.2f}]".replace("-inf", "-∞")


def _root(group: Group, values: Floats) -> Line:
    """A guide that grows like sqrt(T) over the last tenfold of time, and ends where the mean of the runs does."""
    x = group.grid[int(np.searchsorted(group.grid, group.horizon / 10)) :].astype(np.float64)
    y = values[:, -1].mean() * np.sqrt(x / x[-1])
    return Line("slope 1/2", x, y, y, y)


def tractable(groups: Groups) -> list[list[Panel]]:
    """UCRL-CMDP beyond the smallest grid beside PSConRL: signed regret above signed violation."""
    columns = []
    for f in select("tractable", groups):
        beside = [g.group for g in select("figure-1", groups) if (g.cell.env, g.cell.agent) == (f.cell.env, "PSConRL")]
        columns.append(_column([*beside, f.group], f.cell.env, "signed"))
    return [list(row) for row in zip(*columns, strict=True)]


def bayesian(groups: Groups) -> list[list[Panel]]:
    """Pseudo-regret and signed violation in models drawn from the prior, against sqrt(T)."""
    return [[panel for f in select("bayesian", groups) for panel in _growth(f)]]


def _growth(found: Selected) -> list[Panel]:
    group = found.group
    regret, violation = curves.pseudo_regret(group), group.violation[:, 0]
    exponent = growth_exponent(group.grid, regret)
    fitted = _slope(exponent)
    lines = [line(_label(group), group.grid, regret), _root(group, regret)]
    return [
        Panel(f"Pseudo-regret, {fitted}", "Cumulative pseudo-regret", lines, logarithmic="both"),
        Panel(
            runs_title("Signed violation", [group]),
            VIOLATION,
            [line(_label(group), group.grid, violation)],
            _ZERO,
        ),
    ]
