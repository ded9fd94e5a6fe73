"""Deterministic policies in models of many states, evaluated by sparse factors: nothing of size S x S.

The systems are those of `inverses`: M y = c for gain and bias, mu M = e_r for the stationary law. Here M is never
inverted. A nearby chain, in which all rare moves lead to the reference state r, is eliminated without subtractions,
states far from r first; where a policy mostly has one likely move in each state, this leaves nearly nothing to do.
GMRES with that factor brings the rare moves back; its residuals are those of the whole rows.
"""

import math
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.elimination import longer_floats, longer_ints, pop, push
from psconrl.planning.compiled.rows import Rows, row_times

RARE = 0.03
"""Moves less likely than this are left out of the factor."""
_NEAR = np.array([0.3, 0.02])
"""The order of elimination follows moves at least this likely, the first as far as they lead."""
_STEPS = 40
"""GMRES steps before it starts again."""
_RESTARTS = 4


class Factor(NamedTuple):
    """A policy (S,) whose nearby chain is eliminated but for the reference state, the last of `order` (S,).

    By rows in that order: low, the visits to states eliminated before; up, where a state leads to afterwards; out, the
    ways out. times (S,): expected times to the reference; visits (S,): on the way from it back to it. fine: whether
    all states lead to it.
    """

    policy: Ints
    order: Ints
    low_begin: Ints
    low_at: Ints
    low: Floats
    up_begin: Ints
    up_at: Ints
    up: Floats
    out: Floats
    times: Floats
    visits: Floats
    fine: bool


@njit
def likely_state(rows: Rows, policy: Ints, r: int) -> int:
    """A state where the likeliest moves from r end up again and again: r itself, if it is one."""
    S = len(policy)
    seen = np.zeros(S, dtype=np.bool_)
    s = r
    while not seen[s]:
        seen[s] = True
        pair = policy[s]
        best = 0.0
        next_state = s
        for entry in range(rows.indptr[pair], rows.indptr[pair + 1]):
            if rows.indices[entry] != s and rows.data[entry] > best:
                best, next_state = rows.data[entry], rows.indices[entry]
        s = next_state
    return s


@njit
def elimination_order(rows: Rows, policy: Ints, r: int) -> Ints:
    """The states, far from r first, r last: distances count likely moves."""
    S = len(policy)
    least = _NEAR[-1]
    begin = np.zeros(S + 1, dtype=np.int64)
    for s in range(S):
        pair = policy[s]
        for entry in range(rows.indptr[pair], rows.indptr[pair + 1]):
            if rows.data[entry] > least:
                begin[rows.indices[entry] + 1] += 1
    for s in range(S):
        begin[s + 1] += begin[s]
    origin = np.empty(begin[S], dtype=np.int64)
    likely = np.empty(begin[S])
    filled = begin[:S].copy()
    for s in range(S):
        pair = policy[s]
        for entry in range(rows.indptr[pair], rows.indptr[pair + 1]):
            if rows.data[entry] > least:
                x = rows.indices[entry]
                origin[filled[x]] = s
                likely[filled[x]] = rows.data[entry]
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
def factorise(rows: Rows, policy: Ints, r: int, rare: float) -> Factor:
    """Eliminate all states but r from the chain of a policy whose moves below `rare` lead to r."""
    S = len(policy)
    order = elimination_order(rows, policy, r)
    place = np.empty(S, dtype=np.int64)
    for i in range(S):
        place[order[i]] = i
    n = S - 1
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
        low_at, low = longer_ints(low_at, lows + i + 1), longer_floats(low, lows + i + 1)
        up_at, up = longer_ints(up_at, ups + S - i), longer_floats(up, ups + S - i)
        s = order[i]
        pair = policy[s]
        to_r = 0.0
        count = before = 0
        for entry in range(rows.indptr[pair], rows.indptr[pair + 1]):
            j = place[rows.indices[entry]]
            if j == i:
                continue
            p = rows.data[entry]
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
    times, visits = np.ones(S), np.zeros(S)
    factor = Factor(
        policy, order, low_begin, low_at[:lows], low[:lows], up_begin, up_at[:ups], up[:ups], out, times, visits, fine
    )
    if fine:
        _collect(factor, times)
        pair = policy[r]
        for entry in range(rows.indptr[pair], rows.indptr[pair + 1]):
            if rows.indices[entry] != r:
                visits[rows.indices[entry]] += rows.data[entry]
        _visit(factor, visits)
    return factor


@njit
def _collect(factor: Factor, b: Floats) -> None:
    """Amounts b (S,) per visit, in place, become what is collected on the way to r; 0 at r."""
    order, low_begin, low_at, low = factor.order, factor.low_begin, factor.low_at, factor.low
    up_begin, up_at, up, out = factor.up_begin, factor.up_at, factor.up, factor.out
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
def _visit(factor: Factor, b: Floats) -> None:
    """Chances b (S,) of starting, in place, become expected visits on the way to r; 0 at r."""
    order, low_begin, low_at, low = factor.order, factor.low_begin, factor.low_at, factor.low
    up_begin, up_at, up, out = factor.up_begin, factor.up_at, factor.up, factor.out
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
def _approximate(rows: Rows, factor: Factor, b: Floats, y: Floats, transposed: bool) -> None:
    """Write y with M y = b, or y M = b, for the nearby chain."""
    policy, times, visits, r = factor.policy, factor.times, factor.visits, factor.order[-1]
    S = len(policy)
    for s in range(S):
        y[s] = b[s]
    if transposed:
        _visit(factor, y)
        above, below = b[r], 1.0
        for s in range(S):
            above -= y[s]
            below += visits[s]
        share = above / below
        for s in range(S):
            y[s] += share * visits[s]
        y[r] = share
        return
    _collect(factor, y)
    above, below = b[r], 1.0
    pair = policy[r]
    for entry in range(rows.indptr[pair], rows.indptr[pair + 1]):
        x = rows.indices[entry]
        if x != r:
            above += rows.data[entry] * y[x]
            below += rows.data[entry] * times[x]
    g = above / below
    for s in range(S):
        y[s] -= g * times[s]
    y[r] = g


@njit
def _apply(rows: Rows, factor: Factor, y: Floats, b: Floats, transposed: bool) -> None:
    """Write b = M y, or b = y M."""
    policy, r = factor.policy, factor.order[-1]
    S = len(policy)
    if transposed:
        for s in range(S):
            b[s] = 0.0
        everything = 0.0
        for s in range(S):
            pair = policy[s]
            mass = y[s]
            everything += mass
            left = 0.0
            for entry in range(rows.indptr[pair], rows.indptr[pair + 1]):
                flow = mass * rows.data[entry]
                left += flow
                b[rows.indices[entry]] -= flow
            b[s] += left
        b[r] = everything
        return
    g = y[r]
    y[r] = 0.0
    for s in range(S):
        pair = policy[s]
        own = y[s]
        total = g
        for entry in range(rows.indptr[pair], rows.indptr[pair + 1]):
            total += rows.data[entry] * (own - y[rows.indices[entry]])
        b[s] = total
    y[r] = g


@njit
def refine(rows: Rows, factor: Factor, b: Floats, y: Floats, transposed: bool, enough: float) -> float:
    """Correct y, in place, until M y = b (or y M = b) to `enough` in the Euclidean norm; what is left in the end."""
    S = len(b)
    V = np.empty((_STEPS + 1, S))
    H = np.zeros((_STEPS + 1, _STEPS))
    cosine, sine, e = np.zeros(_STEPS), np.zeros(_STEPS), np.zeros(_STEPS + 1)
    v, w = np.empty(S), np.empty(S)
    left = np.inf
    for _ in range(_RESTARTS):
        _apply(rows, factor, y, w, transposed)
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
            _approximate(rows, factor, V[k], v, transposed)
            _apply(rows, factor, v, w, transposed)
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
        _approximate(rows, factor, w, v, transposed)
        for s in range(S):
            y[s] += v[s]
    return left


@njit
def _square(w: Floats) -> float:
    total = 0.0
    for s in range(len(w)):
        total += w[s] * w[s]
    return total


@njit
def _project(V: Floats, i: int, w: Floats) -> float:
    """Take the direction V[i] out of w, in place; how much of it there was."""
    total = row_times(V, i, w)
    for s in range(len(w)):
        w[s] -= total * V[i, s]
    return total
