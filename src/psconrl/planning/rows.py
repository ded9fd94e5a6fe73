"""A model by rows: what sampled models are, and what the compiled planners read."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from psconrl._checks import Floats, Ints


class Rows(NamedTuple):
    """Transitions in compressed form: row s * A + a has data[indptr[row] : indptr[row + 1]] at `indices`; all int64."""

    indptr: Ints
    indices: Ints
    data: Floats
    S: int

    @property
    def A(self) -> int:
        """The number of actions."""
        return (len(self.indptr) - 1) // self.S

    @staticmethod
    def from_dense(transitions: Floats, cut: float = 0.0) -> Rows:
        """The rows of an array (S, A, S), without entries up to `cut`, renormalised if there were any."""
        from psconrl.planning._rows_kernels import compress

        S = transitions.shape[2]
        return Rows(*compress(np.ascontiguousarray(transitions.reshape(-1, S), dtype=np.float64), cut), S)

    @staticmethod
    def from_sparse(matrix: sparse.csr_array) -> Rows:
        """The rows of a sparse matrix (S * A, S)."""
        indptr, indices = (np.asarray(array, dtype=np.int64) for array in (matrix.indptr, matrix.indices))
        return Rows(indptr, indices, matrix.data, matrix.shape[1])

    def matrix(self) -> sparse.csr_array:
        """The sparse matrix (S * A, S), next states ascending in each row."""
        matrix = sparse.csr_array((self.data, self.indices, self.indptr), shape=(self.S * self.A, self.S))
        matrix.sort_indices()
        return matrix

    def dense(self) -> Floats:
        """The array (S, A, S)."""
        return np.asarray(self.matrix().toarray()).reshape(self.S, self.A, self.S)
