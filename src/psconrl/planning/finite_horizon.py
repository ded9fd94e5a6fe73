"""The best policy for H steps over all models in an element-wise confidence set, exactly.

The program of Chen, Jain and Luo (2022, Algorithm 3) in nu(s, a, h, s') has H S A S variables. Its vertices are
pairs of a deterministic policy and a model for each step, which for fixed prices of the constraints are found by
backward induction; so it is solved by generating columns, each a backward and a forward pass:

    V_h(s) = min_a [ c_lambda(s, a) + min_{l <= p <= u} sum_s' p(s') V_{h+1}(s') ],     V_{H+1} = 0

The policy of the mixture is pi_h(a | s) = nu(s, a, h) / nu(s, h); where it has no mass, the action that is optimal
for the final prices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.pairs import Pairs
from psconrl.errors import SolverError
from psconrl.planning import ties
from psconrl.planning.compiled.confidence_sets import between
from psconrl.planning.compiled.finite_horizon import averages, forward, mixed_policy, optimise_steps
from psconrl.planning.compiled.generation import INFEASIBLE, OPTIMAL
from psconrl.planning.compiled.master import MARGIN, VALUE, Limits
from psconrl.planning.intervals import Intervals, in_slots
from psconrl.planning.tolerances import PROVEN


@dataclass(frozen=True, eq=False)
class FinitePlan:
    """A policy (H, S, A) for H steps from a start state, and its value: the expected sum of main costs.

    Infeasible: value nan; the policy is the one whose largest violation of a budget is least. columns: what the next
    plan for as many steps may start from.
    """

    feasible: bool
    policy: Floats
    value: float
    multipliers: Floats
    gap: float
    columns: Ints | None = None


def solve_finite(
    intervals: Intervals,
    costs: Floats,
    budgets: Floats,
    H: int,
    start: int,
    *,
    columns: Ints | None = None,
    pairs: Pairs | None = None,
) -> FinitePlan:
    """min E sum_h c_0 s.t. E sum_h c_i <= budgets_i, over policies and models in the set.

    costs (m + 1, S, A), budgets (m,) for the whole horizon; columns: those of an earlier plan. pairs: those that are
    available; all if left out.
    """
    (n, S, A), m = costs.shape, len(budgets)
    pairs = Pairs.all(S, A) if pairs is None else pairs
    within = between(*(in_slots(array, pairs) for array in (intervals.lower, intervals.upper)))
    true = pairs.in_slots(np.array(pairs.taken(costs), order="C")).reshape(n, S, -1)
    costs = pairs.in_slots(ties.decided(pairs.taken(costs))).reshape(true.shape)
    columns = np.zeros((0, 2, H, S), dtype=np.int64) if columns is None else columns
    limits = Limits(budgets / H, np.ones(m))
    found = optimise_steps(within, costs, limits, columns, VALUE, H, start)
    feasible = found.optimum.status != INFEASIBLE
    if not feasible:
        found = optimise_steps(within, costs, limits, columns, MARGIN, H, start)
    optimum = found.optimum
    gap = float(optimum.objective - optimum.bound) + ties.SIZE
    if optimum.status != OPTIMAL or not gap <= PROVEN * max(1.0, float(np.ptp(costs))):
        raise SolverError(f"the plan for {H} steps is proven to {gap:.2g} only; rescale the costs")
    actions, orders = np.ascontiguousarray(found.columns.swapaxes(0, 1))
    c = np.tensordot(np.append(float(feasible), optimum.multipliers), costs, axes=1)
    policy = pairs.from_slots(mixed_policy(within, c, actions, orders, found.weights, start))
    if not feasible:
        return FinitePlan(False, policy, np.nan, np.full(m, np.nan), gap, found.columns)
    value, J = 0.0, np.empty(n)
    for k, weight in enumerate(found.weights):
        averages(true, actions[k], forward(within, true.shape[2], actions[k], orders[k], start), J)
        value += H * float(weight * J[0])
    return FinitePlan(True, policy, value, optimum.multipliers, gap, found.columns)
