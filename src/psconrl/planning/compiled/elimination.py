"""Elimination of states from a chain without subtractions, after Grassmann, Taksar and Heyman, sparse.

Eliminating state k redirects each move i -> k to where k leads when it is left. With q_k the distribution of where k
leads, out_k the probability to leave it, and r_k what is collected in it,

    out_k = sum_{j != k} p_kj,   q_kj = p_kj / out_k,  p_ij <- p_ij + p_ik q_kj (j != i),  r_i <- r_i + p_ik r_k / out_k

out_k is summed, never computed as 1 - p_kk, so probabilities are only added, multiplied and divided, and every
one of them has a small *relative* error, however nearly decomposable the chain is.

Where a product falls below the range of floats that is lost all the same, and `Elimination.exact` says so.

Arrays are filled entry by entry: whole-array assignments and expressions take seconds to compile.
"""

from heapq import heappop, heappush
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.rows import longer
from psconrl.planning.tolerances import EPS, LEAST_PRODUCT


class Chain(NamedTuple):
    """A Markov chain by rows: row s has the probabilities data[indptr[s] : indptr[s + 1]] at `indices`.

    The probability of staying is 1 minus the others, whatever is stored: entries on the diagonal are ignored, and the
    probability to leave a state is the sum of its other entries. Entries may come in any order, and several times.
    """

    indptr: Ints
    indices: Ints
    data: Floats


class Elimination(NamedTuple):
    """The states order[0], ..., order[n - 1] eliminated from a chain, one after another; others are kept.

    place (S,): when a state is eliminated, n or more for those kept; kept states with the same place are one. Rows are
    in the order of elimination and name states by place. low: row i has the probabilities to move to states
    eliminated before, at the time when those are eliminated. up: row i is the distribution of where i leads when it
    is left to states not yet eliminated. out: the probabilities to leave. fine: whether all states lead to those kept.
    exact: whether no product was too small for a float.
    """

    order: Ints
    place: Ints
    low_begin: Ints
    low_at: Ints
    low: Floats
    up_begin: Ints
    up_at: Ints
    up: Floats
    out: Floats
    fine: bool
    exact: bool


# Elimination


@njit
def likely_state(chain: Chain, s: int) -> int:
    """A state where the likeliest moves from s end up again and again."""
    seen = np.zeros(len(chain.indptr) - 1, dtype=np.bool_)
    while not seen[s]:
        seen[s] = True
        best, towards = 0.0, s
        for e in range(chain.indptr[s], chain.indptr[s + 1]):
            if chain.indices[e] != s and chain.data[e] > best:
                best, towards = chain.data[e], chain.indices[e]
        s = towards
    return s


@njit
def eliminate(chain: Chain, order: Ints, place: Ints) -> Elimination:
    """Eliminate the states `order` (n,) from a chain; place (S,): their place in it, n or more for states kept."""
    n = len(order)
    columns = n
    for s in range(len(place)):
        columns = max(columns, place[s] + 1)
    numbers = chain.data.dtype
    low_begin, up_begin = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    out = np.empty(n, dtype=numbers)
    room = 4 * columns + len(chain.indices)
    low_at, low = np.empty(room, dtype=np.int64), np.empty(room, dtype=numbers)
    up_at, up = np.empty(room, dtype=np.int64), np.empty(room, dtype=numbers)
    row, touched = np.zeros(columns, dtype=numbers), np.empty(columns, dtype=np.int64)
    waiting = [n for _ in range(0)]  # a heap, empty: states eliminated later may be met while one is dealt with
    lows = ups = 0
    fine = exact = True
    for i in range(n):
        while lows + i + 1 > len(low):
            low_at, low = longer(low_at), longer(low)
        while ups + columns - i > len(up):
            up_at, up = longer(up_at), longer(up)
        s = order[i]
        count = 0
        row[i] = 1.0  # what comes back to the state is not looked at
        for entry in range(chain.indptr[s], chain.indptr[s + 1]):
            j, p = place[chain.indices[entry]], chain.data[entry]
            if j == i or not p > 0.0:
                continue
            if row[j] == 0.0:
                if j < i:
                    heappush(waiting, j)
                else:
                    touched[count] = j
                    count += 1
            row[j] += p
        while waiting:
            k = heappop(waiting)
            p, row[k] = row[k], 0.0
            low_at[lows], low[lows] = k, p
            lows += 1
            for e in range(np.uint64(up_begin[k]), np.uint64(up_begin[k + 1])):
                j = np.uint64(up_at[e])  # without a sign it need not be looked at for being negative
                more = p * up[e]
                if more < LEAST_PRODUCT:
                    exact = False
                    if more == 0.0:
                        continue
                if row[j] == 0.0:
                    if up_at[e] < i:
                        heappush(waiting, up_at[e])
                    else:
                        touched[count] = up_at[e]
                        count += 1
                row[j] += more
        row[i] = 0.0
        total = 0.0
        for e in range(count):
            total += row[touched[e]]
        out[i] = total
        fine = fine and total > 0.0
        for e in range(count):
            j = touched[e]
            up_at[ups + e], up[ups + e], row[j] = j, row[j] / total, 0.0
            exact = exact and up[ups + e] >= LEAST_PRODUCT
        ups += count
        low_begin[i + 1] = lows
        up_begin[i + 1] = ups
    return Elimination(
        order, place, low_begin, low_at[:lows], low[:lows], up_begin, up_at[:ups], up[:ups], out, fine, exact
    )


@njit
def visits(elimination: Elimination, start: Floats, entries_only: bool) -> tuple[Floats, bool]:
    """Expected visits to each state until one of those kept is met, by place; entries of those kept.

    start: by place, expected numbers of starts. entries_only: only the entries of kept states are wanted. Numbers
    beyond the range of floats are infinite; False if some may have been too small.
    """
    m, exact = start.copy(), True
    n = len(elimination.order)
    for i in range(n):
        for e in range(elimination.up_begin[i], elimination.up_begin[i + 1]):
            more = m[i] * elimination.up[e]
            exact = exact and (more >= LEAST_PRODUCT or m[i] == 0.0)
            m[elimination.up_at[e]] += more
    for i in range(-1 if entries_only else n - 1, -1, -1):
        m[i] /= elimination.out[i]
        for e in range(elimination.low_begin[i], elimination.low_begin[i + 1]):
            more = m[i] * elimination.low[e]
            exact = exact and (more >= LEAST_PRODUCT or m[i] == 0.0)
            m[elimination.low_at[e]] += more
    return m, exact


# Values


@njit
def collect(elimination: Elimination, amounts: Floats, h: Floats) -> None:
    """Fill in what is collected until kept states are met, plus their value: h = amounts + P h, by place.

    amounts (n,) per visit; h (n + ...): on entry the values of the kept states, on return all. Values beyond the range
    of floats are infinite.
    """
    n = len(elimination.order)
    collected = np.empty(n, dtype=h.dtype)  # between a departure from i and the next entry of a state eliminated later
    for i in range(n):
        total = amounts[i]
        for e in range(elimination.low_begin[i], elimination.low_begin[i + 1]):
            total += elimination.low[e] * collected[elimination.low_at[e]]
        collected[i] = total / elimination.out[i]
    for i in range(n - 1, -1, -1):
        # In differences from where it mostly leads: what is common to all drops out.
        main = elimination.up_begin[i]
        for e in range(elimination.up_begin[i], elimination.up_begin[i + 1]):
            if elimination.up[e] > elimination.up[main]:
                main = e
        common = h[elimination.up_at[main]]
        total = collected[i]
        for e in range(elimination.up_begin[i], elimination.up_begin[i + 1]):
            if h[elimination.up_at[e]] != common:
                total += elimination.up[e] * (h[elimination.up_at[e]] - common)
        h[i] = common + total if abs(common) < np.inf else common


@njit
def residuals(chain: Chain, amounts: Floats, scale: float, h: Floats) -> tuple[Floats, Floats]:
    """What is left (S,) of the equations amounts + P h - h = 0, and what rounding may have done to that, at most.

    amounts (S,), themselves rounded by a unit in the last place of `scale`; h (S,).
    """
    S = len(amounts)
    left, rounding = np.empty(S, dtype=h.dtype), np.empty(S, dtype=h.dtype)
    for s in range(S):
        total, absolute = amounts[s], abs(amounts[s]) + scale
        for entry in range(chain.indptr[s], chain.indptr[s + 1]):
            x = chain.indices[entry]
            if x != s and chain.data[entry] > 0.0:
                flow = chain.data[entry] * (h[x] - h[s])
                total += flow
                absolute += abs(flow)
        left[s] = total
        # Each term: amount, difference, product; and the sum of the terms.
        rounding[s] = (chain.indptr[s + 1] - chain.indptr[s] + 4) * EPS * absolute
    return left, rounding
