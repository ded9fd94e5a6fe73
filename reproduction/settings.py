"""The paper's gridworlds and the settings of the agents in them, at the paper's scale or at a fraction of it.

A figure's x-axis is the first round of the moving window, so its curves cover the rounds up to the last window's end:
900 and 2,000 rounds beyond the 5,000 and 20,000 of the axis, while on Box they end 9,000 rounds before the run does.

The settings of an agent are

scaled     bonuses scale / sqrt(N), the scales those of the authors' last released code
own        the bonuses of the rivals' own papers, as PSConRL's paper says it uses
authors    what meets Figure 1 best among what the authors' code had at some time, with where each setting stands

PSConRL has no bonus, so `own` and `scaled` are the same for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from psconrl.experiments import Cell
from reproduction.agents import RELEASED


@dataclass(frozen=True)
class Setting:
    """One gridworld of the paper's experiments; horizon, window and spacing of checkpoints in rounds.

    options: of the environment; the authors' Box has all 121 pairs of cells, of which 60 can be reached.
    level: the optimum that the figure holds regret against, if it is not the optimum.
    """

    env: str
    name: str
    horizon: int
    runs: int
    window: int
    spacing: int
    options: Mapping[str, Any] = field(default_factory=dict)
    level: float | None = None

    def cell(self, agent: str, extra: Mapping[str, Any] | None = None, **fields: Any) -> Cell:
        """An agent here with our settings, and others in addition or instead."""
        given: dict[str, Any] = {"checkpoints": self.horizon // self.spacing, "env_options": dict(self.options)}
        return cell_of(self.env, agent, self.horizon, extra, **(given | fields))


BOX_LEVEL = 0.8479
"""What the authors' plot script takes for the optimum of Box, which is 0.845."""

WHOLE: Mapping[str, Any] = {"full": True}

PAPER = (
    Setting("marsrover-4x4", "Marsrover 4x4", 5_900, 100, 900, 10),
    Setting("marsrover-8x8", "Marsrover 8x8", 22_000, 30, 2_000, 20),
    Setting("box", "Box, 121 states", 500_000, 30, 9_000, 1_000, WHOLE, BOX_LEVEL),
)
"""The three columns of the paper's figures."""

QUICK = (
    Setting("marsrover-4x4", "Marsrover 4x4", 1_500, 5, 900, 10),
    Setting("marsrover-8x8", "Marsrover 8x8", 2_500, 1, 2_000, 20),
    Setting("box", "Box, 121 states", 10_000, 1, 9_000, 1_000, WHOLE, BOX_LEVEL),
)

FEW = 10
"""Runs on Box of what no figure of the paper shows: they take longest."""

MANY = 100
CLOSE = ("marsrover-8x8", "PSConRL")
"""The curve that two floors come close to, and how many runs of each tell them apart."""

HERO = "PSConRL"
RIVALS = ("ConRL", "C-UCRL")
"""The rivals that the paper runs everywhere; UCRL-CMDP on the smallest grid alone."""

OPTIMISTIC = "UCRL-CMDP"
SMALLEST = "marsrover-4x4"


def settings_of(quick: bool) -> tuple[Setting, ...]:
    """The gridworlds as the authors had them, at the paper's scale or at a fraction of it."""
    return QUICK if quick else PAPER


def reachable(quick: bool) -> tuple[Setting, ...]:
    """The same, but Box with the 60 states that can be reached: there it is communicating, as the theory asks."""
    return tuple(
        Setting(s.env, "Box, 60 states", s.horizon, s.runs, s.window, s.spacing, level=s.level) if s.options else s
        for s in settings_of(quick)
    )


def everywhere(quick: bool) -> tuple[Setting, ...]:
    """The gridworlds, Box with all states and with those that can be reached."""
    return (*settings_of(quick), reachable(quick)[-1])


def algorithms(env: str) -> tuple[str, ...]:
    """The agents that the paper's Figure 1 shows in an environment."""
    return (HERO, *RIVALS, *([OPTIMISTIC] if env == SMALLEST else []))


_SCALE = {"marsrover-4x4": 0.1, "marsrover-8x8": 0.1, "box": 0.5}
_SPAN = {"marsrover-4x4": 1.8, "marsrover-8x8": 3.8, "box": 6.0}
"""Of the optimal policy's cost bias in the model, which FHA is to know: `psconrl.structure.bias_span`."""
_H = {"marsrover-4x4": 50, "marsrover-8x8": 120, "box": 1000}


def scaled(agent: str, env: str) -> dict[str, Any]:
    """The settings of an agent in an environment, bonuses scaled; {} where there are none."""
    settings: dict[str, dict[str, Any]] = {"PSConRL": {"prior": 0.01}}
    if env in _SCALE:
        simple = {"bonus": "simple", "scale": _SCALE[env]}
        settings |= {
            "ConRL": simple,
            "C-UCRL": {"h": _H[env], **simple},
            "UCRL-CMDP": simple,
            "FHA": {"H": 50, "span": _SPAN[env], **simple},
        }
    if env == "toy":
        # Only theta is unknown: Beta(1, 1) on it, every other move is known.
        theta_only = {"prior": (((1.0, 0.0), (1.0, 1.0)), ((1.0, 0.0), (1.0, 0.0)))}
        settings |= {"PSConRL": theta_only, "CMDP-PSRL": theta_only, "TSDE": theta_only}
    return dict(settings.get(agent, {}))


OWN: Mapping[str, Any] = {"bonus": "original", "scale": 1.0}
"""The bonus of a rival's own paper."""


class Source(NamedTuple):
    """Where a setting stands in the authors' public repository: commit, its date, file, what it says there."""

    commit: str
    date: str
    file: str
    text: str


class Found(NamedTuple):
    """The settings that meet a curve best, and where each stands."""

    settings: Mapping[str, Any]
    sources: tuple[Source, ...]


_FLOOR = Source("c3b0c52", "2023-08-26", "src/codebase/algs/psrl2.py", "floor 0.001")
_OLD_FLOOR = Source("c1d5cfd", "2023-05-15", "src/codebase/algs/psrl2.py", "floor 0.01")
_DRAWN = Source("c1d5cfd", "2023-05-15", "src/codebase/algs/psrl2.py", "pairs never visited: Dirichlet(1)")
_LOOPS = Source("c1d5cfd", "2023-05-15", "src/codebase/algs/psrl2.py", "pairs never visited: self-loop, commented out")
_DEFAULT = Source("c1d5cfd", "2023-05-15", "src/codebase/args.py", "scale 0.01, the default")
_BOX_SCALE = Source("2f205e1", "2022-09-14", "README.md", "scale 0.5")
_README = Source("c1d5cfd", "2023-05-15", "README.md", "scale 0.1")
_SHORT = Source("c3b0c52", "2023-08-26", "src/run_bonusterm.py", "h = 20")
_RUN_20 = Source("c1d5cfd", "2023-05-15", "src/run.py", "h = 20")
_RUN_1000 = Source("c1d5cfd", "2023-05-15", "src/run.py", "h = 1,000")

_SMALL = {"bonus": "simple", "scale": 0.01}
AUTHORS: Mapping[tuple[str, str], Found] = {
    ("marsrover-4x4", "PSConRL"): Found({"floor": 0.001}, (_FLOOR,)),
    ("marsrover-4x4", "ConRL"): Found(_SMALL, (_DRAWN, _DEFAULT)),
    ("marsrover-4x4", "C-UCRL"): Found({**_SMALL, "h": 20}, (_RUN_20, _DEFAULT)),
    ("marsrover-4x4", "UCRL-CMDP"): Found({**_SMALL, "h": 20}, (_RUN_20, _DEFAULT)),
    ("marsrover-8x8", "PSConRL"): Found({"floor": 0.001}, (_FLOOR,)),
    ("marsrover-8x8", "ConRL"): Found({**_SMALL, "impute": "self_loop"}, (_LOOPS, _DEFAULT)),
    ("marsrover-8x8", "C-UCRL"): Found({**_SMALL, "h": 20}, (_SHORT, _DEFAULT)),
    ("box", "PSConRL"): Found({"floor": 0.01}, (_OLD_FLOOR,)),
    ("box", "ConRL"): Found({"bonus": "simple", "scale": 0.5}, (_DRAWN, _BOX_SCALE)),
    ("box", "C-UCRL"): Found({"bonus": "simple", "scale": 0.1, "h": 1000}, (_RUN_1000, _README)),
}
"""The authors' set-up of every curve of Figure 1. States without occupancy act uniformly (lin_prog.py of c1d5cfd), and
episodes of PSConRL and ConRL end when a count has quadrupled (psrl2.py of c1d5cfd), as is the default of
`reproduction.agents`. No single commit has all of it."""


def cell_of(env: str, agent: str, horizon: int, extra: Mapping[str, Any] | None = None, **fields: Any) -> Cell:
    """An agent in an environment with scaled bonuses, and other settings in addition or instead."""
    return Cell(env, agent, horizon, settings=scaled(agent, env) | dict(extra or {}), **fields)


def released_cell(setting: Setting, agent: str, change: Mapping[str, Any] | None = None) -> Cell:
    """An algorithm as the authors had it for Figure 1, and what is changed of it."""
    given = {**AUTHORS[setting.env, agent].settings, **(change or {})}
    plain = setting.cell(RELEASED[agent])
    return Cell(
        plain.env,
        plain.agent,
        plain.horizon,
        env_options=plain.env_options,
        settings=given,
        checkpoints=plain.checkpoints,
    )


class Tried(NamedTuple):
    """One change of the authors' set-up of a curve, in words."""

    env: str
    agent: str
    text: str
    change: Mapping[str, Any]


TRIED = (
    Tried("marsrover-4x4", "PSConRL", "floor 0.01", {"floor": 0.01}),
    Tried("marsrover-4x4", "PSConRL", "floor 0.05", {"floor": 0.05}),
    Tried("marsrover-4x4", "ConRL", "scale 0.1", {"scale": 0.1}),
    Tried("marsrover-4x4", "ConRL", "self-loops", {"impute": "self_loop"}),
    Tried("marsrover-4x4", "C-UCRL", "scale 0.1", {"scale": 0.1}),
    Tried("marsrover-4x4", "C-UCRL", "h = 50", {"h": 50}),
    Tried("marsrover-4x4", OPTIMISTIC, "h = 50", {"h": 50}),
    Tried("marsrover-4x4", OPTIMISTIC, "scale 0.1", {"scale": 0.1}),
    Tried("marsrover-4x4", OPTIMISTIC, "scale 0.5", {"scale": 0.5}),
    Tried("marsrover-4x4", OPTIMISTIC, "scale 1", {"scale": 1.0}),
    Tried("marsrover-8x8", "PSConRL", "floor 0.0005", {"floor": 0.0005}),
    Tried("marsrover-8x8", "PSConRL", "floor 0.01", {"floor": 0.01}),
    Tried("marsrover-8x8", "PSConRL", "floor 0.05", {"floor": 0.05}),
    Tried("marsrover-8x8", "ConRL", "Dirichlet(1)", {"impute": "dirichlet"}),
    Tried("marsrover-8x8", "ConRL", "scale 0.1", {"scale": 0.1}),
    Tried("marsrover-8x8", "C-UCRL", "h = 200", {"h": 200}),
    Tried("marsrover-8x8", "C-UCRL", "scale 0.1", {"scale": 0.1}),
    Tried("box", "PSConRL", "floor 0.001", {"floor": 0.001}),
    Tried("box", "ConRL", "self-loops", {"impute": "self_loop"}),
    Tried("box", "C-UCRL", "scale 0.5", {"scale": 0.5}),
)
"""What else was tried to meet the published curves, with few runs each; floors on 8x8 with all, as four pictures show
them."""
