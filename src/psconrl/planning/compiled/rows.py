"""A model by rows: what sampled models are, and what the compiled planner reads.

A *pair* is a state with one of its actions. The pairs of state s have the numbers begin[s], ..., begin[s + 1] - 1, so
states may have different numbers of actions. A deterministic policy is the pair that it takes in each state (S,).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit, njit_inline
from psconrl.errors import InvalidModelError


class Rows(NamedTuple):
    """Transitions in compressed form: pair k has data[indptr[k] : indptr[k + 1]] at `indices`; all indices int64.

    The probability of staying is 1 minus the others: it never enters a computation, whatever is stored.
    """

    begin: Ints
    indptr: Ints
    indices: Ints
    data: Floats

    @property
    def S(self) -> int:
        """The number of states."""
        return len(self.begin) - 1

    @property
    def K(self) -> int:
        """The number of pairs."""
        return len(self.indptr) - 1

    @property
    def source(self) -> Ints:
        """The state of each pair (K,)."""
        return np.repeat(np.arange(self.S), np.diff(self.begin))

    @staticmethod
    def from_dense(transitions: Floats) -> Rows:
        """The rows of an array (S, A, S)."""
        S, A, _ = transitions.shape
        flat = np.ascontiguousarray(transitions.reshape(-1, S), dtype=np.float64)
        return Rows(np.arange(0, S * A + 1, A), *compress(flat))

    @staticmethod
    def from_sparse(matrix: sparse.csr_array, S: int | None = None) -> Rows:
        """The rows of a sparse matrix (S * A, S), copied: to the compiler read-only arrays are of another kind."""
        indptr, indices = (np.array(array, dtype=np.int64) for array in (matrix.indptr, matrix.indices))
        S = matrix.shape[1] if S is None else S
        A = matrix.shape[0] // S
        return Rows(np.arange(0, S * A + 1, A), indptr, indices, np.array(matrix.data, dtype=np.float64))

    def with_restarts(self, rate: float, home: int) -> Rows:
        """The rows of the model that is left for a state at a rate, in every step."""
        return Rows(self.begin, *_with_restarts(self.indptr, self.indices, self.data, rate, home))

    def checked(self) -> Rows:
        """The rows, if kernels may read them; InvalidModelError else."""
        arrays = {"begin": self.begin, "indptr": self.indptr, "indices": self.indices}
        for name, array in arrays.items():
            if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype != np.int64:
                raise InvalidModelError(f"rows.{name} must be a one-dimensional array of int64")
        if not isinstance(self.data, np.ndarray) or self.data.ndim != 1 or self.data.dtype != np.float64:
            raise InvalidModelError("rows.data must be a one-dimensional array of float64")
        for name, array, last in (("begin", self.begin, self.K), ("indptr", self.indptr, len(self.indices))):
            if len(array) < 2 or array[0] != 0 or array[-1] != last or (np.diff(array) < 1).any():
                raise InvalidModelError(f"rows.{name} must rise from 0 to {last}, with an entry for every row")
        if len(self.data) != len(self.indices):
            raise InvalidModelError(f"rows.data has {len(self.data)} entries, rows.indices {len(self.indices)}")
        if ((self.indices < 0) | (self.indices >= self.S)).any():
            raise InvalidModelError(f"rows.indices must be states 0, ..., {self.S - 1}")
        if not ((self.data >= 0) & (self.data <= 1 + 1e-9)).all():
            raise InvalidModelError("rows.data must be probabilities in [0, 1]")
        sums = np.add.reduceat(self.data, self.indptr[:-1])
        off = np.flatnonzero(~(np.abs(sums - 1) <= 1e-6))
        if len(off):
            raise InvalidModelError(f"the probabilities of pair {off[0]} sum to {sums[off[0]]:.9g}; they must sum to 1")
        begin, indptr, indices = (np.require(array, requirements=["C", "W"]) for array in arrays.values())
        return Rows(begin, indptr, indices, np.require(self.data, requirements=["C", "W"]))

    def matrix(self) -> sparse.csr_array:
        """The sparse matrix (K, S), next states ascending in each row."""
        matrix = sparse.csr_array((self.data, self.indices, self.indptr), shape=(self.K, self.S))
        matrix.sort_indices()
        return matrix

    def part(self, states: Ints, pairs: Ints) -> Rows:
        """The model of some states with some pairs of theirs, all ascending, none of which leaves the states."""
        return part_of(self, states, pairs)


@njit
def _with_restarts(indptr: Ints, indices: Ints, data: Floats, rate: float, home: int) -> tuple[Ints, Ints, Floats]:
    """Rows with the probability `rate` moved to state `home`, which no row has twice."""
    K, size = len(indptr) - 1, 0
    begin = np.zeros(K + 1, dtype=np.int64)
    following, moved = np.empty(len(indices) + K, dtype=np.int64), np.empty(len(indices) + K)
    for row in range(K):
        leads_home = False
        for entry in range(indptr[row], indptr[row + 1]):
            following[size], moved[size] = indices[entry], (1.0 - rate) * data[entry]
            if indices[entry] == home:
                moved[size] += rate
                leads_home = True
            size += 1
        if not leads_home:
            following[size], moved[size] = home, rate
            size += 1
        begin[row + 1] = size
    return begin, following[:size].copy(), moved[:size].copy()


@njit
def compress(P: Floats) -> tuple[Ints, Ints, Floats]:
    """The positive entries of an array (rows, S) as indptr, indices, data."""
    rows, S = P.shape
    size = 0
    for row in range(rows):
        for x in range(S):
            if P[row, x] > 0.0:
                size += 1
    indptr = np.zeros(rows + 1, dtype=np.int64)
    indices = np.empty(size, dtype=np.int64)
    data = np.empty(size)
    size = 0
    for row in range(rows):
        for x in range(S):
            if P[row, x] > 0.0:
                indices[size] = x
                data[size] = P[row, x]
                size += 1
        indptr[row + 1] = size
    return indptr, indices, data


@njit
def part_of(rows: Rows, states: Ints, pairs: Ints) -> Rows:
    """The model of some states with some pairs of theirs, all ascending, none of which leaves the states."""
    place, moves = np.full(len(rows.begin) - 1, -1), 0
    for i in range(len(states)):
        place[states[i]] = i
    for pair in pairs:
        moves += rows.indptr[pair + 1] - rows.indptr[pair]
    begin, indptr = np.zeros(len(states) + 1, dtype=np.int64), np.zeros(len(pairs) + 1, dtype=np.int64)
    indices, data = np.empty(moves, dtype=np.int64), np.empty(moves)
    size, s = 0, 0
    for k in range(len(pairs)):
        while pairs[k] >= rows.begin[states[s] + 1]:
            s += 1
            begin[s] = k
        for move in range(rows.indptr[pairs[k]], rows.indptr[pairs[k] + 1]):
            if rows.data[move] > 0.0:
                indices[size], data[size] = place[rows.indices[move]], rows.data[move]
                size += 1
        indptr[k + 1] = size
    begin[len(states)] = len(pairs)
    return Rows(begin, indptr, indices[:size], data[:size])


@njit_inline
def moves_of(rows: Rows, pair: int) -> range:
    """The numbers of a pair's moves, unsigned as `end_of`: before each signed index compiled code looks at its sign."""
    return range(np.uint64(rows.indptr[pair]), np.uint64(rows.indptr[pair + 1]))


@njit_inline
def end_of(rows: Rows, move: int) -> np.uint64:
    """The state in which a move ends."""
    return np.uint64(rows.indices[move])


@njit
def reach(rows: Rows, policy: Ints, s: int, least: float, inside: Bools) -> None:
    """Mark the states (S,) that a policy leads to from s, s included, by moves of probability `least` or more."""
    S = len(policy)
    stack = np.empty(S, dtype=np.int64)
    for x in range(S):
        inside[x] = False
    inside[s] = True
    stack[0] = s
    size = 1
    while size > 0:
        size -= 1
        pair = policy[stack[size]]
        for move in moves_of(rows, pair):
            end = end_of(rows, move)
            if not inside[end] and rows.data[move] > 0.0 and rows.data[move] >= least:
                inside[end] = True
                stack[size] = end
                size += 1


@njit
def closed_class(rows: Rows, policy: Ints, s: int, least: float, inside: Bools) -> int:
    """Mark a closed class (S,), by moves of probability `least` or more, that a policy may end in from s; one of it.

    As long as something that was reached does not lead back to where the search began, it begins anew from there.
    """
    S = len(policy)
    back, start = np.empty(S, dtype=np.bool_), -1
    while start != s:
        start = s
        reach(rows, policy, start, least, inside)
        for x in range(S):
            back[x] = x == start
        found = True
        while found:
            found = False
            for x in range(S):
                if inside[x] and not back[x]:
                    for move in moves_of(rows, policy[x]):
                        if rows.data[move] > 0.0 and rows.data[move] >= least and back[end_of(rows, move)]:
                            back[x] = found = True
                            break
        for x in range(S):
            if inside[x] and not back[x]:
                s = x
                break
    return s


@njit
def copy(array: Ints, to: Ints) -> None:
    """Entry by entry: whole-array assignments take seconds to compile."""
    for i in range(len(array)):
        to[i] = array[i]


@njit
def longer(array: NDArray[Any]) -> NDArray[Any]:
    """The array with twice the room."""
    result = np.empty(2 * len(array) + 1, dtype=array.dtype)
    for i in range(len(array)):
        result[i] = array[i]
    return result


@njit_inline
def row_times(matrix: Floats, i: int, v: Floats) -> float:
    """Row i of a matrix times a vector: four sums at once, then the rest.

    An order of addition that processors are fast with, and the same on all of them.
    """
    whole = len(v) - len(v) % 4
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for j in range(0, whole, 4):
        a += matrix[i, j] * v[j]
        b += matrix[i, j + 1] * v[j + 1]
        c += matrix[i, j + 2] * v[j + 2]
        d += matrix[i, j + 3] * v[j + 3]
    total = (a + b) + (c + d)
    for j in range(whole, len(v)):
        total += matrix[i, j] * v[j]
    return total
