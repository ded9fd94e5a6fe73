"""The fastest way against closed forms, value iteration, and all deterministic policies of tiny models."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from psconrl._core.checks import Bools, Floats, Ints
from psconrl.planning import shortest_paths
from psconrl.planning.compiled import shortest_path
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.shortest_paths import expected_visits, shortest_path_policy


def at(S: int, *states: int) -> Bools:
    return np.isin(np.arange(S), states)


def times_of(p: Floats, actions: Ints, targets: Bools) -> Floats:
    """Expected times of a proper policy, by plain linear algebra."""
    rest = np.flatnonzero(~targets & (actions >= 0))
    V = np.where(targets, 0.0, np.inf)
    P = p[rest, actions[rest]][:, rest]
    V[rest] = np.linalg.solve(np.eye(len(rest)) - P, np.ones(len(rest)))
    return V


def way_of(matrix: sparse.csr_array, targets: Bools) -> tuple[Floats, Ints]:
    """Times and actions of the fastest way, -1 where there is no pair."""
    rows = Rows.from_sparse(matrix)
    times, pairs = shortest_path_policy(rows, targets)
    return times, np.where(pairs < 0, -1, pairs - rows.begin[:-1])


def random_model(seed: int, S: int, A: int) -> Floats:
    """Rows with one to three successors."""
    rng = np.random.default_rng(seed)
    p = np.zeros((S, A, S))
    for s, a in product(range(S), range(A)):
        ends = rng.choice(S, size=min(S, int(rng.integers(1, 4))), replace=False)
        p[s, a, ends] = rng.dirichlet(np.ones(len(ends)))
    return p


def flat(p: Floats) -> sparse.csr_array:
    S, A, _ = p.shape
    return sparse.csr_array(p.reshape(S * A, S))


def grid(n: int, slip: float) -> sparse.csr_array:
    """Up, down, left, right on an n x n grid; with probability `slip` a random one of them."""
    row, column = np.divmod(np.arange(n * n), n)
    steps = [(-1, 0), (1, 0), (0, -1), (0, 1)]
    ends = [np.clip(row + i, 0, n - 1) * n + np.clip(column + j, 0, n - 1) for i, j in steps]
    rows, columns, p = [], [], []
    for a, b in product(range(4), repeat=2):
        rows.append(np.arange(n * n) * 4 + a)
        columns.append(ends[b])
        p.append(np.full(n * n, (1 - slip) * (a == b) + slip / 4))
    where = (np.concatenate(rows), np.concatenate(columns))
    matrix = sparse.csr_array((np.concatenate(p), where), shape=(4 * n * n, n * n))
    matrix.eliminate_zeros()
    return matrix


@settings(deadline=None)  # kernels are compiled at first use
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 3))
def test_against_all_policies(seed: int, S: int, A: int) -> None:
    p = random_model(seed, S, A)
    targets = np.random.default_rng(seed).random(S) < 0.4
    best = np.where(targets, 0.0, np.inf)
    for choice in product(range(A), repeat=S):
        chain = p[np.arange(S), choice]
        reach = np.linalg.matrix_power((chain > 0) * ~targets[:, np.newaxis] + np.eye(S), S) > 0
        hits = reach[:, targets].any(axis=1)
        sure = ~reach[:, ~hits].any(axis=1)
        rest = np.flatnonzero(sure & ~targets)
        V = np.linalg.solve(np.eye(len(rest)) - chain[np.ix_(rest, rest)], np.ones(len(rest)))
        best[rest] = np.minimum(best[rest], V)
    times, actions = way_of(flat(p), targets)
    np.testing.assert_allclose(times, best, rtol=1e-9)
    np.testing.assert_array_equal(actions >= 0, np.isfinite(best) & ~targets)
    np.testing.assert_allclose(times_of(p, actions, targets), best, rtol=1e-9)


@pytest.mark.parametrize("n", [4, 12, 20])  # the last is eliminated in the order of minimum degree
@pytest.mark.parametrize("slip", [0.0, 0.3])
def test_grid_against_value_iteration(n: int, slip: float) -> None:
    matrix, targets = grid(n, slip), at(n * n, 5)
    V = np.zeros(n * n)
    for _ in range(3000):
        W = np.where(targets, 0.0, (1 + matrix @ V).reshape(-1, 4).min(axis=1))
        done = np.abs(W - V).max() < 1e-13
        V = W
        if done:
            break
    times, actions = way_of(matrix, targets)
    np.testing.assert_allclose(times, V, rtol=1e-10)
    Q = (1 + matrix @ times).reshape(-1, 4)
    chosen = np.take_along_axis(Q, actions.clip(0)[:, np.newaxis], axis=1)[:, 0]
    np.testing.assert_allclose(chosen[~targets], times[~targets], rtol=1e-10)


def test_sparse_factors_find_the_same_way(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix, targets = grid(9, 0.4), at(81, 3, 77)
    eliminated = way_of(matrix, targets)
    monkeypatch.setattr(shortest_paths, "MAX_DENSE", 0)
    factored = way_of(matrix, targets)
    np.testing.assert_allclose(eliminated[0], factored[0], rtol=1e-12)
    np.testing.assert_array_equal(eliminated[1] < 0, factored[1] < 0)


def test_a_line_and_its_ties() -> None:
    """0 - 1 - 2 - 3 - 4 to state 2; both actions do the same: the lower is taken."""
    p = np.zeros((5, 2, 5))
    p[np.arange(5), :, [1, 2, 2, 2, 3]] = 1.0
    times, actions = way_of(flat(p), at(5, 2))
    assert times.tolist() == [2, 1, 0, 1, 2]
    assert actions.tolist() == [0, 0, -1, 0, 0]


def test_out_of_reach() -> None:
    """State 0: a coin between the target 1 and the trap 2; 3 leads to 0 or, surely, to 1."""
    p = np.zeros((4, 2, 4))
    p[0, :, 1] = p[0, :, 2] = 0.5
    p[1, :, 1] = p[2, :, 2] = 1.0
    p[3, 0, 0] = p[3, 1, 1] = 1.0
    times, actions = way_of(flat(p), at(4, 1))
    assert times.tolist() == [np.inf, 0, np.inf, 1]
    assert actions.tolist() == [-1, -1, -1, 1]


def test_no_targets_and_only_targets() -> None:
    matrix = grid(3, 0.2)
    times, actions = way_of(matrix, at(9))
    assert np.isinf(times).all()
    assert (actions == -1).all()
    times, actions = way_of(matrix, ~at(9))
    assert (times == 0).all()
    assert (actions == -1).all()


def cluster(a: float, b: float) -> Floats:
    """States 1, 2 swap; from 1 the target 0 is entered with probability a or b, by action."""
    p = np.zeros((3, 2, 3))
    p[0, :, 0] = 1.0
    p[1, 0, [0, 2]] = a, 1 - a
    p[1, 1, [0, 2]] = b, 1 - b
    p[2, :, 1] = 1.0
    return p


@pytest.mark.parametrize("limit", [300, 0])
@pytest.mark.parametrize("rare", [1e-6, 1e-9, 1e-12, 1e-14])
def test_rare_ways_out_are_told_apart(rare: float, limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """V(1) = 1 + (1 - q)(1 + V(1)), so V(1) = 2/q - 1: the larger q is twice as fast."""
    monkeypatch.setattr(shortest_paths, "MAX_DENSE", limit)
    for p, better in ((cluster(rare, 2 * rare), 1), (cluster(2 * rare, rare), 0)):
        times, actions = way_of(flat(p), at(3, 0))
        assert actions[1] == better
        assert times[1] == pytest.approx(1 / rare - 1, rel=1e-12)
        assert times[2] == pytest.approx(1 / rare, rel=1e-12)


def test_improvement_finds_what_the_start_misses() -> None:
    """From the worse action, policy iteration still sees a factor of two at 1e-12."""
    rows = Rows.from_sparse(flat(cluster(1e-12, 2e-12)))
    assert shortest_path.fastest(rows, at(3, 0), np.array([-1, 2, 4])).pairs[1] == 3


@pytest.mark.parametrize("slow", [1e-3, 1e-8, 1e-12])
def test_nearly_decomposable_chain_exactly(slow: float) -> None:
    """A line of three pairs of states, joined by rare moves; exact by fractions."""
    n = 6
    P = np.zeros((n, n))
    for s in range(n):
        twin = s ^ 1
        if s % 2 == 0 and s:
            P[s, s - 1] = slow
        if s % 2 == 1 and s < n - 1:
            P[s, s + 1] = slow
        P[s, twin] = 1 - P[s].sum()
    times, _ = way_of(sparse.csr_array(P), at(n, 0))
    # A path: the expected time of each move to the left, from the right end on, is a sum of positive terms.
    left: list[Fraction] = [Fraction(0)] * (n + 1)
    for s in range(n - 1, 0, -1):
        down = Fraction(P[s, s - 1])
        up = Fraction(P[s, s + 1]) if s < n - 1 else Fraction(0)
        left[s] = (1 + up * left[s + 1]) / down
    exact = np.cumsum([float(x) for x in [Fraction(0), *left[1:n]]])
    np.testing.assert_allclose(times, exact, rtol=1e-13)


@pytest.mark.parametrize("alpha", [0.003, 0.01, 0.1])
def test_samples_of_a_sparse_prior(alpha: float) -> None:
    """Dirichlet rows with entries down to the smallest floats: always ends, and the equations hold."""
    rng = np.random.default_rng(0)
    for _ in range(10):
        S, A = 12, 3
        p = rng.dirichlet(np.full(S, alpha), size=(S, A))
        targets = at(S, 0, 1)
        times, actions = way_of(flat(p), targets)
        assert not np.isnan(times).any()
        reached = np.isfinite(times)
        best = 1 + np.where(p > 1e-100, p * np.where(reached, times, np.inf), 0.0).sum(axis=2).min(axis=1)
        small = reached & ~targets & (times < 1e8)
        np.testing.assert_allclose(times[small], best[small], rtol=1e-9)
        assert (actions[reached & ~targets] >= 0).all()


def test_only_impossibly_rare_moves() -> None:
    """A way is a way, if only once in 1e200 moves."""
    p = np.array([[[1.0, 0.0]], [[1e-200, 1.0]]])
    times, actions = way_of(flat(p), at(2, 0))
    assert times.tolist() == pytest.approx([0, 1e200], rel=1e-12)
    assert actions.tolist() == [-1, 0]


@pytest.mark.parametrize("limit", [300, 0])
def test_times_beyond_all_bounds(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """1..7: one down with probability 1e-90, else back to 7; 8 and 9 have a plain way besides. All have a way."""
    monkeypatch.setattr(shortest_paths, "MAX_DENSE", limit)
    p = np.zeros((10, 1, 10))
    p[0, 0, 0] = 1.0
    for s in range(1, 8):
        p[s, 0, s - 1] = 1e-90
        p[s, 0, 7] = 1.0
    p[8, 0, [0, 8]] = 0.5
    p[9, 0, [8, 3]] = 1.0, 1e-95
    times, actions = way_of(flat(p), at(10, 0))
    assert np.isinf(times[1:]).all()
    assert actions[1:].tolist() == [0] * 9


@pytest.mark.parametrize("limit", [300, 0])
def test_rare_moves_in_a_row(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four moves of probability q in a row, else back to the start: 1/q + 1/q^2 + 1/q^3 + 1/q^4."""
    monkeypatch.setattr(shortest_paths, "MAX_DENSE", limit)
    q, n = 1e-12, 5
    P = np.zeros((n, n))
    P[0, 0] = 1.0
    for s in range(1, n):
        P[s, s - 1] = q
        P[s, n - 1] += 1 - q
    times, _ = way_of(sparse.csr_array(P), at(n, 0))
    assert times[-1] == pytest.approx(q**-1 + q**-2 + q**-3 + q**-4, rel=1e-10)


def test_the_matrix_is_left_alone() -> None:
    matrix = grid(4, 0.2)
    before = matrix.copy()
    way_of(matrix, at(16, 0))
    np.testing.assert_array_equal(matrix.toarray(), before.toarray())


def test_times_beyond_the_range_of_floats_are_infinite() -> None:
    """599 states, seven times as likely to go up as down: 7^598 moves from the top to the bottom."""
    S = 599
    P = np.zeros((S, S))
    s = np.arange(S - 1)
    P[s, s + 1], P[s + 1, s] = 0.35, 0.05
    np.fill_diagonal(P, 1 - P.sum(axis=1))
    times, actions = way_of(sparse.csr_array(P), at(S, 0))
    assert np.isinf(times[1:]).all()
    assert (actions[1:] == 0).all()
    up = way_of(sparse.csr_array(P), at(S, S - 1))[0]
    # From state k up: t_k = (1 + 0.05 t_{k-1}) / 0.35.
    steps = np.zeros(S)
    before = 0.0
    for k in range(S - 1):
        before = (1 + 0.05 * before) / 0.35
        steps[k] = before
    np.testing.assert_allclose(up, np.cumsum(steps[::-1])[::-1], rtol=1e-12)


# Expected visits


@pytest.mark.parametrize("seed", range(20))
def test_expected_visits_against_fractions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    S, A = 7, 2
    p = random_model(seed, S, A) * 0.5
    p[:, :, 0] += 0.5 * 10.0 ** rng.uniform(-20, 0, size=(S, A))  # the rest stays
    policy, targets = rng.integers(0, A, size=S), at(S, 0, 3)
    start = int(rng.choice(np.flatnonzero(~targets)))
    rows = Rows.from_sparse(flat(p))
    found = expected_visits(rows, rows.begin[:-1] + policy, np.eye(S)[start], targets)
    rest = np.flatnonzero(~targets).tolist()
    P = [[Fraction(float(p[s, policy[s], x])) if x != s else Fraction(0) for x in range(S)] for s in range(S)]
    # Visits of eliminated states: N = e + N P, with the probability of staying what is left.
    M = [[-P[s][x] if s != x else sum(P[s], Fraction(0)) for s in rest] for x in rest]
    b = [Fraction(int(x == start)) for x in rest]
    for k in range(len(rest)):
        pivot = next(i for i in range(k, len(rest)) if M[i][k])
        M[k], M[pivot], b[k], b[pivot] = M[pivot], M[k], b[pivot], b[k]
        for i in range(len(rest)):
            if i != k and M[i][k]:
                f = M[i][k] / M[k][k]
                M[i] = [u - f * v for u, v in zip(M[i], M[k], strict=True)]
                b[i] -= f * b[k]
    exact = {s: b[k] / M[k][k] for k, s in enumerate(rest)}
    for s in rest:
        assert found[s] == pytest.approx(float(exact[s]), rel=1e-13)
    for t in np.flatnonzero(targets):
        entered = sum((exact[s] * P[s][t] for s in rest), Fraction(0))
        assert found[t] == pytest.approx(float(entered), rel=1e-13)


def test_visits_of_a_start_that_is_a_target_or_never_arrives() -> None:
    rows = Rows.from_sparse(flat(np.eye(3)[:, np.newaxis]))
    policy = rows.begin[:-1].copy()
    assert expected_visits(rows, policy, np.eye(3)[1], at(3, 1)).tolist() == [0, 1, 0]
    assert np.isnan(expected_visits(rows, policy, np.eye(3)[0], at(3, 1))[0])
