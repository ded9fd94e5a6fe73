"""What was discovered since the last plan, and rows in which what may be discovered has its share."""

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.agents._hierarchy_kernels import Chains
from psconrl.planning.compiled.rows import Rows


@njit_inline
def level(visits: int) -> int:
    """The level of a pair by its visits: 0 for none, then one more for each doubling."""
    found = 0
    while visits > 0:
        visits //= 2
        found += 1
    return found


@njit
def record(tries: Floats, finds: Floats, chains: Chains, counted: Ints, before: Bools, after: Bools) -> None:
    """Count the tries of pairs of each level since the last plan, and the finds, those that led to a state never seen.

    counted: the numbers of the entries of `chains` at the last plan; before, after (S,): the states seen then and now.
    """
    found = before.copy()
    for row in range(len(chains.head)):
        visits = new = 0
        entry = chains.head[row]
        while entry >= 0:
            number = counted[entry] if entry < len(counted) else 0
            visits += number
            new += chains.number[entry] - number
            entry = chains.link[entry]
        for n in range(visits, visits + new):
            tries[level(n)] += 1.0
        entry = chains.head[row]
        while entry >= 0 and new > 0:
            x = chains.target[entry]
            if after[x] and not found[x]:
                found[x] = True
                finds[level(visits)] += 1.0
            entry = chains.link[entry]


@njit
def share_stayed(rows: Rows, steps: float) -> float:
    """The share of so many steps that one stays, if as surely as the likeliest move of a seen state."""
    total, S = 0.0, len(rows.begin) - 1
    for s in range(1, S):
        surest = rows.data[rows.indptr[rows.begin[s]] : rows.indptr[rows.begin[s + 1]]].max()
        total += 1.0 / (steps - (steps - 1.0) * surest)
    return total / (S - 1)


@njit
def with_discoveries(rows: Rows, pairs: Ints, visits: Ints, hazard: Floats, stayed: float) -> tuple[Ints, Ints, Floats]:
    """Rows (indptr, indices, data) in which pairs lead to state 0, unseen, with hazard (levels,) / (N + 1) * stayed.

    pairs (K,): the number of each row in visits (S * A,), N, and -1 for that of state 0, which is not left.
    """
    K, size = len(pairs), 0
    indptr = np.zeros(K + 1, dtype=np.int64)
    indices, data = np.empty(len(rows.indices) + K, dtype=np.int64), np.empty(len(rows.indices) + K)
    for row in range(K):
        first, last = rows.indptr[row], rows.indptr[row + 1]
        known = 0.0
        for entry in range(first, last):
            known += rows.data[entry] if rows.indices[entry] != 0 else 0.0
        N = visits[pairs[row]] if pairs[row] >= 0 else 0
        unseen = hazard[level(N)] / (N + 1) * stayed if pairs[row] >= 0 else 1.0
        if unseen > 0.0:
            indices[size], data[size] = 0, unseen
            size += 1
        for entry in range(first, last):
            if rows.indices[entry] != 0 and known > 0.0 and unseen < 1.0:
                indices[size], data[size] = rows.indices[entry], rows.data[entry] * (1.0 - unseen) / known
                size += 1
        indptr[row + 1] = size
    return indptr, indices[:size].copy(), data[:size].copy()
