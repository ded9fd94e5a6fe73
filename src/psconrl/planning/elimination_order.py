"""The order in which the states of a sparse chain are eliminated."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import reverse_cuthill_mckee

from psconrl._core.checks import Ints
from psconrl.planning.compiled.elimination import Chain


def elimination_order(chain: Chain, kept: Ints) -> tuple[Ints, float]:
    """An order of the states that are not kept which fills in little, and about how many multiplications it takes.

    That of Cuthill and McKee, reversed: neighbours in the chain are near each other in it.
    """
    S = len(chain.indptr) - 1
    rest = np.setdiff1d(np.arange(S), kept)
    matrix = sparse.csr_array((chain.data, chain.indices, chain.indptr), shape=(S, S))
    inner = matrix[rest][:, rest]
    graph = sparse.csr_array(inner + inner.T)
    graph.eliminate_zeros()  # and in each row states ascend: the order depends on the graph alone
    graph.sort_indices()
    neighbours = np.diff(graph.indptr)
    # States with very many neighbours come last: they would join all others, once eliminated.
    ordinary = np.flatnonzero(neighbours <= max(16.0, 10.0 * len(rest) ** 0.5))
    band = graph[ordinary][:, ordinary]
    first = reverse_cuthill_mckee(band, symmetric_mode=True) if len(ordinary) else ordinary
    order = np.concatenate([ordinary[first], np.setdiff1d(np.arange(len(rest)), ordinary)])
    place = np.argsort(order)
    edges = graph.tocoo()
    width = np.zeros(len(rest))
    np.maximum.at(width, np.minimum(place[edges.row], place[edges.col]), np.abs(place[edges.row] - place[edges.col]))
    return rest[order].astype(np.int64), float((width**2).sum())
