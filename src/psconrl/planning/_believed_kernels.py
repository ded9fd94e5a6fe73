"""From the columns of an optimistic optimum to the model believed in, and from there to a policy, compiled."""

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl._numba import njit
from psconrl.planning._optimistic_kernels import Optimum, Work, evaluate
from psconrl.planning._set_kernels import Set, add_member, nearest

_CUT = 1e-9  # probabilities up to this are dropped before planning, as elsewhere
SUPPORT = 1e-14
"""Occupancies up to this are rounding, as elsewhere."""


@njit
def believed(within: Set, costs: Floats, found: Optimum, p: Floats) -> Floats:
    """The occupancy (S, A) of a mixture of columns; the rows of p (S * A, S) that it uses are overwritten.

    A pair that several columns use gets the mean of their members, weighted by how often they use it.
    """
    S, A = costs.shape[1], costs.shape[2]
    basis, weights, pool = found.basis, found.weights, found.pool
    work = Work(np.empty((S, S)), np.empty((S, len(costs) + 1)), np.empty(S, dtype=np.int64), np.empty(S))
    J, H = np.empty(len(costs)), np.empty((len(costs), S))
    laws = np.zeros((len(basis), S))
    mu = np.zeros((S, A))
    states = np.empty(S, dtype=np.int64)
    for s in range(S):
        states[s] = s
    for b in range(len(basis)):
        if basis[b] < 0 or weights[b] <= SUPPORT:
            continue
        actions, order = pool.actions[basis[b], 0], pool.orders[basis[b], 0]
        evaluate(within, costs, actions, order, work, J, H)
        total = 0.0
        for k in range(S):
            mass = 1.0 if k == 0 else 0.0
            for i in range(k):
                mass += laws[b, order[i]] * work.P[i, k]
            laws[b, order[k]] = mass
            total += mass
        for s in range(S):
            laws[b, s] *= weights[b] / total
            mu[s, actions[s]] += laws[b, s]
    for s in range(S):
        for a in range(A):
            k = s * A + a
            if mu[s, a] <= SUPPORT:
                continue
            for j in range(S):
                p[k, j] = 0.0
            for b in range(len(basis)):
                if laws[b, s] > 0.0 and pool.actions[basis[b], 0, s] == a:
                    add_member(within, k, pool.orders[basis[b], 0], states, laws[b, s] / mu[s, a], p[k])
            total = 0.0
            for j in range(S):
                p[k, j] = min(max(p[k, j], within.lower[k, j]), within.upper[k, j])
                total += p[k, j]
            for j in range(S):
                p[k, j] /= total
    return mu


@njit
def model_around(mu: Floats, p: Floats, within: Set, center: Floats, cut: bool) -> tuple[Ints, Ints, Floats]:
    """The model in which an occupancy mu (S, A) is executed, rows in compressed form.

    Pairs in use have their rows of p (S * A, S); those of states without mass the members nearest to a centre
    (S * A, S), written to p, too, which lose unlikely entries if `cut`; other rows are empty.
    """
    S, A = mu.shape
    begin = np.zeros(S * A + 1, dtype=np.int64)
    least = np.empty(S * A)
    for s in range(S):
        outside = True
        for a in range(A):
            outside = outside and mu[s, a] <= SUPPORT
        for a in range(A):
            k = s * A + a
            least[k] = 0.0 if mu[s, a] > SUPPORT else np.inf
            if outside:
                nearest(center[k], within.lower[k], within.upper[k], p[k])
                least[k] = _CUT if cut else 0.0
            begin[k + 1] = begin[k]
            for j in range(S):
                begin[k + 1] += p[k, j] > least[k]
    index, value = np.empty(begin[S * A], dtype=np.int64), np.empty(begin[S * A])
    for k in range(S * A):
        at, total = begin[k], 0.0
        for j in range(S):
            if p[k, j] > least[k]:
                index[at], value[at] = j, p[k, j]
                total += p[k, j]
                at += 1
        if least[k] > 0.0:
            for t in range(begin[k], at):
                value[t] /= total
    return begin, index, value
