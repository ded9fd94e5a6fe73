"""Relaxation times against dense eigenvalues and closed forms."""

import numpy as np
import pytest
from scipy import sparse
from scipy.sparse.linalg import ArpackError

import psconrl
from psconrl._core.checks import Floats
from psconrl.errors import SolverError
from psconrl.planning import relaxation
from psconrl.planning.relaxation import relaxation_time
from tests.planning.test_evaluation import random_chain
from tests.planning.test_finite_time import grid_walk


def by_eigenvalues(P: Floats) -> float:
    """From all eigenvalues of the chain itself, 1 told apart by 1e-7."""
    apart = np.abs(1 - np.linalg.eigvals(P))
    return float(max((1 / apart[apart > 1e-7]).max(initial=0.0), 0.0))


@pytest.mark.parametrize("seed", range(30))
def test_random_chains(seed: int) -> None:
    rng = np.random.default_rng(seed)
    P = random_chain(rng, int(rng.integers(1, 9)))
    assert relaxation_time(sparse.csr_array(P)) == pytest.approx(by_eigenvalues(P), rel=1e-6)


@pytest.mark.parametrize("seed", range(6))
def test_larger_chains_by_arnoldi(seed: int) -> None:
    """Irreducible ones, and blocks that lead into each other."""
    rng = np.random.default_rng(seed)
    dense = rng.dirichlet(np.full(150, 0.05), size=150)
    if seed % 2:
        dense[:75, :75] += 2 * np.eye(75)
        dense[75:, :75] = 0.0
        dense[75:, 75:] += 1e-3
        dense /= dense.sum(axis=1, keepdims=True)
    assert relaxation_time(sparse.csr_array(dense)) == pytest.approx(by_eigenvalues(dense), rel=1e-6)


@pytest.mark.parametrize(("there", "back"), [(0.3, 0.4), (1e-6, 1e-8), (1e-12, 1e-13), (1e-200, 1e-201)])
def test_two_states(there: float, back: float) -> None:
    """1 - lambda = there + back."""
    P = np.array([[1 - there, there], [back, 1 - back]])
    assert relaxation_time(sparse.csr_array(P)) == pytest.approx(1 / (there + back), rel=1e-9)


@pytest.mark.parametrize("S", [2, 5, 200])
def test_a_cycle_is_as_slow_as_one_round(S: int) -> None:
    P = sparse.csr_array(np.roll(np.eye(S), 1, axis=1))
    assert relaxation_time(P) == pytest.approx(1 / abs(1 - np.exp(2j * np.pi / S)), rel=1e-8)


def test_several_classes_and_transient_states() -> None:
    """The eigenvalue 1 counts as 1 however often it comes; a transient state is left with 0.01."""
    assert relaxation_time(sparse.csr_array(np.eye(4))) == 0.0
    P = np.array([[0.99, 0.005, 0.005], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert relaxation_time(sparse.csr_array(P)) == pytest.approx(100.0)
    # Two transient states that lead to each other: eigenvalues of the block [[.5, .4], [.4, .5]] are .9 and .1.
    P = np.array([[0.5, 0.4, 0.1], [0.4, 0.5, 0.1], [0.0, 0.0, 1.0]])
    assert relaxation_time(sparse.csr_array(P)) == pytest.approx(10.0)
    # A row of states that lead to the last one: all other eigenvalues are 0, with one eigenvector.
    P = np.eye(500, k=1)
    P[-1, -1] = 1.0
    assert relaxation_time(sparse.csr_array(P)) == 1.0


def test_a_walk_on_a_grid() -> None:
    n = 30
    expected = 4 / 0.5 / (2 - 2 * np.cos(np.pi / n))
    assert relaxation_time(grid_walk(n, 0.5)) == pytest.approx(expected, rel=1e-7)


def corridor(S: int, up: float, down: float) -> sparse.csr_array:
    """A walk on a line, up and down with these probabilities."""
    return sparse.csr_array(
        sparse.diags_array(
            [
                np.full(S - 1, down),
                np.r_[1 - up, np.full(S - 2, 1 - up - down), 1 - down],
                np.full(S - 1, up),
            ],
            offsets=[-1, 0, 1],
        )
    )


@pytest.mark.parametrize("S", [2, 50, 400, 3000])
@pytest.mark.parametrize(("up", "down"), [(0.45, 0.45), (0.4, 0.5), (0.1, 0.8)])
def test_a_walk_that_drifts(S: int, up: float, down: float) -> None:
    """lambda = 1 - up - down + 2 sqrt(up down) cos(k pi / S); from 400 states on, dense eigenvalues are wrong by 5%."""
    expected = 1 / (up + down - 2 * np.sqrt(up * down) * np.cos(np.pi / S))
    assert relaxation_time(corridor(S, up, down)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("S", [40, 200])
def test_a_drift_out_of_a_transient_class(S: int) -> None:
    """A walk that ends at its lower end: the eigenvalues 1 - up - down + 2 sqrt(up down) cos(k pi / (S + 1 / 2))."""
    up = down = 0.3
    P = corridor(S + 1, up, down).tolil()
    P[0] = np.eye(1, S + 1)[0]
    expected = 1 / (2 * up - 2 * up * np.cos(np.pi / (2 * S + 1)))
    assert relaxation_time(sparse.csr_array(P)) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("seed", range(10))
def test_reversible_chains_are_recognised(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 90))
    flow = rng.random((n, n)) * (rng.random((n, n)) < 0.3)
    flow = flow + flow.T + np.eye(n, k=1) + np.eye(n, k=-1)
    flow *= np.outer(10.0 ** rng.uniform(-2, 0, n), np.ones(n)) * 10.0 ** rng.uniform(-2, 0, n)
    flow = flow + flow.T
    P = flow / flow.sum(axis=1, keepdims=True)
    nothing = np.zeros(n)
    distance = relaxation._symmetric_distance(sparse.csr_array(P), nothing)
    assert 1 / distance == pytest.approx(by_eigenvalues(P), rel=1e-7)
    assert relaxation_time(sparse.csr_array(P)) == pytest.approx(1 / distance, rel=1e-7)
    P[0] = rng.dirichlet(np.ones(n))
    assert relaxation._symmetric_distance(sparse.csr_array(P), nothing) == 0.0


def test_of_an_evaluation() -> None:
    river = psconrl.make("riverswim")
    found = psconrl.evaluate(river, np.tile([0.5, 0.5], (6, 1)))
    P = river.policy_matrix(np.tile([0.5, 0.5], (6, 1))).toarray()
    assert found.relaxation_time == pytest.approx(by_eigenvalues(P), rel=1e-9)


def test_where_arnoldi_does_not_converge(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object, **__: object) -> None:
        raise ArpackError(-9999)

    monkeypatch.setattr(relaxation, "eigs", fails)
    monkeypatch.setattr(relaxation, "eigsh", fails)
    with pytest.raises(SolverError, match="relaxation time of 324 states was not found"):
        relaxation_time(grid_walk(18, 0.5))
