"""Costs of the pairs of a sampled model by those of its moves, compiled; `move_costs` has the mathematics.

Counts are chains of entries, see `_counts_kernels`; spent (capacity, n) are the sums of the costs of each entry.
"""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.compiled.rows import Rows


class Spent(NamedTuple):
    """What was counted: head (S * A,), link, target and number (capacity,), spent (capacity, n).

    Of pairs: visits (S, A), sums of costs (n, S, A).
    """

    head: Ints
    link: Ints
    target: Ints
    number: Ints
    spent: Floats
    visits: Ints
    sums: Floats


class Moves(NamedTuple):
    """The same moves side by side, row by row: those of row r are begin[r], ..., begin[r + 1] - 1.

    target, number (used,); spent, mean (used, n): the sums of their costs, and the means.
    """

    begin: Ints
    target: Ints
    number: Ints
    spent: Floats
    mean: Floats


@njit
def in_rows(seen: Spent) -> Moves:
    """What was counted, without chains: it is gone through several times."""
    rows, n = len(seen.head), seen.spent.shape[1]
    begin = np.zeros(rows + 1, dtype=np.int64)
    target, number = np.empty(len(seen.link), dtype=np.int64), np.empty(len(seen.link), dtype=np.int64)
    spent, mean = np.empty((len(target), n)), np.empty((len(target), n))
    k = 0
    for row in range(rows):
        entry = seen.head[row]
        while entry >= 0:
            target[k], number[k] = seen.target[entry], seen.number[entry]
            for i in range(n):
                spent[k, i] = seen.spent[entry, i]
                mean[k, i] = seen.spent[entry, i] / seen.number[entry]
            k += 1
            entry = seen.link[entry]
        begin[row + 1] = k
    return Moves(begin, target, number, spent, mean)


@njit_inline
def _gather(seen: Moves, first: int, after: int, moves: Ints, costs: Floats) -> None:
    """Add the moves from `first` on, and their costs, to moves (S,) and costs (S, n)."""
    for k in range(first, after):
        x = seen.target[k]
        moves[x] += seen.number[k]
        for i in range(costs.shape[1]):
            costs[x, i] += seen.spent[k, i]


@njit_inline
def _clear(seen: Moves, first: int, after: int, moves: Ints, costs: Floats) -> None:
    """Forget them."""
    for k in range(first, after):
        x = seen.target[k]
        moves[x] = 0
        for i in range(costs.shape[1]):
            costs[x, i] = 0.0


@njit
def trust(seen: Moves, visits: Ints, sums: Floats) -> Floats:
    """(n,): how much of the cost of a move that its action never made is told by the other actions of its state."""
    (S, A), n = visits.shape, len(sums)
    moves, costs = np.zeros(S, dtype=np.int64), np.zeros((S, n))
    by_pair, by_others = np.zeros(n), np.zeros(n)
    for s in range(S):
        first, after = seen.begin[s * A], seen.begin[s * A + A]
        _gather(seen, first, after, moves, costs)
        for a in range(A):
            N = visits[s, a]
            for k in range(seen.begin[s * A + a], seen.begin[s * A + a + 1]):
                x, own = seen.target[k], seen.number[k]
                if own < N and own < moves[x]:
                    for i in range(n):
                        c = seen.spent[k, i]
                        by_pair[i] += (seen.mean[k, i] - (sums[i, s, a] - c) / (N - own)) ** 2
                        by_others[i] += (seen.mean[k, i] - (costs[x, i] - c) / (moves[x] - own)) ** 2
        _clear(seen, first, after, moves, costs)
    for i in range(n):
        total = by_pair[i] + by_others[i]
        by_pair[i] = by_pair[i] / total if total > 0.0 else 0.0
    return by_pair


@njit
def charge(found: Floats, rows: Rows, states: Ints, pairs: Ints, counted: Spent) -> None:
    """Write what the pairs of a model cost into found (n, S, A); those that were never tried are left as they are."""
    visits, sums = counted.visits, counted.sums
    (S, A), n = visits.shape, len(sums)
    seen = in_rows(counted)
    share = trust(seen, visits, sums)
    moves, costs, at = np.zeros(S, dtype=np.int64), np.zeros((S, n)), np.full(S, -1)
    mean, total = np.empty(n), np.empty(n)
    for i in range(len(states)):
        s = states[i]
        if s < 0:
            continue
        first, after = seen.begin[s * A], seen.begin[s * A + A]
        _gather(seen, first, after, moves, costs)
        for pair in range(rows.begin[i], rows.begin[i + 1]):
            a = pairs[pair] - s * A
            if visits[s, a] == 0:
                continue
            for k in range(seen.begin[pairs[pair]], seen.begin[pairs[pair] + 1]):
                at[seen.target[k]] = k
            for c in range(n):
                mean[c] = total[c] = sums[c, s, a] / visits[s, a]
            for j in range(rows.indptr[pair], rows.indptr[pair + 1]):
                x, p = states[rows.indices[j]], rows.data[j]
                if x >= 0 and at[x] >= 0:
                    for c in range(n):
                        total[c] += p * (seen.mean[at[x], c] - mean[c])
                elif x >= 0 and moves[x] > 0:
                    for c in range(n):
                        total[c] += p * share[c] * (costs[x, c] / moves[x] - mean[c])
            for c in range(n):
                found[c, s, a] = min(max(total[c], 0.0), 1.0)
            for k in range(seen.begin[pairs[pair]], seen.begin[pairs[pair] + 1]):
                at[seen.target[k]] = -1
        _clear(seen, first, after, moves, costs)
