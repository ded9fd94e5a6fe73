"""The fastest way into a set of states, compiled: the twin of `shortest` for models of up to some hundred states.

The method and its guards against rounding are those of `shortest`: policy iteration on expected times, from the
paths with the least sum of 1 / p, elimination without subtractions, values as sums of two floats. States are
numbered by the length of that path: those far away are hardly ever entered from nearer ones, so that eliminating
them first leaves little to do.

Arrays are filled entry by entry: whole-array assignments and expressions take seconds to compile.
"""

import numpy as np

from psconrl._checks import Bools, Floats, Ints
from psconrl._numba import njit, njit_inline
from psconrl.planning._sparse_kernels import eliminate_rows, solve

_NEVER = 1e-100  # moves less likely than this are left out: nobody waits for them
_RARE = 1e-14  # the same, where the times would exceed the range of floats
_TIE = 1e-12  # relative difference from which an action counts as better
_EPS = 2.0**-52
_ROUNDS = 6  # of correction


@njit_inline
def fastest(
    indptr: Ints, indices: Ints, data: Floats, A: int, targets: Bools, start_actions: Ints
) -> tuple[Ints, Floats]:
    """An action (S,) of the fastest way into the targets, and the expected times (S,).

    The model is given by rows (S * A, S) in compressed form, all indices int64. start_actions (S,): the policy to
    start from where it leads to the targets, -1 for none; it decides only between equally good actions. On the
    targets the time is 0 and the action -1; where no policy reaches them with probability one, inf and -1.
    Times beyond the range of floats are inf, but have an action.
    """
    S = len(targets)
    times, actions = np.empty(S), np.empty(S, dtype=np.int64)
    for s in range(S):
        times[s], actions[s] = 0.0 if targets[s] else np.inf, -1
    for least in (_NEVER, _RARE):
        into_begin, into_move, pair_of = moves_into(indptr, indices, data, least, S)
        inside, allowed = almost_surely(A, targets, into_begin, into_move, pair_of)
        order, policy = _nearest(data, A, targets, inside, allowed, into_begin, into_move, pair_of)
        if len(order) == 0:
            break
        _follow(indptr, indices, data, A, targets, allowed, order, start_actions, policy, least)
        V = _iterate(indptr, indices, data, A, targets, allowed, order, policy, least)
        finite = True
        for i in range(len(order)):
            times[order[i]], actions[order[i]] = V[i], policy[i]
            finite = finite and V[i] < np.inf
        if finite:
            break
    return actions, times


@njit
def moves_into(indptr: Ints, indices: Ints, data: Floats, least: float, S: int) -> tuple[Ints, Ints, Ints]:
    """The moves that are likelier than `least`, by the state they end in, and the pair of every move."""
    pairs = len(indptr) - 1
    begin = np.zeros(S + 1, dtype=np.int64)
    pair_of = np.empty(len(data), dtype=np.int64)
    for k in range(pairs):
        for j in range(indptr[k], indptr[k + 1]):
            pair_of[j] = k
            if data[j] > least:
                begin[indices[j] + 1] += 1
    for s in range(S):
        begin[s + 1] += begin[s]
    move = np.empty(begin[S], dtype=np.int64)
    filled = np.empty(S, dtype=np.int64)
    for s in range(S):
        filled[s] = begin[s]
    for j in range(len(data)):
        if data[j] > least:
            move[filled[indices[j]]] = j
            filled[indices[j]] += 1
    return begin, move, pair_of


@njit
def almost_surely(A: int, targets: Bools, begin: Ints, move: Ints, pair_of: Ints) -> tuple[Bools, Bools]:
    """The states (S,) that can reach the targets with probability one, and the pairs (S * A,) that stay in them."""
    S = len(targets)
    inside = np.ones(S, dtype=np.bool_)
    allowed = np.ones(S * A, dtype=np.bool_)
    stack = np.empty(S, dtype=np.int64)
    while True:
        reached = np.empty(S, dtype=np.bool_)
        size = 0
        for s in range(S):
            reached[s] = targets[s]
            if targets[s]:
                stack[size] = s
                size += 1
        while size > 0:
            size -= 1
            end = stack[size]
            for j in range(begin[end], begin[end + 1]):
                k = pair_of[move[j]]
                if allowed[k] and not reached[k // A]:
                    reached[k // A] = True
                    stack[size] = k // A
                    size += 1
        lost = False
        for s in range(S):
            if inside[s] and not reached[s]:
                lost = True
                for j in range(begin[s], begin[s + 1]):
                    allowed[pair_of[move[j]]] = False
        inside = reached
        if not lost:
            return inside, allowed


@njit
def _nearest(
    data: Floats, A: int, targets: Bools, inside: Bools, allowed: Bools, begin: Ints, move: Ints, pair_of: Ints
) -> tuple[Ints, Ints]:
    """The n states to be left, by the length of the path with the least sum of 1 / p, and its actions (n,)."""
    S = len(targets)
    length, via = np.empty(S), np.empty(S, dtype=np.int64)
    # A heap of lengths and states, the shortest on top; states whose length has come down are there again.
    lengths, states = np.empty(S + len(move)), np.empty(S + len(move), dtype=np.int64)
    size = 0
    for s in range(S):
        length[s], via[s] = 0.0 if targets[s] else np.inf, -1
        if targets[s] and inside[s]:
            lengths[size], states[size] = 0.0, s
            size += 1
    settled = np.zeros(S, dtype=np.bool_)
    order = np.empty(S, dtype=np.int64)
    n = 0
    while size > 0:
        size -= 1
        end = _shortest(lengths, states, size)
        if settled[end]:
            continue
        settled[end] = True
        if not targets[end]:
            order[n] = end
            n += 1
        for j in range(begin[end], begin[end + 1]):
            k = pair_of[move[j]]
            s = k // A
            if allowed[k] and not settled[s] and not targets[s]:
                far = length[end] + 1.0 / data[move[j]]
                if far < length[s] and inside[s]:
                    _put(lengths, states, size, far, s)
                    size += 1
                if far < length[s] or (far == length[s] and k < via[s]):
                    length[s], via[s] = far, k
    policy = np.empty(n, dtype=np.int64)
    for i in range(n):
        policy[i] = via[order[i]] % A
    return order[:n], policy


@njit
def _put(lengths: Floats, states: Ints, size: int, length: float, state: int) -> None:
    """Put a state on a heap of so many."""
    at = size
    while at > 0:
        above = (at - 1) // 2
        if lengths[above] < length or (lengths[above] == length and states[above] <= state):
            break
        lengths[at], states[at] = lengths[above], states[above]
        at = above
    lengths[at], states[at] = length, state


@njit
def _shortest(lengths: Floats, states: Ints, size: int) -> int:
    """Take the state with the least length, the first of several, off a heap, which holds so many afterwards."""
    top, length, state = states[0], lengths[size], states[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        other = child + 1
        if other < size and (
            lengths[other] < lengths[child] or (lengths[other] == lengths[child] and states[other] < states[child])
        ):
            child = other
        if length < lengths[child] or (length == lengths[child] and state <= states[child]):
            break
        lengths[at], states[at] = lengths[child], states[child]
        at = child
    lengths[at], states[at] = length, state
    return int(top)


@njit
def _follow(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    A: int,
    targets: Bools,
    allowed: Bools,
    order: Ints,
    start_actions: Ints,
    policy: Ints,
    least: float,
) -> None:
    """Put the start policy (nearest paths where it has no allowed action) in place of the nearest paths, if proper."""
    n = len(order)
    number, mixed = np.empty(len(targets), dtype=np.int64), np.empty(n, dtype=np.int64)
    for i in range(n):
        number[order[i]] = i
        a = start_actions[order[i]]
        mixed[i] = a if 0 <= a < A and allowed[order[i] * A + a] else policy[i]
    proper = np.zeros(n, dtype=np.bool_)
    left = n
    changed = True
    while changed:
        changed = False
        for i in range(n):
            if proper[i]:
                continue
            k = order[i] * A + mixed[i]
            for j in range(indptr[k], indptr[k + 1]):
                end = indices[j]
                if data[j] > least and (targets[end] or proper[number[end]]):
                    proper[i] = True
                    left -= 1
                    changed = True
                    break
    if left == 0:
        for i in range(n):
            policy[i] = mixed[i]


@njit_inline
def _iterate(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    A: int,
    targets: Bools,
    allowed: Bools,
    order: Ints,
    policy: Ints,
    least: float,
) -> Floats:
    """Policy iteration from a proper policy (n,), which is overwritten by the best one; its times (n,).

    Times that do not come down, which only rounding can bring about, end it; the policy before is kept.
    """
    n = len(order)
    S = len(targets)
    number = np.empty(S, dtype=np.int64)
    for s in range(S):
        number[s] = n if targets[s] else -1  # the targets are number n
    for i in range(n):
        number[order[i]] = i
    high, low = np.zeros(n + 1), np.zeros(n + 1)
    V, before = np.empty(n), np.empty(n, dtype=np.int64)
    for i in range(n):
        V[i], before[i] = np.inf, policy[i]
    for _ in range(n + 100):
        _evaluate(indptr, indices, data, A, number, order, policy, least, high, low)
        risen = False
        for i in range(n):
            risen = risen or not high[i] <= V[i] * (1 + 1e-9)
        if risen:
            for i in range(n):
                policy[i] = before[i]
            break
        finite = True
        for i in range(n):
            V[i], before[i] = high[i], policy[i]
            finite = finite and high[i] < np.inf
        if not finite:
            for i in range(n):
                V[i] = np.inf
            break
        if not _improve(indptr, indices, data, A, number, allowed, order, high, low, policy, least):
            break
    return V


@njit_inline
def _evaluate(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    A: int,
    number: Ints,
    order: Ints,
    policy: Ints,
    least: float,
    high: Floats,
    low: Floats,
) -> None:
    """Fill in the expected times of a proper policy as sums of two floats (n + 1,), zero on the targets, the last."""
    n = len(order)
    S = len(number)
    # Far states first, the targets are the last place.
    far_first, place, actions = (
        np.zeros(n + 1, dtype=np.int64),
        np.empty(S, dtype=np.int64),
        np.zeros(S, dtype=np.int64),
    )
    for s in range(S):
        place[s] = n if number[s] == n else n - 1 - number[s]
        if number[s] == n:
            far_first[n] = s
    for i in range(n):
        far_first[n - 1 - i] = order[i]
        actions[order[i]] = policy[i]
    _, low_begin, low_at, lows, up_begin, up_at, ups, out = eliminate_rows(
        far_first, place, actions, A, indptr, indices, data, 0.0, least
    )
    factor = (far_first, low_begin, low_at, lows, up_begin, up_at, ups, out)
    amounts, by_state = np.empty(n), np.zeros(S)
    for i in range(n):
        amounts[i], high[i], low[i] = 1.0, 0.0, 0.0
    for step in range(_ROUNDS + 1):
        for i in range(n):
            by_state[order[i]] = amounts[i]
        solve(factor, by_state)
        for i in range(n):
            amounts[i] = by_state[order[i]]
        for i in range(n):
            change = amounts[i] + low[i]
            summed = high[i] + change
            low[i] = (high[i] - summed) + change
            high[i] = summed
        if step == _ROUNDS:
            break
        exact = True
        finite = True
        for i in range(n):
            amounts[i], size = _advantage(indptr, indices, data, order[i] * A + policy[i], i, number, high, low, least)
            finite = finite and np.isfinite(amounts[i])
            exact = exact and abs(amounts[i]) <= 4 * _EPS * size
        if exact or not finite:
            break


@njit
def _advantage(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    pair: int,
    state: int,
    number: Ints,
    high: Floats,
    low: Floats,
    least: float,
) -> tuple[float, float]:
    """1 + sum p (V(end) - V(state)), V = high + low, of a pair; and the same in absolute values."""
    advantage = 1.0
    size = 1.0
    for j in range(indptr[pair], indptr[pair + 1]):
        if data[j] > least:
            end = number[indices[j]]
            flow = data[j] * ((high[end] - high[state]) + (low[end] - low[state]))
            advantage += flow
            size += abs(flow)
    return advantage, size


@njit
def _improve(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    A: int,
    number: Ints,
    allowed: Bools,
    order: Ints,
    high: Floats,
    low: Floats,
    policy: Ints,
    least: float,
) -> bool:
    """Put a better action wherever there is one: better by more than rounding can feign. Whether there is any."""
    changed = False
    advantage, noise = np.empty(A), np.empty(A)
    for i in range(len(order)):
        best = np.inf
        for a in range(A):
            advantage[a] = np.inf
            if allowed[order[i] * A + a]:
                advantage[a], size = _advantage(indptr, indices, data, order[i] * A + a, i, number, high, low, least)
                noise[a] = _TIE * size + _EPS * 1e-4 * high[i]
                best = min(best, advantage[a])
        own = 2 * abs(advantage[policy[i]])
        for a in range(A):
            if advantage[a] < np.inf and advantage[a] <= best + noise[a] + own:
                if advantage[a] < -(noise[a] + own):
                    policy[i] = a
                    changed = True
                break
    return changed
