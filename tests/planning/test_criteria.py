"""Discounted totals, episodes and durations against linear programs and values from elsewhere."""

from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog

import psconrl
from psconrl import CMDP, InvalidArgumentError, InvalidModelError, UnknownNameError
from psconrl._core.checks import Floats

MODELS = 40


def random_model(seed: int) -> CMDP:
    rng = np.random.default_rng(seed)
    S, A, m = int(rng.integers(2, 6)), int(rng.integers(1, 4)), int(rng.integers(0, 3))
    p = rng.dirichlet(np.full(S, 0.3), (S, A))
    available = rng.random((S, A)) < 0.8
    available[np.arange(S), rng.integers(A, size=S)] = True
    initial: Any = rng.dirichlet(np.ones(S)) if rng.random() < 0.5 else int(rng.integers(S))
    return CMDP(p, rng.random((m + 1, S, A)) - 0.3, rng.random(m) * 0.6, initial=initial, available=available)


def occupancy_program(cmdp: CMDP, H: int, discount: float) -> Any:
    """The program in the visits of (time, state, action), or with H = 1 in discounted visits of (state, action)."""
    S, A, pairs = cmdp.S, cmdp.A, cmdp.S * cmdp.A
    P = cmdp.matrix.toarray()
    here = np.kron(np.eye(S), np.ones((1, A)))
    flow = np.zeros((H * S, H * pairs))
    for t in range(H):
        flow[t * S : (t + 1) * S, t * pairs : (t + 1) * pairs] = here - (discount * P.T if H == 1 else 0.0)
        if t + 1 < H:
            flow[(t + 1) * S : (t + 2) * S, t * pairs : (t + 1) * pairs] = -P.T
    costs = np.tile(cmdp.costs.reshape(cmdp.m + 1, -1), H)
    bounds = [(0, None if a else 0) for a in np.tile(cmdp.available.ravel(), H)]
    start = np.append(cmdp.initial, np.zeros((H - 1) * S))
    limits = {"A_ub": costs[1:], "b_ub": cmdp.thresholds} if cmdp.m else {}
    return linprog(costs[0], A_eq=flow, b_eq=start, bounds=bounds, **limits)


def agrees(cmdp: CMDP, solution: psconrl.Solution, program: Any, totals: Floats) -> None:
    assert solution.status == ("infeasible" if program.status == 2 else "optimal")
    assert solution.total_costs is not None
    np.testing.assert_allclose(totals @ cmdp.initial, solution.total_costs, atol=1e-7)
    if solution.feasible:
        assert solution.value == pytest.approx(program.fun, abs=1e-6, rel=1e-6)
        assert solution.total_costs[0] == pytest.approx(program.fun, abs=1e-5, rel=1e-5)
        assert (solution.total_costs[1:] <= cmdp.thresholds + 1e-5).all()
        assert solution.proven
        # Any optimal prices explain the value: none is better than those of the program, whose dual is the same.
        if cmdp.m:
            np.testing.assert_allclose(solution.multipliers, -program.ineqlin.marginals, atol=1e-4, rtol=1e-4)
        mean = np.sum([member.weight * member.average_costs for member in solution.mixture], axis=0)
        np.testing.assert_allclose(mean[0], solution.average_costs[0], atol=1e-6)
    else:
        assert solution.margin < 0
        assert solution.conflict


@pytest.mark.parametrize("seed", range(MODELS))
def test_totals_are_those_of_the_occupancy_program(seed: int) -> None:
    cmdp = random_model(seed)
    discount, H = [0.5, 0.9, 0.99][seed % 3], [1, 2, 5, 9][seed % 4]
    scaled = cmdp.replace(thresholds=cmdp.thresholds / (1 - discount))
    solution = psconrl.solve(scaled, discount=discount)
    assert solution.policy.shape == (cmdp.S, cmdp.A)
    found = psconrl.evaluate(scaled, solution.policy, discount=discount)
    agrees(scaled, solution, occupancy_program(scaled, 1, discount), found.total_costs)
    long = cmdp.replace(thresholds=cmdp.thresholds * H)
    solution = psconrl.solve(long, episode=H)
    assert solution.policy.shape == (H, cmdp.S, cmdp.A)
    found = psconrl.evaluate(long, solution.policy, episode=H)
    program = occupancy_program(long, H, 0.0)
    agrees(long, solution, program, found.total_costs)


def test_discounted_totals_of_a_policy_are_those_of_linear_algebra() -> None:
    for seed in range(20):
        cmdp = random_model(seed)
        pi = cmdp.uniform
        direct = np.linalg.solve(
            np.eye(cmdp.S) - 0.97 * cmdp.policy_matrix(pi).toarray(), np.einsum("isa,sa->si", cmdp.costs, pi)
        ).T
        found = psconrl.evaluate(cmdp, pi, discount=0.97)
        np.testing.assert_allclose(found.total_costs, direct, rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(found.average_costs, 0.03 * direct, rtol=1e-9, atol=1e-9)


def test_states_that_are_never_met_have_the_best_action() -> None:
    # From state 0 nobody comes to 1 and 2, where action 1 is better.
    p = np.zeros((3, 2, 3))
    p[0, :, 0] = p[1, :, 2] = p[2, :, 1] = 1.0
    cmdp = CMDP(p, [[[0.0, 1.0], [1.0, 0.0], [1.0, 0.5]]])
    assert psconrl.solve(cmdp, discount=0.9).policy.argmax(axis=1).tolist() == [0, 1, 1]
    assert psconrl.solve(cmdp, episode=3).policy.argmax(axis=2).tolist() == [[0, 1, 1]] * 3


def test_sweeps_of_totals_take_names_and_give_the_values_of_solve() -> None:
    cmdp = psconrl.make("toy", tau=0.5)
    for criterion in ({"discount": 0.8}, {"episode": 6}):
        named = cmdp.replace(cost_names=["work", "sleep"])
        sweep = psconrl.threshold_sweep(named, "sleep", points=5, **criterion)
        for tau, value, price in zip(sweep.thresholds, sweep.values, sweep.multipliers, strict=True):
            solution = psconrl.solve(named.replace(thresholds=[tau + 1e-9]), **criterion)
            assert solution.value == pytest.approx(value, abs=1e-7)
            if sweep.least < tau < sweep.idle:
                assert price == pytest.approx(solution.multipliers, abs=1e-6)
    with pytest.raises(UnknownNameError):
        psconrl.threshold_sweep(named, "slep")


def test_limits_on_totals_that_cannot_be_met_have_nearest_ones_that_can() -> None:
    cmdp = psconrl.make("toy", tau=0.1)
    for criterion in ({"discount": 0.8}, {"episode": 6}):
        near = psconrl.nearest_limits(cmdp, psconrl.solve(cmdp, **criterion)).together
        assert psconrl.solve(cmdp.replace(thresholds=near + 1e-9), **criterion).feasible
        assert not psconrl.solve(cmdp.replace(thresholds=near - 1e-3), **criterion).feasible


def test_explanations_are_zero_where_the_policy_acts_and_never_negative_at_its_prices() -> None:
    for seed in range(12):
        cmdp = random_model(100 + seed)
        for criterion in ({}, {"discount": 0.9}, {"episode": 4}):
            solution = psconrl.solve(cmdp, **criterion)
            if not solution.feasible:
                continue
            met = solution.occupancy.sum(axis=-1) > 1e-6
            for *step, s in np.argwhere(met):
                rows = solution.explain(int(s), *(int(t) + 1 for t in step))
                for row in rows:
                    assert row.priced >= -1e-6
                    if row.probability > 0:
                        assert row.priced == pytest.approx(0.0, abs=1e-6)
                shares = np.array([row.probability for row in rows])
                extra = np.array([row.extra_costs for row in rows])
                np.testing.assert_allclose(shares @ extra, 0.0, atol=1e-7)


def test_odd_criteria_are_refused() -> None:
    toy = psconrl.make("toy")
    for wrong in ({"discount": 1.0}, {"discount": 0.9, "episode": 3}, {"episode": 0}, {"horizon": 5, "episode": 5}):
        with pytest.raises(InvalidArgumentError):
            psconrl.solve(toy, **wrong)
    with pytest.raises(InvalidArgumentError):
        psconrl.solve(psconrl.make("queue"), episode=10**9)
    with pytest.raises(InvalidModelError):
        psconrl.evaluate(toy, np.zeros((3, 1, 1)), episode=3)


def test_rules_say_what_they_cost_where_the_policy_randomises() -> None:
    toy = psconrl.make("toy", tau=0.6)
    exact = psconrl.solve(toy.replace(thresholds=[2.0])).rules()
    assert exact.exact
    np.testing.assert_allclose(exact.costs, exact.before, atol=1e-9)
    random = psconrl.solve(toy)
    found = random.rules()
    assert not found.exact
    np.testing.assert_allclose(found.costs, psconrl.evaluate(toy, found.policy).average_costs[:, 0], atol=1e-12)
    assert str(found).count("\n") >= 1
    discounted = psconrl.solve(toy.replace(thresholds=[2.5]), discount=0.8).rules()
    totals = psconrl.evaluate(toy, discounted.policy, discount=0.8).total_costs @ toy.initial
    np.testing.assert_allclose(discounted.costs, totals)
    with pytest.raises(InvalidArgumentError):
        psconrl.solve(toy, episode=3).rules()
