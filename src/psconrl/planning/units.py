"""Costs in units of their own: the planner's tolerances are relative to the range of each cost.

Each cost is shifted to start at zero and divided by a power of two near its range, so that it lies in [0, 1]. Nothing
is rounded by the division, so a cost with its limit times a power of two is planned with by the same bits.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats
from psconrl.planning.tolerances import EPS, FAR


class Units(NamedTuple):
    """Costs (m + 1, K) and limits tau (m,), scaled; cost i = low[i] + unit[i] * scaled."""

    costs: Floats
    tau: Floats
    low: Floats
    unit: Floats

    @staticmethod
    def of(costs: Floats, thresholds: Floats) -> Units:
        """The units of costs (m + 1, K) with thresholds (m,)."""
        low = costs.min(axis=1)
        width = costs.max(axis=1) - low
        rest = thresholds - low[1:]
        # Limits on constant costs that miss them by rounding are met.
        rest[(width[1:] == 0) & (np.abs(rest) <= 8 * EPS * np.abs(thresholds))] = 0.0
        # A constant cost has no range. What its limit leaves is the unit, for that is all that matters of it; if that
        # is nothing, its own size; if that is nothing, too, no more than the units of others.
        for size in (np.append(1.0, np.abs(rest)), np.abs(low), width[width > 0].min(initial=1.0)):
            width = np.where(width > 0, width, size)
        unit = np.exp2(np.ceil(np.log2(width)))
        scaled = (costs - low[:, np.newaxis]) / unit[:, np.newaxis]
        return Units(scaled, rest / unit[1:], low, unit)

    @property
    def near(self) -> Floats:
        """The limits, brought near to the range of their costs where they cannot bind anyway."""
        return np.minimum(self.tau, FAR)

    def averages(self, scaled: Floats) -> Floats:
        """Averages (m + 1, ..) in the units of the model."""
        shape = (-1,) + (1,) * (scaled.ndim - 1)
        return np.asarray(self.low.reshape(shape) + self.unit.reshape(shape) * scaled)

    @property
    def prices(self) -> Floats:
        """What a price of one in these units is in those of the model, (m,); no more than floats can be."""
        with np.errstate(over="ignore"):
            return np.minimum(self.unit[0] / self.unit[1:], np.finfo(np.float64).max)

    def multipliers(self, scaled: Floats) -> Floats:
        """Shadow prices (m,) in the units of the model."""
        return np.asarray(scaled * self.prices + 0.0)  # -0 is 0
