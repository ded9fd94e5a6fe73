"""The best policy for H steps over all models in an element-wise confidence set, exactly.

The program of Chen, Jain and Luo (2022, Algorithm 3) in nu(s, a, h, s') has H S A S variables. Its vertices are
pairs of a deterministic policy and a model for each step, which for fixed prices of the constraints are found by
backward induction; so it is solved by generating columns, each a backward and a forward pass:

    V_h(s) = min_a [ c_lambda(s, a) + min_{l <= p <= u} sum_s' p(s') V_{h+1}(s') ],     V_{H+1} = 0

The policy of the mixture is pi_h(a | s) = nu(s, a, h) / nu(s, h); where it has no mass, the action that is optimal
for the final prices. The method "compiled" is that of `_optimistic_kernels`; "highs", the reference, leaves the master
program to HiGHS (see `columns`), and solves again where the proven gap of the first is too large.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl.planning.columns import generate
from psconrl.planning.highs import TOLERANCE
from psconrl.planning.optimistic import PROVEN, Intervals, Method

if TYPE_CHECKING:
    from psconrl.planning._set_kernels import Set


@dataclass(frozen=True, eq=False)
class FinitePlan:
    """A policy (H, S, A) for H steps from a start state, and its value: the expected sum of main costs.

    Infeasible: value nan; the policy is the one whose largest violation of a budget is least. columns: what the next
    plan for as many steps may start from; none if the linear program had to solve it.
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
    method: Method = "compiled",
) -> FinitePlan:
    """min E sum_h c_0 s.t. E sum_h c_i <= budgets_i, over policies and models in the set.

    costs (m + 1, S, A), budgets (m,) for the whole horizon; columns: those of an earlier plan.
    """
    from psconrl.planning._set_kernels import between

    S, costs = costs.shape[1], np.array(costs)  # kernels are compiled for arrays that can be written to
    within = between(intervals.lower.reshape(-1, S), intervals.upper.reshape(-1, S))
    found = None
    if method == "compiled":
        columns = np.zeros((0, 2, H, S), dtype=np.int64) if columns is None else columns
        found = _by_kernels(within, costs, budgets / H, H, start, columns)
    return _by_highs(within, costs, budgets / H, H, start) if found is None else found


def _by_kernels(within: Set, costs: Floats, tau: Floats, H: int, start: int, columns: Ints) -> FinitePlan | None:
    """The plan by compiled columns; None if it could not be proven."""
    from psconrl.planning._finite_kernels import mixed_policy
    from psconrl.planning._master_kernels import MARGIN, VALUE
    from psconrl.planning._optimistic_kernels import INFEASIBLE, OPTIMAL, optimise, used_columns

    found = optimise(within, costs, tau, columns, VALUE, H, start)
    feasible = found.status != INFEASIBLE
    if not feasible:
        found = optimise(within, costs, tau, used_columns(found), MARGIN, H, start)
    if found.status != OPTIMAL or not found.gap <= PROVEN * max(1.0, float(np.ptp(costs))):
        return None
    used = used_columns(found)
    actions, orders = np.ascontiguousarray(used.swapaxes(0, 1))
    c = np.tensordot(np.append(float(feasible), found.prices), costs, axes=1)
    weights = found.weights[found.basis >= 0]
    policy = mixed_policy(within, c, actions, orders, weights, start)
    if not feasible:
        return FinitePlan(False, policy, np.nan, np.full(len(tau), np.nan), found.gap, used)
    return FinitePlan(True, policy, H * found.objective, found.prices, found.gap, used)


def _by_highs(within: Set, costs: Floats, tau: Floats, H: int, start: int) -> FinitePlan:
    """The plan with a master program solved by HiGHS."""
    m = len(tau)
    search = _Search(within, costs, H, start)
    if m == 0:
        bound = search.price(np.ones(1))
        J = float(search.columns[-1].J[0])
        return FinitePlan(True, search.policy(np.ones(1), np.ones(1)), H * J, np.zeros(0), J - bound)
    safe = generate(search, tau, margin=True)
    if -safe.objective < -TOLERANCE:
        policy = search.policy(safe.weights, np.append(0.0, safe.prices))
        return FinitePlan(False, policy, np.nan, np.full(m, np.nan), safe.gap)
    best = generate(search, tau + max(safe.objective, 0.0), margin=False)
    policy = search.policy(best.weights, np.append(1.0, best.prices))
    return FinitePlan(True, policy, H * best.objective, best.prices, best.gap)


@dataclass(frozen=True, eq=False)
class _Column:
    """Actions and orders of states (H, S), average costs J (m + 1,) per step of a policy in its own models."""

    actions: Ints
    orders: Ints
    J: Floats


class _Search:
    """The columns found so far; each call of `price` adds the best one for some prices."""

    def __init__(self, within: Set, costs: Floats, H: int, start: int) -> None:
        self.within, self.costs, self.H, self.start = within, costs, H, start
        self.columns: list[_Column] = []

    def price(self, weights: Floats, *, enough: float = np.inf, fresh: bool = False) -> float:
        """Add the policy and models with the least sum_i weights_i J_i; that least value is a lower bound.

        `enough` and `fresh` steer searches by policy iteration; backward induction needs neither.
        """
        from psconrl.planning._finite_kernels import averages, backward, forward

        c = np.tensordot(weights, self.costs, axes=1)
        S, A = c.shape
        actions, orders = np.zeros((self.H, S), dtype=np.int64), np.tile(np.arange(S), (self.H, 1))
        V = backward(self.within, c, actions, orders)
        J = np.empty(len(self.costs))
        averages(self.costs, actions, forward(self.within, A, actions, orders, self.start), J)
        if all(np.abs(J - column.J).max() > 1e-13 for column in self.columns):
            self.columns.append(_Column(actions, orders, J))
        return float(V[self.start]) / self.H

    def policy(self, weights: Floats, prices: Floats) -> Floats:
        """The policy (H, S, A) of a mixture; elsewhere optimal for the prices."""
        from psconrl.planning._finite_kernels import mixed_policy

        c = np.tensordot(prices, self.costs, axes=1)
        used = [column for column, weight in zip(self.columns, weights, strict=False) if weight > 0]
        actions, orders = np.array([k.actions for k in used]), np.array([k.orders for k in used])
        return mixed_policy(self.within, c, actions, orders, weights[weights > 0], self.start)
