"""Elimination of states from a chain without subtractions, after Grassmann, Taksar and Heyman, sparse.

Eliminating state k redirects each move i -> k to where k leads when it is left. With q_k the law of where k leads,
out_k its way out, and D_k what is collected on the way,

    out_k = sum_{j != k} p_kj,   q_kj = p_kj / out_k,  p_ij <- p_ij + p_ik q_kj (j != i),  r_i <- r_i + p_ik r_k / out_k

The way out is summed, never computed as 1 - p_kk, so probabilities are only added, multiplied and divided, and every
one of them has a small *relative* error, however nearly decomposable the chain is.

Ratios of masses leave the range of floats in quite ordinary chains (a walk over 600 states that is seven times as
likely to go up as down). Numbers are therefore held as m * 2^(512 x), with a scale x that is 0 unless the number is
outside [2^-900, 2^900]; code that meets only such numbers never looks at scales.

Values (expected amounts, biases) are held in parts of falling size, h = parts[0] + parts[1] + ...; see `insert`.

Arrays are filled entry by entry: whole-array assignments and expressions take seconds to compile.
"""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit, njit_inline

_UNIT = 2.0**512
_LEAST = 2.0**-900
_MOST = 2.0**900
_LOW = 2.0**-256
_HIGH = 2.0**256
_APART = 2.0**-26
"""What is smaller than this share of a part of a value is kept in the next part."""
_EPS = 2.0**-53


class Chain(NamedTuple):
    """A Markov chain by rows: row s has the probabilities data[indptr[s] : indptr[s + 1]] at `indices`.

    The probability of staying is 1 minus the others, whatever is stored: entries on the diagonal are ignored, and the
    way out of a state is the sum of its other entries. Entries may come in any order, and several times.
    """

    indptr: Ints
    indices: Ints
    data: Floats


class Elimination(NamedTuple):
    """The states order[0], ..., order[n - 1] eliminated from a chain, one after another; others are kept.

    place (S,): when a state is eliminated, n or more for those kept; kept states with the same place are one. Rows are
    in the order of elimination and name states by place. low: row i has the probabilities to move to states
    eliminated before, at the time when those are eliminated. up: row i is the law of where i leads when it is left to
    states not yet eliminated. out: the ways out. Each number is to be multiplied by 2^(512 x), x its scale.
    plain (n,): whether all scales of a row are 0. fine: whether all states lead to those kept.
    """

    order: Ints
    place: Ints
    low_begin: Ints
    low_at: Ints
    low: Floats
    low_scale: Ints
    up_begin: Ints
    up_at: Ints
    up: Floats
    up_scale: Ints
    out: Floats
    out_scale: Ints
    plain: Bools
    fine: bool


class Residuals(NamedTuple):
    """left (S,): what is left of each equation; rounding (S,): what rounding may have done to that, at most.

    worst: the largest |left| / rounding of the states where values are finite.
    """

    left: Floats
    rounding: Floats
    worst: float


# Numbers with a scale


@njit
def _near_one(m: float, x: int) -> tuple[float, int]:
    """A number m * 2^(512 x) > 0 with m within [2^-256, 2^256)."""
    while 0.0 < m < _LOW:
        m *= _UNIT
        x -= 1
    while _HIGH <= m < np.inf:
        m /= _UNIT
        x += 1
    return m, x


@njit
def _settled(m: float, x: int) -> tuple[float, int]:
    """A number >= 0 in its only form: scale 0 within [2^-900, 2^900], else m within [2^-256, 2^256)."""
    if m == 0.0:
        return 0.0, 0
    m, x = _near_one(m, x)
    if x == 0 or (x == -1 and m >= _LEAST * _UNIT) or (x == 1 and m <= _MOST / _UNIT):
        return (m if x == 0 else (m * _UNIT if x == 1 else m / _UNIT)), 0
    return m, x


@njit
def _product(m: float, x: int, n: float, y: int) -> tuple[float, int]:
    """The product of two numbers."""
    if m == 0.0 or n == 0.0:
        return 0.0, 0
    m, x = _near_one(m, x)
    n, y = _near_one(n, y)
    return _settled(m * n, x + y)


@njit
def _ratio(m: float, x: int, n: float, y: int) -> tuple[float, int]:
    """The ratio of two numbers, the second positive."""
    if m == 0.0:
        return 0.0, 0
    m, x = _near_one(m, x)
    n, y = _near_one(n, y)
    return _settled(m / n, x - y)


@njit
def _sum(m: float, x: int, n: float, y: int) -> tuple[float, int]:
    """The sum of two numbers."""
    if m == 0.0:
        return n, y
    if n == 0.0:
        return m, x
    m, x = _near_one(m, x)
    n, y = _near_one(n, y)
    if x < y:
        m, x, n, y = n, y, m, x
    if x == y:
        m += n
    elif x == y + 1:
        m += n / _UNIT
    return _settled(m, x)


@njit
def _plain(m: float, x: int) -> float:
    """A number as a float: 0 or inf beyond the range of floats."""
    if x == 0:
        return m
    if x < -2:
        return 0.0
    if x > 2:
        return np.inf
    for _ in range(x):
        m *= _UNIT
    for _ in range(-x):
        m /= _UNIT
    return m


@njit
def as_floats(m: Floats, x: Ints) -> Floats:
    """Numbers with scales (n,) as floats: 0 or inf beyond their range."""
    numbers = np.empty(len(m))
    for i in range(len(m)):
        numbers[i] = _plain(m[i], x[i])
    return numbers


@njit
def as_shares(m: Floats, x: Ints, group: Ints, groups: int) -> Floats:
    """Numbers with scales (n,) as shares of the sum of their group, 0..groups-1, -1 for none; 0 if too small."""
    n = len(m)
    top = np.zeros(groups, dtype=np.int64)
    seen = np.zeros(groups, dtype=np.bool_)
    total = np.zeros(groups)
    shares = np.zeros(n)
    for i in range(n):
        g = group[i]
        if g >= 0 and m[i] > 0.0:
            # The scale of numbers near 1, whatever form they have.
            y = x[i] + (1 if m[i] >= _HIGH else 0) - (1 if m[i] < _LOW else 0) - (1 if m[i] < _LOW / _UNIT else 0)
            if not seen[g] or y > top[g]:
                seen[g], top[g] = True, y
    for i in range(n):
        g = group[i]
        if g >= 0 and m[i] > 0.0:
            shares[i] = _plain(m[i], x[i] - top[g])
            total[g] += shares[i]
    for i in range(n):
        if group[i] >= 0:
            shares[i] /= total[group[i]]
    return shares


# Elimination


@njit
def likely_state(chain: Chain, s: int) -> int:
    """A state where the likeliest moves from s end up again and again."""
    seen = np.zeros(len(chain.indptr) - 1, dtype=np.bool_)
    while not seen[s]:
        seen[s] = True
        best, towards = 0.0, s
        for e in range(chain.indptr[s], chain.indptr[s + 1]):
            if chain.indices[e] != s and chain.data[e] > best:
                best, towards = chain.data[e], chain.indices[e]
        s = towards
    return s


@njit
def longer_floats(array: Floats, size: int) -> Floats:
    """The array with room for at least so many numbers; an array with that much room is returned itself."""
    if size <= len(array):
        return array
    result = np.empty(max(size, len(array) + len(array) // 2))
    for i in range(len(array)):
        result[i] = array[i]
    return result


@njit
def longer_ints(array: Ints, size: int) -> Ints:
    """The same for whole numbers."""
    if size <= len(array):
        return array
    result = np.empty(max(size, len(array) + len(array) // 2), dtype=np.int64)
    for i in range(len(array)):
        result[i] = array[i]
    return result


@njit
def push(heap: Ints, size: int, number: int) -> None:
    """Put a number on a heap of so many, the least on top."""
    at = size
    while at > 0 and heap[(at - 1) // 2] > number:
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = number


@njit
def pop(heap: Ints, size: int) -> int:
    """Take the least number off a heap, which holds so many afterwards."""
    top, last = heap[0], heap[size]
    at = 0
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and heap[child + 1] < heap[child]:
            child += 1
        if heap[child] >= last:
            break
        heap[at] = heap[child]
        at = child
    heap[at] = last
    return int(top)


@njit
def eliminate(chain: Chain, order: Ints, place: Ints) -> Elimination:
    """Eliminate the states `order` (n,) from a chain; place (S,): their place in it, n or more for states kept."""
    n = len(order)
    columns = n
    for s in range(len(place)):
        columns = max(columns, place[s] + 1)
    low_begin, up_begin = np.zeros(n + 1, dtype=np.int64), np.zeros(n + 1, dtype=np.int64)
    room = 4 * columns + len(chain.indices)
    low_at, low, low_scale = np.empty(room, dtype=np.int64), np.empty(room), np.empty(room, dtype=np.int64)
    up_at, up, up_scale = np.empty(room, dtype=np.int64), np.empty(room), np.empty(room, dtype=np.int64)
    out, out_scale, plain_rows = np.empty(n), np.zeros(n, dtype=np.int64), np.empty(n, dtype=np.bool_)
    enough = np.empty(n)  # a probability this large, times anything in the row, has scale 0
    row, scale = np.zeros(columns), np.zeros(columns, dtype=np.int64)
    touched, waiting = np.empty(columns, dtype=np.int64), np.empty(columns, dtype=np.int64)
    lows = ups = 0
    fine = True
    for i in range(n):
        if lows + i + 1 > len(low):
            low_at, low = longer_ints(low_at, lows + i + 1), longer_floats(low, lows + i + 1)
            low_scale = longer_ints(low_scale, lows + i + 1)
        if ups + columns - i > len(up):
            up_at, up = longer_ints(up_at, ups + columns - i), longer_floats(up, ups + columns - i)
            up_scale = longer_ints(up_scale, ups + columns - i)
        s = order[i]
        count = before = 0
        plain = True
        row[i] = 1.0  # what comes back to the state is not looked at
        for entry in range(chain.indptr[s], chain.indptr[s + 1]):
            j, p = place[chain.indices[entry]], chain.data[entry]
            if j == i or not p > 0.0:
                continue
            if row[j] == 0.0:
                if j < i:
                    push(waiting, before, j)
                    before += 1
                else:
                    touched[count] = j
                    count += 1
            row[j] += p
            plain = plain and p >= _LEAST
        if not plain:
            for e in range(count):
                row[touched[e]], scale[touched[e]] = _settled(row[touched[e]], 0)
            for e in range(before):
                row[waiting[e]], scale[waiting[e]] = _settled(row[waiting[e]], 0)
        first = lows
        while before > 0:
            before -= 1
            k = pop(waiting, before)
            p, x = row[k], scale[k]
            row[k], scale[k] = 0.0, 0
            low_at[lows], low[lows], low_scale[lows] = k, p, x
            lows += 1
            fast = plain and p >= enough[k]
            for e in range(np.uint64(up_begin[k]), np.uint64(up_begin[k + 1])):
                j = np.uint64(up_at[e])  # without a sign it need not be looked at for being negative
                there, more = row[j], p * up[e]
                if there == 0.0:
                    if up_at[e] < i:
                        push(waiting, before, up_at[e])
                        before += 1
                    else:
                        touched[count] = up_at[e]
                        count += 1
                if fast or (more >= _LEAST and x == 0 and up_scale[e] == 0 and scale[j] == 0):
                    row[j] = there + more
                elif up_at[e] != i:
                    m, y = _product(p, x, up[e], up_scale[e])
                    row[j], scale[j] = _sum(there, scale[j], m, y)
                    plain = plain and scale[j] == 0
        row[i] = 0.0
        total, x = 0.0, 0
        if plain:
            for e in range(count):
                total += row[touched[e]]
        else:
            for e in range(count):
                total, x = _sum(total, x, row[touched[e]], scale[touched[e]])
        out[i], out_scale[i] = total, x
        fine = fine and total > 0.0
        least = 1.0
        for e in range(count):
            j = touched[e]
            up_at[ups + e] = j
            if plain:
                up[ups + e], up_scale[ups + e] = row[j] / total, 0
            else:
                up[ups + e], up_scale[ups + e] = _ratio(row[j], scale[j], total, x)
            least = min(least, up[ups + e])
            row[j], scale[j] = 0.0, 0
        if plain and least < _LEAST:
            plain = False
            for e in range(count):
                up[ups + e], up_scale[ups + e] = _settled(up[ups + e], 0)
        enough[i] = _LEAST / least if plain else np.inf
        for e in range(first, lows):
            plain = plain and low_scale[e] == 0
        plain_rows[i] = plain
        ups += count
        low_begin[i + 1] = lows
        up_begin[i + 1] = ups
    return Elimination(
        order,
        place,
        low_begin,
        low_at[:lows],
        low[:lows],
        low_scale[:lows],
        up_begin,
        up_at[:ups],
        up[:ups],
        up_scale[:ups],
        out,
        out_scale,
        plain_rows,
        fine,
    )


@njit
def visits(elimination: Elimination, start: Floats, entries_only: bool) -> tuple[Floats, Ints]:
    """Expected visits to each state on the way to those kept, by place, with scales; entries of those kept.

    start: by place, expected numbers of starts. entries_only: only the entries of kept states are wanted.
    """
    m, x = np.empty(len(start)), np.zeros(len(start), dtype=np.int64)
    for i in range(len(start)):
        m[i], x[i] = start[i], 0
        if not _LEAST <= start[i] <= _MOST:
            m[i], x[i] = _settled(start[i], 0)
    n = len(elimination.order)
    for i in range(n):
        if m[i] > 0.0:
            for e in range(elimination.up_begin[i], elimination.up_begin[i + 1]):
                _add_product(m, x, i, elimination.up[e], elimination.up_scale[e], elimination.up_at[e])
    if not entries_only:
        for i in range(n - 1, -1, -1):
            if m[i] > 0.0:
                m[i], x[i] = _ratio(m[i], x[i], elimination.out[i], elimination.out_scale[i])
                for e in range(elimination.low_begin[i], elimination.low_begin[i + 1]):
                    _add_product(m, x, i, elimination.low[e], elimination.low_scale[e], elimination.low_at[e])
    return m, x


@njit
def _add_product(m: Floats, x: Ints, i: int, p: float, scale: int, j: int) -> None:
    """Add p times the number at i, which has a scale like p, to that at j."""
    if x[i] == 0 and scale == 0 and x[j] == 0:
        product = m[i] * p
        total = m[j] + product
        if product >= _LEAST and total <= _MOST:
            m[j] = total
            return
    y, z = _product(m[i], x[i], p, scale)
    m[j], x[j] = _sum(m[j], x[j], y, z)


# Values


@njit_inline
def insert(parts: Floats, i: int, amount: float) -> None:
    """Add an amount to the value sum_l parts[l, i], which is held in parts of falling size.

    It goes to the first part that it is not tiny beside; what is rounded off there goes to the next. So states whose
    values differ little share their large parts bit for bit, and differences of values, taken part by part, are
    accurate to rounding of the differences, not of the values.
    """
    last = parts.shape[0] - 1
    for level in range(last + 1):
        if amount == 0.0:
            break
        part = parts[level, i]
        if level == last or abs(amount) > _APART * abs(part):
            total = part + amount
            parts[level, i] = total
            if not abs(total) < np.inf:
                break
            back = total - part
            amount = (part - (total - back)) + (amount - back)


@njit_inline
def difference(parts: Floats, x: int, s: int) -> float:
    """The difference of the values of x and s."""
    total = 0.0
    for level in range(parts.shape[0]):
        total += parts[level, x] - parts[level, s]
    return total


@njit
def collect(elimination: Elimination, amounts: Floats, parts: Floats) -> None:
    """Fill in what is collected on the way to the kept states, plus their value: h = amounts + P h, by place.

    amounts (n,) per visit; parts (L, n + ...): on entry the values of the kept states, on return all. Values beyond
    the range of floats are infinite.
    """
    n = len(elimination.order)
    collected = np.empty(n)  # between a departure from i and the next entry of a state not yet eliminated
    for i in range(n):
        out, x = elimination.out[i], elimination.out_scale[i]
        if elimination.plain[i]:
            total = amounts[i]
            for e in range(elimination.low_begin[i], elimination.low_begin[i + 1]):
                total += elimination.low[e] * collected[elimination.low_at[e]]
            total /= out
        else:
            y, z = _ratio(1.0, 0, out, x)
            total = amounts[i] * _plain(y, z) if amounts[i] != 0.0 else 0.0
            for e in range(elimination.low_begin[i], elimination.low_begin[i + 1]):
                before = collected[elimination.low_at[e]]
                if before != 0.0:
                    y, z = _ratio(elimination.low[e], elimination.low_scale[e], out, x)
                    total += _plain(y, z) * before
        collected[i] = total
    for i in range(n - 1, -1, -1):
        main, largest = elimination.up_begin[i], -1.0
        for e in range(elimination.up_begin[i], elimination.up_begin[i + 1]):
            if elimination.up_scale[e] == 0 and elimination.up[e] > largest:
                main, largest = e, elimination.up[e]
        towards = elimination.up_at[main]
        amount = collected[i]
        for level in range(parts.shape[0]):
            parts[level, i] = parts[level, towards]
        if not abs(parts[0, i]) < np.inf:
            continue
        for e in range(elimination.up_begin[i], elimination.up_begin[i + 1]):
            if e != main:
                apart = difference(parts, elimination.up_at[e], towards)
                if apart != 0.0:
                    amount += _plain(elimination.up[e], elimination.up_scale[e]) * apart
        insert(parts, i, amount)


@njit
def residuals(chain: Chain, amounts: Floats, scale: float, parts: Floats) -> Residuals:
    """How far the equations amounts + P h - h = 0 are from holding, by state.

    amounts (S,), themselves rounded by a unit in the last place of `scale`; parts (L, S) of h, by state.
    """
    S = len(amounts)
    left, rounding = np.empty(S), np.empty(S)
    worst = 0.0
    for s in range(S):
        total, absolute = amounts[s], abs(amounts[s]) + scale
        for entry in range(chain.indptr[s], chain.indptr[s + 1]):
            x = chain.indices[entry]
            if x != s and chain.data[entry] > 0.0:
                flow = chain.data[entry] * difference(parts, x, s)
                total += flow
                absolute += abs(flow)
        left[s] = total
        # Each term: amount, differences of the parts and their sum, product; and the sum of the terms.
        rounding[s] = (chain.indptr[s + 1] - chain.indptr[s] + 2 * parts.shape[0] + 2) * _EPS * absolute
        if abs(total) < np.inf and rounding[s] > 0.0:
            worst = max(worst, abs(total) / rounding[s])
    return Residuals(left, rounding, worst)


@njit
def correct(elimination: Elimination, left: Floats, parts: Floats) -> None:
    """One step of iterative refinement: add to the values what is collected of the left-hand sides (n,)."""
    levels, columns = parts.shape
    change = np.zeros((levels, columns))
    collect(elimination, left, change)
    for i in range(len(elimination.order)):
        if abs(parts[0, i]) < np.inf:
            for level in range(levels):
                insert(parts, i, change[level, i])
