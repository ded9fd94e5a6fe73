"""Draws from Dirichlet posteriors that do not work on zeros.

A row Dirichlet(alpha + N) with observed next states i = 1..n and U others of parameter alpha each:

    observed     independent Gamma(alpha_i + N_i)
    the others   together Gamma(U alpha), split by breaking sticks in size-biased order: a uniformly random one of the
                 u that are left takes all of what is left but the share x ~ Beta((u - 1) alpha, 1 + alpha).

With alpha = 0.01 the sticks shrink fast. They are broken until what is left is below `cut` of the row, so a row
costs what was observed plus the few prior entries that matter; entries below `cut` are dropped. Going on to the end
would give an exact draw, from which the row differs by less than 2 S cut in L1.
"""

import math

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl._numba import njit
from psconrl.agents._counts_kernels import longer

STICKS_UP_TO = 0.1
"""Above this parameter nearly all entries matter, and are drawn one by one."""


@njit
def draw_rows(
    level: Floats,
    support: Ints,
    allowed: Ints,
    parameters: Floats,
    head: Ints,
    link: Ints,
    target: Ints,
    number: Ints,
    S: int,
    rng: np.random.Generator,
    cut: float,
) -> tuple[Ints, Ints, Floats]:
    """One model by rows (indptr, indices, data) from the posterior.

    The prior: level (rows,) is the parameter of each possible next state of a row, nan if they differ; then, or if
    only some are possible, allowed[support[row] : support[row + 1]] are the possible ones and `parameters` their
    own; an empty `support` means that all are. The counts are chains of entries, see `counts`.
    """
    rows = len(head)
    restricted = len(support) > 0
    indptr = np.zeros(rows + 1, dtype=np.int64)
    indices = np.empty(rows * 8 + S, dtype=np.int64)
    data = np.empty(rows * 8 + S)
    order = np.arange(S)
    place = np.arange(S)
    own = np.zeros(S)
    size = 0
    for row in range(rows):
        while size + S > len(indices):
            indices = longer(indices)
            data = longer(data)
        first = size
        alpha = level[row]
        if restricted:
            for k in range(support[row], support[row + 1]):
                own[allowed[k]] = parameters[k]
        # Observed next states, each with its own variable; they leave the list of the others.
        others = S
        total = 0.0
        entry = head[row]
        while entry >= 0:
            x = target[entry]
            prior = own[x] if restricted else alpha
            weight = rng.standard_gamma(prior + number[entry])
            indices[size] = x
            data[size] = weight
            size += 1
            total += weight
            if restricted:
                own[x] = 0.0
            else:
                others -= 1
                _swap(order, place, place[x], others)
            entry = link[entry]
        if restricted:
            others = 0
            for k in range(support[row], support[row + 1]):
                x = allowed[k]
                if own[x] > 0.0:
                    _swap(order, place, place[x], others)
                    others += 1
        if others > 0 and alpha <= STICKS_UP_TO:
            size = _break_sticks(indices, data, size, total, alpha, others, order, place, rng, cut)
        elif others > 0:
            size = _one_by_one(indices, data, size, total, alpha, others, order, own, rng)
        if restricted:
            for k in range(support[row], support[row + 1]):
                own[allowed[k]] = 0.0
        size = _normalise(indices, data, first, size, cut)
        indptr[row + 1] = size
    return indptr, indices[:size].copy(), data[:size].copy()


@njit
def _swap(order: Ints, place: Ints, i: int, j: int) -> None:
    x, y = order[i], order[j]
    order[i], order[j] = y, x
    place[x], place[y] = j, i


@njit
def _break_sticks(
    indices: Ints,
    data: Floats,
    size: int,
    total: float,
    alpha: float,
    others: int,
    order: Ints,
    place: Ints,
    rng: np.random.Generator,
    cut: float,
) -> int:
    """Append the weights of the first `others` states in `order`; the new size."""
    left = 1.0
    if total > 0.0:
        shape = others * alpha
        if shape >= 1.0:
            left = rng.standard_gamma(shape)
        else:
            # Gamma(a) = Gamma(1 + a) U^(1 / a); far below the range of floats it is nothing.
            left = rng.standard_gamma(1.0 + shape) * math.exp(-rng.standard_exponential() / shape)
    end = cut * (total + left)
    while others > 0 and left > end:
        u = rng.random() * others
        i = int(u)
        x = order[i]
        others -= 1
        _swap(order, place, i, others)
        rest = 0.0
        if others > 0:
            rest = _share(u - i, others * alpha, alpha, rng)
        indices[size] = x
        data[size] = left * (1.0 - rest)
        size += 1
        left *= rest
    return size


@njit
def _share(u: float, a: float, alpha: float, rng: np.random.Generator) -> float:
    """A Beta(a, 1 + alpha) variable: Beta(a, 1), accepted with probability (1 - x)^alpha; u is uniform."""
    while True:
        x = math.exp(-rng.standard_exponential() / a)
        # (1 - x)^alpha >= 1 + alpha log(1 - x), which is above 1 - 7 alpha here.
        if (x < 0.999 and u < 1.0 - 7.0 * alpha) or (x < 1.0 and u <= (1.0 - x) ** alpha):
            return x
        u = rng.random()


@njit
def _one_by_one(
    indices: Ints,
    data: Floats,
    size: int,
    total: float,
    alpha: float,
    others: int,
    order: Ints,
    own: Floats,
    rng: np.random.Generator,
) -> int:
    """Append Gamma variables of the first `others` states in `order`; alpha nan: their own parameters."""
    first = size
    largest = -np.inf
    for i in range(others):
        a = own[order[i]] if np.isnan(alpha) else alpha
        if a >= 1.0:
            logarithm = math.log(rng.standard_gamma(a))
        else:
            logarithm = math.log(rng.standard_gamma(1.0 + a)) - rng.standard_exponential() / a
        indices[size] = order[i]
        data[size] = logarithm
        largest = max(largest, logarithm)
        size += 1
    # Without observations only ratios matter, and the largest must not vanish.
    shift = largest if total == 0.0 else 0.0
    for i in range(first, size):
        data[i] = math.exp(data[i] - shift)
    return size


@njit
def _normalise(indices: Ints, data: Floats, first: int, size: int, cut: float) -> int:
    """Make the entries from `first` on a distribution without those below `cut`; the new size."""
    total = 0.0
    for i in range(first, size):
        total += data[i]
    least = cut * total
    kept, sum_kept = first, 0.0
    for i in range(first, size):
        if data[i] > least:
            indices[kept] = indices[i]
            data[kept] = data[i]
            sum_kept += data[i]
            kept += 1
    for i in range(first, kept):
        data[i] /= sum_kept
    return kept
