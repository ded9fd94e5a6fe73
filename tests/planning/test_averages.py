"""Averages of one policy from one state, against `evaluate`, products of matrices, and by hand."""

from __future__ import annotations

import numpy as np
import pytest

import psconrl
from psconrl import CMDP
from psconrl.planning import averages
from psconrl.planning.averages import Averages


def random_model(rng: np.random.Generator, S: int, A: int, branching: int) -> CMDP:
    """Rows with few next states: with one or two of them, chains fall into several classes, some periodic."""
    p = np.zeros((S, A, S))
    for row in p.reshape(-1, S):
        row[rng.choice(S, branching, replace=False)] = rng.dirichlet(np.ones(branching))
    return CMDP(p, rng.random((3, S, A)) * [[[1]], [[100]], [[-5]]], (50.0, 0.0))


def random_policy(rng: np.random.Generator, S: int, A: int) -> np.ndarray:
    """Some states take one action for sure."""
    policy = rng.dirichlet(np.ones(A), size=S)
    sure = rng.random(S) < 0.6
    policy[sure] = np.eye(A)[rng.integers(A, size=sure.sum())]
    return policy


@pytest.mark.parametrize("branching", [1, 2, 4])
def test_the_same_as_evaluate_from_every_state(branching: int) -> None:
    rng = np.random.default_rng(branching)
    several = 0
    for _ in range(20):
        S, A = int(rng.integers(4, 12)), int(rng.integers(1, 4))
        cmdp, policy = random_model(rng, S, A, branching), random_policy(rng, S, A)
        exact = psconrl.evaluate(cmdp, policy)
        several += len(exact.classes) > 1
        found = np.stack([Averages(cmdp)(policy[np.newaxis], s) for s in range(S)], axis=1)
        np.testing.assert_allclose(found, exact.average_costs, rtol=1e-12, atol=1e-12)
    assert several > 3 or branching > 1


def test_states_that_are_hardly_ever_left_are_no_trouble() -> None:
    rare = 1e-14
    p = np.array([[[1 - rare, rare]], [[3 * rare, 1 - 3 * rare]]])
    cmdp = CMDP(p, [[[0.0], [1.0]]])
    np.testing.assert_allclose(Averages(cmdp)(np.ones((1, 2, 1)), 0), [0.25], rtol=1e-12)


def test_large_models_are_left_to_evaluate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(averages, "MAX_DENSE", 4)
    rng = np.random.default_rng(9)
    cmdp, policy = random_model(rng, 30, 2, 1), random_policy(rng, 30, 2)
    exact = psconrl.evaluate(cmdp, policy).average_costs
    for s in range(30):
        np.testing.assert_allclose(Averages(cmdp)(policy[np.newaxis], s), exact[:, s], rtol=1e-12, atol=1e-12)


def test_policies_of_several_steps_against_products_of_matrices() -> None:
    rng = np.random.default_rng(5)
    cmdp = random_model(rng, 7, 3, 3)
    policy = np.stack([random_policy(rng, 7, 3) for _ in range(6)])
    law, totals = np.eye(7)[2], np.zeros(3)
    for pi in policy:
        totals += np.einsum("s,sa,isa->i", law, pi, cmdp.costs)
        law = law @ cmdp.policy_matrix(pi)
    np.testing.assert_allclose(Averages(cmdp)(policy, 2), totals / 6, rtol=1e-12, atol=1e-12)
