"""Products of a chain with values, and of matrices in twofold arithmetic.

A twofold number is a sum high + low of two floats, with high the nearest float: about 104 bits. Sums and products of
floats are turned into twofold numbers without error (Knuth, Dekker); a sum of n products of twofold numbers is off by
less than (n + 8)^2 2^-104 of the sum of their sizes.
"""

import numpy as np

from psconrl._core.checks import Floats
from psconrl._core.njit import njit
from psconrl.planning.compiled.elimination import Chain

_SPLIT = 2.0**27 + 1.0


@njit
def advance(chain: Chain, amounts: Floats, values: Floats, steps: int) -> Floats:
    """values <- amounts + P values (S,), so many times.

    In differences: what a row lacks to one counts as staying, and equal values stay as they are.
    """
    S = len(values)
    now, then = values.copy(), np.empty(S)
    for _ in range(steps):
        for s in range(S):
            total, own = 0.0, now[s]
            for entry in range(chain.indptr[s], chain.indptr[s + 1]):
                total += chain.data[entry] * (now[chain.indices[entry]] - own)
            then[s] = own + total + amounts[s]
        now, then = then, now
    return now


@njit
def _halves(matrix: Floats) -> tuple[Floats, Floats]:
    """Numbers as sums of two with half as many digits, whose products are exact."""
    n, m = matrix.shape
    first, second = np.empty((n, m)), np.empty((n, m))
    for i in range(n):
        for j in range(m):
            scaled = _SPLIT * matrix[i, j]
            first[i, j] = scaled - (scaled - matrix[i, j])
            second[i, j] = matrix[i, j] - first[i, j]
    return first, second


@njit
def twofold_product(a: Floats, a_low: Floats, b: Floats, b_low: Floats) -> tuple[Floats, Floats]:
    """The product of matrices (n, k) and (k, m), each given as high + low."""
    n, m = len(a), b.shape[1]
    high, low = np.zeros((n, m)), np.zeros((n, m))
    a1, a2 = _halves(a)
    b1, b2 = _halves(b)
    for i in range(n):
        for k in range(a.shape[1]):
            x, x1, x2, x_low = a[i, k], a1[i, k], a2[i, k], a_low[i, k]
            if x == 0.0:
                continue
            for j in range(m):
                p = x * b[k, j]
                rest = ((x1 * b1[k, j] - p) + x1 * b2[k, j] + x2 * b1[k, j]) + x2 * b2[k, j]
                total = high[i, j] + p
                back = total - high[i, j]
                low[i, j] += (high[i, j] - (total - back)) + (p - back) + rest + x * b_low[k, j] + x_low * b[k, j]
                high[i, j] = total
    for i in range(n):
        for j in range(m):
            total = high[i, j] + low[i, j]
            low[i, j] -= total - high[i, j]
            high[i, j] = total
    return high, low
