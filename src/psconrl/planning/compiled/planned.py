"""The border between Python and the compiled planners.

Kernels get plain tuples and fill arrays that they are given: a named tuple takes half a microsecond to be recognised,
and so does every array to come back. All of a plan in 16 states takes 20.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl.planning.compiled.generation import Optimum
from psconrl.planning.compiled.master import Limits, Master
from psconrl.planning.compiled.pricing import Columns, Mixture, Start, mix
from psconrl.planning.compiled.rows import Rows

NO_LEVELS: Floats = np.zeros(0)

Kernel = Callable[[Any, Floats, Floats, Any, Any, int, Any], tuple[int, float, float, float, int]]


class Planned(NamedTuple):
    """What a planner found: the optimum (see `generation.Optimum`), its mixture, and the bias (S,) of the last policy.

    largest: number in the inverse, from which the laws of the mixture come; 0 if they come from elsewhere. last (S,):
    the first policy of the mixture; where sparse factors found none, the one that they had come to.
    """

    status: int
    objective: float
    bound: float
    largest: float
    multipliers: Floats
    bias: Floats
    mixture: Mixture
    last: Ints

    @property
    def optimum(self) -> Optimum:
        """The optimum, of the columns that are in the mixture."""
        weights = self.mixture.weights
        master = Master(np.arange(len(weights)), weights, np.zeros(0))
        return Optimum(self.status, self.objective, self.bound, self.multipliers, master)

    @property
    def columns(self) -> Columns:
        """The columns that are in the mixture."""
        J, laws, policies, weights = self.mixture
        return Columns(J, laws, policies, np.array([len(weights)]))


def call(kernel: Kernel, rows: Rows, costs: Floats, limits: Limits, start: Start, goal: int, levels: Floats) -> Planned:
    """Plan by a kernel; levels (K,) are added to c_0 to decide between equals, or (0,) for none."""
    n, S = len(costs), len(rows.begin) - 1
    multipliers, bias, room = np.empty(n - 1), np.empty(S), _room(n, n, S)
    into = multipliers, bias, *room
    status, objective, bound, largest, count = kernel(
        tuple(rows), costs, levels, tuple(limits), tuple(start), goal, into
    )
    return Planned(status, objective, bound, largest, multipliers, bias, _filled(room, count), room.policies[0])


def mixture_of(columns: Columns, weights: Floats) -> Mixture:
    """The mixture of all of some columns that carry weight."""
    count, n = columns.J.shape
    room = _room(count, n, columns.laws.shape[1])
    return _filled(room, mix(columns, np.arange(count), weights, room))


def _room(count: int, n: int, S: int) -> Mixture:
    return Mixture(np.empty((count, n)), np.empty((count, S)), np.empty((count, S), np.int64), np.empty(count))


def _filled(room: Mixture, count: int) -> Mixture:
    J, laws, policies, weights = room
    return room if count == len(J) else Mixture(J[:count], laws[:count], policies[:count], weights[:count])
