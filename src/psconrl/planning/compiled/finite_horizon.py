"""Pricing by backward induction over a confidence set, for a number of steps; see `confidence_sets`."""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.compiled.confidence_sets import Set, add_member, between, copy, least_mean, sort
from psconrl.planning.compiled.generation import VALUE, Limits, PricingProblem, PricingResult, generate
from psconrl.planning.compiled.optimistic import Believed, first_column, used_columns
from psconrl.planning.compiled.pricing import decided, lagrangian_costs
from psconrl.planning.tolerances import EPS, MAX_COLUMNS, SOLVED, SUPPORT


class Steps(NamedTuple):
    """A oracle of pricing: policies in models of a confidence set for H steps from a state `origin`.

    costs (m + 1, S * A); columns: actions and orders (room, H, S), averages J (room, m + 1) per step; `known` (1,).
    """

    within: Set
    costs: Floats
    actions: Ints
    orders: Ints
    J: Floats
    known: Ints
    origin: int


@njit
def plan_steps(
    lower: Floats, upper: Floats, costs: Floats, levels: Floats, tau: Floats, start: Ints, goal: int, origin: int
) -> tuple[int, float, float, Floats, Ints, Floats, float]:
    """Plan for H steps from a state `origin` between `lower` and `upper` (S * A, S), for VALUE or MARGIN.

    costs (m + 1, S * A); levels (S * A,): added to c_0 to decide between equals; tau (m,): limits per step; start
    (n, 2, H, S): columns to begin with. Gives status, objective, bound and multipliers of the optimum, its columns,
    the policy (H, S, A) of their mixture, and the average of c_0 per step.
    """
    m, within, by_rule = len(tau), between(lower, upper), decided(costs, levels)
    optimum, columns, weights = optimise_steps(within, by_rule, Limits(tau, np.ones(m)), start, goal, origin)
    c, J, value = np.empty(costs.shape[1]), np.empty(m + 1), 0.0
    lagrangian_costs(c, by_rule, 1.0 if goal == VALUE else 0.0, optimum.multipliers)
    for k in range(len(weights)):
        actions, orders = columns[k, 0], columns[k, 1]
        averages(costs, actions, forward(within, actions, orders, origin), J)
        value += weights[k] * J[0]
    policy = mixed_policy(within, c, columns, weights, origin)
    return optimum.status, optimum.objective, optimum.bound, optimum.multipliers, columns, policy, value


@njit_inline
def optimise_steps(within: Set, costs: Floats, limits: Limits, start: Ints, goal: int, origin: int) -> Believed:
    """The best mixture of policies in models of a set for H steps; start (n, 2, H, S): columns to begin with."""
    m, H, S = len(limits.tau), start.shape[2], start.shape[3]
    room = len(start) + MAX_COLUMNS * (m + 1)
    oracle = Steps(
        within,
        costs,
        np.empty((room, H, S), dtype=np.int64),
        np.empty((room, H, S), dtype=np.int64),
        np.empty((room, m + 1)),
        np.zeros(1, dtype=np.int64),
        origin,
    )
    for k in range(max(len(start), 1)):
        if len(start) > 0:
            copy(start[k, 0], oracle.actions[k])
            copy(start[k, 1], oracle.orders[k])
        else:
            first_column(costs[0], oracle.actions[0], oracle.orders[0])
        mu = forward(within, oracle.actions[k], oracle.orders[k], origin)
        averages(costs, oracle.actions[k], mu, oracle.J[k])
        oracle.known[0] += 1
    optimum = generate(_price, oracle, limits, goal, np.zeros(m), SOLVED)
    return Believed(optimum, *used_columns(optimum, oracle.actions, oracle.orders))


@njit
def _price(oracle: Steps, problem: PricingProblem) -> PricingResult:
    """The best column for some prices by backward induction, added if it is new."""
    costs, prices, known = oracle.costs, problem.prices, oracle.known[0]
    _, H, S = oracle.actions.shape
    if known == len(oracle.J):
        return PricingResult(False, -np.inf, prices, False, prices)
    c, spent, largest = np.empty(costs.shape[1]), 0.0, 0.0
    for i in range(len(prices)):
        spent += prices[i] * problem.tau[i]
    lagrangian_costs(c, costs, problem.main, prices)
    for pair in range(len(c)):
        largest = max(largest, abs(c[pair]))
    actions, orders = oracle.actions[known], oracle.orders[known]
    copy(oracle.orders[known - 1], orders)
    V = backward(oracle.within, c, actions, orders)
    averages(costs, actions, forward(oracle.within, actions, orders, oracle.origin), oracle.J[known])
    new = True
    for k in range(known):
        apart = 0.0
        for i in range(len(costs)):
            apart = max(apart, abs(oracle.J[k, i] - oracle.J[known, i]))
        new = new and apart > SUPPORT
    oracle.known[0] += new
    return PricingResult(True, V[oracle.origin] / H - spent - 2 * S * EPS * largest, prices, False, prices)


@njit
def backward(within: Set, c: Floats, actions: Ints, orders: Ints) -> Floats:
    """The values V (S,) of the optimistic problem for H steps with costs c (S * A,); the best actions, orders (H, S).

    orders are read as a start for sorting: each must hold all states. Of equally good actions the lowest is taken.
    """
    S = orders.shape[1]
    A = len(c) // S
    V, after = np.zeros(S), np.zeros(S)
    for h in range(len(actions) - 1, -1, -1):
        V, after = after, V
        order = orders[h]
        sort(order, after)
        for s in range(S):
            V[s] = np.inf
            for a in range(A):
                value = c[s * A + a] + least_mean(within, s * A + a, order, after, 0.0)
                if value < V[s]:
                    V[s], actions[h, s] = value, a
    return V


@njit
def forward(within: Set, actions: Ints, orders: Ints, start: int) -> Floats:
    """Where the policy is in the models that it believes in: the distributions (H, S), from a start state."""
    H, S = actions.shape
    A, states = len(within.lower) // S, np.empty(S, dtype=np.int64)
    for s in range(S):
        states[s] = s
    mu = np.zeros((H, S))
    mu[0, start] = 1.0
    for h in range(H - 1):
        for s in range(S):
            if mu[h, s] > 0.0:
                add_member(within, s * A + actions[h, s], orders[h], states, mu[h, s], mu[h + 1])
    return mu


@njit
def averages(costs: Floats, actions: Ints, mu: Floats, J: Floats) -> None:
    """Fill in the averages J (m + 1,) per step."""
    H, S = actions.shape
    A = costs.shape[1] // S
    for i in range(len(costs)):
        total = 0.0
        for h in range(H):
            for s in range(S):
                total += mu[h, s] * costs[i, s * A + actions[h, s]]
        J[i] = total / H


@njit_inline
def mixed_policy(within: Set, c: Floats, columns: Ints, weights: Floats, start: int) -> Floats:
    """The policy (H, S, A) of a mixture of columns (n, 2, H, S); without mass the best action for c (S * A,)."""
    n, _, H, S = columns.shape
    A = len(c) // S
    policy = np.zeros((H, S, A))
    for k in range(n):
        mu = forward(within, columns[k, 0], columns[k, 1], start)
        for h in range(H):
            for s in range(S):
                policy[h, s, columns[k, 0, h, s]] += weights[k] * mu[h, s]
    best, order = np.empty((H, S), dtype=np.int64), np.empty((H, S), dtype=np.int64)
    for h in range(H):
        for s in range(S):
            order[h, s] = columns[0, 1, h, s] if n > 0 else s
    backward(within, c, best, order)
    for h in range(H):
        for s in range(S):
            mass = 0.0
            for a in range(A):
                mass += policy[h, s, a]
            for a in range(A):
                if mass > 1e-14:
                    policy[h, s, a] /= mass
                else:
                    policy[h, s, a] = 1.0 if a == best[h, s] else 0.0
    return policy
