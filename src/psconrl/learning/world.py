"""A model as the compiled loop reads it: rows of cumulative probabilities, and costs in [0, 1].

Where a learner discovers its states, they have the numbers that it gave them, and those that it has not seen come after
them: the loop stops as soon as it gets into one of those.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from psconrl._core.checks import Floats
from psconrl._core.lazy import lazy_import
from psconrl.agents.counts import Counts
from psconrl.cmdp import CMDP
from psconrl.learning.parts import Moves
from psconrl.learning.run import Snapshot
from psconrl.problem import Units

if TYPE_CHECKING:
    from psconrl.learning import _kernels as kernels
else:
    kernels = lazy_import("psconrl.learning._kernels")


class World:
    """A model's rows s * A + a: indptr, indices, cumulative, and costs (m + 1, rows), or, per move, (m + 1, entries).

    order (S,): the model's states by the numbers that they have here.
    """

    def __init__(self, cmdp: CMDP, units: Units | None) -> None:
        self.cmdp, self.per_move = cmdp, cmdp.move_costs is not None
        moves = cmdp.to_sparse().move_costs if self.per_move else cmdp.costs.reshape(cmdp.m + 1, -1)
        assert moves is not None
        self._indptr, self._indices = (
            np.asarray(array, dtype=np.int64) for array in (cmdp.matrix.indptr, cmdp.matrix.indices)
        )
        self._cumulative = cmdp.matrix.data.copy()
        kernels.cumulate(self._cumulative, np.unique(self._indptr))  # actions that are not available have empty rows
        self._costs = np.ascontiguousarray(moves if units is None else units.normalized(moves))
        self.indptr, self.indices, self.cumulative, self.costs = (
            *(self._indptr, self._indices, self._cumulative),
            self._costs,
        )
        self.order = np.arange(cmdp.S)

    @cached_property
    def number(self) -> dict[Hashable, int]:
        """The model's number of each state, by name."""
        return {name: s for s, name in enumerate(self.cmdp.state_names)}

    def first_state(self, u: float) -> int:
        """The start state that belongs to a uniform number."""
        initial = self.cmdp.initial
        return min(int(np.searchsorted(np.cumsum(initial), u, side="right")), int(np.flatnonzero(initial)[-1]))

    def renumber(self, seen: list[int]) -> None:
        """Give the states that were seen, in this order, the first numbers."""
        rest = np.ones(self.cmdp.S, dtype=np.bool_)
        rest[seen] = False
        self.order = np.concatenate([np.array(seen, dtype=np.int64), np.flatnonzero(rest)])
        number = np.empty_like(self.order)
        number[self.order] = np.arange(len(self.order))
        A = self.cmdp.A
        rows = (self.order[:, np.newaxis] * A + np.arange(A)).ravel()
        self.indptr = np.concatenate([[0], np.cumsum(np.diff(self._indptr)[rows])])
        entries = np.repeat(self._indptr[rows] - self.indptr[:-1], np.diff(self.indptr)) + np.arange(self.indptr[-1])
        self.indices, self.cumulative = number[self._indices[entries]], self._cumulative[entries]
        self.costs = np.ascontiguousarray(self._costs[:, entries if self.per_move else rows])

    @property
    def moves(self) -> Moves:
        """What the loop reads."""
        return Moves(self.indptr, self.indices, self.cumulative, self.costs, self.per_move)

    def policy(self, given: Floats) -> Floats:
        """A plan's policy (L, S, A) in the model's own numbers; uniform in states that it does not know."""
        L, known, _ = given.shape
        policy = np.repeat(self.cmdp.pairs.uniform[np.newaxis], L, axis=0)
        policy[:, self.order[:known]] = given
        return policy

    def snapshot(self, of: Snapshot) -> Snapshot:
        """A snapshot in the model's own numbers."""
        wide = of.widened(self.cmdp.pairs.uniform[self.order])
        policy, visits = np.empty_like(wide.policy), np.empty_like(wide.visits)
        policy[:, self.order], visits[self.order] = wide.policy, wide.visits
        return Snapshot(of.start, policy, visits)

    def counts(self, observed: Counts) -> sparse.csr_array:
        """Counts as a sparse matrix (S * A, S) in the model's own numbers."""
        S, A, found = self.cmdp.S, self.cmdp.A, observed.sparse().tocoo()
        rows = self.order[found.row // A] * A + found.row % A
        counts = sparse.csr_array((found.data, (rows, self.order[found.col])), shape=(S * A, S))
        counts.sort_indices()
        return counts
