"""Costs in the units that users have: the same runs as with costs brought to [0, 1], told in those units."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Discrete

from psconrl import CMDP, Learner, Problem, PsconrlError, agents, learn, make, simulate, solve
from psconrl.agents import Agent

RANGES = np.array([[-3.0, 5.0], [10.0, 26.0]])  # widths are powers of two: then nothing is rounded


def in_units(cmdp: CMDP) -> CMDP:
    """The model of two costs in [0, 1] with costs and limit in the units above."""
    low, width = RANGES[:, 0], np.diff(RANGES)[:, 0]
    costs = cmdp.costs if cmdp.move_costs is None else cmdp.move_costs
    column = (-1,) + (1,) * (costs.ndim - 1)
    return cmdp.replace(
        costs=low.reshape(column) + width.reshape(column) * costs, thresholds=low[1:] + width[1:] * cmdp.thresholds
    )


def worlds() -> list[CMDP]:
    grid = make("marsrover-4x4", slip=0.1)
    return [make("toy"), grid, grid.to_sparse()]


@pytest.mark.parametrize("costs", ["known", "estimated"])
@pytest.mark.parametrize("world", worlds(), ids=["toy", "moves", "sparse"])
def test_a_run_is_that_of_the_rescaled_model(world: CMDP, costs: Any) -> None:
    mine = in_units(world)
    J = solve(mine).value
    run = simulate(agents.PSConRL(mine.problem(costs, cost_ranges=RANGES)), mine, 400, 1, optimum=J)
    inner = simulate(agents.PSConRL(world.problem(costs)), world, 400, 1, optimum=(J + 3.0) / 8.0)
    dense = [np.asarray(r.counts.toarray() if world.is_sparse else r.counts) for r in (run, inner)]  # type: ignore[union-attr]
    np.testing.assert_array_equal(dense[0], dense[1])
    np.testing.assert_allclose(run.episodes["value"], -3.0 + 8.0 * inner.episodes["value"], rtol=1e-12)
    np.testing.assert_allclose(run.episodes["multipliers"], 8.0 / 16.0 * inner.episodes["multipliers"], rtol=1e-12)
    np.testing.assert_array_equal(run.thresholds, mine.thresholds)
    np.testing.assert_allclose(run.regret, 8.0 * inner.regret, atol=1e-9)
    np.testing.assert_allclose(run.violation, 16.0 * inner.violation, atol=1e-9)
    np.testing.assert_allclose(run.cumulative_excess, np.array([[8.0], [16.0]]) * inner.cumulative_excess, atol=1e-9)


def test_sums_are_those_of_the_charges() -> None:
    """Against the counts: every move is charged its own cost."""
    world = in_units(make("toy"))
    run = simulate(agents.Uniform(world.problem(cost_ranges=RANGES)), world, 300, 0)
    charged = np.einsum("sax,isa->i", run.counts, world.costs)
    np.testing.assert_allclose(run.cumulative[:, -1], charged, rtol=1e-12)


def test_exact_averages_and_the_optimal_agent_speak_the_same_units() -> None:
    world = in_units(make("toy"))
    agent = agents.Optimal(world.problem(cost_ranges=RANGES), model=world)
    run = simulate(agent, world, 50, 0, evaluate_policies=True)
    assert run.episodes["value"][0] == pytest.approx(solve(world).value)
    np.testing.assert_allclose(run.episodes["multipliers"][0], solve(world).multipliers, rtol=1e-9)
    np.testing.assert_allclose(run.episodes["average_costs"][0], solve(world).average_costs, rtol=1e-6)


@pytest.mark.parametrize("stop", [1, 57, 199])
def test_a_run_goes_on_where_it_was_cut(stop: int) -> None:
    world = in_units(make("toy"))
    agent = agents.PSConRL(world.problem(cost_ranges=RANGES))
    full = simulate(agent, world, 200, 3)
    half = simulate(agent, world, 200, 3, stop=stop)
    assert np.array_equal(simulate(agent, world, 200, 3, state=half.state).cumulative, full.cumulative)


@pytest.mark.parametrize("name", [name for name, agent in agents.registry().items() if not agent.sees_model])
def test_every_agent_plans_inside(name: str) -> None:
    """With powers of two for widths, not a bit differs from the run in [0, 1]."""
    toy = make("toy")
    world = in_units(toy)
    kind: Any = agents.find(name)
    some: list[Agent] = [kind(world.problem(cost_ranges=RANGES)), kind(toy.problem())]
    found = [simulate(agent, model, 120, 2).counts for agent, model in zip(some, (world, toy), strict=True)]
    np.testing.assert_array_equal(found[0], found[1])


def test_check_agent_knows_ranges() -> None:
    agents.check_agent(agents.PSConRL(Problem(4, 2, [20.0], cost_ranges=RANGES)))
    agents.check_agent(agents.ConRL(Problem(4, 2, [20.0], cost_ranges=RANGES)))


def test_a_learner_takes_and_tells_the_users_units() -> None:
    learner = Learner(agents.PSConRL(Problem(2, 2, [18.0], cost_ranges=RANGES)), 10, 0)
    assert np.isnan(learner.average_costs).all()
    learner.observe(0, learner.act(0), [5.0, 10.0], 1)
    learner.observe(1, learner.act(1), [-3.0, 18.0], 1)
    np.testing.assert_allclose(learner.average_costs, [1.0, 14.0])
    assert learner.cost_sums.max() == 1.0
    learner.act(1)
    before = learner.state()["cost_sums"]
    for wrong, told in (
        ([5.1, 11.0], "costs[0] is 5.1"),
        ([0.0, 9.5], "costs[1] is 9.5"),
        ([np.nan, 11.0], "costs[0]"),
    ):
        with pytest.raises(PsconrlError, match=re.escape(told) + r".*cost \d was declared to lie in \[-?\d+, \d+\]"):
            learner.observe(1, 0, wrong, 1)
    np.testing.assert_array_equal(learner.cost_sums, before)


def test_models_that_leave_the_ranges_are_refused() -> None:
    world = in_units(make("toy"))
    with pytest.raises(PsconrlError, match=r"costs\[0, 0, 0\] is -3; learners need costs in \[0, 1\]"):
        world.problem()
    narrow = RANGES.copy()
    narrow[1, 1] = 20.0
    with pytest.raises(PsconrlError, match=r"costs\[1, 0, 0\] is 26; cost 1 was declared to lie in \[10, 20\]"):
        world.problem(cost_ranges=narrow)
    with pytest.raises(PsconrlError, match=r"cost 1 was declared"):
        simulate(agents.Uniform(Problem(2, 2, [12.0], cost_ranges=narrow)), world, 10, 0)
    with pytest.raises(PsconrlError, match=r"cost 1 was declared"):
        world.rescaled(narrow)


def test_the_ranges_of_a_model() -> None:
    world = in_units(make("marsrover-4x4"))
    np.testing.assert_array_equal(world.cost_ranges, RANGES)
    np.testing.assert_allclose(world.rescaled().costs, make("marsrover-4x4").costs, atol=1e-15)
    np.testing.assert_allclose(world.rescaled([(-11.0, 5.0), (10.0, 42.0)]).costs[0].min(), 0.5)
    constant = CMDP([[[1.0]]], [[[7.0]], [[1e20]]], [1e20])
    assert (np.diff(constant.cost_ranges) > 0).all()
    assert constant.problem(cost_ranges=constant.cost_ranges).normalized(1).thresholds.tolist() == [0.0]


class Walk(gymnasium.Env[Any, Any]):
    """Three states in a row; the rewards are money."""

    observation_space, action_space = Discrete(3), Discrete(2)
    spent = 7.5

    def reset(self, **options: Any) -> tuple[int, dict[str, Any]]:
        self.s = 0
        return 0, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        self.s = min(max(self.s + 2 * action - 1, 0), 2)
        return self.s, 100.0 * self.s, False, False, {"cost": self.spent * action}


def test_learn_takes_rewards_and_costs_as_they_are() -> None:
    problem = Problem(3, 2, [4.0], cost_ranges=[(-200.0, 0.0), (0.0, 10.0)])
    run = learn(agents.Uniform(problem), Walk(), 200, 0)
    steps = np.asarray(run.counts)
    assert run.cumulative[0, -1] == -100.0 * steps[:, :, 1].sum() - 200.0 * steps[:, :, 2].sum()
    assert run.cumulative[1, -1] == 7.5 * steps[:, 1].sum()
    assert run.violation[0, -1] == run.cumulative[1, -1] - 4.0 * 200
    own = learn(agents.Uniform(problem), Walk(), 200, 0, costs=lambda s, a, x, reward: (-reward, 7.5 * a))
    np.testing.assert_array_equal(own.cumulative, run.cumulative)


def test_learn_refuses_what_leaves_the_ranges() -> None:
    env = Walk()
    env.spent = 11.0
    problem = Problem(3, 2, [4.0], cost_ranges=[(-200.0, 0.0), (0.0, 10.0)])
    with pytest.raises(PsconrlError, match=r'info\["cost"\] gives .*cost 1 was declared to lie in \[0, 10\]'):
        learn(agents.Uniform(problem), env, 200, 0)


@pytest.mark.parametrize(
    ("ranges", "told"),
    [
        ([(0, 1)], "cost_ranges has shape (1, 2); it must be (m + 1, 2) = (2, 2)"),
        ([(0, 1), (3, 3)], "cost_ranges[1] is (3.0, 3.0); low must be below high"),
        ([(0, 1), (3, 2)], "cost_ranges[1] is (3.0, 2.0); low must be below high"),
        ([(0, 1), (0, np.inf)], "cost_ranges[1, 1] is inf; it must be finite"),
        ([(0, 1), (-1.5e308, 1.5e308)], "cost_ranges[1"),
        ([(0, 1), (0, 1e-310)], "thresholds[0] is inf"),
        ("wide", "cost_ranges must be real numbers"),
    ],
)
def test_ranges_that_are_none_are_refused(ranges: Any, told: str) -> None:
    with pytest.raises(PsconrlError, match=re.escape(told)):
        Problem(2, 2, [0.5], cost_ranges=ranges)
