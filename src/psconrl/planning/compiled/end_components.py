"""End components: states and pairs among which a policy may stay for ever, each state leading to each.

Found by taking away pairs that leave their strong component until none does.
"""

import numpy as np

from psconrl._core.checks import Bools, Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.rows import Rows


@njit
def strong_components(rows: Rows, allowed: Bools, label: Ints) -> int:
    """Number the strong components of the graph of the allowed pairs (K,) in label (S,); how many (Tarjan)."""
    S = len(label)
    found, low = np.full(S, -1), np.zeros(S, dtype=np.int64)
    stack, call = np.empty(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    at, own = np.empty(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    size = order = count = 0
    for s in range(S):
        label[s] = -1
    for root in range(S):
        enter, depth = root if found[root] < 0 else -1, -1
        while enter >= 0 or depth >= 0:
            if enter >= 0:
                found[enter] = low[enter] = order
                order += 1
                stack[size] = enter
                size += 1
                at[enter], own[enter] = rows.indptr[rows.begin[enter]], rows.begin[enter]
                depth += 1
                call[depth] = enter
                enter = -1
            s = call[depth]
            end = rows.indptr[rows.begin[s + 1]]
            while at[s] < end and enter < 0:
                move = at[s]
                at[s] += 1
                while rows.indptr[own[s] + 1] <= move:
                    own[s] += 1
                if allowed[own[s]] and rows.data[move] > 0.0:
                    x = rows.indices[move]
                    if found[x] < 0:
                        enter = x
                    elif label[x] < 0:
                        low[s] = min(low[s], found[x])
            if enter >= 0:
                continue
            depth -= 1
            if depth >= 0:
                low[call[depth]] = min(low[call[depth]], low[s])
            if low[s] == found[s]:
                while label[s] < 0:
                    size -= 1
                    label[stack[size]] = count
                count += 1
    return count


@njit
def split(rows: Rows, label: Ints, stays: Bools) -> int:
    """Number the maximal end components in label (S,), in the order of their first states; how many there are.

    States in none get -1. stays (K,): whether a pair is one of a component.
    """
    S = len(label)
    for pair in range(len(stays)):
        stays[pair] = True
    changed, count = True, 0
    while changed:
        changed, count = False, strong_components(rows, stays, label)
        for s in range(S):
            for pair in range(rows.begin[s], rows.begin[s + 1]):
                move, end = rows.indptr[pair], rows.indptr[pair + 1] if stays[pair] else 0
                while move < end and (label[rows.indices[move]] == label[s] or not rows.data[move] > 0.0):
                    move += 1
                if move < end:
                    stays[pair], changed = False, True
    number, known = np.full(count, -1), 0
    for s in range(S):
        pair = rows.begin[s]
        while pair < rows.begin[s + 1] and not stays[pair]:
            pair += 1
        if pair == rows.begin[s + 1]:
            label[s] = -1
        else:
            if number[label[s]] < 0:
                number[label[s]] = known
                known += 1
            label[s] = number[label[s]]
    return known
