"""Compiled elimination for Markov chains, after Grassmann, Taksar and Heyman (GTH).

Eliminating state k from a chain redirects each move i -> k to where k leads when it is left:

    p_ij <- p_ij + p_ik p_kj / sum_{l<k} p_kl,     r_i <- r_i + p_ik r_k / sum_{l<k} p_kl

The way out of k is summed, never computed as 1 - p_kk, so nothing is subtracted and every entry of the
result has small *relative* error, however nearly decomposable the chain is.
"""

import numpy as np

from psconrl._checks import Floats
from psconrl._numba import njit


@njit
def eliminate(P: Floats, R: Floats, kept: int) -> Floats:
    """Eliminate the states n-1, ..., `kept` of a chain, the last first, in place; return the ways out.

    P (n, n) probabilities, R (n, d) amounts collected per visit. Afterwards, for k >= kept, column k above
    the diagonal holds the expected visits to k per visit of i before leaving to lower states, row k left of
    the diagonal where k leads, and out[k] its sum.
    """
    n = P.shape[0]
    out = np.zeros(n)
    for k in range(n - 1, kept - 1, -1):
        total = 0.0
        for j in range(k):
            total += P[k, j]
        out[k] = total
        for i in range(k):
            if P[i, k] > 0.0:
                visits = P[i, k] / total
                P[i, k] = visits
                for j in range(k):
                    P[i, j] += visits * P[k, j]
                for d in range(R.shape[1]):
                    R[i, d] += visits * R[k, d]
    return out


@njit
def stationary(P: Floats) -> Floats:
    """The stationary law of an irreducible chain; P is overwritten."""
    n = P.shape[0]
    kept = int(np.int64(1))  # not 1, a constant, for which `eliminate` would compile once more
    eliminate(P, np.zeros((n, 0)), kept)
    x = np.zeros(n)
    x[0] = 1.0
    total = 1.0
    for k in range(1, n):
        mass = 0.0
        for i in range(k):
            mass += x[i] * P[i, k]
        x[k] = mass
        total += mass
        if total > 1e150:
            # Masses grow by the ratio of rare to common ways; keep them representable.
            for i in range(k + 1):
                x[i] /= total
            total = 1.0
    for i in range(n):
        x[i] /= total
    return x


@njit
def absorb(P: Floats, R: Floats, V: Floats, kept: int) -> None:
    """Fill V[kept:] with V = R + P V, given V[:kept]: what is collected until absorption, plus its value.

    P (n, n) and R (n, d) are overwritten; V (n, d).
    """
    out = eliminate(P, R, kept)
    for k in range(kept, P.shape[0]):
        for d in range(R.shape[1]):
            value = R[k, d]
            for j in range(k):
                value += P[k, j] * V[j, d]
            V[k, d] = value / out[k]
