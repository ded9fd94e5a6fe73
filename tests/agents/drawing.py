"""Posterior draws of whole arrays, and rows as arrays."""

import numpy as np
from scipy import sparse

from psconrl._core.checks import Floats, Ints
from psconrl._core.pairs import Pairs
from psconrl.agents import _random_kernels
from psconrl.agents.counts import Counts
from psconrl.agents.posterior import CUT, Prior, draw_rows
from psconrl.planning.compiled.rows import Rows


def dense(rows: Rows) -> Floats:
    """The array (S, A, S) of a model whose states all have the same number of actions."""
    return np.asarray(rows.matrix().toarray().reshape(rows.S, -1, rows.S))


def draw_array(alpha: Floats, counts: Ints, rng: np.random.Generator, cut: float = CUT) -> Floats:
    """A draw for each row of alpha + counts, all (..., S); equal parameters in all of alpha make a compact prior.

    As `draw` makes them, but of any number of rows, not only of those of a model.
    """
    S = alpha.shape[-1]
    rows = alpha.reshape(-1, S)
    prior = Prior.by_rows(sparse.csr_array(rows), Pairs.all(len(rows), 1))
    if (alpha == alpha.flat[0]).all():
        nothing = np.zeros(0, dtype=np.int64)
        prior = Prior(prior.level, nothing, nothing, np.zeros(0))
    padded = np.zeros((-(-len(rows) // S) * S, S), dtype=np.int64)  # whole models have S rows, or multiples of them
    padded[: len(rows)] = counts.reshape(-1, S)
    head, link, target, number = Counts.from_dense(padded.reshape(S, -1, S)).chains
    stream = _random_kernels.seeded(rng)
    indptr, indices, data = draw_rows(prior, (head[: len(rows)], link, target, number), S, stream, cut)
    p = np.zeros((len(indptr) - 1, S))
    p[np.repeat(np.arange(len(p)), np.diff(indptr)), indices] = data
    return p.reshape(alpha.shape)
