"""Exact long-run averages and biases of a stationary policy.

The policy induces a chain P with costs c. In each recurrent class C the average is g_C = x_C' c with x_C the
stationary distribution; a transient state inherits g = P g. The bias solves h = c - g + P h with x_C' h = 0 in every
class. Periodic and multichain policies are covered: averages are Cesaro limits.

`chains` says how they are found. What iteration finds is checked by the equations of the bias.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Floats, Ints
from psconrl._core.graph import closed_classes, reachable
from psconrl._core.njit import solved_at_once
from psconrl.cmdp import CMDP, require_model
from psconrl.errors import InvalidArgumentError, InvalidModelError, SolverError
from psconrl.planning import relaxation
from psconrl.planning.chains import SolvedChain, chain_of, solve_chain
from psconrl.planning.compiled.elimination import eliminate, residuals
from psconrl.planning.finite_time import Setting, first_steps
from psconrl.planning.tolerances import EPS, EVAL_TOL, NOISE


@dataclass(frozen=True, eq=False)
class Evaluation:
    """What a stationary policy does in the long run, and in the first steps if a horizon was given.

    Attributes:
        average_costs: (m + 1, S), the expected average of each cost from each start state: of the first `horizon`
            steps, or in the long run without one.
        long_run_costs: (m + 1, S), the long-run averages.
        error: (m + 1,), bounds: no average of cost i is off by more than error[i]; `psconrl.planning.chains` and
            `finite_time` say why.
        horizon: the number of steps, None for the long run.
        time_step: the time between the steps of `chain`; not 1 for models with durations.
        stationary: (S,), long-run share of time in each state, starting from the model's initial distribution.
        bias: (m + 1, S), the expected total cost above the average, from each start state (Cesaro sense); infinite
            where it is beyond the range of floats.
        classes: the policy's recurrent classes.
    """

    average_costs: Floats
    stationary: Floats
    bias: Floats
    classes: tuple[Ints, ...]
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


@dataclass(frozen=True, eq=False)
class Totals:
    """What a policy costs in total, discounted or over an episode, from every start state.

    Attributes:
        total_costs: (m + 1, S), the expected totals.
        average_costs: (m + 1, S), the same per step: (1 - discount) or 1 / episode times the totals.
        discount: the discount factor, None for episodes.
        episode: the number of steps, None for discounted totals.
    """

    total_costs: Floats
    average_costs: Floats
    discount: float | None = None
    episode: int | None = None


def check_criterion(cmdp: CMDP, discount: float | None, episode: int | None) -> None:
    """Refuse two criteria at once, one out of range, and a model with durations."""
    if discount is not None and episode is not None:
        raise InvalidArgumentError("discount and episode are two criteria; give one of them")
    if discount is not None:
        checks.real(discount, "discount", "at least 0 and below 1", lambda g: 0 <= g < 1)
    else:
        checks.whole(episode, "episode")
    if cmdp.durations is not None:
        raise InvalidArgumentError(
            "discount and episode count steps, but this model has durations; "
            "cmdp.uniformized() is a model with equal steps"
        )


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
        horizon: a number T of steps; the averages are then those expected over the first T, with the long-run ones in
            addition. The work does not grow with T.
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
        return replace(found, bias=step * found.bias, time_step=step)
    chain, costs = _chain(cmdp, policy)
    work = cmdp.S**2 * (cmdp.m + 1) ** 2
    return solved_at_once(work, eliminate, lambda: evaluate_chain(chain, costs, cmdp.initial, steps))


def _chain(cmdp: CMDP, policy: ArrayLike) -> tuple[sparse.csr_array, Floats]:
    """The chain (S, S) of a policy and its costs (m + 1, S)."""
    actions = _actions(cmdp, policy)
    if actions is None:
        pi = cmdp.check_policy(policy)
        return cmdp.policy_matrix(pi), np.einsum("isa,sa->is", cmdp.costs, pi)
    states = np.arange(cmdp.S)
    return cmdp.matrix[states * cmdp.A + actions], cmdp.costs[:, states, actions]


def time_shares(cmdp: CMDP, policy: Floats) -> Floats:
    """The shares of time (S, A) that a policy of decisions (S, A) gives to the actions of each state."""
    assert cmdp.durations is not None
    return normalized(policy * cmdp.durations)


def normalized(weights: Floats) -> Floats:
    """Weights (..., n) divided by their sums."""
    return np.asarray(weights / weights.sum(axis=-1, keepdims=True))


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
    matrix: sparse.csr_array, costs: Floats, initial: Floats, horizon: int | None = None, good: float = NOISE
) -> Evaluation:
    """The same for a chain (S, S) with costs (n, S) and an initial distribution (S,).

    good: averages of the first steps need to be no more exact than this share of their cost's range.
    """
    chain, classes = chain_of(matrix), closed_classes(matrix)
    solved = solve_chain(chain, classes)
    weights = np.append(solved.shares(initial), 0.0)
    # In units of its range, a power of two, and from its least value on, each cost is of ordinary size.
    least, most, unit = costs.min(axis=1)[:, np.newaxis], costs.max(axis=1)[:, np.newaxis], _units(costs)[:, np.newaxis]
    scaled = (costs - least) / unit
    gains, bias = np.empty_like(costs), np.empty_like(costs)
    for i, cost in enumerate(scaled):
        gains[i] = solved.values(solved.averages(cost))
        bias[i] = solved.bias(cost - gains[i])
    drift = _drift(solved, gains)
    averages = long_run = np.clip(gains * unit + least, least, most)
    error = drift + [_off(solved, cost - g, h) for cost, g, h in zip(scaled, gains, bias, strict=True)]
    if horizon is not None:
        first = first_steps(Setting(chain, scaled, gains, bias, drift), horizon, good)
        averages, error = np.clip(first.values * unit + least, least, most), first.error
    # Costs far from zero are rounded, and so are their averages, by more than their range is.
    error = error * unit[:, 0] + 4 * EPS * np.abs(costs).max(axis=1)
    with np.errstate(over="ignore"):
        bias *= unit
    return Evaluation(
        averages,
        weights[solved.label] * solved.stationary,
        bias,
        tuple(classes),
        long_run_costs=long_run,
        error=np.minimum(error, np.ptp(costs, axis=1)),
        chain=matrix,
        horizon=horizon,
    )


def _drift(solved: SolvedChain, gains: Floats) -> Floats:
    """Bounds (n,) on what the averages of transient states may be off by; nothing where there is one class."""
    transient = solved.label < 0
    if len(solved.classes) == 1 or not transient.any():
        return np.zeros(len(gains))
    amounts = np.zeros(gains.shape[1])
    failed = [np.add(*np.abs(residuals(solved.chain, amounts, 0.0, g)))[transient].max() for g in gains]
    return np.minimum(np.array(failed) * solved.collected(transient.astype(np.float64)).max(), solved.error)


def _off(solved: SolvedChain, amounts: Floats, h: Floats) -> float:
    """What the averages in a recurrent class are off by at most, by the equations of their bias h (S,) or otherwise.

    SolverError where they are by iteration and not certain.
    """
    off = solved.averages(np.add(*np.abs(residuals(solved.chain, amounts, 2.0, h)))).max()
    if solved.error == np.inf and not off <= EVAL_TOL:
        raise SolverError(
            f"the equations of a policy's bias fail by {off:.2g} of a cost's range on average, after refinement; "
            "the averages are not certain"
        )
    return float(np.fmin(off, solved.error))


def bias_spans(found: Evaluation, initial: Floats) -> Floats:
    """The spans (n,) of the biases over the states that an initial distribution (S,) leads to; inf where a bias is."""
    bias = found.bias[:, reachable(found.chain, initial > 0)]
    return np.array([np.ptp(h) if np.isfinite(h).all() else np.inf for h in bias])


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
