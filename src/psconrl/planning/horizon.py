"""A stationary policy made for T steps from the initial distribution.

What is best in the long run may be worthless in T steps, where it lives in places that are reached, or left, once in
10^7. The best policy of all for T steps looks at the time that is left. Among stationary ones the best is hard to find;
here it is looked for in a family that has the right rates of switching by construction.

In the model *with restarts* a run starts anew after every step with probability 1 / N. Its long-run averages are those
of runs of random length, N on average, so all that takes much longer than N is worthless there, too. Its best mixture
has at most m + 1 deterministic policies, the *columns*, with occupancies x_k. A member of the family is the policy

    pi(a | s) = x(s, a) / x(s),     x = sum_k w_k x_k,     N = T or T / 2

Where columns differ it randomises, and where they live apart, the path from one to the other has an occupancy of about
1 / N, and so is the rate of switching. Weights w are chosen by exact evaluation of the first T steps (`finite_time`),
in which averages are nearly linear in w: sequential quadratic programs, from the weights of the mixture,

    min J_0(w)  subject to  J_i(w) <= tau_i

Where no member keeps the limits, the columns with the least largest violation join; and where that does not help, the
member with the least largest excess is taken. The policy that is best in the long run is tried as well, so the answer
is never worse than that one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from psconrl._core.checks import Floats
from psconrl.errors import SolverError
from psconrl.planning.compiled.generation import OPTIMAL
from psconrl.planning.compiled.master import VALUE, Limits
from psconrl.planning.components import Column
from psconrl.planning.criteria import Restarted
from psconrl.planning.evaluation import Evaluation, evaluate_chain
from psconrl.planning.executable import chain_of, policy_of_occupancy
from psconrl.planning.scaled_model import ScaledModel
from psconrl.planning.tolerances import EVAL_TOL, MAX_UNIT_RATIO, NOISE, PROVEN


class Made(NamedTuple):
    """A policy (K,) and its evaluation over T steps, in the scaled units of a model."""

    policy: Floats
    found: Evaluation


def made_for(model: ScaledModel, T: int, longest: Floats) -> Made:
    """The policy for T steps; longest (K,): the one that is best in the long run."""
    best = _Best(model, T)
    best.try_policy(longest)
    for N in (float(T), T / 2) if T > 1 else (1.0,):
        for with_safest in (False, True):
            if best.kept and with_safest:
                break
            try:
                family = _Family(model, T, N, with_safest)
            except SolverError:
                continue  # numbers too uneven for a proof; what else there is will do
            if family.columns:
                best.try_policy(family.policy(_searched(family)))
    return best.made


class _Best:
    """The best policy so far: the least J_0 of those that keep the limits, or else the least largest excess."""

    def __init__(self, model: ScaledModel, T: int) -> None:
        self.model, self.T = model, T
        self._key = (np.inf, np.inf)

    @property
    def kept(self) -> bool:
        """Whether the limits hold."""
        return self._key[0] == 0.0

    def try_policy(self, policy: Floats) -> None:
        """Take a policy (K,) if it is better."""
        found = evaluated(self.model, policy, self.T, NOISE)
        J = found.average_costs @ self.model.cmdp.initial
        excess = (J[1:] - self.model.units.tau) * self.model.units.unit[1:]
        key = (max(float(excess[self.model.limits].max(initial=0.0)), 0.0), float(J[0]))
        if key < self._key:
            self._key, self.made = key, Made(policy, found)


def evaluated(model: ScaledModel, policy: Floats, T: int, good: float) -> Evaluation:
    """A policy (K,) over T steps, in scaled units."""
    chain = chain_of(model.rows, policy)
    return evaluate_chain(chain, model.mean_costs(policy), model.cmdp.initial, T, good)


class _Family:
    """The columns of a model with restarts, and the weights (k,) of its best mixture."""

    def __init__(self, model: ScaledModel, T: int, N: float, with_safest: bool) -> None:
        self.model, self.T = model, T
        on = 1.0 - 1.0 / N
        totals = model.cmdp.replace(thresholds=model.cmdp.thresholds / (1.0 - on))  # as the number of steps is rounded
        self.restarted = Restarted.of(totals, on, None)
        restarted = ScaledModel(self.restarted.model)
        limits = Limits(restarted.units.near[restarted.limits], np.ones(len(restarted.limits)))
        best = restarted.mixture(VALUE, limits, restarted.limits)
        columns = list(best.columns)
        if model.cmdp.m and (with_safest or best.status != OPTIMAL):
            weight = 0.0 if columns else 1.0
            columns += [(weight * w, column) for w, column in restarted.safest(best.status == OPTIMAL).columns]
        self.first = restarted.rows.begin[:-1]
        self.weights = np.array([w for w, _ in columns])
        self.columns: list[Column] = [column for _, column in columns]

    def policy(self, w: Floats) -> Floats:
        """The member (K,) with these weights (k,)."""
        rows = self.model.rows
        x, first = np.zeros(rows.K), rows.begin[self.restarted.places]
        for weight, column in zip(w, self.columns, strict=True):
            x[first + (column.policy - self.first)[:-1]] += weight * column.mu[:-1]
        # States that are never met from the start take the shortest path to where it is.
        return policy_of_occupancy(rows, x)[0]

    def J(self, w: Floats) -> Floats:
        """The averages (m + 1,) of the first T steps, scaled."""
        found = evaluated(self.model, self.policy(w), self.T, EVAL_TOL)
        return np.asarray(found.average_costs @ self.model.cmdp.initial)


def _searched(family: _Family) -> Floats:
    """The best weights (k,) that are found: the least J_0 within the limits, or else the least largest excess."""
    w = family.weights
    if len(w) == 1:
        return w
    model = family.model
    # A little below the limits, so that they hold in spite of what the search leaves.
    tau, unit = model.units.tau[model.limits] - 10 * PROVEN, model.units.unit[1:][model.limits]
    measure = np.minimum(unit.max() / unit, MAX_UNIT_RATIO)

    def room(w: Floats, measure: Floats | float = 1.0) -> Floats:
        return np.asarray((tau - family.J(w)[1:][model.limits]) / measure)

    def least_cost(w: Floats) -> Floats:
        return _minimized(lambda w: float(family.J(w)[0]), room, w, len(w))

    w = least_cost(w)
    if room(w).min() < -5 * PROVEN:
        start = max([w, *np.eye(len(w))], key=lambda w: float(room(w, measure).min()))
        start = np.append(start, max(-float(room(start, measure).min()), 0.0))
        w = _minimized(lambda x: float(x[-1]), lambda x: room(x[:-1], measure) + x[-1], start, len(w))[:-1]
        if room(w).min() >= -5 * PROVEN:
            w = least_cost(w)
    return w


def _minimized(cost: Callable[[Floats], float], room: Callable[[Floats], Floats], x: Floats, k: int) -> Floats:
    """The x >= 0 (n,) of least cost with room(x) >= 0 whose first k numbers are weights, from a start on."""
    found = minimize(
        cost,
        x,
        method="SLSQP",
        bounds=[(0.0, None)] * len(x),
        constraints=[{"type": "ineq", "fun": room}, {"type": "eq", "fun": lambda x: x[:k].sum() - 1.0}],
        options={"eps": 1e-4, "ftol": PROVEN},
    )
    return np.maximum(found.x, 0.0)
