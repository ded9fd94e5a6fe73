"""Exact averages of one policy from one state, of nothing but the states that it leads to.

States are eliminated one by one, without subtractions. To eliminate k is to let those that lead to it lead on to where
k leads, and pay what is paid in k until it is left:

    w = P[i, k] / sum_j P[k, j],    P[i, j] += w P[k, j],    R[i] += w R[k],    tau[i] += w tau[k],    j other than k.

R are costs and tau is time between visits of the states that are left. A state that leads to no other one stands for a
recurrent class, whose averages are R / tau; the start goes last, and says with which probability each class is met.
"""

import numpy as np

from psconrl._core.checks import Floats
from psconrl._core.njit import njit
from psconrl.planning.compiled.elimination import Chain
from psconrl.planning.compiled.rows import Rows


@njit
def long_run(rows: Rows, costs: Floats, policy: Floats, start: int) -> Floats:
    """The long-run averages (n,) of costs (n, K) under a policy, its probability of each pair (K,), from `start`."""
    begin, indptr, indices, data = rows
    S, n = len(begin) - 1, costs.shape[0]
    place = np.full(S, -1)
    states = np.empty(S, dtype=np.int64)
    states[0], place[start], found, k = start, 0, 1, 0
    while k < found:
        s = states[k]
        for pair in range(begin[s], begin[s + 1]):
            if policy[pair] > 0.0:
                for entry in range(indptr[pair], indptr[pair + 1]):
                    x = indices[entry]
                    if data[entry] > 0.0 and place[x] < 0:
                        states[found], place[x] = x, found
                        found += 1
        k += 1
    P, R, tau = np.zeros((found, found)), np.zeros((found, n)), np.ones(found)
    for k in range(found):
        s = states[k]
        for pair in range(begin[s], begin[s + 1]):
            p = policy[pair]
            if p > 0.0:
                for i in range(n):
                    R[k, i] += p * costs[i, pair]
                for entry in range(indptr[pair], indptr[pair + 1]):
                    if data[entry] > 0.0:
                        P[k, place[indices[entry]]] += p * data[entry]
    classes = np.empty(found, dtype=np.int64)
    met = 0
    for k in range(found - 1, -1, -1):
        out = 0.0
        for j in range(k):
            out += P[k, j]
        for c in range(met):
            out += P[k, classes[c]]
        if out == 0.0:
            classes[met] = k
            met += 1
            continue
        for i in range(k):
            if P[i, k] > 0.0:
                w = P[i, k] / out
                for j in range(k):
                    P[i, j] += w * P[k, j]
                for c in range(met):
                    P[i, classes[c]] += w * P[k, classes[c]]
                for j in range(n):
                    R[i, j] += w * R[k, j]
                tau[i] += w * tau[k]
    averages, total = np.zeros(n), 0.0
    if classes[met - 1] == 0:
        return R[0] / tau[0]
    for c in range(met):
        total += P[0, classes[c]]
    for c in range(met):
        k = classes[c]
        for i in range(n):
            averages[i] += P[0, k] / total * (R[k, i] / tau[k])
    return averages


@njit
def advance(chain: Chain, amounts: Floats, values: Floats, steps: int) -> Floats:
    """values <- amounts + P values (S,), so many times.

    In differences: what a row lacks to one counts as staying, and equal values stay as they are.
    """
    S = len(values)
    now, then = values.copy(), np.empty(S)
    for _ in range(steps):
        for s in range(S):
            total, own = 0.0, now[s]
            for entry in range(chain.indptr[s], chain.indptr[s + 1]):
                total += chain.data[entry] * (now[chain.indices[entry]] - own)
            then[s] = own + total + amounts[s]
        now, then = then, now
    return now
