"""What a stored run says about its model, so that a report needs nothing but the store.

Names, the actions of each state where they differ, map, the optimal policy, and the exact averages of the plans on the
way, as JSON values. A policy is written state by state: the number of an action that is taken for sure, or else the
probabilities of all actions in thousandths. Models too large to be looked at are not described.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from psconrl._core.checks import Floats
from psconrl.cmdp import CMDP, Layout
from psconrl.environments.grid import ACTIONS
from psconrl.learning.run import Snapshot
from psconrl.planning import Solution, evaluate

DESCRIBED = 2500
"""Models with more states are not described."""
EVALUATED = 500
"""Plans are evaluated exactly in models with at most this many states."""
_SURE = 0.9995


def describe(cmdp: CMDP, solution: Solution, snapshots: Sequence[Snapshot]) -> dict[str, Any] | None:
    """The description of a run's model and of its plans; None if the model is too large."""
    if cmdp.S > DESCRIBED:
        return None
    drawn = cmdp.layout is not None and cmdp.action_names == ACTIONS
    return {
        "states": list(cmdp.state_names),
        "actions": list(cmdp.action_names),
        "available": None if cmdp.pairs.every else [np.flatnonzero(own).tolist() for own in cmdp.available],
        "map": _map(cmdp.layout, cmdp.initial) if drawn and cmdp.layout is not None else None,
        "optimal": {
            "policy": encoded(solution.policy),
            "share": [round(float(x), 5) for x in evaluate(cmdp, solution.policy).stationary],
            "averages": [rounded(x) for x in solution.average_costs],
        },
        "averages": [_averages(cmdp, snapshot.policy) for snapshot in snapshots],
    }


def _map(layout: Layout, initial: Floats) -> dict[str, Any]:
    content: dict[str, Any] = {"rows": list(layout.rows), "agent": layout.agent.tolist(), "box": None}
    if layout.box is not None:
        start = layout.box[int(np.argmax(initial))].tolist()
        places = [list(place) for place in dict.fromkeys(map(tuple, layout.box.tolist()))]
        places.sort(key=lambda place: (place != start, place))
        content |= {"box": layout.box.tolist(), "places": places}
    return content


def _averages(cmdp: CMDP, policy: Floats) -> list[float | None] | None:
    """The exact long-run averages of a stationary policy (1, S, A) in the true model."""
    if len(policy) > 1 or cmdp.S > EVALUATED:
        return None
    return [rounded(x) for x in evaluate(cmdp, policy[0]).average_costs @ cmdp.initial]


def encoded(policy: Floats) -> list[int | list[int]]:
    """A policy (S, A), state by state."""
    sure = policy.max(axis=1) >= _SURE
    return [
        int(row.argmax()) if certain else [round(1000 * float(p)) for p in row]
        for row, certain in zip(policy, sure, strict=True)
    ]


def rounded(value: float) -> float | None:
    """A number for JSON; None if it is not finite."""
    return round(float(value), 6) if np.isfinite(value) else None
