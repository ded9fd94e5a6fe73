"""Chains in numbers of any size: for masses and times beyond the range of floats.

The elimination of `compiled.elimination`, with numbers of some thousand bits by FLINT. Only the answers are rounded.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from heapq import heapify, heappop, heappush
from threading import Lock
from typing import TYPE_CHECKING

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl.errors import SolverError
from psconrl.planning.compiled.elimination import Chain

if TYPE_CHECKING:
    from flint import arb

BITS = 4096
"""Of a number: enough to add one to 10^1200 without loss."""
_LOCK = Lock()


@contextmanager
def _precision() -> Iterator[None]:
    """Numbers of many bits, whose number is the same for all threads."""
    from flint import ctx

    with _LOCK, ctx.workprec(BITS):
        yield


class PreciseChain:
    """A chain from which all but one state of each recurrent class are eliminated; see `chains.SolvedChain`."""

    def __init__(self, chain: Chain, classes: list[Ints], kept: Ints, order: Ints, parts: int) -> None:
        """kept (K,): a state of each class; order: of the others. parts: in how many parts biases are held."""
        self.S, self.classes, self.kept, self.parts = len(chain.indptr) - 1, classes, kept, parts
        self.place = np.argsort(np.concatenate([order, kept]))
        with _precision():
            self._eliminate(chain, order)
            self._laws = self._stationary(chain)
            self.law = np.zeros(self.S)
            for states, masses in zip(classes, self._laws, strict=True):
                self.law[states] = [float(mass) for mass in masses]

    def _eliminate(self, chain: Chain, order: Ints) -> None:
        self.low: list[list[tuple[int, arb]]] = []
        self.up: list[list[tuple[int, arb]]] = []
        self.out: list[arb] = []
        for i, s in enumerate(order.tolist()):
            row, low = self._row(chain, s), []
            row.pop(i, None)
            waiting = [j for j in row if j < i]
            heapify(waiting)
            while waiting:
                k = heappop(waiting)
                p = row.pop(k)
                low.append((k, p))
                for j, q in self.up[k]:
                    if j == i:
                        continue
                    if j < i and j not in row:
                        heappush(waiting, j)
                    row[j] = row.get(j, 0) + p * q
            if not row:
                raise SolverError("some states of a chain lead to none of its recurrent classes")
            total = sum(row.values(), self._numbers(np.zeros(1))[0])
            self.low.append(low)
            self.up.append([(j, p / total) for j, p in row.items()])
            self.out.append(total)

    def _row(self, chain: Chain, s: int) -> dict[int, arb]:
        """The moves of a state, by the place where they end."""
        from flint import arb

        row: dict[int, arb] = {}
        for e in range(chain.indptr[s], chain.indptr[s + 1]):
            if chain.data[e] > 0:
                j = int(self.place[chain.indices[e]])
                row[j] = row.get(j, 0) + arb(float(chain.data[e]))
        return row

    def _stationary(self, chain: Chain) -> list[list[arb]]:
        """The mass of each state of each class: expected visits on the way from its kept state back to it."""
        n = len(self.out)
        start = self._numbers(np.zeros(self.S))
        for s in self.kept.tolist():
            for j, p in self._row(chain, s).items():
                start[j] += p
        m = self._visits(start)
        for i in range(n - 1, -1, -1):
            m[i] = m[i] / self.out[i]
            for j, p in self.low[i]:
                m[j] += m[i] * p
        m[n:] = self._numbers(np.ones(len(self.kept)))
        masses = [[m[j] for j in self.place[states].tolist()] for states in self.classes]
        return [[mass / sum(own) for mass in own] for own in masses]

    def _visits(self, m: list[arb]) -> list[arb]:
        """Entries from states eliminated before, added to starts, by place; all there is for kept states."""
        for i, row in enumerate(self.up):
            for j, p in row:
                m[j] += m[i] * p
        return m

    def _collected(self, amounts: list[arb], of_classes: list[arb]) -> list[arb]:
        """Amounts (S,) collected on the way to the kept states, plus the values (K,) of those; by state, as amounts."""
        n, own = len(self.out), np.argsort(self.place).tolist()
        h = [amounts[own[i]] for i in range(n)] + of_classes
        for i in range(n):
            h[i] = sum((p * h[j] for j, p in self.low[i]), h[i]) / self.out[i]
        for i in range(n - 1, -1, -1):
            h[i] = sum((p * h[j] for j, p in self.up[i]), h[i])
        return [h[j] for j in self.place.tolist()]

    def _numbers(self, values: Floats) -> list[arb]:
        from flint import arb

        return [arb(value) for value in values.tolist()]

    def _means(self, values: list[arb]) -> list[arb]:
        """The mean of values (S,) in each class."""
        return [
            sum(values[s] * mass for s, mass in zip(states.tolist(), masses, strict=True))
            for states, masses in zip(self.classes, self._laws, strict=True)
        ]

    def shares(self, initial: Floats) -> Floats:
        """See `SolvedChain.shares`."""
        with _precision():
            m = self._visits(self._numbers(initial[np.argsort(self.place)]))[len(self.out) :]
            return np.array([float(x / sum(m)) for x in m])

    def values(self, of_classes: Floats) -> Floats:
        """See `SolvedChain.values`."""
        with _precision():
            found = self._collected(self._numbers(np.zeros(self.S)), self._numbers(of_classes))
            return np.array([float(x) for x in found])

    def collected(self, amounts: Floats) -> Floats:
        """See `SolvedChain.collected`."""
        with _precision():
            found = self._collected(self._numbers(amounts), self._numbers(np.zeros(len(self.kept))))
            return np.array([float(x) for x in found])

    def bias(self, amounts: Floats) -> Floats:
        """See `SolvedChain.bias`."""
        with _precision():
            exact = self._numbers(amounts)
            for states, mean in zip(self.classes, self._means(exact), strict=True):
                for s in states.tolist():  # amounts are rounded, and so is their mean
                    exact[s] -= mean
            h = self._collected(exact, self._numbers(np.zeros(len(self.kept))))
            h = self._collected(exact, [-mean for mean in self._means(h)])
            found = np.zeros((self.parts, self.S))
            for s, x in enumerate(h):
                for level in range(self.parts):
                    found[level, s] = float(x)
                    if not np.isfinite(found[level, s]):
                        break
                    x = x - found[level, s]
            return found
