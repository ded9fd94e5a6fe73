"""Pricing by inverses, for models of up to some hundred states: parametric policy iteration in the multiplier.

Policy iteration for c_0 + sum_i lambda_i c_i goes from policy to policy by rank-one updates (`inverses`). With one
limit a few columns are all it takes: from the policy that is best for the given multiplier, `_follow_multiplier` goes
on to its neighbours, one action at a time, until the limit lies between two of them.
"""

from typing import Any, NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.planning.compiled.execute import execute_mixture
from psconrl.planning.compiled.generation import FAILED, OPTIMAL, VALUE, Limits, PricingProblem, PricingResult, generate
from psconrl.planning.compiled.inverses import (
    Inverse,
    bias_of,
    largest_size,
    refactor,
    stationary_of,
    switch_policy,
)
from psconrl.planning.compiled.planned import NO_LEVELS, MixturePlan, planned
from psconrl.planning.compiled.pricing import (
    Columns,
    Mixture,
    Start,
    add_column,
    advantages_of,
    all_finite,
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
from psconrl.planning.tolerances import (
    CLOSE,
    EVAL_TOL,
    FEW_SWEEPS,
    HUGE,
    MAX_COLUMNS,
    MAX_INVERSES,
    MAX_SEARCH,
    NOISE,
    PROVEN,
    SOLVED,
    WORN,
)


class Inverses(NamedTuple):
    """A oracle of pricing; J and known are those of the columns.

    costs (m + 1, K); sizes: the largest number in the inverse of each column; chain: the policy evaluated last; h (S,)
    and own (K,): bias and advantages for the costs c (K,) asked for last; start (k, S): policies to begin with; fresh
    (1,): 1 until they were added; order: of states, for `improve`.
    """

    rows: Rows
    costs: Floats
    columns: Columns
    J: Floats
    known: Ints
    sizes: Floats
    chain: Inverse
    h: Floats
    own: Floats
    c: Floats
    start: Ints
    fresh: Ints
    order: Ints


def plan(rows: Rows, costs: Floats, limits: Limits, start: Start, goal: int, levels: Floats = NO_LEVELS) -> MixturePlan:
    """The best mixture of policies of a model, costs (m + 1, K), for VALUE or MARGIN; levels: see `planned.Kernel`."""
    return planned(plan_by_inverses, rows, costs, levels, limits, start, goal)


@njit
def plan_by_inverses(
    model: Any, true_costs: Floats, levels: Floats, bounds: Any, given: Any, goal: int, into: Any
) -> tuple[int, float, float, float, int, float, int, bool, float]:
    """The same; `planned.Kernel` says what is taken and returned."""
    rows = Rows(model[0], model[1], model[2], model[3])
    limits, start = Limits(bounds[0], bounds[1]), Start(given[0], given[1], given[2], given[3])
    multipliers, h, found = into[0], into[1], Mixture(into[2], into[3], into[4], into[5])
    costs = decided(true_costs, levels)
    m, K, S = len(limits.tau), costs.shape[1], len(rows.begin) - 1
    value, classes, connected, link = np.nan, 0, False, 1.0
    if not all_finite(costs, limits.tau):
        return FAILED, np.nan, -np.inf, 0.0, 0, value, classes, connected, link
    columns, policy = room_for(MAX_COLUMNS, m, S), np.empty(S, dtype=np.int64)
    fresh, order = np.ones(1, dtype=np.int64), np.empty(FEW_SWEEPS * S, dtype=np.int64)
    for k in range(FEW_SWEEPS * S):
        order[k] = k % S
    own, c = np.empty(K), np.empty(K)
    policies, guess, r = begin(rows, costs, start, c, h)
    chain = Inverse(policy, np.empty((S, S)), np.array([r]))
    copy(policies[-1], policy)
    if not refactor(rows, chain, costs[0]):
        return FAILED, np.nan, -np.inf, 0.0, 0, value, classes, connected, link
    sizes = np.empty(MAX_COLUMNS)
    oracle = Inverses(rows, costs, columns, columns.J, columns.known, sizes, chain, h, own, c, policies, fresh, order)
    optimum = generate(_price, oracle, limits, goal, guess, CLOSE)
    off = 0.0
    for name in optimum.master.basis:
        off = max(off, WORN * sizes[name] if 0 <= name < columns.known[0] else 0.0)
    for i in range(m):
        multipliers[i] = optimum.multipliers[i]
    count = 0 if optimum.status == FAILED else mix(columns, optimum.master.basis, optimum.master.weights, found)
    if goal == VALUE and optimum.status == OPTIMAL and _misses(found, count, limits.tau):
        return FAILED, np.nan, -np.inf, off, 0, value, classes, connected, link
    if len(into[6]) > 0 and optimum.status == OPTIMAL and abs(optimum.objective - optimum.bound) <= PROVEN:
        mixture = found.J[:count], found.distributions[:count], found.policies[:count], found.weights[:count]
        filled = into[6], into[7], into[8], into[9]
        value, classes, connected, link = execute_mixture(model, true_costs, mixture, given[4], filled)
    return optimum.status, optimum.objective, optimum.bound, off, count, value, classes, connected, link


@njit
def _misses(mixture: Mixture, count: int, tau: Floats) -> bool:
    """Whether so many columns miss one of the limits tau (m,) together: who is exacter may find that they need not."""
    for i in range(len(tau)):
        total = 0.0
        for k in range(count):
            total += mixture.weights[k] * mixture.J[k, i + 1]
        if total - tau[i] > SOLVED:
            return True
    return False


@njit
def _price(oracle: Inverses, problem: PricingProblem) -> PricingResult:
    """Policy iteration, then `_follow_multiplier` if there is one limit, else the policy found as a column."""
    rows, costs, columns, chain = oracle.rows, oracle.costs, oracle.columns, oracle.chain
    m = len(problem.prices)
    lagrangian_costs(oracle.c, costs, problem.main, problem.prices)
    fine, g = _iterate(oracle)
    if not fine or columns.known[0] >= MAX_COLUMNS - 2 - len(oracle.start):
        return PricingResult(False, -np.inf, problem.prices, False, problem.prices)
    limit = 0.0
    for i in range(m):
        limit += problem.prices[i] * problem.tau[i]
    # A certificate looks at all moves. `_follow_multiplier` brings its own: the bias is kept in case that it fails.
    bound, h = -np.inf, oracle.h.copy()
    if problem.enough < np.inf:
        bound = dual_lower_bound(rows, oracle.c, g, h) - limit
        if bound >= problem.enough:
            return PricingResult(True, bound, problem.prices, False, problem.prices)
    found = chain.policy.copy()
    if m == 1 and problem.main == 1.0:
        followed, multiplier, lower = _follow_multiplier(oracle, g, problem.tau[0], problem.prices[0])
        if followed:
            proof = np.empty(1)
            proof[0] = multiplier
            return PricingResult(True, lower, proof, False, proof)
    if not problem.enough < np.inf:
        bound = dual_lower_bound(rows, oracle.c, g, h) - limit
    # What was found, and at first the start policies, which keep their pairs where they differ; where the last of
    # them cannot be evaluated, what was found again.
    others = len(oracle.start) if oracle.fresh[0] == 1 else 0
    oracle.fresh[0] = 0
    for s in range(len(found) if others > 0 else 0):
        agree = True
        for k in range(others):
            agree = agree and oracle.start[k, s] == oracle.start[0, s]
        for k in range(others if agree else 0):
            oracle.start[k, s] = found[s]
    for k in range(others + 2):
        if k > others and fine:
            break
        wanted = oracle.start[k - 1] if 0 < k <= others else found
        fine = fine and switch_policy(rows, chain, wanted) < 0
        if not fine:
            copy(wanted, chain.policy)
            fine = refactor(rows, chain, costs[0])
        if fine:
            _add(oracle, chain)
    return PricingResult(fine, bound, problem.prices, False, problem.prices)


@njit
def _add(oracle: Inverses, chain: Inverse) -> None:
    """Add the policy of a chain as a column, unless it is one."""
    at, size = oracle.known[0], 0.0
    stationary_of(oracle.rows, chain, oracle.columns.distributions[at])
    for s in range(len(chain.policy)):
        size = max(size, largest_size(chain.inverse[s]))
    oracle.sizes[at] = size
    add_column(oracle.columns, oracle.costs, chain.policy)


@njit_inline
def _iterate(oracle: Inverses) -> tuple[bool, float]:
    """Policy iteration for the costs c, from the policy of the chain, which is changed; whether it succeeded, gain.

    The bias is written to h, the advantages of all pairs to `own`.
    """
    rows, chain, c, h = oracle.rows, oracle.chain, oracle.c, oracle.h
    S = len(h)
    fresh, made = False, 0
    wanted = np.empty(S, dtype=np.int64)
    for _ in range(1, MAX_SEARCH):
        g = bias_of(rows, chain, c, h)
        span = span_of(h)
        if not (span < HUGE and abs(g) < HUGE):  # nan included
            return False, np.nan
        tie = max(NOISE, 1e-15 * span)
        _, own, _ = improve(rows, c, g, h, chain.policy, wanted, oracle.own, oracle.order, tie)
        changes = 0
        for s in range(S):
            if wanted[s] != chain.policy[s]:
                changes += 1
        if not own <= tie:
            # Updates have worn the inverse out.
            if fresh or not np.isfinite(own) or made == MAX_INVERSES:
                return False, np.nan
            r = chain.reference[0]
            likeliest = r
            for s in range(S):
                if chain.inverse[r, s] > chain.inverse[r, likeliest]:
                    likeliest = s
            chain.reference[0] = likeliest
            if not refactor(rows, chain, c):
                return False, np.nan
            fresh, made = True, made + 1
            continue
        if changes == 0:
            return True, g
        fresh = switch_policy(rows, chain, wanted) >= 0
        made += fresh
        if fresh and (made > MAX_INVERSES or not refactor(rows, chain, c)):
            return False, np.nan
    return False, np.nan


@njit_inline
def _follow_multiplier(
    oracle: Inverses, last_gain: float, threshold: float, multiplier: float
) -> tuple[bool, float, float]:
    """From a policy that is best for a multiplier, one action after another, to the optimum.

    The multiplier is lowered while the limit is kept, and raised while it is not, until an action becomes as good as
    the policy's; then this is taken. The optimum is where that leads from one side of the limit to the other, or where
    the multiplier is zero. Then one or two columns are added. The chain of the oracle stays; its bias moves along.

    Whether the optimum was reached, the multiplier, the lower bound.
    """
    rows, costs, h, own = oracle.rows, oracle.costs, oracle.h, oracle.own
    own_chain, g = oracle.chain, last_gain
    chain = Inverse(own_chain.policy.copy(), own_chain.inverse.copy(), own_chain.reference.copy())
    S = len(h)
    slope, h1 = np.empty(len(own)), np.empty(S)
    wanted = chain.policy.copy()
    g1 = bias_of(rows, chain, costs[1], h1)
    for _ in range(MAX_SEARCH):
        advantages_of(rows, costs[1], g1, h1, slope)
        excess = g1 - threshold
        sign = -1.0 if excess <= 0.0 else 1.0
        most, enter, at = multiplier if excess <= 0.0 else np.inf, -1, -1
        for s in range(S):
            for pair in range(rows.begin[s], rows.begin[s + 1]):
                fall = -sign * slope[pair]
                if fall > EVAL_TOL and max(own[pair], 0.0) < fall * most and pair != chain.policy[s]:
                    most, enter, at = max(own[pair], 0.0) / fall, pair, s
        if not most < np.inf:
            return False, multiplier, -np.inf
        step = sign * most
        multiplier += step
        g += step * g1
        move_along(h, own, step, h1, slope)
        before = -1
        if enter >= 0:
            before, wanted[at] = chain.policy[at], enter
            if switch_policy(rows, chain, wanted) >= 0:
                return False, multiplier, -np.inf
            r = chain.reference[0]
            for x in range(S):
                h1[x] += slope[enter] * chain.inverse[x, at]
            h1[r] = 0.0
            g1 += slope[enter] * chain.inverse[r, at]
        if enter < 0 or excess * (g1 - threshold) <= 0.0:
            for side in range(1 if enter < 0 else 2):
                if side == 1:
                    wanted[at] = before
                    if switch_policy(rows, chain, wanted) >= 0:
                        return False, multiplier, -np.inf
                _add(oracle, chain)
            proof = np.empty(1)
            proof[0] = multiplier
            lagrangian_costs(oracle.c, costs, 1.0, proof)
            return True, multiplier, dual_lower_bound(rows, oracle.c, g, h) - multiplier * threshold
    return False, multiplier, -np.inf
