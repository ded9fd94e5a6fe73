"""From an occupancy measure of a linear program to deterministic policies with weights."""

import numpy as np
from scipy import sparse

from psconrl._core.checks import Floats, Ints
from psconrl._core.graph import closed_classes
from psconrl.errors import SolverError
from psconrl.planning.chains import stationary_distribution
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.shortest_paths import shortest_path_policy
from psconrl.planning.tolerances import SUPPORT


def deterministic(rows: Rows, x: Floats) -> list[tuple[float, Ints, Floats]]:
    """An occupancy x (K,) as a mixture: weight, pairs (S,) and mu (S,) of each policy.

    As long as there is mass, the policy of the likeliest pairs is taken as often as they last. A vertex without any,
    which HiGHS has been seen to call optimal, is refused by a `SolverError`.
    """
    left, source = np.where(x > SUPPORT, x, 0.0), rows.source
    if not left.any():
        raise SolverError("the linear program has a vertex without occupancy: the numbers of the model are too uneven")
    left = left / left.sum()
    found: list[tuple[float, Ints, Floats]] = []
    matrix = rows.matrix()
    for _ in range(rows.K):
        if left.sum() <= 1e-9:
            break
        mass = np.bincount(source, left, rows.S)
        best = np.lexsort((np.arange(rows.K), -left, source))
        policy = best[np.searchsorted(source[best], np.arange(rows.S))]
        inside = mass > SUPPORT
        path = shortest_path_policy(rows, inside).pairs
        policy = np.where(inside | (path < 0), policy, path)
        chain = sparse.csr_array(matrix[policy])
        mu = max(
            (_stationary_of(chain, states) for states in closed_classes(chain)),
            key=lambda mu: float(left[policy] @ mu),
        )
        # States that a class hardly ever visits may have no occupancy in floats.
        likely = mu > SUPPORT
        weight = float((left[policy[likely]] / mu[likely]).min())
        if weight == 0.0:
            # Rounding has left a class without one of its pairs; if nothing else was found, it is all there is.
            found = found or [(1.0, policy, mu)]
            break
        left[policy] = np.maximum(left[policy] - weight * mu, 0.0)
        left[left <= SUPPORT] = 0.0
        found.append((weight, policy, mu))
    total = sum(weight for weight, _, _ in found)
    return [(weight / total, policy, mu) for weight, policy, mu in found]


def _stationary_of(chain: sparse.csr_array, states: Ints) -> Floats:
    """The stationary mu (S,) of a closed class."""
    mu = np.zeros(chain.shape[0])
    found = stationary_distribution(chain[states][:, states])
    if found is None:
        raise SolverError("a chain of the linear program was not evaluated: the numbers of the model are too uneven")
    mu[states] = found
    return mu
