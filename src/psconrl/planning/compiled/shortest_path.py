"""The fastest path into a set of states: a stochastic shortest path by policy iteration.

    V(s) = 0 on the targets,     V(s) = 1 + min_a sum_s' p(s' | s, a) V(s')     elsewhere

V is the minimal expected number of moves. Where no policy reaches the targets with probability one, it is infinite.
Policy iteration starts from a proper policy (one that reaches the targets), and every improvement of such a one is
proper. Times come from elimination without subtractions, so each is accurate to rounding; an improvement that is
smaller than rounding of the times may be is left out: paths that are equally fast to 13 digits count as equal.

States are eliminated in the order in which they were attracted, the last first: they are hardly ever entered from
nearer ones, so there is little to do in models of up to some hundred states. `shortest_paths` has larger ones.
"""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.compiled.attractor import proper_policy
from psconrl.planning.compiled.elimination import Chain, collect, eliminate
from psconrl.planning.compiled.rows import Rows, copy
from psconrl.planning.tolerances import EPS, SOLVED


class ShortestPath(NamedTuple):
    """The fastest path: the expected time (S,) and a pair (S,) for each state.

    On the targets the time is 0 and the pair -1; where no policy reaches them with probability one, inf and -1.
    Where times exceed the range of floats, all are inf, but states have a pair.
    """

    times: Floats
    pairs: Ints


@njit
def fastest(rows: Rows, targets: Bools, start: Ints) -> ShortestPath:
    """The fastest path into the targets (S,) of a model by rows of some hundred states.

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
        V = _times(rows, policy, order, place)
        # Times that do not come down, which only rounding can bring about, end it; the policy before is kept.
        fallen = True
        for i in range(n):
            fallen = fallen and V[i] <= before[i] * (1 + SOLVED) and V[i] < np.inf
        if not fallen:
            break
        copy(policy, best)
        for i in range(n):
            before[i] = V[i]
        if not _improve(rows, allowed, order, place, V, policy):
            break
    for i in range(n):
        times[order[i]], pairs[order[i]] = before[i], best[order[i]]
    return ShortestPath(times, pairs)


@njit_inline
def _times(rows: Rows, policy: Ints, order: Ints, place: Ints) -> Floats:
    """The expected times (n + 1,) of a proper policy (S,) by place, zero on the targets, the last."""
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
    times = np.zeros(n + 1)
    collect(eliminate(Chain(indptr, indices, data), order, place), np.ones(n), times)
    return times


@njit
def _improve(rows: Rows, allowed: Bools, order: Ints, place: Ints, V: Floats, policy: Ints) -> bool:
    """Put a better pair wherever there is one: better by more than rounding can feign. Whether there is any."""
    changed = False
    advantage, noise = np.empty(len(allowed)), np.empty(len(allowed))
    for i in range(len(order)):
        best, s = np.inf, order[i]
        for pair in range(rows.begin[s], rows.begin[s + 1]):
            if allowed[pair]:
                advantage[pair], size = 1.0, 1.0
                for move in range(rows.indptr[pair], rows.indptr[pair + 1]):
                    flow = rows.data[move] * (V[place[rows.indices[move]]] - V[i])
                    advantage[pair] += flow
                    size += abs(flow)
                noise[pair] = SOLVED * size + 8 * EPS * V[i]
                best = min(best, advantage[pair])
        own = 2 * abs(advantage[policy[s]])
        for pair in range(rows.begin[s], rows.begin[s + 1]):
            if allowed[pair] and advantage[pair] <= best + noise[pair] + own:
                if advantage[pair] < -(noise[pair] + own):
                    policy[s] = pair
                    changed = True
                break
    return changed
