"""What is asked where the compiled planner has no proof: planning component by component, and exact averages."""

from __future__ import annotations

import numpy as np

from psconrl._core.checks import Floats
from psconrl._core.njit import solved_at_once
from psconrl.errors import SolverError
from psconrl.planning import ties
from psconrl.planning.averages import long_run
from psconrl.planning.chains import stationary_distribution
from psconrl.planning.compiled.elimination import eliminate
from psconrl.planning.compiled.generation import FAILED, INFEASIBLE, Optimum, plain_generate
from psconrl.planning.compiled.master import MARGIN, VALUE, Limits
from psconrl.planning.compiled.pricing import Mixture
from psconrl.planning.compiled.rows import Rows, reach
from psconrl.planning.components import Column, Component, ComponentPricing, end_components
from psconrl.planning.executable import Execution, executable
from psconrl.planning.for_agents import BestPolicy, Method, Steer
from psconrl.planning.steering import from_columns
from psconrl.planning.tolerances import CLOSE, FEASIBLE, PROVEN, TIE_BREAK
from psconrl.planning.weights import best_weights, carrying


def by_components(rows: Rows, costs: Floats, thresholds: Floats, join: float, steer: Steer | None = None) -> BestPolicy:
    """The stateless program with costs (m + 1, K), component by component."""
    pricing, optimum = _generated(rows, ties.decided(costs), thresholds, VALUE)
    if optimum.status == INFEASIBLE:
        nothing = np.full(len(costs), np.nan)
        return BestPolicy(False, None, np.nan, nothing, nothing[1:], 0, True, np.nan, "components", {})
    columns = [(w, pricing.columns[k]) for k, w in carrying(optimum)]
    made = executable(rows, pricing.components, columns, None, join)
    bound = float(optimum.bound) - TIE_BREAK
    return _answer(rows, costs, columns, made, bound, optimum.multipliers, thresholds, steer, "components")


def exactly(
    rows: Rows,
    costs: Floats,
    mixture: Mixture,
    thresholds: Floats,
    bound: float,
    multipliers: Floats,
    join: float,
    steer: Steer | None,
) -> BestPolicy | None:
    """A mixture with distributions by elimination, accurate in rare states too, and its classes joined; None if that
    is not proved to be the best.

    costs (m + 1, K); bound: of the optimum, with its multipliers (m,).
    """

    def answer() -> BestPolicy | None:
        distributions, matrix = np.zeros(mixture.distributions.shape), rows.matrix()
        for policy, rough, mu in zip(mixture.policies, mixture.distributions, distributions, strict=True):
            inside = np.zeros(rows.S, dtype=np.bool_)
            reach(rows, policy, int(rough.argmax()), 0.0, inside)
            found = stationary_distribution(matrix[policy[inside]][:, inside])
            if found is None:
                return None
            mu[inside] = found
        J = np.stack([costs[:, policy] @ mu for policy, mu in zip(mixture.policies, distributions, strict=True)])
        weights = best_weights(J, Limits(thresholds, np.ones(len(thresholds))), bound, multipliers)
        if weights is None or weights @ J[:, 0] - bound > PROVEN or (weights @ J[:, 1:] - thresholds > FEASIBLE).any():
            return None
        columns = [
            (float(weights[k]), Column(mixture.policies[k], J[k], distributions[k])) for k in np.flatnonzero(weights)
        ]
        components = [Component(rows, *component) for component in end_components(rows)]
        made = executable(rows, components, columns, None, join)
        return _answer(rows, costs, columns, made, bound, multipliers, thresholds, steer, "compiled")

    return solved_at_once(rows.S * rows.K, eliminate, answer)


def _answer(
    rows: Rows,
    costs: Floats,
    columns: list[tuple[float, Column]],
    made: Execution,
    bound: float,
    multipliers: Floats,
    thresholds: Floats,
    steer: Steer | None,
    method: Method,
) -> BestPolicy:
    """The answer of a mixture that was made into a policy."""
    averages = long_run(rows, costs, made.policy, int(columns[0][1].mu.argmax()))
    value = float(sum(weight * (costs[0, column.policy] @ column.mu) for weight, column in columns))
    # What the policy misses the limits by counts at their prices.
    missed = float(multipliers @ np.maximum(averages[1:] - thresholds, 0.0))
    gap = max(value - bound, float(averages[0]) + missed - bound, 0.0)
    steered = None if steer is None else from_columns(rows, costs, columns, thresholds, steer)
    return BestPolicy(
        True, made.policy, value, averages, multipliers, made.classes, made.connected, gap, method, {}, steered
    )


def margin_by_components(rows: Rows, costs: Floats, thresholds: Floats) -> float:
    """The largest gamma with J_i <= tau_i - gamma for all i."""
    return -float(_generated(rows, costs, thresholds, MARGIN)[1].objective)


def _generated(rows: Rows, costs: Floats, thresholds: Floats, goal: int) -> tuple[ComponentPricing, Optimum]:
    m = len(thresholds)
    # Limits that can just be met may need a little room.
    for tau in (thresholds, thresholds + FEASIBLE):
        pricing = ComponentPricing(rows, costs, None)
        optimum = plain_generate(ComponentPricing.price, pricing, Limits(tau, np.ones(m)), goal, np.zeros(m), CLOSE)
        if optimum.status != FAILED:
            return pricing, optimum
    raise SolverError("the best mixture of policies was not found: numbers of the model are too uneven")
