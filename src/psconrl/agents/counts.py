"""N(s, a, s'): how often each move was seen, in memory proportional to the moves that were."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from psconrl._core.checks import Floats, Ints
from psconrl.agents import _counts_kernels as kernels


class Counts:
    """Counts of moves in a model with S states and A actions; rows are s * A + a.

    `chains`, the arrays head, link, target and number (see `_counts_kernels`), and `used` are what compiled loops read
    and write; `room` must be called before entries are added, and a loop that adds many must stop when there is no room
    left. `spent` (capacity, n) are the sums of n costs of each entry, for agents that tell moves apart by what they
    cost; n = 0 for all others.
    """

    def __init__(self, S: int, A: int, n: int = 0) -> None:
        self.S, self.A = S, A
        self.begin: Ints = A * np.arange(S + 1)  # the first row of each state, and the end
        link, target, number = (np.zeros(S * A, dtype=np.int64) for _ in range(3))
        self.chains: tuple[Ints, Ints, Ints, Ints] = np.full(S * A, -1, dtype=np.int64), link, target, number
        self.used: Ints = np.zeros(1, dtype=np.int64)
        self.spent: Floats = np.zeros((S * A, n))

    def room(self) -> None:
        """Make room for at least one more entry."""
        head, link, target, number = self.chains
        if self.used[0] == len(link):
            more = np.zeros(len(link) + 16, dtype=np.int64)
            link, target, number = (np.concatenate([array, more]) for array in (link, target, number))
            self.chains = head, link, target, number
            self.spent = np.concatenate([self.spent, np.zeros((len(more), self.spent.shape[1]))])

    def widened(self, S: int) -> Counts:
        """The same counts in a model with more states, numbered after the others; the arrays are shared."""
        head, link, target, number = self.chains
        more = np.full(S * self.A - len(head), -1, dtype=np.int64)
        wide = Counts(S, self.A)
        wide.chains, wide.used = (np.concatenate([head, more]), link, target, number), self.used
        wide.spent = self.spent
        return wide

    def add(self, s: int, a: int, x: int, costs: Floats) -> None:
        """Count one move with its costs."""
        self.room()
        entry = kernels.count(s * self.A + a, x, *self.chains, self.used)
        self.spent[entry] += costs[: self.spent.shape[1]]

    def sparse(self) -> sparse.csr_array:
        """The counts as a sparse matrix (S * A, S)."""
        indptr, indices, numbers = kernels.by_rows(*self.chains, int(self.used[0]))
        return sparse.csr_array((numbers, indices, indptr), shape=(self.S * self.A, self.S))

    def entries(self) -> tuple[Ints, Ints, Ints, Floats]:
        """All moves in order: rows s * A + a, next states, numbers and sums of costs (moves, n); see `from_entries`."""
        head, link, target, number = self.chains
        used = int(self.used[0])
        row = np.empty(used, dtype=np.int64)
        at = np.flatnonzero(head >= 0)
        entry = head[at]
        while len(at):
            row[entry], entry = at, link[entry]
            at, entry = at[entry >= 0], entry[entry >= 0]
        order = np.lexsort((target[:used], row))
        return row[order], target[order], number[order], self.spent[order]

    def dense(self) -> Ints:
        """The counts as an array (S, A, S)."""
        return np.asarray(self.sparse().toarray()).reshape(self.S, self.A, self.S)

    def visited(self) -> Ints:
        """The states that were ever moved to, ascending."""
        return np.unique(self.chains[2][: self.used[0]])

    def copy(self) -> Counts:
        """A copy that later counts do not change."""
        head, link, target, number = (array.copy() for array in self.chains)
        return Counts.of(head, link, target, number, int(self.used[0]), self.S, self.A, self.spent.copy())

    @classmethod
    def of(
        cls, head: Ints, link: Ints, target: Ints, number: Ints, used: int, S: int, A: int, spent: Floats | None = None
    ) -> Counts:
        """Counts made of arrays."""
        counts = cls(S, A)
        counts.chains = head, link, target, number
        counts.used[0] = used
        counts.spent = np.zeros((len(link), 0)) if spent is None else spent
        return counts

    @classmethod
    def from_dense(cls, numbers: Ints) -> Counts:
        """Counts of an array (S, A, S)."""
        S = numbers.shape[-1]
        row, target = np.nonzero(numbers.reshape(-1, S))
        n = numbers.reshape(-1, S)[row, target].astype(np.int64)
        return cls.from_entries(row, target, n, np.zeros((len(n), 0)), S, numbers.size // S**2)

    @classmethod
    def from_moves(cls, row: Ints, target: Ints, costs: Floats, S: int, A: int) -> Counts:
        """Counts of single moves: rows s * A + a, where they led, and what each cost (n, any)."""
        moves, where, n = np.unique(row * S + target, return_inverse=True, return_counts=True)
        spent = np.zeros((len(moves), costs.shape[1]))
        np.add.at(spent, where, costs)
        return cls.from_entries(moves // S, moves % S, n, spent, S, A)

    @classmethod
    def from_entries(cls, row: Ints, target: Ints, n: Ints, spent: Floats, S: int, A: int) -> Counts:
        """Counts of distinct moves in the order of their rows s * A + a; spent: sums of costs (moves, any)."""
        first, end = (np.searchsorted(row, np.arange(S * A), side=side) for side in ("left", "right"))
        head = np.where(first < end, first, -1)
        link = np.where(np.append(row[1:], -1) == row, np.arange(1, len(row) + 1), -1)
        return cls.of(head, link, target, n, len(row), S, A, spent)
