"""Draws from Dirichlet(max(N, floor)); as those from posteriors, but the sticks break among states never seen alone."""

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit
from psconrl.agents._posterior_kernels import _break_sticks, normalise
from psconrl.agents._random_kernels import State, gamma, mix
from psconrl.planning.compiled.rows import longer


@njit
def draw_floored(
    floor: float, head: Ints, link: Ints, target: Ints, number: Ints, S: int, state: State, cut: float
) -> tuple[Ints, Ints, Floats]:
    """One model by rows (indptr, indices, data); the counts are chains of entries, see `counts`."""
    mix(state)
    rows = len(head)
    indptr = np.zeros(rows + 1, dtype=np.int64)
    indices, data = np.empty(rows * 8 + S, dtype=np.int64), np.empty(rows * 8 + S)
    at, others = np.full(S, -1), np.empty(S, dtype=np.int64)
    size = 0
    for row in range(rows):
        while size + S > len(indices):
            indices, data = longer(indices), longer(data)
        first, total = size, 0.0
        entry = head[row]
        while entry >= 0:
            weight = gamma(state, max(float(number[entry]), floor))
            indices[size], data[size] = target[entry], weight
            at[target[entry]] = size
            total += weight
            size += 1
            entry = link[entry]
        n = 0
        for x in range(S):
            if at[x] < 0:
                others[n] = x
                n += 1
        if n > 0:
            size = _break_sticks(indices, data, size, total, floor, others, 0, n, at, state, cut)
        for i in range(first, size):
            at[indices[i]] = -1
        size = normalise(indices, data, first, size, cut)
        indptr[row + 1] = size
    return indptr, indices[:size].copy(), data[:size].copy()
