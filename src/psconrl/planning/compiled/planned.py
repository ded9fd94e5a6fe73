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
_NO_PATHS: Ints = np.zeros(0, dtype=np.int64)

Kernel = Callable[[Any, Floats, Floats, Any, Any, int, Any], tuple[Any, ...]]
"""Takes a model (`Rows`), costs (m + 1, K), levels (K,) that are added to c_0 to decide between equals, or (0,) for
none, `Limits`, a `Start` and the last paths (S,), VALUE or MARGIN, and `room`; all as plain tuples. Gives status,
objective, bound (as `generation.Optimum`), what averages of the mixture may be off by, and how many columns it has.
Inverses leave the mixture executed, where there is room for it, and give its value, classes, whether it is connected,
and its link (see `execute`)."""

Room = tuple[Floats, Floats, Floats, Floats, Ints, Floats, Floats, Floats, Ints, Ints]


class MixturePlan(NamedTuple):
    """What a planner found: the optimum (see `generation.Optimum`), its mixture, and the bias (S,) of the last policy.

    off: what averages of its columns may be off by. last (S,): the first policy of the mixture; where sparse factors
    found none, the one that they had come to.
    """

    status: int
    objective: float
    bound: float
    off: float
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
        J, distributions, policies, weights = self.mixture
        return Columns(J, distributions, policies, np.array([len(weights)]))


def room(n: int, S: int, K: int = 0) -> Room:
    """What kernels fill in: multipliers (n - 1,), the bias (S,) of the last policy, a `Mixture`, and its execution.

    That is a policy (K,), its averages (n,), the paths (S,) and the reference (1,); without pairs, nothing.
    """
    return (
        np.empty(n - 1),
        np.empty(S),
        np.empty((n, n)),
        np.empty((n, S)),
        np.empty((n, S), np.int64),
        np.empty(n),
        np.empty(K),
        np.empty(n),
        np.empty(S, np.int64),
        np.empty(1, np.int64),
    )


def planned(
    kernel: Kernel, rows: Rows, costs: Floats, levels: Floats, limits: Limits, start: Start, goal: int
) -> MixturePlan:
    """Plan by a kernel."""
    into = room(len(costs), len(rows.begin) - 1)
    given = tuple(rows), costs, levels, tuple(limits), (*start, _NO_PATHS), goal, into
    status, objective, bound, off, count = kernel(*given)[:5]
    multipliers, bias, J, distributions, policies, weights = into[:6]
    mixture = Mixture(J, distributions, policies, weights).first(count)
    return MixturePlan(status, objective, bound, off, multipliers, bias, mixture, policies[0])


def mixture_of(columns: Columns, weights: Floats) -> Mixture:
    """The mixture of all of some columns that carry weight."""
    (count, n), S = columns.J.shape, columns.distributions.shape[1]
    into = Mixture(np.empty((count, n)), np.empty((count, S)), np.empty((count, S), np.int64), np.empty(count))
    return into.first(mix(columns, np.arange(count), weights, into))
