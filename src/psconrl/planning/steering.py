"""Mixtures to be steered, from whatever found them."""

from __future__ import annotations

import math

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl.planning.compiled.pricing import Columns
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.compiled.steering import mixture
from psconrl.planning.components import Column
from psconrl.planning.for_agents import Steer, plan_rows
from psconrl.planning.steered import Steered

_LONG = 4
"""A plan that may last until there were so many times the steps gets its reserves before they are needed."""


def from_columns(
    rows: Rows, costs: Floats, columns: list[tuple[float, Column]], thresholds: Floats, steer: Steer
) -> Steered | None:
    """The mixture of columns with their weights; None without limits."""
    if not len(thresholds):
        return None
    found = Columns(
        np.array([column.J for _, column in columns]),
        np.array([column.law for _, column in columns]),
        np.array([column.policy for _, column in columns]),
        np.array([len(columns)]),
    )
    weights = np.array([weight for weight, _ in columns])
    made = mixture(rows, found, np.arange(len(columns)), weights, np.array(thresholds), steer.time)
    return with_reserves(made, rows, costs, steer)


def with_reserves(made: Steered, rows: Rows, costs: Floats, steer: Steer) -> Steered:
    """With the way of least J_i for each limit that may be exceeded by twice the band, while no column lowers it.

    A column that would need longer than the plan lasts for one band does not lower it. costs (m + 1, K).
    """
    slow, band = -math.sqrt(made.slope / steer.time), math.sqrt(made.slope * steer.t)
    for i in np.flatnonzero(made.drifts.min(axis=0) > slow):
        if steer.excess[i] > band or steer.time > _LONG * steer.t:
            best = plan_rows(rows, costs[i + 1 : i + 2], np.zeros(0), join=0.5)
            assert best.policy is not None
            made = made.with_way(_actions(rows, best.policy.ravel()), int(i))
    return made


def _actions(rows: Rows, policy: Floats) -> Ints:
    """What a policy (K,) does in each state (S,), -1 where it is random."""
    sure = np.flatnonzero(policy == 1.0)
    actions = np.full(rows.S, -1)
    actions[rows.source[sure]] = sure - rows.begin[rows.source[sure]]
    return actions
