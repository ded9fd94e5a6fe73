"""Policies made for T steps: held against the linear program over all policies that may look at the time."""

from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import linprog

import psconrl
from psconrl import CMDP
from psconrl.errors import InvalidArgumentError, InvalidTypeError, SolverError
from psconrl.planning import horizon
from psconrl.planning.evaluation import evaluate
from psconrl.planning.scaled_model import ScaledModel
from tests.planning import attacks
from tests.planning.reference import random_cmdps


def over_time(cmdp: CMDP, T: int, excess: bool = False) -> float:
    """The optimum over T steps of all policies, by occupancies of every step; nan if infeasible.

    excess: the least largest excess instead.
    """
    pairs, m, T_ones = cmdp.S * cmdp.A, cmdp.m, np.ones(T)
    here = sparse.csr_array((np.ones(pairs), (np.repeat(np.arange(cmdp.S), cmdp.A), np.arange(pairs))))
    balance = sparse.kron(sparse.eye_array(T), here) - sparse.kron(sparse.eye_array(T, k=-1), cmdp.matrix.T)
    start = np.append(cmdp.initial, np.zeros(cmdp.S * (T - 1)))
    costs = [np.kron(T_ones, c.ravel()) / T for c in cmdp.costs]
    more = np.full((m, 1), -1.0 if excess else 0.0)
    found = linprog(
        np.append(np.zeros(pairs * T), 1.0) if excess else np.append(costs[0], 0.0),
        A_ub=sparse.csr_array(np.hstack([np.array(costs[1:]), more])) if m else None,
        b_ub=cmdp.thresholds if m else None,
        A_eq=sparse.hstack([balance, sparse.csr_array((cmdp.S * T, 1))]),
        b_eq=start,
        bounds=[(0, None if there else 0) for there in cmdp.available.ravel()] * T + [(None, None)],
        method="highs",
    )
    return float(found.fun) if found.status == 0 else float("nan")


def check(cmdp: CMDP, T: int) -> tuple[psconrl.Solution, float]:
    """The solution and the bound; all that holds for every answer."""
    solution = psconrl.solve(cmdp, horizon=T)
    found = evaluate(cmdp, solution.policy, horizon=T)
    np.testing.assert_allclose(solution.average_costs, found.average_costs @ cmdp.initial, atol=1e-9)
    np.testing.assert_allclose(solution.long_run_costs, found.long_run_costs @ cmdp.initial, atol=1e-9)
    assert solution.horizon == T
    kept = (solution.average_costs[1:] <= cmdp.thresholds).all()
    assert solution.attained == kept
    long = psconrl.solve(cmdp)
    np.testing.assert_equal((long.value, long.status, long.margin), (solution.value, solution.status, solution.margin))
    before = evaluate(cmdp, long.policy, horizon=T).average_costs @ cmdp.initial
    excess, earlier = ((J[1:] - cmdp.thresholds).max(initial=0.0).clip(0.0) for J in (solution.average_costs, before))
    assert excess < earlier or (excess <= earlier + 1e-12 and solution.average_costs[0] <= before[0] + 1e-12)
    bound = over_time(cmdp, T)
    if kept:
        assert solution.average_costs[0] >= bound - 1e-7
    return solution, bound


@pytest.mark.parametrize(
    ("name", "T", "loss"),
    [
        # What stationary policies lose against those that look at the time, and then some.
        ("riverswim", 20, 0.08),
        ("riverswim", 200, 0.021),
        ("riverswim", 400, 0.012),
        ("marsrover-4x4", 100, 0.001),
        ("garnet", 10, 0.01),
        ("garnet", 100, 0.0015),
        ("media-streaming", 100, 0.04),
        ("queue", 10, 0.017),
        ("queue", 100, 0.006),
        ("inventory", 100, 1e-4),
        ("hospital", 30, 0.004),
    ],
)
def test_near_the_best_of_all_policies(name: str, T: int, loss: float) -> None:
    solution, bound = check(psconrl.make(name), T)
    assert solution.attained
    assert solution.average_costs[0] <= bound + loss


@pytest.mark.parametrize(("S", "T"), [(6, 20_000), (25, 100_000)])
def test_a_river_is_crossed_in_time(S: int, T: int) -> None:
    """The long-run policy is still at the left end after so many steps: its cost is 0.89 and 0.995."""
    river = psconrl.make("riverswim", S=S)
    solution = psconrl.solve(river, horizon=T)
    assert solution.attained
    assert solution.average_costs[0] <= solution.value + 6e-4
    long = evaluate(river, psconrl.solve(river).policy, horizon=T).average_costs[0, 0]
    assert long > 0.88


def test_random_models() -> None:
    """Within a tenth of the range of the best of all policies: over 20 steps the time that is left matters."""
    for cmdp in random_cmdps(12, 3):
        solution, bound = check(cmdp, 20)
        if solution.attained:
            assert solution.average_costs[0] <= bound + 0.1 * np.ptp(cmdp.costs[0])


def test_one_step_is_the_cheapest_action_within_the_limits() -> None:
    p = np.full((2, 2, 2), 0.5)
    costs = np.array([[[0.0, 1.0], [0.3, 0.9]], [[1.0, 0.0], [0.5, 0.5]]])
    solution = psconrl.solve(CMDP(p, costs, [0.25]), horizon=1)
    np.testing.assert_allclose(solution.policy[0], [0.25, 0.75], atol=1e-5)
    np.testing.assert_allclose(solution.average_costs, [0.75, 0.25], atol=1e-5)


def test_stay_here_or_go_there_for_ever() -> None:
    """No stationary policy attains the long-run optimum; in T steps the first one decides, by chance."""
    p = np.zeros((3, 2, 3))
    p[0, 0, 1] = p[0, 1, 2] = 1.0
    p[1, :, 1] = p[2, :, 2] = 1.0
    costs = np.array([[[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]])
    solution, bound = check(CMDP(p, costs, [0.25]), 50)
    assert solution.attained
    assert solution.average_costs[0] == pytest.approx(bound, abs=1e-6)
    assert solution.policy[0, 1] == pytest.approx(0.25 * 50 / 49, abs=1e-5)


def test_limits_that_do_not_hold_in_time() -> None:
    """The toy model meets its limit in the long run only: the least excess over T steps is found."""
    toy = psconrl.make("toy")
    for T in (10, 100):
        solution = psconrl.solve(toy, horizon=T)
        assert solution.status == "optimal"
        assert not solution.attained
        excess = (solution.average_costs[1:] - toy.thresholds).max()
        assert excess <= over_time(toy, T, excess=True) + 1e-3 / T


def test_an_infeasible_model() -> None:
    queue = psconrl.make("queue").with_limits({"service": 0.1, "rejection": 0.05})
    solution, _ = check(queue, 100)
    assert solution.status == "infeasible"
    assert np.isnan(solution.value)
    assert not solution.attained
    excess = (solution.average_costs[1:] - queue.thresholds).max()
    assert excess <= over_time(queue, 100, excess=True) + 1e-3
    assert len(solution.mixture) > 0


def test_an_infeasible_model_whose_start_is_good() -> None:
    """The long-run cost breaks the limit, the first steps do not."""
    p = np.zeros((3, 1, 3))
    p[0, 0, 1] = p[1, 0, 2] = p[2, 0, 2] = 1.0
    cmdp = CMDP(p, np.array([[[0.0], [0.0], [0.0]], [[0.0], [0.0], [1.0]]]), [0.5])
    solution = psconrl.solve(cmdp, horizon=3)
    assert solution.status == "infeasible"
    assert solution.attained
    assert solution.average_costs[1] == pytest.approx(1 / 3)


def test_without_limits() -> None:
    garnet = psconrl.make("garnet")
    free = CMDP(garnet.transitions, garnet.costs[:1], initial=garnet.initial)
    for T, loss in ((5, 0.02), (100, 1e-3)):
        solution, bound = check(free, T)
        assert solution.attained
        assert solution.average_costs[0] <= bound + loss


def test_actions_that_differ_by_state() -> None:
    """The same as with copies of available actions in place of those that are not."""
    inventory = psconrl.make("inventory")
    assert not inventory.available.all()
    first = np.where(inventory.available, np.arange(inventory.A), inventory.available.argmax(axis=1)[:, np.newaxis])
    pairs = (np.arange(inventory.S)[:, np.newaxis] * inventory.A + first).ravel()
    costs = inventory.costs.reshape(2, -1)[:, pairs].reshape(inventory.costs.shape)
    copied = CMDP(inventory.matrix[pairs], costs, inventory.thresholds, initial=inventory.initial)
    masked = psconrl.solve(inventory, horizon=50)
    assert (masked.policy[~inventory.available] == 0).all()
    np.testing.assert_allclose(masked.average_costs, psconrl.solve(copied, horizon=50).average_costs, atol=1e-6)


def test_a_start_law() -> None:
    river = psconrl.make("riverswim").replace(initial=np.full(6, 1 / 6))
    solution, bound = check(river, 200)
    assert solution.attained
    assert solution.average_costs[0] <= bound + 0.02


def test_the_mixture_is_for_the_horizon() -> None:
    river, T = psconrl.make("riverswim"), 20_000
    solution = psconrl.solve(river, horizon=T)
    assert sorted(int(member.core.sum()) for member in solution.mixture) == [1, 4]
    assert solution.switching_times.max() == pytest.approx(5.3125)
    assert "over 20000 steps" in repr(solution)
    queue = psconrl.make("queue")
    solution = psconrl.solve(queue, horizon=T)
    mixed = np.sum([member.weight * member.average_costs for member in solution.mixture], axis=0)
    np.testing.assert_allclose(mixed[1:], queue.thresholds, atol=1e-9)
    assert mixed[0] == pytest.approx(solution.value, abs=1e-3)


def test_a_family_that_cannot_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: Any) -> None:
        raise SolverError("too uneven")

    monkeypatch.setattr(horizon, "_Family", fails)
    toy = psconrl.make("toy")
    np.testing.assert_array_equal(psconrl.solve(toy, horizon=10).policy, psconrl.solve(toy).policy)


@pytest.mark.parametrize(
    ("T", "error", "text"),
    [
        (0, InvalidArgumentError, "horizon is 0; it must be at least 1"),
        (10**12 + 1, InvalidArgumentError, "horizon is 1000000000001; it must be at most 1000000000000"),
        ("10", InvalidTypeError, "horizon is '10'; it must be a whole number"),
    ],
)
def test_horizons_that_are_none(T: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        psconrl.solve(psconrl.make("toy"), horizon=T)


def test_very_long_horizons_are_the_long_run() -> None:
    for name in ("marsrover-4x4", "queue"):
        cmdp = psconrl.make(name)
        solution = psconrl.solve(cmdp, horizon=10**9)
        assert solution.average_costs[0] <= solution.value + 1e-6
        assert (solution.average_costs[1:] <= cmdp.thresholds + 1e-7).all()
    assert ScaledModel(psconrl.make("toy")).single is not None


def test_limits_on_costs_of_very_different_size() -> None:
    """Whose excess, in one measure, is too much for a linear program."""
    for number in (105, 110):
        cmdp = attacks.model("scaled", number, entropy=11)
        found = psconrl.solve(cmdp, horizon=1000)
        averages = evaluate(cmdp, found.policy, horizon=1000).average_costs @ cmdp.initial
        np.testing.assert_allclose(found.average_costs, averages, rtol=1e-6)
