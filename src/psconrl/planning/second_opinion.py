"""What is asked where the compiled planner has no proof: components, then the linear program on HiGHS."""

from __future__ import annotations

import numpy as np

from psconrl._core.checks import Floats
from psconrl.errors import SolverError
from psconrl.planning import ties
from psconrl.planning.chains import stationary_law
from psconrl.planning.compiled.by_components import EXACT, law_from
from psconrl.planning.compiled.by_components import by_components as kernel
from psconrl.planning.compiled.execute import execute
from psconrl.planning.compiled.generation import FAILED, INFEASIBLE, plain_generate
from psconrl.planning.compiled.master import VALUE, Limits
from psconrl.planning.compiled.planned import room
from psconrl.planning.compiled.pricing import Mixture, Start, dual_lower_bound, lagrangian_costs
from psconrl.planning.compiled.rows import Rows, closed_class
from psconrl.planning.components import SMALL, Column, Component, Components, end_components
from psconrl.planning.evaluation import evaluate_chain
from psconrl.planning.executable import chain_of, executable, ratio_policy
from psconrl.planning.for_agents import BestPolicy, Method, Steer
from psconrl.planning.lp.decomposition import deterministic
from psconrl.planning.lp.highs import run
from psconrl.planning.lp.occupancy import best_vertex, largest_margin, occupancy_program
from psconrl.planning.steering import from_columns, steered_between
from psconrl.planning.tolerances import CLOSE, FEASIBLE, PROVEN
from psconrl.planning.weights import best_weights, carrying

_SURE = 1e-6
"""The linear program is not asked about values that are proven to this: its own tolerances are no less."""


def averages_of(rows: Rows, costs: Floats, policy: Floats, start: int) -> Floats:
    """The exact averages (m + 1,) of a policy (K,) from a start state."""
    law = np.empty(rows.S)
    if rows.S <= EXACT and law_from(rows, policy, start, law):
        return (costs * policy) @ law[rows.source]
    law[:] = 0.0
    law[start] = 1.0
    found = evaluate_chain(chain_of(rows, policy), _mean_costs(rows, costs, policy), law)
    return np.asarray(found.average_costs[:, start])


def exact_mixture(
    rows: Rows, costs: Floats, mixture: Mixture, limits: Limits, bound: float, multipliers: Floats
) -> Mixture | None:
    """A mixture with laws by elimination, in which rare states have as many digits as others; None if there is none.

    costs (m + 1, K); bound: of the optimum, with its multipliers (m,).
    """
    laws = np.zeros(mixture.laws.shape)
    for policy, rough, law in zip(mixture.policies, mixture.laws, laws, strict=True):
        chosen = np.bincount(policy, minlength=rows.K).astype(np.float64)
        if rows.S <= EXACT and law_from(rows, chosen, int(rough.argmax()), law):
            continue
        inside = np.zeros(rows.S, dtype=np.bool_)
        closed_class(rows, policy, int(rough.argmax()), inside)
        found = stationary_law(chain_of(rows, chosen)[inside][:, inside])
        if found is None:
            return None
        law[inside] = found
    J = np.stack([costs[:, policy] @ law for policy, law in zip(mixture.policies, laws, strict=True)])
    weights = best_weights(J, limits, bound, multipliers)
    if weights is None:
        return None
    used = [k for k in np.argsort(J[:, -1], kind="stable") if weights[k] > 0]
    return Mixture(J[used], laws[used], mixture.policies[used], weights[used])


def _execution(
    rows: Rows, costs: Floats, columns: list[tuple[float, Column]], join: float, parts: list[Component]
) -> tuple[Floats, int, bool, Floats]:
    done = executable(rows, parts, columns, None, join)
    averages = averages_of(rows, costs, done.policy, int(columns[0][1].law.argmax()))
    return done.policy, done.classes, done.connected, averages


def _mean_costs(rows: Rows, costs: Floats, policy: Floats) -> Floats:
    """The costs (m + 1, S) of a policy (K,)."""
    source = rows.source
    return np.stack([np.bincount(source, policy * c, rows.S).astype(np.float64) for c in costs])


def by_either(
    rows: Rows, costs: Floats, thresholds: Floats, join: float, steer: Steer | None = None, start: Start | None = None
) -> BestPolicy:
    """What components prove; where that is not enough, the linear program, if it proves more; see `by_components`."""
    best, unproved = by_components(rows, costs, thresholds, join, steer, start)
    if best is not None and unproved <= _SURE:
        return best
    try:
        other = by_highs(rows, costs, thresholds, join, steer)
    except SolverError:
        if best is None:
            raise
        return best
    if best is None or other.policy is None:
        return other if best is None else best
    over = [float((one.average_costs[1:] - thresholds).max(initial=0.0)) for one in (best, other)]
    if over[0] <= FEASIBLE < over[1]:
        return best
    # What the other misses limits by, its solver's tolerance, counts at the prices of this one.
    missed = float(best.multipliers @ np.maximum(other.average_costs[1:] - thresholds, 0.0))
    return other if other.gap + missed < best.gap else best


def by_components(
    rows: Rows, costs: Floats, thresholds: Floats, join: float, steer: Steer | None = None, start: Start | None = None
) -> tuple[BestPolicy | None, float]:
    """The stateless program component by component, None if there is no answer; and what of its value is unproved.

    costs (m + 1, K). start: where compiled code begins in models of some hundred states; without one, or where it has
    no proof, all is done here.
    """
    best = None if start is None or rows.S > EXACT else _by_kernel(rows, costs, thresholds, join, steer, start)
    if best is not None:
        return best, 0.0
    m = len(thresholds)
    # Limits that can just be met may need a little room.
    for tau in (thresholds, thresholds + FEASIBLE):
        way = Components(rows, ties.decided(costs), None)
        optimum = plain_generate(Components.ask, way, Limits(tau, np.ones(m)), VALUE, np.zeros(m), CLOSE)
        if optimum.status != FAILED:
            break
    if optimum.status == INFEASIBLE:
        return _infeasible(m, "components"), 0.0
    if optimum.status == FAILED:
        return None, np.inf
    columns = [(w, way.columns[k]) for k, w in carrying(optimum)]
    policy, classes, connected, averages = _execution(rows, costs, columns, join, way.parts)
    value = float(sum(w * (costs[0, column.policy] @ column.law) for w, column in columns))
    bound = float(optimum.bound) - ties.SIZE
    missed = float(optimum.multipliers @ np.maximum(averages[1:] - thresholds, 0.0))
    gap = max(value - bound, float(averages[0]) + missed - bound, 0.0)
    best = BestPolicy(True, policy, value, averages, optimum.multipliers, classes, connected, gap, "components", {})
    if steer is not None:
        best = best._replace(steered=from_columns(rows, costs, columns, thresholds, steer))
    return best, float(abs(optimum.objective - optimum.bound))


def _by_kernel(
    rows: Rows, costs: Floats, thresholds: Floats, join: float, steer: Steer | None, start: Start
) -> BestPolicy | None:
    """The same, compiled; None where it has no proof."""
    m, into = len(thresholds), room(len(costs), rows.S)
    multipliers, mixture, nowhere = into[0], Mixture(*into[2:6]), np.full(rows.S, -1)
    limits, given = (thresholds, np.ones(m)), (*start, nowhere)
    status, objective, bound, _, count = kernel(tuple(rows), costs, ties.levels(rows.K), limits, given, VALUE, into)
    if status == INFEASIBLE:
        return _infeasible(m, "components")
    if status == FAILED or not objective - bound <= PROVEN:
        return None
    mixture = mixture.first(count)
    if ((mixture.weights @ mixture.J)[1:] - thresholds > FEASIBLE).any():
        return None
    policy, value, averages, classes, connected, _, _, reference, _ = execute(rows, costs, mixture, nowhere, join)
    if np.isnan(averages[0]):
        averages = averages_of(rows, costs, policy, int(reference[0]))
    missed = float(multipliers @ np.maximum(averages[1:] - thresholds, 0.0))
    gap = max(value, float(averages[0]) + missed) - bound + ties.SIZE
    steered = None if steer is None or not m else steered_between(rows, costs, mixture, thresholds, steer)
    return BestPolicy(
        True, policy, value, averages, multipliers, classes, connected, max(gap, 0.0), "components", {}, steered
    )


def _infeasible(m: int, method: Method) -> BestPolicy:
    nothing = np.full(m + 1, np.nan)
    return BestPolicy(False, None, np.nan, nothing, nothing[1:], 0, True, np.nan, method, {})


def by_highs(rows: Rows, costs: Floats, thresholds: Floats, join: float, steer: Steer | None = None) -> BestPolicy:
    """The linear program; the bound is that of its duals, the policy that of its occupancy, evaluated exactly."""
    m, few = len(thresholds), rows.S <= SMALL
    program = occupancy_program(rows, ties.magnified(costs) if few else costs, thresholds)
    try:
        vertex = run(program.value)
        doubtful = vertex.status == "infeasible"
    except SolverError:
        doubtful = True
    if doubtful:
        # Never on the word of a solver's tolerance: the margin decides.
        margin, safest = largest_margin(program)
        if margin < 0:
            return _infeasible(m, "highs")
        vertex = best_vertex(program, safest)
    duals = vertex.row_duals / (-ties.MAGNIFIED if few else -1.0)
    h, multipliers = duals[: rows.S], duals[program.constraint_rows].clip(0.0)
    c = np.empty(rows.K)
    lagrangian_costs(c, costs, 1.0, multipliers)
    bound = max(dual_lower_bound(rows, c, 0.0, sign * h) for sign in (1.0, -1.0)) - float(multipliers @ thresholds)
    x = vertex.x[: rows.K].clip(0.0)
    value = float(costs[0] @ x)
    steered = None
    try:
        columns = [(w, Column(policy, costs[:, policy] @ law, law)) for w, policy, law in deterministic(rows, x)]
        parts = [Component(rows, states, pairs) for states, pairs in end_components(rows)]
        policy, classes, connected, averages = _execution(rows, costs, columns, join, parts)
        if steer is not None:
            steered = from_columns(rows, costs, columns, thresholds, steer)
    except SolverError:  # not every vertex falls into policies, where it is rounding here and there
        policy, classes, connected, averages = _ratio(rows, costs, x)
    # What the policy misses the limits by counts at their prices.
    missed = float(multipliers @ np.maximum(averages[1:] - thresholds, 0.0))
    gap = max(float(averages[0]), value) + missed - bound
    gap = max(gap, float((averages[1:] - thresholds).max(initial=0.0)))
    if not np.isfinite(gap):
        raise SolverError(
            "no bound of the optimum was found: the numbers of the model are too uneven; rescale the costs"
        )
    return BestPolicy(
        True, policy, value, averages, multipliers, classes, connected, max(gap, 0.0), "highs", {}, steered
    )


def margin_by_highs(rows: Rows, costs: Floats, thresholds: Floats) -> float:
    """The margin of a model by the linear program."""
    return float(largest_margin(occupancy_program(rows, costs, thresholds))[0])


def _ratio(rows: Rows, costs: Floats, x: Floats) -> tuple[Floats, int, bool, Floats]:
    """The policy x(s, a) / x(s) of an occupancy (K,); its classes stay apart."""
    policy, connected = ratio_policy(rows, x)
    start = np.zeros(rows.S)
    start[int(np.bincount(rows.source, x, rows.S).argmax())] = 1.0
    found = evaluate_chain(chain_of(rows, policy), _mean_costs(rows, costs, policy), start)
    return policy, len(found.classes), connected, np.asarray(found.average_costs @ start)
