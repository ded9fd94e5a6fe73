"""Confidence sets of transitions, l <= p <= u entry by entry, compiled.

The member with the least sum_s' p(s') h(s') puts as much as it may on the states with the least h: start from l and
hand out the rest 1 - sum l in the order of h. A set is mostly left after a few states, so this costs little more than
the lower ends that are not zero.
"""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit
from psconrl.planning.tolerances import ROUNDED

# What rounding leaves of a row's rest is not handed out: a move of probability 1e-17 would make a plan's states lead
# to all others, which would then keep the actions of whatever column they were last part of.


class Set(NamedTuple):
    """Lower and upper ends (S * A, S), what the lower ones lack to one (S * A,), and those not zero by rows."""

    lower: Floats
    upper: Floats
    rest: Floats
    begin: Ints
    state: Ints
    value: Floats


@njit
def between(lower: Floats, upper: Floats) -> Set:
    """The set with these ends, both (S * A, S)."""
    pairs, S = lower.shape
    filled = 0
    for k in range(pairs):
        for j in range(S):
            filled += lower[k, j] > 0.0
    begin = np.zeros(pairs + 1, dtype=np.int64)
    rest = np.empty(pairs)
    state, value = np.empty(filled, dtype=np.int64), np.empty(filled)
    filled = 0
    for k in range(pairs):
        total = 0.0
        for j in range(S):
            if lower[k, j] > 0.0:
                total += lower[k, j]
                state[filled], value[filled] = j, lower[k, j]
                filled += 1
        begin[k + 1] = filled
        rest[k] = max(1.0 - total, 0.0)
    return Set(lower, upper, rest, begin, state, value)


@njit
def around(center: Floats, radius: Floats) -> Set:
    """The set within radius (S * A,) of a centre (S * A, S) whose entries are probabilities."""
    pairs, S = center.shape
    lower, upper = np.empty((pairs, S)), np.empty((pairs, S))
    for k in range(pairs):
        for j in range(S):
            low, high = center[k, j] - radius[k], center[k, j] + radius[k]
            lower[k, j] = low if low > 0.0 else 0.0
            upper[k, j] = high if high < 1.0 else 1.0
    return between(lower, upper)


@njit
def least_mean(within: Set, pair: int, order: Ints, h: Floats, base: float) -> float:
    """min over the members p of sum_s' p(s') (h(s') - base); order: the states by increasing h."""
    total = 0.0
    for t in range(within.begin[pair], within.begin[pair + 1]):
        total += within.value[t] * (h[within.state[t]] - base)
    left = within.rest[pair]
    for k in range(len(order)):
        if left <= ROUNDED:
            break
        j = order[k]
        share = min(left, within.upper[pair, j] - within.lower[pair, j])
        total += share * (h[j] - base)
        left -= share
    return total


@njit
def add_member(within: Set, pair: int, order: Ints, position: Ints, weight: float, row: Floats) -> None:
    """Add weight times the member that is best for an order to a row (S,), its states by position."""
    for t in range(within.begin[pair], within.begin[pair + 1]):
        row[position[within.state[t]]] += weight * within.value[t]
    left = within.rest[pair]
    for k in range(len(order)):
        if left <= ROUNDED:
            break
        j = order[k]
        share = min(left, within.upper[pair, j] - within.lower[pair, j])
        row[position[j]] += weight * share
        left -= share


@njit
def members(within: Set, pairs: Ints, order: Ints) -> Floats:
    """The members (n, S) of some pairs (n,) that are best for an order."""
    S = len(order)
    states, P = np.empty(S, dtype=np.int64), np.zeros((len(pairs), S))
    for s in range(S):
        states[s] = s
    for k in range(len(pairs)):
        add_member(within, pairs[k], order, states, 1.0, P[k])
    return P


@njit
def are_columns(columns: Ints, begin: Ints) -> bool:
    """Whether columns (n, 2, H, S) hold actions that states, whose pairs begin at begin (S + 1,), have, and orders."""
    n, _, H, S = columns.shape
    for k in range(n):
        for h in range(H):
            met = np.zeros(S, dtype=np.bool_)
            for s in range(S):
                action, other = columns[k, 0, h, s], columns[k, 1, h, s]
                if not 0 <= action < begin[s + 1] - begin[s] or not 0 <= other < S or met[other]:
                    return False
                met[other] = True
    return True


@njit
def sort(order: Ints, h: Floats) -> None:
    """Sort the states by h, by insertion: the order before is nearly right, and stays among equals."""
    for k in range(1, len(order)):
        s = order[k]
        j = k - 1
        while j >= 0 and h[order[j]] > h[s]:
            order[j + 1] = order[j]
            j -= 1
        order[j + 1] = s


@njit
def copy(source: Ints, target: Ints) -> None:
    """Copy numbers (L, S), entry by entry: whole-array assignments take seconds to compile."""
    for h in range(source.shape[0]):
        for s in range(source.shape[1]):
            target[h, s] = source[h, s]


@njit
def nearest(center: Floats, lower: Floats, upper: Floats, p: Floats) -> None:
    """Fill p with the member of l <= p <= u of least distance to the centre, all (S,): clip(centre + shift)."""
    S = len(center)
    total, size = 0.0, 1.0
    for j in range(S):
        total += center[j]
        size = max(size, 1.0 + abs(center[j]))
    low, shift = -size, 0.0
    if abs(total - 1.0) >= 1e-12:
        shift = size
        while low < 0.5 * (low + shift) < shift:
            middle = 0.5 * (low + shift)
            total = 0.0
            for j in range(S):
                total += min(max(center[j] + middle, lower[j]), upper[j])
            if total < 1.0:
                low = middle
            else:
                shift = middle
    total = 0.0
    for j in range(S):
        p[j] = min(max(center[j] + shift, lower[j]), upper[j])
        total += p[j]
    for j in range(S):
        p[j] /= total


@njit
def nearest_members(center: Floats, lower: Floats, upper: Floats) -> Floats:
    """The members (n, S) of n sets that are nearest to their centres."""
    p = np.empty(center.shape)
    for k in range(len(center)):
        nearest(center[k], lower[k], upper[k], p[k])
    return p
