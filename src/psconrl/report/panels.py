"""From stored runs to what is drawn: lines with intervals, levels and captions, without any drawing.

A panel is one pair of axes. Lines are means over runs with pointwise 95% bootstrap intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl.agents import catalogue
from psconrl.analysis import curves, ranking, references
from psconrl.analysis.groups import Group, Groups
from psconrl.analysis.selection import Selected, select
from psconrl.analysis.statistics import Interval, band, growth_exponent, mean_interval, number
from psconrl.analysis.tuning import complete
from psconrl.experiments import presets

Quantity = Literal["signed", "plotted"]

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
KINDS = {"signed": "signed", "plotted": "smoothed, positive part"}


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
    """The mean of curves (R, n) with its interval."""
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


def regret_and_violation(preset: str, groups: Groups, quantity: Quantity) -> list[list[Panel]]:
    """Two rows, regret above violation; one column for each environment of a preset."""
    found = select(preset, groups)
    columns = [
        _column([f.group for f in found if f.cell.env == env], env, quantity)
        for env in dict.fromkeys(f.cell.env for f in found)
    ]
    return [list(row) for row in zip(*columns, strict=True)]


def overview(groups: Groups) -> list[list[Panel]]:
    """Signed regret above signed violation of any stored cells; one column for each environment."""
    return _rows([_column(found, name, "signed", _distinct(found)) for name, found in _by_world(groups)])


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


def _column(groups: Sequence[Group], env: str, quantity: Quantity, labels: Sequence[str] | None = None) -> list[Panel]:
    labels = labels or [agent_label(group) for group in groups]
    above: list[Line] = []
    below: list[list[Line]] = []
    for label, group in zip(labels, groups, strict=True):
        if quantity == "signed":
            times, values = group.grid, curves.signed(group)
        else:
            times, values = curves.as_plotted(group, presets.window(group.env))
        above.append(line(label, times, values[:, 0]))
        below.append([line(label, times, values[:, i]) for i in range(1, group.m + 1)])
    zero = (Level("", 0.0, "zero"),) if quantity == "signed" else ()
    kind = f"\n({KINDS[quantity]})"
    names = groups[0].cost_names[1:]
    limits = [VIOLATION if len(names) == 1 else f"Violation of {name}" for name in names]
    return [
        Panel(runs_title(title(env, groups[0].S), groups), REGRET + kind, above, zero),
        *(
            Panel("", name + kind, list(lines), zero)
            for name, lines in zip(limits, zip(*below, strict=True), strict=True)
        ),
    ]


def averages(groups: Groups) -> list[list[Panel]]:
    """Average reward above average consumption, smoothed as the paper does, with the levels of three policies."""
    found = select("figure-appendix", groups)
    columns = []
    for env in dict.fromkeys(f.cell.env for f in found):
        here = [f.group for f in found if f.cell.env == env]
        levels = references.levels(env, tuple(sorted(here[0].env_options[0].items())))
        above, below = [], []
        for group in here:
            times, average = curves.moving_average(group, presets.window(env))
            above.append(line(agent_label(group), times, 1 - average[:, 0]))
            below.append(line(agent_label(group), times, average[:, 1]))
        rewards = (
            Level("optimal", 1 - levels.optimal[0], "optimal"),
            Level("fast", 1 - levels.fast[0], "other"),
            Level("safe", 1 - levels.safe[0], "other"),
        )
        limit = (Level("threshold", float(here[0].thresholds[0, 0]), "optimal"),)
        columns.append(
            [
                Panel(runs_title(title(env, here[0].S), here), "Average reward\n(moving average)", above, rewards),
                Panel("", "Average consumption\n(moving average)", below, limit),
            ]
        )
    return [list(row) for row in zip(*columns, strict=True)]


def counterexample(groups: Groups) -> list[list[Panel]]:
    """The toy: regret, violation and share of infeasible steps, side by side."""
    found = [f.group for f in select("counterexample", groups)]
    zero = (Level("", 0.0, "zero"),)
    labels = [agent_label(group) for group in found]
    steps = [line(x, g.grid, curves.infeasible_steps(g) / g.grid) for x, g in zip(labels, found, strict=True)]
    regret = [line(x, g.grid, curves.regret(g)) for x, g in zip(labels, found, strict=True)]
    violation = [line(x, g.grid, curves.violation(g)[:, 0]) for x, g in zip(labels, found, strict=True)]
    return [
        [
            Panel(runs_title("Signed regret", found), REGRET, regret, zero),
            Panel("Signed violation", VIOLATION, violation, zero),
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
    lines = [line(agent_label(group), group.grid, steps), _root(group, steps)]
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


def bayesian(groups: Groups, preset: str = "bayesian") -> list[list[Panel]]:
    """Pseudo-regret and signed violation in models drawn from the prior, against sqrt(T)."""
    return [[panel for f in select(preset, groups) for panel in _growth(f)]]


def _growth(found: Selected) -> list[Panel]:
    group = found.group
    regret, violation = curves.pseudo_regret(group), curves.violation(group)[:, 0]
    exponent = growth_exponent(group.grid, regret)
    fitted = _slope(exponent)
    lines = [line(agent_label(group), group.grid, regret), _root(group, regret)]
    return [
        Panel(f"Pseudo-regret, {fitted}", "Cumulative pseudo-regret", lines, logarithmic="both"),
        Panel(
            runs_title("Signed violation", [group]),
            VIOLATION,
            [line(agent_label(group), group.grid, violation)],
            (Level("", 0.0, "zero"),),
        ),
    ]


def beyond(groups: Groups) -> list[list[Panel]]:
    """The mean rank of every agent over all worlds of the preset, by each measure."""
    ranked = ranking.ranking(groups)
    if not ranked:
        return []
    places = np.arange(len(ranking.MEASURES), dtype=np.float64)
    lines = [
        Line(agent, places, np.array(ranks), np.array(ranks), np.array(ranks), "o")
        for agent, ranks, _ in ranking.mean_ranks(ranked)
    ]
    ticks = list(zip(places.tolist(), ranking.MEASURES, strict=True))
    name = f"Mean rank in {len(ranked)} worlds"
    return [[Panel(name, "Mean rank, 1 is the best", lines, x_label="Ranked by", ticks=ticks)]]


def planes(groups: Groups) -> list[list[Panel]]:
    """Signed regret against [V]+ at the horizon, a point for each setting; without slip above, with slip below."""
    found = complete(groups)
    slips = sorted({float(f.cell.env_options.get("slip", 0.0)) for f in found})
    return [[_plane(found, env, slip) for env in dict.fromkeys(f.cell.env for f in found)] for slip in slips]


def _plane(found: Sequence[Selected], env: str, slip: float) -> Panel:
    here = [f for f in found if f.cell.env == env and float(f.cell.env_options.get("slip", 0.0)) == slip]
    lines = []
    for agent in dict.fromkeys(f.cell.agent for f in here):
        mine = [f.group for f in here if f.cell.agent == agent]
        x = np.array([curves.positive_violation(group)[:, 0, -1].mean() for group in mine])
        y = np.array([curves.regret(group)[:, -1].mean() for group in mine])
        lines.append(Line(agent, x, y, y, y, "o", directed=True))
    name = title(env, here[0].group.S) + (f", slip {slip:g}" if slip else "")
    return Panel(
        runs_title(name, [f.group for f in here]),
        "Signed regret",
        lines,
        (Level("", 0.0, "zero"),),
        x_label="[V]+, the positive part of the violation",
        symmetric=True,
    )


def bonus(groups: Groups) -> list[list[Panel]]:
    """Signed regret and violation at the horizon of the rivals against the scale of their bonus."""
    found = select("bonus", groups)
    if not found:
        return []
    where = title(found[0].cell.env)
    return [
        [_bonus(found, i, f"{name}, {where}", name) for i, name in enumerate(("Signed regret", "Signed violation"))]
    ]


def _bonus(found: Sequence[Selected], cost: int, name: str, y_label: str) -> Panel:
    scaled = [f for f in found if f.cell.settings.get("bonus") == "simple"]
    scales = sorted({float(f.cell.settings["scale"]) for f in scaled})
    published = scales[-1] * 5  # where on the axis the bonus stands that has no such scale
    lines = [
        _ends(agent_label(f.group), [(x, f) for x in (scales[0], published)], cost)
        for f in found
        if "scale" not in f.cell.settings
    ]
    for k, agent in enumerate(dict.fromkeys(f.cell.agent for f in scaled)):
        # Side by side, so that equal values do not hide each other.
        place = published * 1.15 ** (k - 1)
        here = sorted((float(f.cell.settings["scale"]), i) for i, f in enumerate(scaled) if f.cell.agent == agent)
        lines.append(_ends(agent, [(x, scaled[i]) for x, i in here], cost, "o"))
        lines += [
            _ends(f"{agent}, published bonus", [(place, f)], cost, "D")
            for f in found
            if f.cell.agent == agent and f.cell.settings.get("bonus") == "published"
        ]
    ticks = [(x, f"{x:g}") for x in scales] + [(published, "published")]
    x_label = f"Scale of the bonus (T = {found[0].group.horizon:,})"
    return Panel(name, y_label, lines, (Level("", 0.0, "zero"),), x_label, "x", ticks)


def _ends(label: str, points: Sequence[tuple[float, Selected]], cost: int, marker: Literal["", "o", "D"] = "") -> Line:
    """Signed quantities at the horizon, at the given places."""
    values = [mean_interval(curves.signed(f.group)[:, cost, -1]) for _, f in points]
    mean, low, high = (np.array([getattr(v, k) for v in values]) for k in ("mean", "low", "high"))
    bounded = np.isfinite(low) & np.isfinite(high)
    low, high = np.where(bounded, low, mean), np.where(bounded, high, mean)
    return Line(label, np.array([x for x, _ in points]), mean, low, high, marker)
