"""Leading all states to some of them: policies under which these are reached from everywhere else."""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.rows import Rows, copy
from psconrl.planning.tolerances import PREFERRED, UNLIKELY


class MovesInto(NamedTuple):
    """The moves of a model by the state they end in: those into s are move[begin[s] : begin[s + 1]].

    move: numbers of entries of the rows. pair_of: the pair of every entry; state_of: the state of every pair.
    """

    begin: Ints
    move: Ints
    pair_of: Ints
    state_of: Ints


@njit
def moves_into(rows: Rows) -> MovesInto:
    """The possible moves, by the state they end in."""
    S = len(rows.begin) - 1
    begin = np.zeros(S + 1, dtype=np.int64)
    pair_of, state_of = np.empty(len(rows.data), dtype=np.int64), np.empty(len(rows.indptr) - 1, dtype=np.int64)
    for s in range(S):
        for k in range(rows.begin[s], rows.begin[s + 1]):
            state_of[k] = s
            for j in range(rows.indptr[k], rows.indptr[k + 1]):
                pair_of[j] = k
                if rows.data[j] > 0.0:
                    begin[rows.indices[j] + 1] += 1
    for s in range(S):
        begin[s + 1] += begin[s]
    move, filled = np.empty(begin[S], dtype=np.int64), begin.copy()
    for j in range(len(rows.data)):
        if rows.data[j] > 0.0:
            move[filled[rows.indices[j]]] = j
            filled[rows.indices[j]] += 1
    return MovesInto(begin, move, pair_of, state_of)


@njit
def attractor_policy(rows: Rows, policy: Ints, attracted: Bools) -> bool:
    """Change a policy, in place, so that all states lead to those attracted already; whether that is possible.

    States are attracted along likely moves, by the pair that they take already if that will do, else by the likeliest
    move.
    """
    every = np.ones(len(rows.indptr) - 1, dtype=np.bool_)
    return _attract(rows, moves_into(rows), every, policy, attracted, policy.copy()) == len(policy)


@njit
def proper_policy(rows: Rows, targets: Bools, policy: Ints) -> tuple[Ints, Bools]:
    """Change a policy, in place, so that it reaches the targets (S,) with probability one wherever any policy does.

    Pair -1 is none to begin with. The other states (n,) from which it does so, in the order in which they were
    attracted, and the pairs (K,) that keep to these.
    """
    S = len(targets)
    into, first = moves_into(rows), policy.copy()
    allowed, inside = np.ones(len(rows.indptr) - 1, dtype=np.bool_), np.ones(S, dtype=np.bool_)
    order = np.empty(S, dtype=np.int64)
    while True:
        attracted = targets.copy()
        copy(first, policy)
        size = _attract(rows, into, allowed, policy, attracted, order)
        lost = 0
        for s in range(S):
            if inside[s] and not attracted[s]:
                lost += 1
                for j in range(into.begin[s], into.begin[s + 1]):
                    allowed[into.pair_of[into.move[j]]] = False
        inside = attracted
        if lost == 0:
            break
    known = 0
    for s in range(S):
        known += targets[s]
        policy[s] = policy[s] if policy[s] >= 0 else rows.begin[s]
    return order[known:size].copy(), allowed


@njit
def _attract(rows: Rows, into: MovesInto, allowed: Bools, policy: Ints, attracted: Bools, order: Ints) -> int:
    """Attract states by pairs that are allowed (K,); how many are. order (S,): those, the first first."""
    likely = np.zeros(len(rows.indptr) - 1)
    size = looked = 0
    for s in range(len(policy)):
        if attracted[s]:
            order[size] = s
            size += 1
    for level in (PREFERRED, UNLIKELY, 0.0):
        grown = True
        while grown:
            while looked < size:
                x = order[looked]
                looked += 1
                for k in range(into.begin[x], into.begin[x + 1]):
                    pair = into.pair_of[into.move[k]]
                    if allowed[pair]:
                        likely[pair] = max(likely[pair], rows.data[into.move[k]])
            for s in range(len(policy)):
                if attracted[s]:
                    continue
                pair = policy[s]
                if pair < 0 or not likely[pair] > level:
                    pair = rows.begin[s]
                    for k in range(rows.begin[s], rows.begin[s + 1]):
                        pair = k if likely[k] > likely[pair] else pair
                if likely[pair] > level:
                    policy[s], attracted[s], order[size] = pair, True, s
                    size += 1
            grown = looked < size
    return size
