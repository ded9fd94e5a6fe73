"""The quantities measured on a run, as curves over the checkpoints. Levels: l_0 = J*, l_i = tau_i.

signed             sum_t (c_i - l_i): regret for i = 0, violation for i >= 1. Gains pay for losses, so regret is
                   never to be read without violation: who violates a limit can have negative regret.
positive parts     sum_t max(c_i - l_i, 0), each step for itself, as the paper defines BR_+. Linear in T for every
                   agent whose costs are 0 or 1, the optimal policy included.
as plotted         what the paper's figures show: a_i(t), the average of c_i over the last w rounds, defined from
                   t = w on; sum_{t >= w} max(a_i(t) - l_i, 0) in each run, then the mean over runs. The sum is taken
                   over the checkpoints, each standing for the d rounds before it, so d must divide w.
pseudo-regret      sum_t [J_0(pi_t) - J* + sum_i lambda_i (J_i(pi_t) - tau_i)] with exact averages of the executed
                   policies and the multipliers lambda of the model: never negative, and without the noise of the run.
[V]+, L, policy violation, max_t [V_t]+: as `psconrl.learning.measures` has them.
prices             of each limit, in the models that were planned with: the mean over the second half of the steps so
                   far, of those in plans that had one. Early plans know little, so they are left behind.
infeasible steps   steps in episodes whose sampled or estimated model admitted no policy.

Curves have the shape (R, ..., G): runs first, checkpoints last.
"""

from __future__ import annotations

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl.analysis.groups import Group
from psconrl.analysis.statistics import Interval, interval_of, weights
from psconrl.errors import InvalidArgumentError
from psconrl.learning import measures


def levels(group: Group) -> Floats:
    """(R, m + 1): J* and the thresholds."""
    return np.concatenate([group.optimum[:, np.newaxis], group.thresholds], axis=1)


def signed(group: Group) -> Floats:
    """(R, m + 1, G): regret in row 0, violations in the others."""
    return np.asarray(group.cumulative - levels(group)[..., np.newaxis] * group.grid)


def regret(group: Group) -> Floats:
    """Signed regret, (R, G)."""
    return signed(group)[:, 0]


def violation(group: Group) -> Floats:
    """Signed violation, (R, m, G)."""
    return signed(group)[:, 1:]


def positive_violation(group: Group) -> Floats:
    """[V]+, (R, m, G)."""
    return measures.positive(violation(group))


def largest_violation(group: Group) -> Floats:
    """max_t [V_t]+ over all steps so far, (R, m, G)."""
    return group.peaks[:, 1:]


def lagrangian(group: Group) -> Floats:
    """L = regret + lambda* . violation, (R, G); nan where the limits cannot be met."""
    return measures.lagrangian(regret(group), violation(group), group.multipliers)


def policy_violation(group: Group) -> Floats:
    """The policy violation, (R, m, G); nan for runs whose policies were not evaluated."""
    return np.stack(
        [
            measures.policy_violation(table, tau, group.grid)
            for table, tau in zip(group.episodes, group.thresholds, strict=True)
        ]
    )


def positive_parts(group: Group) -> Floats:
    """Sums of per-step positive parts, (R, m + 1, G)."""
    return group.cumulative_excess


def moving_average(group: Group, window: int) -> tuple[Ints, Floats]:
    """Times (n,) and averages (R, m + 1, n) of each cost over the last `window` rounds; full windows only."""
    d = group.spacing
    if window % d:
        raise InvalidArgumentError(
            f"the window is {window} rounds; it must be a multiple of the {d} between checkpoints"
        )
    k = window // d
    if k > len(group.grid):
        raise InvalidArgumentError(f"the window of {window} rounds is longer than the run of {group.horizon}")
    totals = np.concatenate([np.zeros_like(group.cumulative[..., :1]), group.cumulative], axis=-1)
    return group.grid[k - 1 :], (totals[..., k:] - totals[..., :-k]) / window


def as_plotted(group: Group, window: int) -> tuple[Ints, Floats]:
    """Times (n,) and what the paper plots (R, m + 1, n) for each cost."""
    times, average = moving_average(group, window)
    excess = np.maximum(average - levels(group)[..., np.newaxis], 0.0)
    return times, group.spacing * np.cumsum(excess, axis=-1)


def pseudo_regret(group: Group) -> Floats:
    """Lagrangian pseudo-regret (R, G); the runs must have been made with evaluate_policies."""
    if not group.evaluated:
        raise InvalidArgumentError(f"{group.label}: the policies were not evaluated; run it with evaluate_policies")
    curves = []
    for table, J, tau, multipliers in zip(
        group.episodes, group.optimum, group.thresholds, group.multipliers, strict=True
    ):
        averages = table["average_costs"]
        rate = averages[:, 0] - J + (averages[:, 1:] - tau) @ multipliers
        curves.append(measures.accumulated(table["start"], table["length"], rate, group.grid))
    return np.stack(curves)


def prices(group: Group) -> Floats:
    """Shadow prices in the plans of the steps from t / 2 to t, (R, m, G); nan where no such plan had any."""
    halves = np.stack([group.grid // 2, group.grid])
    found = np.full((group.runs, group.m, len(group.grid)), np.nan)
    for r, table in enumerate(group.episodes):
        for i, price in enumerate(table["multipliers"].T):
            priced = np.isfinite(price)
            paid, steps = (
                np.diff(measures.accumulated(table["start"], table["length"], rate, halves), axis=0)[0]
                for rate in (np.where(priced, price, 0.0), priced)
            )
            np.divide(paid, steps, out=found[r, i], where=steps > 0)
    return found


def infeasible_steps(group: Group) -> Floats:
    """Steps in infeasible episodes up to each checkpoint, (R, G)."""
    return np.stack([measures.accumulated(t["start"], t["length"], ~t["feasible"], group.grid) for t in group.episodes])


def last_infeasible(group: Group) -> int:
    """The last step of any run that belongs to an infeasible episode; 0 if there is none."""
    ends = [(t["start"] + t["length"])[~t["feasible"]] for t in group.episodes]
    return int(max((end.max() for end in ends if len(end)), default=0))


def infeasible_share(group: Group) -> Floats:
    """The share of infeasible episodes among those begun before each checkpoint, (R, G)."""
    shares = []
    for table in group.episodes:
        begun = np.searchsorted(table["start"], group.grid, side="left")
        infeasible = np.concatenate([[0], np.cumsum(~table["feasible"])])
        shares.append(infeasible[begun] / np.maximum(begun, 1))
    return np.stack(shares)


def episodes_begun(group: Group) -> Floats:
    """K_t: how many episodes have begun before the end of step t, at each checkpoint, (R, G)."""
    return np.stack([np.searchsorted(t["start"], group.grid, side="left") for t in group.episodes]).astype(np.float64)


def late_average(group: Group, share: float = 0.2) -> Floats:
    """Average costs over the last `share` of each run, (R, m + 1)."""
    first = min(int(np.searchsorted(group.grid, (1 - share) * group.horizon)), len(group.grid) - 2)
    steps = group.grid[-1] - group.grid[first]
    return np.asarray((group.cumulative[..., -1] - group.cumulative[..., first]) / steps)


def settling_time(group: Group, window: int, within: float = 0.01) -> Interval:
    """When the mean moving average of c_0 comes within `within` J* of J* and stays there; inf if it does not."""
    times, average = moving_average(group, window)
    relative = average[:, 0] / group.optimum[:, np.newaxis] - 1
    settled = _settled(times, relative.mean(axis=0, keepdims=True), within)[0]
    return interval_of(settled, _settled(times, weights(group.runs) @ relative, within), group.runs)


def _settled(times: Ints, relative: Floats, within: float) -> Floats:
    """The time after the last one at which |relative| > within, for each row."""
    outside = np.abs(relative) > within
    last = np.where(outside.any(axis=1), outside.shape[1] - 1 - np.argmax(outside[:, ::-1], axis=1), -1)
    padded = np.append(times.astype(np.float64), np.inf)
    return padded[last + 1]
