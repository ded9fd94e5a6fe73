"""Sets in which pairs are known or not at all: one model, against the linear program over the set."""

import numpy as np
import pytest

import psconrl
from psconrl import agents
from psconrl._core.pairs import Pairs
from psconrl.planning import solve_optimistic
from psconrl.planning.for_agents import Steer
from psconrl.planning.optimistic import best_optimistic
from psconrl.planning.point_sets import best_of_points


def drawn(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """p_hat, radius, costs, thresholds and a mask; rows with few ends, so that models fall apart."""
    rng = np.random.default_rng(seed)
    S, A, m = int(rng.integers(2, 8)), int(rng.integers(1, 4)), int(rng.integers(0, 3))
    p = rng.dirichlet(np.full(S, 0.2), size=(S, A))
    p[p < 0.05] = 0.0
    p /= p.sum(axis=2, keepdims=True)
    radius = (rng.random((S, A)) < 0.3).astype(np.float64)
    p[radius > 0] = 0.0
    mask = rng.random((S, A)) < 0.8
    mask[:, 0] = True
    return p, radius, rng.random((m + 1, S, A)), rng.uniform(0.3, 0.7, m), mask


@pytest.mark.parametrize("seed", range(60))
def test_agreement_with_the_program(seed: int) -> None:
    p, radius, costs, tau, mask = drawn(seed)
    pairs = Pairs(mask)
    best = best_optimistic(p, radius, costs, tau, join=0.1, pairs=pairs)
    wanted = solve_optimistic(p, radius, costs, tau, method="highs", available=mask)
    assert best.feasible == wanted.feasible
    assert best.method != "program"
    if best.policy is None:
        return
    assert best.value == pytest.approx(wanted.value, abs=1e-7)
    np.testing.assert_allclose(best.policy.sum(axis=1), 1.0)
    assert (best.policy[~mask] == 0).all()


def test_an_unknown_pair_leads_where_it_should() -> None:
    """Stay in the dear state, or try what nobody knows: that may lead to the state that is free for ever."""
    p = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]]])
    radius = np.array([[0.0, 1.0], [0.0, 0.0]])
    costs = np.array([[[1.0, 1.0], [0.0, 0.0]]])
    best = best_optimistic(p, radius, costs, np.zeros(0), join=0.1)
    assert best.value == pytest.approx(0.0)
    assert best.policy is not None
    np.testing.assert_array_equal(best.policy[0], [0.0, 1.0])


def test_other_sets_are_not_taken() -> None:
    p, begin = np.eye(2), np.arange(3)
    for radius in ([0.5, 0.0], [np.nan, 0.0], [-1.0, 1.0]):
        assert best_of_points(p, np.array(radius), np.zeros((1, 2)), np.zeros(0), join=0.1, begin=begin) is None
    assert best_of_points(p / 2, np.zeros(2), np.zeros((1, 2)), np.zeros(0), join=0.1, begin=begin) is None


@pytest.mark.parametrize("seed", range(12))
def test_steered_actions_are_the_pairs_own(seed: int) -> None:
    p, radius, costs, _, mask = drawn(seed)
    tau = np.full(len(costs) - 1, 0.5)
    best = best_optimistic(
        p, radius, costs, tau, join=0.1, pairs=Pairs(mask), steer=Steer(100, 200, np.zeros(len(tau)))
    )
    if best.steered is None:
        return
    for actions in (*best.steered.actions, *best.steered.transfers):
        states = np.flatnonzero(actions >= 0)
        assert mask[states, actions[states]].all()


@pytest.mark.parametrize("env", ["marsrover-4x4", "queue", "riverswim"])
def test_runs_without_a_bonus_ask_no_program(env: str) -> None:
    cmdp = psconrl.make(env)
    run = psconrl.simulate(agents.UCRLCMDP(cmdp.problem("estimated"), scale=0.0), cmdp, 400, 0)
    assert run.state["learner"]["carry"]["fallbacks"] == 0
