"""The relaxation time of a chain: how slowly it forgets where it started.

It is the largest 1 / |1 - lambda| over the eigenvalues lambda other than 1. So a deterministic cycle, with eigenvalues
on the unit circle, is not infinitely slow: its averages settle in the time of one round.

The eigenvalues of a chain are those of its strong components. In a closed one, 1 / (1 - lambda) is an eigenvalue of
the operator that takes costs to their biases; in another one, of that which takes amounts to what is collected before
it is left. Both are computed without subtractions (`evaluation`), so the slowest of them is accurate in relative terms
however nearly the chain falls apart: 1 - lambda = 1e-12, or 1e-200, is found as well as 0.5. The largest eigenvalue of
the operator is found densely in components of up to DENSE states, else by Arnoldi's method (ARPACK); SolverError where
that does not converge.
"""

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs

from psconrl._core.checks import Floats, Ints
from psconrl._core.graph import groups, strong_classes
from psconrl.errors import SolverError
from psconrl.planning.evaluation import Biases
from psconrl.planning.finite_time import Complexes

DENSE = 60
"""Components up to this size have all their eigenvalues computed."""
_WANTED = 2
"""Eigenvalues asked for: complex ones come in pairs."""
_MODES = 20
"""Those that are split off where many steps are to be taken."""


def relaxation_time(matrix: sparse.csr_array) -> float:
    """The relaxation time of a chain (S, S); 0 if it has no eigenvalue but 1."""
    _, labels = strong_classes(matrix)
    edges = matrix.tocoo()
    leaving = labels[edges.row] != labels[edges.col]
    away = np.bincount(edges.row[leaving], edges.data[leaving], matrix.shape[0]).astype(np.float64)
    alone = np.bincount(labels)[labels] == 1
    slowest = float((1.0 / away[alone & (away > 0)]).max(initial=0.0))
    return max([slowest, *(_slowest(matrix, states, away[states]) for states in groups(labels, ~alone))])


def _slowest(matrix: sparse.csr_array, states: Ints, away: Floats) -> float:
    """The largest 1 / |1 - lambda| of a strong component, which is left with the probabilities `away` (n,)."""
    part = matrix[states][:, states]
    if away.any():
        # One more state, for ever, stands for all others.
        part = sparse.csr_array(
            sparse.block_array([[part, away[:, np.newaxis]], [None, np.ones((1, 1))]], format="csr")
        )
    biases, n = Biases.of_chain(part), part.shape[0]
    if n <= DENSE:
        operator = np.column_stack([biases(column) for column in np.eye(n)])
        return float(np.abs(np.linalg.eigvals(operator)).max()) if np.isfinite(operator).all() else float("inf")
    try:
        found = _arnoldi(biases, n, _WANTED, 1e-9)
    except ArpackError as error:
        raise SolverError(
            f"the relaxation time of {n} states was not found: Arnoldi's method did not converge ({error}); the "
            "averages do not depend on it"
        ) from None
    return float("inf") if found is None else float(np.abs(found[0]).max())


def slow_modes(biases: Biases, n: int) -> tuple[Complexes, Complexes]:
    """The slowest eigenvalues (k,) of a large chain, 1 left out, and eigenvectors (n, k); none where none are found."""
    try:
        found = _arnoldi(biases, n, _MODES, 0.0)
    except ArpackError:
        found = None
    if found is None or not (np.abs(found[0]) > 0).all():
        return np.zeros(0, dtype=np.complex128), np.zeros((n, 0), dtype=np.complex128)
    return 1.0 - 1.0 / found[0], found[1]


def _arnoldi(biases: Biases, n: int, k: int, tolerance: float) -> tuple[Complexes, Complexes] | None:
    """The k largest eigenvalues of the operator, with eigenvectors; None where numbers leave the range of floats."""
    start = biases(np.random.default_rng(0).random(n) - 0.5)
    if not np.isfinite(start).all():
        return None
    operator = LinearOperator((n, n), matvec=lambda v: biases(np.asarray(v, dtype=np.float64).ravel()))
    values, vectors = eigs(operator, k=k, v0=start, tol=tolerance)
    return values, vectors
