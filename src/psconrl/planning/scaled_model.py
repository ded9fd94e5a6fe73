"""A known model ready to be planned in: rows, units, end components; its best mixtures and its solution."""

from __future__ import annotations

from copy import copy
from functools import cached_property

import numpy as np
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Floats, Ints
from psconrl._core.graph import is_communicating, reachable
from psconrl.cmdp import CMDP
from psconrl.errors import SolverError
from psconrl.planning import margins, shadow_prices, ties
from psconrl.planning.chains import stationary_distribution
from psconrl.planning.compiled.generation import (
    FAILED,
    INFEASIBLE,
    OPTIMAL,
    Optimum,
    plain_generate,
)
from psconrl.planning.compiled.master import MARGIN, VALUE, Limits
from psconrl.planning.compiled.planned import NO_LEVELS
from psconrl.planning.components import Column, Component, ComponentPricing, inverted
from psconrl.planning.evaluation import bias_spans, evaluate_chain
from psconrl.planning.executable import Execution, chain_of, executable
from psconrl.planning.mixtures import executed, members_of, reweighted, switching_times
from psconrl.planning.model_rows import rows_of
from psconrl.planning.shadow_prices import Prices
from psconrl.planning.solution import Solution
from psconrl.planning.tolerances import (
    CLOSE,
    EVAL_TOL,
    FEASIBLE,
    NOISE,
    PLANNING_BYTES,
    PROVEN,
    REPORTED,
    TIE_BREAK,
    TINY,
)
from psconrl.planning.units import Units
from psconrl.planning.weights import best_weights, carrying


class Mixture:
    """The best mixture of columns that the frame found, with what was proved."""

    def __init__(self, optimum: Optimum, columns: list[tuple[float, Column]]) -> None:
        self.status, self.bound, self.multipliers = optimum.status, float(optimum.bound), optimum.multipliers
        self.columns = columns
        self.objective = float(optimum.objective)

    @property
    def J(self) -> Floats:
        """The averages (m + 1,) of the mixture."""
        return np.asarray(sum(weight * column.J for weight, column in self.columns))

    @property
    def proven(self) -> bool:
        """Whether its bound is near enough."""
        return self.status == INFEASIBLE or self.objective - self.bound <= PROVEN


def _weighed(mixture: Mixture, limits: Limits, goal: int) -> bool:
    """Give a mixture the best weights for its exact averages; False where there are none, and it stays as it is."""
    J = np.array([column.J for _, column in mixture.columns])
    weights = best_weights(J, limits, mixture.bound, mixture.multipliers, goal)
    if weights is None:
        return False
    mixture.columns = [(float(w), column) for w, (_, column) in zip(weights, mixture.columns, strict=True) if w > 0]
    return True


class ScaledModel:
    """A model ready to be planned in: rows, units, end components."""

    def __init__(self, cmdp: CMDP) -> None:
        size = float(PLANNING_BYTES * cmdp.matrix.nnz)
        checks.fits_memory(size, f"planning in {cmdp.matrix.nnz:,} transitions", "solve a smaller model")
        self.cmdp = cmdp
        self.rows = rows_of(cmdp)
        costs = np.ascontiguousarray(cmdp.pairs.taken(cmdp.costs))
        self.units = Units.of(costs, cmdp.thresholds)
        # Constant costs are the same under every policy: their limits are met or not, and decide nothing else.
        self.slack = cmdp.thresholds - costs[1:, 0]
        self.constant = (costs[1:] == costs[1:, :1]).all(axis=1)
        self.unmet = self.constant & (self.units.tau < 0)
        self.limits = np.flatnonzero(~self.constant)

    @cached_property
    def communicating(self) -> bool:
        """Whether every state can be reached from every other one."""
        return is_communicating(self.cmdp.matrix)

    @cached_property
    def components(self) -> list[Component]:
        """The maximal end components."""
        if self.communicating:
            return [Component(self.rows, np.arange(self.rows.S), np.arange(self.rows.K))]
        return ComponentPricing(self.rows, self.units.costs, None).components

    @cached_property
    def single(self) -> Component | None:
        """The only component that the initial distribution leads to; None if there are several."""
        if len(self.components) == 1:
            return self.components[0]
        reached = reachable(self.cmdp.matrix, self.cmdp.initial > 0)
        met = [component for component in self.components if reached[component.states].any()]
        return met[0] if len(met) == 1 else None

    def mixture(self, goal: int, limits: Limits, which: Ints, main: int = 0) -> Mixture:
        """The best mixture under the limits `which`, numbered from zero (-1: on c_0); main: the cost to minimise."""
        costs = np.ascontiguousarray(self.units.costs[np.append(main, which + 1)])
        if goal != VALUE or main != 0:
            return self._mixture(costs, goal, limits)
        if not inverted(self.rows):
            found = self._by_kernels(costs, goal, limits, ties.levels(self.rows.K))
            if found is None or not found.proven:
                return self._mixture(costs, goal, limits)
        else:
            found = self._mixture(ties.decided(costs), goal, limits)
        found.bound -= TIE_BREAK
        found.columns = [(w, column._replace(J=costs[:, column.policy] @ column.mu)) for w, column in found.columns]
        return found

    def _mixture(self, costs: Floats, goal: int, limits: Limits, exactly: bool = True) -> Mixture:
        fast = self._by_kernels(costs, goal, limits)
        if fast is not None and fast.proven:
            return fast
        pricing = ComponentPricing(self.rows, costs, None if self.single is not None else self.cmdp.initial)
        if self.single is not None:
            pricing.components = [self.single]
        # Margins are not proved further than the prices of large components, which take longest, are.
        close = PROVEN if goal == MARGIN and not inverted(self.rows) else CLOSE
        optimum = plain_generate(ComponentPricing.price, pricing, limits, goal, np.zeros(len(limits.tau)), close)
        if optimum.status == FAILED:
            if fast is not None:
                return fast
            if exactly and goal == VALUE and len(limits.tau):
                # Missed by as much as counts as met, but for rounding: nothing is proved without more room.
                return self._mixture(costs, goal, limits._replace(tau=limits.tau + FEASIBLE), exactly=False)
            raise SolverError("the best mixture of policies was not found: numbers of the model are too uneven")
        return Mixture(optimum, [(w, pricing.columns[k]) for k, w in carrying(optimum)])

    def _by_kernels(self, costs: Floats, goal: int, limits: Limits, levels: Floats | None = None) -> Mixture | None:
        """The mixture in the only component by inverses or sparse factors; None where these fail.

        levels (K,): what is added to c_0 to decide between equals; bound and objective are then those of the sum.
        """
        component = self.single
        if component is None:
            return None
        rows = component.rows
        own = costs if len(component.pairs) == self.rows.K else np.ascontiguousarray(costs[:, component.pairs])
        deciding = NO_LEVELS if levels is None else levels[component.pairs]
        found = component.plan(own, limits, goal, np.zeros(len(limits.tau)), np.zeros(rows.S), deciding)
        optimum = found.optimum
        if optimum.status == FAILED:
            return None
        if optimum.status == INFEASIBLE:
            return Mixture(optimum, [])
        columns, agree = [], True
        for name, weight in carrying(optimum):
            policy = self.rows.begin[:-1].copy()
            policy[component.states] = component.pairs[found.columns.policies[name]]
            chosen, mu = found.columns.policies[name], np.zeros(self.rows.S)
            own_mu = stationary_distribution(component.chain(chosen))
            if own_mu is None:
                return None
            J, mu[component.states] = own[:, chosen] @ own_mu, own_mu
            agree = agree and bool(np.abs(J - found.columns.J[name]).max() <= EVAL_TOL + TIE_BREAK)
            columns.append((float(weight), Column(policy, J, mu)))
        mixture = Mixture(optimum, columns)
        if agree:
            if goal == VALUE and (mixture.J[1:] - limits.tau > NOISE).any():
                _weighed(mixture, limits, goal)
            return mixture
        if component.inverted or not _weighed(mixture, limits, goal):
            return None
        # The bound holds whatever the averages were thought to be.
        J = mixture.J
        objective = float(J[0] if goal == VALUE else ((J[1:] - limits.tau) / limits.d).max())
        mixture.objective = objective + (0.0 if levels is None else TIE_BREAK)
        return mixture

    def solution(self, join: float, horizon: int | None = None) -> Solution:
        """Value, policy, margin, prices, conflicts; horizon: that of the mixture's cores."""
        cmdp, units, m = self.cmdp, self.units, self.cmdp.m
        tau = units.near[self.limits]
        best = self.mixture(VALUE, Limits(tau, np.ones(len(tau))), self.limits)
        feasible = best.status == OPTIMAL and not self.unmet.any()
        chosen, margin = best, np.inf
        if m and not feasible:
            margin, chosen = self._margin(feasible)
        made, averages, spans = self._executed(chosen, join)
        if feasible and made.classes == 1 and self.single is not None and (averages[1:] - units.tau > NOISE).any():
            self._eliminate(self.single, best)
            made, averages, spans = self._executed(best, join)
        excess = averages[1:] - units.tau
        if feasible and made.classes > 1 and (excess > 0).any():
            # Joined classes miss the limits by their share of time: with limits tighter by that much, they keep them.
            tighter = self._tighter(best, Limits(tau - 2 * excess.max(), np.ones(len(tau))))
            if tighter.status == OPTIMAL:
                again = self._executed(tighter, join)
                if (again[1][1:] - units.tau <= 0).all() and again[1][0] <= averages[0] + join:
                    made, averages, spans = again
        # Before the margin: where the search for that ends is far from here.
        prices = self._prices(best) if feasible else Prices(np.full(m, np.nan), np.nan)
        if m and feasible:
            # Not before: it depends on the units of the limits, and what it leaves behind would decide between equals.
            margin, _ = self._margin(feasible)
        target = self.averages(chosen)
        attained = bool((averages - np.maximum(target, np.append(target[0], units.tau)) <= REPORTED).all())
        reached = max(averages[0], target[0]) if attained else target[0]
        if feasible:
            # What the mixture misses the limits by, rounding included, counts at their prices.
            missed = np.maximum(target[1:] - units.tau, 0.0)[self.limits] + NOISE
            reached += float(best.multipliers @ missed) + NOISE
        with np.errstate(over="ignore"):
            spans = units.unit * spans
        members = [executed(self.rows, units.costs, column, cmdp.initial, horizon) for _, column in chosen.columns]
        weights = [weight for weight, _ in chosen.columns]
        if horizon is not None:
            weights = reweighted(weights, members, units)
        return Solution(
            status="optimal" if feasible else "infeasible",
            value=float(units.averages(target)[0]) if feasible else np.nan,
            policy=cmdp.pairs.table(made.policy),
            average_costs=units.averages(averages),
            occupancy=cmdp.pairs.table(made.occupancy),
            multipliers=units.multipliers(prices.multipliers),
            margin=margin,
            conflict=() if feasible else self._conflict(best),
            program="stateless" if self.single is not None else "multichain",
            classes=made.classes,
            bias_spans=spans,
            long_run_costs=units.averages(averages),
            connected=made.connected,
            gap=float(units.unit[0] * max(reached - best.bound, prices.unproved, 0.0)) if feasible else np.nan,
            attained=attained,
            mixture=members_of(weights, members, cmdp.pairs, units),
            switching_times=switching_times(members),
            model=cmdp,
        )

    def _eliminate(self, component: Component, mixture: Mixture) -> None:
        """Find the distributions of a mixture's columns without subtractions, to all digits of the rarest states.

        Where places hardly meet, those decide how much time a policy that mixes columns spends in each place.
        """
        costs = self.units.costs[np.append(0, self.limits + 1)]
        for k, (weight, column) in enumerate(mixture.columns):
            mu, chosen = np.zeros(self.rows.S), column.policy[component.states]
            chain = self.rows.matrix()[chosen][:, component.states]
            mu[component.states] = stationary_distribution(sparse.csr_array(chain), sparsely=False)
            mixture.columns[k] = weight, Column(column.policy, costs[:, column.policy] @ mu, mu)
        _weighed(mixture, Limits(self.units.near[self.limits], np.ones(len(self.limits))), VALUE)

    def _tighter(self, best: Mixture, limits: Limits) -> Mixture:
        """The best mixture with limits that are a little tighter; in large models of the same columns, if they do."""
        if not inverted(self.rows):
            again = copy(best)
            if len(again.columns) > 1 and _weighed(again, limits, VALUE):
                return again
        return self.mixture(VALUE, limits, self.limits)

    def _prices(self, best: Mixture) -> Prices:
        """The optimal multipliers (m,) of least norm in the units of the model; themselves in units of the costs."""
        multipliers = np.zeros(self.cmdp.m)
        multipliers[self.limits] = best.multipliers
        tau = self.units.tau
        averages, columns = self.averages(best), [self._column(column) for _, column in best.columns]
        slack = max(averages[0] - best.bound, 0.0)
        found = shadow_prices.unique(multipliers, columns, averages, tau, self._best_at, slack)
        if found is not None:
            return found
        return shadow_prices.least(multipliers, averages[0], columns, tau, self.units.prices, self._best_at, slack)

    def _best_at(self, multipliers: Floats) -> tuple[Floats, float]:
        """The averages (m + 1,) of a policy that is best at given prices (m,), and a bound on their sum for all."""
        total, none = 1.0 + multipliers.sum(), np.zeros(0)
        combined = np.append(1.0, multipliers) @ self.units.costs / total
        found = self._mixture(combined[np.newaxis], VALUE, Limits(none, none))
        return self.averages(found), float(total * found.bound)

    def _executed(self, mixture: Mixture, join: float) -> tuple[Execution, Floats, Floats]:
        """The stationary policy of a mixture, its averages from the start and the spans of its bias (m + 1,)."""
        start = None if self.single is not None else self.cmdp.initial
        made = executable(self.rows, self.components, mixture.columns, start, join / 4)
        chain, costs = chain_of(self.rows, made.policy), self.mean_costs(made.policy)
        found = evaluate_chain(chain, costs, self.cmdp.initial)
        return made, found.average_costs @ self.cmdp.initial, bias_spans(found, self.cmdp.initial)

    def _column(self, column: Column) -> Floats:
        """The averages (m + 1,) of a column, of all costs."""
        return np.asarray(self.units.costs[:, column.policy] @ column.mu)

    def averages(self, mixture: Mixture) -> Floats:
        """The averages (m + 1,) of a mixture, of all costs."""
        return np.asarray(sum(weight * self._column(column) for weight, column in mixture.columns))

    def safest(self, feasible: bool) -> Mixture:
        """The mixture whose largest violation is least."""
        return self._margin(feasible)[1]

    def _margin(self, feasible: bool) -> tuple[float, Mixture]:
        """The largest gamma with J_i <= tau_i - gamma for all i, in the units of the model, and who attains it."""
        tau, unit = self.units.tau[self.limits], self.units.unit[1:][self.limits]
        if len(unit):
            gamma, found = margins.largest(tau, unit, lambda limits: self.mixture(MARGIN, limits, self.limits))
        else:
            gamma, found = np.inf, self.mixture(VALUE, Limits(tau, unit), self.limits)
        gamma = float(np.append(gamma, self.slack[self.constant]).min())
        return (max(gamma, 0.0) if feasible else min(gamma, -TINY)), found

    def _conflict(self, best: Mixture) -> tuple[int, ...]:
        """An irreducible set of limits that cannot hold together, as numbers 1..m.

        A limit on a constant cost may be out of reach by itself. Of the others each is left out in turn, the last
        first, and stays out if the rest is in conflict without it.
        """
        if best.status != INFEASIBLE:
            return (int(np.flatnonzero(self.unmet)[0]) + 1,)
        kept = self.limits
        for i in kept[::-1]:
            without = kept[kept != i]
            if self._in_conflict(without):
                kept = without
        return tuple(int(i) + 1 for i in kept)

    def _in_conflict(self, which: Ints) -> bool:
        if not len(which):
            return False
        limits = Limits(self.units.near[which], np.ones(len(which)))
        return self.mixture(VALUE, limits, which).status == INFEASIBLE

    def mean_costs(self, policy: Floats) -> Floats:
        """The scaled costs (m + 1, S) of a policy (K,)."""
        return np.asarray(self.cmdp.pairs.table(self.units.costs * policy).sum(axis=2))
