"""Optimistic planning against all vertices of the confidence set."""

from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import psconrl
from psconrl._core.checks import Floats
from psconrl.cmdp import CMDP
from psconrl.planning import Solution, evaluate, solve, solve_optimistic
from tests.planning.reference import by_linprog


def bounds(p_hat: Floats, radius: Floats) -> tuple[Floats, Floats]:
    r = radius[:, :, np.newaxis] if radius.ndim == 2 else radius
    return np.clip(p_hat - r, 0, 1), np.clip(p_hat + r, 0, 1)


def vertices(lower: Floats, upper: Floats) -> list[Floats]:
    """The vertices of {l <= p <= u, sum p = 1}: filled up greedily in every order, of a few states."""
    found: dict[tuple[float, ...], Floats] = {}
    for order in permutations(range(len(lower))):
        p, left = lower.copy(), 1 - lower.sum()
        for j in order:
            step = min(upper[j] - lower[j], left)
            p[j] += step
            left -= step
        found[tuple(p.round(12))] = p
    return list(found.values())


def extended(p_hat: Floats, radius: Floats, costs: Floats, thresholds: Floats) -> CMDP:
    """The model whose actions are pairs of an action and a vertex of its set: planning there is optimistic."""
    S, A, _ = p_hat.shape
    lower, upper = bounds(p_hat, radius)
    rows = [[(a, v) for a in range(A) for v in vertices(lower[s, a], upper[s, a])] for s in range(S)]
    n = max(map(len, rows))
    rows = [(row * n)[:n] for row in rows]
    p = np.array([[v for _, v in row] for row in rows])
    return CMDP(p, np.array([[[c[s, a] for a, _ in rows[s]] for s in range(S)] for c in costs]), thresholds)


def all_averages(cmdp: CMDP) -> Floats:
    """The averages (n, m + 1) of every recurrent class of every deterministic policy."""
    found = []
    for choice in product(range(cmdp.A), repeat=cmdp.S):
        policy = np.eye(cmdp.A)[list(choice)]
        evaluation = evaluate(cmdp, policy)
        found += [evaluation.average_costs[:, states[0]] for states in evaluation.classes]
    return np.array(found)


def case(seed: int, S: int, m: int, shape: int) -> tuple[Floats, Floats, Floats, Floats]:
    rng = np.random.default_rng(seed)
    p_hat = rng.dirichlet(np.full(S, 0.7), size=(S, 2))
    radius = rng.uniform(0.0, 0.4, size=(S, 2, S)[:shape])
    if rng.random() < 0.3:  # a pair never seen
        p_hat[0, 1], radius[0, 1] = 0.0, 1.0
    return p_hat, radius, rng.random((m + 1, S, 2)), rng.uniform(0.3, 0.6, size=m)


def check_belief(solution: Solution, p_hat: Floats, radius: Floats, costs: Floats, thresholds: Floats) -> None:
    """The model is in the set; there the policy does what the solution says, and nothing does better."""
    p = solution.transitions
    assert p is not None
    lower, upper = bounds(p_hat, radius)
    np.testing.assert_allclose(p.sum(axis=2), 1.0, rtol=1e-12)
    assert (p >= lower - 1e-9).all()
    assert (p <= upper + 1e-9).all()
    believed = CMDP(p, costs, thresholds)
    averages = evaluate(believed, solution.policy).average_costs[:, 0]
    np.testing.assert_allclose(solution.average_costs, averages, atol=1e-12)
    other = by_linprog(believed, stateless=True)
    if solution.feasible:
        assert solution.value == pytest.approx(other.value, abs=1e-7)
    else:  # believed in is the model with the least violation
        assert solution.margin == pytest.approx(other.margin, abs=1e-7)


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(2, 3), st.integers(0, 2), st.integers(2, 3))
def test_all_vertices_of_the_set(seed: int, S: int, m: int, shape: int) -> None:
    """The value of the bilinear problem, as a linear program over policies that choose vertices, to 1e-8.

    A point of the set is a mixture of its vertices, so that mixing actions (a, vertex) covers all members.
    """
    p_hat, radius, costs, thresholds = case(seed, S, m, shape)
    solution = solve_optimistic(p_hat, radius, costs, thresholds)
    wanted = by_linprog(extended(p_hat, radius, costs, thresholds), stateless=True)
    if np.isfinite(wanted.margin):
        assert solution.margin == pytest.approx(wanted.margin, abs=1e-8)
    if solution.feasible:
        assert solution.value == pytest.approx(wanted.value, abs=1e-8)
    else:
        assert np.isnan(wanted.value)
        assert solution.conflict
    check_belief(solution, p_hat, radius, costs, thresholds)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(0, 1))
def test_against_every_chain_of_two_states(seed: int, m: int) -> None:
    check_every_chain(seed, 2, m)


@pytest.mark.parametrize("seed", range(4))
def test_against_every_chain_of_three_states(seed: int) -> None:
    check_every_chain(seed, 3, seed % 2)


def check_every_chain(seed: int, S: int, m: int) -> None:
    """No linear program at all: all deterministic policies in all vertex models, to 1e-8.

    Without constraints the best of them is optimal. With one, the optimum is the largest over prices of the best
    chain at that price, a concave function.
    """
    p_hat, radius, costs, thresholds = case(seed, S, m, 2)
    solution = solve_optimistic(p_hat, radius, costs, thresholds)
    averages = all_averages(extended(p_hat, radius, costs, thresholds))
    if m == 0:
        assert solution.value == pytest.approx(averages[:, 0].min(), abs=1e-8)
        return
    excess = averages[:, 1] - thresholds[0]
    assert solution.margin == pytest.approx(-excess.min(), abs=1e-8)
    if not solution.feasible:
        return

    def dual(price: float) -> float:
        return float((averages[:, 0] + price * excess).min())

    low, high = 0.0, 1.0 / max(solution.margin, 1e-3)
    for _ in range(100):  # the optimum is where the best chain turns from spending too much to too little
        price = (low + high) / 2
        if excess[np.argmin(averages[:, 0] + price * excess)] > 0:
            low = price
        else:
            high = price
    assert solution.value == pytest.approx(dual(high), abs=1e-8)
    assert dual(float(solution.multipliers[0])) == pytest.approx(solution.value, abs=1e-8)


@pytest.mark.parametrize("seed", range(5))
def test_no_sampled_member_does_better(seed: int) -> None:
    rng = np.random.default_rng(seed)
    S = 5
    p_hat, radius = rng.dirichlet(np.ones(S), size=(S, 3)), rng.uniform(0, 0.2, size=(S, 3, S))
    costs, thresholds = rng.random((2, S, 3)), np.array([0.4])
    solution = solve_optimistic(p_hat, radius, costs, thresholds)
    assert solution.feasible
    check_belief(solution, p_hat, radius, costs, thresholds)
    lower, upper = bounds(p_hat, radius)
    for _ in range(200):
        p = lower.copy()
        for s, a in np.ndindex(S, 3):
            for j in rng.permutation(S):
                p[s, a, j] += max(0.0, min(upper[s, a, j] - lower[s, a, j], 1 - p[s, a].sum()))
        other = solve(CMDP(p, costs, thresholds))
        assert not other.feasible or other.value >= solution.value - 1e-9


def test_radius_zero_is_the_known_model() -> None:
    for name in ("marsrover-4x4", "marsrover-8x8", "box", "queue"):
        cmdp = psconrl.make(name)
        p = cmdp.to_dense().transitions
        solution = solve_optimistic(p, np.zeros((cmdp.S, cmdp.A)), cmdp.costs, cmdp.thresholds)
        assert solution.value == pytest.approx(solve(cmdp).value, abs=1e-9)
        np.testing.assert_allclose(solution.transitions, p, atol=1e-12)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["marsrover-4x4", "marsrover-8x8", "box"])
def test_gridworlds(name: str) -> None:
    """The larger the radius, the better the belief; pairs never seen may lead anywhere."""
    cmdp = psconrl.make(name)
    p, known = np.array(cmdp.to_dense().transitions), solve(cmdp).value
    solution = solve_optimistic(p, np.full((cmdp.S, cmdp.A), 0.1), cmdp.costs, cmdp.thresholds)
    assert solution.value < known
    assert solution.loss <= 1e-7
    assert solution.average_costs[1] <= cmdp.thresholds[0] + 1e-7
    check_belief(solution, p, np.full((cmdp.S, cmdp.A), 0.1), cmdp.costs, cmdp.thresholds)
    p[0, 0] = 0.0
    radius = np.full((cmdp.S, cmdp.A), 0.1)
    radius[0, 0] = 1.0
    assert solve_optimistic(p, radius, cmdp.costs, cmdp.thresholds).value <= solution.value + 1e-9


def test_unused_pairs_get_the_nearest_member() -> None:
    rng = np.random.default_rng(0)
    p_hat, radius = rng.dirichlet(np.ones(4), size=(4, 3)), np.full((4, 3), 0.05)
    p_hat[2, 2], radius[2, 2] = [0.5, 0.1, 0.0, 0.0], 0.3
    costs = rng.random((1, 4, 3))
    costs[0, 2, 2] = 5.0
    solution = solve_optimistic(p_hat, radius, costs)
    assert solution.transitions is not None
    unused = solution.occupancy == 0
    assert unused[2, 2]
    unused[2, 2] = False
    np.testing.assert_allclose(solution.transitions[unused], p_hat[unused], atol=1e-12)
    # All entries go up alike: 0.6 + 4 x = 1.
    np.testing.assert_allclose(solution.transitions[2, 2], [0.6, 0.2, 0.1, 0.1], atol=1e-12)


def test_an_empty_set_is_named() -> None:
    p_hat = np.zeros((3, 2, 3))
    p_hat[..., 0] = 1.0
    p_hat[1, 1] = 0.0
    radius = np.full((3, 2), 0.2)
    with pytest.raises(ValueError, match=r"p_hat\[1, 1\]"):
        solve_optimistic(p_hat, radius, np.zeros((1, 3, 2)))
    p_hat[1, 1], p_hat[2, 0] = [0.5, 0.5, 0.0], [0.9, 0.9, 0.0]
    with pytest.raises(ValueError, match=r"p_hat\[2, 0\]"):
        solve_optimistic(p_hat, radius, np.zeros((1, 3, 2)))


@pytest.mark.parametrize(
    ("p_hat", "radius", "message"),
    [
        (np.ones((2, 2)), np.ones((2, 2)), r"must be \(S, A, S\)"),
        (np.full((2, 1, 2), 0.5), np.ones((2, 2)), "radius has shape"),
        (np.full((2, 1, 2), 0.5), np.full((2, 1), -1.0), r"radius\[0, 0\] is -1"),
        (np.full((2, 1, 2), 0.5), np.full((2, 1), np.nan), r"radius\[0, 0\] is nan"),
        (np.full((2, 1, 2), np.nan), np.ones((2, 1)), "p_hat"),
    ],
)
def test_bad_sets(p_hat: Floats, radius: Floats, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        solve_optimistic(p_hat, radius, np.zeros((1, 2, 1)))


def test_classes_are_joined_by_a_known_share() -> None:
    """Two states that can be kept, at (0, 1) and (1, 0), joined by switches at (1, 1) for a share of 0.24 / 4."""
    p = np.zeros((2, 2, 2))
    p[0, 0, 0] = p[1, 0, 1] = p[0, 1, 1] = p[1, 1, 0] = 1.0
    costs = np.array([[[0.0, 1.0], [1.0, 1.0]], [[1.0, 1.0], [0.0, 1.0]]])
    found = solve_optimistic(p, np.zeros((2, 2)), costs, [0.5], join=0.24)
    assert found.classes == 2
    np.testing.assert_allclose(found.average_costs, 0.94 * 0.5 + 0.06, rtol=1e-9)
