"""Mixtures to be steered, from whatever found them."""

from __future__ import annotations

import math

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl.planning.compiled.pricing import Columns
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.compiled.steering import mixture
from psconrl.planning.components import Column
from psconrl.planning.evaluation import evaluate_chain
from psconrl.planning.for_agents import Steer, plan_rows
from psconrl.planning.solution import Solution
from psconrl.planning.steered import Steered

_LONG = 4
"""A plan is long that may last until there were so many times the steps."""
_NOTHING = 1e-7
"""A column lowers a limit by more than this per step, or rounding does."""


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
    """With the way of least J_i for each limit that is exceeded by more than the band, while no column lowers it.

    A plan that may last long gets it beforehand, if no column lowers the limit by a band in that time.
    costs (m + 1, K).
    """
    long = steer.time > _LONG * steer.t
    enough = math.sqrt(made.slope / steer.time) if long else _NOTHING
    for i, drifts in enumerate(zip(*made.drifts.tolist(), strict=True)):
        if min(drifts) > -enough and (long or steer.excess[i] > math.sqrt(made.slope * steer.t)):
            best = plan_rows(rows, costs[i + 1 : i + 2], np.zeros(0), join=0.5)
            assert best.policy is not None
            made = made.with_way(_actions(rows, best.policy.ravel()), i)
    return made


def from_solution(solution: Solution, steer: Steer, unit: Floats) -> Steered | None:
    """The mixture of a solution, its costs (m + 1) divided by units; None without limits."""
    model = solution.model
    assert model is not None
    rows = Rows.from_sparse(model.matrix)
    costs = np.ascontiguousarray(model.costs.reshape(model.m + 1, -1) / unit[:, np.newaxis])
    columns = []
    for member in solution.mixture:
        pairs = rows.begin[:-1] + member.policy
        exact = evaluate_chain(rows.matrix()[pairs], costs[:, pairs], model.initial)
        columns.append((member.weight, Column(pairs, exact.average_costs @ model.initial, exact.stationary)))
    return from_columns(rows, costs, columns, model.thresholds / unit[1:], steer)


def _actions(rows: Rows, policy: Floats) -> Ints:
    """What a policy (K,) does in each state (S,), -1 where it is random."""
    sure = np.flatnonzero(policy == 1.0)
    actions = np.full(rows.S, -1)
    actions[rows.source[sure]] = sure - rows.begin[rows.source[sure]]
    return actions
