"""What is measured on a run beside signed regret and violation V_i(t) = sum_{u <= t} (c_i - tau_i): the one place.

[V]+               the positive part of the signed violation: what a limit is exceeded by in all.
max_t [V_t]+       its largest value so far; the violation of a run that ends well may have been large on the way.
L                  regret + lambda* . violation, lambda* the optimal multipliers (those of least norm, where there are
                   several): what breaking limits saves is paid for at their price. Zero along the optimal trade-off.
policy violation   sum_k T_k max(0, J_i(pi_k) - tau_i), J_i the exact average of the plan executed in the true model,
                   from the state in which it starts: what plans promise, without the noise of the run, and nothing
                   that one plan saves pays for another.

Curves have the times of the grid as their last axis, constraints before it.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psconrl._core.checks import Floats, Ints


def positive(violation: Floats) -> Floats:
    """[V]+ (..., m, G) of the signed violation."""
    return np.asarray(np.maximum(violation, 0.0))


def largest(violation: Floats) -> Floats:
    """max_t [V_t]+ (..., m, G) over the times of the grid so far: less than over all steps, which loops keep."""
    return np.asarray(np.maximum.accumulate(positive(violation), axis=-1))


def lagrangian(regret: Floats, violation: Floats, multipliers: Floats) -> Floats:
    """L (..., G) of regret (..., G), violation (..., m, G) and lambda* (..., m); nan where regret is."""
    return np.asarray(regret + np.einsum("...i,...ig->...g", multipliers, violation))


def policy_violation(episodes: NDArray[np.void], thresholds: Floats, grid: Ints) -> Floats:
    """The policy violation (m, G) of a table of plans; nan if their exact averages were not asked for.

    Also nan at times that the run has not come to.
    """
    curves = np.full((len(thresholds), len(grid)), np.nan)
    if "average_costs" in (episodes.dtype.names or ()):
        start, length = episodes["start"], episodes["length"]
        done = grid <= (start + length).max(initial=0)
        excess = np.maximum(episodes["average_costs"][:, 1:] - thresholds, 0.0)
        for i, rate in enumerate(excess.T):
            curves[i, done] = accumulated(start, length, rate, grid[done])
    return curves


def accumulated(start: Ints, length: Ints, rate: NDArray[Any], grid: Ints) -> Floats:
    """The integral at the times of the grid of a rate that is constant in each episode."""
    ends = np.concatenate([[0], start + length])
    total = np.concatenate([[0.0], np.cumsum(rate * length)])
    return np.interp(grid, ends, total)


class Measured:
    """A run with its curves, and all that is measured on it; fields as those of `psconrl.Run`."""

    if TYPE_CHECKING:
        thresholds: Floats
        optimum: float
        grid: Ints
        cumulative: Floats
        peaks: Floats
        episodes: NDArray[np.void]

        @property
        def multipliers(self) -> Floats:
            """lambda*, (m,): the optimal multipliers of the true model; nan where it is not known."""

    @property
    def levels(self) -> Floats:
        """What each average is held against: the optimum, then the thresholds, (m + 1,)."""
        return np.append(self.optimum, self.thresholds)

    @property
    def signed(self) -> Floats:
        """Signed regret and violations (m + 1, G)."""
        return np.asarray(self.cumulative - np.outer(self.levels, self.grid))

    @property
    def regret(self) -> Floats:
        """Signed regret (G,): sum_t (c_0 - J*). Never look at it without the violation."""
        return np.asarray(self.signed[0])

    @property
    def violation(self) -> Floats:
        """Signed violation (m, G): sum_t (c_i - tau_i)."""
        return np.asarray(self.signed[1:])

    @property
    def positive_violation(self) -> Floats:
        """[V]+, (m, G): the positive part of the signed violation."""
        return positive(self.violation)

    @property
    def largest_violation(self) -> Floats:
        """max_t [V_t]+ over all steps so far, (m, G)."""
        return self.peaks[1:]

    @property
    def lagrangian(self) -> Floats:
        """L = regret + lambda* . violation, (G,): what breaking limits saves is paid for; nan without an optimum."""
        if math.isnan(self.optimum):  # then nothing need be solved for the multipliers
            return np.full(len(self.grid), np.nan)
        return lagrangian(self.regret, self.violation, self.multipliers)

    @property
    def policy_violation(self) -> Floats:
        """sum_k T_k max(0, J_i(pi_k) - tau_i), (m, G): exact averages of what was executed; nan if not asked for."""
        return policy_violation(self.episodes, self.thresholds, self.grid)
