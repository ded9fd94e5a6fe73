"""What was learned, as a model: what it is made of, how sure it is, and the plan in it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from psconrl import CMDP, Learner, agents, evaluate, make, simulate, solve
from psconrl.errors import CallOrderError, InvalidArgumentError
from psconrl.learning.run import Run


def explored(cmdp: CMDP, T: int = 2_000, seed: int = 0) -> Run:
    return simulate(agents.Uniform(cmdp.problem()), cmdp, T, seed)


def test_it_is_a_model_of_what_was_tried() -> None:
    cmdp = make("marsrover-4x4")
    run = explored(cmdp, 40)
    model = run.estimate()
    assert isinstance(model, CMDP)
    assert (model.S, model.A, model.m) == (cmdp.S, cmdp.A, cmdp.m)
    visits = run.counts.sum(axis=2)
    np.testing.assert_array_equal(model.visits, visits)
    left = visits.sum(axis=1) > 0
    assert not left.all()
    np.testing.assert_array_equal(model.available[left], visits[left] > 0)
    assert model.available[~left].all()
    assert (model.costs[:, ~left] == 1.0).all()
    now = int(run.state["learner"]["clock"][2])
    assert model.initial[now] == 1.0
    assert (model.to_dense().transitions[~left][:, :, now] == 1.0).all()
    np.testing.assert_array_equal(model.costs[:, visits > 0], cmdp.costs[:, visits > 0])


def test_much_is_learned_of_a_small_world() -> None:
    cmdp = make("marsrover-4x4", slip=0.1)
    model = explored(cmdp, 200_000).estimate()
    np.testing.assert_allclose(model.to_dense().transitions, cmdp.to_dense().transitions, atol=0.03)
    plan = solve(model)
    averages = evaluate(cmdp, plan.policy).average_costs @ cmdp.initial
    assert averages[0] == pytest.approx(solve(cmdp).value, abs=0.005)
    assert averages[1] <= cmdp.thresholds[0] + 0.01


def test_the_plan_of_a_deterministic_world_is_exact() -> None:
    cmdp = make("marsrover-4x4")
    run = simulate(agents.PSConRL(cmdp.problem(), prior="learned"), cmdp, 5_000, 1)
    averages = evaluate(cmdp, solve(run.estimate()).policy).average_costs @ cmdp.initial
    np.testing.assert_allclose(averages, [0.775, 0.2], atol=1e-3)


def test_intervals_cover_the_truth() -> None:
    """90% intervals in 60 models drawn at random: fewer than 42 of 60 would be a false alarm once in 10,000."""
    covered = np.zeros(2)
    for draw in range(60):
        cmdp = make("dirichlet", S=4, A=2, draw=draw)
        model = explored(cmdp, 400, draw).estimate()
        policy = np.random.default_rng(draw).dirichlet(np.ones(2), size=4)
        truth = evaluate(cmdp, policy).average_costs[:, 0]
        low, high = model.intervals(policy, level=0.9, draws=100).T
        covered += (low <= truth) & (truth <= high)
    assert (covered >= 42).all()


def test_intervals_of_policies() -> None:
    cmdp = make("queue")
    model = explored(cmdp).estimate()
    wide, narrow = (model.intervals(np.zeros(6, dtype=int), level=level) for level in (0.99, 0.5))
    assert wide.shape == (3, 2)
    assert (wide[:, 0] < narrow[:, 0]).all()
    assert (narrow[:, 1] < wide[:, 1]).all()
    again = model.intervals(np.eye(16)[np.zeros(6, dtype=int)], level=0.5)
    np.testing.assert_array_equal(narrow, again)
    assert (model.intervals(np.zeros(6, dtype=int), level=0.5, seed=1) != narrow).any()
    assert model.averages(model.uniform, draws=7).shape == (7, 3)
    # Known costs leave the moves alone unknown: action 0 serves at a rate of 0.2, always.
    known = simulate(agents.Uniform(cmdp.problem("known")), cmdp, 2_000, 0).estimate()
    np.testing.assert_allclose(known.intervals(np.zeros(6, dtype=int))[1], cmdp.costs[1, 0, 0], atol=1e-12)


def test_actions_that_were_never_tried_are_uncertain_but_not_refused() -> None:
    cmdp = make("marsrover-4x4")
    model = explored(cmdp, 30).estimate()
    low, high = model.intervals(np.full((16, 4), 0.25)).T
    assert (high - low > 0.05).all()


def test_a_confident_plan_keeps_the_limits_in_that_share_of_the_draws() -> None:
    cmdp = make("queue")
    run = explored(cmdp, 20_000)
    plain, sure = run.estimate(), run.estimate(confidence=0.95)
    assert plain.confidence is None
    assert sure.confidence == 0.95
    assert (sure.thresholds < plain.thresholds).all()
    np.testing.assert_array_equal(sure.limits, cmdp.thresholds)
    kept = [(plain.averages(solve(m).policy)[:, 1:] <= cmdp.thresholds).all(axis=1).mean() for m in (plain, sure)]
    assert kept[0] < 0.8
    assert kept[1] >= 0.95
    assert solve(sure).value > solve(plain).value


def test_too_much_confidence_is_refused() -> None:
    cmdp = make("queue")
    run = explored(cmdp, 100)
    with pytest.raises(InvalidArgumentError, match="learn longer"):
        run.estimate(confidence=0.999)
    with pytest.raises(InvalidArgumentError, match=r"confidence is 1\.5"):
        run.estimate(confidence=1.5)
    with pytest.raises(InvalidArgumentError, match="level is 2"):
        run.estimate().intervals(np.zeros(6, dtype=int), level=2)


def test_a_learner_and_its_run_have_the_same_estimate() -> None:
    cmdp = make("toy")
    agent = agents.PSConRL(cmdp.problem())
    learner = Learner(agent, 100, 0)
    with pytest.raises(CallOrderError, match="nothing was observed yet"):
        learner.estimate()
    run = simulate(agent, cmdp, 100, 0)
    restored = Learner.restore(agent, run.state["learner"])
    assert restored.estimate() == run.estimate()
    s = 0
    for _ in range(20):
        a = learner.act(s)
        after = int(np.random.default_rng(learner.t).choice(2, p=cmdp.to_dense().transitions[s, a]))
        learner.observe(s, a, cmdp.costs[:, s, a], after)
        s = after
    assert learner.estimate().initial[s] == 1.0


def test_it_goes_through_pickle() -> None:
    model = explored(make("toy"), 50).estimate()
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    policy = np.zeros(2, dtype=int)
    np.testing.assert_array_equal(again.intervals(policy, draws=5), model.intervals(policy, draws=5))


@pytest.mark.parametrize("seed", [1, 6, 7, 8, 11])
def test_limits_at_the_edge_of_what_can_be_met_have_a_plan(seed: int) -> None:
    """Where it is rounding that decides whether they can be, there is a plan, and it misses them by no more."""
    cmdp = make("garnet", S=6, A=2, m=2, seed=seed)
    found = simulate(agents.recommended(cmdp.problem()), cmdp, 100, seed).estimate()
    edge = found.thresholds - solve(found).margin
    for off in (-1.1e-9, -1e-9, -0.9e-9, -1e-12, 0.0, 1e-12, 1e-9):
        plan = solve(found.replace(thresholds=edge + off))
        assert (plan.average_costs[1:] <= edge + max(off, 0.0) + 1e-6).all()
