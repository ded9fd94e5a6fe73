"""Deterministic policies in models of many states, evaluated by sparse factors: nothing of size S x S.

The systems are those of `inverses`: M y = c for gain and bias, mu M = e_r for the stationary law. Here M is never
inverted. States are eliminated without subtractions, all but the reference state r, in one of two ways:

- whole rows, in an order that fills in little for the graph of the whole model (`ordering`, `patterns`), where there is
  one, as in grids, corridors and rivers;
- a nearby chain, in which all rare moves lead to r, states far from r first, where every order would fill in much, as
  in random graphs: where a policy mostly has one likely move in each state, this leaves nearly nothing to do.

GMRES with that factor brings the rare moves back; its residuals are those of the whole rows. The factor of another
policy, not too different, will do as well. Places are unsigned where most of the time goes (see `rows.moves_of`).
"""

import math
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.elimination import longer_floats, longer_ints, pop, push
from psconrl.planning.compiled.patterns import Pattern
from psconrl.planning.compiled.rows import Rows, copy, row_times
from psconrl.planning.tolerances import EXACT_LAW

RARE, RARER = 0.03, 0.003
"""Moves less likely than this are left out of the factor; the second where no order fills in little."""
_NEAR = np.array([0.3, 0.02])
"""The order of elimination follows moves at least this likely, the first as far as they lead."""
STEPS = 40
"""GMRES steps before it starts again."""
RESTARTS = 4
_HOPE = 0.5
"""A start that leaves more than this share of what was left before is the last."""


class Factor(NamedTuple):
    """A chain that is eliminated but for the reference state, the last of `order` (S,).

    By rows in that order: low, the visits to states eliminated before; up, where a state leads to afterwards; out, the
    ways out. times (S,): expected times to the reference; visits (S,): on the way from it back to it. back (1,): the
    pair taken in the reference state; fine (1,): whether all states lead to it. Arrays may be longer than what is used.
    """

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
    back: Ints
    fine: Bools


class Aim(NamedTuple):
    """How exact an iteration must be, and how many steps it may take, how often anew."""

    enough: float
    steps: int
    restarts: int


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
def factor_room(S: int, fill: int) -> Factor:
    """Room for a factor of S states with so many numbers in each triangle; it grows where that is not enough."""
    size = fill + S
    return Factor(
        np.empty(S, dtype=np.int64),
        np.zeros(S + 1, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size),
        np.zeros(S + 1, dtype=np.int64),
        np.empty(size, dtype=np.int64),
        np.empty(size),
        np.ones(S),
        np.ones(S),
        np.zeros(S),
        np.zeros(1, dtype=np.int64),
        np.zeros(1, dtype=np.bool_),
    )


@njit
def factorise(rows: Rows, policy: Ints, order: Ints, rare: float, room: Factor) -> Factor:
    """Eliminate the states `order` (S,), all but the last one r, from the chain of a policy.

    Moves less likely than `rare` lead to r instead. The factor is written to `room`, and is that unless it had to grow.
    """
    S = len(policy)
    place = np.empty(S, dtype=np.int64)
    copy(order, room.order)
    for i in range(S):
        place[order[i]] = i
    n = S - 1
    low_begin, low_at, low = room.low_begin, room.low_at, room.low
    up_begin, up_at, up = room.up_begin, room.up_at, room.up
    out, times, visits = room.out, room.times, room.visits
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
            there = p / out[k]
            low_at[lows] = k
            low[lows] = there
            lows += 1
            to_r += there * home[k]
            for e in range(up_begin[k], up_begin[k + 1]):
                j = up_at[e]
                flow = there * up[e]
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
    factor = Factor(room.order, low_begin, low_at, low, up_begin, up_at, up, out, times, visits, room.back, room.fine)
    _complete(rows, policy, factor, fine)
    return factor


@njit
def factorise_whole(rows: Rows, policy: Ints, r: int, pattern: Pattern, factor: Factor) -> int:
    """Eliminate all states but r from the chain of a policy, in the order of a pattern; written to a factor.

    How many numbers were looked at.
    """
    S, q = len(policy), pattern.place[r]
    n = S - 1
    order, low_begin, low_at, low = factor.order, factor.low_begin, factor.low_at, factor.low
    up_begin, up_at, up, out = factor.up_begin, factor.up_at, factor.up, factor.out
    home, row = np.zeros(S), np.zeros(S)
    lows = ups = i = 0
    looked = 2 * len(pattern.low_at)
    fine = True
    for at in range(S):
        s = pattern.order[at]
        if at == q:
            continue
        # Places behind that of r move up by one.
        order[i] = s
        pair = policy[s]
        to_r = 0.0
        for entry in range(rows.indptr[pair], rows.indptr[pair + 1]):
            j = pattern.place[rows.indices[entry]]
            if j == q:
                to_r += rows.data[entry]
            else:
                row[j - (j > q)] += rows.data[entry]
        for f in range(pattern.low_begin[at], pattern.low_begin[at + 1]):
            k = pattern.low_at[f] - (pattern.low_at[f] > q)
            p = row[k]
            if p == 0.0 or pattern.low_at[f] == q:
                continue
            row[k] = 0.0
            there = p / out[k]
            low_at[lows] = k
            low[lows] = there
            lows += 1
            to_r += there * home[k]
            looked += up_begin[k + 1] - up_begin[k]
            for e in range(np.uint64(up_begin[k]), np.uint64(up_begin[k + 1])):
                row[np.uint64(up_at[e])] += there * up[e]
        row[i] = 0.0
        total = to_r
        for f in range(pattern.up_begin[at], pattern.up_begin[at + 1]):
            j = pattern.up_at[f] - (pattern.up_at[f] > q)
            if pattern.up_at[f] != q and row[j] > 0.0:
                up_at[ups] = j
                up[ups] = row[j]
                ups += 1
                total += row[j]
                row[j] = 0.0
        out[i] = total
        home[i] = to_r
        fine = fine and total > 0.0
        i += 1
        low_begin[i] = lows
        up_begin[i] = ups
    order[n] = r
    low_begin[S] = lows
    up_begin[S] = ups
    _complete(rows, policy, factor, fine)
    return looked


@njit
def _complete(rows: Rows, policy: Ints, factor: Factor, fine: bool) -> None:
    """Write what follows from the eliminated rows."""
    times, visits, pair = factor.times, factor.visits, policy[factor.order[-1]]
    factor.back[0], factor.fine[0] = pair, fine
    for s in range(len(policy)):
        times[s], visits[s] = 1.0, 0.0
    if fine:
        _collect(factor, times)
        for entry in range(rows.indptr[pair], rows.indptr[pair + 1]):
            visits[rows.indices[entry]] += rows.data[entry]
        visits[factor.order[-1]] = 0.0
        _visit(factor, visits)


@njit
def _collect(factor: Factor, b: Floats) -> None:
    """Amounts b (S,) per visit, in place, become what is collected on the way to r; 0 at r."""
    low_begin, low_at, low = factor.low_begin, factor.low_at, factor.low
    up_begin, up_at, up, out = factor.up_begin, factor.up_at, factor.up, factor.out
    n = len(b) - 1
    x = _by_place(factor, b)
    for i in range(n):
        total = x[i]
        for e in range(np.uint64(low_begin[i]), np.uint64(low_begin[i + 1])):
            total += low[e] * x[np.uint64(low_at[e])]
        x[i] = total
    x[n] = 0.0
    for i in range(n - 1, -1, -1):
        total = x[i]
        for e in range(np.uint64(up_begin[i]), np.uint64(up_begin[i + 1])):
            total += up[e] * x[np.uint64(up_at[e])]
        x[i] = total / out[i]
    _by_state(factor, x, b)


@njit
def _visit(factor: Factor, b: Floats) -> None:
    """Chances b (S,) of starting, in place, become expected visits on the way to r; 0 at r."""
    low_begin, low_at, low = factor.low_begin, factor.low_at, factor.low
    up_begin, up_at, up, out = factor.up_begin, factor.up_at, factor.up, factor.out
    n = len(b) - 1
    x = _by_place(factor, b)
    x[n] = 0.0
    for i in range(n):
        visits = x[i] / out[i]
        x[i] = visits
        for e in range(np.uint64(up_begin[i]), np.uint64(up_begin[i + 1])):
            x[np.uint64(up_at[e])] += visits * up[e]
    x[n] = 0.0
    for i in range(n - 1, -1, -1):
        visits = x[i]
        for e in range(np.uint64(low_begin[i]), np.uint64(low_begin[i + 1])):
            x[np.uint64(low_at[e])] += visits * low[e]
    _by_state(factor, x, b)


@njit
def _by_place(factor: Factor, b: Floats) -> Floats:
    """Numbers (S,) of states, in the order of elimination."""
    result = np.empty(len(b))
    for i in range(len(b)):
        result[i] = b[factor.order[i]]
    return result


@njit
def _by_state(factor: Factor, x: Floats, b: Floats) -> None:
    """Write numbers x (S,) in the order of elimination as those b (S,) of states."""
    for i in range(len(x)):
        b[factor.order[i]] = x[i]


@njit
def _approximate(rows: Rows, factor: Factor, b: Floats, y: Floats, transposed: bool) -> None:
    """Write y with M y = b, or y M = b, for the nearby chain."""
    times, visits, r, pair = factor.times, factor.visits, factor.order[-1], factor.back[0]
    S = len(b)
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
def _apply(rows: Rows, policy: Ints, r: int, y: Floats, b: Floats, transposed: bool) -> None:
    """Write b = M y, or b = y M."""
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
def refine(rows: Rows, policy: Ints, factor: Factor, b: Floats, y: Floats, transposed: bool, aim: Aim) -> float:
    """Correct y, in place, until M y = b (or y M = b) for a policy; what is left in the end, in the Euclidean norm."""
    S, r, enough = len(b), factor.order[-1], aim.enough
    V = np.empty((aim.steps + 1, S))
    H = np.zeros((aim.steps + 1, aim.steps))
    cosine, sine, e = np.zeros(aim.steps), np.zeros(aim.steps), np.zeros(aim.steps + 1)
    v, w = np.empty(S), np.empty(S)
    left = np.inf
    for attempt in range(aim.restarts + 1):
        _apply(rows, policy, r, y, w, transposed)
        for s in range(S):
            w[s] = b[s] - w[s]
        before, left = left, math.sqrt(_square(w))
        if not left > enough or not left < _HOPE * before or attempt == aim.restarts:
            break
        for s in range(S):
            V[0, s] = w[s] / left
        e[0] = left
        used = 0
        for k in range(aim.steps):
            _approximate(rows, factor, V[k], v, transposed)
            _apply(rows, policy, r, v, w, transposed)
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


@njit
def exactly(enough: float) -> Aim:
    """To iterate as long as it helps."""
    return Aim(enough, STEPS, RESTARTS)


@njit
def bias_by(rows: Rows, policy: Ints, factor: Factor, c: Floats, h: Floats, g: float, aim: Aim) -> tuple[float, float]:
    """Gain and bias (in place, from a guess of both) of a policy for the costs c (K,), by a factor; gain and error."""
    S, r = len(h), factor.order[-1]
    costs = np.empty(S)
    shift = h[r]
    for s in range(S):
        costs[s] = c[policy[s]]
        h[s] -= shift
    h[r] = g
    left = refine(rows, policy, factor, costs, h, False, aim)
    g = h[r]
    h[r] = 0.0
    return g, left


@njit
def law_by(rows: Rows, policy: Ints, factor: Factor, mu: Floats, guess: Floats) -> float:
    """The stationary law of a policy by a factor, from a guess, which is replaced; what is left, inf if much is."""
    S = len(mu)
    one = np.zeros(S)
    one[factor.order[-1]] = 1.0
    for s in range(S):
        mu[s] = guess[s]
    left = refine(rows, policy, factor, one, mu, True, exactly(EXACT_LAW))
    exact = left <= EXACT_LAW
    total = 0.0
    for s in range(S):
        mu[s] = max(mu[s], 0.0) if exact else 0.0
        total += mu[s]
    for s in range(S):
        mu[s] /= total if exact else 1.0
        guess[s] = mu[s]
    return left if exact else np.inf
