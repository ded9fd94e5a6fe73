"""The order in which states are eliminated: minimum degree, so that little is filled in.

The graph of a chain, without directions, is held as a quotient graph: eliminated states are elements, cliques of the
states that they were joined to. States with the same neighbours are one (a supervariable) from then on; degrees are
bounds, after Amestoy, Davis and Duff: |Lp \\ i| + |A_i \\ i| + sum over other elements e of |L_e \\ L_p|.
States with very many neighbours come last, as in their method.
"""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.elimination import Chain, longer_ints


class Order(NamedTuple):
    """The states that are eliminated (n,), in this order, and the work of that: multiplications, at most.

    fill: numbers in each of the two triangles that are left, at most.

    place (S,): the place of each state in the order; kept states follow, in the order of their numbers. complete:
    whether the order was made at all; it is not where the work would be above the limit.
    """

    order: Ints
    place: Ints
    work: float
    fill: int
    complete: bool


@njit
def minimum_degree(chain: Chain, kept: Bools, limit: float) -> Order:
    """An order of the states that are not kept (S,); given up where the work exceeds a limit."""
    S = len(kept)
    order, place = np.empty(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    begin, lists = _neighbours(chain, kept)
    free = begin[S]
    length, elements = np.empty(S, dtype=np.int64), np.zeros(S, dtype=np.int64)
    weight, degree = np.ones(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    head, after, before = np.empty(S + 1, dtype=np.int64), np.empty(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    mark = np.zeros(S, dtype=np.int64)
    is_element, gone = np.zeros(S, dtype=np.bool_), np.zeros(S, dtype=np.bool_)
    # Members of a supervariable, as a list; buckets of equal hashes.
    follower, tail = np.empty(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    bucket, chained, hashes = (
        np.empty(S, dtype=np.int64),
        np.empty(S, dtype=np.int64),
        np.empty(S, dtype=np.int64),
    )
    n = 0
    for s in range(S):
        n += not kept[s]
        length[s] = begin[s + 1] - begin[s]
        head[s], after[s], before[s], follower[s], tail[s], bucket[s] = -1, -1, -1, -1, s, -1
    head[S] = -1
    dense = max(16, int(10 * np.sqrt(n)))
    at = n
    left = n
    for s in range(S):
        # A state that is last is no neighbour to anybody.
        if kept[s] or length[s] > dense:
            gone[s] = True
            weight[s] = 0
            if not kept[s]:
                at -= 1
                order[at] = s
                left -= 1
    lasts = n - left
    for s in range(S):
        if not gone[s]:
            size = 0
            for e in range(begin[s], begin[s] + length[s]):
                if not gone[lists[e]]:
                    lists[begin[s] + size] = lists[e]
                    size += 1
            length[s] = degree[s] = size
            _link(s, size, head, after, before)
    work, fill = float(lasts) ** 3, lasts * lasts
    done = 0
    stamp = 1
    least = 0
    at = 0
    while done < left:
        while head[least] < 0:
            least += 1
        p = head[least]
        _unlink(p, degree[p], head, after, before)
        # The clique that eliminating p makes; its states are marked by negative weights.
        own = weight[p]
        weight[p] = -own
        needed = free + left - done
        lists = longer_ints(lists, needed)
        first = free
        size = 0
        for e in range(begin[p], begin[p] + length[p]):
            node = lists[e]
            if e < begin[p] + elements[p]:
                if gone[node]:
                    continue
                for f in range(begin[node], begin[node] + length[node]):
                    i = lists[f]
                    if weight[i] > 0:
                        size += weight[i]
                        weight[i] = -weight[i]
                        lists[free] = i
                        free += 1
                        _unlink(i, degree[i], head, after, before)
                gone[node] = True
            elif weight[node] > 0:
                size += weight[node]
                weight[node] = -weight[node]
                lists[free] = node
                free += 1
                _unlink(node, degree[node], head, after, before)
        done += own
        is_element[p] = True
        begin[p], length[p], elements[p] = first, free - first, 0
        # Elements next to the clique: how much of them is outside of it.
        for f in range(first, free):
            i = lists[f]
            for e in range(begin[i], begin[i] + elements[i]):
                node = lists[e]
                if gone[node]:
                    continue
                if mark[node] < stamp:
                    mark[node] = degree[node] + stamp
                mark[node] += weight[i]
        # New degrees, shorter lists, hashes.
        for f in range(first, free):
            i = lists[f]
            own_i = -weight[i]
            start = begin[i]
            kept_count = start + 1  # the first place is for p
            outside = 0
            code = p
            moved = -1
            for e in range(start, start + elements[i]):
                node = lists[e]
                if gone[node]:
                    continue
                beyond = mark[node] - stamp
                if beyond > 0:
                    outside += beyond
                    code += node
                    # The entry at the first place is carried until a place is free.
                    if e < kept_count:
                        moved = node
                    else:
                        lists[kept_count] = node
                        kept_count += 1
                else:
                    gone[node] = True  # within the clique: absorbed
            count_elements = kept_count - start
            stop = start + length[i]
            e = start + elements[i]
            if moved >= 0:
                # One of the entries behind was dropped, or is p itself, so there is room for it.
                count_elements += 1
            pending = moved
            # Variables.
            variables = 0
            for e in range(start + elements[i], stop):
                node = lists[e]
                if weight[node] > 0:
                    outside += weight[node]
                    code += node
                    chained[variables] = node
                    variables += 1
            if pending >= 0:
                lists[kept_count] = pending
                kept_count += 1
            for v in range(variables):
                lists[kept_count] = chained[v]
                kept_count += 1
            lists[start] = p
            elements[i] = count_elements
            length[i] = kept_count - start
            if outside == 0:
                # Joined to nothing else: eliminated together with p.
                follower[tail[p]] = i
                tail[p] = tail[i]
                own += own_i
                done += own_i
                size -= own_i
                weight[i] = 0
                gone[i] = True
            else:
                degree[i] = min(degree[i], outside)
                hashes[i] = code % S
        # States with the same neighbours become one.
        for f in range(first, free):
            i = lists[f]
            if weight[i] < 0:
                chained[i] = bucket[hashes[i]]
                bucket[hashes[i]] = i
        stamp += 2 * S + 2
        for f in range(first, free):
            i = lists[f]
            if weight[i] == 0 or bucket[hashes[i]] < 0:
                continue
            j = bucket[hashes[i]]
            bucket[hashes[i]] = -1
            while j >= 0 and chained[j] >= 0:
                stamp += 1
                for e in range(begin[j], begin[j] + length[j]):
                    mark[lists[e]] = stamp
                previous, other = j, chained[j]
                while other >= 0:
                    same = length[other] == length[j] and elements[other] == elements[j]
                    e = begin[other]
                    while same and e < begin[other] + length[other]:
                        same = mark[lists[e]] == stamp
                        e += 1
                    if same:
                        follower[tail[j]] = other
                        tail[j] = tail[other]
                        weight[j] += weight[other]
                        weight[other] = 0
                        gone[other] = True
                        chained[previous] = chained[other]
                    else:
                        previous = other
                    other = chained[other]
                j = chained[j]
        stamp += 2 * S + 2
        # The clique without those absorbed, and its states back in the lists.
        count = first
        for f in range(first, free):
            i = lists[f]
            if weight[i] < 0:
                weight[i] = -weight[i]
                bound = min(degree[i] + size - weight[i], left - done - weight[i])
                degree[i] = max(bound, 0)
                _link(i, degree[i], head, after, before)
                least = min(least, degree[i])
                lists[count] = i
                count += 1
        free = count
        length[p] = count - first
        degree[p] = size
        weight[p] = 0
        if count == first:
            gone[p] = True
        for step in range(own):
            wide = float(size + own - 1 - step + lasts)
            work += wide * wide
            fill += int(wide)
        if work > limit:
            return Order(order[:0], place, work, fill, False)
        i = p
        while i >= 0:
            order[at] = i
            at += 1
            i = follower[i]
    for i in range(n):
        place[order[i]] = i
    behind = n
    for s in range(S):
        if kept[s]:
            place[s] = behind
            behind += 1
    return Order(order[:n], place, work, fill, True)


@njit
def _neighbours(chain: Chain, kept: Bools) -> tuple[Ints, Ints]:
    """The neighbours of each state that is not kept, in either direction, each once: begin (S + 1,) and the lists."""
    S = len(kept)
    begin = np.zeros(S + 1, dtype=np.int64)
    for s in range(S):
        if not kept[s]:
            for e in range(chain.indptr[s], chain.indptr[s + 1]):
                x = chain.indices[e]
                if x != s and not kept[x] and chain.data[e] > 0.0:
                    begin[s + 1] += 1
                    begin[x + 1] += 1
    for s in range(S):
        begin[s + 1] += begin[s]
    lists, filled = np.empty(begin[S], dtype=np.int64), np.empty(S, dtype=np.int64)
    for s in range(S):
        filled[s] = begin[s]
    for s in range(S):
        if not kept[s]:
            for e in range(chain.indptr[s], chain.indptr[s + 1]):
                x = chain.indices[e]
                if x != s and not kept[x] and chain.data[e] > 0.0:
                    lists[filled[s]] = x
                    filled[s] += 1
                    lists[filled[x]] = s
                    filled[x] += 1
    seen = np.full(S, -1, dtype=np.int64)
    size = 0
    for s in range(S):
        first = size
        for e in range(begin[s], begin[s + 1]):
            x = lists[e]
            if seen[x] != s:
                seen[x] = s
                lists[size] = x
                size += 1
        begin[s] = first
    begin[S] = size
    return begin, lists


@njit
def _link(i: int, degree: int, head: Ints, after: Ints, before: Ints) -> None:
    """Put a state into the list of its degree."""
    after[i], before[i] = head[degree], -1
    if head[degree] >= 0:
        before[head[degree]] = i
    head[degree] = i


@njit
def _unlink(i: int, degree: int, head: Ints, after: Ints, before: Ints) -> None:
    """Take a state out of the list of its degree."""
    if before[i] >= 0:
        after[before[i]] = after[i]
    else:
        head[degree] = after[i]
    if after[i] >= 0:
        before[after[i]] = before[i]
