"""A stationary policy made for T steps from the initial law.

What is best in the long run may be worthless in T steps, where it lives in places that are reached, or left, once in
10^7. The best policy of all for T steps looks at the time that is left. Among stationary ones the best is hard to find;
here it is looked for in a family that has the right rates of switching by construction.

In the model *with restarts* a run starts anew after every step with probability 1 / N. Its long-run averages are those
of runs of random length, N on average, so all that takes much longer than N is worthless there, too. Its best mixture
has at most m + 1 deterministic policies, the *columns*, with occupancies x_k. A member of the family is the policy

    pi(a | s) = x(s, a) / x(s),     x = sum_k w_k x_k,     N = T or T / 2

Where columns differ it randomises, and where they live apart, the way from one to the other has an occupancy of about
1 / N, and so is the rate of switching. Weights w are chosen by exact evaluation of the first T steps (`finite_time`),
in which averages are nearly linear in w: sequential linear programs, from the weights of the mixture,

    min J_0(w)  subject to  J_i(w) <= tau_i

Where no member keeps the limits, the columns with the least largest violation join; and where that does not help, the
member with the least largest excess is taken. The policy that is best in the long run is tried as well, so the answer
is never worse than that one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from psconrl._core.checks import Floats
from psconrl.cmdp import CMDP
from psconrl.errors import SolverError
from psconrl.planning.compiled.generation import OPTIMAL
from psconrl.planning.compiled.master import VALUE, Limits
from psconrl.planning.components import Column
from psconrl.planning.evaluation import Evaluation, evaluate_chain
from psconrl.planning.executable import chain_of
from psconrl.planning.finite_time import GOOD
from psconrl.planning.lp.highs import LinearProgram, run
from psconrl.planning.shortest_paths import shortest_path_policy
from psconrl.planning.solving import Known

_SEARCH = 1e-9
"""Averages are as exact as this share of a cost's range while weights are looked for."""
_GUARD = 1e-7
"""Limits are lowered by this share of their cost's range while weights are looked for: half of it may be missed."""
_SHIFT = 1e-4
"""Weights are shifted by this to see what that does."""
_ROUNDS = 25
_APART = 1e9
"""Units of limits that are further apart than this are treated as if they were no further: solvers see no more."""
_SMALL = 1e-8
"""Steps that promise less than this, or are shorter, end the search."""
_PRICES = (1e2, 1e4, 1e6)
"""Of an excess, while looking for a member that has none."""


class Made(NamedTuple):
    """A policy (K,) and its evaluation over T steps, in the scaled units of a model."""

    policy: Floats
    found: Evaluation


def made_for(known: Known, T: int, longest: Floats) -> Made:
    """The policy for T steps; longest (K,): the one that is best in the long run."""
    best = _Best(known, T)
    best.try_policy(longest)
    for N in (float(T), T / 2) if T > 1 else (1.0,):
        for with_safest in (False, True):
            if best.kept and with_safest:
                break
            try:
                family = _Family(known, T, N, with_safest)
            except SolverError:
                continue  # numbers too uneven for a proof; what else is known will do
            if family.columns:
                best.try_policy(family.policy(_searched(family)))
    return best.made


class _Best:
    """The best policy so far: the least J_0 of those that keep the limits, or else the least largest excess."""

    def __init__(self, known: Known, T: int) -> None:
        self.known, self.T = known, T
        self._key = (np.inf, np.inf)

    @property
    def kept(self) -> bool:
        """Whether the limits hold."""
        return self._key[0] == 0.0

    def try_policy(self, policy: Floats) -> None:
        """Take a policy (K,) if it is better."""
        found = evaluated(self.known, policy, self.T, GOOD)
        J = found.average_costs @ self.known.cmdp.initial
        excess = (J[1:] - self.known.units.tau) * self.known.units.unit[1:]
        key = (max(float(excess[self.known.limits].max(initial=0.0)), 0.0), float(J[0]))
        if key < self._key:
            self._key, self.made = key, Made(policy, found)


def evaluated(known: Known, policy: Floats, T: int, good: float) -> Evaluation:
    """A policy (K,) over T steps, in scaled units."""
    chain = chain_of(known.rows, policy)
    return evaluate_chain(chain, known.mean_costs(policy), known.cmdp.initial, T, good)


def with_restarts(cmdp: CMDP, N: float) -> CMDP:
    """The model in which a run starts anew after every step with probability 1 / N.

    It does so in one more state, the last, in which it is for 1 / (N + 1) of the time and every cost is zero.
    """
    S, A = cmdp.S, cmdp.A
    on = sparse.csr_array(cmdp.matrix * (1.0 - 1.0 / N))
    ends = sparse.csr_array(np.full((S * A, 1), 1.0 / N))
    anew = sparse.csr_array(np.tile(np.append(cmdp.initial, 0.0), (A, 1)))
    matrix = sparse.csr_array(sparse.vstack([sparse.hstack([on, ends]), anew], format="csr"))
    costs = np.concatenate([cmdp.costs, np.zeros((cmdp.m + 1, 1, A))], axis=1)
    available = np.concatenate([cmdp.available, np.ones((1, A), dtype=np.bool_)])
    thresholds, initial = cmdp.thresholds * (N / (N + 1.0)), np.append(cmdp.initial, 0.0)
    return CMDP(matrix, costs, thresholds, initial=initial, available=available)


class _Family:
    """The columns of a model with restarts, and the weights (k,) of its best mixture."""

    def __init__(self, known: Known, T: int, N: float, with_safest: bool) -> None:
        self.known, self.T = known, T
        restarted = Known(with_restarts(known.cmdp, N))
        limits = Limits(restarted.units.near[restarted.limits], np.ones(len(restarted.limits)))
        best = restarted.mixture(VALUE, limits, restarted.limits)
        columns = list(best.columns)
        if known.cmdp.m and (with_safest or best.status != OPTIMAL):
            weight = 0.0 if columns else 1.0
            columns += [(weight * w, column) for w, column in restarted.safest(best.status == OPTIMAL).columns]
        self.weights = np.array([w for w, _ in columns])
        self.columns: list[Column] = [column for _, column in columns]

    def policy(self, w: Floats) -> Floats:
        """The member (K,) with these weights (k,)."""
        rows = self.known.rows
        x, source = np.zeros(rows.K), rows.source
        for weight, column in zip(w, self.columns, strict=True):
            x[column.policy[: rows.S]] += weight * column.law[: rows.S]
        mass = np.bincount(source, x, rows.S)
        policy = np.divide(x, mass[source], out=np.zeros(rows.K), where=mass[source] > 0)
        outside = mass == 0
        if outside.any():
            # Never met from the initial law; from elsewhere the fastest way to where it is.
            way = shortest_path_policy(rows, ~outside).pairs
            policy[np.where(way >= 0, way, self.columns[0].policy[: rows.S])[outside]] = 1.0
        return policy

    def J(self, w: Floats) -> Floats:
        """The averages (m + 1,) of the first T steps, scaled."""
        found = evaluated(self.known, self.policy(w), self.T, _SEARCH)
        return np.asarray(found.average_costs @ self.known.cmdp.initial)


def _searched(family: _Family) -> Floats:
    """The best weights (k,) that are found."""
    w = family.weights
    if len(w) == 1:
        return w
    known = family.known
    tau, unit = known.units.tau[known.limits] - _GUARD, known.units.unit[1:][known.limits]
    corners = [(family.J(corner), corner) for corner in np.eye(len(w))]
    J = family.J(w)
    for price in _PRICES:
        J, w = _descended(family, J, w, tau, np.ones(len(tau)), 1.0, price)
        corner = min(corners, key=lambda pair: _merit(known, pair[0], tau, 1.0, price))
        if _merit(known, corner[0], tau, 1.0, price) < _merit(known, J, tau, 1.0, price):
            J, w = _descended(family, *corner, tau, np.ones(len(tau)), 1.0, price)
        if _excess(known, J, tau) <= _GUARD / 2:
            return w
    measure = np.minimum(unit.max() / unit, _APART)
    J, w = min((J, w), *corners, key=lambda pair: _excess(known, pair[0], tau, measure))
    J, w = _descended(family, J, w, tau, measure, 0.0, 1.0)
    if _excess(known, J, tau) <= _GUARD / 2:
        J, w = _descended(family, J, w, tau, np.ones(len(tau)), 1.0, _PRICES[-1])
    return w


def _excess(known: Known, J: Floats, tau: Floats, measure: Floats | float = 1.0) -> float:
    """The largest excess over limits `tau`, zero if there is none."""
    return max(float(((J[1:][known.limits] - tau) / measure).max(initial=0.0)), 0.0)


def _merit(known: Known, J: Floats, tau: Floats, main: float, price: float, measure: Floats | float = 1.0) -> float:
    return main * float(J[0]) + price * _excess(known, J, tau, measure)


def _descended(
    family: _Family, J: Floats, w: Floats, tau: Floats, measure: Floats, main: float, price: float
) -> tuple[Floats, Floats]:
    """Sequential linear programs from weights w (k,) with averages J: the least main J_0 + price * excess.

    measure (m,): the excess of limit i counts divided by this.
    """
    known, k, radius = family.known, len(w), 1.0
    for _ in range(_ROUNDS):
        towards = np.eye(k) - w
        slopes = np.array([(family.J(w + _SHIFT * way) - J) / _SHIFT for way in towards])
        limited = slopes[:, 1:][:, known.limits]
        merit = _merit(known, J, tau, main, price, measure)
        while True:
            u, promised = _step(main * slopes[:, 0], limited, tau - J[1:][known.limits], measure, radius, price)
            promised += main * float(J[0])
            if merit - promised <= _SMALL * (main + 1e-3 * price) or radius <= _SMALL:
                return J, w
            there = w + u @ towards
            there = np.maximum(there, 0.0) / np.maximum(there, 0.0).sum()
            J_there = family.J(there)
            if _merit(known, J_there, tau, main, price, measure) < merit - 0.1 * (merit - promised):
                J, w, radius = J_there, there, min(2 * radius, 1.0)
                break
            radius /= 4
    return J, w


def _step(
    main: Floats, limited: Floats, room: Floats, measure: Floats, radius: float, price: float
) -> tuple[Floats, float]:
    """How far (k,) to go towards each column, with these slopes: main (k,), limited (k, m); and what that promises.

    room (m,): what is left of the limits. What exceeds it costs its price.
    """
    k, m = limited.shape
    matrix = np.zeros((m + 1, k + 1))
    matrix[:m, :k], matrix[:m, k], matrix[m, :k] = limited.T, -measure, 1.0
    program = LinearProgram(
        cost=np.append(main, price),
        matrix=sparse.csc_array(matrix),
        row_lower=np.full(m + 1, -np.inf),
        row_upper=np.append(room, radius),
        col_lower=np.zeros(k + 1),
        col_upper=np.full(k + 1, np.inf),
    )
    vertex = run(program)
    return np.maximum(vertex.x[:k], 0.0), vertex.objective
