"""Joining the two recurrent classes of an optimum under one constraint, compiled; `policy` has the rule."""

import numpy as np

from psconrl._checks import Bools, Floats, Ints
from psconrl._numba import njit
from psconrl.planning._chain_kernels import law
from psconrl.planning._kernels import stationary
from psconrl.planning._many_kernels import safe_and_everywhere
from psconrl.planning._plan_kernels import price, start_anew


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
) -> tuple[bool, Floats]:
    """The occupancy mu (S, A) mixed, with weight `join`, with one that visits all states and keeps the limit.

    costs (2, S * A); the safest policy is looked for from `policy`, and from a bias h as in `plan`. False if this
    needs more care: where the uniform policy has several recurrent classes, or the safest policy is not found.
    """
    S, A = mu.shape
    inside = _class_of(_likeliest(mu), A, indptr, indices)
    if not inside.any():
        return False, mu
    everywhere = _uniform_law(inside, A, indptr, indices, data)
    found, inverse, r = start_anew(policy, r, A, indptr, indices, data, costs[1])
    if not found:
        return False, mu
    found, inverse, r, _, _, _ = price(policy, inverse, h, np.empty(S * A), r, A, indptr, indices, data, costs[1])
    if not found:
        return False, mu
    safest = law(inverse, policy, r, A, indptr, indices, data)
    return True, _mixed(mu, join, costs[1], threshold, policy, safest, everywhere)


@njit
def joined_many(
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
) -> tuple[bool, Floats]:
    """What `joined` does, for many states."""
    root = _likeliest(mu)
    if not _class_of(root, mu.shape[1], indptr, indices).any():
        return False, mu
    found, safest, everywhere = safe_and_everywhere(root, policy, r, h, mu.shape[1], indptr, indices, data, costs[1])
    if not found:
        return False, mu
    return True, _mixed(mu, join, costs[1], threshold, policy, safest, everywhere)


@njit
def _likeliest(mu: Floats) -> int:
    state, most = 0, 0.0
    for s in range(len(mu)):
        mass = 0.0
        for a in range(mu.shape[1]):
            mass += mu[s, a]
        if mass > most:
            state, most = s, mass
    return state


@njit
def _mixed(
    mu: Floats, join: float, c: Floats, threshold: float, policy: Ints, safest: Floats, everywhere: Floats
) -> Floats:
    """mu mixed with the laws of the safest policy and of the uniform one, as much of this as keeps the limit."""
    S, A = mu.shape
    spent, least = 0.0, 0.0
    for s in range(S):
        least += safest[s] * c[s * A + policy[s]]
        for a in range(A):
            spent += everywhere[s] / A * c[s * A + a]
    margin, excess = threshold - least, spent - least
    share = 1.0
    if margin > 0.0:
        share = 0.5 if excess <= 2.0 * margin else margin / excess
    flow = np.empty((S, A))
    for s in range(S):
        for a in range(A):
            flow[s, a] = (1.0 - join) * mu[s, a] + join * share * everywhere[s] / A
        flow[s, policy[s]] += join * (1.0 - share) * safest[s]
    return flow


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
