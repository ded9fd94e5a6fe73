"""What is measured of the runs of a cell: curves that the paper's figures show, and numbers at the horizon for tables.

as plotted         what the paper's figures show: a_i(t), the average of c_i over the last w rounds, defined from
                   t = w on; sum_{t >= w} max(a_i(t) - l_i, 0) in each run, then the mean over runs. The sum is taken
                   over the checkpoints, each standing for the d rounds before it, so d must divide w.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from psconrl.analysis import Group, Interval, curves, interval_of, mean_interval, number, weights
from reproduction import Document, Floats, Ints


def as_plotted(group: Group, window: int, level: float | None = None) -> tuple[Ints, Floats]:
    """The last rounds of the windows (n,) and what the paper plots (R, m + 1, n) for each cost.

    level: what c_0 is held against, if it is not the optimum.
    """
    times, average = curves.moving_average(group, window)
    against = group.levels
    if level is not None:
        against = np.concatenate([np.full_like(against[:, :1], level), against[:, 1:]], axis=1)
    excess = np.maximum(average - against[..., np.newaxis], 0.0)
    return times, group.spacing * np.cumsum(excess, axis=-1)


def last_infeasible(group: Group) -> int:
    """The last step of any run that belongs to an infeasible episode; 0 if there is none."""
    ends = [(t["start"] + t["length"])[~t["feasible"]] for t in group.episodes]
    return int(max((end.max() for end in ends if len(end)), default=0))


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
    times, average = curves.moving_average(group, window)
    relative = average[:, 0] / group.optimum[:, np.newaxis] - 1
    settled = _settled(times, relative.mean(axis=0, keepdims=True), within)[0]
    return interval_of(settled, _settled(times, weights(group.runs) @ relative, within), group.runs)


def _settled(times: Ints, relative: Floats, within: float) -> Floats:
    """The time after the last one at which |relative| > within, for each row."""
    outside = np.abs(relative) > within
    last = np.where(outside.any(axis=1), outside.shape[1] - 1 - np.argmax(outside[:, ::-1], axis=1), -1)
    padded = np.append(times.astype(np.float64), np.inf)
    return padded[last + 1]


def summary(values: Floats) -> Document:
    """Mean, 95% interval and standard deviation over runs; JSON values."""
    interval = mean_interval(values).as_json()
    deviation = float(values.std(ddof=1)) if len(values) > 1 else 0.0
    return {name: rounded(x) for name, x in {**interval, "sd": deviation}.items()} | {"runs": len(values)}


def rounded(x: float | None) -> float | None:
    """Six significant digits: enough for every table, and the same on every machine that has the same runs."""
    return None if x is None or not np.isfinite(x) else float(f"{x:.6g}")


def final_values(group: Group, window: int | None = None, level: float | None = None) -> Document:
    """Signed regret and violation, [V]+ and L of a cell with one limit; with a window also what the paper plots.

    level: what the figure holds regret against, if it is not the optimum.
    """
    signed = group.signed[..., -1]
    values: Document = {
        "runs": group.runs,
        "horizon": group.horizon,
        "states": group.S,
        "regret": summary(signed[:, 0]),
        "violation": summary(signed[:, 1]),
        "positive_violation": summary(np.maximum(signed[:, 1], 0.0)),
        "lagrangian": summary(group.lagrangian[:, -1]),
    }
    if window is not None and window <= group.horizon:
        plotted = as_plotted(group, window, level)[1][..., -1]
        average = curves.moving_average(group, window)[1][..., -1]
        values |= {
            "plotted_regret": summary(plotted[:, 0]),
            "plotted_violation": summary(plotted[:, 1]),
            "c_0": summary(average[:, 0]),
            "c_1": summary(average[:, 1]),
        }
    return values


def code_of(groups: list[Group]) -> str:
    """The code that made the runs; several are a mixture, and all are named."""
    return ", ".join(sorted({code for group in groups for code in group.codes})) or "-"


def precise(quantity: Document | None) -> str:
    """A mean of an average cost, with four digits."""
    return "-" if quantity is None or quantity["mean"] is None else number(round(quantity["mean"], 4))


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    return "".join(f"| {' | '.join(map(str, line))} |\n" for line in (head, ["---"] * len(head), *rows))
