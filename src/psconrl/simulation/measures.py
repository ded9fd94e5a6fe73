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

from typing import Any

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
