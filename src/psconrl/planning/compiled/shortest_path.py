"""The fastest way into a set of states: a stochastic shortest path, solved exactly by policy iteration.

    V(s) = 0 on the targets,     V(s) = 1 + min_a sum_s' p(s' | s, a) V(s')     elsewhere

V is the minimal expected number of moves. Where no policy reaches the targets with probability one, it is
infinite. The start policy follows the paths with the least sum of 1 / p, the number of attempts that a move
takes; it is proper (it reaches the targets), and so is every improvement of a proper policy.

A chain that leaves a cluster of states with probability 1e-12 per move has V of the order of 1e12, and two
actions that differ by a factor of two in the way out differ by one part in 1e12 in the right-hand side
above. Hence everything is done in differences, from which that large common part falls out:

    advantage(s, a) = 1 + sum_s' p(s' | s, a) (V(s') - V(s))

V is held in parts of falling size (see `elimination.insert`), corrected until the advantage of the policy vanishes.

States are numbered by the length of that path: those far away are hardly ever entered from nearer ones, so that
eliminating them first leaves little to do in models of up to some hundred states. `shortest_paths` has larger ones.
"""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.compiled.elimination import Chain, collect, correct, difference, eliminate
from psconrl.planning.compiled.rows import Rows

_RARE = 1e-14  # the same, where the times would exceed the range of floats
_TIE = 1e-12  # relative difference from which an action counts as better
_EPS = 2.0**-52
_ROUNDS = 6  # of correction
_PARTS = 2


class ShortestPath(NamedTuple):
    """The fastest way: the expected time (S,) and a pair (S,) for each state.

    On the targets the time is 0 and the pair -1; where no policy reaches them with probability one, inf and -1.
    Times beyond the range of floats are inf, but have a pair.
    """

    times: Floats
    pairs: Ints


class MovesInto(NamedTuple):
    """The moves of a model by the state they end in: those into s are move[begin[s] : begin[s + 1]].

    move: numbers of entries of the rows. pair_of: the pair of every entry; state_of: the state of every pair.
    """

    begin: Ints
    move: Ints
    pair_of: Ints
    state_of: Ints


class _Task(NamedTuple):
    """A model by rows, the targets (S,), the allowed pairs (K,), the least probability.

    order (n,): the states to be left, by length of path. number (S,): their places in it, n for targets, -1 for others.
    """

    rows: Rows
    targets: Bools
    allowed: Bools
    least: float
    order: Ints
    number: Ints


@njit
def fastest(rows: Rows, targets: Bools, start: Ints) -> ShortestPath:
    """The fastest way into the targets (S,) of a model by rows of some hundred states.

    start (S,): the pairs to start from where they lead to the targets, -1 for none; they decide only between equally
    good ones. Otherwise, of equally good pairs the one in use stays, and the lowest is taken. What a row
    lacks to one counts as staying.
    """
    S = len(targets)
    times, pairs = np.empty(S), np.empty(S, dtype=np.int64)
    given = False
    for s in range(S):
        times[s], pairs[s] = 0.0 if targets[s] else np.inf, -1
        given = given or start[s] >= 0
    for least in (0.0, _RARE):
        into = moves_into(rows, least)
        inside, allowed = almost_surely(targets, into)
        order, policy = nearest_targets(rows, targets, inside, allowed, into)
        if len(order) == 0:
            break
        number = _numbers(order, targets)
        task = _Task(rows, targets, allowed, least, order, number)
        if given:
            _follow(task, start, policy)
        V = _iterate(task, policy)
        finite = True
        for i in range(len(order)):
            times[order[i]], pairs[order[i]] = V[i], policy[i]
            finite = finite and V[i] < np.inf
        if finite:
            break
    return ShortestPath(times, pairs)


@njit
def moves_into(rows: Rows, least: float) -> MovesInto:
    """The moves that are likelier than `least`, by the state they end in."""
    S = len(rows.begin) - 1
    begin = np.zeros(S + 1, dtype=np.int64)
    pair_of, state_of = np.empty(len(rows.data), dtype=np.int64), np.empty(len(rows.indptr) - 1, dtype=np.int64)
    for s in range(S):
        for k in range(rows.begin[s], rows.begin[s + 1]):
            state_of[k] = s
    for k in range(len(rows.indptr) - 1):
        for j in range(rows.indptr[k], rows.indptr[k + 1]):
            pair_of[j] = k
            if rows.data[j] > least:
                begin[rows.indices[j] + 1] += 1
    for s in range(S):
        begin[s + 1] += begin[s]
    move = np.empty(begin[S], dtype=np.int64)
    filled = np.empty(S, dtype=np.int64)
    for s in range(S):
        filled[s] = begin[s]
    for j in range(len(rows.data)):
        if rows.data[j] > least:
            move[filled[rows.indices[j]]] = j
            filled[rows.indices[j]] += 1
    return MovesInto(begin, move, pair_of, state_of)


@njit
def almost_surely(targets: Bools, into: MovesInto) -> tuple[Bools, Bools]:
    """The states (S,) that can reach the targets with probability one, and the pairs (K,) that stay in them."""
    S = len(targets)
    inside = np.ones(S, dtype=np.bool_)
    allowed = np.ones(len(into.state_of), dtype=np.bool_)
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
            for j in range(into.begin[end], into.begin[end + 1]):
                k = into.pair_of[into.move[j]]
                s = into.state_of[k]
                if allowed[k] and not reached[s]:
                    reached[s] = True
                    stack[size] = s
                    size += 1
        lost = False
        for s in range(S):
            if inside[s] and not reached[s]:
                lost = True
                for j in range(into.begin[s], into.begin[s + 1]):
                    allowed[into.pair_of[into.move[j]]] = False
        inside = reached
        if not lost:
            return inside, allowed


@njit
def _numbers(order: Ints, targets: Bools) -> Ints:
    number = np.empty(len(targets), dtype=np.int64)
    for s in range(len(targets)):
        number[s] = len(order) if targets[s] else -1
    for i in range(len(order)):
        number[order[i]] = i
    return number


@njit
def nearest_targets(rows: Rows, targets: Bools, inside: Bools, allowed: Bools, into: MovesInto) -> tuple[Ints, Ints]:
    """The n states to be left, by the length of the path with the least sum of 1 / p, and its pairs (n,)."""
    S = len(targets)
    length, via = np.empty(S), np.empty(S, dtype=np.int64)
    # A heap of lengths and states, the shortest on top; states whose length has come down are there again.
    room = S + len(into.move)
    lengths, states = np.empty(room), np.empty(room, dtype=np.int64)
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
        end = _take(lengths, states, size)
        if settled[end]:
            continue
        settled[end] = True
        if not targets[end]:
            order[n] = end
            n += 1
        for j in range(into.begin[end], into.begin[end + 1]):
            k = into.pair_of[into.move[j]]
            s = into.state_of[k]
            if allowed[k] and not settled[s] and not targets[s]:
                far = length[end] + 1.0 / rows.data[into.move[j]]
                if far < length[s] and inside[s]:
                    _put(lengths, states, size, far, s)
                    size += 1
                if far < length[s] or (far == length[s] and k < via[s]):
                    length[s], via[s] = far, k
    policy = np.empty(n, dtype=np.int64)
    for i in range(n):
        policy[i] = via[order[i]]
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
def _take(lengths: Floats, states: Ints, size: int) -> int:
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
def _follow(task: _Task, start: Ints, policy: Ints) -> None:
    """Put the start policy (nearest paths where it has no allowed pair) in place of the nearest paths, if proper."""
    rows, order, number = task.rows, task.order, task.number
    n = len(order)
    mixed = np.empty(n, dtype=np.int64)
    for i in range(n):
        k = start[order[i]]
        mixed[i] = k if k >= 0 and task.allowed[k] else policy[i]
    proper = np.zeros(n + 1, dtype=np.bool_)
    proper[n] = True
    left = n
    changed = True
    while changed:
        changed = False
        for i in range(n):
            if proper[i]:
                continue
            k = mixed[i]
            for j in range(rows.indptr[k], rows.indptr[k + 1]):
                if rows.data[j] > task.least and proper[number[rows.indices[j]]]:
                    proper[i] = True
                    left -= 1
                    changed = True
                    break
    if left == 0:
        for i in range(n):
            policy[i] = mixed[i]


@njit_inline
def _iterate(task: _Task, policy: Ints) -> Floats:
    """Policy iteration from a proper policy (n,), which is overwritten by the best one; its times (n,).

    Times that do not come down, which only rounding can bring about, end it; the policy before is kept.
    """
    n = len(task.order)
    parts = np.zeros((_PARTS, n + 1))
    V, before = np.empty(n), np.empty(n, dtype=np.int64)
    for i in range(n):
        V[i], before[i] = np.inf, policy[i]
    for _ in range(n + 100):
        _evaluate(task, policy, parts)
        risen = False
        for i in range(n):
            risen = risen or not parts[0, i] <= V[i] * (1 + 1e-9)
        if risen:
            for i in range(n):
                policy[i] = before[i]
            break
        finite = True
        for i in range(n):
            before[i] = policy[i]
            finite = finite and parts[0, i] < np.inf
            V[i] = 0.0
            for level in range(_PARTS):
                V[i] += parts[level, i]
        if not finite:
            for i in range(n):
                V[i] = np.inf
            break
        if not _improve(task, parts, policy):
            break
    return V


@njit_inline
def _evaluate(task: _Task, policy: Ints, parts: Floats) -> None:
    """Fill in the expected times of a proper policy (n,): parts (L, n + 1) by number, zero on the targets, the last."""
    rows, order, number = task.rows, task.order, task.number
    n = len(order)
    indptr = np.empty(n + 2, dtype=np.int64)
    indptr[0] = 0
    room = 0
    for i in range(n):
        k = policy[i]
        room += rows.indptr[k + 1] - rows.indptr[k]
    indices, data = np.empty(room, dtype=np.int64), np.empty(room)
    size = 0
    for i in range(n):
        k = policy[i]
        for j in range(rows.indptr[k], rows.indptr[k + 1]):
            if rows.data[j] > task.least:
                indices[size], data[size] = number[rows.indices[j]], rows.data[j]
                size += 1
        indptr[i + 1] = size
    indptr[n + 1] = size
    chain = Chain(indptr, indices, data)
    # Far ones first: they are hardly ever entered from nearer ones, so that little is filled in.
    sequence, place = np.empty(n, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
    for i in range(n):
        sequence[i], place[i] = n - 1 - i, n - 1 - i
    place[n] = n
    elimination = eliminate(chain, sequence, place)
    values = np.zeros((_PARTS, n + 1))
    amounts = np.ones(n)
    collect(elimination, amounts, values)
    for _ in range(_ROUNDS):
        exact = True
        for i in range(n):
            total, absolute = 1.0, 1.0
            for e in range(indptr[i], indptr[i + 1]):
                flow = data[e] * difference(values, place[indices[e]], place[i])
                total += flow
                absolute += abs(flow)
            amounts[place[i]] = total
            exact = exact and not abs(total) > 4 * _EPS * absolute
        if exact:
            break
        correct(elimination, amounts, values)
    for i in range(n + 1):
        for level in range(_PARTS):
            parts[level, i] = values[level, place[i]]


@njit_inline
def _advantage(task: _Task, pair: int, i: int, parts: Floats) -> tuple[float, float]:
    """1 + sum p (V(end) - V(i)) of a pair; and the same in absolute values."""
    advantage = 1.0
    size = 1.0
    for j in range(task.rows.indptr[pair], task.rows.indptr[pair + 1]):
        if task.rows.data[j] > task.least:
            flow = task.rows.data[j] * difference(parts, task.number[task.rows.indices[j]], i)
            advantage += flow
            size += abs(flow)
    return advantage, size


@njit
def _improve(task: _Task, parts: Floats, policy: Ints) -> bool:
    """Put a better pair wherever there is one: better by more than rounding can feign. Whether there is any."""
    changed = False
    begin = task.rows.begin
    advantage, noise = np.empty(len(task.allowed)), np.empty(len(task.allowed))
    for i in range(len(task.order)):
        best, s = np.inf, task.order[i]
        for k in range(begin[s], begin[s + 1]):
            advantage[k] = np.inf
            if task.allowed[k]:
                advantage[k], size = _advantage(task, k, i, parts)
                noise[k] = _TIE * size + _EPS * 1e-4 * parts[0, i]
                best = min(best, advantage[k])
        own = 2 * abs(advantage[policy[i]])
        for k in range(begin[s], begin[s + 1]):
            if advantage[k] < np.inf and advantage[k] <= best + noise[k] + own:
                if advantage[k] < -(noise[k] + own):
                    policy[i] = k
                    changed = True
                break
    return changed
