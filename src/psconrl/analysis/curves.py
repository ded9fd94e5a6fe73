"""Curves of stacked runs that need more than the sums over their steps.

What a run measures itself (signed regret and violation, [V]+, L, policy violation) is an attribute of `Group`, as it
is of a run. The functions here add:

moving average     of each cost over the last w steps, from step w on; the spacing of checkpoints must divide w.
pseudo-regret      sum_t [J_0(pi_t) - J* + sum_i lambda_i (J_i(pi_t) - tau_i)] with exact averages of the executed
                   policies and the multipliers lambda of the model: never negative, and without the noise of the run.
prices             of each limit, in the models that were planned with: the mean over the second half of the steps so
                   far, of those in plans that had one. Early plans know little, so they are left behind.
infeasible steps   steps in episodes whose sampled or estimated model admitted no policy.

Curves have the shape (R, ..., G): runs first, checkpoints last.
"""

from __future__ import annotations

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl.analysis.groups import Group
from psconrl.errors import InvalidArgumentError
from psconrl.learning import metrics


def moving_average(group: Group, window: int) -> tuple[Ints, Floats]:
    """The average of each cost over the last steps; full windows only.

    Args:
        group: the runs.
        window: the steps of a window, a multiple of the spacing of the checkpoints.

    Returns:
        Times (n,) and averages (R, m + 1, n).

    Raises:
        InvalidArgumentError: the window does not fit the checkpoints.
    """
    d = group.spacing
    if window % d:
        raise InvalidArgumentError(
            f"the window is {window} steps; it must be a multiple of the {d} between checkpoints"
        )
    k = window // d
    if k > len(group.grid):
        raise InvalidArgumentError(f"the window of {window} steps is longer than the run of {group.horizon}")
    totals = np.concatenate([np.zeros_like(group.cumulative[..., :1]), group.cumulative], axis=-1)
    return group.grid[k - 1 :], (totals[..., k:] - totals[..., :-k]) / window


def pseudo_regret(group: Group) -> Floats:
    """The Lagrangian pseudo-regret.

    Args:
        group: runs that were made with evaluate_policies.

    Returns:
        (R, G).

    Raises:
        InvalidArgumentError: the policies of the runs were not evaluated.
    """
    if not group.evaluated:
        raise InvalidArgumentError(f"{group.label}: the policies were not evaluated; run it with evaluate_policies")
    curves = []
    for table, J, tau, multipliers in zip(
        group.episodes, group.optimum, group.thresholds, group.multipliers, strict=True
    ):
        averages = table["average_costs"]
        rate = averages[:, 0] - J + (averages[:, 1:] - tau) @ multipliers
        curves.append(metrics.accumulated(table["start"], table["length"], rate, group.grid))
    return np.stack(curves)


def prices(group: Group) -> Floats:
    """Shadow prices in the plans of the steps from t / 2 to t, (R, m, G); nan where no such plan had any."""
    halves = np.stack([group.grid // 2, group.grid])
    found = np.full((group.runs, group.m, len(group.grid)), np.nan)
    for r, table in enumerate(group.episodes):
        for i, price in enumerate(table["multipliers"].T):
            priced = np.isfinite(price)
            paid, steps = (
                np.diff(metrics.accumulated(table["start"], table["length"], rate, halves), axis=0)[0]
                for rate in (np.where(priced, price, 0.0), priced)
            )
            np.divide(paid, steps, out=found[r, i], where=steps > 0)
    return found


def infeasible_steps(group: Group) -> Floats:
    """Steps in infeasible episodes up to each checkpoint, (R, G)."""
    return np.stack([metrics.accumulated(t["start"], t["length"], ~t["feasible"], group.grid) for t in group.episodes])


def conflict(group: Group) -> tuple[str, ...]:
    """The limits that could not hold together in the models of infeasible plans; empty if the runs do not say."""
    involved = np.any(
        [
            (table["nearest"] > limits).any(axis=0)
            for table, limits in zip(group.episodes, group.thresholds, strict=True)
            if "nearest" in (table.dtype.names or ())
        ]
        or [np.zeros(group.m, dtype=np.bool_)],
        axis=0,
    )
    return tuple(name for name, involves in zip(group.cost_names[1:], involved, strict=True) if involves)
