"""Actions that differ by state: a model is the one whose missing actions are copies of an available one, and no more.

Copies change no optimum, so values, margins and prices agree; policies never take what is not available.
"""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest

import psconrl
from psconrl import CMDP, InvalidModelError
from psconrl._core.checks import Bools, Floats
from psconrl._core.pairs import Pairs
from psconrl.planning import best_policy, evaluate, solve, solve_optimistic, threshold_sweep
from psconrl.planning.finite_horizon import solve_finite
from psconrl.planning.intervals import Intervals
from psconrl.planning.model_rows import rows_of, with_pairs
from psconrl.planning.optimistic import best_optimistic

SEEDS = range(30)


class Case(NamedTuple):
    """Arrays with nonsense where an action is not available, and the same with copies there."""

    mask: Bools
    p: Floats
    costs: Floats
    tau: Floats
    copied: tuple[Floats, Floats]

    @property
    def models(self) -> tuple[CMDP, CMDP]:
        return CMDP(self.p, self.costs, self.tau, available=self.mask), CMDP(*self.copied, self.tau)


def case(seed: int, spread: float = 0.5) -> Case:
    rng = np.random.default_rng([seed, 15])
    S, A, m = int(rng.integers(2, 6)), int(rng.integers(2, 5)), int(rng.integers(0, 3))
    mask = (rng.random((S, A)) < 0.6) | (np.arange(A) == rng.integers(A, size=(S, 1)))
    p = rng.dirichlet(np.full(S, spread), (S, A))
    costs, tau = rng.random((m + 1, S, A)), 0.2 + 0.4 * rng.random(m)
    states, actions = np.indices((S, A))
    own = np.where(mask, actions, mask.argmax(axis=1)[:, np.newaxis])
    copied = p[states, own], costs[:, states, own]
    p[~mask], costs[:, ~mask] = np.nan, np.inf
    return Case(mask, p, costs, tau, copied)


def same(mine: Any, theirs: Any, mask: Bools) -> None:
    assert mine.status == theirs.status
    assert mine.value == pytest.approx(theirs.value, abs=1e-7, nan_ok=True)
    assert mine.margin == pytest.approx(theirs.margin, abs=1e-7)
    np.testing.assert_allclose(mine.multipliers, theirs.multipliers, atol=1e-5)
    assert not mine.policy[..., ~mask].any()
    assert not mine.occupancy[~mask].any()
    np.testing.assert_allclose(mine.policy.sum(axis=-1), 1.0)
    assert all(mask[np.arange(len(mask)), member.policy].all() for member in mine.mixture)


@pytest.mark.parametrize("seed", SEEDS)
def test_solve(seed: int) -> None:
    drawn = case(seed, spread=0.05 if seed % 3 == 0 else 0.5)
    cmdp, copied = drawn.models
    mine = solve(cmdp.to_sparse() if seed % 2 else cmdp)
    same(mine, solve(copied), drawn.mask)
    np.testing.assert_allclose(evaluate(cmdp, mine.policy).average_costs @ cmdp.initial, mine.average_costs, atol=1e-9)
    for member in mine.mixture:
        assert member.weight > 0
        averages = evaluate(cmdp, member.policy).average_costs @ cmdp.initial
        np.testing.assert_allclose(averages, member.average_costs, atol=1e-7)


@pytest.mark.parametrize("seed", range(6))
def test_for_some_steps(seed: int) -> None:
    drawn = case(seed)
    cmdp, copied = drawn.models
    mine, theirs = solve(cmdp, horizon=200), solve(copied, horizon=200)
    assert mine.status == theirs.status
    assert mine.value == pytest.approx(theirs.value, abs=1e-7, nan_ok=True)
    assert not mine.policy[~drawn.mask].any()
    np.testing.assert_allclose(mine.average_costs, theirs.average_costs, atol=1e-5)
    first = evaluate(cmdp, mine.policy, horizon=200)
    assert first.average_costs.shape == (cmdp.m + 1, cmdp.S)
    with pytest.raises(InvalidModelError, match="is not available in state"):
        evaluate(cmdp, np.full(drawn.mask.shape, 1 / drawn.mask.shape[1]), horizon=5)


@pytest.mark.parametrize("seed", range(10))
def test_brute_force(seed: int) -> None:
    """Without limits the optimum is the best of all deterministic policies of available actions."""
    drawn = case(seed)
    cmdp = CMDP(drawn.p, drawn.costs[:1], available=drawn.mask)
    choices = [np.flatnonzero(own) for own in drawn.mask]
    best = min(evaluate(cmdp, np.array(policy)).average_costs[0, 0] for policy in product(*choices))
    assert solve(cmdp).value == pytest.approx(best, abs=1e-9)


def test_sweep() -> None:
    drawn = next(c for c in map(case, range(100)) if len(c.tau) and solve(c.models[0]).feasible)
    mine, theirs = (threshold_sweep(model, points=7) for model in drawn.models)
    np.testing.assert_allclose(mine.thresholds, theirs.thresholds, atol=1e-8)
    np.testing.assert_allclose(mine.values, theirs.values, atol=1e-7)


@pytest.mark.parametrize("method", ["compiled", "components"])
@pytest.mark.parametrize("seed", range(8))
def test_best_policy(seed: int, method: Any) -> None:
    drawn = case(seed)
    mine = best_policy(drawn.p, drawn.costs, drawn.tau, join=1e-3, method=method, available=drawn.mask)
    theirs = best_policy(*drawn.copied, drawn.tau, join=1e-3, method=method)
    assert mine.feasible == theirs.feasible
    if not mine.feasible:
        return
    assert mine.value == pytest.approx(theirs.value, abs=1e-7)
    assert mine.policy is not None
    assert mine.policy.shape == drawn.mask.shape
    assert not mine.policy[~drawn.mask].any()
    again = best_policy(drawn.p, drawn.costs, drawn.tau, join=1e-3, available=drawn.mask, start=mine.start)
    assert again.value == pytest.approx(mine.value, abs=1e-9)


def test_rows_say_themselves_what_is_available() -> None:
    drawn = case(1)
    rows = rows_of(drawn.models[0])
    with pytest.raises(psconrl.InvalidArgumentError, match="leave out available"):
        best_policy(rows, drawn.costs, drawn.tau, join=0.1, available=drawn.mask)
    pairs = Pairs(drawn.mask)
    assert with_pairs(rows, pairs) is rows
    whole = rows_of(CMDP(*drawn.copied, drawn.tau))
    part = with_pairs(whole, pairs)
    np.testing.assert_array_equal(part.matrix().toarray(), rows.matrix().toarray())
    np.testing.assert_array_equal(part.begin, rows.begin)


def test_a_policy_keeps_its_shape_where_numbers_of_actions_differ() -> None:
    """One state with one action, one with three: four pairs, but no table of two by two."""
    cmdp = CMDP(np.full((2, 3, 2), 0.5), np.zeros((1, 2, 3)), available=[[True, False, False], [True, True, True]])
    assert best_policy(rows_of(cmdp), np.zeros((1, 4)), (), join=0.1).policy.shape == (4,)  # type: ignore[union-attr]


@pytest.mark.parametrize("method", ["compiled", "highs"])
@pytest.mark.parametrize("seed", range(12))
def test_optimistic(seed: int, method: Any) -> None:
    drawn = case(seed)
    radius = 0.3 * np.random.default_rng(seed).random(drawn.mask.shape)
    states, actions = np.indices(drawn.mask.shape)
    own = np.where(drawn.mask, actions, drawn.mask.argmax(axis=1)[:, np.newaxis])
    given = np.where(drawn.mask, radius, -1.0)
    mine = solve_optimistic(drawn.p, given, drawn.costs, drawn.tau, method=method, available=drawn.mask)
    same(mine, solve_optimistic(drawn.copied[0], radius[states, own], drawn.copied[1], drawn.tau), drawn.mask)
    assert mine.transitions is not None
    assert not mine.transitions[~drawn.mask].any()
    apart = np.abs(mine.transitions - drawn.p)[drawn.mask]
    assert (apart <= radius[drawn.mask][:, np.newaxis] + 1e-9).all()


@pytest.mark.parametrize("seed", range(12))
def test_the_fast_ways_of_optimists(seed: int) -> None:
    drawn, pairs = case(seed), Pairs(case(seed).mask)
    p, costs = (np.where(np.isfinite(array), array, 0.0) for array in (drawn.p, drawn.costs))
    radius, H = np.full(drawn.mask.shape, 0.1), 4
    mine = best_optimistic(p, radius, costs, drawn.tau, join=0.1, pairs=pairs)
    theirs = best_optimistic(drawn.copied[0], radius, drawn.copied[1], drawn.tau, join=0.1)
    assert mine.feasible == theirs.feasible
    assert mine.value == pytest.approx(theirs.value, abs=1e-8, nan_ok=True)
    if mine.policy is not None:
        assert not mine.policy[~drawn.mask].any()
        again = best_optimistic(p, radius, costs, drawn.tau, join=0.1, pairs=pairs, start=mine.start)
        assert again.value == pytest.approx(mine.value, abs=1e-9)
    budgets = H * drawn.tau + 0.3
    plan = solve_finite(Intervals.around(p, radius, drawn.mask), costs, budgets, H, 0, pairs=pairs)
    other = solve_finite(Intervals.around(drawn.copied[0], radius), drawn.copied[1], budgets, H, 0)
    assert plan.feasible == other.feasible
    assert plan.value == pytest.approx(other.value, abs=1e-8, nan_ok=True)
    assert not plan.policy[:, ~drawn.mask].any()
    np.testing.assert_allclose(plan.policy.sum(axis=2), 1.0)


def test_only_the_sets_of_available_actions_must_not_be_empty() -> None:
    p, radius = np.zeros((2, 2, 2)), np.zeros((2, 2))
    p[:, 0] = 0.5
    mask = np.array([[True, False], [True, False]])
    assert solve_optimistic(p, radius, np.zeros((1, 2, 2)), available=mask).feasible
    with pytest.raises(InvalidModelError, match=r"p_hat\[0, 1\]"):
        solve_optimistic(p, radius, np.zeros((1, 2, 2)))
