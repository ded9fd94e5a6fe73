"""Where numbers may stand in the factors of all policies of a model, if its states are eliminated in one order.

Taking the moves of all actions together, and in both directions, the pattern is symmetric: a state's row holds its own
neighbours and those of every state that is eliminated before it and leads to it first, its children (Gilbert and Liu).
"""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.elimination import Chain, longer_ints
from psconrl.planning.compiled.ordering import Order


class Pattern(NamedTuple):
    """By places in an order of all states (S,): places after each (up) and before each (low), ascending in low.

    Without states where there is no such order.
    """

    order: Ints
    place: Ints
    up_begin: Ints
    up_at: Ints
    low_begin: Ints
    low_at: Ints


@njit
def no_pattern() -> Pattern:
    """Of no states."""
    none = np.zeros(0, dtype=np.int64)
    return Pattern(none, none, none, none, none, none)


@njit
def pattern_of(chain: Chain, made: Order) -> Pattern:
    """The pattern of an order of all states of a chain."""
    order, place = made.order, made.place
    S = len(order)
    before = np.zeros(S + 1, dtype=np.int64)
    for s in range(S):
        for e in range(chain.indptr[s], chain.indptr[s + 1]):
            i, j = place[s], place[chain.indices[e]]
            before[min(i, j) + 1] += i != j and chain.data[e] > 0.0
    for i in range(S):
        before[i + 1] += before[i]
    next_to, filled = np.empty(before[S], dtype=np.int64), before[:S].copy()
    for s in range(S):
        for e in range(chain.indptr[s], chain.indptr[s + 1]):
            i, j = place[s], place[chain.indices[e]]
            if i != j and chain.data[e] > 0.0:
                next_to[filled[min(i, j)]] = max(i, j)
                filled[min(i, j)] += 1
    up_begin, up_at = np.zeros(S + 1, dtype=np.int64), np.empty(made.fill + S, dtype=np.int64)
    seen = np.full(S, -1, dtype=np.int64)
    child, sibling = np.full(S, -1, dtype=np.int64), np.full(S, -1, dtype=np.int64)
    low_begin = np.zeros(S + 1, dtype=np.int64)
    ups = 0
    for i in range(S):
        up_at = longer_ints(up_at, ups + S - i)
        seen[i] = i
        first = ups
        parent = S
        for e in range(before[i], before[i + 1]):
            j = next_to[e]
            if seen[j] != i:
                seen[j] = i
                up_at[ups] = j
                ups += 1
                parent = min(parent, j)
        c = child[i]
        while c >= 0:
            for e in range(up_begin[c], up_begin[c + 1]):
                j = up_at[e]
                if seen[j] != i:
                    seen[j] = i
                    up_at[ups] = j
                    ups += 1
                    parent = min(parent, j)
            c = sibling[c]
        if parent < S:
            sibling[i] = child[parent]
            child[parent] = i
        up_begin[i + 1] = ups
        for e in range(first, ups):
            low_begin[up_at[e] + 1] += 1
    for i in range(S):
        low_begin[i + 1] += low_begin[i]
    low_at = np.empty(ups, dtype=np.int64)
    for i in range(S):
        filled[i] = low_begin[i]
    for k in range(S):
        for e in range(up_begin[k], up_begin[k + 1]):
            low_at[filled[up_at[e]]] = k
            filled[up_at[e]] += 1
    return Pattern(order, place, up_begin, up_at, low_begin, low_at)
