"""Multipliers of least norm, against a search through all policies and all faces."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest

import psconrl
from psconrl import CMDP
from psconrl.planning.shadow_prices import nearest_to_zero


def least_norm(G: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The x of least norm with G x >= h: it is the least on the face of some of the inequalities."""
    n, best = G.shape[1], np.full(G.shape[1], np.inf)
    for size in range(n + 1):
        for face in combinations(range(len(h)), size):
            x = np.linalg.pinv(G[list(face)]) @ h[list(face)] if size else np.zeros(n)
            if (G @ x >= h - 1e-8).all() and np.linalg.norm(x) < np.linalg.norm(best):
                best = x
    return best


def all_averages(cmdp: CMDP) -> np.ndarray:
    policies = product(range(cmdp.A), repeat=cmdp.S)
    return np.array([psconrl.evaluate(cmdp, np.array(policy)).average_costs[:, 0] for policy in policies])


def expected(cmdp: CMDP, value: float) -> np.ndarray:
    J = all_averages(cmdp)
    G = np.vstack([J[:, 1:] - cmdp.thresholds, np.eye(cmdp.m)])
    return least_norm(G, np.append(value - J[:, 0] - 1e-10, np.zeros(cmdp.m)))


def chain(rng: np.random.Generator, m: int) -> tuple[np.ndarray, np.ndarray]:
    """Every state leads everywhere."""
    return rng.dirichlet(np.ones(3), size=(3, 2)), rng.random((m + 1, 3, 2))


@pytest.mark.parametrize("seed", range(8))
def test_limits_that_repeat_each_other_share_the_price(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, costs = chain(rng, 1)
    J = all_averages(CMDP(p, costs, [1.0]))
    tau = float(0.7 * J[:, 1].min() + 0.3 * J[J[:, 0].argmin(), 1])
    one = psconrl.solve(CMDP(p, costs, [tau]))
    scales = np.array([1.0, 3.0, 100.0])
    several = CMDP(p, np.concatenate([costs[:1], scales[:, np.newaxis, np.newaxis] * costs[1:]]), scales * tau)
    found = psconrl.solve(several)
    np.testing.assert_allclose(found.multipliers, one.multipliers[0] * scales / (scales @ scales), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(found.multipliers, expected(several, found.value), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("seed", range(8))
def test_limits_that_a_policy_meets_just_so(seed: int) -> None:
    """At a vertex of the trade-off every price between the slopes to both sides is optimal."""
    rng = np.random.default_rng(100 + seed)
    p, costs = chain(rng, 2)
    priced = costs[:1] + 0.4 * costs[1:2] + 0.2 * costs[2:]
    vertex = psconrl.solve(CMDP(p, priced)).mixture[0].policy
    tau = psconrl.evaluate(CMDP(p, costs, [1.0, 1.0]), vertex).average_costs[1:, 0]
    cmdp = CMDP(p, costs, tau)
    found = psconrl.solve(cmdp)
    assert len(found.mixture) == 1
    np.testing.assert_allclose(found.multipliers, expected(cmdp, found.value), rtol=1e-5, atol=1e-6)
    assert np.linalg.norm(found.multipliers) <= np.hypot(0.4, 0.2) + 1e-6


def test_prices_that_are_unique_stay() -> None:
    assert psconrl.solve(psconrl.make("marsrover-4x4")).multipliers[0] == pytest.approx(0.5, abs=1e-12)
    queue = psconrl.make("queue")
    solution = psconrl.solve(queue)
    step = 1e-5
    for i, price in enumerate(solution.multipliers):
        tau = queue.thresholds + step * np.eye(2)[i]
        assert price == pytest.approx(
            (solution.value - psconrl.solve(CMDP(queue.matrix, queue.costs, tau)).value) / step, rel=1e-3
        )


def test_the_nearest_point_of_a_polyhedron() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        G, inside = rng.normal(size=(6, 3)), rng.normal(size=3)
        h = G @ inside - rng.random(6) * rng.integers(2, size=6)
        x = nearest_to_zero(G, h)
        assert x is not None
        np.testing.assert_allclose(x, least_norm(G, h), atol=1e-6)
    assert nearest_to_zero(np.array([[1.0], [-1.0]]), np.array([1.0, 1.0])) is None
