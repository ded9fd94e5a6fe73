"""The paper's experiments by name, at the paper's scale or, quick, at a fraction of it; all their numbers are here.

A preset is declared once: its cells, its figures and their headings; the command and the report read it here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any

from psconrl.analysis import Group, Groups
from psconrl.errors import UnknownNameError
from psconrl.experiments import Cell, Experiment
from reproduction.agents import ALGORITHM
from reproduction.settings import (
    CLOSE,
    FEW,
    HERO,
    MANY,
    OPTIMISTIC,
    OWN,
    RIVALS,
    SMALLEST,
    TRIED,
    Setting,
    algorithms,
    cell_of,
    everywhere,
    reachable,
    released_cell,
    settings_of,
)

Cells = list[tuple[Cell, int]]
"""Cells with their numbers of runs."""


@dataclass(frozen=True)
class Figure:
    """A figure of a preset: its file, and its heading and explanation in the report.

    panels: the function of `reproduction.panels` that makes its panels of the stored runs, and arguments, what it takes
    besides those. closed: whether it opens on demand only, and is not printed.
    """

    name: str
    heading: str
    text: str
    panels: str
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    closed: bool = False


@dataclass(frozen=True)
class Preset:
    """An experiment with a name: what to run, quick or not, and what to draw of it."""

    name: str
    description: str
    build: Callable[[bool], Cells] | None = None
    figures: tuple[Figure, ...] = ()

    @cache  # noqa: B019  presets live as long as the process
    def experiment(self, quick: bool = False) -> Experiment | None:
        """Cells and numbers of runs; None if nothing is to be run."""
        if self.build is None:
            return None
        cells, seeds = zip(*self.build(quick), strict=True)
        return Experiment(self.name, cells, seeds)


_PRESETS: dict[str, Preset] = {}


def register(preset: Preset) -> None:
    """Add a preset: `python -m reproduction` runs and draws it; the report has a section for each of its figures."""
    _PRESETS[preset.name] = preset


def presets() -> Mapping[str, Preset]:
    """All presets by name."""
    return MappingProxyType(_PRESETS)


def find(name: str) -> Preset:
    """The preset of that name; UnknownNameError suggests the nearest."""
    if name not in _PRESETS:
        raise UnknownNameError("preset", name, _PRESETS)
    return _PRESETS[name]


def _all(
    settings: Iterable[Setting],
    agents: Callable[[str], Iterable[str]],
    extra: Mapping[str, Any] | None = None,
    few: bool = True,
    **fields: Any,
) -> Cells:
    """Agents in gridworlds, with as many runs as the figure has there, or few on Box; fields: further ones of cells."""
    return [
        (s.cell(agent, extra, **fields), min(s.runs, FEW) if few and s.env == "box" else s.runs)
        for s in settings
        for agent in agents(s.env)
    ]


def authors(quick: bool) -> Cells:
    """Figure 1 in the authors' set-up."""
    here = [(setting, agent) for setting in settings_of(quick) for agent in algorithms(setting.env)]
    return [(released_cell(setting, agent), _runs(setting, agent, {}, quick)) for setting, agent in here]


def tried(quick: bool) -> Cells:
    """What else was tried."""
    found = {s.env: s for s in settings_of(quick)}
    return [
        (released_cell(found[x.env], x.agent, x.change), _runs(found[x.env], x.agent, x.change, quick)) for x in TRIED
    ]


def _runs(setting: Setting, agent: str, change: Mapping[str, Any], quick: bool) -> int:
    """As many as the figure has of the authors' set-up and of floors; of other changes few."""
    if not quick and (setting.env, agent) == CLOSE and change.get("floor", 0.0) < 0.01:
        return MANY
    all_runs = not change or ("floor" in change and setting.env != "box")
    return setting.runs if all_runs else min(setting.runs, FEW)


def own_radius(quick: bool) -> Cells:
    """UCRL-CMDP with the radius of its paper, costs estimated and known."""
    both = [_all(reachable(quick), lambda _: (OPTIMISTIC,), OWN, costs=costs) for costs in ("estimated", "known")]
    return [(cell, min(runs, FEW)) for cells in both for cell, runs in cells]


def stochastic(quick: bool) -> Cells:
    """The gridworlds with slippery moves."""
    return _all(reachable(quick)[: 1 if quick else None], algorithms, env_options={"slip": 0.1})


def counterexample(quick: bool) -> Cells:
    """What becomes of infeasible samples in the toy."""
    agents = [("PSConRL", {"infeasible": "uniform"}), ("PSConRL", {"infeasible": "explore"}), ("CMDP-PSRL", {})]
    return [(cell_of("toy", agent, 1_500, x, costs="known"), 10 if quick else 200) for agent, x in agents]


def bayesian(quick: bool) -> Cells:
    """PSConRL in models drawn from its prior, another one in each run."""
    cell = cell_of(
        "dirichlet",
        "PSConRL",
        5_000 if quick else 100_000,
        {"prior": 0.5},
        env_options={"S": 10, "A": 3, "prior": 0.5},
        costs="known",
        evaluate_policies=True,
        seed_option="draw",
    )
    return [(cell, 5 if quick else 100)]


def feasibility(quick: bool) -> Cells:
    """How infeasible samples cease."""
    # The toy's margin is 0.0012: most of its samples are infeasible by chance for tens of thousands of steps, and
    # shorter runs would show nothing of how they cease. Garnets of the default size have far larger margins than
    # asked for (0.14 in the median) and no infeasible sample at all; with 5 states and 2 actions most have 0.05.
    horizon, runs = 100_000, 5 if quick else 50
    garnet: dict[str, Any] = {"env_options": {"S": 5, "A": 2, "margin": 0.05}, "seed_option": "seed"}
    return [
        (cell_of("toy", "PSConRL", horizon, costs="known"), runs),
        (cell_of("garnet", "PSConRL", horizon, costs="known", **garnet), runs),
    ]


def table_1(quick: bool) -> Cells:
    """The algorithms of the paper's table of bounds, on the smallest grid."""
    smallest = settings_of(quick)[0]
    few = {OPTIMISTIC: 30, "FHA": 1 if quick else 30}
    agents = ("C-UCRL", OPTIMISTIC, "FHA", "CMDP-PSRL", "PSConRL")
    return [(smallest.cell(agent), min(smallest.runs, few.get(agent, smallest.runs))) for agent in agents]


def _curves(name: str, preset: str, quantity: str, heading: str, text: str, closed: bool = False) -> Figure:
    """Regret above violation of all agents of a preset, signed or as plotted."""
    return Figure(name, heading, text, "regret_and_violation", {"preset": preset, "quantity": quantity}, closed)


_AUTHORS = (
    "As the paper plots it: the positive part of the moving average's excess, summed in each run, then averaged over "
    "runs. Settings that the authors' code had at some time; Box has all 121 states."
)
_PRINTED = (
    "The same sums for the papers' algorithms. The rivals' bonuses are scaled down, as in the authors' code; Box has "
    "the 60 states that can be reached."
)
_SIGNED = (
    "Sums of (cost − optimum) and of (cost − limit). Gains pay for losses: an agent that breaks the limit can have "
    "negative regret, so read the two together."
)
_APPENDIX = (
    "In the authors' set-up: moving averages of reward and consumption, with the levels of the optimal, the fast and "
    "the safe policy."
)
_KNOWN = (
    "The theory takes costs to be known, the experiments estimate them. Estimates are 0 where nothing was seen, so "
    "that a part of all exploration comes from pairs thought free because never tried."
)
_TRACTABLE = "UCRL-CMDP where the paper calls it computationally inefficient, beside PSConRL; signed."
_INFEASIBLE = "Steps in episodes whose sampled model admits no policy, against sqrt(T)."
_TOY = "Two states, a limit that can just be met: what becomes of infeasible samples."

for _preset in (
    Preset(
        "authors",
        "Figure 1 and the appendix figure in the authors' set-up",
        authors,
        (
            _curves("figure-1-authors", "authors", "plotted", "Figure 1 in the authors' set-up", _AUTHORS),
            Figure("figure-appendix", "The appendix figure", _APPENDIX, "averages"),
        ),
    ),
    Preset("tried", "what else was tried to meet the published curves", tried),
    Preset(
        "figure-1",
        "the algorithms as printed, bonuses scaled: regret and violation in the three gridworlds",
        lambda quick: _all(reachable(quick), algorithms, few=False),
        (
            _curves("figure-1", "figure-1", "plotted", "The algorithms as printed", _PRINTED),
            _curves("figure-1-signed", "figure-1", "signed", "The same runs, signed", _SIGNED, True),
        ),
    ),
    Preset(
        "own-bonuses",
        "the rivals with the bonuses of their own papers",
        lambda quick: _all(everywhere(quick), lambda env: algorithms(env)[1:], OWN),
    ),
    Preset(
        "box-121",
        "the algorithms as printed, bonuses scaled, on all 121 states of Box",
        lambda quick: _all(settings_of(quick)[-1:], algorithms),
    ),
    Preset(
        "recommended",
        "the library's recommended agent, where Figure 1 shows the others",
        lambda quick: _all(everywhere(quick), lambda _: ("Recommended",)),
    ),
    Preset(
        "stochastic",
        "the gridworlds with slippery moves",
        stochastic,
        (_curves("stochastic", "stochastic", "signed", "Slippery moves, signed", _SIGNED, True),),
    ),
    Preset("environments", "pictures of the maps with the optimal policies"),
    Preset(
        "known-costs",
        "Figure 1 with known costs, as the theory has it; UCRL-CMDP everywhere",
        lambda quick: _all(reachable(quick), lambda _: (HERO, *RIVALS, OPTIMISTIC), costs="known"),
        (_curves("known-costs", "known-costs", "signed", "Figure 1 with known costs, signed", _KNOWN, True),),
    ),
    Preset("own-radius", "UCRL-CMDP with the radius of its paper, costs estimated and known", own_radius),
    Preset("theory", "the terms of the paper's proof, measured in its own setting"),
    Preset(
        "bayesian",
        "models drawn from the learner's prior, as the theorem asks",
        bayesian,
        (Figure("bayesian", "The theorem's setting", "Every run has a model drawn from the prior.", "bayesian"),),
    ),
    Preset(
        "feasibility",
        "how long sampled models stay infeasible",
        feasibility,
        (Figure("feasibility", "Infeasible samples", _INFEASIBLE, "feasibility"),),
    ),
    Preset(
        "counterexample",
        "infeasible samples in the toy of two states",
        counterexample,
        (Figure("counterexample", "The counterexample", _TOY, "counterexample"),),
    ),
    Preset("table-1", "the algorithms of the paper's table of bounds", table_1),
    Preset(
        "tractable",
        "UCRL-CMDP beyond the smallest grid",
        lambda quick: _all((s for s in reachable(quick) if s.env != SMALLEST), lambda _: (OPTIMISTIC,)),
        (Figure("tractable", "Beyond the smallest grid", _TRACTABLE, "tractable", closed=True),),
    ),
):
    register(_preset)


@dataclass(frozen=True, eq=False)
class Selected:
    """A cell of a preset, its runs, and the horizon and number of runs at the paper's scale."""

    cell: Cell
    group: Group
    horizon: int
    runs: int


def select(preset: str, groups: Groups) -> list[Selected]:
    """The stored cells of a preset, in its order; the scale is chosen for each environment as a whole."""
    asked = {quick: find(preset).experiment(quick) for quick in (False, True)}
    full, quick = asked[False], asked[True]
    if full is None or quick is None:
        return []
    paper = {(cell.env, cell.agent): (cell.horizon, n) for cell, n in zip(full.cells, full.seeds, strict=True)}
    chosen: list[Selected] = []
    for env in dict.fromkeys(cell.env for cell in full.cells):
        for experiment in (full, quick):
            found = [cell for cell in experiment.cells if cell.env == env and cell.id in groups]
            if found:
                chosen += [Selected(cell, groups[cell.id], *paper[cell.env, cell.agent]) for cell in found]
                break
    return chosen


def by_agent(preset: str, groups: Groups) -> dict[tuple[str, str], Selected]:
    """The stored cells of a preset by environment and algorithm."""
    return {(s.cell.env, ALGORITHM.get(s.cell.agent, s.cell.agent)): s for s in select(preset, groups)}
