"""Shadow prices where they are not unique: the optimal multipliers of least Euclidean norm.

The optimal multipliers are those lambda >= 0 for which no policy is better than the optimum,

    J_0(pi) + lambda . (J(pi) - tau) >= J*    for all pi:

a polyhedron, a single point unless limits repeat each other or a policy meets them just so. It is found by its faces:
the least lambda that satisfies the inequalities of the policies known so far is priced, and the best policy at these
prices gives the next inequality, until it is satisfied already. Every step is a projection onto a polyhedron with a few
faces, a problem of non-negative least squares (Lawson and Hanson, Solving Least Squares Problems, chapter 23).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from psconrl._core.checks import Floats

_SAME = 1e-7
"""Columns whose averages differ by less than this in some direction leave the prices open in that direction."""
_BINDS = 1e-9
"""Limits that are missed by less than this, upwards or downwards, bind."""
_NEAR = 1e-6
"""Prices that are further from those known than this share are not believed."""
_ROUNDING = 1e-10
_ROUNDS = 100


def unique(prices: Floats, columns: Sequence[Floats], averages: Floats, tau: Floats) -> Floats | None:
    """The prices (m,), if the columns (m + 1,) that carry the optimum, with averages (m + 1,), leave no choice.

    Limits that do not bind have the price zero, and at the right prices all columns that carry weight cost the same:
    equations that are solved here, as the `prices` that are known may be those of costs that were changed a little.
    """
    binding = np.flatnonzero(tau - averages[1:] <= _BINDS)
    if not len(binding):
        return prices
    drift = np.array([column[1:] - tau for column in columns])[:, binding]
    found, _, rank, _ = np.linalg.lstsq(drift, averages[0] - np.array([column[0] for column in columns]), rcond=None)
    if rank < len(binding) or np.linalg.matrix_rank(drift, tol=_SAME) < len(binding):
        return None
    exact = np.zeros(len(tau))
    exact[binding] = np.maximum(found, 0.0)
    return exact if (np.abs(exact - prices) <= _NEAR * (1.0 + np.abs(prices))).all() else prices


def least(
    prices: Floats,
    optimum: float,
    columns: Sequence[Floats],
    tau: Floats,
    weight: Floats,
    best: Callable[[Floats], Floats],
    slack: float,
) -> Floats:
    """The optimal prices (m,) with the least sum of (weight * price) ** 2.

    Args:
        prices: optimal ones. optimum: J*. columns: averages (m + 1,) of policies. tau: limits (m,). weight: (m,).
        best: the averages (m + 1,) of the best policy at given prices. slack: what `prices` leave unproved.
    """
    size = float(np.linalg.norm(weight * prices))
    if size == 0.0:
        return prices
    slack += _ROUNDING
    known = list(columns)
    for _ in range(_ROUNDS):
        drift = np.array([column[1:] - tau for column in known]) * (size / weight)
        needed = np.array([optimum - column[0] - slack for column in known])
        x = nearest_to_zero(np.vstack([drift, np.eye(len(tau))]), np.append(needed, np.zeros(len(tau))))
        if x is None:
            break
        found = np.maximum(x, 0.0) * (size / weight)
        column = best(found)
        if column[0] + found @ (column[1:] - tau) >= optimum - 2 * slack:
            return found if np.linalg.norm(weight * found) <= size else prices
        known.append(column)
    return prices


def nearest_to_zero(G: Floats, h: Floats) -> Floats | None:
    """The x of least norm with G x >= h; None if there is none."""
    from scipy.optimize import nnls

    E, f = np.vstack([G.T, h]), np.append(np.zeros(G.shape[1]), 1.0)
    u, residual = nnls(E, f)
    r = E @ u - f
    return None if residual <= 1e-12 else np.asarray(-r[:-1] / r[-1])
