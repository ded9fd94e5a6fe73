"""Backward induction over a confidence set, compiled.

For fixed costs the best member of l <= p <= u for the values V puts as much as it may on the states with the least
V: sort the states by V once per step, start from l, and hand out the rest 1 - sum l in that order.
"""

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl._numba import njit


@njit
def expected_least(lower: Floats, width: Floats, rest: float, order: Ints, V: Floats) -> float:
    """min over the set of sum p V; order: the states by increasing V."""
    value = 0.0
    for j in range(len(V)):
        value += lower[j] * V[j]
    for k in range(len(order)):
        j = order[k]
        share = min(rest, width[j])
        value += share * V[j]
        rest -= share
        if rest <= 0.0:
            break
    return value


@njit
def backward(lower: Floats, width: Floats, rest: Floats, c: Floats, H: int) -> tuple[Floats, Ints, Ints]:
    """V (H + 1, S), actions (H, S) and orders (H, S) of the optimistic finite-horizon problem with costs c (S, A).

    Of equally good actions the lowest is taken.
    """
    S, A = c.shape
    V = np.zeros((H + 1, S))
    actions = np.zeros((H, S), dtype=np.int64)
    orders = np.zeros((H, S), dtype=np.int64)
    for h in range(H - 1, -1, -1):
        order = np.argsort(V[h + 1], kind="mergesort")
        orders[h] = order
        for s in range(S):
            best = np.inf
            for a in range(A):
                value = c[s, a] + expected_least(lower[s, a], width[s, a], rest[s, a], order, V[h + 1])
                if value < best:
                    best = value
                    actions[h, s] = a
            V[h, s] = best
    return V, actions, orders


@njit
def forward(lower: Floats, width: Floats, rest: Floats, actions: Ints, orders: Ints, start: int) -> Floats:
    """Where the policy is in the models that it believes in: the laws (H, S), from a start state."""
    H, S = actions.shape
    law = np.zeros((H, S))
    law[0, start] = 1.0
    for h in range(H - 1):
        for s in range(S):
            mass = law[h, s]
            if mass > 0.0:
                a = actions[h, s]
                left = rest[s, a]
                for j in range(S):
                    law[h + 1, j] += mass * lower[s, a, j]
                for k in range(S):
                    j = orders[h, k]
                    share = min(left, width[s, a, j])
                    law[h + 1, j] += mass * share
                    left -= share
                    if left <= 0.0:
                        break
    return law
