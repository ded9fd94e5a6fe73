"""Stored runs with known answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psconrl._core.checks import Floats, Ints
from psconrl.analysis.groups import Group, group
from psconrl.experiments.record import RunRecord
from psconrl.experiments.spec import Cell
from psconrl.learning.run import episode_columns


def episodes(
    starts: Sequence[int],
    horizon: int,
    feasible: Sequence[bool] | None = None,
    averages: ArrayLike | None = None,
    m: int = 1,
) -> NDArray[np.void]:
    """Plans that begin at some steps, under m limits, or as many as the averages say."""
    m = m if averages is None else np.asarray(averages).shape[1] - 1
    table = np.zeros(len(starts), episode_columns(m, averages is not None))
    table["start"] = starts
    table["length"] = np.diff([*starts, horizon])
    table["feasible"] = True if feasible is None else feasible
    if averages is not None:
        table["average_costs"] = averages
    return table


def record(
    costs: Floats,
    *,
    spacing: int = 1,
    seed: int = 0,
    optimum: float = 0.5,
    thresholds: Sequence[float] = (0.2,),
    table: NDArray[np.void] | None = None,
    cell: Cell | None = None,
    **changes: Any,
) -> RunRecord:
    """A run with the given costs (m + 1, T), one for each step."""
    T = costs.shape[1]
    cell = cell or Cell("marsrover-4x4", "PSConRL", T)
    grid = np.arange(spacing, T + 1, spacing)
    level = np.array([optimum, *thresholds])[:, np.newaxis]
    values: dict[str, Any] = {
        "env": cell.env,
        "env_options": dict(cell.env_options),
        "agent": cell.agent,
        "settings": dict(cell.settings),
        "costs": cell.costs,
        "horizon": T,
        "seed": seed,
        "cell": cell.id,
        "identity": cell.identity(seed),
        "code": "code",
        "states": 16,
        "actions": 4,
        "cost_names": tuple(f"c{i}" for i in range(len(costs))),
        "thresholds": np.array(thresholds, dtype=np.float64),
        "optimum": optimum,
        "cost_ranges": np.tile([0.0, 1.0], (len(thresholds) + 1, 1)),
        "margin": 0.1,
        "multipliers": np.full(len(thresholds), 0.5),
        "grid": grid,
        "cumulative": np.cumsum(costs, axis=1)[:, grid - 1],
        "cumulative_excess": np.cumsum(np.maximum(costs - level, 0), axis=1)[:, grid - 1],
        "peaks": np.maximum.accumulate(np.cumsum(costs - level, axis=1).clip(0), axis=1)[:, grid - 1],
        "episodes": episodes([0], T, m=len(thresholds)) if table is None else table,
        "snapshots": (),
    }
    return RunRecord(**values | changes)


def one_group(records: Sequence[RunRecord]) -> Group:
    (found,) = group(records).values()
    return found


def checkpoints(cell: Cell) -> Ints:
    """The times at which a run of the cell is recorded."""
    return cell.horizon // cell.checkpoints * np.arange(1, cell.checkpoints + 1)


def curve_record(
    cell: Cell, seed: int, cumulative: Floats, cumulative_excess: Floats | None = None, **changes: Any
) -> RunRecord:
    """A run of a cell given by its curves at the checkpoints."""
    values: dict[str, Any] = {
        "horizon": cell.horizon,
        "grid": checkpoints(cell),
        "cumulative": cumulative,
        "cumulative_excess": np.zeros_like(cumulative) if cumulative_excess is None else cumulative_excess,
        "peaks": np.zeros_like(cumulative),
        "episodes": episodes([0], cell.horizon),
    }
    return record(np.zeros((2, 1)), seed=seed, cell=cell, **values | changes)


def cell_records(
    cell: Cell,
    runs: int,
    c0: float,
    c1: float,
    *,
    spread: float = 0.0,
    optimum: float,
    thresholds: Sequence[float],
    table: NDArray[np.void] | None = None,
) -> list[RunRecord]:
    """Runs of a cell with constant average costs, a little different in each run."""
    found = []
    grid, level = checkpoints(cell), np.array([optimum, *thresholds])
    changes: dict[str, Any] = {"optimum": optimum, "thresholds": thresholds}
    if table is not None:
        changes["episodes"] = table
    for seed in range(runs):
        rate = np.array([c0, c1]) + spread * (seed - (runs - 1) / 2)
        excess = np.outer(np.maximum(rate - level, 0), grid)
        found.append(curve_record(cell, seed, np.outer(rate, grid), excess, **changes))
    return found
