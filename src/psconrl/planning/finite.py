"""The best policy for H steps over all models in an element-wise confidence set, exactly.

The program of Chen, Jain and Luo (2022, Algorithm 3) in nu(s, a, h, s') has H S A S variables. Its vertices are
pairs of a deterministic policy and a model for each step, which for fixed prices of the constraints are found by
backward induction; so it is solved by generating columns (see `columns`), each a backward and a forward pass:

    V_h(s) = min_a [ c_lambda(s, a) + min_{l <= p <= u} sum_s' p(s') V_{h+1}(s') ],     V_{H+1} = 0

The policy of the mixture is pi_h(a | s) = nu(s, a, h) / nu(s, h); where it has no mass, the action that is optimal
for the final prices.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl.planning.columns import generate
from psconrl.planning.highs import TOLERANCE
from psconrl.planning.optimistic import Intervals


@dataclass(frozen=True, eq=False)
class FinitePlan:
    """A policy (H, S, A) for H steps from a start state, and its value: the expected sum of main costs.

    Infeasible: value nan; the policy is the one whose largest violation of a budget is least.
    """

    feasible: bool
    policy: Floats
    value: float
    multipliers: Floats
    gap: float


def solve_finite(intervals: Intervals, costs: Floats, budgets: Floats, H: int, start: int) -> FinitePlan:
    """min E sum_h c_0 s.t. E sum_h c_i <= budgets_i, over policies and models in the set.

    costs (m + 1, S, A), budgets (m,) for the whole horizon.
    """
    m = len(budgets)
    search = _Search(intervals, costs, H, start)
    per_step = budgets / H
    if m == 0:
        bound = search.price(np.ones(1))
        column = search.columns[-1]
        return FinitePlan(
            True,
            search.policy(np.ones(1), np.ones(1)),
            H * float(column.J[0]),
            np.zeros(0),
            float(column.J[0] - bound),
        )
    safe = generate(search, per_step, margin=True)
    if -safe.objective < -TOLERANCE:
        policy = search.policy(safe.weights, np.append(0.0, safe.prices))
        return FinitePlan(False, policy, np.nan, np.full(m, np.nan), safe.gap)
    best = generate(search, per_step + max(safe.objective, 0.0), margin=False)
    policy = search.policy(best.weights, np.append(1.0, best.prices))
    return FinitePlan(True, policy, H * best.objective, best.prices, best.gap)


@dataclass(frozen=True, eq=False)
class _Column:
    """Actions (H, S), laws (H, S) and average costs J (m + 1,) per step of a policy in its own models."""

    actions: Ints
    law: Floats
    J: Floats


class _Search:
    """The columns found so far; each call of `price` adds the best one for some prices."""

    def __init__(self, intervals: Intervals, costs: Floats, H: int, start: int) -> None:
        self.lower, self.width = intervals.lower, intervals.upper - intervals.lower
        self.rest = (1.0 - intervals.lower.sum(axis=2)).clip(0.0)
        self.costs, self.H, self.start = costs, H, start
        self.columns: list[_Column] = []

    def price(self, weights: Floats, *, enough: float = np.inf, fresh: bool = False) -> float:
        """Add the policy and models with the least sum_i weights_i J_i; that least value is a lower bound.

        `enough` and `fresh` steer searches by policy iteration; backward induction needs neither.
        """
        from psconrl.planning._finite_kernels import backward, forward

        c = np.tensordot(weights, self.costs, axes=1)
        V, actions, orders = backward(self.lower, self.width, self.rest, c, self.H)
        law = forward(self.lower, self.width, self.rest, actions, orders, self.start)
        J = np.array([np.take_along_axis(cost, actions.T, axis=1).T.ravel() @ law.ravel() for cost in self.costs])
        J /= self.H
        if all(np.abs(J - column.J).max() > 1e-13 for column in self.columns):
            self.columns.append(_Column(actions, law, J))
        return float(V[0, self.start]) / self.H

    def policy(self, weights: Floats, prices: Floats) -> Floats:
        """The policy (H, S, A) of a mixture; elsewhere optimal for the prices."""
        from psconrl.planning._finite_kernels import backward

        c = np.tensordot(prices, self.costs, axes=1)
        _, actions, _ = backward(self.lower, self.width, self.rest, c, self.H)
        S, A = c.shape
        nu = np.zeros((self.H, S, A))
        steps, states = np.indices((self.H, S))
        for k in np.flatnonzero(weights):
            nu[steps, states, self.columns[k].actions] += weights[k] * self.columns[k].law
        mass = nu.sum(axis=2, keepdims=True)
        otherwise = np.zeros_like(nu)
        otherwise[steps, states, actions] = 1.0
        return np.where(mass > 1e-14, np.divide(nu, mass, out=otherwise.copy(), where=mass > 1e-14), otherwise)
