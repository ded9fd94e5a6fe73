"""Joining the two recurrent classes of an optimum under one constraint, compiled; `policy` has the rule."""

import numpy as np

from psconrl._checks import Bools, Floats, Ints
from psconrl._numba import njit
from psconrl.planning._chain_kernels import law
from psconrl.planning._kernels import stationary
from psconrl.planning._plan_kernels import EXACT, law_many, price, price_many, start_anew


@njit
def joined(
    mu: Floats,
    join: float,
    indptr: Ints,
    indices: Ints,
    data: Floats,
    costs: Floats,
    threshold: float,
    policy: Ints,
    r: int,
    h: Floats,
    many: bool | None,
) -> tuple[bool, Floats]:
    """The occupancy mu (S, A) mixed, with weight `join`, with one that visits all states and keeps the limit.

    costs (2, S * A); the safest policy is looked for from `policy`, and from a bias h as in `plan`. False if this
    needs more care: where the uniform policy has several recurrent classes, or the safest policy is not found.
    """
    S, A = mu.shape
    root = int(np.argmax(mu.sum(axis=1)))
    inside = _class_of(root, A, indptr, indices)
    if not inside.any():
        return False, mu
    if many is None:
        everywhere = _uniform_law(inside, A, indptr, indices, data)
        found, inverse, r = start_anew(policy, r, A, indptr, indices, data, costs[1])
        if not found:
            return False, mu
        found, inverse, r, _, _, _ = price(policy, inverse, h, np.empty(S * A), r, A, indptr, indices, data, costs[1])
        if not found:
            return False, mu
        safest = law(inverse, policy, r, A, indptr, indices, data)
    else:
        everywhere, safest = np.zeros(S), np.zeros(S)
        # The rows of a state's actions lie side by side: one row with A times the mass is the uniform policy's.
        found, _ = law_many(np.zeros(S, dtype=np.int64), everywhere, root, 1, indptr[::A].copy(), indices, data / A, h)
        if not found:
            return False, mu
        found, r, _, _ = price_many(policy, h, r, A, indptr, indices, data, costs[1], EXACT)
        if not found:
            return False, mu
        found, r = law_many(policy, safest, r, A, indptr, indices, data, costs[1])
        if not found:
            return False, mu
    spent, least = 0.0, 0.0
    for s in range(S):
        least += safest[s] * costs[1, s * A + policy[s]]
        for a in range(A):
            spent += everywhere[s] / A * costs[1, s * A + a]
    margin, excess = threshold - least, spent - least
    share = 1.0
    if margin > 0.0:
        share = 0.5 if excess <= 2.0 * margin else margin / excess
    flow = (1.0 - join) * mu
    for s in range(S):
        flow[s, policy[s]] += join * (1.0 - share) * safest[s]
        for a in range(A):
            flow[s, a] += join * share * everywhere[s] / A
    return True, flow


@njit
def _class_of(root: int, A: int, indptr: Ints, indices: Ints) -> Bools:
    """The recurrent class of a state under the uniform policy; empty if not all states lead to that state."""
    S = (len(indptr) - 1) // A
    inside = np.zeros(S, dtype=np.bool_)
    leads = np.zeros(S, dtype=np.bool_)
    inside[root] = leads[root] = True
    progress = True
    while progress:
        progress = False
        for s in range(S):
            for entry in range(indptr[s * A], indptr[s * A + A]):
                x = indices[entry]
                if leads[x] and not leads[s]:
                    leads[s] = progress = True
                if inside[s] and not inside[x]:
                    inside[x] = progress = True
    if not leads.all():
        inside[:] = False
    return inside


@njit
def _uniform_law(inside: Bools, A: int, indptr: Ints, indices: Ints, data: Floats) -> Floats:
    """The stationary law (S,) of the uniform policy on a class."""
    S = len(inside)
    states = np.flatnonzero(inside)
    place = np.full(S, -1)
    place[states] = np.arange(len(states))
    P = np.zeros((len(states), len(states)))
    for i in range(len(states)):
        s = states[i]
        for entry in range(indptr[s * A], indptr[s * A + A]):
            P[i, place[indices[entry]]] += data[entry] / A
    result = np.zeros(S)
    result[states] = stationary(P)
    return result
