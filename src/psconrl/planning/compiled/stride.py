"""Pricing by sparse factors, for models of many states.

Under one limit the next multiplier comes from the policy that is best for the last one. With its bias h for
c_0 + lambda c_1 and its bias h_1 for c_1 alone, the advantages of all pairs are straight lines in the multiplier; where
one falls below zero, that action takes over, and changes the average of c_1 by about mu(s) times its slope. Following
this until the limit is met (`_stride`) gives the multiplier, the actions that go with it and their bias, from which
policy iteration goes on. At the optimum one change of action leads from one side of the limit to the other.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.elimination import Chain
from psconrl.planning.compiled.factors import (
    RARE,
    RARER,
    Aim,
    Factor,
    bias_by,
    elimination_order,
    exactly,
    factor_room,
    factorise,
    factorise_whole,
    law_by,
    likely_state,
)
from psconrl.planning.compiled.generation import FAILED, OPTIMAL, VALUE, Limits, Question, Reply, generate
from psconrl.planning.compiled.inverses import MOVES, costs_later, lead, reroute
from psconrl.planning.compiled.ordering import minimum_degree
from psconrl.planning.compiled.patterns import Pattern, no_pattern, pattern_of
from psconrl.planning.compiled.planned import NO_LEVELS, Planned, planned
from psconrl.planning.compiled.pricing import (
    Columns,
    Mixture,
    Start,
    add_column,
    advantages_of,
    begin,
    decided,
    dual_lower_bound,
    improve,
    lagrangian_costs,
    mix,
    move_along,
    room_for,
    span_of,
)
from psconrl.planning.compiled.rows import Rows, copy
from psconrl.planning.tolerances import CLOSE, EPS, EXACT, FLAT, PROVEN, TIE

_FIRST, _SHARE = 1e-3, 0.1
"""Before the end, evaluations are exact to a share of the improvement found last, and at first to 1e-3."""
_ROUGH = 15
"""So many policies are evaluated roughly; where a model nearly falls apart, that may lead round in circles."""
_EVALUATIONS, _WORK = 100, 600
"""More policies are not evaluated for given multipliers, and in all."""
_COLUMNS = 200
_MEMORY = 40_000_000
"""Columns may hold this many numbers at the most."""
_SWEEPS = 4
"""How often improvements are passed on before the next evaluation."""
_FEW = 4
"""So few changes of actions on the way to the limit may be the last ones."""
_MUCH_FURTHER = 3.0
"""Strides are too short where many actions take over; where the last ones do, they end just at the limit."""
_STRIDES = 40
"""After so many strides, multipliers are those of the master program."""

_WORK_PER_STATE = 3e4
"""Whole rows are eliminated where that takes no more multiplications than this, for each state,"""
_LITTLE, _MUCH = 1e6, 1e7
"""and only where it takes no more than the first in all, or, if nothing else serves, the second: a nearby chain in
which fewer moves are rare does for policies that lead somewhere."""
_SELDOM = 100.0
"""A reference is replaced by a state visited this many times as often: seen from rare states, all others look alike."""
_OTHER = 8
"""So many GMRES steps at the most may go by the factor of another policy; where whole rows are eliminated, no more than
half of the time that a new one takes, and one step alone is not worth a try."""
_MANY, _GATHERED = 400, 2
"""In models of more states policies that stay in several places are led to the best of these, so often at the most for
given multipliers; components of smaller models are as fast."""
_CORE = 1e-3
"""States less likely than this share of the likeliest are on the way to a place."""
_ROOM = 8
"""Numbers in each triangle of the factor of a nearby chain, for each state; there may be more."""
_PER_STATE = 8
"""What a GMRES step looks at for each state, beside the factor."""

_ACCURACY, _LOW, _HIGH, _GAIN, _FINEST, _RARE, _BEFORE, _EXCESS = 0, 1, 2, 3, 4, 5, 6, 7
_ROUND, _DONE, _REFERENCE, _FRESH, _LENT = 0, 1, 2, 3, 4


class Factors(NamedTuple):
    """A way of pricing; J and known are those of the columns.

    costs (m + 1, K); policy (S,), its bias h (S,) and advantages own (K,) for the costs c (K,) asked for last; h1 (S,),
    slope (K,): the same for c_1; law (S,): a guess; start (k, S): policies to begin with. pattern: that in which whole
    rows are eliminated, empty where they are not; room: for the factor. numbers: accuracy, the least and the largest
    multiplier that may be optimal, the gain of c_1, the finest accuracy, which moves are rare, the multiplier asked for
    before and by how much its policy exceeds the limit; counts: rounds, evaluations, reference state, 1 before the
    start policies were added, how many steps may go by the factor in the room.
    """

    rows: Rows
    costs: Floats
    columns: Columns
    J: Floats
    known: Ints
    policy: Ints
    h: Floats
    own: Floats
    c: Floats
    h1: Floats
    slope: Floats
    law: Floats
    start: Ints
    pattern: Pattern
    room: Factor
    numbers: Floats
    counts: Ints


def plan_many(
    rows: Rows, costs: Floats, limits: Limits, start: Start, goal: int, levels: Floats = NO_LEVELS
) -> Planned:
    """What `walk.plan` gives, for a model of many states, costs (m + 1, K)."""
    return planned(by_factors, rows, costs, levels, limits, start, goal)


@njit
def by_factors(
    model: Any, true_costs: Floats, levels: Floats, bounds: Any, given: Any, goal: int, into: Any
) -> tuple[int, float, float, float, int]:
    """The same; `planned.Kernel` says what is taken and returned."""
    rows = Rows(model[0], model[1], model[2], model[3])
    limits, start = Limits(bounds[0], bounds[1]), Start(given[0], given[1], given[2], given[3])
    multipliers, h, found = into[0], into[1], Mixture(into[2], into[3], into[4], into[5])
    costs = decided(true_costs, levels)
    m, K, S = len(limits.tau), costs.shape[1], len(rows.begin) - 1
    ends = np.empty(S + 1, dtype=np.int64)
    for s in range(S + 1):
        ends[s] = rows.indptr[rows.begin[s]]
    together = Chain(ends, rows.indices, rows.data)
    whole = minimum_degree(together, np.zeros(S, dtype=np.bool_), _WORK_PER_STATE * S)
    columns = room_for(max(2 * m + 6, min(_COLUMNS, _MEMORY // S)), m, S)
    finest, close = (TIE, CLOSE) if len(levels) > 0 else (EXACT, PROVEN)
    nearby = whole.complete and whole.work > _LITTLE
    while True:
        c, numbers, counts = np.empty(K), np.zeros(8), np.zeros(5, dtype=np.int64)
        policies, guess, r = begin(rows, costs, start, c, h)
        numbers[_ACCURACY], numbers[_HIGH], numbers[_FINEST] = _FIRST, np.inf, finest
        numbers[_RARE] = RARER if nearby else RARE
        counts[_REFERENCE], counts[_FRESH] = r, 1
        columns.known[0] = 0
        pattern = pattern_of(together, whole) if whole.complete and not nearby else no_pattern()
        way = Factors(
            rows,
            costs,
            columns,
            columns.J,
            columns.known,
            policies[-1].copy(),
            h,
            np.empty(K),
            c,
            np.zeros(S),
            np.empty(K),
            np.zeros(S),
            policies,
            pattern,
            factor_room(S, _ROOM * S if len(pattern.order) == 0 else pattern.up_begin[-1]),
            numbers,
            counts,
        )
        optimum = generate(_price, way, limits, goal, guess, close, True)
        failed = optimum.status == FAILED or (optimum.status == OPTIMAL and optimum.objective - optimum.bound > PROVEN)
        if not nearby or not failed or whole.work > _MUCH:
            break
        nearby = False
    for i in range(m):
        multipliers[i] = optimum.multipliers[i]
    count = 0 if optimum.status == FAILED else mix(columns, optimum.master.basis, optimum.master.weights, found)
    off = 0.0
    if count == 0:
        copy(way.policy, found.policies[0])
    for k in range(count if goal == VALUE and optimum.status == OPTIMAL else 0):
        off = max(off, _check(way, found, k))
    return optimum.status, optimum.objective, optimum.bound, off, count


@njit
def _check(way: Factors, mixture: Mixture, k: int) -> float:
    """What the averages of a column of a mixture may be off by; by whole rows its law, in place, becomes exact.

    Otherwise averages are compared with gains: whatever g and h are, the average of a cost c differs from g by no more
    than the largest |c - g + P h - h|, however long the chain takes to mix.
    """
    rows, policy, law = way.rows, way.policy, mixture.laws[k]
    S = len(policy)
    copy(mixture.policies[k], policy)
    factor = _factor(way, likely_state(rows, policy, way.counts[_REFERENCE]), way.numbers[_RARE])
    if not factor.fine[0]:
        return np.inf
    whole, off = len(way.pattern.order) > 0, 0.0
    if whole:
        total = 1.0
        for s in range(S):
            total += factor.visits[s]
        for s in range(S):
            law[s] = (1.0 if s == factor.order[-1] else factor.visits[s]) / total
    for i in range(len(way.costs)):
        before, average = mixture.J[k, i], 0.0
        for s in range(S):
            average += law[s] * way.costs[i, policy[s]]
        mixture.J[k, i] = average
        off = max(off, abs(average - before))
        if not whole:
            g, left = bias_by(rows, policy, factor, way.costs[i], np.zeros(S), average, exactly(0.1 * EXACT))
            off = max(off, abs(average - g) + left)
    return off


@njit
def _price(way: Factors, question: Question) -> Reply:
    """Policy iteration, the policy found as a column, and with one limit a stride to the next multiplier."""
    rows, costs, columns, policy = way.rows, way.costs, way.columns, way.policy
    numbers, counts = way.numbers, way.counts
    m, room, finest = len(question.prices), len(columns.J), numbers[_FINEST]
    failed = Reply(False, -np.inf, question.prices, False, question.prices)
    if counts[_DONE] > _WORK or columns.known[0] >= room - 2:
        return failed
    if counts[_FRESH] == 1 and m > 1:
        _add_starts(way)
    counts[_FRESH] = 0
    counts[_ROUND] += 1
    # Never rougher than a share of what is left to be proven.
    if question.gap < np.inf:
        numbers[_ACCURACY] = min(max(_SHARE * question.gap, finest), numbers[_ACCURACY])
    lagrangian_costs(way.c, costs, question.main, question.prices)
    # For one cost alone there are better places to begin at (`components.Component`).
    alone = m == 0 or (m == 1 and question.main == 0.0)
    fine, g, factor = _iterate(way, 0 if alone or len(policy) <= _MANY else _GATHERED)
    if not fine:
        return failed
    limit = 0.0
    for i in range(m):
        limit += question.prices[i] * question.tau[i]
    bound = dual_lower_bound(rows, way.c, g, way.h) - limit
    if law_by(rows, policy, factor, columns.laws[columns.known[0]], way.law) == np.inf:
        fine, factor = _law_many(way)
        if not fine:
            return failed
    at = columns.known[0]
    new = add_column(columns, costs, policy)
    if not new:
        for k in range(at):
            same = True
            for s in range(len(policy)):
                same = same and columns.policies[k, s] == policy[s]
            if same:
                at = k
                break
        numbers[_ACCURACY] = max(0.01 * numbers[_ACCURACY], finest)
    if bound >= question.enough or m != 1 or question.main != 1.0:
        # Evaluated roughly, a policy may seem known and yet not be the best: ask again, more exactly.
        again = not new and numbers[_ACCURACY] > finest
        return Reply(True, bound, question.prices, again, question.prices)
    multiplier, excess = question.prices[0], columns.J[at, 1] - question.tau[0]
    if excess > 0.0:
        numbers[_LOW] = max(numbers[_LOW], multiplier)
    else:
        numbers[_HIGH] = min(numbers[_HIGH], multiplier)
    numbers[_GAIN], _ = bias_by(rows, policy, factor, costs[1], way.h1, numbers[_GAIN], exactly(numbers[_ACCURACY]))
    advantages_of(rows, costs[1], numbers[_GAIN], way.h1, way.slope)
    found, step, changes = _stride(way, way.law, excess, multiplier, _further(way, excess, multiplier))
    if not found:
        again = not new and numbers[_ACCURACY] > finest
        return Reply(True, bound, question.prices, again, question.prices)
    move_along(way.h, way.own, step, way.h1, way.slope)
    there = np.empty(1)
    there[0] = max(multiplier + step, 0.0)
    lagrangian_costs(way.c, costs, 1.0, there)
    lower = dual_lower_bound(rows, way.c, g + step * numbers[_GAIN], way.h) - there[0] * question.tau[0]
    if changes <= _FEW:
        counts[_DONE] += 1
        if not _law_many(way)[0]:
            return failed
        add_column(columns, costs, policy)
    hinted = counts[_ROUND] <= _STRIDES and numbers[_LOW] <= there[0] <= numbers[_HIGH]
    if hinted:
        finer = max(_SHARE * abs(step * excess), 0.01 * numbers[_ACCURACY], finest)
        numbers[_ACCURACY] = min(finer, numbers[_ACCURACY])
    if bound >= lower:
        return Reply(True, bound, question.prices, hinted, there)
    return Reply(True, lower, there, hinted, there)


@njit
def _add_starts(way: Factors) -> None:
    """Add the start policies as columns; the last one that can be evaluated stays."""
    for k in range(len(way.start)):
        copy(way.start[k], way.policy)
        if _law_many(way)[0]:
            add_column(way.columns, way.costs, way.policy)


@njit
def _further(way: Factors, excess: float, multiplier: float) -> float:
    """How far to move the multiplier at least, by what the last move did, as long as only one side of it is known.

    Actions that take over one after another on the same way do less together than each of them would alone.
    """
    numbers = way.numbers
    before, moved = numbers[_EXCESS], multiplier - numbers[_BEFORE]
    numbers[_BEFORE], numbers[_EXCESS] = multiplier, excess
    alone = numbers[_HIGH] == np.inf if excess > 0.0 else numbers[_LOW] == 0.0
    fallen = (before - excess) / moved if moved != 0.0 else 0.0
    return abs(excess) / fallen if alone and before * excess > 0.0 and fallen > 0.0 else 0.0


@njit
def _stride(way: Factors, mu: Floats, excess: float, multiplier: float, least: float) -> tuple[bool, float, int]:
    """How far to move the multiplier, and, written to the policy, the pairs that take over on the way to the limit.

    mu (S,): the stationary law of the policy, which exceeds the limit by `excess`; least: how far at least, where that
    is much further. Whether the limit is met (else the policy stays), step, changes of actions.
    """
    rows, own, slope = way.rows, way.own, way.slope
    S, K = len(mu), len(own)
    sign, most = (-1.0, multiplier) if excess <= 0.0 else (1.0, np.inf)
    when, pairs, states = np.empty(K), np.empty(K, dtype=np.int64), np.empty(K, dtype=np.int64)
    wanted = way.policy.copy()
    count = 0
    for s in range(S):
        for pair in range(rows.begin[s], rows.begin[s + 1]):
            fall = -sign * slope[pair]
            if fall > FLAT and pair != wanted[s] and max(own[pair], 0.0) < most * fall:
                when[count], pairs[count], states[count] = max(own[pair], 0.0) / fall, pair, s
                count += 1
    changes, step, met, there = 0, -multiplier, sign < 0.0, False
    for k in np.argsort(when[:count]):
        if there and when[k] > least:
            break
        pair, s = pairs[k], states[k]
        before = 0.0 if wanted[s] == way.policy[s] else slope[wanted[s]]
        if sign * (slope[pair] - before) < 0.0:
            wanted[s] = pair
            changes += 1
            excess += mu[s] * (slope[pair] - before)
            if not there and sign * excess <= 0.0:
                least = min(least, most) if least > _MUCH_FURTHER * when[k] else when[k]
                step, met, there = sign * least, True, True
    if met:
        copy(wanted, way.policy)
    return met, step, changes


@njit
def _factor(way: Factors, r: int, rare: float) -> Factor:
    """The factor of the policy, for the reference state r, or for one that is visited much more often."""
    whole, room = len(way.pattern.order) > 0, way.room
    way.counts[_LENT] = 0
    if whole:
        looked = factorise_whole(way.rows, way.policy, r, way.pattern, room)
        likeliest = int(np.argmax(room.visits))
        if room.visits[likeliest] > _SELDOM:
            looked = factorise_whole(way.rows, way.policy, likeliest, way.pattern, room)
        step = room.low_begin[-1] + room.up_begin[-1] + _PER_STATE * len(room.order)
        lent = looked // (2 * step)
        way.counts[_LENT] = min(lent, _OTHER) if room.fine[0] and lent > 1 else 0
        return room
    factor = factorise(way.rows, way.policy, elimination_order(way.rows, way.policy, r), rare, room)
    if factor.fine[0] and len(factor.low) == len(room.low) and len(factor.up) == len(room.up):
        way.counts[_LENT] = _OTHER
    return factor


@njit
def _iterate(way: Factors, gathers: int) -> tuple[bool, float, Factor]:
    """Policy iteration for the costs c from a guess h of the bias, until no action is better by the accuracy.

    The policy, h and the advantages of all pairs are changed in place. gathers: how often a policy that stays in
    several places may be led to the best of these. Whether it succeeded, gain, factor.
    """
    rows, policy, h, c = way.rows, way.policy, way.h, way.c
    accuracy, S = way.numbers[_ACCURACY], len(way.h)
    wanted, last, order = policy.copy(), policy.copy(), np.empty(_SWEEPS * S, dtype=np.int64)
    g, left = 0.0, np.inf
    enough = max(_FIRST, 0.5 * accuracy)
    common, first = way.numbers[_RARE], way.counts[_REFERENCE]
    rare = common
    own, whole = way.counts[_LENT] == 0, len(way.pattern.order) > 0
    factor = _factor(way, likely_state(rows, policy, first), rare) if own else way.room
    fine, sound, r = factor.fine[0], False, factor.order[-1]
    for evaluations in range(1, _EVALUATIONS):
        most, needed = 0.0, 0.5 * accuracy
        while fine:
            aim = exactly(enough) if own else Aim(enough, way.counts[_LENT], 1)
            g, left = bias_by(rows, policy, factor, c, h, g, aim)
            if left > enough and not own:
                own = True
                factor = _factor(way, likely_state(rows, policy, r), rare)
                fine, r = factor.fine[0], factor.order[-1]
                continue
            fine = left <= max(enough, 0.5 * EXACT)
            if not fine:
                break
            needed = _needed(accuracy, h)
            settled = left <= needed or left > enough
            tie = max(accuracy, 1e-15 * span_of(h) if left <= needed else 2.0 * left)
            outwards = elimination_order(rows, policy, r) if whole else factor.order
            for k in range(_SWEEPS * S):
                order[k] = outwards[S - 1 - k % S]
            _, _, most = improve(rows, c, g, h, policy, wanted, way.own, order, tie)
            if most > 0.0:
                break
            if settled:
                way.counts[_DONE] += evaluations
                way.counts[_REFERENCE] = r
                return True, g, factor
            enough = needed
        if fine:
            sound = True
            copy(policy, last)
            copy(wanted, policy)
            enough = min(max(_SHARE * most, needed), _FIRST)
            if evaluations >= _ROUGH:
                enough = min(needed, 0.5 * EXACT)
            own = way.counts[_LENT] == 0
        else:
            for s in range(S):
                h[s] = 0.0
            own = True
            if factor.fine[0] and (whole or rare < common < RARE):
                # Biases so large that rounding hides costs: the policy stays in several places.
                if gathers == 0 or not _gather(rows, policy, c):
                    copy(last, policy)
                    break
                gathers, rare = gathers - 1, common
            elif rare > common / 50.0 and not whole:
                rare /= 10.0
            else:
                rare = common
                if sound:
                    r, led = reroute(rows, policy, c)
                else:
                    r, led = first, _lead_to(rows, policy, first)
                if not led:
                    break
        if own:
            factor = _factor(way, likely_state(rows, policy, r), rare)
            fine, r = factor.fine[0], factor.order[-1]
    way.counts[_DONE] += _EVALUATIONS
    return False, g, factor


@njit
def _gather(rows: Rows, policy: Ints, c: Floats) -> bool:
    """Let a policy, in place, that hardly ever leaves any of several places lead to the one that costs least.

    The best place is where steps cost the least some hundred moves later; its core is where those moves end. Whether
    the core can be reached from everywhere.
    """
    S = len(policy)
    later = costs_later(rows, policy, c, np.zeros(S, dtype=np.int64), 0)
    chance, then = np.zeros(S), np.empty(S)
    chance[int(np.argmin(later))] = 1.0
    for _ in range(MOVES):
        for s in range(S):
            then[s] = 0.5 * chance[s]
        for s in range(S):
            for move in range(rows.indptr[policy[s]], rows.indptr[policy[s] + 1] if chance[s] > 0.0 else 0):
                then[rows.indices[move]] += 0.5 * rows.data[move] * chance[s]
        chance, then = then, chance
    led, most = np.empty(S, dtype=np.bool_), chance.max()
    for s in range(S):
        led[s] = chance[s] >= _CORE * most
    return lead(rows, policy, led)


@njit
def _needed(accuracy: float, h: Floats) -> float:
    """How little may be left in the equations of a bias h for actions to be compared with this accuracy.

    Where the rule for ties decides, all but rounding: what is left does more to a bias than to the bounds.
    """
    return 0.5 * accuracy if accuracy >= EXACT else 16 * EPS * math.sqrt(len(h)) * max(span_of(h), 1.0)


@njit
def _lead_to(rows: Rows, policy: Ints, r: int) -> bool:
    """Let a policy, in place, lead all states to r; whether that is possible."""
    led = np.zeros(len(policy), dtype=np.bool_)
    led[r] = True
    return lead(rows, policy, led)


@njit
def _law_many(way: Factors) -> tuple[bool, Factor]:
    """Write the law of the policy at the end of the columns; it is rerouted if it has several. Whether, factor."""
    rows, columns, policy = way.rows, way.columns, way.policy
    r, rare = way.counts[_REFERENCE], way.numbers[_RARE]
    factor = way.room
    for _ in range(6):
        factor = _factor(way, likely_state(rows, policy, r), rare)
        r = factor.order[-1]
        if factor.fine[0] and law_by(rows, policy, factor, columns.laws[columns.known[0]], way.law) < np.inf:
            way.counts[_REFERENCE] = r
            return True, factor
        if rare > way.numbers[_RARE] / 50.0 and len(way.pattern.order) == 0:
            rare /= 10.0
        else:
            r, led = reroute(rows, policy, way.costs[0])
            rare = way.numbers[_RARE]
            if not led:
                break
    return False, factor
