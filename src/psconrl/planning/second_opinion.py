"""What is asked where the compiled planner has no proof: components, then the linear program on HiGHS."""

from __future__ import annotations

import numpy as np

from psconrl._checks import Floats
from psconrl.errors import SolverError
from psconrl.planning.compiled.execute import Executed
from psconrl.planning.compiled.generation import FAILED, INFEASIBLE, plain_generate
from psconrl.planning.compiled.master import VALUE, Limits
from psconrl.planning.compiled.pricing import Columns, certified, price_tags
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.compiled.shortest_path import fastest_way
from psconrl.planning.components import Column, Component, Components, end_components
from psconrl.planning.evaluation import evaluate_chain
from psconrl.planning.executable import chain_of, executable
from psconrl.planning.for_agents import BestPolicy
from psconrl.planning.lp.highs import run
from psconrl.planning.lp.occupancy import best_vertex, largest_margin, occupancy_program
from psconrl.planning.solving import carrying
from psconrl.planning.tolerances import CLOSE, PROVEN, SUPPORT
from psconrl.planning.units import Units


def evaluated(
    rows: Rows, costs: Floats, columns: Columns, made: Executed, join: float
) -> tuple[Floats, int, bool, Floats] | None:
    """The policy (K,) of an optimum, several classes joined; classes, whether it is connected, exact averages (m + 1,).

    None if a column does not do what was computed for it.
    """
    own = []
    for name, weight in zip(made.names, made.weights, strict=True):
        policy = columns.policies[name]
        found = evaluate_chain(rows.matrix()[policy], costs[:, policy], np.full(rows.S, 1.0 / rows.S))
        best = max(found.classes, key=lambda states: float(columns.laws[name][states].sum()))
        law = np.zeros(rows.S)
        law[best] = found.stationary[best] / found.stationary[best].sum()
        J = costs[:, policy] @ law
        if np.abs(J - columns.J[name]).max() > PROVEN * max(1.0, float(np.abs(J).max())):
            return None
        own.append((float(weight), Column(policy, J, law)))
    return _execution(rows, costs, own, join)


def _execution(
    rows: Rows, costs: Floats, columns: list[tuple[float, Column]], join: float
) -> tuple[Floats, int, bool, Floats]:
    parts = [Component(rows, states, pairs) for states, pairs in end_components(rows)]
    done = executable(rows, parts, columns, None, join)
    start = np.zeros(rows.S)
    start[int(columns[0][1].law.argmax())] = 1.0
    chosen = _mean_costs(rows, costs, done.policy)
    averages = evaluate_chain(chain_of(rows, done.policy), chosen, start).average_costs @ start
    return done.policy, done.classes, done.connected, averages


def _mean_costs(rows: Rows, costs: Floats, policy: Floats) -> Floats:
    """The costs (m + 1, S) of a policy (K,)."""
    source = rows.source
    return np.stack([np.bincount(source, policy * c, rows.S).astype(np.float64) for c in costs])


def by_components(rows: Rows, costs: Floats, thresholds: Floats, join: float) -> BestPolicy | None:
    """The stateless program component by component; None if that proves nothing either."""
    units = Units.of(costs, thresholds)
    way, m = Components(rows, units.costs, None), len(thresholds)
    optimum = plain_generate(way, Limits(units.near, np.ones(m)), VALUE, np.zeros(m), CLOSE)
    if optimum.status == INFEASIBLE:
        nothing = np.full(m + 1, np.nan)
        return BestPolicy(False, None, np.nan, nothing, nothing[1:], 0, True, np.nan, "components", {})
    if optimum.status == FAILED or not optimum.objective - optimum.bound <= PROVEN:
        return None
    columns = [(w, way.columns[k]) for k, w in carrying(optimum)]
    policy, classes, connected, averages = _execution(rows, units.costs, columns, join)
    scaled = max(float(averages[0]), float(optimum.objective)) - float(optimum.bound)
    shaped = policy.reshape(rows.S, -1) if rows.K % rows.S == 0 else policy
    start = {"policies": np.array([column.policy for _, column in columns])}
    return BestPolicy(
        True,
        shaped,
        float(units.averages(np.append(optimum.objective, np.zeros(m)))[0]),
        units.averages(averages),
        units.multipliers(optimum.multipliers),
        classes,
        connected,
        float(units.unit[0] * max(scaled, 0.0)),
        "components",
        start,
    )


def by_highs(rows: Rows, costs: Floats, thresholds: Floats, join: float) -> BestPolicy:
    """The linear program; the bound is that of its duals, the policy that of its occupancy, evaluated exactly."""
    m = len(thresholds)
    program = occupancy_program(rows, costs, thresholds)
    try:
        vertex = run(program.value)
        doubtful = vertex.status == "infeasible"
    except SolverError:
        doubtful = True
    if doubtful:
        # Never on the word of a solver's tolerance: the margin decides.
        margin, safest = largest_margin(program)
        if margin < 0:
            nothing = np.full(m + 1, np.nan)
            return BestPolicy(False, None, np.nan, nothing, nothing[1:], 0, True, np.nan, "highs", {})
        vertex = best_vertex(program, safest)
    h, multipliers = -vertex.row_duals[: rows.S], (-vertex.row_duals[program.constraint_rows]).clip(0.0)
    c = np.empty(rows.K)
    price_tags(c, costs, 1.0, multipliers)
    bound = max(certified(rows, c, 0.0, sign * h) for sign in (1.0, -1.0)) - float(multipliers @ thresholds)
    x = vertex.x[: rows.K].clip(0.0)
    policy, classes, connected, averages = _of_occupancy(rows, costs, x, join)
    gap = max(float(averages[0]), vertex.objective) - bound
    if not np.isfinite(gap):
        raise SolverError("no bound of the optimum was found; the numbers of the model are too uneven")
    shaped = policy.reshape(rows.S, -1) if rows.K % rows.S == 0 else policy
    return BestPolicy(
        True, shaped, vertex.objective, averages, multipliers, classes, connected, max(gap, 0.0), "highs", {}
    )


def _of_occupancy(rows: Rows, costs: Floats, x: Floats, join: float) -> tuple[Floats, int, bool, Floats]:
    """The policy of an occupancy (K,), as a mixture of the likeliest pairs of its classes is made one."""
    source = rows.source
    mass = np.bincount(source, np.where(x > SUPPORT, x, 0.0), rows.S)
    ratio = np.divide(np.where(x > SUPPORT, x, 0.0), mass[source], out=np.zeros(rows.K), where=mass[source] > 0)
    inside = mass > 0
    way = fastest_way(rows, inside).pairs
    led = np.flatnonzero(~inside & (way >= 0))
    ratio[way[led]] = 1.0
    lost = ~inside & (way < 0)
    ratio[lost[source]] = (1.0 / np.diff(rows.begin)[source])[lost[source]]
    start = np.zeros(rows.S)
    start[int(mass.argmax())] = 1.0
    chosen = _mean_costs(rows, costs, ratio)
    found = evaluate_chain(chain_of(rows, ratio), chosen, start)
    return ratio, len(found.classes), not lost.any(), found.average_costs @ start
