"""The settings of the paper's experiments, by agent and environment: ours, and those of the authors' code.

The authors' released code has changed since Figure 1 was made. `authors` puts settings of several states of it
together: at the figure's commit states without occupancy acted uniformly; the scales are those of an earlier tag, the
floor that of the last state. Scales and floor were chosen among these because they come nearest to the published
values.
"""

from typing import Any

from psconrl.agents.catalogue import canonical
from psconrl.environments import find
from psconrl.errors import UnknownNameError

# The settings of the authors' experiments: bonus scales and h from their released code, the prior from the paper.
_SCALE = {"marsrover-4x4": 0.1, "marsrover-8x8": 0.1, "box": 0.5}
_SPAN = {"marsrover-4x4": 1.8, "marsrover-8x8": 3.8, "box": 6.0}
"""Of the optimal policy's cost bias in the model, which FHA is to know: `psconrl.structure.bias_span`."""
_H = {"marsrover-4x4": 50, "marsrover-8x8": 120, "box": 1000}


def preset(agent_name: str, env_name: str) -> dict[str, Any]:
    """The settings of the paper's experiments for an agent in an environment; {} where there are none."""
    agent, env = canonical(agent_name), find(env_name).name
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


_AUTHORS_SCALE = {"marsrover-4x4": 0.01, "marsrover-8x8": 0.01, "box": 0.5}


def authors(agent_name: str, env_name: str) -> dict[str, Any]:
    """Settings that the authors' code had at some time, chosen as said above; Box has all of its 121 states there."""
    agent, env = canonical(agent_name), find(env_name).name
    if env not in _AUTHORS_SCALE:
        raise UnknownNameError("environment of Figure 1", env_name, _AUTHORS_SCALE)
    simple = {"bonus": "simple", "scale": _AUTHORS_SCALE[env]}
    as_was = {"clip": False, "elsewhere": "uniform"}
    settings: dict[str, dict[str, Any]] = {
        "PSConRL": {"floor": 0.05, "episodes": "quadrupling", "elsewhere": "uniform"},
        "ConRL": {**simple, **as_was, "impute": "dirichlet", "episodes": "quadrupling"},
        "C-UCRL": {**simple, **as_was, "impute": "self-loop", "h": _H[env]},
        "UCRL-CMDP": {**simple, "h": _H[env]},
    }
    if agent not in settings:
        raise UnknownNameError("agent of Figure 1", agent_name, settings)
    return settings[agent]
