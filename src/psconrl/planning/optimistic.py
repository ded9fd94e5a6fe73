"""The best policy over all models in an element-wise confidence set, exactly.

Columns are policies in models of the set (`compiled.optimistic`), mixed by the frame of column generation; each answer
carries a proven gap. Where that exceeds REPORTED, the linear program (`lp.optimistic`) is asked; agents plan without it
where all that is not known is whole pairs (`point_sets`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Generic, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from psconrl._core import checks
from psconrl._core.checks import Floats, Ints
from psconrl._core.pairs import Pairs
from psconrl.cmdp import CMDP
from psconrl.errors import SolverError
from psconrl.planning import margins, ties
from psconrl.planning.compiled.confidence_sets import Set, around, between, members
from psconrl.planning.compiled.execute import execute
from psconrl.planning.compiled.generation import FAILED, INFEASIBLE, OPTIMAL
from psconrl.planning.compiled.master import MARGIN, VALUE, Limits
from psconrl.planning.compiled.optimistic import Believed, believed, optimise, plan_within
from psconrl.planning.compiled.pricing import Columns, Mixture
from psconrl.planning.compiled.rows import Rows, compress
from psconrl.planning.components import Column, Component, end_components
from psconrl.planning.evaluation import bias_spans, evaluate
from psconrl.planning.executable import executable, merge_overlapping, policy_of_occupancy
from psconrl.planning.for_agents import Steer
from psconrl.planning.intervals import Intervals, in_rows, in_slots
from psconrl.planning.lp.decomposition import deterministic
from psconrl.planning.lp.highs import Vertex
from psconrl.planning.lp.occupancy import OccupancyProgram, best_vertex, conflict, largest_margin
from psconrl.planning.lp.optimistic import optimistic_program
from psconrl.planning.mixtures import executed, members_of, switching_times
from psconrl.planning.model_rows import rows_of, some_rows
from psconrl.planning.point_sets import best_of_points
from psconrl.planning.shortest_paths import expected_visits
from psconrl.planning.solution import Solution
from psconrl.planning.steered import Steered
from psconrl.planning.steering import from_solution, steered_between
from psconrl.planning.tolerances import EPS, JOIN, PROVEN, REPORTED, SUPPORT, TIE_BREAK, TINY
from psconrl.planning.units import Units

Method = Literal["compiled", "highs"]
Found = TypeVar("Found", Believed, Vertex)


def solve_optimistic(
    p_hat: ArrayLike,
    radius: ArrayLike,
    costs: ArrayLike,
    thresholds: ArrayLike = (),
    *,
    initial: int | ArrayLike = 0,
    join: float = JOIN,
    method: Method = "compiled",
    available: ArrayLike | None = None,
) -> Solution:
    """The best policy, and the model it believes in, over all transitions within `radius` of p_hat.

    Args:
        p_hat: (S, A, S), the centre of the set; rows need not be distributions (zeros for pairs never seen).
        radius: (S, A) or (S, A, S), how far each entry may be from it.
        costs: (m + 1, S, A).
        thresholds: (m,).
        initial: start state or distribution, for `average_costs`.
        join: share of time for the moves that join several recurrent classes.
        method: "compiled", or "highs" for the linear program itself, which is slower and agrees.
        available: a mask (S, A) of the actions that can be taken; all if left out. The other arguments are ignored for
            the others.

    Returns:
        A Solution whose numbers hold in `.transitions` (S, A, S), the model believed in, except a positive margin,
        which is the largest over all models of the set. Where that model falls apart between classes that the optimum
        mixes, no stationary policy attains it: `attained` is False, and the mixture is the answer.

    Raises:
        InvalidModelError: (a ValueError) naming the first pair (s, a) whose set is empty.
    """
    checks.one_of(method, "method", ("compiled", "highs"))
    join = checks.open_unit_interval(join, "join")
    intervals = Intervals.around(p_hat, radius, available)
    # Checks costs, thresholds and initial; the transitions are replaced by those believed in.
    frame = CMDP(intervals.nearest(), costs, thresholds, initial=initial, available=available)
    units = Units.of(np.ascontiguousarray(frame.pairs.taken(frame.costs)), frame.thresholds)
    return _solution(frame, units, _optimum(intervals, frame, units, join, method), join)


class _Optimum(NamedTuple):
    """An optimum in scaled units: value and bound, columns (weight, pairs, mu), model p (K, S).

    feasible: whether the limits can be met. margin: in units of the model, inf without limits. conflict: numbers of
    limits that cannot hold together. flow (K,): the occupancy of the model believed in, round trips between columns
    included; None if it is that of the columns.
    """

    feasible: bool
    margin: float
    value: float
    bound: float
    multipliers: Floats
    columns: list[tuple[float, Ints, Floats]]
    p: Floats
    conflict: tuple[int, ...]
    flow: Floats | None = None


def _solution(frame: CMDP, units: Units, found: _Optimum, join: float) -> Solution:
    """The policy in the model believed in, executed and evaluated there."""
    m, pairs = frame.m, frame.pairs
    model = frame.replace(transitions=pairs.table(found.p.T).transpose(1, 2, 0))
    rows, feasible = rows_of(model), found.feasible
    columns = [(w, Column(policy, units.costs[:, policy] @ mu, mu)) for w, policy, mu in found.columns]
    components = [Component(rows, *component) for component in end_components(rows)]
    made = executable(rows, components, columns, None, join / 4)
    if found.flow is not None:
        policy, connected = policy_of_occupancy(rows, np.where(found.flow > SUPPORT, found.flow, 0.0))
        made = made._replace(policy=policy, occupancy=found.flow, connected=connected)
    members = [executed(rows, units.costs, column, frame.initial) for _, column in columns]
    evaluation = evaluate(model, pairs.table(made.policy))
    averages = evaluation.average_costs
    target = np.asarray(sum(w * column.J for w, column in columns))
    wanted = found.value if feasible else target[0]
    limits = units.averages(np.maximum(np.append(wanted, target[1:]), np.append(wanted, units.tau)))
    support = pairs.table(made.occupancy).sum(axis=1) > 0
    worst = np.maximum(averages[:, support].max(axis=1), averages @ frame.initial)
    excess = (worst - limits) / units.unit
    attained = bool((excess <= REPORTED).all())
    reached = float(units.averages(target)[0])
    if attained:
        reached = max(reached, float((averages @ frame.initial)[0]))
    return Solution(
        status="optimal" if feasible else "infeasible",
        value=float(units.averages(np.append(found.value, np.zeros(m)))[0]),
        policy=pairs.table(made.policy),
        average_costs=averages @ frame.initial,
        occupancy=pairs.table(made.occupancy),
        multipliers=units.multipliers(found.multipliers) if feasible else np.full(m, np.nan),
        margin=max(found.margin, 0.0) if feasible else min(found.margin, -TINY),
        conflict=found.conflict,
        program="stateless",
        classes=made.classes,
        bias_spans=bias_spans(evaluation, frame.initial),
        long_run_costs=averages @ frame.initial,
        connected=made.connected,
        gap=float(max(reached - units.averages(np.append(found.bound, np.zeros(m)))[0], 0.0)) if feasible else np.nan,
        attained=attained,
        mixture=members_of([w for w, _ in columns], members, pairs, units),
        switching_times=switching_times(members),
        transitions=model.to_dense().transitions,
        model=model,
    )


class _Safest(NamedTuple, Generic[Found]):
    """What violates limits least: averages J (m + 1,) in scaled units, the prices (m,) that prove it, what it is."""

    J: Floats
    multipliers: Floats
    found: Found


def _optimum(intervals: Intervals, frame: CMDP, units: Units, join: float, method: Method) -> _Optimum:
    """The optimum by generating columns, or by the linear program where that has no proof; else with what it has."""
    if method == "highs":
        return _by_program(intervals, frame, units)
    try:
        # In sets that nearly fall apart biases leave no better bound. The linear program, whose tolerance is hardly
        # less, gives flows that are wrong by as much there. Units are less than twice the range.
        return _by_columns(intervals, frame, units, join / 4, REPORTED / 2)
    except SolverError:
        pass
    try:
        return _by_program(intervals, frame, units)
    except SolverError:
        return _by_columns(intervals, frame, units, join / 4, np.inf)


def _by_columns(intervals: Intervals, frame: CMDP, units: Units, join: float, close: float) -> _Optimum:
    """The optimum by generating columns; SolverError if it is further than `close` from its bound."""
    S, m, pairs = frame.S, frame.m, frame.pairs
    within = between(*(in_slots(array, pairs) for array in (intervals.lower, intervals.upper)))
    scaled = pairs.in_slots(units.costs).reshape(m + 1, S, -1)
    every, nothing = np.arange(m), np.zeros((0, 2, 1, S), dtype=np.int64)

    def best(goal: int, which: Ints, limits: Limits, close: float) -> Believed:
        costs = np.ascontiguousarray(units.costs[np.append(0, which + 1)])
        slotted = pairs.in_slots(ties.decided(costs) if goal == VALUE else costs).reshape(len(costs), S, -1)
        found = optimise(within, slotted, limits, nothing, goal)
        gap = found.optimum.objective - found.optimum.bound
        if found.optimum.status == FAILED or (found.optimum.status == OPTIMAL and gap > close):
            raise SolverError("no policy and model of the set were proved to be the best: numbers are too uneven")
        return found

    def least(which: Ints, close: float) -> Believed:
        return best(VALUE, which, Limits(units.near[which], np.ones(len(which))), close)

    def safest(limits: Limits) -> _Safest[Believed]:
        found = best(MARGIN, every, limits, close)
        columns = believed(within, scaled, found, np.zeros((scaled[0].size, S)))
        return _Safest(found.weights @ columns.J, found.optimum.multipliers, found)

    found = least(every, close)
    feasible = found.optimum.status == OPTIMAL
    margin, held = np.inf, tuple[int, ...]()
    bound, multipliers = float(found.optimum.bound) - TIE_BREAK, found.optimum.multipliers + 0.0  # -0 is 0
    if m:
        margin, attained = margins.largest(units.tau, units.unit[1:], safest)
    if not feasible:
        kept = every[multipliers > 0]
        for i in kept[::-1]:
            if len(kept) > 1 and least(kept[kept != i], np.inf).optimum.status == INFEASIBLE:
                kept = kept[kept != i]
        held = tuple(int(i) + 1 for i in kept)
        found, bound, multipliers = attained.found, np.nan, np.full(m, np.nan)
    p = in_slots(frame.to_dense().transitions, pairs).copy()
    columns = believed(within, scaled, found, p)
    used = [(float(w), pairs.slots[columns.policies[k]], columns.distributions[k]) for k, w in enumerate(found.weights)]
    value = sum(w * float(units.costs[0, policy] @ mu) for w, policy, mu in used) if feasible else np.nan
    _lead_in(within, found, columns, p)
    p, flow = _held_together(within, found, columns, p, join)
    places = pairs.places
    return _Optimum(feasible, margin, value, bound, multipliers, used, p[places], held, flow[places])


def _lead_in(within: Set, found: Believed, columns: Columns, p: Floats) -> None:
    """Where the mixture never is, believe, in p (S * A, S), what its main column does: that leads to where it is."""
    k = int(found.weights.argmax())
    away = found.weights @ columns.distributions <= SUPPORT
    own = members(within, columns.policies[k], found.columns[k, 1, 0])
    p[columns.policies[k][away]] = own[away]


def _held_together(within: Set, found: Believed, columns: Columns, p: Floats, e: float) -> tuple[Floats, Floats]:
    """The model believed in and the occupancy, with a share e of time for round trips between columns that do not meet.

    A column's own model leads from everywhere to the first state of its order, so such a trip exists in the set: the
    model is the mean of the members used on it, weighted by how often they are.
    """
    S, A = columns.distributions.shape[1], len(p) // columns.distributions.shape[1]
    every, occupancy = np.arange(S), np.zeros(S * A)
    for weight, policy, mu in zip(found.weights, columns.policies, columns.distributions, strict=True):
        occupancy[policy] += weight * mu
    if (
        len(merge_overlapping([(every, w * mu) for w, mu in zip(found.weights, columns.distributions, strict=True)]))
        < 2
    ):
        return p, occupancy
    flow = np.zeros((S * A, S))
    for k, weight in enumerate(found.weights):
        pairs = columns.policies[k]
        flow[pairs] += (weight * columns.distributions[k])[:, np.newaxis] * members(
            within, pairs, found.columns[k, 1, 0]
        )
    first = found.columns[:, 1, 0, 0]
    trip = np.zeros((S * A, S))
    for k, here in enumerate(np.roll(first, 1)):
        target = np.arange(S) == first[k]
        if target[here]:
            continue
        own = members(within, columns.policies[k], found.columns[k, 1, 0])
        visited = expected_visits(Rows.from_dense(own[:, np.newaxis]), np.arange(S), np.eye(S)[here], target)
        visited[target] = 0.0
        trip[columns.policies[k]] += visited[:, np.newaxis] * own
    total = trip.sum()
    if not 0 < total < np.inf:
        return p, occupancy
    flow = (1.0 - e) * flow + e * trip / total
    mass = flow.sum(axis=1)
    return np.where(mass[:, np.newaxis] > SUPPORT, flow / np.maximum(mass, SUPPORT)[:, np.newaxis], p), mass


def _rows(intervals: Intervals, pairs: Pairs) -> Intervals:
    """The set by rows of pairs (K, S)."""
    return Intervals(*(in_rows(array, pairs) for array in (intervals.center, intervals.lower, intervals.upper)))


def _by_program(intervals: Intervals, frame: CMDP, units: Units) -> _Optimum:
    """The optimum by the linear program; its occupancy is one column per class."""
    m, pairs = frame.m, frame.pairs
    rows = _rows(intervals, pairs)

    def program_of(limits: Limits) -> OccupancyProgram:
        return optimistic_program(rows, pairs.source, units.costs, limits.tau, limits.d)

    def safest(limits: Limits) -> _Safest[Vertex]:
        program = program_of(limits)
        _, vertex = largest_margin(program)
        assert vertex is not None
        return _Safest(units.costs @ vertex.x[: pairs.K].clip(0.0), -vertex.row_duals[program.constraint_rows], vertex)

    program = program_of(Limits(units.near, np.ones(m)))
    room, vertex = largest_margin(program)
    feasible, margin, held = not room < 0, np.inf, tuple[int, ...]()
    if m:
        margin, attained = margins.largest(units.tau, units.unit[1:], safest)
    if feasible:
        vertex = best_vertex(program, vertex)
    else:
        vertex, held = attained.found, conflict(program, vertex)
    assert vertex is not None
    mu, more = np.split(np.where(vertex.x > SUPPORT, vertex.x, 0.0), [pairs.K])
    p = rows.believed(mu, more, in_rows(frame.to_dense().transitions, pairs))
    value = float(vertex.objective) if feasible else np.nan
    prices = (-vertex.row_duals[program.constraint_rows]).clip(0.0) if feasible else np.full(m, np.nan)
    columns = deterministic(Rows(pairs.begin, *compress(np.ascontiguousarray(p))), mu)
    spent = sum(w * (units.costs[:, policy] @ mu) for w, policy, mu in columns)
    if np.abs(spent - units.costs @ mu).max() > REPORTED:
        raise SolverError("the linear program's model is not what it says: probabilities are below its tolerances")
    bound = max(_bound(rows, pairs.source, units, sign * vertex.row_duals[: frame.S], prices) for sign in (1.0, -1.0))
    return _Optimum(feasible, margin, value, bound, prices, columns, p, held)


def _bound(rows: Intervals, source: Ints, units: Units, h: Floats, prices: Floats) -> float:
    """A bound of the optimum, for any bias h (S,) and prices (m,): see `compiled.optimistic`."""
    tags = np.append(1.0, prices) @ units.costs
    rounding = (4 + len(h)) * EPS * (np.ptp(h) + np.abs(tags).max())
    return float((tags + rows.least_means(h - h.min()) - (h - h.min())[source]).min() - prices @ units.near - rounding)


@dataclass(frozen=True, eq=False)
class OptimisticPolicy:
    """The optimistic policy (S, A), or the news that the limits cannot be met in any model of the set.

    policy: None if infeasible; gap: proven distance from the optimum, nan if the linear program solved it;
    columns (n, 2, 1, S) and way (S,): what the next call may start from. steered: the mixture, if it was asked for.
    """

    feasible: bool
    policy: Floats | None
    value: float
    multipliers: Floats
    connected: bool
    classes: int
    gap: float
    columns: Ints
    way: Ints
    steered: Steered | None = None

    @property
    def fallback(self) -> bool:
        """Whether the linear program had to solve it."""
        return bool(np.isnan(self.gap))


def best_optimistic(
    p_hat: Floats,
    radius: Floats,
    costs: Floats,
    thresholds: Floats,
    *,
    join: float,
    columns: Ints | None = None,
    way: Ints | None = None,
    pairs: Pairs | None = None,
    steer: Steer | None = None,
) -> OptimisticPolicy:
    """The fast way to an optimistic policy, for callers that plan often: no margin, no diagnosis, nothing checked.

    p_hat (S, A, S), radius (S, A). pairs: those that are available; all if left out. A pure function of its
    arguments; columns and way: what an earlier answer of the same size gave; they save most of the work and change the
    answer only where several are optimal.
    """
    (S, A, _), m = p_hat.shape, len(thresholds)
    pairs = Pairs.all(S, A) if pairs is None else pairs
    columns = np.zeros((0, 2, 1, S), dtype=np.int64) if columns is None else columns
    way = np.full(S, -1, dtype=np.int64) if way is None else way
    # Kernels are compiled once for arrays that can be written to, and again for those that cannot: hence copies.
    thresholds = np.array(thresholds)
    flat = np.array(pairs.taken(costs), order="C")
    slotted = pairs.in_slots(flat).reshape(m + 1, S, -1)
    center, wide = in_slots(p_hat, pairs), pairs.in_slots(pairs.taken(radius))
    levels = pairs.in_slots(ties.levels(flat.shape[1]))
    status, objective, bound, multipliers, found, proven, mixture, model = plan_within(
        center, wide, slotted, levels, thresholds, columns
    )
    gap = objective - bound
    if status == INFEASIBLE:
        return OptimisticPolicy(False, None, np.nan, np.full(m, np.nan), True, 0, np.inf, found, way)
    if proven:
        columns = found
        if not pairs.every:
            J, laws, policies, weights = mixture
            mixture = J, laws, pairs.slots[policies], weights
            model = some_rows(Rows(*model), pairs.places, pairs.begin)
        made = execute(model, flat, mixture, way, join)
        if made.classes == 1:
            policy = pairs.table(made.policy)
            way = np.where(made.way >= 0, made.way, way)
            steered = None
            if steer is not None and m:
                steered = steered_between(Rows(*model), flat, Mixture(*mixture), thresholds, steer).named(pairs)
            gap = max(made.value - bound + TIE_BREAK, 0.0)
            return OptimisticPolicy(
                True, policy, made.value, multipliers, made.connected, 1, gap, columns, way, steered
            )
    if not proven:
        points, wide = in_rows(p_hat, pairs), pairs.taken(radius)
        best = best_of_points(points, wide, flat, thresholds, join=join, begin=pairs.begin, steer=steer)
        if best is not None:
            proof = best.multipliers, best.connected, best.classes, best.gap if best.feasible else np.inf
            table = None if best.policy is None else pairs.table(best.policy)
            named = None if best.steered is None else best.steered.named(pairs)
            return OptimisticPolicy(best.feasible, table, best.value, *proof, columns, way, named)
    ask = partial(solve_optimistic, p_hat, radius, costs, thresholds, join=join, available=pairs.available)
    try:
        solved = ask(method="compiled" if proven else "highs")
    except SolverError:
        solved = ask()
    return OptimisticPolicy(
        solved.feasible,
        solved.policy if solved.feasible else None,
        solved.value,
        solved.multipliers,
        solved.connected,
        solved.classes,
        gap if proven else np.nan,
        columns,
        way,
        from_solution(solved, steer, np.ones(m + 1)) if steer is not None and solved.feasible else None,
    )


def optimistic_margin(p_hat: Floats, radius: Floats, costs: Floats, thresholds: Floats, pairs: Pairs) -> float:
    """The largest margin of any model of the set; arguments as those of `best_optimistic`."""
    S, m = len(p_hat), len(thresholds)
    within = around(in_slots(p_hat, pairs), pairs.in_slots(pairs.taken(radius)))
    slotted = np.array(pairs.in_slots(pairs.taken(costs))).reshape(m + 1, S, -1)
    start = np.zeros((0, 2, 1, S), dtype=np.int64)
    found = optimise(within, slotted, Limits(np.array(thresholds), np.ones(m)), start, MARGIN).optimum
    if found.status == OPTIMAL and found.objective - found.bound <= PROVEN:
        return -float(found.objective)
    rows = _rows(Intervals.around(p_hat, radius, pairs.available), pairs)
    return largest_margin(optimistic_program(rows, pairs.source, pairs.taken(costs), thresholds, np.ones(m)))[0]
