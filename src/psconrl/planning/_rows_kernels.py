"""Models by rows, compiled: compression, and the classes of an occupancy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psconrl._checks import Bools, Floats, Ints
from psconrl._numba import njit, njit_inline


@njit
def compress(P: Floats, cut: float) -> tuple[Ints, Ints, Floats]:
    """The entries above `cut` of an array (rows, S) as indptr, indices, data; rows that lost some are renormalised."""
    rows, S = P.shape
    size = 0
    for row in range(rows):
        for x in range(S):
            if P[row, x] > cut:
                size += 1
    indptr = np.zeros(rows + 1, dtype=np.int64)
    indices = np.empty(size, dtype=np.int64)
    data = np.empty(size)
    size = 0
    for row in range(rows):
        first = size
        total, lost = 0.0, False
        for x in range(S):
            p = P[row, x]
            if p > cut:
                indices[size] = x
                data[size] = p
                total += p
                size += 1
            elif p > 0.0:
                lost = True
        if lost:
            for entry in range(first, size):
                data[entry] /= total
        indptr[row + 1] = size
    return indptr, indices, data


@njit_inline
def one_class(mu: Floats, indptr: Ints, indices: Ints, data: Floats, support: float) -> bool:
    """Whether the ratio policy of mu (S, A) has one closed class on its support; flows below `support` do not connect.

    It has, if all states with mass lead to the likeliest one: a closed class that does not hold it could not.
    """
    S = mu.shape[0]
    mass, backward = np.zeros(S), np.zeros(S, dtype=np.bool_)
    likeliest = 0
    for s in range(S):
        for a in range(mu.shape[1]):
            mass[s] += mu[s, a]
        if mass[s] > mass[likeliest]:
            likeliest = s
    backward[likeliest] = True
    progress = True
    while progress:
        progress = False
        for s in range(S):
            if backward[s] or not mass[s] > 0.0:
                continue
            backward[s] = _leads(s, backward, mu, indptr, indices, data, support)
            progress = progress or backward[s]
    lost = 0
    for s in range(S):
        if mass[s] > 0.0 and not backward[s]:
            lost += 1
    return lost == 0


@njit
def _leads(s: int, to: Bools, mu: Floats, indptr: Ints, indices: Ints, data: Floats, support: float) -> bool:
    A = mu.shape[1]
    for a in range(A):
        if mu[s, a] > support:
            for entry in range(indptr[s * A + a], indptr[s * A + a + 1]):
                if to[indices[entry]] and mu[s, a] * data[entry] > support:
                    return True
    return False


@njit
def longer(array: NDArray[Any]) -> NDArray[Any]:
    """The array with twice the room."""
    result = np.empty(2 * len(array) + 1, dtype=array.dtype)
    for i in range(len(array)):
        result[i] = array[i]
    return result
