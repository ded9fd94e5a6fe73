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
from psconrl.planning.compiled.finite_horizon import plan_steps
from psconrl.planning.compiled.generation import INFEASIBLE, OPTIMAL
from psconrl.planning.compiled.master import MARGIN, VALUE
from psconrl.planning.intervals import Intervals, in_slots
from psconrl.planning.tolerances import PROVEN, TIE_BREAK


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
    (_, S, A), m = costs.shape, len(budgets)
    pairs = Pairs.all(S, A) if pairs is None else pairs
    lower, upper = in_slots(intervals.lower, pairs), in_slots(intervals.upper, pairs)
    flat = np.array(pairs.taken(costs), order="C")
    given = pairs.in_slots(flat), pairs.in_slots(ties.levels(flat.shape[1])), budgets / H
    columns = np.zeros((0, 2, H, S), dtype=np.int64) if columns is None else columns
    for goal in (VALUE, MARGIN):
        status, objective, bound, multipliers, found, policy, value = plan_steps(
            lower, upper, *given, columns, goal, start
        )
        if status != INFEASIBLE:
            break
    gap = objective - bound + TIE_BREAK
    if status != OPTIMAL or not gap <= PROVEN * max(1.0, np.ptp(flat)):
        raise SolverError(f"the plan for {H} steps is proven to {gap:.2g} only; rescale the costs")
    policy = pairs.from_slots(policy)
    if goal == MARGIN:
        return FinitePlan(False, policy, np.nan, np.full(m, np.nan), gap, found)
    return FinitePlan(True, policy, H * value, multipliers, gap, found)
