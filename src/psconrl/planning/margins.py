"""The largest margin of limits, in the units of the model, whatever the units of each cost are.

It is the largest gamma with J_i <= tau_i - gamma / unit_i for all i, all in units of their own costs. Where these are
alike, that is one program. Limits on costs of very different size have very different units: there gamma is the root of

    v(gamma) = the least, over mixtures, of max_i (J_i - tau_i + gamma / unit_i),

which is convex: Newton's method, with the slopes that the prices of each v give, ends at it, or where rounding is all
that it gets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from psconrl._core.checks import Floats
from psconrl.planning.compiled.master import Limits
from psconrl.planning.tolerances import EPS, FAR, MAX_SEARCH, MAX_UNIT_RATIO, PROVEN


class Safest(Protocol):
    """What violates the limits least."""

    @property
    def J(self) -> Floats:
        """Averages (m + 1,)."""

    @property
    def multipliers(self) -> Floats:
        """The prices (m,) that prove it."""


Found = TypeVar("Found", bound=Safest)


def largest(tau: Floats, unit: Floats, safest: Callable[[Limits], Found]) -> tuple[float, Found]:
    """The margin of limits tau (m,), m > 0, on costs of these units (m,), and who attains it."""
    if unit.max() <= MAX_UNIT_RATIO * unit.min():
        near = tau
        if (tau > FAR).any():
            near = np.minimum(tau - (tau * unit).min() / unit, FAR)
        found = safest(Limits(near, unit.min() / unit))
        return float(((tau - found.J[1:]) * unit).min()), found
    at, tau, least = 0.0, tau + 1e3 * EPS, np.inf
    below, above = (-np.inf, 0.0), (np.inf, 0.0)
    for _ in range(MAX_SEARCH):
        moved = np.minimum(tau - at / unit, FAR)
        tried = safest(Limits(moved, np.ones(len(unit))))
        violations = tried.J[1:] - moved
        v = float(violations.max())
        if abs(v) < least:
            gamma, found, least = at, tried, abs(v)
        below, above = ((at, v), above) if v < 0 else (below, (at, v))
        # Limits that do not bind have no price; divided by a small unit, rounding would be one.
        prices = np.where(violations >= v - PROVEN, np.maximum(tried.multipliers, 0.0), 0.0)
        if least <= 2 * EPS or not prices.any():
            break
        # The root of the line, taken from zero: from the last gamma it would drown in its digits.
        root = float(prices @ (tau - tried.J[1:])) / float(prices @ (1.0 / unit))
        if not below[0] < root < above[0]:
            # Prices are no better than rounding: between what is known on both sides.
            root = below[0] - below[1] * (above[0] - below[0]) / (above[1] - below[1])
            if not below[0] < root < above[0]:
                break
        at = root
    return gamma, found
