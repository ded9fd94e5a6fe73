"""The settings of the paper's experiments, by agent and environment: ours, and those of the authors' code.

The authors' released code has changed since Figure 1 was made. `released` puts settings of several states of it
together: at the figure's commit states without occupancy acted uniformly; the scales are those of an earlier tag, the
floor that of the last state. Scales and floor were chosen among these because they come nearest to the published
values.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psconrl.errors import UnknownNameError
from psconrl.experiments import Cell
from reproduction.agents import RELEASED

# Bonus scales and h of the authors' released code, the prior of the paper.
_SCALE = {"marsrover-4x4": 0.1, "marsrover-8x8": 0.1, "box": 0.5}
_SPAN = {"marsrover-4x4": 1.8, "marsrover-8x8": 3.8, "box": 6.0}
"""Of the optimal policy's cost bias in the model, which FHA is to know: `psconrl.structure.bias_span`."""
_H = {"marsrover-4x4": 50, "marsrover-8x8": 120, "box": 1000}


def ours(agent: str, env: str) -> dict[str, Any]:
    """The settings of the paper's experiments for an agent in an environment; {} where there are none."""
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


_RELEASED_SCALE = {"marsrover-4x4": 0.01, "marsrover-8x8": 0.01, "box": 0.5}


def released(agent: str, env: str) -> dict[str, Any]:
    """Settings that the authors' code had at some time, chosen as said above; Box has all of its 121 states there."""
    if env not in _RELEASED_SCALE:
        raise UnknownNameError("environment of Figure 1", env, _RELEASED_SCALE)
    simple = {"bonus": "simple", "scale": _RELEASED_SCALE[env]}
    settings: dict[str, dict[str, Any]] = {
        "PSConRL": {},
        "ConRL": simple,
        "C-UCRL": {**simple, "h": _H[env]},
        "UCRL-CMDP": {**simple, "h": _H[env]},
    }
    if agent not in settings:
        raise UnknownNameError("agent of Figure 1", agent, settings)
    return settings[agent]


def cell_of(env: str, agent: str, horizon: int, extra: Mapping[str, Any] | None = None, **fields: Any) -> Cell:
    """An agent in an environment with our settings, and others in addition or instead."""
    return Cell(env, agent, horizon, settings=ours(agent, env) | dict(extra or {}), **fields)


def released_cell(env: str, agent: str, horizon: int, settings: Mapping[str, Any], options: Mapping[str, Any]) -> Cell:
    """An algorithm as the released code has it."""
    return Cell(env, RELEASED[agent], horizon, env_options=options, settings=settings)
