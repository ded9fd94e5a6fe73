"""What is measured on a run, against sums over its steps and its plans."""

from __future__ import annotations

import numpy as np
import pytest

from psconrl import CMDP, Problem, agents, evaluate, learn, make, simulate, solve
from psconrl.environments.gymnasium_env import CMDPEnv
from psconrl.errors import InvalidArgumentError
from tests.learning.walk import Recording


def test_a_run_against_its_definitions() -> None:
    queue = make("queue")
    solution = solve(queue)
    agent = Recording(agents.PSConRL(queue.problem()))
    run = simulate(agent, queue, 300, 4, checkpoints=300, optimum=solution.value, evaluate_policies=True)
    np.testing.assert_array_equal(run.multipliers, solution.multipliers)
    np.testing.assert_allclose(run.lagrangian, run.regret + solution.multipliers @ run.violation, rtol=1e-12)
    np.testing.assert_array_equal(run.positive_violation, run.violation.clip(0))
    for t in (1, 50, 299, 300):
        np.testing.assert_array_equal(run.largest_violation[:, t - 1], run.violation[:, :t].max(axis=1).clip(0))
    total = np.zeros(2)
    for (memory, plan), row in zip(agent.plans, run.episodes, strict=True):
        averages = evaluate(queue, plan.policy[0]).average_costs[1:, memory.state]
        total += row["length"] * np.maximum(averages - queue.thresholds, 0)
    np.testing.assert_allclose(run.policy_violation[:, -1], total, rtol=1e-12)
    assert (np.diff(run.policy_violation) >= 0).all()


def test_the_largest_violation_is_that_of_all_steps() -> None:
    queue = make("queue")
    problem, solution = queue.problem(), solve(queue)
    scaled = CMDP(queue.matrix, queue.costs * [[[1.0]], [[5.0]], [[2.0]]] - 3, queue.thresholds * [5, 2] - 3)
    ranged = Problem(queue.S, queue.A, scaled.thresholds, cost_ranges=[(-3, -2), (-3, 2), (-3, -1)])
    for agent, model, factor in (
        (agents.PSConRL(problem), queue, [1, 1, 1]),
        (agents.PSConRL(problem, execution="steered"), queue, [1, 1, 1]),
        (agents.PSConRL(ranged), scaled, [1, 5, 2]),
    ):
        fine = simulate(agent, model, 600, 1, checkpoints=600, optimum=solve(model))
        coarse = simulate(agent, model, 600, 1, checkpoints=7, optimum=solve(model))
        plain = simulate(agent, model, 600, 1, checkpoints=7, optimum=solve(model), compiled=False)
        part = simulate(agent, model, 600, 1, checkpoints=7, optimum=solve(model), stop=311)
        again = simulate(agent, model, 600, 1, checkpoints=7, optimum=solve(model), state=part.state)
        signed = np.vstack([fine.regret[np.newaxis], fine.violation])
        most = np.maximum.accumulate(signed.clip(0), axis=1)[:, coarse.grid - 1]
        np.testing.assert_allclose(coarse.peaks, most, atol=1e-12 * 600 * max(factor))
        assert (coarse.largest_violation > np.maximum.accumulate(coarse.positive_violation, axis=1)).any()
        np.testing.assert_array_equal(coarse.peaks, plain.peaks)
        np.testing.assert_array_equal(coarse.peaks, again.peaks)
        np.testing.assert_array_equal(np.isnan(part.largest_violation[0]), part.grid > 311)
    env, uniform = CMDPEnv(queue), agents.Uniform(problem)
    fine, coarse = (
        learn(uniform, env, 300, 0, reward_range=(-1, 0), checkpoints=G, optimum=solution) for G in (300, 7)
    )
    most = np.maximum.accumulate(fine.positive_violation, axis=1)[:, coarse.grid - 1]
    np.testing.assert_array_equal(coarse.largest_violation, most)
    assert np.isnan(simulate(uniform, queue, 40, 0).peaks[0]).all()


def test_the_solution_itself_may_be_given() -> None:
    toy = make("toy")
    solution = solve(toy)
    agent = agents.Uniform(toy.problem())
    run = simulate(agent, toy, 40, 0, optimum=solution)
    assert run.optimum == solution.value
    assert run.multipliers is solution.multipliers
    assert np.isfinite(run.lagrangian).all()
    other = solve(make("queue"))
    with pytest.raises(InvalidArgumentError, match="2 limits, but there are 1"):
        simulate(agent, toy, 40, 0, optimum=other)


def test_what_is_not_known_is_nan() -> None:
    toy = make("toy")
    agent = agents.Uniform(toy.problem())
    run = simulate(agent, toy, 40, 0)
    assert np.isnan(run.lagrangian).all()
    assert np.isnan(run.policy_violation).all()
    assert run.policy_violation.shape == run.violation.shape == run.largest_violation.shape
    part = simulate(agent, toy, 40, 0, evaluate_policies=True, stop=20)
    assert np.isfinite(part.policy_violation[:, :20]).all()
    assert np.isnan(part.policy_violation[:, 20:]).all()


def test_limits_that_cannot_be_met_have_neither_regret_nor_l() -> None:
    toy = make("toy")
    hard = CMDP(toy.matrix, toy.costs, [0.01])
    run = simulate(agents.PSConRL(hard.problem()), hard, 60, 0, optimum=solve(hard), evaluate_policies=True)
    assert np.isnan(run.regret).all()
    assert np.isnan(run.lagrangian).all()
    assert run.policy_violation[0, -1] > 0


def test_without_limits_l_is_the_regret() -> None:
    toy = make("toy")
    free = CMDP(toy.matrix, toy.costs[:1])
    run = simulate(agents.PSConRL(free.problem()), free, 60, 0, optimum=solve(free), evaluate_policies=True)
    np.testing.assert_array_equal(run.lagrangian, run.regret)
    assert run.policy_violation.shape == (0, 60)


def test_policies_of_several_steps_count_by_their_steps() -> None:
    toy = make("toy")
    run = simulate(agents.FHA(toy.problem("known"), H=4), toy, 12, 0, evaluate_policies=True)
    excess = np.maximum(run.episodes["average_costs"][:, 1] - toy.thresholds[0], 0)
    assert run.policy_violation[0, -1] == pytest.approx(run.episodes["length"] @ excess)


def test_learning_in_gymnasium_knows_prices_only_from_a_solution() -> None:
    toy = make("toy")
    env, agent, solution = CMDPEnv(toy), agents.Uniform(toy.problem()), solve(toy)
    assert np.isnan(learn(agent, env, 30, 0, reward_range=(-1, 0), optimum=solution.value).lagrangian).all()
    run = learn(agent, env, 30, 0, reward_range=(-1, 0), optimum=solution)
    np.testing.assert_allclose(run.lagrangian, run.regret + solution.multipliers @ run.violation)
