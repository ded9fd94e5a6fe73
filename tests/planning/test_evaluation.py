"""Exact evaluation against closed forms, rational arithmetic, and plain averages over time."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from psconrl._checks import Floats
from psconrl.cmdp import CMDP
from psconrl.planning import _kernels, evaluate, evaluation


def one_action(P: Floats, costs: Floats, initial: Any = 0) -> CMDP:
    """A chain (S, S) with costs (n, S) as a model with one action."""
    return CMDP(P[:, np.newaxis], costs[:, :, np.newaxis], np.ones(len(costs) - 1), initial=initial)


def stay(cmdp: CMDP) -> Floats:
    return np.ones((cmdp.S, 1))


def random_chain(rng: np.random.Generator, S: int) -> Floats:
    """One to three successors for each state: often periodic, often with several classes."""
    P = np.zeros((S, S))
    for s in range(S):
        ends = rng.choice(S, size=min(S, int(rng.integers(1, 4))), replace=False)
        P[s, ends] = rng.dirichlet(np.ones(len(ends)))
    return P


def cesaro(P: Floats) -> Floats:
    """The mean of P^0, ..., P^(n-1) for n = 2^36, by doubling."""
    mean, power = np.eye(len(P)), P
    for _ in range(36):
        mean = (mean + power @ mean) / 2
        power = power @ power
        power /= power.sum(axis=1, keepdims=True)
        mean /= mean.sum(axis=1, keepdims=True)
    return mean


def exact_law(P: Floats) -> list[Fraction]:
    """The stationary law of an irreducible chain in rational arithmetic; the diagonal of P is what is left."""
    n = len(P)
    Q = [[Fraction(float(P[i, j])) if i != j else Fraction(0) for j in range(n)] for i in range(n)]
    for k in range(n - 1, 0, -1):
        out = sum(Q[k][:k], Fraction(0))
        for i in range(k):
            Q[i][k] /= out
            for j in range(k):
                if i != j:
                    Q[i][j] += Q[i][k] * Q[k][j]
    x = [Fraction(1)]
    for k in range(1, n):
        x.append(sum((x[i] * Q[i][k] for i in range(k)), Fraction(0)))
    total = sum(x, Fraction(0))
    return [value / total for value in x]


# Closed forms


def test_a_cycle_is_periodic_and_averages_anyway() -> None:
    P = np.roll(np.eye(3), 1, axis=1)
    cmdp = one_action(P, np.array([[0.0, 0.0, 3.0]]))
    found = evaluate(cmdp, stay(cmdp))
    np.testing.assert_allclose(found.average_costs, 1.0, rtol=1e-15)
    np.testing.assert_allclose(found.stationary, 1 / 3, rtol=1e-15)
    # h = c - g + P h with mean zero: h(0) = -1 + h(1), h(1) = -1 + h(2), h(2) = 2 + h(0).
    np.testing.assert_allclose(found.bias, [[-1.0, 0.0, 1.0]], atol=1e-15)


@pytest.mark.parametrize("up", [0.5, 0.3])
def test_gamblers_ruin(up: float) -> None:
    N, down = 20, 1 - up
    P = np.zeros((N + 1, N + 1))
    P[0, 0] = P[N, N] = 1.0
    for i in range(1, N):
        P[i, i + 1], P[i, i - 1] = up, down
    costs = np.zeros((1, N + 1))
    costs[0, N] = 1.0
    n = np.arange(N + 1)
    wins = n / N if up == 0.5 else (1 - (down / up) ** n) / (1 - (down / up) ** N)
    start = np.random.default_rng(0).dirichlet(np.ones(N + 1))
    cmdp = one_action(P, costs, start)
    found = evaluate(cmdp, stay(cmdp))
    np.testing.assert_allclose(found.average_costs[0], wins, rtol=1e-12)
    assert [states.tolist() for states in found.classes] == [[0], [N]]
    np.testing.assert_allclose(found.stationary[[0, N]], [1 - start @ wins, start @ wins], rtol=1e-12)
    assert found.stationary[1:N].sum() == 0
    assert "recurrent classes=2" in repr(found)
    assert "0..1" in repr(found)


@pytest.mark.parametrize(("there", "back"), [(1e-12, 1e-14), (1e-14, 1e-12), (1e-9, 0.5), (1e-200, 1e-100)])
def test_two_states_that_hardly_meet(there: float, back: float) -> None:
    P = np.array([[1 - there, there], [back, 1 - back]])
    cmdp = one_action(P, np.array([[1.0, 0.0], [0.0, 1.0]]))
    found = evaluate(cmdp, stay(cmdp))
    law = np.array([1.0, there / back]) / (1.0 + there / back)
    np.testing.assert_allclose(found.stationary, law, rtol=1e-10)
    np.testing.assert_allclose(found.average_costs, np.repeat(law[:, np.newaxis], 2, axis=1), rtol=1e-10)


@pytest.mark.parametrize("seed", range(10))
def test_nearly_decomposable_chains_to_ten_digits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    S, block = 9, np.arange(9) // 3
    P = rng.random((S, S)) * np.where(block[:, np.newaxis] == block, 0.2, 10.0 ** rng.uniform(-14, -9, (S, S)))
    np.fill_diagonal(P, 0.0)
    np.fill_diagonal(P, 1 - P.sum(axis=1))
    cmdp = one_action(P, np.eye(S))
    law = np.array([float(x) for x in exact_law(cmdp.policy_matrix(stay(cmdp)).toarray())])
    found = evaluate(cmdp, stay(cmdp))
    np.testing.assert_allclose(found.stationary, law, rtol=1e-10)
    np.testing.assert_allclose(found.average_costs[:, 0], law, rtol=1e-10)


def test_a_large_chain_is_solved_sparsely() -> None:
    S, up, down = 1500, 0.45, 0.5
    assert S > evaluation.DENSE_LIMIT
    P = np.zeros((S, S))
    s = np.arange(S)
    P[s[:-1], s[1:]], P[s[1:], s[:-1]] = up, down
    P[s, s] = 1 - P.sum(axis=1)
    cmdp = one_action(P, s[np.newaxis].astype(float)).to_sparse()
    law = (up / down) ** s * (1 - up / down) / (1 - (up / down) ** S)
    found = evaluate(cmdp, stay(cmdp))
    np.testing.assert_allclose(found.stationary, law, rtol=1e-9, atol=1e-14)
    np.testing.assert_allclose(found.average_costs[0], s @ law, rtol=1e-10)


def test_costs_of_moves_count_with_their_means() -> None:
    p = np.array([[[0.25, 0.75]], [[1.0, 0.0]]])
    move_costs = np.array([[[[4.0, 8.0]], [[2.0, 100.0]]]])
    found = evaluate(CMDP(p, move_costs), np.ones((2, 1)))
    law = np.array([4 / 7, 3 / 7])
    np.testing.assert_allclose(found.average_costs[0], law @ [7.0, 2.0], rtol=1e-14)


def test_the_policy_chooses_among_actions() -> None:
    rng = np.random.default_rng(1)
    p, costs, pi = rng.dirichlet(np.ones(5), size=(5, 3)), rng.random((2, 5, 3)), rng.dirichlet(np.ones(3), size=5)
    found = evaluate(CMDP(p, costs, [1.0]), pi)
    chain, paid = np.einsum("sa,sax->sx", pi, p), np.einsum("isa,sa->is", costs, pi)
    np.testing.assert_allclose(found.average_costs, paid @ cesaro(chain).T, rtol=1e-8)


# Random chains against time averages, and the equations of the bias


@given(st.integers(0, 10**6), st.integers(1, 9))
def test_averages_over_time(seed: int, S: int) -> None:
    rng = np.random.default_rng(seed)
    P, costs, start = random_chain(rng, S), rng.random((2, S)), rng.dirichlet(np.ones(S))
    cmdp = one_action(P, costs, start)
    found, limit = evaluate(cmdp, stay(cmdp)), cesaro(P)
    np.testing.assert_allclose(found.average_costs, costs @ limit.T, atol=1e-7)
    np.testing.assert_allclose(found.stationary, start @ limit, atol=1e-7)
    np.testing.assert_allclose(found.stationary.sum(), 1.0, rtol=1e-12)
    deviation = np.linalg.solve(np.eye(S) - P + limit, np.eye(S) - limit)
    np.testing.assert_allclose(found.bias, costs @ deviation.T, atol=1e-5)


@given(st.integers(0, 10**6), st.integers(1, 30))
def test_the_equations_of_the_bias(seed: int, S: int) -> None:
    rng = np.random.default_rng(seed)
    P, costs = random_chain(rng, S), rng.random((2, S))
    cmdp = one_action(P, costs)
    found = evaluate(cmdp, stay(cmdp))
    g, h = found.average_costs, found.bias
    np.testing.assert_allclose(g @ P.T, g, atol=1e-12)
    np.testing.assert_allclose(costs - g + h @ P.T, h, atol=1e-9 * max(1.0, np.abs(h).max()))
    for states in found.classes:
        inside = one_action(P[np.ix_(states, states)], costs[:, states])
        law = evaluate(inside, stay(inside)).stationary
        np.testing.assert_allclose(h[:, states] @ law, 0.0, atol=1e-9 * max(1.0, np.abs(h).max()))


@given(st.integers(0, 10**6), st.integers(2, 25))
def test_sparse_and_dense_paths_agree(seed: int, S: int) -> None:
    rng = np.random.default_rng(seed)
    P, costs, start = random_chain(rng, S), rng.random((2, S)), rng.dirichlet(np.ones(S))
    cmdp = one_action(P, costs, start)
    dense = evaluate(cmdp, stay(cmdp))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evaluation, "DENSE_LIMIT", 1)
        thin = evaluate(cmdp, stay(cmdp))
    for name in ("average_costs", "stationary", "bias"):
        size = max(1.0, np.abs(getattr(dense, name)).max())
        np.testing.assert_allclose(getattr(thin, name), getattr(dense, name), atol=1e-10 * size)


# Compiled kernels against their plain twins


@pytest.mark.parametrize("seed", range(5))
def test_compiled_kernels_equal_their_plain_twins(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, kept = 12, int(rng.integers(1, 4))
    P, R = rng.dirichlet(np.full(n, 0.3), size=n), rng.random((n, 2))
    V = np.zeros((n, 2))
    V[:kept] = rng.random((kept, 2))
    kernels: Any = _kernels
    results = []
    for kind in ("compiled", "plain"):
        eliminate, stationary, absorb = (
            getattr(kernels, name) if kind == "compiled" else getattr(kernels, name).py_func
            for name in ("eliminate", "stationary", "absorb")
        )
        p, r, v, q = P.copy(), R.copy(), V.copy(), P.copy()
        out = eliminate(p, r, kept)
        absorb(P.copy(), R.copy(), v, kept)
        results.append((p, r, out, v, stationary(q)))
    for compiled, plain in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, plain, rtol=1e-13)
    np.testing.assert_allclose(results[0][4] @ P, results[0][4], rtol=1e-12)
