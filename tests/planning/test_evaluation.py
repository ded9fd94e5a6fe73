"""Exact evaluation against closed forms, rational arithmetic, and plain averages over time."""

from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from psconrl import make, solve
from psconrl._core.checks import Floats, Ints
from psconrl._core.graph import closed_classes
from psconrl.cmdp import CMDP
from psconrl.errors import InvalidModelError
from psconrl.planning import evaluate
from psconrl.planning.chains import SparseChain, chain_of, solve_chain
from psconrl.planning.compiled import elimination
from psconrl.planning.compiled.elimination import Chain
from psconrl.planning.elimination_order import elimination_order
from psconrl.planning.evaluation import evaluate_chain


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


# Rational arithmetic: laws, averages and biases, however rare the moves


def exact_bias(P: Floats, cost: Floats) -> tuple[Fraction, list[Fraction]]:
    """Gain, and what is collected above it until state 0 is entered, of an irreducible chain."""
    n, law = len(P), exact_law(P)
    c = [Fraction(float(x)) for x in cost]
    g = sum((x * y for x, y in zip(law, c, strict=True)), Fraction(0))
    Q = [[Fraction(float(P[i, j])) if i != j else Fraction(0) for j in range(n)] for i in range(n)]
    R, out = [x - g for x in c], [Fraction(0)] * n
    for k in range(n - 1, 0, -1):
        out[k] = sum(Q[k][:k], Fraction(0))
        for i in range(k):
            R[i] += Q[i][k] / out[k] * R[k]
            for j in range(k):
                if i != j:
                    Q[i][j] += Q[i][k] / out[k] * Q[k][j]
    h = [Fraction(0)]
    for k in range(1, n):
        h.append((R[k] + sum((Q[k][j] * h[j] for j in range(k)), Fraction(0))) / out[k])
    return g, h


def rare_moves(rng: np.random.Generator, n: int) -> Floats:
    """An irreducible chain with moves down to 1e-300; the diagonal is what is left."""
    while True:
        W = 10.0 ** -rng.choice([0, 0, 1, 5, 12, 50, 200, 299], size=(n, n)).astype(float) * rng.random((n, n))
        W *= rng.random((n, n)) < 0.7
        np.fill_diagonal(W, 0.0)
        W /= np.maximum(1.0, W.sum(axis=1, keepdims=True) * (1 + 1e-9))
        if n == 1 or len(elimination_classes(W)) == 1:
            return W


def elimination_classes(W: Floats) -> set[int]:
    """The labels of the strong components of a chain."""
    return set(sparse.csgraph.connected_components(sparse.csr_array(W), connection="strong")[1].tolist())


@pytest.mark.parametrize("seed", range(150))
def test_rare_moves_count(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 8))
    P, scale = rare_moves(rng, n), 10.0 ** int(rng.integers(-12, 13))
    costs = rng.random((1, n)) * scale
    found = evaluate_chain(sparse.csr_array(P), costs, np.eye(n)[0])
    law = np.array([float(x) for x in exact_law(P)])
    g, h = exact_bias(P, costs[0])
    np.testing.assert_allclose(found.stationary, law, rtol=1e-13, atol=1e-305)
    np.testing.assert_allclose(found.average_costs[0], float(g), rtol=0, atol=1e-14 * scale)
    assert abs(found.average_costs[0] - float(g)).max() <= found.error[0] <= 1e-11 * scale
    # The bias is exact on the scale of the time it takes.
    wanted = np.array([float(x - h[0]) for x in h])
    if np.isfinite(wanted).all():
        got = found.bias[0] - found.bias[0, 0]
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-9 * max(float(np.abs(wanted).max()), scale))


@pytest.mark.parametrize("leak", [1e-3, 1e-12, 1e-200])
def test_differences_of_a_huge_bias(leak: float) -> None:
    """Two pairs of states that swap, and hardly ever meet."""
    P = np.zeros((4, 4))
    P[0, 1] = P[1, 0] = P[2, 3] = P[3, 2] = 0.75
    P[1, 2] = P[3, 0] = leak
    found = evaluate_chain(sparse.csr_array(P), np.array([[0.0, 1.0, 2.0, 3.0]]), np.eye(4)[0])
    exact = [float(x) for x in exact_bias(P, np.arange(4.0))[1]]
    np.testing.assert_allclose(found.bias[0] - found.bias[0, 0], exact, rtol=1e-12, atol=1e-12 * max(map(abs, exact)))


def test_a_walk_that_drifts_to_the_far_end() -> None:
    """601 states, up .3, down .2, cost (s / 600)^2: the start state has a mass of 1e-106."""
    S = 601
    P = sparse.diags_array([np.full(S - 1, 0.3), np.full(S - 1, 0.2)], offsets=[1, -1]).tocsr()
    costs = np.linspace(0.0, 1.0, S)[np.newaxis] ** 2
    found = evaluate_chain(P, costs, np.eye(S)[0])
    weights = [Fraction(3, 2) ** (s - S) for s in range(S)]
    exact = sum((w * Fraction(float(c)) for w, c in zip(weights, costs[0], strict=True)), Fraction(0)) / sum(weights)
    np.testing.assert_allclose(found.average_costs[0], float(exact), rtol=1e-13)
    np.testing.assert_allclose(found.stationary[0] * 1e105, float(weights[0] / sum(weights) * 10**105), rtol=1e-12)


def test_a_barrier_of_masses_beyond_the_range_of_floats() -> None:
    """Two ends that attract, 7 to 1, over 450 states each: the middle has a mass of 7^-450, and both ends one half."""
    half = 450
    S = 2 * half + 1
    s = np.arange(S - 1)
    up, down = np.where(s < half, 0.05, 0.35), np.where(s + 1 <= half, 0.35, 0.05)
    P = sparse.diags_array([up, down], offsets=[1, -1]).tocsr()
    found = evaluate_chain(P, np.linspace(0.0, 1.0, S)[np.newaxis], np.eye(S)[0])
    np.testing.assert_allclose(found.stationary[[0, -1]], 3 / 7, rtol=1e-12)
    np.testing.assert_allclose(found.stationary, found.stationary[::-1], rtol=1e-12)
    np.testing.assert_allclose(found.average_costs, 0.5, rtol=1e-12)


def test_costs_of_any_scale() -> None:
    rng = np.random.default_rng(2)
    P, costs = sparse.csr_array(rng.dirichlet(np.ones(6), size=6)), rng.random((1, 6))
    plain = evaluate_chain(P, costs, np.eye(6)[0])
    for scale in (2.0**-40, 2.0**40):
        found = evaluate_chain(P, costs * scale, np.eye(6)[0])
        np.testing.assert_array_equal(found.average_costs, plain.average_costs * scale)
        np.testing.assert_array_equal(found.bias, plain.bias * scale)
    found = evaluate_chain(P, costs * 1e-12 + 5.0, np.eye(6)[0])
    np.testing.assert_allclose(found.average_costs, plain.average_costs * 1e-12 + 5.0, rtol=1e-15)
    assert evaluate_chain(P, np.full((1, 6), 3.0), np.eye(6)[0]).average_costs.tolist() == [[3.0] * 6]


# Many states


def random_graph(S: int, successors: int, seed: int) -> sparse.csr_array:
    rng = np.random.default_rng(seed)
    ends, p = rng.integers(0, S, size=(S, successors)), rng.dirichlet(np.ones(successors), size=S)
    return sparse.csr_array((p.ravel(), (np.repeat(np.arange(S), successors), ends.ravel())), shape=(S, S))


def test_a_random_graph_by_iteration_and_by_elimination(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transient states, one or more classes; iteration agrees with elimination, small masses included."""
    S = 700
    P, costs = random_graph(S, 3, 1), np.random.default_rng(1).random((2, S))
    start = np.full(S, 1.0 / S)
    eliminated = evaluate_chain(P, costs, start)
    monkeypatch.setitem(solve_chain.__globals__, "MAX_ELIMINATION_WORK", -1.0)
    iterated = evaluate_chain(P, costs, start)
    np.testing.assert_allclose(iterated.average_costs, eliminated.average_costs, rtol=1e-13)
    np.testing.assert_allclose(iterated.stationary, eliminated.stationary, rtol=1e-11)
    np.testing.assert_allclose(iterated.bias, eliminated.bias, atol=1e-11)
    assert iterated.error.max() < 1e-13


@pytest.mark.parametrize("stays", [0.75, 0.999, 1 - 2.0**-16])
def test_iteration_does_not_wait_for_states_that_are_seldom_left(stays: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is transient, one that is recurrent."""
    S = 300
    P, costs = random_graph(S, 3, 1).toarray(), np.random.default_rng(1).random((2, S))
    recurrent = closed_classes(sparse.csr_array(P))[0]
    for s in (recurrent[0], np.setdiff1d(np.arange(S), recurrent)[0]):
        P[s] *= (1 - stays) / P[s].sum()
        P[s, s] = stays
    start = np.full(S, 1.0 / S)
    eliminated = evaluate_chain(sparse.csr_array(P), costs, start)
    monkeypatch.setitem(solve_chain.__globals__, "MAX_ELIMINATION_WORK", -1.0)
    monkeypatch.setitem(solve_chain.__globals__, "EliminatedChain", None)
    iterated = evaluate_chain(sparse.csr_array(P), costs, start)
    np.testing.assert_allclose(iterated.stationary, eliminated.stationary, rtol=1e-9)
    np.testing.assert_allclose(iterated.average_costs, eliminated.average_costs, rtol=1e-10)
    np.testing.assert_allclose(iterated.bias, eliminated.bias, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("leak", [1e-6, 1e-13])
def test_iteration_is_not_believed_where_blocks_hardly_meet(leak: float, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    block = rng.dirichlet(np.ones(30), size=30)
    P = np.kron(np.eye(2), block) * (1 - leak)
    P[0, 30], P[30, 0] = leak, 3 * leak
    costs = rng.random((1, 60))
    wanted = evaluate_chain(sparse.csr_array(P), costs, np.eye(60)[0])
    monkeypatch.setitem(solve_chain.__globals__, "MAX_ELIMINATION_WORK", -1.0)
    found = evaluate_chain(sparse.csr_array(P), costs, np.eye(60)[0])
    np.testing.assert_allclose(found.average_costs, wanted.average_costs, rtol=1e-13)
    assert wanted.stationary[:30].sum() == pytest.approx(0.75)


def test_a_large_periodic_chain_with_two_classes_and_transient_states() -> None:
    """Two rings of 4,000 states, and a path that ends in either."""
    n = 4000
    s = np.arange(n)
    rows = np.concatenate([s, n + s, 2 * n + s, [2 * n]])
    ends = np.concatenate([(s + 1) % n, n + (s + 1) % n, np.where(s > 0, 2 * n + s - 1, 0), [n]])
    p = np.concatenate([np.ones(2 * n), np.where(s > 0, 1.0, 0.25), [0.75]])
    P = sparse.csr_array((p, (rows, ends)), shape=(3 * n, 3 * n))
    costs = np.zeros((1, 3 * n))
    costs[0, n] = n
    found = evaluate_chain(P, costs, np.eye(3 * n)[2 * n + 5])
    np.testing.assert_allclose(found.average_costs[0, [0, n, 2 * n, 3 * n - 1]], [0, 1, 0.75, 0.75], rtol=1e-13)
    np.testing.assert_allclose(found.stationary[: 2 * n], np.repeat([0.25 / n, 0.75 / n], n), rtol=1e-12)
    assert found.error.max() < 1e-12 * n


# Policies by actions


def test_a_policy_may_be_given_by_actions() -> None:
    rng = np.random.default_rng(1)
    cmdp = CMDP(rng.dirichlet(np.ones(5), size=(5, 3)), rng.random((2, 5, 3)), [1.0])
    actions = np.array([0, 2, 1, 1, 0])
    by_actions, by_law = evaluate(cmdp, actions), evaluate(cmdp, np.eye(3)[actions])
    np.testing.assert_allclose(by_actions.average_costs, by_law.average_costs, rtol=1e-14)
    np.testing.assert_allclose(by_actions.stationary, by_law.stationary, rtol=1e-14)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([0, 1, 3], r"policy\[2\] is 3; an action must be one of 0, \.\.\., 2"),
        ([0, -1, 0], r"policy\[1\] is -1; an action must be one of 0, \.\.\., 2"),
        ([0, 1], r"the policy has shape \(2,\); actions must have shape \(S,\) = \(3,\)"),
        ([0.0, 1.0, 2.0], r"the policy has shape \(3,\); it must be \(S, A\) = \(3, 3\)"),
    ],
)
def test_actions_that_do_not_exist_are_refused(policy: list[float], message: str) -> None:
    cmdp = CMDP(np.full((3, 3, 3), 1 / 3), np.zeros((1, 3, 3)))
    with pytest.raises(InvalidModelError, match=message):
        evaluate(cmdp, policy)


# Kernels against their plain twins


def grid_chain(n: int, seed: int) -> Chain:
    """Random moves between neighbours of an n x n grid."""
    rng = np.random.default_rng(seed)
    row, column = np.divmod(np.arange(n * n), n)
    ends = [
        np.clip(row + i, 0, n - 1) * n + np.clip(column + j, 0, n - 1) for i, j in ((-1, 0), (1, 0), (0, -1), (0, 1))
    ]
    where = (np.tile(np.arange(n * n), 4), np.concatenate(ends))
    return chain_of(sparse.csr_array((rng.random(4 * n * n) / 4, where), shape=(n * n, n * n)))


def same(kernel: Any) -> Any:
    return kernel


def plain(kernel: Any) -> Any:
    return kernel.py_func


@pytest.mark.parametrize("seed", range(4))
def test_kernels_equal_their_plain_twins(seed: int) -> None:
    rng = np.random.default_rng(seed)
    chain = chain_of(sparse.csr_array(rare_moves(rng, 7))) if seed % 2 else grid_chain(5, seed)
    S = len(chain.indptr) - 1
    kept, amounts = np.arange(2), rng.random(S)
    order, _ = elimination_order(chain, kept)
    place = np.argsort(np.concatenate([order, kept]))
    results: list[list[Any]] = []
    for twin in (same, plain):
        factor = twin(elimination.eliminate)(chain, order, place)
        masses = twin(elimination.visits)(factor, np.ones(S), False)
        h = np.zeros(S)
        twin(elimination.collect)(factor, amounts[order], h)
        residuals = twin(elimination.residuals)(chain, amounts, 1.0, h[place])
        results.append([*factor, *masses, h, *residuals])
    for compiled, slow in zip(*results, strict=True):
        np.testing.assert_allclose(compiled, slow, rtol=1e-9, atol=1e-12)


def fill(chain: Chain, order: Ints, place: Ints) -> int:
    return len(elimination.eliminate(chain, order, place).up)


def test_the_order_fills_in_little() -> None:
    """On a grid whose states are shuffled nearly all of what would be filled in is spared."""
    chain, S = grid_chain(30, 0), 900
    shuffled = np.random.default_rng(0).permutation(S)
    order, work = elimination_order(chain, np.array([S - 1]))
    assert sorted(order.tolist()) == list(range(S - 1))
    place = np.argsort(np.append(order, S - 1))
    mixed = np.append(shuffled[shuffled < S - 1], S - 1)
    assert 3 * fill(chain, order, place) < fill(chain, mixed[:-1], np.argsort(mixed))
    assert work < 3 * S * 30**2


def _grid_chain() -> sparse.csr_array:
    """The way from everywhere in a slippery grid to its goal, and from there to the start."""
    cmdp = make("grid", rows=30, columns=25, slip=0.1)
    solved = solve(cmdp).mixture[0].policy
    return cmdp.matrix[np.arange(cmdp.S) * cmdp.A + solved]


def test_sparse_factors_agree_with_elimination() -> None:
    matrix = _grid_chain()
    classes, S = closed_classes(matrix), matrix.shape[0]
    sparsely = SparseChain(chain_of(matrix), classes)
    assert sparsely.converged
    assert sparsely.is_certain()
    exact = evaluate_chain(matrix, np.random.default_rng(3).random((1, S)), np.full(S, 1 / S))
    np.testing.assert_allclose(sparsely.stationary, exact.stationary, atol=1e-12)
    amounts = np.random.default_rng(3).random(S) - exact.average_costs[0]
    np.testing.assert_allclose(sparsely.bias(amounts), exact.bias[0], atol=1e-10)
    assert sparsely.shares(exact.stationary).tolist() == [1.0]
    np.testing.assert_array_equal(sparsely.values(np.array([0.3])), np.full(S, 0.3))


@pytest.mark.parametrize("leak", [1e-3, 1e-6, 1e-10, 1e-14])
def test_sparse_factors_are_not_believed_where_states_hardly_meet(leak: float) -> None:
    """Two grids joined by moves from a likely state to its twin: if these are rare, shares of the grids are noise."""
    one = _grid_chain()
    S, r = one.shape[0], elimination.likely_state(chain_of(one), 0)
    cross, less = (sparse.csr_array(([p], ([r], [r])), shape=(S, S)) for p in (leak, 3 * leak))
    matrix = sparse.csr_array(sparse.block_array([[one, cross], [less, one]]))
    sparsely = SparseChain(chain_of(matrix), closed_classes(matrix))
    certain = sparsely.converged and sparsely.is_certain()
    assert certain or leak < 1e-3
    if certain:
        assert sparsely.stationary[:S].sum() == pytest.approx(0.75, abs=1e-9)
