"""Curves, memory, checks and exact averages of simulated runs."""

import re
import tracemalloc
from typing import Any

import numpy as np
import pytest

from psconrl import CMDP, InvalidModelError, Problem, agents, evaluate, make, solve
from psconrl.learning.simulation import simulate, time_grid
from psconrl.planning.averages import Averages
from tests.learning.walk import Recording, walk


def arrays_in(value: Any) -> list[np.ndarray[Any, Any]]:
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, dict):
        return [array for part in value.values() for array in arrays_in(part)]
    if isinstance(value, list | tuple):
        return [array for part in value for array in arrays_in(part)]
    return arrays_in(vars(value)) if hasattr(value, "__dict__") else []


def test_memory_does_not_depend_on_the_horizon() -> None:
    cmdp = make("marsrover-4x4")
    agent = agents.Uniform(cmdp.problem())
    simulate(agent, cmdp, 1000, 0)  # compiles
    peaks = []
    for horizon in (1000, 10**9):
        tracemalloc.start()
        run = simulate(agent, cmdp, horizon, 0, stop=1000)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert run.counts.sum() == 1000
        assert max(array.size for array in arrays_in(run)) <= max(16 * 4 * 16, 3 * 2 * 500)
    assert peaks[1] < 2_000_000
    assert peaks[1] < 1.5 * peaks[0]


@pytest.mark.parametrize(
    ("horizon", "checkpoints", "G"), [(1, None, 1), (7, None, 7), (1000, None, 500), (1003, 10, 10), (10**9, 3, 3)]
)
def test_the_grid_is_even_and_ends_at_the_horizon(horizon: int, checkpoints: int | None, G: int) -> None:
    grid = time_grid(horizon, checkpoints)
    assert len(grid) == G
    assert grid[-1] == horizon
    gaps = np.diff(grid, prepend=0)
    assert gaps.min() >= 1
    assert np.ptp(gaps) <= 1
    if horizon % G == 0:
        assert np.ptp(gaps) == 0


@pytest.mark.parametrize(
    ("horizon", "checkpoints", "message"),
    [
        (0, None, "horizon is 0; it must be at least 1"),
        (-5, None, "horizon is -5; it must be at least 1"),
        (10, 0, "checkpoints is 0; it must be at least 1"),
    ],
)
def test_bad_horizons(horizon: int, checkpoints: int | None, message: str) -> None:
    toy = make("toy")
    with pytest.raises(ValueError, match=message):
        simulate(agents.Uniform(toy.problem()), toy, horizon, 0, checkpoints=checkpoints)


@pytest.mark.parametrize("env", ["marsrover-4x4", "queue", "dirichlet"])
def test_curves_against_brute_force(env: str) -> None:
    cmdp = make(env, slip=0.1) if env.startswith("mars") else make(env)
    agent, T, J = agents.Uniform(cmdp.problem()), 700, 0.4
    run = simulate(agent, cmdp, T, 3, checkpoints=50, optimum=J)
    way = walk(agent, cmdp, T, 3)
    levels = np.append(J, cmdp.thresholds)
    at = run.grid - 1
    np.testing.assert_allclose(run.cumulative, np.cumsum(way.costs, axis=0)[at].T, rtol=1e-12)
    excess = np.cumsum(np.maximum(way.costs - levels, 0), axis=0)
    np.testing.assert_allclose(run.cumulative_excess, excess[at].T, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(run.regret, run.cumulative[0] - J * run.grid)
    np.testing.assert_allclose(run.violation, run.cumulative[1:] - cmdp.thresholds[:, None] * run.grid)
    counts = np.zeros_like(run.counts)
    np.add.at(counts, (way.states, way.actions, way.next_states), 1)
    np.testing.assert_array_equal(run.counts, counts)
    assert (run.thresholds == cmdp.thresholds).all()


def test_without_an_optimum_there_is_no_excess_of_the_main_cost() -> None:
    queue = make("queue")
    run = simulate(agents.Uniform(queue.problem()), queue, 100, 0)
    assert np.isnan(run.optimum)
    assert np.isnan(run.cumulative_excess[0]).all()
    assert np.isfinite(run.cumulative_excess[1:]).all()
    assert np.isnan(run.regret).all()
    assert np.isfinite(run.violation).all()


def test_a_run_without_constraints() -> None:
    cmdp = CMDP([[[0.5, 0.5]], [[1.0, 0.0]]], [[[0.0], [1.0]]])
    run = simulate(agents.PSConRL(cmdp.problem()), cmdp, 50, 0, optimum=1 / 3)
    assert run.violation.shape == (0, 50)
    assert "violation=[]" in repr(run)


def test_the_repr_says_what_matters() -> None:
    toy = make("toy")
    run = simulate(agents.CMDPPSRL(toy.problem()), toy, 100, 4, optimum=0.4725)
    assert re.fullmatch(
        r"Run\(CMDP-PSRL, seed 4, T=100, regret=\S+, violation=\[\S+\], episodes=\d+, infeasible=\d+\)", repr(run)
    )


def test_frequencies_are_those_of_the_model() -> None:
    """Moves of 200,000 uniform steps: |z| < 5 for 600 frequencies, false alarms below 4e-4."""
    cmdp = make("dirichlet")
    run = simulate(agents.Uniform(cmdp.problem()), cmdp, 200_000, 0)
    N = run.counts.sum(axis=2, keepdims=True)
    p = np.asarray(cmdp.transitions)
    often = N * p * (1 - p) > 25  # where the normal law is a good one
    z = (run.counts - N * p) / np.sqrt(np.where(often, N * p * (1 - p), 1.0))
    assert often.sum() > 150
    assert np.abs(z[often]).max() < 5
    assert (run.counts[p == 0] == 0).all()
    chosen = N[:, :, 0] / N.sum(axis=1)
    error = np.sqrt((1 / 3) * (2 / 3) / N.sum(axis=1))
    assert (np.abs(chosen - 1 / 3) < 5 * error).all()


def test_start_law() -> None:
    """A start law is drawn from: of 400 runs, 100 +- 5 * 8.7 start in state 1."""
    cmdp = CMDP(np.eye(3)[:, None, :], np.zeros((1, 3, 1)), initial=[0.75, 0.25, 0.0])
    agent = agents.Uniform(cmdp.problem())
    starts = np.array([simulate(agent, cmdp, 1, seed).counts.any(axis=(1, 2)).argmax() for seed in range(400)])
    assert abs((starts == 1).sum() - 100) < 44
    assert (starts < 2).all()


def test_exact_averages_of_executed_policies() -> None:
    cmdp = make("dirichlet")
    agent = Recording(agents.PSConRL(cmdp.problem("known")))
    run = simulate(agent, cmdp, 60, 0, evaluate_policies=True)
    for (memory, plan), row in zip(agent.plans, run.episodes, strict=True):
        expected = evaluate(cmdp, plan.policy[0]).average_costs[:, memory.state]
        np.testing.assert_allclose(row["average_costs"], expected, rtol=1e-13)
    J = solve(cmdp).value
    within = run.episodes["average_costs"][:, 1] <= cmdp.thresholds[0]
    assert (run.episodes["average_costs"][within, 0] >= J - 1e-9).all()
    assert "average_costs" not in (simulate(agent, cmdp, 5, 0).episodes.dtype.names or ())


def test_exact_averages_are_from_the_state_that_a_plan_starts_in() -> None:
    """Two traps: a plan made in state 2 ends in either of them; its averages are those from state 2."""
    p = np.zeros((3, 1, 3))
    p[2, 0, :2] = 0.5
    p[0, 0, 0], p[1, 0, 1] = 1.0, 1.0
    cmdp = CMDP(p, [[[0.0], [1.0], [0.0]]], initial=2)
    agent = agents.Uniform(cmdp.problem())
    for seed in range(4):
        run = simulate(agent, cmdp, 20, seed, evaluate_policies=True)
        np.testing.assert_allclose(run.episodes["average_costs"], [[0.5]])
        half = simulate(agent, cmdp, 20, seed, evaluate_policies=True, stop=7)
        again = simulate(agent, cmdp, 20, seed, evaluate_policies=True, state=half.state)
        np.testing.assert_allclose(again.episodes["average_costs"], [[0.5]])


def test_exact_averages_of_policies_for_a_few_steps() -> None:
    toy = make("toy")
    plan = agents.Plan(np.array([[[0.0, 1.0]] * 2, [[1.0, 0.0]] * 2]))
    # State 0, then state 1 with probability 0.9: main cost (0 + 0.9) / 2, auxiliary (1 + 0.1) / 2.
    np.testing.assert_allclose(Averages(toy)(plan.policy, 0), [0.45, 0.55], rtol=1e-14)
    run = simulate(agents.FHA(toy.problem("known"), H=4), toy, 12, 0, evaluate_policies=True)
    assert run.episodes["average_costs"].shape == (3, 2)
    np.testing.assert_allclose(run.episodes["average_costs"].sum(axis=1), 1.0)


def test_snapshots_are_few_and_end_with_the_last_plan() -> None:
    toy = make("toy")
    agent = Recording(agents.PSConRL(toy.problem("known")))
    run = simulate(agent, toy, 1500, 0)
    starts = [snapshot.start for snapshot in run.snapshots]
    assert starts == sorted(set(starts))
    assert starts[0] == 0
    assert starts[-1] == run.episodes["start"][-1]
    assert 15 <= len(starts) <= 42
    np.testing.assert_array_equal(run.policy, agent.plans[-1][1].policy)
    assert [s.visits.sum() for s in run.snapshots] == starts


def test_costs_outside_the_unit_interval_are_refused() -> None:
    cmdp = CMDP([[[0.5, 0.5]], [[1.0, 0.0]]], [[[0.0], [3.0]], [[-1.0], [1.0]]], [0.5])
    with pytest.raises(
        InvalidModelError, match=re.escape("costs[0, 1, 0] is 3; learners need costs in [0, 1]; cmdp.re")
    ):
        simulate(agents.Uniform(Problem(2, 1, [0.5])), cmdp, 10, 0)
    scaled = cmdp.rescaled()
    simulate(agents.Uniform(scaled.problem()), scaled, 10, 0)


def test_sizes_that_do_not_fit_are_refused() -> None:
    toy = make("toy")
    for problem in (Problem(3, 2, [0.5]), Problem(2, 3, [0.5]), Problem(2, 2), Problem(2, 2, [0.5, 0.5])):
        with pytest.raises(ValueError, match="does not fit CMDP"):
            simulate(agents.Uniform(problem), toy, 10, 0)


def test_a_state_of_another_run_is_refused() -> None:
    toy, queue = make("toy"), make("queue")
    agent = agents.Uniform(toy.problem())
    state = simulate(agent, toy, 100, 0, stop=50).state
    with pytest.raises(ValueError, match="another horizon: 100, not 200"):
        simulate(agent, toy, 200, 0, state=state)
    with pytest.raises(ValueError, match="another seed: 0, not 1"):
        simulate(agent, toy, 100, 1, state=state)
    with pytest.raises(ValueError, match="another number of checkpoints: 100, not 10"):
        simulate(agent, toy, 100, 0, checkpoints=10, state=state)
    with pytest.raises(ValueError, match="another size"):
        simulate(agents.Uniform(queue.problem()), queue, 100, 0, state=state)


@pytest.mark.parametrize("per_move", [False, True])
def test_rescaled_values_map_back(per_move: bool) -> None:
    rng = np.random.default_rng(np.random.SeedSequence(10))
    p = rng.dirichlet(np.ones(4), (4, 2))
    shape = (3, 4, 2, 4) if per_move else (3, 4, 2)
    low, width = np.array([-3.0, 5.0, 0.0]), np.array([10.0, 0.5, 1.0])
    column = (3,) + (1,) * (len(shape) - 1)
    costs = rng.random(shape) * width.reshape(column) + low.reshape(column)
    cmdp = CMDP(p, costs, low[1:] + 0.55 * width[1:])
    scaled = cmdp.rescaled()
    mine, theirs = solve(cmdp), solve(scaled)
    flat = costs.reshape(3, -1)
    least, span = flat.min(axis=1), np.ptp(flat, axis=1)
    assert theirs.value * span[0] + least[0] == pytest.approx(mine.value, abs=1e-9)
    np.testing.assert_allclose(theirs.average_costs * span + least, mine.average_costs, atol=1e-8)
    np.testing.assert_allclose(scaled.thresholds * span[1:] + least[1:], cmdp.thresholds, rtol=1e-13)
    given = scaled.costs if scaled.move_costs is None else scaled.move_costs
    assert given.min() == 0
    assert given.max() == 1


def test_rescaling_a_constant_cost() -> None:
    cmdp = CMDP([[[1.0]]], [[[7.0]], [[2.0]]], [2.5])
    scaled = cmdp.rescaled()
    assert scaled.costs.tolist() == [[[0.0]], [[0.0]]]
    assert scaled.thresholds.tolist() == [0.5]
    assert solve(scaled).feasible


def test_counts_have_the_layout_of_the_transitions() -> None:
    dense = make("marsrover-4x4")
    thin = dense.to_sparse()
    runs = [simulate(agents.Uniform(cmdp.problem()), cmdp, 500, 0) for cmdp in (dense, thin)]
    counts: list[Any] = [run.counts for run in runs]
    assert counts[0].shape == (16, 4, 16)
    assert counts[1].shape == (64, 16)
    np.testing.assert_array_equal(counts[1].toarray(), counts[0].reshape(64, 16))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"horizon": 10.5}, "horizon is 10.5; it must be a whole number"),
        ({"horizon": 0}, "horizon is 0; it must be at least 1"),
        ({"seed": -1}, "seed is -1; it must be at least 0"),
        ({"seed": None}, "seed is None; it must be a whole number"),
        ({"checkpoints": 2.5}, "checkpoints is 2.5; it must be a whole number"),
        ({"stop": 0}, "stop is 0; it must be at least 1"),
    ],
)
def test_numbers_that_make_no_run_are_refused(arguments: dict[str, Any], message: str) -> None:
    toy = make("toy")
    given: dict[str, Any] = {"horizon": 10, "seed": 0} | arguments
    with pytest.raises(ValueError, match=re.escape(message)):
        simulate(agents.Uniform(toy.problem()), toy, **given)


def test_a_state_goes_on_only_with_what_it_came_from() -> None:
    toy = make("toy")
    state = simulate(agents.Uniform(toy.problem()), toy, 10, 0, stop=5).state
    for agent, options, message in (
        (agents.TSDE(toy.problem()), {}, "another agent"),
        (agents.Uniform(toy.problem()), {"optimum": 0.4}, "another optimum"),
        (agents.Uniform(toy.problem()), {"evaluate_policies": True}, "another choice of evaluate_policies"),
    ):
        with pytest.raises(ValueError, match=message):
            simulate(agent, toy, 10, 0, state=state, **options)
    with pytest.raises(ValueError, match="the state of a run of simulate has no"):
        simulate(agents.Uniform(toy.problem()), toy, 10, 0, state={})
