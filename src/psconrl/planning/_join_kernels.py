"""Joining the two recurrent classes of an optimum under one constraint, compiled; `policy` has the rule."""

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl._numba import njit
from psconrl.planning._kernels import stationary


@njit
def joined(
    mu: Floats,
    safest: Floats,
    join: float,
    indptr: Ints,
    indices: Ints,
    data: Floats,
    c: Floats,
    threshold: float,
) -> tuple[bool, Floats]:
    """The occupancy mu (S, A) mixed, with weight `join`, with one that visits all states and keeps the limit.

    That is the uniform policy's, mixed with the safest one (S, A) for the costs c (S, A). False if this needs more
    care: not all states lead to the likeliest one under the uniform policy.
    """
    S, A = mu.shape
    root, most = 0, 0.0
    for s in range(S):
        mass = 0.0
        for a in range(A):
            mass += mu[s, a]
        if mass > most:
            root, most = s, mass
    # The uniform policy's class is what can be reached from that state.
    inside, leads = np.zeros(S, dtype=np.bool_), np.zeros(S, dtype=np.bool_)
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
    place, size, lost = np.empty(S, dtype=np.int64), 0, 0
    for s in range(S):
        place[s] = size
        size += inside[s]
        lost += not leads[s]
    if lost > 0:
        return False, mu
    P = np.zeros((size, size))
    for s in range(S):
        if inside[s]:
            for entry in range(indptr[s * A], indptr[s * A + A]):
                P[place[s], place[indices[entry]]] += data[entry] / A
    law = stationary(P)
    spent, least = 0.0, 0.0
    for s in range(S):
        for a in range(A):
            least += safest[s, a] * c[s, a]
            if inside[s]:
                spent += law[place[s]] / A * c[s, a]
    margin, excess = threshold - least, spent - least
    share = 1.0
    if margin > 0.0:
        share = 0.5 if excess <= 2.0 * margin else margin / excess
    flow = np.empty((S, A))
    for s in range(S):
        for a in range(A):
            flow[s, a] = (1.0 - join) * mu[s, a] + join * (1.0 - share) * safest[s, a]
            if inside[s]:
                flow[s, a] += join * share * law[place[s]] / A
    return True, flow
