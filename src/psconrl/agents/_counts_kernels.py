"""Counting transitions in memory proportional to those observed: each row s * A + a is a chain of entries.

head (rows,) is the first entry of a row, link (capacity,) the next one of an entry, -1 the end; target and number
(capacity,) say which next state was seen how often; used (1,) is how many entries there are.
"""

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit, njit_inline


@njit_inline
def count(row: int, x: int, head: Ints, link: Ints, target: Ints, number: Ints, used: Ints) -> int:
    """Count a move from a row to x, and say which entry that is; there must be room for one more."""
    entry = head[row]
    last = -1
    while entry >= 0:
        if target[entry] == x:
            number[entry] += 1
            return entry
        last = entry
        entry = link[entry]
    entry = used[0]
    used[0] += 1
    target[entry] = x
    number[entry] = 1
    link[entry] = -1
    if last >= 0:
        link[last] = entry
    else:
        head[row] = entry
    return entry


@njit
def by_rows(head: Ints, link: Ints, target: Ints, number: Ints, used: int) -> tuple[Ints, Ints, Ints]:
    """The counts in compressed form, next states ascending within rows: indptr, indices, numbers."""
    indptr = np.zeros(len(head) + 1, dtype=np.int64)
    indices = np.empty(used, dtype=np.int64)
    numbers = np.empty(used, dtype=np.int64)
    size = 0
    for row in range(len(head)):
        entry = head[row]
        first = size
        while entry >= 0:
            at = size
            while at > first and indices[at - 1] > target[entry]:
                indices[at], numbers[at] = indices[at - 1], numbers[at - 1]
                at -= 1
            indices[at], numbers[at] = target[entry], number[entry]
            size += 1
            entry = link[entry]
        indptr[row + 1] = size
    return indptr, indices, numbers


@njit
def means(head: Ints, link: Ints, target: Ints, number: Ints, visits: Ints) -> Floats:
    """The empirical transitions (S, A, S), rows of zeros for pairs never visited."""
    S, A = visits.shape
    p = np.zeros((S, A, S))
    for row in range(S * A):
        s, a = row // A, row % A
        entry = head[row]
        while entry >= 0:
            p[s, a, target[entry]] = number[entry] / visits[s, a]
            entry = link[entry]
    return p


@njit
def empirical(
    head: Ints, link: Ints, target: Ints, number: Ints, used: int, visits: Ints, state: int
) -> tuple[Ints, Ints, Floats]:
    """The same by rows (indptr, indices, data); pairs never visited lead uniformly to the states seen so far.

    Those are the states left, entered, or that in which the agent is now.
    """
    S, A = visits.shape
    seen = np.zeros(S, dtype=np.bool_)
    seen[state] = True
    for entry in range(used):
        seen[target[entry]] = True
    unvisited, n = 0, 0
    for s in range(S):
        for a in range(A):
            if visits[s, a] > 0:
                seen[s] = True
            else:
                unvisited += 1
    for s in range(S):
        n += seen[s]
    size = used + unvisited * n
    indptr, indices, data = np.zeros(S * A + 1, dtype=np.int64), np.empty(size, dtype=np.int64), np.empty(size)
    size = 0
    for row in range(S * A):
        if visits[row // A, row % A] > 0:
            entry = head[row]
            while entry >= 0:
                indices[size], data[size] = target[entry], number[entry] / visits[row // A, row % A]
                size += 1
                entry = link[entry]
        else:
            for x in range(S):
                if seen[x]:
                    indices[size], data[size] = x, 1.0 / n
                    size += 1
        indptr[row + 1] = size
    return indptr, indices, data


@njit
def mean_costs(sums: Floats, visits: Ints, means: Floats) -> None:
    """Fill in sums of costs (m + 1, S, A) over visits (S, A); 0 for pairs never visited."""
    n, S, A = sums.shape
    for i in range(n):
        for s in range(S):
            for a in range(A):
                means[i, s, a] = sums[i, s, a] / max(visits[s, a], 1)
