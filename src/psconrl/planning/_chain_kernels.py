"""Compiled evaluation of deterministic policies in a model by rows, one after another.

A model is given by its rows s * A + a in compressed form: indptr, indices, data. With a reference state r, the gain g
and the bias h (h(r) = 0) of a policy with one closed class solve

    h(s) - sum_x p(x | s, pi(s)) h(x) + g = c(s, pi(s))       for every s,

that is M y = c with y = h but y(r) = g, and M = I - P with ones in column r. Row r of the inverse of M is the
stationary law. Another action in one state changes one row of M, so the inverse follows by a rank-one update.
"""

import numpy as np

from psconrl._checks import Bools, Floats, Ints
from psconrl._numba import njit, njit_inline, njit_sums
from psconrl.planning._kernels import stationary

NARROW = 1e-13
"""A rank-one update that shrinks the determinant below this share has no correct digits: invert anew."""

HUGE = 1e11
"""Numbers above this in an inverse, or in a bias, come from a policy whose chain falls apart."""

LARGE = 1e7
"""Numbers above this in an inverse may come from a bad reference state; then another one is tried."""

_RESIDUAL = 1e-13
"""Errors in the equations of the bias that are not worth a correction."""

_NOTHING = 1e-16
"""Updates of the inverse by less than this are left out."""

_LIKELY = np.array([0.3, 1e-2, 1e-4, 1e-6, 0.0])
"""Rerouted states prefer moves at least this likely, the first that gives a way."""


@njit_inline
def invert(policy: Ints, r: int, A: int, indptr: Ints, indices: Ints, data: Floats, limit: float) -> tuple[int, Floats]:
    """The inverse of M, built from that of a chain in which all states lead to r; -1 before it if this succeeded.

    Else before it: a state that completed a closed class without r. limit: of the numbers in it.
    """
    S = len(policy)
    inverse = np.zeros((S, S))
    nowhere = np.empty(S, dtype=np.int64)
    for s in range(S):
        inverse[s, s] = 1.0
        inverse[s, r] = 1.0 if s == r else -1.0
        nowhere[s] = -1
    return turn(inverse, nowhere, policy, r, A, indptr, indices, data, limit), inverse


@njit
def turn(
    inverse: Floats,
    policy: Ints,
    wanted: Ints,
    r: int,
    A: int,
    indptr: Ints,
    indices: Ints,
    data: Floats,
    limit: float,
) -> int:
    """Make a policy another one, and its inverse that of the other; -1 if this succeeded.

    Else a state in which the new action cost the inverse its digits. Action -1 leads to r.
    """
    v = np.empty(len(policy))
    lost = -1
    for s in range(len(policy)):
        if policy[s] != wanted[s]:
            old, policy[s] = policy[s], wanted[s]
            if lost < 0 and not _change(inverse, v, s, old, wanted[s], r, A, indptr, indices, data, limit):
                lost = s
    return lost


@njit_inline
def _change(
    inverse: Floats,
    v: Floats,
    s: int,
    old: int,
    new: int,
    r: int,
    A: int,
    indptr: Ints,
    indices: Ints,
    data: Floats,
    limit: float,
) -> bool:
    """Update the inverse for another action in state s; v (S,) is overwritten. False if that lost its digits."""
    S = len(v)
    for j in range(S):
        v[j] = 0.0
    # The way out is summed: 1 - p(s | s) would lose digits where a state is hardly ever left.
    size, out = 0.0, 0.0
    if old < 0:
        size, out = 1.0, -1.0
    for turned in range(old < 0, 2):
        pair = s * A + (new if turned else old)
        for entry in range(indptr[pair], indptr[pair + 1]):
            x = indices[entry]
            if x != s:
                p = -data[entry] if turned else data[entry]
                size += data[entry]
                out -= p
                if x != r:  # column r holds ones and does not change
                    for j in range(S):
                        v[j] += p * inverse[x, j]
    if s != r:
        for j in range(S):
            v[j] += out * inverse[s, j]
    share = 1.0 + v[s]
    if not abs(share) > NARROW * (1.0 + size):
        return False
    largest, most = 0.0, 0.0
    for j in range(S):
        largest, most = max(largest, abs(v[j])), max(most, abs(inverse[j, s]))
    if not largest * most < limit * abs(share):
        return False
    least = _NOTHING * abs(share) / largest if largest > 0.0 else np.inf
    for i in range(S):
        # Most states hardly ever lead to s, and rounding is corrected anyway.
        if abs(inverse[i, s]) > least:
            f = inverse[i, s] / share
            for j in range(S):
                inverse[i, j] -= f * v[j]
    return True


@njit
def law(inverse: Floats, policy: Ints, r: int, A: int, indptr: Ints, indices: Ints, data: Floats) -> Floats:
    """The stationary law: row r of the inverse, corrected once, without rounding below zero."""
    S = len(policy)
    mu, residual = np.empty(S), np.zeros(S)
    total = 0.0
    for s in range(S):
        mu[s] = inverse[r, s]
        total += mu[s]
    for s in range(S):
        pair = s * A + policy[s]
        for entry in range(indptr[pair], indptr[pair + 1]):
            x = indices[entry]
            if x != s:
                flow = mu[s] * data[entry]
                residual[s] -= flow
                residual[x] += flow
    residual[r] = 1.0 - total
    for s in range(S):
        left = residual[s]
        if left != 0.0:
            for j in range(S):
                mu[j] += left * inverse[s, j]
    total = 0.0
    for s in range(S):
        mu[s] = max(mu[s], 0.0)
        total += mu[s]
    for s in range(S):
        mu[s] /= total
    return mu


@njit
def bias(
    inverse: Floats, policy: Ints, h: Floats, r: int, A: int, indptr: Ints, indices: Ints, data: Floats, c: Floats
) -> float:
    """The gain of the policy for the costs c (S * A), and its bias to h; corrected once if need be."""
    S = len(policy)
    rhs = np.empty(S)
    for s in range(S):
        h[s] = 0.0
        rhs[s] = c[s * A + policy[s]]
    g = _add_solution(inverse, rhs, r, h)
    largest = 0.0
    for s in range(S):
        pair = s * A + policy[s]
        left = c[pair] - g
        for entry in range(indptr[pair], indptr[pair + 1]):
            left += data[entry] * (h[indices[entry]] - h[s])
        rhs[s] = left
        largest = max(largest, abs(left))
    if largest > _RESIDUAL:
        g += _add_solution(inverse, rhs, r, h)
    return g


@njit_sums
def _add_solution(inverse: Floats, rhs: Floats, r: int, h: Floats) -> float:
    """Add the bias for a right-hand side to h; its gain."""
    S = len(rhs)
    g = 0.0
    for s in range(S):
        total = 0.0
        for j in range(S):
            total += inverse[s, j] * rhs[j]
        if s == r:
            g = total
        else:
            h[s] += total
    return g


@njit
def closed_classes(policy: Ints, A: int, indptr: Ints, indices: Ints) -> tuple[Ints, int]:
    """For each state the number of its closed class, -1 if it is in none; and how many there are (Tarjan)."""
    S = len(policy)
    found = np.full(S, -1)
    low = np.zeros(S, dtype=np.int64)
    component = np.full(S, -1)
    leaves = np.zeros(S, dtype=np.bool_)
    stack = np.empty(S, dtype=np.int64)
    call = np.empty(S, dtype=np.int64)
    at = np.empty(S, dtype=np.int64)
    size, order, components, classes = 0, 0, 0, 0
    label = np.full(S, -1)
    for root in range(S):
        if found[root] >= 0:
            continue
        depth = -1
        enter = root
        while True:
            if enter >= 0:
                found[enter] = low[enter] = order
                order += 1
                stack[size] = enter
                size += 1
                at[enter] = indptr[enter * A + policy[enter]]
                depth += 1
                call[depth] = enter
                enter = -1
            s = call[depth]
            if at[s] < indptr[s * A + policy[s] + 1]:
                x = indices[at[s]]
                at[s] += 1
                if found[x] < 0:
                    enter = x
                elif component[x] < 0:
                    low[s] = min(low[s], found[x])
                else:
                    leaves[s] = True
                continue
            depth -= 1
            if low[s] == found[s]:
                first = size
                leaving = False
                while True:
                    first -= 1
                    component[stack[first]] = components
                    leaving = leaving or leaves[stack[first]]
                    if stack[first] == s:
                        break
                if not leaving:
                    for i in range(first, size):
                        label[stack[i]] = classes
                    classes += 1
                size = first
                components += 1
                if depth >= 0:
                    leaves[call[depth]] = True
            elif depth >= 0:
                low[call[depth]] = min(low[call[depth]], low[s])
            if depth < 0:
                break
    return label, classes


@njit_inline
def reroute(policy: Ints, A: int, indptr: Ints, indices: Ints, data: Floats, c: Floats) -> tuple[int, bool]:
    """Make a policy's closed class with the least average of c (S * A) its only one, by leading the rest to it.

    Changes the policy in place; a state of the class, and whether all others can be led to it.
    """
    S = len(policy)
    label, classes = closed_classes(policy, A, indptr, indices)
    best, least = 0, np.inf
    place = np.empty(S, dtype=np.int64)
    for k in range(classes):
        average = _class_average(policy, k, label, place, A, indptr, indices, data, c)
        if average < least:
            best, least = k, average
    led = np.zeros(S, dtype=np.bool_)
    member = 0
    for s in range(S):
        led[s] = label[s] == best
        if led[s]:
            member = s
    return member, lead(policy, led, A, indptr, indices, data)


@njit
def lead(policy: Ints, led: Bools, A: int, indptr: Ints, indices: Ints, data: Floats) -> bool:
    """Let a policy, in place, lead all states to those that are led already; whether that is possible."""
    S = len(policy)
    missing = 0
    for s in range(S):
        missing += not led[s]
    for level in range(len(_LIKELY)):
        progress = True
        while missing > 0 and progress:
            progress = False
            for s in range(S):
                if led[s]:
                    continue
                # The action it takes already, then the others.
                for k in range(A):
                    a = (policy[s] + k) % A
                    likely = 0.0
                    for entry in range(indptr[s * A + a], indptr[s * A + a + 1]):
                        if led[indices[entry]]:
                            likely += data[entry]
                    if likely > _LIKELY[level]:
                        policy[s] = a
                        led[s] = True
                        progress = True
                        missing -= 1
                        break
    return missing == 0


@njit
def _class_average(
    policy: Ints, k: int, label: Ints, place: Ints, A: int, indptr: Ints, indices: Ints, data: Floats, c: Floats
) -> float:
    """The average of c on the closed class k; `place` (S,) is overwritten."""
    S = len(policy)
    size = 0
    for s in range(S):
        if label[s] == k:
            place[s] = size
            size += 1
    P = np.zeros((size, size))
    own = np.empty(size)
    for s in range(S):
        if label[s] == k:
            pair = s * A + policy[s]
            own[place[s]] = c[pair]
            for entry in range(indptr[pair], indptr[pair + 1]):
                P[place[s], place[indices[entry]]] += data[entry]
    mu = stationary(P)
    average = 0.0
    for i in range(size):
        average += mu[i] * own[i]
    return average
