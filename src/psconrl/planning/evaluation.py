"""Exact long-run averages and biases of a stationary policy.

The policy induces a chain P with costs c. In each recurrent class C the average is g_C = x_C' c with x_C the
stationary law; a transient state inherits g = P g. The bias solves h = c - g + P h with x_C' h = 0 in every
class. Periodic and multichain policies are covered: averages are Cesaro limits.

All states but one of each recurrent class are eliminated without subtractions, in an order that fills in little:
laws and averages are accurate to rounding in every entry, however nearly decomposable the chain is. The one that is
kept is likely: where the law says that it was not, the likeliest is taken instead, and all is done again; the law does
not depend on it, but the bias is what is collected on the way to it. Where elimination would fill in too much, in
random graphs, chains mix fast, and iteration takes its place; in large grids a nearby chain is eliminated, and GMRES
brings back what it lacks. In the end the equations of the bias are checked.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Protocol, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Floats, Ints
from psconrl._core.graph import closed_classes, reachable
from psconrl._core.lazy import lazy_import
from psconrl.cmdp import CMDP, require_model
from psconrl.errors import InvalidArgumentError, InvalidModelError, SolverError
from psconrl.planning.compiled.elimination import (
    Chain,
    as_shares,
    collect,
    correct,
    eliminate,
    likely_state,
    residuals,
    visits,
)
from psconrl.planning.compiled.factors import (
    RARER,
    bias_by,
    elimination_order,
    exactly,
    factor_room,
    factorise,
    law_by,
)
from psconrl.planning.compiled.mixing import pace, settle, spread
from psconrl.planning.compiled.ordering import Order, minimum_degree
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.criteria import Totals, check_criterion, time_shares
from psconrl.planning.finite_time import GOOD, Setting, first_steps

if TYPE_CHECKING:
    from psconrl.planning import relaxation
else:
    relaxation = lazy_import("psconrl.planning.relaxation")

PARTS = 4
"""In so many parts of falling size a bias is held; see `Evaluation.parts`."""
_WORK = 2e4
"""Eliminations of more multiplications than this for each state come only after iteration, which then is faster."""
_MUCH = 1e8
"""So do those of more in all."""
_TAME = 1e3
"""Where random costs have a larger bias, states hardly meet, and a nearby chain says little of the shares they have."""
_ENOUGH = 1e-14
"""Equations of the bias by iteration need not hold better than to this share of the amounts."""
_SMALL = 2000
"""Chains up to this size may be eliminated in an order that fills in more."""
_UNLIKELY = 1e-2
"""A kept state less likely than this share of the likeliest of its class is exchanged for that one."""
_ROUNDING = 16.0
"""Equations of the bias that fail by more than this many times the bound on rounding are solved once more."""
_FAILED = 1e-9
"""Averages that may be off by more than this share of a cost's range are refused."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a stationary policy does in the long run, and in the first steps if a horizon was given.

    Attributes:
        average_costs: (m + 1, S), the expected average of each cost from each start state: of the first `horizon`
            steps, or in the long run without one.
        long_run_costs: (m + 1, S), the long-run averages.
        error: (m + 1,), bounds: no average of cost i is off by more than error[i]; `psconrl.planning.finite_time` says
            why.
        horizon: the number of steps, None for the long run.
        time_step: the time between the steps of `chain`; not 1 for models with durations.
        stationary: (S,), long-run share of time in each state, starting from the model's initial law.
        bias: (m + 1, S), the expected total cost above the average, from each start state (Cesaro sense); infinite
            where it is beyond the range of floats.
        classes: the policy's recurrent classes.
        residual: by how much of a cost's range the equations h = c - g + P h fail on average over a recurrent class,
            the worst of them, bounds on rounding included. No average in one is off by more; inf where a bias is, or
            where it has no digits left.
        parts: (m + 1, L, S), the bias in L parts of falling size, bias = parts.sum(axis=1). Where a chain nearly falls
            apart, the bias is huge, and states that hold together by likely moves share the large parts bit for bit:
            differences taken part by part are accurate although those of the sums are not.
    """

    average_costs: Floats
    stationary: Floats
    bias: Floats
    classes: tuple[Ints, ...]
    residual: float
    parts: Floats
    long_run_costs: Floats
    error: Floats
    chain: sparse.csr_array = field(repr=False)
    horizon: int | None = None
    time_step: float = 1.0

    @cached_property
    def relaxation_time(self) -> float:
        """How slowly the start is forgotten: one over the least distance from 1 of the other eigenvalues of the chain;
        0 if there are no others. A chain of several classes has the eigenvalue 1 several times.

        SolverError where the eigenvalues of a large chain are not found. It is computed when first asked for.
        """
        return self.time_step * relaxation.relaxation_time(self.chain)

    def __repr__(self) -> str:
        S = len(self.stationary)
        low, high = self.average_costs.min(axis=1), self.average_costs.max(axis=1)
        spans = ", ".join(f"{a:.6g}" if a == b else f"{a:.6g}..{b:.6g}" for a, b in zip(low, high, strict=True))
        steps = "" if self.horizon is None else f"horizon={self.horizon}, "
        return f"Evaluation(S={S}, recurrent classes={len(self.classes)}, {steps}average_costs=[{spans}])"


@overload
def evaluate(cmdp: CMDP, policy: ArrayLike, *, horizon: int | None = None) -> Evaluation: ...


@overload
def evaluate(cmdp: CMDP, policy: ArrayLike, *, discount: float | None = None, episode: int | None = None) -> Totals: ...


def evaluate(
    cmdp: CMDP,
    policy: ArrayLike,
    *,
    horizon: int | None = None,
    discount: float | None = None,
    episode: int | None = None,
) -> Evaluation | Totals:
    """Exact averages of all costs from every start state under a stationary policy.

    Args:
        cmdp: the model. With durations, averages are per unit of time.
        policy: probabilities (S, A), or one action (S,) for each state, as integers; for an episode also (H, S, A) or
            (H, S).
        horizon: a number T of steps; the averages are then those that are expected of the first T, and the long-run
            ones stand beside them. What that takes does not grow with T.
        discount: a factor between 0 and 1; asks for discounted totals.
        episode: a number H of steps; asks for totals over these.

    Returns:
        The averages, or the totals if these were asked for.

    >>> import psconrl
    >>> toy = psconrl.make("toy")
    >>> psconrl.evaluate(toy, [[0.0, 1.0], [1.0, 0.0]]).average_costs[1].round(6)
    array([0.526316, 0.526316])
    >>> psconrl.evaluate(toy, [1, 0]).average_costs[1].round(6)
    array([0.526316, 0.526316])
    >>> psconrl.evaluate(toy, [1, 0], horizon=100).average_costs[1].round(6)
    array([0.528809, 0.523546])
    >>> psconrl.evaluate(toy, [1, 0], episode=2).total_costs[1].round(6)
    array([1.1, 1. ])
    """
    require_model(cmdp)
    steps = None if horizon is None else checks.whole(horizon, "horizon")
    if steps is not None and (discount is not None or episode is not None or cmdp.durations is not None):
        raise InvalidArgumentError("horizon goes with averages per step: not with discount, episode or durations")
    if discount is not None or episode is not None:
        return _totals(cmdp, policy, discount, episode)
    if cmdp.durations is not None:
        actions = _actions(cmdp, policy)
        pi = cmdp.check_policy(policy) if actions is None else np.eye(cmdp.A)[actions]
        found = evaluate(cmdp.uniformized(), time_shares(cmdp, pi))
        step = cmdp.time_step
        return replace(found, bias=step * found.bias, parts=step * found.parts, time_step=step)
    return evaluate_chain(*_chain(cmdp, policy), cmdp.initial, steps)


def _chain(cmdp: CMDP, policy: ArrayLike) -> tuple[sparse.csr_array, Floats]:
    """The chain (S, S) of a policy and its costs (m + 1, S)."""
    actions = _actions(cmdp, policy)
    if actions is None:
        pi = cmdp.check_policy(policy)
        return cmdp.policy_matrix(pi), np.einsum("isa,sa->is", cmdp.costs, pi)
    states = np.arange(cmdp.S)
    return cmdp.matrix[states * cmdp.A + actions], cmdp.costs[:, states, actions]


def _totals(cmdp: CMDP, policy: ArrayLike, discount: float | None, episode: int | None) -> Totals:
    """Totals from every start state."""
    check_criterion(cmdp, discount, episode)
    if discount is None:
        assert episode is not None
        given = np.asarray(policy)
        if given.shape[:1] == (episode,) and given.shape[1:] in ((cmdp.S,), (cmdp.S, cmdp.A)):
            layers = [_chain(cmdp, layer) for layer in given]
        else:
            layers = [_chain(cmdp, policy)] * episode
        totals: Floats = np.zeros((cmdp.m + 1, cmdp.S))
        for chain, costs in reversed(layers):
            totals = costs + (chain @ totals.T).T
        return Totals(totals, totals / episode, episode=episode)
    chain, costs = _chain(cmdp, policy)
    S, floor = cmdp.S, costs.min(axis=1, keepdims=True)
    ends = sparse.csr_array(np.full((S, 1), 1 - discount))
    start = sparse.csr_array(np.append(cmdp.initial, 0.0)[np.newaxis])
    restarted = sparse.csr_array(sparse.vstack([sparse.hstack([discount * chain, ends]), start]))
    found = evaluate_chain(restarted, np.hstack([costs, floor]), np.append(cmdp.initial, 0.0))
    # Until it ends, a run costs its bias above that of the end, and the average of all its 1 / (1 - g) steps.
    totals = found.bias[:, :S] - found.bias[:, S:] + found.average_costs[:, :S] / (1 - discount)
    return Totals(totals, (1 - discount) * totals, discount=discount)


def evaluate_chain(
    matrix: sparse.csr_array, costs: Floats, initial: Floats, horizon: int | None = None, good: float = GOOD
) -> Evaluation:
    """The same for a chain (S, S) with costs (n, S) and an initial law (S,).

    good: averages of the first steps need to be no more exact than this share of their cost's range.
    """
    chain, classes = chain_of(matrix), closed_classes(matrix)
    solved = _solve(chain, classes)
    weights = solved.shares(initial)
    stationary = np.zeros(len(initial))
    for weight, states in zip(weights, classes, strict=True):
        stationary[states] = weight * solved.law[states]
    # In units of its range, a power of two, and from its least value on, each cost is of ordinary size.
    least, unit = costs.min(axis=1)[:, np.newaxis], _units(costs)[:, np.newaxis]
    scaled = (costs - least) / unit
    gains, parts, residual = np.empty_like(costs), np.zeros((len(costs), PARTS, len(initial))), np.empty(len(costs))
    for i, cost in enumerate(scaled):
        gains[i] = solved.values(np.array([cost[states] @ solved.law[states] for states in classes]))
        parts[i] = np.ascontiguousarray(solved.bias(cost - gains[i]))
        # Costs far from zero are rounded, and so are their averages, by more than their range is.
        rounded = 4 * 2.0**-53 * float(np.abs(costs[i]).max() / unit[i, 0])
        residual[i] = rounded + _residual(chain, cost - gains[i], parts[i], solved, classes)
    drift, drifted = _drift(solved, chain, classes, gains)
    long_run = np.clip(gains * unit + least, least, costs.max(axis=1)[:, np.newaxis])
    averages, error = long_run, residual + drifted
    if horizon is not None:
        modes = partial(relaxation.slow_modes, Biases(solved, classes), len(initial))
        setting = Setting(chain, classes, solved.law, scaled, gains, parts, drift, drifted, modes)
        first = first_steps(setting, horizon, good)
        averages = np.clip(first.values * unit + least, least, costs.max(axis=1)[:, np.newaxis])
        error = first.error + 4 * 2.0**-53 * np.abs(costs).max(axis=1) / unit[:, 0]
    with np.errstate(over="ignore", invalid="ignore"):
        parts *= unit[:, np.newaxis]
        bias = np.where(np.isfinite(parts[:, 0]), parts.sum(axis=1), parts[:, 0])
    return Evaluation(
        averages,
        stationary,
        bias,
        tuple(classes),
        float(residual.max()),
        parts,
        long_run_costs=long_run,
        error=np.minimum(error * unit[:, 0], np.ptp(costs, axis=1)),
        chain=matrix,
        horizon=horizon,
    )


def _drift(solved: _Solved, chain: Chain, classes: list[Ints], gains: Floats) -> tuple[Floats, Floats]:
    """By how much g = P g fails in transient states, at most, and what that may come to: bounds (n,) for gains (n, S).

    Nothing where there is one class: all states have its average.
    """
    nothing: Floats = np.zeros(len(gains))
    transient = np.ones(gains.shape[1])
    transient[np.concatenate(classes)] = 0.0
    if len(classes) == 1 or not transient.any():
        return nothing, nothing
    drift = np.empty(len(gains))
    for i, g in enumerate(gains):
        left, rounding, _ = residuals(chain, np.zeros(len(g)), 0.0, np.ascontiguousarray(g[np.newaxis]))
        drift[i] = (transient * (np.abs(left) + rounding)).max()
    return drift, drift * float(solved.collected(transient).max())


def bias_spans(found: Evaluation, initial: Floats) -> Floats:
    """The spans (n,) of the biases over the states that are met from an initial law (S,); inf where a bias is."""
    bias = found.bias[:, reachable(found.chain, initial > 0)]
    return np.array([np.ptp(h) if np.isfinite(h).all() else np.inf for h in bias])


def stationary_law(matrix: sparse.csr_array) -> Floats | None:
    """The stationary law of a chain (S, S), without all else that `evaluate_chain` gives; None if there are several."""
    classes = closed_classes(matrix)
    return None if len(classes) > 1 else _solve(chain_of(matrix), classes).law


def chain_of(matrix: sparse.csr_array) -> Chain:
    """A sparse matrix (S, S) as kernels take it."""
    return Chain(
        np.asarray(matrix.indptr, dtype=np.int64),
        np.asarray(matrix.indices, dtype=np.int64),
        np.asarray(matrix.data, dtype=np.float64),
    )


class Biases:
    """The operator that takes costs (S,) of a chain to their biases."""

    def __init__(self, solved: _Solved, classes: list[Ints]) -> None:
        self._solved, self._classes = solved, classes

    @staticmethod
    def of_chain(matrix: sparse.csr_array) -> Biases:
        """That of a chain (S, S)."""
        classes = closed_classes(matrix)
        return Biases(_solve(chain_of(matrix), classes), classes)

    def __call__(self, costs: Floats) -> Floats:
        """The bias (S,) of costs (S,)."""
        law = self._solved.law
        gains = self._solved.values(np.array([costs[states] @ law[states] for states in self._classes]))
        parts = self._solved.bias(costs - gains)
        with np.errstate(over="ignore", invalid="ignore"):
            return np.where(np.isfinite(parts[0]), parts.sum(axis=0), parts[0])


class _Solved(Protocol):
    """A chain of S states with K recurrent classes, ready to be asked.

    law (S,): the stationary law of each class, 0 elsewhere.
    """

    law: Floats

    def shares(self, initial: Floats) -> Floats:
        """The mass (K,) that ends in each class."""

    def values(self, of_classes: Floats) -> Floats:
        """The mean (S,) of values (K,) of the class in which a state ends."""

    def bias(self, amounts: Floats) -> Floats:
        """h = amounts + P h with mean zero in each class, in parts (PARTS, S); amounts (S,), of mean zero in each."""

    def collected(self, amounts: Floats) -> Floats:
        """What is collected (S,) of amounts (S,) of transient states."""


def _solve(chain: Chain, classes: list[Ints]) -> _Solved:
    """By elimination, unless it takes long and iteration converges."""
    kept = np.array([likely_state(chain, int(states[0])) for states in classes], dtype=np.int64)
    order = _order(chain, kept, _WORK * (len(chain.indptr) - 1))
    if not order.complete or order.work > _MUCH:
        if not order.complete:
            mixing = _Mixing(chain, classes)
            if mixing.converged:
                return mixing
        refined = _refined(chain, classes, int(kept[0]))
        if refined.converged:
            return refined
        order = _order(chain, kept, np.inf)
    return _Eliminated(chain, classes, kept, order)


def _order(chain: Chain, kept: Ints, limit: float) -> Order:
    mask = np.zeros(len(chain.indptr) - 1, dtype=np.bool_)
    mask[kept] = True
    return minimum_degree(chain, mask, limit)


class _Eliminated:
    """A chain from which all but one state of each recurrent class are eliminated."""

    def __init__(self, chain: Chain, classes: list[Ints], kept: Ints, order: Order) -> None:
        self.chain, self.classes, self.kept = chain, classes, kept
        self.S = len(chain.indptr) - 1
        self.label = _label(classes, self.S)
        for _ in range(3):
            self._eliminate(order)
            likeliest = np.array([states[self.law[states].argmax()] for states in classes])
            unlikely = self.law[self.kept] < _UNLIKELY * self.law[likeliest]
            if not unlikely.any():
                break
            self.kept = np.where(unlikely, likeliest, self.kept)
            order = _order(chain, self.kept, np.inf)

    def _eliminate(self, order: Order) -> None:
        self.order, self.place = order.order, order.place
        self._by_place = np.argsort(self.place)
        self.elimination = eliminate(self.chain, order.order, order.place)
        if not self.elimination.fine:
            raise SolverError("some states of a chain lead to none of its recurrent classes")
        # The law: expected visits on the way from each kept state back to it.
        start, group = np.zeros(self.S), np.empty(self.S, dtype=np.int64)
        group[self.place] = self.label
        for s in self.kept:
            entries = slice(self.chain.indptr[s], self.chain.indptr[s + 1])
            np.add.at(start, self.place[self.chain.indices[entries]], self.chain.data[entries])
        start[self.place[self.kept]] = 0.0
        m, x = visits(self.elimination, start, False)
        m[self.place[self.kept]], x[self.place[self.kept]] = 1.0, 0
        self.law = as_shares(m, x, group, len(self.classes))[self.place]

    def shares(self, initial: Floats) -> Floats:
        start = np.empty(self.S)
        start[self.place] = initial
        m, x = visits(self.elimination, start, True)
        at = self.place[self.kept]
        return as_shares(m[at], x[at], np.zeros(len(at), dtype=np.int64), 1)

    def values(self, of_classes: Floats) -> Floats:
        if len(self.classes) == 1:
            return np.full(self.S, of_classes[0])
        values = self._collected(np.zeros(self.S), of_classes).sum(axis=0)
        return np.where(self.label >= 0, of_classes[self.label], values)

    def collected(self, amounts: Floats) -> Floats:
        return np.asarray(self._collected(amounts, np.zeros(len(self.classes))).sum(axis=0))

    def bias(self, amounts: Floats) -> Floats:
        parts = self._bias(amounts)
        if self.S <= _SMALL and residuals(self.chain, amounts, 2.0, parts).worst > _ROUNDING:
            # A value is that of the likeliest state it leads to, and more: states must lead to likely ones.
            rest = np.setdiff1d(np.arange(self.S), self.kept)
            order = rest[np.argsort(self.law[rest], kind="stable")]
            place = np.empty(self.S, dtype=np.int64)
            place[np.concatenate([order, np.sort(self.kept)])] = np.arange(self.S)
            self._eliminate(Order(order, place, np.inf, 0, True))
            parts = self._bias(amounts)
        return parts

    def _bias(self, amounts: Floats) -> Floats:
        h = self._collected(amounts, np.zeros(len(self.classes))).sum(axis=0)
        means = np.array([self.law[states] @ np.where(self.law[states] > 0, h[states], 0.0) for states in self.classes])
        parts = self._collected(amounts, np.where(np.isfinite(means), -means, 0.0))
        # One step of refinement. What the averages are rounded by cannot be removed: all states get the same of it.
        left = residuals(self.chain, amounts, 2.0, parts).left
        rounded = np.array([self.law[states] @ left[states] for states in self.classes])
        left = np.where(self.label >= 0, left - rounded[self.label], left)
        parts = np.ascontiguousarray(parts[:, self._by_place])
        correct(self.elimination, left[self.order], parts)
        return parts[:, self.place]

    def _collected(self, amounts: Floats, of_classes: Floats) -> Floats:
        """Amounts (S,) collected on the way to the kept states, plus the values (K,) of those: parts (PARTS, S)."""
        parts = np.zeros((PARTS, self.S))
        parts[0, self.place[self.kept]] = of_classes
        collect(self.elimination, amounts[self.order], parts)
        return np.ascontiguousarray(parts[:, self.place])


class _Mixing:
    """A chain that forgets its start so fast that iteration is enough; `converged` says whether it does."""

    def __init__(self, chain: Chain, classes: list[Ints]) -> None:
        self.chain, self.classes = chain, classes
        S = len(chain.indptr) - 1
        self.label = _label(classes, S)
        self.recurrent = self.label >= 0
        mass, spreads = spread(chain, np.where(self.recurrent, 1.0 / S, 0.0), self.recurrent)
        time = mass * pace(chain)
        self.law = np.where(self.recurrent, time / self._by_class(time)[self.label], 0.0)
        probe = _probe(S)
        averages = np.array([probe[states] @ self.law[states] for states in classes])
        self.converged = spreads and settle(chain, probe - self.values(averages), np.zeros(S)).converged

    def shares(self, initial: Floats) -> Floats:
        if len(self.classes) == 1:
            return np.ones(1)
        shares = self._by_class(spread(self.chain, initial, self.recurrent).values)
        return np.asarray(shares / shares.sum())

    def values(self, of_classes: Floats) -> Floats:
        start = np.where(self.recurrent, of_classes[self.label], of_classes.mean())
        return settle(self.chain, np.zeros(len(start)), start).values

    def collected(self, amounts: Floats) -> Floats:
        return settle(self.chain, amounts, np.zeros(len(amounts))).values

    def bias(self, amounts: Floats) -> Floats:
        bias = settle(self.chain, amounts, np.zeros(len(amounts))).values
        means = self._by_class(self.law * bias)
        bias -= self.values(means) if len(means) > 1 else means[0]
        return np.concatenate([bias[np.newaxis], np.zeros((PARTS - 1, len(bias)))])

    def _by_class(self, mass: Floats) -> Floats:
        sums = np.bincount(self.label[self.recurrent], mass[self.recurrent], len(self.classes))
        return np.asarray(sums, dtype=np.float64)


class _Refined:
    """A chain of one class that leads somewhere: GMRES with the factor of a nearby one; `converged` says if it does."""

    def __init__(self, chain: Chain, classes: list[Ints], r: int, rare: float) -> None:
        S = len(chain.indptr) - 1
        self.rows, self.policy = Rows(np.arange(S + 1), *chain), np.arange(S)
        order = elimination_order(self.rows, self.policy, r)
        self.factor = factorise(self.rows, self.policy, order, rare, factor_room(S, 8 * S))
        self.law = np.zeros(S)
        self.converged = len(classes) == 1 and bool(self.factor.fine[0])
        if self.converged:
            law = np.zeros(S)
            self.converged = law_by(self.rows, self.policy, self.factor, law, np.zeros(S)) < np.inf
            self.law[classes[0]] = law[classes[0]]
        if self.converged:
            self.law /= self.law.sum()
            probe = _probe(S)
            h, g, left = self._bias(probe - probe @ self.law)
            self.converged = abs(g) <= _FAILED and left <= _FAILED * S**0.5 and bool(np.ptp(h) <= _TAME)

    def shares(self, initial: Floats) -> Floats:
        return np.ones(1)

    def values(self, of_classes: Floats) -> Floats:
        return np.full(len(self.law), of_classes[0])

    def collected(self, amounts: Floats) -> Floats:
        return self._bias(amounts)[0]

    def bias(self, amounts: Floats) -> Floats:
        bias = self._bias(amounts)[0]
        bias -= self.law @ bias
        return np.concatenate([bias[np.newaxis], np.zeros((PARTS - 1, len(bias)))])

    def _bias(self, amounts: Floats) -> tuple[Floats, float, float]:
        """The bias (S,), 0 in the reference state, the average, and what is left in the equations, as a norm."""
        bias = np.zeros(len(amounts))
        enough = _ENOUGH * float(np.linalg.norm(amounts))
        g, left = bias_by(self.rows, self.policy, self.factor, amounts, bias, 0.0, exactly(enough))
        return bias, g, left


def _refined(chain: Chain, classes: list[Ints], r: int) -> _Refined:
    """With as many rare moves as it takes."""
    first = _Refined(chain, classes, r, RARER)
    return first if first.converged or len(classes) > 1 else _Refined(chain, classes, r, 0.1 * RARER)


def _probe(S: int) -> Floats:
    """Some costs (S,). Blocks that hardly meet may keep the weights they started with: a bias betrays them."""
    return np.random.default_rng(0).random(S)


def _label(classes: list[Ints], S: int) -> Ints:
    """The class of each state, -1 if transient."""
    label = np.full(S, -1, dtype=np.int64)
    for k, states in enumerate(classes):
        label[states] = k
    return label


def _residual(chain: Chain, amounts: Floats, parts: Floats, solved: _Solved, classes: list[Ints]) -> float:
    """By how much, on average, the equations of a bias fail in a class; inf where the bias has no digits left.

    Averages by elimination do not depend on it. By iteration they may be as wrong as it is: SolverError.
    """
    left, rounding, _ = residuals(chain, amounts, 2.0, parts)
    if not np.isfinite(parts[0, solved.law > 0]).all():
        return float("inf")
    off = max(float(solved.law[states] @ (np.abs(left[states]) + rounding[states])) for states in classes)
    if not off <= _FAILED:
        if isinstance(solved, _Eliminated):
            return float("inf")
        raise SolverError(
            f"the equations of a policy's bias fail by {off:.2g} of a cost's range on average, after refinement; "
            "the averages are not certain"
        )
    return off


def _units(costs: Floats) -> Floats:
    """A power of two near the range of each cost (n,), or near the cost itself if it is constant."""
    width = costs.max(axis=1) - costs.min(axis=1)
    sizes = np.where(width > 0, width, np.abs(costs).max(axis=1))
    return np.exp2(np.floor(np.log2(np.where(sizes > 0, sizes, 1.0))))


def _actions(cmdp: CMDP, policy: ArrayLike) -> Ints | None:
    """A policy that is given by actions (S,); None where it is not."""
    try:
        given = np.asarray(policy)
    except ValueError:
        return None  # rows of unequal length: `check_policy` says so
    if given.ndim != 1 or given.dtype.kind not in "iu":
        return None
    if given.shape != (cmdp.S,):
        raise InvalidModelError(f"the policy has shape {given.shape}; actions must have shape (S,) = {(cmdp.S,)}")
    bad = np.flatnonzero((given < 0) | (given >= cmdp.A))
    if len(bad):
        raise InvalidModelError(f"policy[{bad[0]}] is {given[bad[0]]}; an action must be one of 0, ..., {cmdp.A - 1}")
    if not cmdp.pairs.every:
        cmdp.check_policy(np.eye(cmdp.A)[given])
    return given.astype(np.int64)
