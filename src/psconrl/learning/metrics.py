"""What is measured on a run, beside signed regret and violation V_i(t) = sum_{u <= t} (c_i - tau_i).

[V]+               the positive part of the signed violation: what a limit is exceeded by in all.
max_t [V_t]+       its largest value so far; the violation of a run that ends well may have been large on the way.
L                  regret + lambda* . violation, lambda* the optimal multipliers (those of least norm, where there are
                   several): what breaking limits saves is paid for at their price. Zero along the optimal trade-off.
policy violation   sum_k T_k max(0, J_i(pi_k) - tau_i), J_i the exact average of the plan executed in the true model,
                   from the state in which it starts: what plans promise, without the noise of the run, and nothing
                   that one plan saves pays for another.

Arrays have the checkpoint times as their last axis and costs or limits before it; runs may be stacked in front.

`METRICS` is the one table of what is derived from a run: a property of `Metrics` and a row there, and exported tables
and `psconrl run --json` have it too. What a run records itself is a field of `psconrl.learning.run.RunData`.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psconrl._core.checks import Floats, Ints


class Metric(NamedTuple):
    """A curve of a run.

    Attributes:
        name: what tables and JSON call it.
        attribute: the attribute of a run, or a stored run, that has it.
        per: whether there is one curve for the run (G,), one for each cost (m + 1, G), or one for each limit (m, G).
        symbol: what people call it in a narrow column.
    """

    name: str
    attribute: str
    per: Literal["run", "cost", "limit"]
    symbol: str


METRICS = (
    Metric("cumulative", "cumulative", "cost", "C"),
    Metric("regret_or_violation", "signed", "cost", "R, V"),
    Metric("excess", "cumulative_excess", "cost", "sum [c - l]+"),
    Metric("lagrangian", "lagrangian", "run", "L"),
    Metric("positive_violation", "positive_violation", "limit", "[V]+"),
    Metric("largest_violation", "largest_violation", "limit", "max [V]+"),
    Metric("policy_violation", "policy_violation", "limit", "by policies"),
)
"""All curves of a run, in the order in which tables have them."""


def positive(violation: Floats) -> Floats:
    """[V]+ of the signed violation, of any shape."""
    return np.asarray(np.maximum(violation, 0.0))


def largest(violation: Floats) -> Floats:
    """max_t [V_t]+ (..., G) over the checkpoints so far: less than over all steps, which the loops track."""
    return np.asarray(np.maximum.accumulate(positive(violation), axis=-1))


def lagrangian(regret: Floats, violation: Floats, multipliers: Floats) -> Floats:
    """L (..., G) of regret (..., G), violation (..., m, G) and lambda* (..., m); nan where regret is."""
    return np.asarray(regret + np.einsum("...i,...ig->...g", multipliers, violation))


def policy_violation(episodes: NDArray[np.void], thresholds: Floats, grid: Ints) -> Floats:
    """The policy violation of one run.

    Args:
        episodes: the run's table of plans.
        thresholds: tau, (m,).
        grid: checkpoint times, (G,).

    Returns:
        (m, G); nan without the exact averages of the plans, and at times that the run has not reached.
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


class Metrics:
    """The metrics of what has the fields of `psconrl.learning.run.RunData`, and multipliers."""

    thresholds: Any
    optimum: Any
    grid: Any
    cumulative: Any
    peaks: Any
    episodes: Any
    multipliers: Any

    @property
    def levels(self) -> Floats:
        """What each average is compared with: the optimum, then the thresholds, (m + 1,)."""
        return np.concatenate([np.asarray(self.optimum)[..., np.newaxis], self.thresholds], axis=-1)

    @property
    def signed(self) -> Floats:
        """Signed regret and violations (m + 1, G)."""
        return np.asarray(self.cumulative - self.levels[..., np.newaxis] * self.grid)

    @property
    def regret(self) -> Floats:
        """Signed regret (G,): sum_t (c_0 - J*). Never look at it without the violation."""
        return np.asarray(self.signed[..., 0, :])

    @property
    def violation(self) -> Floats:
        """Signed violation (m, G): sum_t (c_i - tau_i)."""
        return np.asarray(self.signed[..., 1:, :])

    @property
    def positive_violation(self) -> Floats:
        """[V]+, (m, G): the positive part of the signed violation."""
        return positive(self.violation)

    @property
    def largest_violation(self) -> Floats:
        """max_t [V_t]+ over all steps so far, (m, G)."""
        return np.asarray(self.peaks[..., 1:, :])

    @property
    def lagrangian(self) -> Floats:
        """L = regret + lambda* . violation, (G,): what breaking limits saves is paid for; nan without an optimum."""
        if np.ndim(self.optimum) == 0 and math.isnan(self.optimum):  # then nothing is solved for the multipliers
            return np.full(len(self.grid), np.nan)
        return lagrangian(self.regret, self.violation, self.multipliers)

    @property
    def policy_violation(self) -> Floats:
        """sum_k T_k max(0, J_i(pi_k) - tau_i), (m, G): exact averages of what was executed; nan if not asked for."""
        return policy_violation(self.episodes, self.thresholds, self.grid)
