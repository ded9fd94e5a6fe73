"""Draws from Dirichlet posteriors that do not work on zeros.

A row Dirichlet(alpha + N), n possible next states with the parameter alpha each, is that of independent variables

    observed     Gamma(N_i) for every next state i that was seen
    the prior    together Gamma(n alpha), split by breaking sticks: again and again a uniformly random one of the n
                 states takes all of what is left but the share U^(1 / (n alpha)), U uniform

(the second is a Dirichlet process on n points; a state may get several sticks). With alpha = 0.01 the sticks shrink
fast. They are broken until what is left is below S cut / 2 of the row, so a row costs what was observed plus the few
prior entries that matter; entries below cut / 2 are dropped. Going on to the end would give an exact draw, from which
the row differs by less than 2 S cut in L1.
"""

import math
from typing import Any

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.agents._random_kernels import State, exponential, gamma, mix, uniform

Arrays = tuple[Any, ...]

STICKS_UP_TO = 0.1
"""Above this parameter nearly all entries matter, and are drawn one by one."""


@njit
def draw_rows(prior: Arrays, chains: Arrays, S: int, state: State, cut: float, into: Arrays, first_row: int) -> int:
    """Fill in a model by rows (indptr, indices, data) from the posterior; the row from which on there is no more room.

    To go on from there, call it again with more room and that row. The prior: level (rows,) is the parameter of each
    possible next state of a row, nan if they differ; then, or if only some are possible, allowed[support[row] :
    support[row + 1]] are the possible ones and `parameters` their own; an empty `support` means that all are. The
    counts are chains of entries, see `counts`.
    """
    level, support, allowed, parameters = prior
    head, link, target, number = chains
    indptr, indices, data = into
    if first_row == 0:
        mix(state)
        indptr[0] = 0
    restricted = len(support) > 0
    own = np.zeros(S)
    others = np.empty(S, dtype=np.int64)
    at = np.full(S, -1)
    pool = allowed if restricted else np.arange(S)
    size = indptr[first_row]
    for row in range(first_row, len(head)):
        if size + S > len(indices):
            return row
        first = size
        alpha = level[row]
        begin, end = (support[row], support[row + 1]) if restricted else (0, S)
        sticks = alpha <= STICKS_UP_TO
        if restricted:
            for k in range(begin, end):
                own[allowed[k]] = parameters[k]
        # Observed next states, each with its own variable; for sticks without the prior, which may fall on them, too.
        total = 0.0
        entry = head[row]
        while entry >= 0:
            x = target[entry]
            added = 0.0 if sticks else own[x] if restricted else alpha
            weight = gamma(state, added + number[entry])
            indices[size] = x
            data[size] = weight
            at[x] = size
            size += 1
            total += weight
            entry = link[entry]
        if sticks:
            size = _break_sticks(indices, data, size, total, alpha, pool, begin, end - begin, at, state, cut)
        else:
            count = 0
            for k in range(begin, end):
                if at[pool[k]] < 0:
                    others[count] = pool[k]
                    count += 1
            size = _one_by_one(indices, data, size, total, alpha, others[:count], own, state)
        if restricted:
            for k in range(begin, end):
                own[allowed[k]] = 0.0
        for i in range(first, size):
            at[indices[i]] = -1
        size = normalise(indices, data, first, size, cut)
        indptr[row + 1] = size
    return len(head)


@njit_inline
def _break_sticks(
    indices: Ints,
    data: Floats,
    size: int,
    total: float,
    alpha: float,
    pool: Ints,
    begin: int,
    n: int,
    at: Ints,
    state: State,
    cut: float,
) -> int:
    """Append the weights that the prior adds to the n possible states, in `pool` from `begin` on; the new size.

    at[x] is where x stands.
    """
    shape = n * alpha
    left = 1.0
    if total > 0.0:
        # Gamma(a) = Gamma(1 + a) U^(1 / a); far below the range of floats it is nothing.
        left = gamma(state, 1.0 + shape) * math.exp(-exponential(state) / shape)
    enough = 0.5 * len(at) * cut * (total + left)
    while left > enough:
        x = pool[begin + int(uniform(state) * n)]
        rest = left * math.exp(-exponential(state) / shape)
        if at[x] < 0:
            at[x] = size
            indices[size] = x
            data[size] = left - rest
            size += 1
        else:
            data[at[x]] += left - rest
        left = rest
    return size


@njit
def _one_by_one(
    indices: Ints,
    data: Floats,
    size: int,
    total: float,
    alpha: float,
    others: Ints,
    own: Floats,
    state: State,
) -> int:
    """Append Gamma variables of the states that were not observed; alpha nan: their own parameters."""
    first = size
    largest = -np.inf
    for x in others:
        a = own[x] if np.isnan(alpha) else alpha
        logarithm = math.log(gamma(state, 1.0 + a)) - exponential(state) / a
        indices[size] = x
        data[size] = logarithm
        largest = max(largest, logarithm)
        size += 1
    # Without observations only ratios matter, and the largest must not vanish.
    shift = largest if total == 0.0 else 0.0
    for i in range(first, size):
        data[i] = math.exp(data[i] - shift)
    return size


@njit_inline
def normalise(indices: Ints, data: Floats, first: int, size: int, cut: float) -> int:
    """Make the entries from `first` on a distribution without those below `cut`; the new size."""
    total = 0.0
    for i in range(first, size):
        total += data[i]
    least = 0.5 * cut * total
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
