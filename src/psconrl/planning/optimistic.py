"""The best policy over all models in an element-wise confidence set, exactly.

Columns are policies in models of the set (`compiled.optimistic`), mixed by the frame of column generation; each answer
carries a proven gap. Where that exceeds REPORTED, a linear program is asked, to which members of the set are added as
long as they are better; agents plan without it where all that is not known is whole pairs (`point_sets`).
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, Literal, NamedTuple

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
from psconrl.planning.for_agents import BestPolicy, Start, Steer
from psconrl.planning.intervals import Intervals, in_rows, in_slots, set_by_rows
from psconrl.planning.lp.decomposition import deterministic
from psconrl.planning.lp.occupancy import best_vertex, largest_margin, occupancy_program
from psconrl.planning.mixtures import executed, members_of, switching_times
from psconrl.planning.model_rows import rows_of, some_rows
from psconrl.planning.point_sets import best_of_points
from psconrl.planning.shortest_paths import expected_visits
from psconrl.planning.solution import Solution
from psconrl.planning.steering import from_solution, steered_between
from psconrl.planning.tolerances import EPS, FEASIBLE, JOIN, MAX_ROUNDS, PROVEN, REPORTED, SUPPORT, TIE_BREAK, TINY
from psconrl.planning.units import Units

Method = Literal["compiled", "highs"]


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


class _Best(NamedTuple):
    """The best mixture for a goal, or that limits cannot be met: status, bound and the multipliers (m,) that prove it.

    J: its averages (m + 1,) of all costs, in scaled units; (0,) where columns mixed for VALUE have them. found: what it
    is.
    """

    status: int
    bound: float
    multipliers: Floats
    J: Floats
    found: Any


class _Believed(NamedTuple):
    """What a mixture believes in: columns, model and occupancy as those of `_Optimum`."""

    columns: list[tuple[float, Ints, Floats]]
    p: Floats
    flow: Floats | None


def _optimum(intervals: Intervals, frame: CMDP, units: Units, join: float, method: Method) -> _Optimum:
    """The optimum by generating columns, or by the linear program where that has no proof; else with what it has."""
    pairs, close = frame.pairs, REPORTED / 2
    nearest = in_rows(frame.to_dense().transitions, pairs)
    program = _Program(set_by_rows(intervals, pairs), nearest, pairs.source, units.costs)
    columns = _Columns(intervals, frame, units, join / 4)
    # In sets that nearly fall apart biases leave no better bound. Units are less than twice the range.
    for oracle, enough in ((columns, close), (program, close), (columns, np.inf)) if method == "compiled" else ():
        with suppress(SolverError):
            return _by(oracle, units, enough)
    return _by(program, units, np.inf)


def _by(oracle: _Columns | _Program, units: Units, close: float) -> _Optimum:
    """The optimum by an oracle; SolverError if it is further than `close` from its bound."""
    m = len(units.tau)
    every, margin, held = np.arange(m), np.inf, tuple[int, ...]()

    def least(which: Ints, close: float) -> _Best:
        return oracle.best(VALUE, which, Limits(units.near[which], np.ones(len(which))), close)

    best = least(every, close)
    feasible = best.status == OPTIMAL
    bound, multipliers = best.bound - TIE_BREAK, best.multipliers + 0.0  # -0 is 0
    if m:
        margin, safest = margins.largest(
            units.tau, units.unit[1:], lambda limits: oracle.best(MARGIN, every, limits, close)
        )
    if not feasible:
        kept = every[multipliers > 0]
        for i in kept[::-1]:
            if len(kept) > 1 and least(kept[kept != i], np.inf).status == INFEASIBLE:
                kept = kept[kept != i]
        held = tuple(int(i) + 1 for i in kept)
        best, bound, multipliers = safest, np.nan, np.full(m, np.nan)
    columns, p, flow = oracle.believed(best.found)
    value = np.nan
    if feasible:  # columns made of an occupancy may be off by its rounding in rare states
        mean = sum(w * float(units.costs[0, policy] @ mu) for w, policy, mu in columns)
        value = float(best.J[0]) if len(best.J) else mean
    return _Optimum(feasible, margin, value, bound, multipliers, columns, p, held, flow)


class _Columns:
    """Policies in models of the set, one at a time (`compiled.optimistic`)."""

    def __init__(self, intervals: Intervals, frame: CMDP, units: Units, join: float) -> None:
        """join: the share of time for round trips; see `_held_together`."""
        self.frame, self.units, self.join, pairs = frame, units, join, frame.pairs
        self.within = between(*(in_slots(array, pairs) for array in (intervals.lower, intervals.upper)))
        self.scaled = pairs.in_slots(units.costs)

    def best(self, goal: int, which: Ints, limits: Limits, close: float) -> _Best:
        """The best for VALUE or MARGIN under the limits `which`, SolverError if unproven to `close`."""
        costs = np.ascontiguousarray(self.units.costs[np.append(0, which + 1)])
        slotted = self.frame.pairs.in_slots(ties.decided(costs) if goal == VALUE else costs)
        found = optimise(self.within, slotted, limits, np.zeros((0, 2, 1, self.frame.S), dtype=np.int64), goal)
        status, objective, bound, multipliers, _ = found.optimum
        if status == FAILED or (status == OPTIMAL and objective - bound > close):
            raise SolverError("no policy and model of the set were proved to be the best: numbers are too uneven")
        J = np.empty(0)
        if goal == MARGIN:
            columns = believed(self.within, self.scaled, found, np.zeros((self.scaled.shape[1], self.frame.S)))
            J = found.weights @ columns.J
        return _Best(status, float(bound), multipliers, J, found)

    def believed(self, found: Believed) -> _Believed:
        """The model that a mixture believes in."""
        pairs = self.frame.pairs
        p = in_slots(self.frame.to_dense().transitions, pairs).copy()
        columns = believed(self.within, self.scaled, found, p)
        used = [
            (float(w), pairs.slots[policy], mu)
            for w, policy, mu in zip(found.weights, columns.policies, columns.distributions, strict=True)
        ]
        _attract_rest(self.within, found, columns, p)
        p, flow = _held_together(self.within, found, columns, p, self.join)
        return _Believed(used, p[pairs.places], flow[pairs.places])


class _Occupancy(NamedTuple):
    """A vertex of the program: the occupancy x (n,) of members (n, S) of the sets of some pairs (n,)."""

    x: Floats
    pair: Ints
    members: Floats

    def rows(self, source: Ints) -> Rows:
        """The model in which a pair, of the states `source` (K,), is there once for each of its members."""
        S = self.members.shape[1]
        return Rows(np.searchsorted(source[self.pair], np.arange(S + 1)), *compress(self.members))


class _Program:
    """The linear program of a model in which each pair is there once for every member of its set that was of use.

    The duals of an optimum are a bias, and say whether another member would be better.
    """

    def __init__(self, rows: Intervals, nearest: Floats, source: Ints, costs: Floats) -> None:
        """The rows (K, S) of a set, their members to begin with, the state of each pair, and costs (m + 1, K)."""
        self.set, self.nearest, self.source, self.costs = rows, nearest, source, costs
        self.pair, self.members = np.arange(len(source)), np.ascontiguousarray(nearest)

    def best(self, goal: int, which: Ints, limits: Limits, close: float) -> _Best:
        """See `_Columns.best`."""
        costs, tau, S = self.costs[np.append(0, which + 1)], limits.tau / limits.d, len(self.members[0])
        costs[1:] /= limits.d[:, np.newaxis]
        for _ in range(MAX_ROUNDS):
            own = _Occupancy(np.empty(0), self.pair, self.members)
            program = occupancy_program(own.rows(self.source), costs[:, self.pair], tau)
            room, vertex = largest_margin(program)
            met = not room < 0
            if goal == VALUE and met:
                vertex = best_vertex(program, vertex)
            assert vertex is not None  # there is one for either goal
            prices = (-vertex.row_duals[program.constraint_rows]).clip(0.0)
            c, h = np.append(float(goal == VALUE and met), prices) @ costs, vertex.row_duals[:S]
            members, means = self.set.least_members(h)
            known = np.full(len(c), np.inf)
            np.minimum.at(known, self.pair, self.members @ h)
            reduced = c + means - h[self.source]
            better = np.flatnonzero((reduced < vertex.row_duals[S] - FEASIBLE) & (means < known - SUPPORT))
            if not len(better):
                break
            order = np.argsort(np.append(self.pair, better), kind="stable")
            self.pair = np.append(self.pair, better)[order]
            self.members = np.concatenate([self.members, members[better]])[order]
        rounding = (4 + S) * EPS * (np.ptp(h) + np.abs(c).max())
        bound = float(reduced.min() - prices @ tau - rounding)
        assert vertex is not None
        if (goal == MARGIN or met) and vertex.objective - bound > close:
            raise SolverError("the linear program of a confidence set is proved to its tolerances only")
        x = np.where(vertex.x > SUPPORT, vertex.x, 0.0)[: len(own.pair)]
        status = OPTIMAL if goal == MARGIN or met else INFEASIBLE
        return _Best(status, bound, prices / limits.d, self.costs[:, own.pair] @ x, own._replace(x=x))

    def believed(self, found: _Occupancy) -> _Believed:
        """The model that a mixture believes in."""
        x, pair, members = found
        mass, p = np.bincount(pair, x, len(self.nearest)), self.nearest.copy()
        flow = np.zeros_like(p)
        np.add.at(flow, pair, x[:, np.newaxis] * members)
        p[mass > 0] = flow[mass > 0] / mass[mass > 0, np.newaxis]
        columns = [(w, pair[policy], mu) for w, policy, mu in deterministic(found.rows(self.source), x)]
        return _Believed(columns, p, None)


def _attract_rest(within: Set, found: Believed, columns: Columns, p: Floats) -> None:
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


def best_optimistic(
    p_hat: Floats,
    radius: Floats,
    costs: Floats,
    thresholds: Floats,
    *,
    join: float,
    start: Start | None = None,
    pairs: Pairs | None = None,
    steer: Steer | None = None,
) -> BestPolicy:
    """The optimistic policy (S, A) for callers that plan often: no margin, no diagnosis, nothing checked.

    p_hat (S, A, S), radius (S, A). pairs: those that are available; all if left out. start: columns (n, 2, 1, S) and
    paths (S,) of an earlier answer of the same size; they save most of the work and change the answer only where
    several are optimal. A pure function of its arguments. `method` is "program" where the linear program had to solve
    it.
    """
    (S, A, _), m = p_hat.shape, len(thresholds)
    pairs = Pairs.all(S, A) if pairs is None else pairs
    start = {
        "columns": np.zeros((0, 2, 1, S), dtype=np.int64),
        "paths": np.full(S, -1, dtype=np.int64),
        **(start or {}),
    }
    # Kernels are compiled once for arrays that can be written to, and again for those that cannot: hence copies.
    thresholds = np.array(thresholds)
    flat = np.array(pairs.taken(costs), order="C")
    slotted = pairs.in_slots(flat)
    center, wide = in_slots(p_hat, pairs), pairs.in_slots(pairs.taken(radius))
    levels = pairs.in_slots(ties.levels(flat.shape[1]))
    status, _, bound, multipliers, found, proven, mixture, model = plan_within(
        center, wide, slotted, levels, thresholds, start["columns"]
    )
    if status == INFEASIBLE:
        nothing = np.full(m + 1, np.nan)
        start = {"columns": found, "paths": start["paths"]}
        return BestPolicy(False, None, np.nan, nothing, nothing[1:], 0, True, np.nan, "compiled", start)
    if proven:
        start = {"columns": found, "paths": start["paths"]}
        if not pairs.every:
            J, distributions, policies, weights = mixture
            mixture = J, distributions, pairs.slots[policies], weights
            model = some_rows(Rows(*model), pairs.places, pairs.begin)
        made = execute(tuple(model), flat, tuple(mixture), start["paths"])
        if made.classes == 1:
            start["paths"] = np.where(made.paths >= 0, made.paths, start["paths"])
            steered = None
            if steer is not None and m:
                steered = steered_between(Rows(*model), flat, Mixture(*mixture), thresholds, steer).named(pairs)
            gap = max(made.value - bound + TIE_BREAK, 0.0)
            policy, averages, connected = pairs.table(made.policy), made.average_costs, made.connected
            return BestPolicy(
                True, policy, made.value, averages, multipliers, 1, connected, gap, "compiled", start, steered
            )
    else:
        points, wide = in_rows(p_hat, pairs), pairs.taken(radius)
        best = best_of_points(points, wide, flat, thresholds, join=join, begin=pairs.begin, steer=steer)
        if best is not None:
            table = None if best.policy is None else pairs.table(best.policy)
            named = None if best.steered is None else best.steered.named(pairs)
            return best._replace(policy=table, start=start, steered=named)
    solve = partial(solve_optimistic, p_hat, radius, costs, thresholds, join=join, available=pairs.available)
    try:
        solved = solve(method="compiled" if proven else "highs")
    except SolverError:
        solved = solve()
    return BestPolicy(
        solved.feasible,
        solved.policy if solved.feasible else None,
        solved.value,
        solved.average_costs,
        solved.multipliers,
        solved.classes,
        solved.connected,
        solved.gap,
        "compiled" if proven else "program",
        start,
        from_solution(solved, steer, np.ones(m + 1)) if steer is not None and solved.feasible else None,
    )


def optimistic_margin(p_hat: Floats, radius: Floats, costs: Floats, thresholds: Floats, pairs: Pairs) -> float:
    """The largest margin of any model of the set; arguments as those of `best_optimistic`."""
    S, m = len(p_hat), len(thresholds)
    within = around(in_slots(p_hat, pairs), pairs.in_slots(pairs.taken(radius)))
    flat, limits = np.array(pairs.taken(costs), order="C"), Limits(np.array(thresholds), np.ones(m))
    start = np.zeros((0, 2, 1, S), dtype=np.int64)
    found = optimise(within, pairs.in_slots(flat), limits, start, MARGIN).optimum
    if found.status == OPTIMAL and found.objective - found.bound <= PROVEN:
        return -float(found.objective)
    intervals = Intervals.around(p_hat, radius, pairs.available)
    program = _Program(set_by_rows(intervals, pairs), in_rows(intervals.nearest(), pairs), pairs.source, flat)
    return -program.best(MARGIN, np.arange(m), limits, np.inf).bound
