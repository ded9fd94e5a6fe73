"""Compiled evaluation of deterministic policies in models of many states: no inverse, nothing of size S x S.

The systems are those of `_chain_kernels`: M y = c for gain and bias, mu M = e_r for the stationary law. Here M is
never inverted. A nearby chain, in which all rare moves lead to the reference state r, is eliminated without
subtractions, states far from r first; where a policy mostly has one likely move in each state, this leaves nearly
nothing to do. GMRES with that factor brings the rare moves back; its residuals are those of the whole rows.
"""

import math

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl._numba import njit, njit_sums
from psconrl.planning._rows_kernels import longer

Elimination = tuple[Ints, Ints, Ints, Floats, Ints, Ints, Floats, Floats]
Factor = tuple[Ints, Ints, Ints, Floats, Ints, Ints, Floats, Floats, Floats, Floats]

RARE = 0.03
"""Moves less likely than this are left out of the factor."""
_NEAR = np.array([0.3, 0.02])
"""The order of elimination follows moves at least this likely, the first as far as they lead."""
_STEPS = 40
"""GMRES steps before it starts again."""
_RESTARTS = 4


@njit
def likely_state(policy: Ints, r: int, A: int, indptr: Ints, indices: Ints, data: Floats) -> int:
    """A state where the likeliest moves from r end up again and again: r itself, if it is one."""
    S = len(policy)
    seen = np.zeros(S, dtype=np.bool_)
    s = r
    while not seen[s]:
        seen[s] = True
        pair = s * A + policy[s]
        best = 0.0
        next_state = s
        for entry in range(indptr[pair], indptr[pair + 1]):
            if indices[entry] != s and data[entry] > best:
                best, next_state = data[entry], indices[entry]
        s = next_state
    return s


@njit
def elimination_order(policy: Ints, r: int, A: int, indptr: Ints, indices: Ints, data: Floats) -> Ints:
    """The states, far from r first, r last: distances count likely moves."""
    S = len(policy)
    least = _NEAR[-1]
    begin = np.zeros(S + 1, dtype=np.int64)
    for s in range(S):
        pair = s * A + policy[s]
        for entry in range(indptr[pair], indptr[pair + 1]):
            if data[entry] > least:
                begin[indices[entry] + 1] += 1
    for s in range(S):
        begin[s + 1] += begin[s]
    origin = np.empty(begin[S], dtype=np.int64)
    likely = np.empty(begin[S])
    filled = begin[:S].copy()
    for s in range(S):
        pair = s * A + policy[s]
        for entry in range(indptr[pair], indptr[pair + 1]):
            if data[entry] > least:
                x = indices[entry]
                origin[filled[x]] = s
                likely[filled[x]] = data[entry]
                filled[x] += 1
    order = np.empty(S, dtype=np.int64)
    reached = np.zeros(S, dtype=np.bool_)
    at = S - 1
    order[at] = r
    reached[r] = True
    for tier in _NEAR:
        # Whatever is reached looks again for states that lead to it by moves of this tier.
        look = S - 1
        while look >= at:
            x = order[look]
            look -= 1
            for k in range(begin[x], begin[x + 1]):
                s = origin[k]
                if not reached[s] and likely[k] >= tier:
                    reached[s] = True
                    at -= 1
                    order[at] = s
    for s in range(S):
        if not reached[s]:
            at -= 1
            order[at] = s
    return order


@njit
def factorise(
    policy: Ints, r: int, A: int, indptr: Ints, indices: Ints, data: Floats, rare: float
) -> tuple[bool, Factor]:
    """Eliminate all states but r from the chain whose moves below `rare` lead to r; False if r is not always reached.

    The factor: what `eliminate_rows` gives; expected times to r, and visits on the way from r back to r.
    """
    S = len(policy)
    order = elimination_order(policy, r, A, indptr, indices, data)
    place = np.empty(S, dtype=np.int64)
    for i in range(S):
        place[order[i]] = i
    fine, low_begin, low_at, low, up_begin, up_at, up, out = eliminate_rows(
        order, place, policy, A, indptr, indices, data, rare, 0.0
    )
    times, visits_from = np.ones(S), np.zeros(S)
    factor = (order, low_begin, low_at, low, up_begin, up_at, up, out, times, visits_from)
    if fine:
        solve(factor[:8], times)
        pair = r * A + policy[r]
        for entry in range(indptr[pair], indptr[pair + 1]):
            if indices[entry] != r:
                visits_from[indices[entry]] += data[entry]
        _solve_transposed(factor[:8], visits_from)
    return fine, factor


@njit
def eliminate_rows(
    order: Ints, place: Ints, policy: Ints, A: int, indptr: Ints, indices: Ints, data: Floats, rare: float, least: float
) -> tuple[bool, Ints, Ints, Floats, Ints, Ints, Floats, Floats]:
    """Eliminate the states order[0], ..., order[n - 1] from a chain, one after another, without subtractions.

    All states with the place n are one, which stays. Moves up to `least` are left out, those below `rare` lead to it.
    Whether all lead there; by rows in that order, the visits to states eliminated before, and where a state leads to
    afterwards; the ways out.
    """
    n = len(order) - 1
    S = n + 1
    low_begin = np.zeros(S + 1, dtype=np.int64)
    up_begin = np.zeros(S + 1, dtype=np.int64)
    low_at, up_at = np.empty(8 * S, dtype=np.int64), np.empty(8 * S, dtype=np.int64)
    low, up = np.empty(8 * S), np.empty(8 * S)
    out = np.ones(S)
    home = np.zeros(S)
    row = np.zeros(S)
    touched, waiting = np.empty(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    lows = ups = 0
    fine = True
    for i in range(n):
        while lows + S > len(low):
            low_at, low = longer(low_at), longer(low)
        while ups + S > len(up):
            up_at, up = longer(up_at), longer(up)
        s = order[i]
        pair = s * A + policy[s]
        to_r = 0.0
        count = before = 0
        for entry in range(indptr[pair], indptr[pair + 1]):
            j = place[indices[entry]]
            if j == i:
                continue
            p = data[entry]
            if p <= least:
                continue
            if j == n or p < rare:
                to_r += p
            else:
                if row[j] == 0.0 and j < i:
                    push(waiting, before, j)
                    before += 1
                elif row[j] == 0.0:
                    touched[count] = j
                    count += 1
                row[j] += p
        while before > 0:
            before -= 1
            k = pop(waiting, before)
            p = row[k]
            row[k] = 0.0
            if p < rare:
                to_r += p
                continue
            visits = p / out[k]
            low_at[lows] = k
            low[lows] = visits
            lows += 1
            to_r += visits * home[k]
            for e in range(up_begin[k], up_begin[k + 1]):
                j = up_at[e]
                flow = visits * up[e]
                if j != i and flow > 0.0:
                    if row[j] == 0.0 and j < i:
                        push(waiting, before, j)
                        before += 1
                    elif row[j] == 0.0:
                        touched[count] = j
                        count += 1
                    row[j] += flow
        total = to_r
        for e in range(count):
            total += row[touched[e]]
        for e in range(count):
            j = touched[e]
            if row[j] >= rare * total:
                up_at[ups] = j
                up[ups] = row[j]
                ups += 1
            else:
                to_r += row[j]
            row[j] = 0.0
        out[i] = total
        home[i] = to_r
        fine = fine and total > 0.0
        low_begin[i + 1] = lows
        up_begin[i + 1] = ups
    low_begin[S] = lows
    up_begin[S] = ups
    return fine, low_begin, low_at[:lows].copy(), low[:lows].copy(), up_begin, up_at[:ups].copy(), up[:ups].copy(), out


@njit
def push(heap: Ints, size: int, number: int) -> None:
    """Put a number on a heap of so many, the least on top."""
    at = size
    while at > 0 and heap[(at - 1) // 2] > number:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = number


@njit
def pop(heap: Ints, size: int) -> int:
    """Take the least number off a heap, which holds so many afterwards."""
    top, last = heap[0], heap[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last
    return int(top)


@njit
def solve(factor: Elimination, b: Floats) -> None:
    """Amounts b (S,) per visit, in place, become what is collected on the way to r; 0 at r."""
    order, low_begin, low_at, low, up_begin, up_at, up, out = factor
    n = len(order) - 1
    for i in range(n):
        total = b[order[i]]
        for e in range(low_begin[i], low_begin[i + 1]):
            total += low[e] * b[order[low_at[e]]]
        b[order[i]] = total
    b[order[n]] = 0.0
    for i in range(n - 1, -1, -1):
        total = b[order[i]]
        for e in range(up_begin[i], up_begin[i + 1]):
            total += up[e] * b[order[up_at[e]]]
        b[order[i]] = total / out[i]


@njit
def _solve_transposed(factor: Elimination, b: Floats) -> None:
    """Chances b (S,) of starting, in place, become expected visits on the way to r; 0 at r."""
    order, low_begin, low_at, low, up_begin, up_at, up, out = factor
    n = len(order) - 1
    b[order[n]] = 0.0
    for i in range(n):
        visits = b[order[i]] / out[i]
        b[order[i]] = visits
        for e in range(up_begin[i], up_begin[i + 1]):
            b[order[up_at[e]]] += visits * up[e]
    b[order[n]] = 0.0
    for i in range(n - 1, -1, -1):
        visits = b[order[i]]
        for e in range(low_begin[i], low_begin[i + 1]):
            b[order[low_at[e]]] += visits * low[e]


@njit
def _approximate(
    factor: Factor,
    policy: Ints,
    r: int,
    A: int,
    indptr: Ints,
    indices: Ints,
    data: Floats,
    b: Floats,
    y: Floats,
    transposed: bool,
) -> None:
    """Write y with M y = b, or y M = b, for the nearby chain."""
    S = len(policy)
    times, visits = factor[8], factor[9]
    for s in range(S):
        y[s] = b[s]
    if transposed:
        _solve_transposed(factor[:8], y)
        above, below = b[r], 1.0
        for s in range(S):
            above -= y[s]
            below += visits[s]
        share = above / below
        for s in range(S):
            y[s] += share * visits[s]
        y[r] = share
        return
    solve(factor[:8], y)
    above, below = b[r], 1.0
    pair = r * A + policy[r]
    for entry in range(indptr[pair], indptr[pair + 1]):
        x = indices[entry]
        if x != r:
            above += data[entry] * y[x]
            below += data[entry] * times[x]
    g = above / below
    for s in range(S):
        y[s] -= g * times[s]
    y[r] = g


@njit
def _apply(
    policy: Ints, r: int, A: int, indptr: Ints, indices: Ints, data: Floats, y: Floats, b: Floats, transposed: bool
) -> None:
    """Write b = M y, or b = y M."""
    S = len(policy)
    if transposed:
        for s in range(S):
            b[s] = 0.0
        everything = 0.0
        for s in range(S):
            pair = s * A + policy[s]
            mass = y[s]
            everything += mass
            left = 0.0
            for entry in range(indptr[pair], indptr[pair + 1]):
                flow = mass * data[entry]
                left += flow
                b[indices[entry]] -= flow
            b[s] += left
        b[r] = everything
        return
    g = y[r]
    y[r] = 0.0
    for s in range(S):
        pair = s * A + policy[s]
        own = y[s]
        total = g
        for entry in range(indptr[pair], indptr[pair + 1]):
            total += data[entry] * (own - y[indices[entry]])
        b[s] = total
    y[r] = g


@njit
def refine(
    factor: Factor,
    policy: Ints,
    r: int,
    A: int,
    indptr: Ints,
    indices: Ints,
    data: Floats,
    b: Floats,
    y: Floats,
    transposed: bool,
    enough: float,
) -> float:
    """Correct y, in place, until M y = b (or y M = b) to `enough` in the Euclidean norm; what is left in the end."""
    S = len(policy)
    V = np.empty((_STEPS + 1, S))
    H = np.zeros((_STEPS + 1, _STEPS))
    cosine, sine, e = np.zeros(_STEPS), np.zeros(_STEPS), np.zeros(_STEPS + 1)
    v, w = np.empty(S), np.empty(S)
    left = np.inf
    for _ in range(_RESTARTS):
        _apply(policy, r, A, indptr, indices, data, y, w, transposed)
        for s in range(S):
            w[s] = b[s] - w[s]
        before, left = left, math.sqrt(_square(w))
        if not left > enough or not left < before:
            break
        for s in range(S):
            V[0, s] = w[s] / left
        e[0] = left
        used = 0
        for k in range(_STEPS):
            _approximate(factor, policy, r, A, indptr, indices, data, V[k], v, transposed)
            _apply(policy, r, A, indptr, indices, data, v, w, transposed)
            for i in range(k + 1):
                H[i, k] = _project(V, i, w)
            norm = math.sqrt(_square(w))
            for i in range(k):
                upper, under = H[i, k], H[i + 1, k]
                H[i, k] = cosine[i] * upper + sine[i] * under
                H[i + 1, k] = cosine[i] * under - sine[i] * upper
            size = math.hypot(H[k, k], norm)
            if not size > 0.0:
                break
            cosine[k], sine[k] = H[k, k] / size, norm / size
            H[k, k] = size
            e[k + 1] = -sine[k] * e[k]
            e[k] *= cosine[k]
            used = k + 1
            if not abs(e[k + 1]) > 0.5 * enough or norm <= 1e-14 * size:
                break
            for s in range(S):
                V[k + 1, s] = w[s] / norm
        for s in range(S):
            w[s] = 0.0
        for i in range(used - 1, -1, -1):
            for j in range(i + 1, used):
                e[i] -= H[i, j] * e[j]
            e[i] /= H[i, i]
            for s in range(S):
                w[s] += e[i] * V[i, s]
        _approximate(factor, policy, r, A, indptr, indices, data, w, v, transposed)
        for s in range(S):
            y[s] += v[s]
    return left


@njit_sums
def _square(w: Floats) -> float:
    total = 0.0
    for s in range(len(w)):
        total += w[s] * w[s]
    return total


@njit_sums
def _project(V: Floats, i: int, w: Floats) -> float:
    """Take the direction V[i] out of w, in place; how much of it there was."""
    total = 0.0
    for s in range(len(w)):
        total += V[i, s] * w[s]
    for s in range(len(w)):
        w[s] -= total * V[i, s]
    return total
