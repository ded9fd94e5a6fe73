"""The relaxation time of a chain: the largest 1 / |1 - lambda| over its eigenvalues lambda other than 1.

So a deterministic cycle, with eigenvalues on the unit circle, is not infinitely slow: its averages settle in one round.

The eigenvalues of a chain are those of its strong components. In a closed one, 1 / (1 - lambda) is an eigenvalue of
the operator that takes costs to their biases; in another one, of that which takes amounts to what is collected before
it is left. Both are computed without subtractions (`chains`), so the slowest is accurate in relative terms however
nearly the chain falls apart. It is found densely in components of up to MAX_DENSE states, else by Arnoldi's method.

In a chain with a drift, a queue say, a rounding changes eigenvalues much. If every cycle is as likely as its reverse,
the chain is similar to a symmetric matrix, with entries sqrt(p_ij p_ji), whose eigenvalues are as exact as its entries;
they are taken where they are further than 10^-6 from 1. Other large chains with a drift have no cure: the time is that
of a chain a rounding away.
"""

from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs, eigsh

from psconrl._core.checks import Floats, Ints, with_data
from psconrl._core.graph import closed_classes, groups, strong_classes
from psconrl.errors import SolverError
from psconrl.planning.chains import chain_of, solve_chain
from psconrl.planning.tolerances import EVAL_TOL, MAX_DENSE, REPORTED

Operator = Callable[[Floats], Floats]


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
    distance = _symmetric_distance(part, away)
    if distance > REPORTED:
        return 1.0 / distance
    if away.any():
        # One more state, for ever, stands for all others.
        part = sparse.csr_array(
            sparse.block_array([[part, away[:, np.newaxis]], [None, np.ones((1, 1))]], format="csr")
        )
    biases, n = _bias_operator(part), part.shape[0]
    if n <= MAX_DENSE:
        operator = np.column_stack([biases(column) for column in np.eye(n)])
        return float(np.abs(np.linalg.eigvals(operator)).max()) if np.isfinite(operator).all() else float("inf")
    start = biases(np.random.default_rng(0).random(n) - 0.5)
    if not np.isfinite(start).all():
        return float("inf")
    operator = LinearOperator((n, n), matvec=lambda v: biases(np.asarray(v, dtype=np.float64).ravel()))
    try:
        found = eigs(operator, k=2, v0=start, tol=EVAL_TOL, return_eigenvectors=False)
    except ArpackError as error:
        raise SolverError(
            f"the relaxation time of {n} states was not found: Arnoldi's method did not converge ({error}); the "
            "averages do not depend on it"
        ) from None
    return float(np.abs(found).max())


def _bias_operator(matrix: sparse.csr_array) -> Operator:
    """The operator that takes costs (S,) of a chain (S, S) to their biases."""
    solved = solve_chain(chain_of(matrix), closed_classes(matrix))

    def biases(costs: Floats) -> Floats:
        return solved.bias(costs - solved.values(solved.averages(costs)))

    return biases


def _symmetric_distance(part: sparse.csr_array, away: Floats) -> float:
    """The least distance from 1 of the eigenvalues of a strong component other than 1; 0 if it is not reversible."""
    n = part.shape[0]
    edges = sparse.csr_array(part - sparse.diags_array(part.diagonal()))
    edges.eliminate_zeros()
    back = sparse.csr_array(edges.T)
    for one in (edges, back):
        one.sort_indices()
    if not (np.array_equal(edges.indptr, back.indptr) and np.array_equal(edges.indices, back.indices)):
        return 0.0
    source = np.repeat(np.arange(n), np.diff(edges.indptr))
    ratio = np.log(edges.data) - np.log(back.data)
    order, before = breadth_first_order(edges, 0)
    place = {(i, j): k for k, (i, j) in enumerate(zip(source.tolist(), edges.indices.tolist(), strict=True))}
    weight = np.zeros(n)  # logarithms of the stationary distribution
    for s in order[1:].tolist():
        weight[s] = weight[before[s]] + ratio[place[int(before[s]), s]]
    if not (np.abs(weight[source] + ratio - weight[edges.indices]) <= EVAL_TOL).all():
        return 0.0
    # 1 minus the chain, the probability of staying being 1 minus the others.
    out = np.asarray(edges.sum(axis=1)).ravel() + away
    less = sparse.csc_array(sparse.diags_array(out) - with_data(edges, np.sqrt(edges.data) * np.sqrt(back.data)))
    k = 1 if away.any() else 2
    if n <= MAX_DENSE:
        return float(np.linalg.eigvalsh(less.toarray())[k - 1])
    try:
        start = np.random.default_rng(0).random(n)
        found = eigsh(less, k=k, sigma=-REPORTED, v0=start, tol=1e-6, return_eigenvectors=False)
    except (ArpackError, RuntimeError):
        return 0.0
    return float(found.max())
