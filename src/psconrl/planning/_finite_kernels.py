"""Backward induction over a confidence set, compiled; see `_set_kernels`."""

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl._numba import njit
from psconrl.planning._set_kernels import Set, add_member, copy, least_mean, sort


@njit
def backward(within: Set, c: Floats, actions: Ints, orders: Ints) -> Floats:
    """The values V (S,) of the optimistic problem for H steps with costs c (S, A); the best actions, orders (H, S).

    orders are read as a start for sorting: each must hold all states. Of equally good actions the lowest is taken.
    """
    S, A = c.shape
    V, after = np.zeros(S), np.zeros(S)
    for h in range(len(actions) - 1, -1, -1):
        V, after = after, V
        order = orders[h]
        sort(order, after)
        for s in range(S):
            V[s] = np.inf
            for a in range(A):
                value = c[s, a] + least_mean(within, s * A + a, order, after, 0.0)
                if value < V[s]:
                    V[s], actions[h, s] = value, a
    return V


@njit
def forward(within: Set, A: int, actions: Ints, orders: Ints, start: int) -> Floats:
    """Where the policy is in the models that it believes in: the laws (H, S), from a start state."""
    H, S = actions.shape
    states = np.empty(S, dtype=np.int64)
    for s in range(S):
        states[s] = s
    law = np.zeros((H, S))
    law[0, start] = 1.0
    for h in range(H - 1):
        for s in range(S):
            if law[h, s] > 0.0:
                add_member(within, s * A + actions[h, s], orders[h], states, law[h, s], law[h + 1])
    return law


@njit
def averages(costs: Floats, actions: Ints, law: Floats, J: Floats) -> None:
    """Fill in the averages J (m + 1,) per step."""
    H, S = actions.shape
    for i in range(len(costs)):
        total = 0.0
        for h in range(H):
            for s in range(S):
                total += law[h, s] * costs[i, s, actions[h, s]]
        J[i] = total / H


@njit
def mixed_policy(within: Set, c: Floats, actions: Ints, orders: Ints, weights: Floats, start: int) -> Floats:
    """The policy (H, S, A) of a mixture of n columns (n, H, S); where it has no mass, the best action for c (S, A)."""
    S, A = c.shape
    n, H = actions.shape[0], actions.shape[1]
    policy = np.zeros((H, S, A))
    for k in range(n):
        law = forward(within, A, actions[k], orders[k], start)
        for h in range(H):
            for s in range(S):
                policy[h, s, actions[k, h, s]] += weights[k] * law[h, s]
    best, order = np.empty((H, S), dtype=np.int64), np.empty((H, S), dtype=np.int64)
    copy(orders[0], order)
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
