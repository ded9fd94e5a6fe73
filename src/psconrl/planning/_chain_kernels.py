"""Compiled evaluation of deterministic policies in a model by rows, one after another.

A model is given by its rows s * A + a in compressed form: indptr, indices, data. With a reference state r, the gain g
and the bias h (h(r) = 0) of a policy with one closed class solve

    h(s) - sum_x p(x | s, pi(s)) h(x) + g = c(s, pi(s))       for every s,

that is M y = c with y = h but y(r) = g, and M = I - P with ones in column r. Row r of the inverse of M is the
stationary law. Another action in one state changes one row of M, so the inverse follows by a rank-one update.
"""

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl._numba import njit
from psconrl.planning._kernels import stationary

NARROW = 1e-13
"""A rank-one update that shrinks the determinant below this share has no correct digits: invert anew."""

_NOTHING = 1e-16
"""Updates of the inverse by less than this are left out."""

_LIKELY = np.array([0.3, 1e-2, 1e-4, 1e-6, 0.0])
"""Rerouted states prefer moves at least this likely, the first that gives a way."""


@njit
def fill_row(M: Floats, s: int, pair: int, r: int, indptr: Ints, indices: Ints, data: Floats) -> None:
    """Write row s of M for the pair chosen there."""
    for x in range(M.shape[1]):
        M[s, x] = 0.0
    out = 0.0
    for entry in range(indptr[pair], indptr[pair + 1]):
        x = indices[entry]
        if x != s:
            # The way out is summed: 1 - p(s | s) would lose digits where a state is hardly ever left.
            out += data[entry]
            M[s, x] = -data[entry]
    M[s, s] = out
    M[s, r] = 1.0


@njit
def invert(policy: Ints, r: int, A: int, indptr: Ints, indices: Ints, data: Floats) -> Floats:
    """The inverse of M; not finite if it has none."""
    S = len(policy)
    M = np.empty((S, S))
    for s in range(S):
        fill_row(M, s, s * A + policy[s], r, indptr, indices, data)
    try:
        return np.ascontiguousarray(np.linalg.inv(M))
    except Exception:
        return np.full((S, S), np.nan)


@njit
def change(
    inverse: Floats, policy: Ints, s: int, a: int, r: int, A: int, indptr: Ints, indices: Ints, data: Floats
) -> bool:
    """Let the policy take action a in state s and update the inverse; False if that lost its digits."""
    S = len(policy)
    v = np.zeros(S)
    size, out = 0.0, 0.0
    for new in range(2):
        pair = s * A + (a if new else policy[s])
        sign = -1.0 if new else 1.0
        for entry in range(indptr[pair], indptr[pair + 1]):
            x = indices[entry]
            if x != s:
                p = sign * data[entry]
                size += data[entry]
                out -= p
                if x != r:  # column r holds ones and does not change
                    row = inverse[x]
                    for j in range(S):
                        v[j] += p * row[j]
    if s != r:
        row = inverse[s]
        for j in range(S):
            v[j] += out * row[j]
    share = 1.0 + v[s]
    policy[s] = a
    if not abs(share) > NARROW * (1.0 + size):
        return False
    largest = 0.0
    for j in range(S):
        largest = max(largest, abs(v[j]))
    least = _NOTHING * abs(share) / largest if largest > 0.0 else np.inf
    for i in range(S):
        # Most states hardly ever lead to s, and rounding is corrected anyway.
        if abs(inverse[i, s]) > least:
            f = inverse[i, s] / share
            row = inverse[i]
            for j in range(S):
                row[j] -= f * v[j]
    return True


@njit
def law(inverse: Floats, policy: Ints, r: int, A: int, indptr: Ints, indices: Ints, data: Floats) -> Floats:
    """The stationary law: row r of the inverse, corrected once, without rounding below zero."""
    S = len(policy)
    mu = inverse[r].copy()
    residual = np.zeros(S)
    for s in range(S):
        pair = s * A + policy[s]
        for entry in range(indptr[pair], indptr[pair + 1]):
            x = indices[entry]
            if x != s:
                flow = mu[s] * data[entry]
                residual[s] -= flow
                residual[x] += flow
    residual[r] = 1.0 - mu.sum()
    mu += residual @ inverse
    total = 0.0
    for s in range(S):
        mu[s] = max(mu[s], 0.0)
        total += mu[s]
    return mu / total


@njit
def bias(
    inverse: Floats, policy: Ints, r: int, A: int, indptr: Ints, indices: Ints, data: Floats, c: Floats
) -> tuple[float, Floats]:
    """Gain and bias of the policy for the costs c (S * A), corrected once."""
    S = len(policy)
    rhs = np.empty(S)
    for s in range(S):
        rhs[s] = c[s * A + policy[s]]
    h = inverse @ rhs
    g = h[r]
    h[r] = 0.0
    for s in range(S):
        pair = s * A + policy[s]
        left = c[pair] - g
        for entry in range(indptr[pair], indptr[pair + 1]):
            left += data[entry] * (h[indices[entry]] - h[s])
        rhs[s] = left
    correction = inverse @ rhs
    g += correction[r]
    correction[r] = 0.0
    return g, h + correction


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


@njit
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
    member, missing = 0, 0
    for s in range(S):
        led[s] = label[s] == best
        if led[s]:
            member = s
        else:
            missing += 1
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
    return member, missing == 0


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
