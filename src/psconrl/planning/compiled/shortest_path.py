"""The fastest way into a set of states: a stochastic shortest path, solved exactly by policy iteration.

    V(s) = 0 on the targets,     V(s) = 1 + min_a sum_s' p(s' | s, a) V(s')     elsewhere

V is the minimal expected number of moves. Where no policy reaches the targets with probability one, it is infinite.
Policy iteration starts from a proper policy (one that reaches the targets), and every improvement of such a one is
proper.

A chain that leaves a cluster of states with probability 1e-12 per move has V of the order of 1e12, and two
actions that differ by a factor of two in the way out differ by one part in 1e12 in the right-hand side
above. Hence everything is done in differences, from which that large common part falls out:

    advantage(s, a) = 1 + sum_s' p(s' | s, a) (V(s') - V(s))

V is held in parts of falling size (see `elimination.insert`), corrected until the advantage of the policy vanishes.

States are eliminated in the order in which they were attracted, the last first: they are hardly ever entered from
nearer ones, so there is little to do in models of up to some hundred states. `shortest_paths` has larger ones.
"""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.compiled.attractor import proper_policy
from psconrl.planning.compiled.elimination import Chain, collect, correct, difference, eliminate
from psconrl.planning.compiled.rows import Rows, copy
from psconrl.planning.tolerances import EPS, SOLVED

_CORRECTIONS, _PARTS = 6, 2


class ShortestPath(NamedTuple):
    """The fastest way: the expected time (S,) and a pair (S,) for each state.

    On the targets the time is 0 and the pair -1; where no policy reaches them with probability one, inf and -1.
    Where times exceed the range of floats, all are inf, but states have a pair.
    """

    times: Floats
    pairs: Ints


@njit
def fastest(rows: Rows, targets: Bools, start: Ints) -> ShortestPath:
    """The fastest way into the targets (S,) of a model by rows of some hundred states.

    start (S,): the pairs to start from, -1 for none; they decide only between equally good ones. Otherwise, of equally
    good pairs the one in use stays, and the lowest is taken. What a row lacks to one counts as staying.
    """
    S = len(targets)
    times, pairs, policy, place = np.empty(S), np.full(S, -1), np.empty(S, dtype=np.int64), np.empty(S, dtype=np.int64)
    for s in range(S):
        times[s], policy[s] = 0.0 if targets[s] else np.inf, start[s]
    order, allowed = proper_policy(rows, targets, policy)
    n = len(order)
    for s in range(S):
        place[s] = n
    for i in range(n):
        place[order[i]] = n - 1 - i
    order = order[::-1].copy()
    best, before = policy.copy(), np.full(n, np.inf)
    for _ in range(n + 100):
        parts = _times(rows, policy, order, place)
        # Times that do not come down, which only rounding can bring about, end it; the policy before is kept.
        fallen, finite = True, True
        for i in range(n):
            fallen = fallen and parts[0, i] <= before[i] * (1 + 1e-9)
            finite = finite and parts[0, i] < np.inf
        if not (fallen and finite):
            break
        copy(policy, best)
        for i in range(n):
            before[i] = 0.0
            for level in range(_PARTS):
                before[i] += parts[level, i]
        if not _improve(rows, allowed, order, place, parts, policy):
            break
    for i in range(n):
        times[order[i]], pairs[order[i]] = before[i], best[order[i]]
    return ShortestPath(times, pairs)


@njit_inline
def _times(rows: Rows, policy: Ints, order: Ints, place: Ints) -> Floats:
    """The expected times of a proper policy (S,): parts (L, n + 1) by place, zero on the targets, the last."""
    S, n = len(policy), len(order)
    indptr, room = np.zeros(S + 1, dtype=np.int64), 0
    for s in range(S):
        room += rows.indptr[policy[s] + 1] - rows.indptr[policy[s]]
        indptr[s + 1] = room
    indices, data = np.empty(room, dtype=np.int64), np.empty(room)
    for s in range(S):
        first = rows.indptr[policy[s]] - indptr[s]
        for e in range(indptr[s], indptr[s + 1]):
            indices[e], data[e] = rows.indices[first + e], rows.data[first + e]
    elimination = eliminate(Chain(indptr, indices, data), order, place)
    parts, amounts = np.zeros((_PARTS, n + 1)), np.ones(n)
    collect(elimination, amounts, parts)
    for _ in range(_CORRECTIONS):
        exact = True
        for i in range(n):
            amounts[i], size = _advantage(rows, policy[order[i]], i, place, parts)
            exact = exact and not abs(amounts[i]) > 8 * EPS * size
        if exact:
            break
        correct(elimination, amounts, parts)
    return parts


@njit_inline
def _advantage(rows: Rows, pair: int, i: int, place: Ints, parts: Floats) -> tuple[float, float]:
    """1 + sum p (V(end) - V(i)) of a pair of the state at place i; and the same in absolute values."""
    advantage, size = 1.0, 1.0
    for j in range(rows.indptr[pair], rows.indptr[pair + 1]):
        if rows.data[j] > 0.0:
            flow = rows.data[j] * difference(parts, place[rows.indices[j]], i)
            advantage += flow
            size += abs(flow)
    return advantage, size


@njit
def _improve(rows: Rows, allowed: Bools, order: Ints, place: Ints, parts: Floats, policy: Ints) -> bool:
    """Put a better pair wherever there is one: better by more than rounding can feign. Whether there is any."""
    changed = False
    advantage, noise = np.empty(len(allowed)), np.empty(len(allowed))
    for i in range(len(order)):
        best, s = np.inf, order[i]
        for k in range(rows.begin[s], rows.begin[s + 1]):
            if allowed[k]:
                advantage[k], size = _advantage(rows, k, i, place, parts)
                noise[k] = SOLVED * size + 2e-4 * EPS * parts[0, i]
                best = min(best, advantage[k])
        own = 2 * abs(advantage[policy[s]])
        for k in range(rows.begin[s], rows.begin[s + 1]):
            if allowed[k] and advantage[k] <= best + noise[k] + own:
                if advantage[k] < -(noise[k] + own):
                    policy[s] = k
                    changed = True
                break
    return changed
