"""Gymnasium's small worlds with a limit each: the frozen lake, the cliff, the taxi.

An end leads to the start. The states are those that occur; with `full` also those that never do, as Gymnasium's tables
have them: the holes of the lake, the cells of the cliff, a taxi that has delivered. What a learner makes of states that
it never sees is its own affair.
"""

from __future__ import annotations

from typing import Any

from psconrl._core import checks
from psconrl.cmdp import CMDP
from psconrl.structure import restrict_to_reachable

_GOAL, _HOLES = 15, (5, 7, 11, 12)
_CLIFF, _END = -100, 47
_TOLL = (2, 3)


def frozen_lake(slippery: bool = True, tau: float = 0.005, full: bool = False) -> CMDP:
    """FrozenLake-v1: across the ice to the goal, with a limit on falls; 11 states, 16 in full.

        c_0 = 1[not at the goal]        time
        c_1 = 1[in a hole] <= tau       falls

    On slippery ice a step goes where it should, or to either side, each with probability 1/3.
    """
    costs = lambda s, a, x: (float(x != _GOAL), float(x in _HOLES))  # noqa: E731
    options = {"is_slippery": checks.flag(slippery, "slippery"), "map_name": "4x4"}
    return _table("FrozenLake-v1", costs, tau, ("left", "down", "right", "up"), ("time", "falls"), full, **options)


def cliff_walking(slippery: bool = False, tau: float = 0.01, full: bool = False) -> CMDP:
    """CliffWalking-v1: along a cliff to the goal, with a limit on falls; 37 states, 48 in full.

    c_0 = 1[not at the goal]              time
    c_1 = 1[over the cliff] <= tau        falls; they lead to the start
    """
    costs = lambda s, a, x, reward: (float(x != _END), float(reward == _CLIFF))  # noqa: E731
    options = {"is_slippery": checks.flag(slippery, "slippery")}
    return _table("CliffWalking-v1", costs, tau, ("up", "right", "down", "left"), ("time", "falls"), full, **options)


def taxi(tau: float = 0.03, full: bool = False) -> CMDP:
    """Taxi: passengers one after the other, and a limit on the toll of a cell that many ways lead through.

    c_0 is the reward, from 20 for a delivery to -10 for a false one, scaled to [0, 1]; c_1 = 1[drives onto row 2,
    column 3] <= tau. 400 states, 500 in full.
    """
    import gymnasium

    newest = max((name for name in gymnasium.registry if name.startswith("Taxi-v")), key=lambda name: int(name[6:]))
    city: Any = gymnasium.make(newest).unwrapped

    def costs(s: int, a: int, x: int, reward: float) -> tuple[float, float]:
        row, column, *_ = city.decode(x)
        return (20.0 - reward) / 30.0, float(a < 4 and (row, column) == _TOLL)

    actions = ("south", "north", "east", "west", "pick up", "drop off")
    return _table(newest, costs, tau, actions, ("fare missed", "toll"), full)


def _table(
    name: str, costs: Any, tau: float, actions: tuple[str, ...], names: tuple[str, ...], full: bool, **options: Any
) -> CMDP:
    import gymnasium

    tau = checks.fraction(tau, "tau")
    model = CMDP.from_gymnasium(gymnasium.make(name, **options), costs=costs, thresholds=[tau])
    model = model.replace(action_names=actions, cost_names=names)
    return model.to_sparse() if checks.flag(full, "full") else restrict_to_reachable(model).to_sparse()
