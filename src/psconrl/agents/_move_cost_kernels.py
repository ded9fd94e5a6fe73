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


@njit_inline
def _gather(seen: Spent, s: int, sign: int, moves: Ints, costs: Floats) -> None:
    """Add the moves of all actions of state s, and their costs, to moves (S,) and costs (S, n); or take them away."""
    A = seen.visits.shape[1]
    for row in range(s * A, s * A + A):
        entry = seen.head[row]
        while entry >= 0:
            x = seen.target[entry]
            if sign > 0:
                moves[x] += seen.number[entry]
                for i in range(costs.shape[1]):
                    costs[x, i] += seen.spent[entry, i]
            else:
                moves[x] = 0
                for i in range(costs.shape[1]):
                    costs[x, i] = 0.0
            entry = seen.link[entry]


@njit
def trust(seen: Spent) -> Floats:
    """(n,): how much of the cost of a move that its action never made is told by the other actions of its state."""
    (S, A), n = seen.visits.shape, len(seen.sums)
    moves, costs = np.zeros(S, dtype=np.int64), np.zeros((S, n))
    by_pair, by_others = np.zeros(n), np.zeros(n)
    for s in range(S):
        _gather(seen, s, 1, moves, costs)
        for a in range(A):
            N = seen.visits[s, a]
            entry = seen.head[s * A + a]
            while entry >= 0:
                x, k = seen.target[entry], seen.number[entry]
                if k < N and k < moves[x]:
                    for i in range(n):
                        c = seen.spent[entry, i]
                        by_pair[i] += (c / k - (seen.sums[i, s, a] - c) / (N - k)) ** 2
                        by_others[i] += (c / k - (costs[x, i] - c) / (moves[x] - k)) ** 2
                entry = seen.link[entry]
        _gather(seen, s, -1, moves, costs)
    for i in range(n):
        total = by_pair[i] + by_others[i]
        by_pair[i] = by_pair[i] / total if total > 0.0 else 0.0
    return by_pair


@njit
def charge(found: Floats, rows: Rows, states: Ints, pairs: Ints, seen: Spent) -> None:
    """Write what the pairs of a model cost into found (n, S, A); those that were never tried are left as they are."""
    (S, A), n = seen.visits.shape, len(seen.sums)
    share = trust(seen)
    moves, costs, at = np.zeros(S, dtype=np.int64), np.zeros((S, n)), np.full(S, -1)
    for i in range(len(states)):
        s = states[i]
        if s < 0:
            continue
        _gather(seen, s, 1, moves, costs)
        for pair in range(rows.begin[i], rows.begin[i + 1]):
            a = pairs[pair] - s * A
            if seen.visits[s, a] == 0:
                continue
            entry = seen.head[s * A + a]
            while entry >= 0:
                at[seen.target[entry]] = entry
                entry = seen.link[entry]
            for c in range(n):
                mean = seen.sums[c, s, a] / seen.visits[s, a]
                total = mean
                for k in range(rows.indptr[pair], rows.indptr[pair + 1]):
                    x = states[rows.indices[k]]
                    if x >= 0 and at[x] >= 0:
                        total += rows.data[k] * (seen.spent[at[x], c] / seen.number[at[x]] - mean)
                    elif x >= 0 and moves[x] > 0:
                        total += rows.data[k] * share[c] * (costs[x, c] / moves[x] - mean)
                found[c, s, a] = min(max(total, 0.0), 1.0)
            entry = seen.head[s * A + a]
            while entry >= 0:
                at[seen.target[entry]] = -1
                entry = seen.link[entry]
        _gather(seen, s, -1, moves, costs)
