"""The fastest way from any start policy, in models by rows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

import psconrl
from psconrl._core.checks import Bools, Floats, Ints
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.compiled.shortest_path import fastest
from tests.planning.test_shortest import at, cluster, flat, grid, random_model, way_of


def compiled(matrix: sparse.csr_array, targets: Bools, start: Ints | None = None) -> tuple[Ints, Floats]:
    S = matrix.shape[1]
    start = np.full(S, -1, dtype=np.int64) if start is None else start
    rows = Rows.from_sparse(sparse.csr_array(matrix, copy=True))
    from_pairs = np.where(start < 0, -1, rows.begin[:-1] + start)
    times, pairs = fastest(rows, targets, from_pairs)
    return np.where(pairs < 0, -1, pairs - rows.begin[:-1]), times


def check(matrix: sparse.csr_array, targets: Bools, rtol: float = 1e-9) -> None:
    """Equal times, an action wherever there is a way, and actions that attain the times; from any start."""
    S, A = matrix.shape[1], matrix.shape[0] // matrix.shape[1]
    wanted, ways = way_of(matrix, targets)
    rng = np.random.default_rng(S)
    for start in (None, ways, rng.integers(-1, A, size=S), rng.integers(0, A, size=S)):
        actions, times = compiled(matrix, targets, start)
        np.testing.assert_allclose(times, wanted, rtol=rtol)
        np.testing.assert_array_equal(actions >= 0, ways >= 0)
        used = np.flatnonzero((actions >= 0) & np.isfinite(times))
        rows = matrix[used * A + actions[used]].toarray()
        with np.errstate(invalid="ignore"):
            drift = np.where(rows > 0, rows * (times - times[used][:, np.newaxis]), 0.0).sum(axis=1)
        np.testing.assert_allclose(1 + drift, 0.0, atol=1e-6 + 1e-15 * float(times[used].max(initial=0.0)))


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10**6), st.integers(1, 12), st.integers(1, 4))
def test_random_models(seed: int, S: int, A: int) -> None:
    targets = np.random.default_rng(seed).random(S) < 0.3
    check(flat(random_model(seed, S, A)), targets)


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 10**6), st.integers(2, 10), st.integers(1, 3))
def test_nearly_deterministic_models(seed: int, S: int, A: int) -> None:
    """Draws from a posterior with prior 0.01 per state: rows of one likely move and moves down to 1e-300."""
    rng = np.random.default_rng(seed)
    gammas = rng.standard_gamma(0.01, size=(S * A, S))
    gammas[np.arange(S * A), rng.integers(0, S, size=S * A)] += rng.integers(0, 2, size=S * A) * 50.0
    p = gammas / gammas.sum(axis=1, keepdims=True)
    check(sparse.csr_array(np.where(p > 1e-9, p, 0.0)), rng.random(S) < 0.3, rtol=1e-6)


@pytest.mark.parametrize("slip", [0.0, 0.3])
def test_grids(slip: float) -> None:
    check(grid(9, slip), at(81, 3, 77))
    check(psconrl.make("box", slip=slip).matrix, at(60, 7))


@pytest.mark.parametrize("rare", [1e-6, 1e-9, 1e-12, 1e-14])
def test_rare_ways_out_are_told_apart(rare: float) -> None:
    for a, b, best in ((rare, 2 * rare, 1), (2 * rare, rare, 0)):
        actions, times = compiled(flat(cluster(a, b)), at(3, 0))
        assert actions.tolist() == [-1, best, 0]
        np.testing.assert_allclose(times, [0.0, 1 / rare - 1, 1 / rare], rtol=1e-9)


def test_no_targets_and_only_targets() -> None:
    actions, times = compiled(grid(3, 0.2), at(9))
    assert np.isinf(times).all()
    assert (actions == -1).all()
    actions, times = compiled(grid(3, 0.2), ~at(9))
    assert (times == 0).all()
    assert (actions == -1).all()


def test_a_start_decides_between_equals() -> None:
    p = np.zeros((3, 2, 3))
    p[np.arange(3), :, [1, 2, 2]] = 1.0
    assert compiled(flat(p), at(3, 2))[0].tolist() == [0, 0, -1]
    assert compiled(flat(p), at(3, 2), np.array([1, 1, 0]))[0].tolist() == [1, 1, -1]
