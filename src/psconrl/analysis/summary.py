"""The result of an experiment in a few numbers: means over runs at the horizon, with 95% bootstrap intervals."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from psconrl._core import display
from psconrl._core.checks import Floats
from psconrl._core.numbers import format_mean_ci
from psconrl.analysis.groups import Groups
from psconrl.analysis.statistics import mean_interval
from psconrl.experiments.record import RunRecord
from psconrl.experiments.spec import Cell, Experiment
from psconrl.experiments.store import Store
from psconrl.learning.metrics import METRICS, Metric


def summarize(experiment: Experiment, store: Store) -> dict[str, Any]:
    """Summarize the stored runs of an experiment: what `psconrl run --json` prints.

    Args:
        experiment: what was run.
        store: the folder of its runs.

    Returns:
        {"cells": [...]}: for each cell signed regret and violation, episodes, further measures, and the seconds of all
        its runs together, as JSON values; a number that does not exist (the regret where the limits cannot be met) is
        None.
    """
    timings = store.timings()
    cells = []
    for cell, n in zip(experiment.cells, experiment.seeds, strict=True):
        identities = {cell.identity(seed) for seed in range(n)}
        records = list(store.records(identities))
        seconds = sum(timings.get(identity, 0.0) for identity in identities)
        cells.append(_row(cell, records, seconds))
    return {"cells": cells}


class World(NamedTuple):
    """What people want to know of a cell's model.

    limits: each in words, without the number if runs differ in it. without_optimum: why there is no optimum, or "".
    """

    limits: list[str]
    without_optimum: str = ""


def worlds(experiment: Experiment, store: Store) -> list[World]:
    """The model of each cell in words, as far as there are runs of it."""
    return [_told(cell, next(iter(store.records({cell.identity(0)})), None)) for cell in experiment.cells]


def _told(cell: Cell, record: RunRecord | None) -> World:
    if record is None:
        return World([], "no optimum, because no run is there")
    names = list(record.cost_names[1:])
    if cell.seed_option is not None:
        return World(names)
    limits = [f"{name} <= {tau:g}" for name, tau in zip(names, record.thresholds, strict=True)]
    if not math.isnan(record.optimum):
        return World(limits)
    options = "".join(f" --set {key}={value}" for key, value in sorted(cell.env_options.items()))
    least = f", every policy exceeds it by at least {-record.margin:.4g}" if len(limits) == 1 else ""
    which = "limit" if len(limits) == 1 else "limits"
    return World(limits, f"no optimum: the {which} cannot be met{least} (psconrl solve {cell.env}{options} says why)")


def _row(cell: Cell, records: list[RunRecord], seconds: float) -> dict[str, Any]:
    m = len(records[0].thresholds) if records else 0
    ends = np.array([record.signed[:, -1] for record in records]).reshape(-1, m + 1)
    episodes = [len(record.episodes) for record in records]
    infeasible = [int((~record.episodes["feasible"]).sum()) for record in records]
    optima = {record.optimum for record in records if not math.isnan(record.optimum)}
    return {
        "env": cell.env_name,
        "agent": cell.agent,
        "horizon": cell.horizon,
        "seeds": len(records),
        # With a model for each seed there is an optimum for each, and the mean stands for them.
        "optimum": _number(float(np.mean(sorted(optima)))) if optima else None,
        "regret": interval(ends[:, 0]),
        "violation": [interval(column) for column in ends[:, 1:].T],
        "episodes": {"mean": _mean(episodes)},
        "infeasible_episodes": {"mean": _mean(infeasible)},
        **{metric.name: _metric(metric, records, m) for metric in METRICS if metric.per != "cost"},
        "seconds": round(seconds, 6),
    }


def _metric(metric: Metric, records: list[RunRecord], m: int) -> Any:
    """The interval of a metric at the horizon, or a list with one for each limit."""
    ends = np.array([getattr(record, metric.attribute)[..., -1] for record in records])
    if metric.per == "run":
        return interval(ends)
    return [interval(column) for column in ends.reshape(len(records), m).T]


def latex(groups: Groups) -> str:
    """The results as a table for LaTeX: regret and violations at the horizon, means and halves of 95% intervals.

    Args:
        groups: what `group` makes of stored runs.

    Returns:
        A tabular, a row for each agent and limit; it needs no packages.
    """
    rows = []
    for runs in groups.values():
        who = (runs.env, runs.agent, f"{runs.horizon:,}", str(runs.runs), format_mean_ci(interval(runs.regret[:, -1])))
        violations = [format_mean_ci(interval(runs.violation[:, i, -1])) for i in range(runs.m)]
        limits = zip(runs.cost_names[1:], violations, strict=True)
        rows += [(*who, *limit) for limit in limits] or [(*who, "", "")]
    return display.latex_table(("environment", "agent", "steps", "runs", "regret", "limit on", "violation"), rows)


def interval(values: Floats) -> dict[str, float | None]:
    """Mean and 95% interval; of one run, all three are its value."""
    if len(values) == 0 or np.isnan(values).any():
        return {"mean": None, "low": None, "high": None}
    found = mean_interval(values)
    return found.as_json() if len(values) > 1 else dict.fromkeys(("mean", "low", "high"), found.mean)


def _mean(values: list[int]) -> float | None:
    return float(np.mean(values)) if values else None


def _number(value: float) -> float | None:
    return None if math.isnan(value) else float(value)
