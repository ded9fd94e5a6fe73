"""The settings of the paper's experiments, by agent and environment.

scaled     bonuses scale / sqrt(N), the scales those of the authors' last released code
own        the bonuses of the rivals' own papers, as PSConRL's paper says it uses
authors    what meets Figure 1 best among what the authors' code had at some time, with where each setting stands

PSConRL has no bonus, so `own` and `scaled` are the same for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from psconrl.experiments import Cell

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
    """The settings that meet a curve best, and where each stands; tried: how many were, the chosen one included."""

    settings: Mapping[str, Any]
    sources: tuple[Source, ...]
    tried: int


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
    ("marsrover-4x4", "PSConRL"): Found({"floor": 0.001}, (_FLOOR,), 3),
    ("marsrover-4x4", "ConRL"): Found(_SMALL, (_DRAWN, _DEFAULT), 3),
    ("marsrover-4x4", "C-UCRL"): Found({**_SMALL, "h": 20}, (_RUN_20, _DEFAULT), 3),
    ("marsrover-4x4", "UCRL-CMDP"): Found({**_SMALL, "h": 20}, (_RUN_20, _DEFAULT), 5),
    ("marsrover-8x8", "PSConRL"): Found({"floor": 0.001}, (_FLOOR,), 4),
    ("marsrover-8x8", "ConRL"): Found({**_SMALL, "impute": "self_loop"}, (_LOOPS, _DEFAULT), 3),
    ("marsrover-8x8", "C-UCRL"): Found({**_SMALL, "h": 20}, (_SHORT, _DEFAULT), 3),
    ("box", "PSConRL"): Found({"floor": 0.01}, (_OLD_FLOOR,), 2),
    ("box", "ConRL"): Found({"bonus": "simple", "scale": 0.5}, (_DRAWN, _BOX_SCALE), 2),
    ("box", "C-UCRL"): Found({"bonus": "simple", "scale": 0.1, "h": 1000}, (_RUN_1000, _README), 2),
}
"""The authors' set-up of every curve of Figure 1. States without occupancy act uniformly (lin_prog.py of c1d5cfd), and
episodes of PSConRL and ConRL end when a count has quadrupled (psrl2.py of c1d5cfd), as is the default of
`reproduction.agents`. No single commit has all of it."""


def cell_of(env: str, agent: str, horizon: int, extra: Mapping[str, Any] | None = None, **fields: Any) -> Cell:
    """An agent in an environment with scaled bonuses, and other settings in addition or instead."""
    return Cell(env, agent, horizon, settings=scaled(agent, env) | dict(extra or {}), **fields)
