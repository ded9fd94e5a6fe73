"""The compiled inner loop of the fastest way."""

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl._numba import njit


@njit
def advantages(
    high: Floats, low: Floats, start: Ints, end: Ints, p: Floats, group: Ints, groups: int
) -> tuple[Floats, Floats]:
    """1 + sum p (V(end) - V(start)) over each group of moves, V = high + low; the same in absolute values."""
    advantage = np.ones(groups)
    size = np.ones(groups)
    for k in range(len(p)):
        flow = p[k] * ((high[end[k]] - high[start[k]]) + (low[end[k]] - low[start[k]]))
        advantage[group[k]] += flow
        size[group[k]] += abs(flow)
    return advantage, size
