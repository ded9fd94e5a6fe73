"""Optimistic planning by compiled columns against the linear program, on sets of every kind."""

from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import psconrl
from psconrl import agents
from psconrl._core.checks import Floats, Ints
from psconrl.agents import ucrl_cmdp
from psconrl.cmdp import CMDP
from psconrl.errors import SolverError
from psconrl.planning import solve_optimistic
from psconrl.planning.compiled import confidence_sets as sets
from psconrl.planning.compiled import optimistic as kernels
from psconrl.planning.for_agents import BestPolicy
from psconrl.planning.intervals import Intervals, in_rows, set_by_rows
from psconrl.planning.optimistic import _by, _Columns, _Program, best_optimistic
from psconrl.planning.tolerances import PROVEN, TIE_BREAK
from psconrl.planning.units import Units
from tests.planning.test_optimistic import bounds

Case = tuple[Floats, Floats, Floats, Floats]


def case(seed: int) -> Case:
    """Sets around smooth, spiky or deterministic centres; radii large, tiny, zero here and there, as after n visits."""
    rng = np.random.default_rng(np.random.SeedSequence([7, seed]))
    S, A, m = int(rng.integers(2, 13)), int(rng.integers(1, 5)), int(rng.integers(0, 4))
    p_hat = rng.dirichlet(np.full(S, 10.0 ** rng.uniform(-2, 0.5)), (S, A))
    if rng.random() < 0.3:
        p_hat = np.eye(S)[rng.integers(0, S, (S, A))]
    kinds = (
        rng.uniform(0.0, 0.4, (S, A)),
        10.0 ** rng.uniform(-6, 0, (S, A)),
        rng.uniform(0.0, 0.4, (S, A)) * (rng.random((S, A)) < 0.7),
        rng.choice([0.0, 1e-3, 0.1, 1.0], (S, A)),
        1 / np.sqrt(rng.integers(1, 200, (S, A))),
    )
    radius = kinds[int(rng.integers(len(kinds)))]
    never = rng.random((S, A)) < 0.15
    p_hat[never], radius[never] = 0.0, 1.0
    if rng.random() < 0.4:
        radius = radius[:, :, np.newaxis] * rng.uniform(0.5, 1.0, (S, A, S)) ** ~never[:, :, np.newaxis]
    costs = rng.random((m + 1, S, A))
    if rng.random() < 0.3:  # ties
        costs = np.round(costs)
    return p_hat, radius, costs, rng.uniform(0.0, 0.7, m)


def check(seed: int) -> tuple[bool, bool]:
    """Both methods agree to 1e-8 and the belief is a member; whether columns found it, and whether it is feasible."""
    p_hat, radius, costs, thresholds = case(seed)
    intervals = Intervals.around(p_hat, radius)
    frame = CMDP(intervals.nearest(), costs, thresholds)
    units = Units.of(costs.reshape(len(costs), -1), thresholds)
    p, rows = frame.to_dense().transitions, set_by_rows(intervals, frame.pairs)
    wanted = _by(_Program(rows, in_rows(p, frame.pairs), frame.pairs.source, units.costs), units, np.inf)
    try:
        found = _by(_Columns(intervals, frame, units, 1e-12), units, PROVEN)
    except SolverError:
        assert (radius == 0).any()  # else every state can be left, and columns never fail
        return False, wanted.feasible
    (S, A, _), p = p_hat.shape, found.p.reshape(p_hat.shape)
    if len(thresholds):
        assert found.margin == pytest.approx(wanted.margin, abs=1e-8)
    np.testing.assert_allclose(found.value, wanted.value, atol=1e-8)
    assert not found.bound > wanted.value + 1e-8
    lower, upper = bounds(p_hat, radius)
    np.testing.assert_allclose(p.sum(axis=2), 1.0, rtol=1e-12)
    assert (p >= lower - 1e-12).all()
    assert (p <= upper + 1e-12).all()
    # The occupancy is balanced in the model believed in, and costs what is said.
    mu = np.zeros(S * A)
    for weight, pairs, law in found.columns:
        mu[pairs] += weight * law
    np.testing.assert_allclose(mu @ p.reshape(S * A, S), mu.reshape(S, A).sum(axis=1), atol=1e-12)
    averages = units.costs @ mu
    assert found.feasible == wanted.feasible
    if found.feasible:
        assert averages[0] == pytest.approx(found.value, abs=1e-11)
        assert (averages[1:] <= units.tau + 2e-9).all()
    return True, wanted.feasible


def test_agreement_with_the_linear_program() -> None:
    results = np.array([check(seed) for seed in range(200)])
    assert results[:, 0].mean() > 0.9
    assert 0.2 < results[:, 1].mean() < 0.9  # both answers occur


@settings(deadline=None, max_examples=40)
@given(st.integers(1000, 10**6))
def test_agreement_on_random_sets(seed: int) -> None:
    check(seed)


@pytest.mark.long
def test_agreement_on_many_sets() -> None:
    for seed in range(10**7, 10**7 + 3000):
        check(seed)


@pytest.mark.parametrize("seed", range(40))
def test_a_start_changes_nothing_in_the_value(seed: int) -> None:
    p_hat, radius, costs, thresholds = case(seed)
    radius = radius.max(axis=2) if radius.ndim == 3 else radius
    S, A, _ = p_hat.shape
    cold = best_optimistic(p_hat, radius, costs, thresholds, join=0.1)
    other = best_optimistic(p_hat, radius, costs[::-1].copy(), thresholds, join=0.1)
    rng = np.random.default_rng(seed)
    wild = np.stack([rng.integers(0, A, (3, 1, S)), [[rng.permutation(S)] for _ in range(3)]], axis=1)
    astray = rng.integers(-1, A, size=(S,))
    for start in (cold.start, other.start, {"columns": wild, "paths": astray}):
        warm = best_optimistic(p_hat, radius, costs, thresholds, join=0.1, start=start)
        assert warm.feasible == cold.feasible
        np.testing.assert_allclose(warm.value, cold.value, atol=1e-8)
    again = best_optimistic(p_hat, radius, costs, thresholds, join=0.1)
    np.testing.assert_array_equal(again.policy, cold.policy)


@pytest.mark.parametrize("seed", range(40))
def test_the_fast_policy_is_that_of_the_full_answer(seed: int) -> None:
    """Same value; in the model believed in, its averages are the optimal ones."""
    p_hat, radius, costs, thresholds = case(seed)
    radius = radius.max(axis=2) if radius.ndim == 3 else radius
    best = best_optimistic(p_hat, radius, costs, thresholds, join=0.1)
    full = solve_optimistic(p_hat, radius, costs, thresholds, join=0.1)
    assert best.feasible == full.feasible
    if best.policy is None:
        return
    assert best.value == pytest.approx(full.value, abs=1e-8)
    np.testing.assert_allclose(best.policy.sum(axis=1), 1.0, atol=1e-12)
    assert (best.policy >= 0).all()
    if best.method != "program" and best.classes == 1:
        assert best.gap <= TIE_BREAK + 1e-10


@cache
def along_a_run() -> tuple[tuple[Any, BestPolicy], ...]:
    """What UCRL-CMDP asked for, and got, in a run."""
    seen = []

    def recording(*arguments: Any, **start: Any) -> BestPolicy:
        answer = best_optimistic(*arguments, **start)
        seen.append((tuple(np.array(part) for part in arguments), answer))
        return answer

    cmdp = psconrl.make("marsrover-4x4")
    agent = agents.UCRLCMDP(cmdp.problem("estimated"), bonus="simple", scale=0.1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ucrl_cmdp, "best_optimistic", recording)
        run = psconrl.simulate(agent, cmdp, 5000, 0)
    assert run.state["learner"]["carry"]["fallbacks"].tolist() == [0]
    return tuple(seen)


def test_certified_along_a_run() -> None:
    for _, answer in along_a_run():
        assert answer.gap <= TIE_BREAK + 1e-10
        assert answer.feasible


def test_agreement_along_a_run() -> None:
    for (p_hat, radius, costs, thresholds), answer in along_a_run()[::12]:
        wanted = solve_optimistic(p_hat, radius, costs, thresholds, method="highs")
        assert answer.value == pytest.approx(wanted.value, abs=1e-8)


def test_where_columns_fail_the_program_solves() -> None:
    """Two states, each kept for ever, hardly any doubt about it: no chain leads everywhere to one state."""
    p_hat = np.stack([np.eye(3)[:1], np.eye(3)[1:2], np.array([[0.0, 0.5, 0.5]])])
    costs = np.array([[[1.0], [0.0], [1.0]]])
    radius = np.array([[0.0], [0.0], [0.25]])
    best = best_optimistic(p_hat, radius, costs, np.zeros(0), join=0.1)
    assert best.method == "program"
    assert best.value == pytest.approx(0.0)
    assert solve_optimistic(p_hat, radius, costs).value == pytest.approx(0.0)


def test_an_unknown_method() -> None:
    with pytest.raises(ValueError, match="method is 'simplex'"):
        solve_optimistic(np.eye(2)[:, np.newaxis], np.ones((2, 1)), np.zeros((1, 2, 1)), method="simplex")  # type: ignore[arg-type]


def test_twins_of_the_kernels() -> None:
    """The compiled evaluation of a column and its plain twin, bit for bit."""
    rng = np.random.default_rng(0)
    S, A = 6, 3
    within = sets.around(rng.dirichlet(np.ones(S), S * A), rng.uniform(0.01, 0.2, S * A))
    costs = rng.random((3, S * A))
    actions: Ints = rng.integers(0, A, S)
    results = []
    for evaluate in (kernels.evaluate, kernels.evaluate.py_func):
        work = kernels.Work(np.empty((S, S)), np.empty((S, 4)), np.empty(S, dtype=np.int64), np.empty(S))
        J, H = np.empty(3), np.empty((3, S))
        assert evaluate(within, costs, actions, np.arange(S), work, J, H)
        results.append((J, H))
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-14)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-12, atol=1e-14)
