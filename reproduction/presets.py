"""The paper's experiments by name, at the paper's scale or, quick, at a fraction of it; all their numbers are here.

A preset is declared once, at the end of this file: its cells, its figures and their headings; the command and the
report read it here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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

SLIP = 0.1
SCALES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class Figure:
    """A figure of a preset: its file, and its heading and explanation in the report.

    panels: what makes its panels of the stored runs: a function of them, or the name of one in `reproduction.panels`.
    arguments: what that function takes besides the groups of stored runs, by name.
    closed: whether it opens on demand only, and is not printed.
    """

    name: str
    heading: str
    text: str
    panels: str | Callable[..., Any]
    arguments: Mapping[str, Any] = field(default_factory=dict, hash=False)
    closed: bool = False


@dataclass(frozen=True)
class Preset:
    """An experiment with a name: what to run, quick or not, and what to draw of it.

    by_default: whether it belongs to what is run if no preset is named.
    """

    name: str
    description: str
    build: Callable[[bool], list[tuple[Cell, int]]] | None = None
    figures: tuple[Figure, ...] = ()
    by_default: bool = True

    @cache  # noqa: B019  presets live as long as the process
    def experiment(self, quick: bool = False) -> Experiment | None:
        """Cells and numbers of runs; None if nothing is to be run."""
        if self.build is None:
            return None
        cells, seeds = zip(*self.build(quick), strict=True)
        return Experiment(self.name, cells, seeds)


def presets() -> Mapping[str, Preset]:
    """All presets by name."""
    return MappingProxyType(_PRESETS)


def find(name: str) -> Preset:
    """The preset of that name; UnknownNameError suggests the nearest."""
    if name not in _PRESETS:
        raise UnknownNameError("preset", name, _PRESETS)
    return _PRESETS[name]


def gridworlds(quick: bool, extra: Mapping[str, Any] | None = None, **fields: Any) -> list[tuple[Cell, int]]:
    """All that Figure 1 shows, with its numbers of runs; fields: further ones of each cell."""
    return [
        (setting.cell(agent, extra, **fields), setting.runs)
        for setting in reachable(quick)
        for agent in algorithms(setting.env)
    ]


def fewer(cells: list[tuple[Cell, int]]) -> list[tuple[Cell, int]]:
    """The same with few runs on Box."""
    return [(cell, min(runs, FEW) if cell.env == "box" else runs) for cell, runs in cells]


def authors(quick: bool) -> list[tuple[Cell, int]]:
    """Figure 1 in the authors' set-up."""
    return [
        (released_cell(setting, agent), _runs(setting, agent, {}, quick))
        for setting in settings_of(quick)
        for agent in algorithms(setting.env)
    ]


def own_bonuses(quick: bool) -> list[tuple[Cell, int]]:
    """The rivals with the bonuses of their own papers."""
    return fewer(
        [
            (setting.cell(agent, OWN), setting.runs)
            for setting in everywhere(quick)
            for agent in algorithms(setting.env)
            if agent != "PSConRL"
        ]
    )


def all_states(quick: bool) -> list[tuple[Cell, int]]:
    """The algorithms as printed, bonuses scaled, on the authors' Box of 121 states."""
    box = settings_of(quick)[-1]
    return fewer([(box.cell(agent), box.runs) for agent in algorithms(box.env)])


def recommended(quick: bool) -> list[tuple[Cell, int]]:
    """The agent that needs no tuning, where Figure 1 shows the others."""
    return fewer([(setting.cell("Recommended"), setting.runs) for setting in everywhere(quick)])


def others(quick: bool) -> list[tuple[Cell, int]]:
    """The agents that no figure of the paper shows, where it shows the others."""
    agents = ("CMDP-PSRL", "TSDE", "Uniform", "Optimal")
    return fewer([(setting.cell(agent), setting.runs) for setting in reachable(quick) for agent in agents])


def known_costs(quick: bool) -> list[tuple[Cell, int]]:
    """Figure 1 with known costs, as the theory has it; UCRL-CMDP everywhere."""
    return fewer(
        [
            (setting.cell(agent, costs="known"), setting.runs)
            for setting in reachable(quick)
            for agent in ("PSConRL", *RIVALS, OPTIMISTIC)
        ]
    )


def tractable(quick: bool) -> list[tuple[Cell, int]]:
    """UCRL-CMDP beyond the smallest grid, where the paper does not run it."""
    larger = [setting for setting in reachable(quick) if setting.env != SMALLEST]
    return fewer([(setting.cell(OPTIMISTIC), setting.runs) for setting in larger])


def tried(quick: bool) -> list[tuple[Cell, int]]:
    """What else was tried."""
    settings = {setting.env: setting for setting in settings_of(quick)}
    return [
        (
            released_cell(settings[one.env], one.agent, one.change),
            _runs(settings[one.env], one.agent, one.change, quick),
        )
        for one in TRIED
    ]


def _runs(setting: Setting, agent: str, change: Mapping[str, Any], quick: bool) -> int:
    """As many as the figure has of the authors' set-up and of floors; of other changes few."""
    if not quick and (setting.env, agent) == CLOSE and change.get("floor", 0.0) < 0.01:
        return MANY
    all_runs = not change or ("floor" in change and setting.env != "box")
    return setting.runs if all_runs else min(setting.runs, FEW)


def _stochastic(quick: bool) -> list[tuple[Cell, int]]:
    cells = fewer(gridworlds(quick, env_options={"slip": SLIP}))
    return [(cell, runs) for cell, runs in cells if cell.env == SMALLEST] if quick else cells


def _counterexample(quick: bool) -> list[tuple[Cell, int]]:
    runs = 10 if quick else 200
    agents: list[tuple[str, dict[str, Any]]] = [
        ("PSConRL", {"infeasible": "uniform"}),
        ("PSConRL", {"infeasible": "explore"}),
        ("CMDP-PSRL", {}),
    ]
    return [(cell_of("toy", agent, 1_500, extra, costs="known"), runs) for agent, extra in agents]


def _drawn(quick: bool, prior: float | str, costs: str, extra: Mapping[str, Any]) -> list[tuple[Cell, int]]:
    """PSConRL in models drawn from its prior, another one in each run."""
    cell = cell_of(
        "dirichlet",
        "PSConRL",
        5_000 if quick else 100_000,
        {"prior": prior, **extra},
        env_options={"S": 10, "A": 3, "prior": prior},
        costs=costs,
        evaluate_policies=True,
        seed_option="draw",
    )
    return [(cell, 5 if quick else 100)]


def _bayesian(quick: bool) -> list[tuple[Cell, int]]:
    return _drawn(quick, 0.5, "known", {})


def _bayesian_learned(quick: bool) -> list[tuple[Cell, int]]:
    # Steered: most of the models drawn are nearly deterministic, with optima in classes that do not meet. Costs are
    # estimated: with known ones nothing invites to look for states never seen.
    return _drawn(quick, "learned", "estimated", {"execution": "steered"})


def _feasibility(quick: bool) -> list[tuple[Cell, int]]:
    # The toy's margin is 0.0012: most of its samples are infeasible by chance for tens of thousands of steps, and
    # shorter runs would show nothing of how they cease. Garnets of the default size have far larger margins than
    # asked for (0.14 in the median) and no infeasible sample at all; with 5 states and 2 actions most have 0.05.
    horizon, runs = 100_000, 5 if quick else 50
    garnet: dict[str, Any] = {"env_options": {"S": 5, "A": 2, "margin": 0.05}, "seed_option": "seed"}
    return [
        (cell_of("toy", "PSConRL", horizon, costs="known"), runs),
        (cell_of("garnet", "PSConRL", horizon, costs="known", **garnet), runs),
    ]


def _bonus(quick: bool) -> list[tuple[Cell, int]]:
    setting = settings_of(quick)[0]
    cells = [(setting.cell("PSConRL"), setting.runs)]
    variants = [{"bonus": "simple", "scale": scale} for scale in (SCALES[::2] if quick else SCALES)]
    variants.append({"bonus": "original", "scale": 1.0})
    for agent in (*RIVALS, OPTIMISTIC):
        runs = min(setting.runs, 30)
        cells += [(setting.cell(agent, variant), runs) for variant in variants]
    return cells


def _table_1(quick: bool) -> list[tuple[Cell, int]]:
    setting = settings_of(quick)[0]
    few = 1 if quick else 30
    all_runs = setting.runs
    runs = {"C-UCRL": all_runs, OPTIMISTIC: min(all_runs, 30), "FHA": few, "CMDP-PSRL": all_runs, "PSConRL": all_runs}
    return [(setting.cell(agent), n) for agent, n in runs.items()]


def register(preset: Preset) -> None:
    """Add a preset: `python -m reproduction` runs and draws it; the report has a section for each of its figures."""
    _PRESETS[preset.name] = preset


def _curves(name: str, preset: str, quantity: str, heading: str, text: str, closed: bool = False) -> Figure:
    """Regret above violation of all agents of a preset, signed or as plotted."""
    return Figure(name, heading, text, "regret_and_violation", {"preset": preset, "quantity": quantity}, closed)


_AUTHORS = (
    "As the paper plots it: the positive part of the moving average's excess, summed in each run, then averaged over "
    "runs. Settings that the authors' code had at some time; Box has all 121 states."
)
_PRINTED = (
    "The same sums. The rivals' bonuses are scaled down, as in the authors' code; Box has the 60 states that can be "
    "reached."
)
_SIGNED = (
    "Sums of (cost − optimum) and of (cost − limit). Gains pay for losses: an agent that breaks the limit can have "
    "negative regret, so read the two together."
)
_APPENDIX = "Moving averages of reward and consumption, with the levels of the optimal, the fast and the safe policy."
_KNOWN = (
    "The theory takes costs to be known, the experiments estimate them. Estimates are 0 where nothing was seen, so "
    "that a part of all exploration comes from pairs thought free because never tried."
)
_LEARNED = (
    "Every run has hyperparameters drawn from their grids, and a model drawn from the prior they make; the learner "
    "knows the grids alone."
)
_TRACTABLE = "UCRL-CMDP where the paper calls it computationally inefficient, beside PSConRL; signed."
_INFEASIBLE = "Steps in episodes whose sampled model admits no policy, against sqrt(T)."

_PRESETS: dict[str, Preset] = {}
for _preset in (
    Preset(
        "authors",
        "Figure 1 in the authors' set-up",
        authors,
        (_curves("authors-as-plotted", "authors", "plotted", "Figure 1 in the authors' set-up", _AUTHORS),),
    ),
    Preset(
        "figure-1",
        "the algorithms as printed, bonuses scaled: regret and violation in the three gridworlds",
        gridworlds,
        (
            _curves(
                "figure-1-as-plotted",
                "figure-1",
                "plotted",
                "The algorithms as printed, as the paper plots it",
                _PRINTED,
            ),
            _curves("figure-1-signed", "figure-1", "signed", "The same runs, signed", _SIGNED, True),
        ),
    ),
    Preset(
        "figure-appendix",
        "the same runs: average reward and consumption",
        gridworlds,
        (Figure("figure-appendix", "The appendix figure", _APPENDIX, "averages"),),
    ),
    Preset("own-bonuses", "the rivals with the bonuses of their own papers", own_bonuses),
    Preset("box-121", "the algorithms as printed on all 121 states of Box", all_states),
    Preset("recommended", "the library's recommended agent, where Figure 1 shows the others", recommended),
    Preset("tried", "what else was tried to meet the published curves", tried),
    Preset(
        "known-costs",
        "Figure 1 with known costs, as the theory has it",
        known_costs,
        (_curves("known-costs-signed", "known-costs", "signed", "Figure 1 with known costs, signed", _KNOWN, True),),
    ),
    Preset("environments", "pictures of the maps with the optimal policies"),
    Preset(
        "stochastic",
        f"the gridworlds with slip {SLIP}",
        _stochastic,
        (
            _curves("stochastic-signed", "stochastic", "signed", "Slippery moves, signed", _SIGNED, True),
            _curves(
                "stochastic-as-plotted",
                "stochastic",
                "plotted",
                "Slippery moves, as the paper plots it",
                "The same runs, smoothed, positive part.",
                True,
            ),
        ),
    ),
    Preset(
        "counterexample",
        "infeasible samples in the toy of two states",
        _counterexample,
        (
            Figure(
                "counterexample",
                "The counterexample",
                "Two states, a limit that can just be met: what becomes of infeasible samples.",
                "counterexample",
            ),
        ),
    ),
    Preset(
        "bayesian",
        "models drawn from the learner's prior, as the theorem asks",
        _bayesian,
        (Figure("bayesian", "The theorem's setting", "Every run has a model drawn from the prior.", "bayesian"),),
    ),
    Preset(
        "bayesian-learned",
        "the same with a prior that is learned, and models drawn from it",
        _bayesian_learned,
        (
            Figure(
                "bayesian-learned",
                "The theorem's setting, with a learned prior",
                _LEARNED,
                "bayesian",
                {"preset": "bayesian-learned"},
                closed=True,
            ),
        ),
    ),
    Preset(
        "feasibility",
        "how long sampled models stay infeasible",
        _feasibility,
        (Figure("feasibility", "Infeasible samples", _INFEASIBLE, "feasibility"),),
    ),
    Preset(
        "bonus",
        "the rivals against the scale of their bonus",
        _bonus,
        (
            Figure(
                "bonus",
                "The rivals against the scale of their bonus",
                "Regret and violation at the horizon.",
                "bonus",
                closed=True,
            ),
        ),
    ),
    Preset("theory", "the terms of the paper's proof, measured in its own setting"),
    Preset("table-1", "the algorithms of the paper's table of bounds", _table_1),
    Preset("others", "the agents that no figure shows, in the paper's environments", others, by_default=False),
    Preset(
        "tractable",
        "UCRL-CMDP beyond the smallest grid",
        tractable,
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
