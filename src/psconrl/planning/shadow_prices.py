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
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats
from psconrl.planning.tolerances import CLOSE, FEASIBLE, MAX_SEARCH, PROVEN


class Prices(NamedTuple):
    """Multipliers (m,), and what they leave unproved: the optimum is at most this above their bound."""

    multipliers: Floats
    unproved: float


Best = Callable[[Floats], tuple[Floats, float]]
"""At given prices the averages (m + 1,) of the best policy, and a bound on J_0 + prices . J of all policies."""


def unique(
    prices: Floats, columns: Sequence[Floats], averages: Floats, tau: Floats, best: Best, slack: float
) -> Prices | None:
    """The prices, if the columns (m + 1,) that carry the optimum, with averages (m + 1,), leave no choice.

    slack: what the `prices` (m,) that are known leave unproved. Limits that do not bind have the price zero, and at
    the right prices all columns that carry weight cost the same: equations that are solved here, as the prices that
    are known may be those of costs that were changed a little, or next to the right ones. A price changes a bound by
    no more than its own change times the distance of its limit from some average; if that is much, `best` is asked.
    """
    binding = np.flatnonzero(tau - averages[1:] <= FEASIBLE)
    known = Prices(prices, slack)
    if not len(binding):
        return known
    drift = np.array([column[1:] - tau for column in columns])[:, binding]
    found, _, rank, _ = np.linalg.lstsq(drift, averages[0] - np.array([column[0] for column in columns]), rcond=None)
    # Columns whose averages differ by rounding only in some direction leave the prices open in that direction.
    if rank < len(binding) or np.linalg.matrix_rank(drift, tol=10 * PROVEN) < len(binding):
        return None
    exact = np.zeros(len(tau))
    exact[binding] = np.maximum(found, 0.0)
    changed = float(np.abs(exact - prices) @ np.maximum(np.abs(tau), np.abs(1.0 - tau)))
    if changed <= PROVEN:
        return Prices(exact, slack + changed)
    unproved = averages[0] + float(exact @ tau) - best(exact)[1]
    return Prices(exact, unproved) if unproved <= max(slack, PROVEN) else known


def least(
    prices: Floats,
    optimum: float,
    columns: Sequence[Floats],
    tau: Floats,
    weight: Floats,
    best: Best,
    slack: float,
) -> Prices:
    """The optimal prices with the least sum of (weight * price) ** 2.

    Args:
        prices: optimal ones (m,). optimum: J*. columns: averages (m + 1,) of policies. tau: limits (m,). weight: (m,).
        slack: what `prices` leave unproved.
    """
    size, given = float(np.linalg.norm(weight * prices)), Prices(prices, slack)
    if size == 0.0:
        return given
    slack += CLOSE
    known = list(columns)
    for _ in range(MAX_SEARCH):
        drift = np.array([column[1:] - tau for column in known]) * (size / weight)
        needed = np.array([optimum - column[0] - slack for column in known])
        x = nearest_to_zero(np.vstack([drift, np.eye(len(tau))]), np.append(needed, np.zeros(len(tau))))
        if x is None:
            break
        found = np.maximum(x, 0.0) * (size / weight)
        column, bound = best(found)
        if optimum - float(column[0] + found @ (column[1:] - tau)) <= 2 * slack:
            unproved = optimum - (bound - float(found @ tau)) + CLOSE
            return Prices(found, unproved) if np.linalg.norm(weight * found) <= size else given
        known.append(column)
    return given


def nearest_to_zero(G: Floats, h: Floats) -> Floats | None:
    """The x of least norm with G x >= h; None if there is none."""
    from scipy.optimize import nnls

    E, f = np.vstack([G.T, h]), np.append(np.zeros(G.shape[1]), 1.0)
    u, residual = nnls(E, f)
    r = E @ u - f
    return None if residual <= 1e-12 else np.asarray(-r[:-1] / r[-1])
