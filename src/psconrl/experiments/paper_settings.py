"""The settings of the paper's experiments, by agent and environment."""

from typing import Any

from psconrl.agents.catalogue import canonical
from psconrl.environments import find

# The settings of the authors' experiments: bonus scales and h from their released code, the prior from the paper.
_SCALE = {"marsrover-4x4": 0.1, "marsrover-8x8": 0.1, "box": 0.5}
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
            "FHA": {"H": 50, **simple},
        }
    if env == "toy":
        # Only theta is unknown: Beta(1, 1) on it, every other move is known.
        theta_only = {"prior": (((1.0, 0.0), (1.0, 1.0)), ((1.0, 0.0), (1.0, 0.0)))}
        settings |= {"PSConRL": theta_only, "CMDP-PSRL": theta_only, "TSDE": theta_only}
    return dict(settings.get(agent, {}))
