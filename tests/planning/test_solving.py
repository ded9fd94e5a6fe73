"""Exact planning: published optima, 1,000 random models against scipy and dual bounds, and the hard cases."""

import tracemalloc
from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

import psconrl
from psconrl import cli_output, structure
from psconrl.cmdp import CMDP
from psconrl.planning import Solution, evaluate, solve
from tests.planning.reference import by_linprog, certified_margin, certified_value, random_cmdps

JOIN = 1e-7


def excess(cmdp: CMDP, solution: Solution) -> float:
    """How far the policy's exact averages miss what was promised, from the worst start that can be met."""
    averages = evaluate(cmdp, solution.policy).average_costs[:, structure.reachable(cmdp)].max(axis=1)
    value = solution.value if solution.feasible else np.inf
    limits = np.append(value, cmdp.thresholds - min(solution.margin, 0.0))
    return float((averages - limits).max())


def check_policy(cmdp: CMDP, solution: Solution) -> None:
    """The policy is one, everywhere; its averages are the ones claimed."""
    np.testing.assert_allclose(solution.policy.sum(axis=1), 1.0, rtol=1e-12)
    assert (solution.policy >= 0).all()
    exact = evaluate(cmdp, solution.policy).average_costs @ cmdp.initial
    np.testing.assert_allclose(solution.average_costs, exact, atol=1e-12 * max(1.0, np.abs(cmdp.costs).max()))
    np.testing.assert_allclose(solution.occupancy.sum(), 1.0, rtol=1e-12)


# Known answers


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize(
    ("name", "value", "price"),
    [
        ("marsrover-4x4", 0.775, 0.5),
        ("marsrover-8x8", 0.9380952380952381, 1 / 7),
        ("box", 0.845, 0.05),
    ],
)
def test_the_papers_environments(name: str, value: float, price: float, sparse: bool) -> None:
    cmdp = psconrl.make(name, sparse=sparse)
    solution = solve(cmdp)
    assert solution.value == pytest.approx(value, abs=1e-12)
    assert solution.multipliers[0] == pytest.approx(price, abs=1e-9)
    assert solution.margin == pytest.approx(cmdp.thresholds[0], abs=1e-12)  # risk can be avoided altogether
    assert solution.program == "stateless"
    assert excess(cmdp, solution) <= JOIN
    check_policy(cmdp, solution)


def test_the_queue() -> None:
    cmdp = psconrl.make("queue")
    solution = solve(cmdp)
    assert solution.value == pytest.approx(0.1052523, abs=1e-7)
    assert excess(cmdp, solution) <= JOIN


@pytest.mark.parametrize("theta", [0.3, 0.9, 1.0])
@pytest.mark.parametrize("above", [-0.1, 0.0, 0.001, 0.2])
def test_the_toy(theta: float, above: float) -> None:
    tau = 1 / (1 + theta) + above
    cmdp = psconrl.make("toy", theta=theta, tau=tau)
    solution = solve(cmdp)
    assert solution.feasible == (above >= 0)  # also at the least that can be met
    assert solution.margin == pytest.approx(above, abs=1e-12)
    if above >= 0:
        assert solution.value == pytest.approx(1 - tau, abs=1e-9)
        if above > 0:
            assert solution.multipliers[0] == pytest.approx(1.0, abs=1e-9)
        assert excess(cmdp, solution) <= JOIN
    else:
        assert np.isnan(solution.value)
        assert solution.conflict == (1,)


def lagrangian(cmdp: CMDP, price: float) -> float:
    """min over policies of the average of c_0 + price (c_1 - tau), by relative value iteration to 1e-10."""
    p, cost = cmdp.matrix, (cmdp.costs[0] + price * (cmdp.costs[1] - cmdp.thresholds[0])).ravel()
    v = np.zeros(cmdp.S)
    for _ in range(20_000):
        new = 0.5 * v + 0.5 * (cost + p @ v).reshape(cmdp.S, cmdp.A).min(axis=1)  # half lazy: no periods
        gain = new - v
        if np.ptp(gain) < 1e-10:
            return 2 * float(gain.mean())
        v = new - new[0]
    raise AssertionError("value iteration did not converge")


@pytest.mark.parametrize("name", ["marsrover-4x4", "marsrover-8x8", "box"])
def test_slippery_gridworlds(name: str) -> None:
    cmdp = psconrl.make(name, slip=0.1)
    solution, other = solve(cmdp), by_linprog(cmdp)
    assert solution.value == pytest.approx(other.value, abs=1e-9)
    assert solution.margin == pytest.approx(other.margin, abs=1e-9)
    assert excess(cmdp, solution) <= JOIN
    # Every price gives a lower bound on the optimum; the shadow price attains it.
    price = float(solution.multipliers[0])
    assert price > 0
    assert lagrangian(cmdp, price) == pytest.approx(solution.value, abs=1e-8)
    for factor in (0.0, 0.5, 2.0):
        assert lagrangian(cmdp, factor * price) < solution.value


# Random models


def test_a_thousand_random_models() -> None:
    """Against scipy's linear programs to 1e-7, and against dual bounds that do not depend on its tolerances.

    Where models are nearly decomposable scipy itself can be wrong: occupancies of -1e-10 carry mass across
    links of 1e-9. There the dual bound and the exact averages of our policy prove ours, and such models are rare.
    """
    differ, seen = [], {"feasible": 0, "infeasible": 0, "multichain": 0, "classes": 0}
    for number, cmdp in enumerate(random_cmdps(1000, entropy=1)):
        solution, other = solve(cmdp), by_linprog(cmdp)
        what = f"model {number}: {cmdp}, {solution}, {other}"
        seen["feasible" if solution.feasible else "infeasible"] += 1
        seen["multichain"] += solution.program == "multichain"
        seen["classes"] += solution.classes > 1
        check_policy(cmdp, solution)
        assert (solution.margin < 0) == (solution.status == "infeasible"), what
        proved = solution.program == "stateless"
        if proved:
            # From every start the value and limits, or the least largest violation, are attained ...
            assert excess(cmdp, solution) <= JOIN + 1e-6, what
            # ... and no policy does better.
            met = structure.restrict_to_reachable(cmdp)
            if solution.feasible:
                assert solution.value - certified_value(met, solution.multipliers) <= 1e-7, what
            if cmdp.m:
                assert certified_margin(met) - solution.margin <= 1e-7, what
        same = solution.margin == other.margin or abs(solution.margin - other.margin) <= 1e-7
        if abs(solution.margin) > 1e-7:
            same &= solution.feasible == np.isfinite(other.value)
        if solution.feasible and np.isfinite(other.value):
            same &= abs(solution.value - other.value) <= 1e-7
        if not same:
            assert proved, what
            differ.append(what)
    assert len(differ) < 5, differ
    assert seen["feasible"] > 500
    assert seen["infeasible"] > 200
    assert seen["multichain"] > 30
    assert seen["classes"] > 30


def test_a_model_on_which_scipy_is_wrong() -> None:
    """Two traps linked by 1e-9: all the mass goes to the one that is left more rarely."""
    p = np.array([[[1 - 4e-9, 4e-9], [1 - 2e-9, 2e-9]], [[2e-9, 1 - 2e-9], [3e-9, 1 - 3e-9]]])
    cmdp = CMDP(p, [[[1.0, 1.0], [0.0, 0.0]]])
    solution = solve(cmdp)
    assert solution.value == pytest.approx(1 / 3, rel=1e-9)
    assert solution.average_costs[0] == pytest.approx(1 / 3, rel=1e-9)
    assert certified_value(cmdp, np.zeros(0)) == pytest.approx(1 / 3, abs=1e-8)


# Infeasible models


def test_infeasible_models_name_an_irreducible_conflict() -> None:
    """By scipy's margins of all subsets: together infeasible, without any one of them feasible."""
    several = 0
    for cmdp in random_cmdps(150, entropy=3):
        solution = solve(cmdp)
        if solution.feasible or abs(solution.margin) < 1e-6:
            continue
        assert np.isnan(solution.value)
        assert np.isnan(solution.multipliers).all()
        assert ("cannot hold together" if len(solution.conflict) > 1 else "cannot hold,") in repr(solution)
        several += len(solution.conflict) > 1
        assert list(solution.conflict) == sorted(set(solution.conflict))

        def margin(held: tuple[int, ...], cmdp: CMDP = cmdp) -> float:
            limits = cmdp.thresholds[np.array(held) - 1]
            costs = cmdp.costs[[0, *held]]
            return by_linprog(cmdp.replace(costs=costs, thresholds=limits, cost_names=None)).margin

        assert margin(solution.conflict) < 0
        for smaller in combinations(solution.conflict, len(solution.conflict) - 1):
            assert not smaller or margin(smaller) > -1e-8
        if solution.program == "stateless":
            averages = evaluate(cmdp, solution.policy).average_costs[1:, structure.reachable(cmdp)]
            violation = (averages - cmdp.thresholds[:, np.newaxis]).max()
            assert violation == pytest.approx(-solution.margin, abs=JOIN)
    assert several > 5


def test_no_constraints() -> None:
    cmdp = psconrl.make("marsrover-4x4")
    free = solve(cmdp.replace(costs=cmdp.costs[:1], thresholds=(), cost_names=None))
    assert free.value == pytest.approx(0.75, abs=1e-12)
    assert free.margin == np.inf
    assert free.multipliers.shape == (0,)
    assert free.feasible


@pytest.mark.parametrize("name", ["marsrover-4x4", "marsrover-8x8", "box"])
def test_limits_that_can_just_be_met(name: str) -> None:
    safe = {"marsrover-4x4": 0.875, "marsrover-8x8": 20 / 21, "box": 0.875}[name]
    cmdp = psconrl.make(name, tau=0.0)
    solution = solve(cmdp)
    assert solution.margin == 0
    assert solution.feasible
    assert solution.value == pytest.approx(safe, abs=1e-9)
    assert excess(cmdp, solution) <= JOIN


# Several recurrent classes


def apart(scale: float = 1.0, exits: bool = False) -> CMDP:
    """No stationary policy attains the optimum: half of the time must be spent in each of two states.

    "stay" earns 1 in state 0 at auxiliary cost 1, and nothing at no cost in state 1; "switch" earns nothing at
    cost 1. With `exits` there is a third state for ever, and a third action that leads there.
    """
    p = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [1.0, 0.0]]])
    c = np.array([[[0.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]]])
    if exits:
        out = np.zeros((3, 3, 3))
        out[:, :, 2] = 1.0
        out[:2, :2, :2], out[:2, :2, 2] = p, 0.0
        costs = np.ones((2, 3, 3))
        costs[:, :2, :2] = c
        p, c = out, costs
    return CMDP(p, scale * c, [0.5 * scale])


@pytest.mark.parametrize("join", [1e-2, 1e-5, 1e-7])
@pytest.mark.parametrize("scale", [1.0, 1e-3, 1000.0])
def test_an_optimum_that_no_stationary_policy_attains(scale: float, join: float) -> None:
    cmdp = apart(scale)
    solution = solve(cmdp, join=join)
    assert solution.value == pytest.approx(0.5 * scale, rel=1e-12)
    assert solution.classes == 2
    averages = evaluate(cmdp, solution.policy).average_costs
    # The round trip is all switches, at a cost of (1, 1), for a quarter of the share that is allowed. There is a
    # margin, so the limit is kept all the same, and what that costs comes on top.
    assert (averages[1] <= 0.5 * scale).all()
    np.testing.assert_allclose(averages.sum(axis=0) / scale, (1 - join / 4) * 1.0 + 2 * join / 4, rtol=1e-12)
    assert 0 < solution.loss <= join * scale
    assert solution.attained or join > 1e-6


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_joined_without_a_margin_the_limits_hold_within_join(scale: float) -> None:
    """Both limits are tight: c_1 and c_2 at half each; the rare moves must break them a little."""
    cmdp = apart(scale)
    both = np.concatenate([cmdp.costs, scale * np.array([[[0.0, 1.0], [1.0, 1.0]]])])
    tight = cmdp.replace(costs=both, thresholds=[0.5 * scale, 0.5 * scale], cost_names=None)
    solution = solve(tight)
    assert solution.margin == pytest.approx(0.0, abs=1e-9)
    assert solution.classes == 2
    assert excess(tight, solution) <= JOIN * scale


def test_large_costs_keep_the_loss_small() -> None:
    joined = 0
    for cmdp in random_cmdps(100, entropy=4):
        large = cmdp.replace(costs=1000 * cmdp.costs - 300, thresholds=1000 * cmdp.thresholds - 300)
        solution = solve(large)
        if solution.program == "stateless":
            joined += solution.classes > 1
            assert excess(large, solution) <= JOIN * 1000
            if solution.feasible:
                assert (solution.value + 300) / 1000 == pytest.approx(solve(cmdp).value, abs=1e-7)
    assert joined > 0


# Models that do not communicate


def test_weakly_communicating_models_start_anywhere() -> None:
    inner = psconrl.make("toy")
    p = np.zeros((3, 2, 3))
    p[:2, :, :2] = inner.transitions
    p[2, 0], p[2, 1] = [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]
    costs = np.concatenate([inner.costs, np.full((2, 1, 2), 5.0)], axis=1)
    cmdp = CMDP(p, costs, inner.thresholds, initial=2)
    solution = solve(cmdp)
    assert solution.program == "stateless"
    assert solution.value == pytest.approx(1 - 0.5275, abs=1e-9)
    assert solution.occupancy[2].sum() == 0
    assert excess(cmdp, solution) <= JOIN


def test_box_with_all_pairs_of_cells() -> None:
    cmdp = psconrl.make("box", full=True)
    assert not structure.communicating(cmdp)
    solution = solve(cmdp)
    assert solution.value == pytest.approx(0.845, abs=1e-9)
    assert solution.average_costs[0] == pytest.approx(0.845, abs=JOIN)
    check_policy(cmdp, solution)
    anywhere = cmdp.replace(initial=np.full(cmdp.S, 1 / cmdp.S))
    solution, other = solve(anywhere), by_linprog(anywhere)
    assert solution.program == "multichain"
    assert solution.margin == pytest.approx(other.margin, abs=1e-9)
    assert solution.feasible == np.isfinite(other.value)
    if solution.feasible:
        assert solution.value == pytest.approx(other.value, abs=1e-9)
    check_policy(anywhere, solution)


def test_a_choice_once_and_for_all() -> None:
    """From state 0 to a cheap but risky state for ever, or to a dear but safe one; risk at most 0.3."""
    p = np.zeros((3, 2, 3))
    p[0, 0, 1] = p[0, 1, 2] = p[1, :, 1] = p[2, :, 2] = 1.0
    c = np.zeros((2, 3, 2))
    c[0, 2] = c[1, 1] = 1.0
    solution = solve(CMDP(p, c, [0.3]))
    assert solution.program == "multichain"
    assert solution.value == pytest.approx(0.7, abs=1e-9)
    assert solution.multipliers[0] == pytest.approx(1.0, abs=1e-9)
    assert solution.loss == pytest.approx(0.0, abs=1e-9)
    np.testing.assert_allclose(solution.policy[0], [0.3, 0.7], atol=1e-9)


def test_elsewhere_the_loss_is_reported() -> None:
    cmdp = apart(exits=True)
    solution, other = solve(cmdp), by_linprog(cmdp)
    assert solution.program == "multichain"
    assert solution.value == pytest.approx(0.5, abs=1e-9)
    assert solution.value == pytest.approx(other.value, abs=1e-9)
    assert solution.loss == solution.average_costs[0] - solution.value
    check_policy(cmdp, solution)


# The rest


def test_links_below_the_cut_still_lead_home() -> None:
    """State 2 is left with probability 1e-12 only: planning cannot see it, executing does."""
    p = np.zeros((3, 1, 3))
    p[0, 0, 1] = p[1, 0, 0] = 1.0
    p[2, 0] = [1e-12, 0.0, 1 - 1e-12]
    p[1, 0] = [1 - 1e-12, 0.0, 1e-12]
    cmdp = CMDP(p, [[[0.0], [0.0], [1.0]]])
    found = evaluate(cmdp, solve(cmdp).policy)
    np.testing.assert_allclose(found.average_costs, 1 / 3, rtol=1e-9)


def test_links_below_the_cut_count() -> None:
    """Two states linked by 1e-10 and 3e-10 only: the chain spends a quarter of its time in the dear one."""
    p = np.array([[[1 - 1e-10, 1e-10]], [[3e-10, 1 - 3e-10]]])
    assert solve(CMDP(p, [[[0.0], [1.0]]])).value == pytest.approx(0.25, abs=JOIN)


def test_a_grid_of_ten_thousand_states() -> None:
    """Time is a few seconds; memory is some hundred bytes for each of 40,000 moves, where S x S would be 800 MB."""
    cmdp = psconrl.make("grid", rows=100, columns=100)
    assert (cmdp.S, cmdp.is_sparse) == (10_000, True)
    tracemalloc.start()
    solution = solve(cmdp)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2_500 * cmdp.matrix.nnz
    assert solution.feasible
    assert excess(cmdp, solution) <= JOIN


@pytest.mark.parametrize("join", [0.0, -1.0, 1.0, np.nan])
def test_join_must_be_a_small_share(join: float) -> None:
    with pytest.raises(ValueError, match="join is"):
        solve(psconrl.make("toy"), join=join)


def test_what_a_solution_prints() -> None:
    text = repr(solve(psconrl.make("marsrover-4x4")))
    for part in ("value=0.775", "multipliers=[0.5]", "margin=0.2", "from every start"):
        assert part in text
    assert "infeasible, margin=-0.1" in repr(solve(psconrl.make("toy", theta=1.0, tau=0.4)))


@pytest.mark.parametrize("seed", range(12))
def test_limits_of_random_models_that_can_just_be_met(seed: int) -> None:
    """At the smallest limit that can be met, and at most 5e-10 below it, the model counts as feasible."""
    cmdp = psconrl.make("garnet", seed=seed)
    least = psconrl.threshold_sweep(cmdp, points=2).least
    for below in (0.0, 1e-16, 1e-13, 5e-10):
        found = solve(cmdp.replace(thresholds=[least - below]))
        assert found.feasible
        assert found.margin == pytest.approx(0.0, abs=1e-9)
        assert found.average_costs[1] <= least + 1e-8


def test_connected_is_told() -> None:
    """From the third state there is no way to the others."""
    p = np.zeros((3, 1, 3))
    p[0, 0, 1] = p[1, 0, 0] = p[2, 0, 2] = 1.0
    assert not solve(CMDP(p, np.ones((1, 3, 1)))).connected
    assert solve(psconrl.make("toy")).connected


@pytest.mark.parametrize("name", ["riverswim", "marsrover-4x4", "queue", "garnet", "box"])
def test_the_averages_hold_after_so_many_steps(name: str) -> None:
    """From there on, whatever the horizon; and the tolerances of each cost by itself."""
    cmdp = psconrl.make(name)
    solution = psconrl.solve(cmdp)
    for tolerance in (0.1, 1e-3):
        steps = solution.holds_after(tolerance)
        for T in (int(steps), int(steps) + 1, 2 * int(steps) + 1):
            averages = psconrl.evaluate(cmdp, solution.policy, horizon=T).average_costs @ cmdp.initial
            assert np.abs(averages - solution.average_costs).max() <= tolerance
    each = [solution.holds_after(np.where(np.arange(cmdp.m + 1) == i, 1e-3, 1e9)) for i in range(cmdp.m + 1)]
    assert max(each) == solution.holds_after(1e-3)


def test_when_averages_hold_by_hand() -> None:
    """A cycle of two states: after an odd number T of steps the average is off by 1 / (2 T), and h = +-1/4."""
    cycle = CMDP([[[0.0, 1.0]], [[1.0, 0.0]]], [[[0.0], [1.0]]])
    solution = psconrl.solve(cycle)
    assert solution.bias_spans == pytest.approx([0.5])
    assert solution.holds_after(0.01) == 50
    assert psconrl.solve(CMDP([[[1.0]]], [[[2.0]]])).holds_after(1e-9) == 1


def test_a_leak_that_no_number_of_steps_outlasts() -> None:
    p = 1e-300
    never = CMDP([[[1 - p, p]], [[1e-12 * p, 1.0]]], [[[0.0], [1e12]]])
    assert psconrl.solve(never).holds_after(1e-3) == np.inf


@pytest.mark.parametrize(
    ("tolerance", "text"),
    [
        (0.0, "tolerance is 0.0; it must be finite and above zero"),
        (np.nan, "tolerance is nan; it must be finite"),
        ([0.1, 0.1, 0.1], "it must be one number, or one for each of the 2 costs"),
        ("a", "tolerance must be real numbers"),
    ],
)
def test_tolerances_that_are_none(tolerance: Any, text: str) -> None:
    with pytest.raises(psconrl.PsconrlError, match=text):
        psconrl.solve(psconrl.make("toy")).holds_after(tolerance)


def test_a_value_that_is_not_proven_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    """Fifteen states, moves down to 1e-300: biases in floats have no digits left, rational arithmetic proves it."""
    rng = np.random.default_rng(np.random.SeedSequence([88, 1]))
    S, A = 15, 3
    p = 10.0 ** -rng.uniform(0, 300, size=(S, A, S)) / S
    p[rng.random(p.shape) < 0.7] = 0.0
    p[np.arange(S), :, np.arange(S)] = 0.0
    p[np.arange(S), :, np.arange(S)] = 1.0 - p.sum(axis=2)
    cmdp = CMDP(p, rng.random((1, S, A)))
    solution = psconrl.solve(cmdp)
    assert solution.proven
    solution = replace(solution, gap=0.01)
    assert not solution.proven
    assert f"not proven, gap={solution.gap:.2g}" in repr(solution)
    cli_output.print_solution("hard", cmdp, solution)
    assert "Warning: not proven" in capsys.readouterr().out
    assert psconrl.solve(psconrl.make("toy")).proven
