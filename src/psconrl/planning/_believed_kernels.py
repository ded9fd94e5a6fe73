"""From the columns of an optimistic optimum to the model believed in and a policy that can be executed, compiled."""

import numpy as np

from psconrl._checks import Bools, Floats, Ints
from psconrl._numba import njit
from psconrl.planning._kernels import one_class
from psconrl.planning._optimistic_kernels import Pool, Set, add_member, evaluate
from psconrl.planning._way_kernels import fastest

_CUT = 1e-9  # probabilities up to this are dropped before planning, as elsewhere
_SUPPORT = 1e-14  # occupancies up to this are rounding, as elsewhere


@njit
def ends(center: Floats, radius: Floats) -> tuple[Floats, Floats]:
    """The lower and upper ends (S * A, S) of the intervals around a centre (S * A, S) with radius (S * A,)."""
    pairs, S = center.shape
    lower, upper = np.empty((pairs, S)), np.empty((pairs, S))
    for k in range(pairs):
        for j in range(S):
            lower[k, j] = min(max(center[k, j] - radius[k], 0.0), 1.0)
            upper[k, j] = min(max(center[k, j] + radius[k], 0.0), 1.0)
    return lower, upper


@njit
def nearest(center: Floats, lower: Floats, upper: Floats) -> Floats:
    """The members (S * A, S) with the least Euclidean distance to the centre: clip(centre + shift)."""
    pairs, S = center.shape
    p = np.empty((pairs, S))
    for k in range(pairs):
        total, size = 0.0, 1.0
        for j in range(S):
            total += center[k, j]
            size = max(size, 1.0 + abs(center[k, j]))
        shift = 0.0
        if abs(total - 1.0) >= 1e-12:
            low, shift = -size, size
            while True:
                middle = 0.5 * (low + shift)
                if middle <= low or middle >= shift:
                    break
                total = 0.0
                for j in range(S):
                    total += min(max(center[k, j] + middle, lower[k, j]), upper[k, j])
                if total < 1.0:
                    low = middle
                else:
                    shift = middle
        total = 0.0
        for j in range(S):
            p[k, j] = min(max(center[k, j] + shift, lower[k, j]), upper[k, j])
            total += p[k, j]
        for j in range(S):
            p[k, j] /= total
    return p


@njit
def believed(
    within: Set, costs: Floats, pool: Pool, basis: Ints, weights: Floats, lower: Floats, upper: Floats, p: Floats
) -> Floats:
    """The occupancy (S, A) of a mixture of columns; the rows of p (S * A, S) that it uses are overwritten.

    A pair that several columns use gets the mean of their members, weighted by how often they use it.
    """
    S, A = costs.shape[1], costs.shape[2]
    P, R = np.empty((S, S)), np.empty((S, len(costs) + 1))
    J, H = np.empty(len(costs)), np.empty((len(costs), S))
    laws = np.zeros((len(basis), S))
    mu = np.zeros((S, A))
    for b in range(len(basis)):
        if basis[b] < 0 or weights[b] <= _SUPPORT:
            continue
        actions, order = pool.actions[basis[b]], pool.orders[basis[b]]
        evaluate(within, costs, actions, order, P, R, J, H)
        total = 0.0
        for k in range(S):
            mass = 1.0 if k == 0 else 0.0
            for i in range(k):
                mass += laws[b, order[i]] * P[i, k]
            laws[b, order[k]] = mass
            total += mass
        for s in range(S):
            laws[b, s] *= weights[b] / total
            mu[s, actions[s]] += laws[b, s]
    states = np.arange(S)
    for s in range(S):
        for a in range(A):
            if mu[s, a] <= _SUPPORT:
                continue
            row = p[s * A + a]
            row[:] = 0.0
            for b in range(len(basis)):
                if laws[b, s] > 0.0 and pool.actions[basis[b], s] == a:
                    add_member(within, s * A + a, pool.orders[basis[b]], states, laws[b, s] / mu[s, a], row)
            total = 0.0
            for j in range(S):
                row[j] = min(max(row[j], lower[s * A + a, j]), upper[s * A + a, j])
                total += row[j]
            for j in range(S):
                row[j] /= total
    return mu


@njit
def execute(mu: Floats, p: Floats, way: Ints) -> tuple[Floats, bool, bool, Ints]:
    """The policy (S, A) of an occupancy, led into its support from elsewhere.

    Also whether that was possible everywhere, whether the support is one recurrent class (if not, the policy is of
    no use), and the actions off the support, from which the search of the next call may start (`way`).
    """
    S, A = mu.shape
    policy = np.full((S, A), 1.0 / A)
    if not one_class(mu, p, _SUPPORT):
        return policy, False, False, way
    found = np.zeros(S, dtype=np.bool_)
    lost = 0
    for s in range(S):
        mass = 0.0
        for a in range(A):
            mass += mu[s, a] if mu[s, a] > _SUPPORT else 0.0
        found[s] = mass > 0.0
        lost += not found[s]
        if found[s]:
            for a in range(A):
                policy[s, a] = mu[s, a] / mass if mu[s, a] > _SUPPORT else 0.0
    actions = way.copy()
    targets = found.copy()
    for least in (_CUT, 0.0):
        if lost == 0:
            break
        begin, index, value = _rows(p, A, targets, least)
        taken, _ = fastest(begin, index, value, A, targets, way)
        for s in range(S):
            if not found[s] and taken[s] >= 0:
                found[s] = True
                lost -= 1
                actions[s] = taken[s]
                policy[s] = 0.0
                policy[s, taken[s]] = 1.0
    return policy, lost == 0, True, actions


@njit
def _rows(p: Floats, A: int, targets: Bools, least: float) -> tuple[Ints, Ints, Floats]:
    """The rows of p (S * A, S) in compressed form, without the targets' and without entries up to `least`."""
    pairs, S = p.shape
    begin = np.zeros(pairs + 1, dtype=np.int64)
    for k in range(pairs):
        begin[k + 1] = begin[k]
        if not targets[k // A]:
            for j in range(S):
                begin[k + 1] += p[k, j] > least
    index, value = np.empty(begin[pairs], dtype=np.int64), np.empty(begin[pairs])
    for k in range(pairs):
        at, total = begin[k], 0.0
        if not targets[k // A]:
            for j in range(S):
                if p[k, j] > least:
                    index[at], value[at] = j, p[k, j]
                    total += p[k, j]
                    at += 1
            for t in range(begin[k], at):
                value[t] /= total
    return begin, index, value
