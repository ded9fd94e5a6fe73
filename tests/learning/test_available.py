"""Actions that differ by state in the loops: learner, tabular model, Gymnasium, saved states."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from psconrl import (
    CMDPEnv,
    InvalidArgumentError,
    Learner,
    Problem,
    Steering,
    agents,
    evaluate,
    learn,
    make,
    simulate,
    solve,
)
from psconrl.agents import catalogue

SHOP = make("inventory")


def test_an_action_that_is_not_available_is_not_observed() -> None:
    learner = Learner(agents.PSConRL(SHOP.problem()), 100, 0)
    a = learner.act(4)
    before = learner.state()
    with pytest.raises(InvalidArgumentError, match="action 'order 3' is not available in state '4 left'"):
        learner.observe(4, 3, [0.5, 0.5], 2)
    after = learner.state()
    assert (after["asked"], after["visits"].sum()) == (before["asked"], 0)
    learner.observe(4, 1 - a, [0.5, 0.5], 2)  # overruled, with the other one that there is
    assert learner.visits[4, 1 - a] == 1


def test_a_problem_must_not_offer_more_than_the_model() -> None:
    with pytest.raises(
        InvalidArgumentError, match="action 'order 5' is not available in state '1 left'; make the agent"
    ):
        simulate(agents.Uniform(Problem(6, 6, SHOP.thresholds)), SHOP, 10, 0)
    with pytest.raises(InvalidArgumentError, match="action 'order 5' is not available in state '1 left'"):
        learn(agents.Uniform(Problem(6, 6, SHOP.thresholds)), CMDPEnv(SHOP), 10, 0)


def test_a_problem_may_offer_less() -> None:
    """Then the agent does without."""
    small = SHOP.available & (np.arange(6) <= 2)
    run = simulate(agents.PSConRL(Problem(6, 6, SHOP.thresholds, available=small)), SHOP, 500, 0)
    assert not np.asarray(run.counts)[~small].any()


@pytest.mark.parametrize("name", ["PSConRL", "UCRL-CMDP", "FHA", "C-UCRL"])
def test_a_run_goes_on_where_it_was_cut(name: str) -> None:
    agent = catalogue.find(name)(SHOP.problem())
    full = simulate(agent, SHOP, 400, 3)
    half = simulate(agent, SHOP, 400, 3, stop=150)
    rest = simulate(agent, SHOP, 400, 3, state=half.state)
    np.testing.assert_array_equal(full.cumulative, rest.cumulative)
    np.testing.assert_array_equal(full.counts, rest.counts)
    plain = simulate(agent, SHOP, 400, 3, compiled=False)
    np.testing.assert_array_equal(full.counts, plain.counts)


def test_a_state_with_steps_that_cannot_be_is_refused() -> None:
    state = simulate(agents.Uniform(SHOP.problem()), SHOP, 50, 0).state["learner"]
    state["visits"][5, 5] = 1
    with pytest.raises(InvalidArgumentError, match=r"state\['visits'\] has steps with actions that are not available"):
        Learner.restore(agents.Uniform(SHOP.problem()), state)


def test_a_state_belongs_to_its_mask() -> None:
    state = Learner(agents.Uniform(SHOP.problem()), 50, 0).state()
    small = SHOP.replace(available=SHOP.available & (np.arange(6) <= 2))
    with pytest.raises(InvalidArgumentError, match="belongs to a problem with available = "):
        Learner.restore(agents.Uniform(small.problem()), state)


def test_states_that_are_discovered_have_all_actions() -> None:
    with pytest.raises(InvalidArgumentError, match="available is given, but S is None"):
        Problem(None, 2, available=[[True, False]])
    with pytest.raises(InvalidArgumentError, match="action 'order 5' is not available in state '1 left'"):
        simulate(agents.PSConRL(Problem(None, 6, SHOP.thresholds)), SHOP, 10, 0)


def test_the_recommended_agent_in_gymnasium() -> None:
    run = learn(None, CMDPEnv(SHOP), 300, 0)
    assert not np.asarray(run.counts)[~SHOP.available].any()
    assert not run.estimate().available[~SHOP.available].any()


def test_exact_averages_of_plans() -> None:
    run = simulate(agents.PSConRL(SHOP.problem()), SHOP, 300, 0, evaluate_policies=True)
    last = evaluate(SHOP, run.policy[0]).average_costs[:, 0]
    np.testing.assert_allclose(run.episodes["average_costs"][-1], last, atol=1e-9)


def test_in_gymnasium() -> None:
    run = learn(agents.PSConRL(SHOP.problem()), CMDPEnv(SHOP), 300, 0)
    assert not np.asarray(run.counts)[~SHOP.available].any()
    assert np.asarray(run.counts).sum() == 300


def test_steering_takes_what_is_available() -> None:
    steering = Steering(solve(SHOP), horizon=1000)
    rng, s = np.random.default_rng(0), 0
    for _ in range(1000):
        a = int(steering.act(s))
        assert SHOP.available[s, a]
        after = int(rng.choice(6, p=np.asarray(SHOP.transitions)[s, a]))
        assert SHOP.move_costs is not None
        steering.observe(SHOP.move_costs[:, s, a, after])
        s = after


def test_a_saved_learner_keeps_its_mask(tmp_path: Path) -> None:
    agent = agents.PSConRL(SHOP.problem())
    learner = Learner(agent, 100, 0)
    for _ in range(20):
        learner.observe(0, learner.act(0), [0.5, 0.5], 0)
    learner.save(tmp_path / "learner.npz")
    again = Learner.load(tmp_path / "learner.npz", agent)
    assert again.act(4) == learner.act(4) <= 1
    assert again.act(5) == learner.act(5) == 0
