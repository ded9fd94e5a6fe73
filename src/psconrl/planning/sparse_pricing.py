"""Planning in models of many states: columns priced by policy iteration with sparse linear algebra.

The frame is column generation (`compiled.generation`): at given multipliers lambda, pricing finds the policy with the
least average of c_0 + lambda . c. Policies are evaluated by `poisson`, first roughly and then to rounding, from the
bias of the evaluation before; in between, improvements are passed on from state to state
(`pricing.improve`). What is found is proved by its bias alone (`pricing.dual_lower_bound`).

Under one limit the next multiplier comes from the policy that is best for the last one. With its bias h for
c_0 + lambda c_1 and its bias h_1 for c_1 alone, the advantages of all pairs are straight lines in the multiplier;
where one falls below zero, that action takes over, and changes the average of c_1 by about mu(s) times its slope.
Following this until the limit is met (`pricing.multiplier_step`) gives the multiplier, the actions that go with it and
their bias, from which policy iteration goes on. At the optimum one change of action leads from one side of the limit to
the other.
"""

from __future__ import annotations

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl.planning.compiled.attractor import attractor_policy
from psconrl.planning.compiled.generation import (
    FAILED,
    OPTIMAL,
    VALUE,
    Limits,
    PricingProblem,
    PricingResult,
    plain_generate,
)
from psconrl.planning.compiled.inverses import MOVES
from psconrl.planning.compiled.planned import NO_LEVELS, MixturePlan
from psconrl.planning.compiled.pricing import (
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
    multiplier_step,
    room_for,
    span_of,
)
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.poisson import PoissonSolver, generator_of
from psconrl.planning.tolerances import (
    CLOSE,
    EPS,
    EVAL_TOL,
    FEW_SWEEPS,
    FIRST_ACCURACY,
    MAX_COLUMNS,
    MAX_REPAIRS,
    MAX_ROUGH,
    MAX_ROUNDS,
    MAX_SEARCH,
    NOISE,
    PROVEN,
    SHARE,
    UNLIKELY,
)


def plan_sparse(
    rows: Rows,
    costs: Floats,
    limits: Limits,
    start: Start,
    goal: int,
    levels: Floats = NO_LEVELS,
    measured: bool = True,
) -> MixturePlan:
    """What `parametric.plan` gives, for a model of many states, costs (m + 1, K).

    measured: whether to say by how much the averages of the columns may be off, which takes (m + 1)^2 solves.
    """
    pricing = SparsePricing(rows, decided(costs, levels), start, exactly=len(levels) > 0)
    close = CLOSE if len(levels) else PROVEN
    optimum = plain_generate(SparsePricing.price, pricing, limits, goal, pricing.guess, close, halfway=True)
    S, n = rows.S, len(costs)
    found = Mixture(np.empty((n, n)), np.empty((n, S)), np.empty((n, S), np.int64), np.empty(n))
    count, off = 0, 0.0
    if optimum.status != FAILED:
        count = mix(pricing.columns, optimum.master.basis, optimum.master.weights, found)
    found = found.first(count)
    if measured and goal == VALUE and optimum.status == OPTIMAL:
        off = max(pricing.average_error(J, policy) for J, policy in zip(found.J, found.policies, strict=True))
    last = found.policies[0] if count else pricing.policy
    status, objective, bound, multipliers, _ = optimum
    return MixturePlan(status, objective, bound, off, multipliers, pricing.h, found, last)


class SparsePricing:
    """Prices policies for the frame of column generation, from where it ended the last time.

    Attributes:
        columns: the policies found; `J` and `known` are theirs.
        policy: the one found last (S,). h: its bias (S,). own: the advantages of all pairs (K,), at costs c (K,).
        mu: a stationary distribution (S,), the guess for the next one.
        accuracy: to which policies are evaluated; it falls to `finest`.
        low, high: the least and the largest multiplier that may be optimal, under one limit.
    """

    def __init__(self, rows: Rows, costs: Floats, start: Start, exactly: bool) -> None:
        """costs (m + 1, K). exactly: whether a rule for ties decides between policies."""
        S, m = rows.S, len(costs) - 1
        self.rows, self.costs = rows, costs
        self.columns = room_for(2 * m + MAX_COLUMNS, m, S)
        self.J, self.known = self.columns.J, self.columns.known
        self.c, self.h, self.own = np.empty(rows.K), np.zeros(S), np.empty(rows.K)
        self.h1, self.slope = np.zeros(S), np.empty(rows.K)
        self.starts, self.guess, reference = begin(rows, costs, start, self.c, self.h)
        self.policy, self.mu = self.starts[-1].copy(), np.full(S, 1.0 / S)
        self.solver = PoissonSolver(generator_of(rows))
        self.solver.reference = reference
        self.accuracy, self.finest = FIRST_ACCURACY, NOISE if exactly else EVAL_TOL
        self.low, self.high = 0.0, np.inf
        self.calls = self.evaluations = 0
        forth = np.arange(S)
        self._order = np.tile(np.concatenate([forth, forth[::-1]]), FEW_SWEEPS)

    def price(self, problem: PricingProblem) -> PricingResult:
        """Policy iteration, the policy found as a column, and with one limit a step to the next multiplier."""
        prices, columns = problem.prices, self.columns
        failed = PricingResult(False, -np.inf, prices, False, prices)
        if self.evaluations > MAX_ROUNDS or self.known[0] >= len(self.J) - 2:
            return failed
        if self.calls == 0 and len(prices) > 1:
            for policy in self.starts:
                self.policy[:] = policy
                self._add_column()
        self.calls += 1
        # Never rougher than a share of what is left to be proven.
        if problem.gap < np.inf:
            self.accuracy = min(max(SHARE * problem.gap, self.finest), self.accuracy)
        lagrangian_costs(self.c, self.costs, problem.main, prices)
        g = self._iterate()
        if g is None:
            return failed
        bound = dual_lower_bound(self.rows, self.c, g, self.h) - float(prices @ problem.tau)
        before = self.known[0]
        at = self._add_column()
        if at is None:
            return failed
        new = self.known[0] > before
        if not new:
            self.accuracy = max(0.01 * self.accuracy, self.finest)
        # Evaluated roughly, a policy may seem known and yet not be the best: once more, more exactly.
        again = PricingResult(True, bound, prices, not new and self.accuracy > self.finest, prices)
        if bound >= problem.enough or len(prices) != 1 or problem.main != 1.0:
            return again
        multiplier, excess = float(prices[0]), float(columns.J[at, 1] - problem.tau[0])
        if excess > 0.0:
            self.low = max(self.low, multiplier)
        else:
            self.high = min(self.high, multiplier)
        gain, self.h1, _ = self.solver.bias(self.costs[1, self.policy], self.h1, self.accuracy)
        advantages_of(self.rows, self.costs[1], gain, self.h1, self.slope)
        met, step = multiplier_step(self.rows, self.policy, self.mu, self.own, self.slope, excess, multiplier)
        if not met:
            return again
        move_along(self.h, self.own, step, self.h1, self.slope)
        there = np.array([max(multiplier + step, 0.0)])
        lagrangian_costs(self.c, self.costs, 1.0, there)
        lower = dual_lower_bound(self.rows, self.c, g + step * gain, self.h) - float(there @ problem.tau)
        hinted = self.calls <= MAX_SEARCH and self.low <= there[0] <= self.high
        if hinted:
            finer = max(SHARE * abs(step * excess), 0.01 * self.accuracy, self.finest)
            self.accuracy = min(finer, self.accuracy)
        return PricingResult(True, max(bound, lower), prices if bound >= lower else there, hinted, there)

    def average_error(self, J: Floats, policy: Ints) -> float:
        """What the averages J (m + 1,) of a policy may be off by: the distance from its gains, which are certain."""
        self.solver.switch_policy(policy)
        off = 0.0
        for cost, average in zip(self.costs, J, strict=True):
            found = self.solver.bias(cost[policy], np.zeros(self.rows.S), 0.1 * EVAL_TOL)
            off = max(off, abs(average - found.gain) + found.error)
        return off

    def _iterate(self) -> float | None:
        """Policy iteration for the costs c from the bias h, until no action is better by the accuracy; the gain.

        The policy, its bias and the advantages of all pairs are left behind; None if it failed.
        """
        enough = max(FIRST_ACCURACY, 0.5 * self.accuracy)
        wanted, repairs = self.policy.copy(), 0
        self.solver.switch_policy(self.policy)
        for evaluation in range(1, MAX_SEARCH):
            self.evaluations += 1
            found = self.solver.bias(self.c[self.policy], self.h, enough)
            # Where biases are huge, what rounding leaves of the equations is no less than this.
            rounding = 16 * EPS * span_of(found.values)
            if not found.error <= max(enough, 0.5 * EVAL_TOL, min(rounding, FIRST_ACCURACY)):
                repairs += 1
                if repairs > MAX_REPAIRS or not self._make_unichain():
                    return None
                continue
            self.h = found.values
            needed = self._needed()
            settled = found.error <= needed or found.error > enough
            exact = found.error <= needed
            tie = max(self.accuracy, 1e-15 * span_of(self.h) if exact else 2.0 * found.error)
            most = improve(self.rows, self.c, found.gain, self.h, self.policy, wanted, self.own, self._order, tie)[2]
            if most == 0.0:
                if settled:
                    return found.gain
                enough = needed
                continue
            self.policy[:] = wanted
            self.solver.switch_policy(self.policy)
            enough = min(max(SHARE * most, needed), FIRST_ACCURACY)
            if evaluation >= MAX_ROUGH:
                enough = min(needed, 0.5 * EVAL_TOL)
        return None

    def _needed(self) -> float:
        """How little the equations of the bias may fail by for actions to be compared with the accuracy.

        Where the rule for ties decides, all but rounding: what is left does more to a bias than to the bounds.
        """
        rounding = 16 * EPS * max(span_of(self.h), 1.0)
        return 0.5 * self.accuracy if self.accuracy >= EVAL_TOL else rounding

    def _make_unichain(self) -> bool:
        """Make a policy that stays in several places, for ever or nearly, end in the best; whether that succeeded.

        The best is where steps cost the least some hundred moves later; its core is where those moves end.
        """
        self.h, chain = np.zeros(self.rows.S), self.solver.chain
        into, later, chance = chain.T.tocsr(), self.c[self.policy], np.zeros(self.rows.S)
        for _ in range(MOVES):
            later = later - 0.5 * (chain @ later)
        chance[later.argmin()] = 1.0
        for _ in range(MOVES):
            chance = chance - 0.5 * (into @ chance)
        self.solver.reference = int(chance.argmax())
        done = attractor_policy(self.rows, self.policy, chance >= UNLIKELY * chance.max())
        self.solver.switch_policy(self.policy)
        return bool(done)

    def _add_column(self) -> int | None:
        """Add the policy as a column, with one closed class; its number, which may be known; None if that failed."""
        self.solver.switch_policy(self.policy)
        mu = self.solver.distribution(self.mu)
        if mu is None:
            if not self._make_unichain():
                return None
            mu = self.solver.distribution(self.mu)
            if mu is None:
                return None
        n = int(self.known[0])
        self.mu = self.columns.distributions[n] = mu
        if not add_column(self.columns, self.costs, self.policy):
            return int(np.flatnonzero((self.columns.policies[:n] == self.policy).all(axis=1))[0])
        return n
