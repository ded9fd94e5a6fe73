"""A chain, solved: its stationary distributions, and the averages, biases and shares that follow from them.

All states but one of each recurrent class are eliminated without subtractions: stationary distributions and averages
are accurate to rounding in every entry, however nearly decomposable the chain is. The one that is kept is likely: where
it turns out not to be, the likeliest is taken instead, and all is done again; averages do not depend on it, but the
bias is what is collected until it is met. Where elimination would take long, in large grids and random graphs, sparse
factors or iteration take its place (`poisson`). Where masses or times leave the range of floats, the same elimination
is done with numbers of some thousand bits by FLINT.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from psconrl._core.checks import Floats, Ints
from psconrl._core.graph import closed_classes
from psconrl._core.njit import as_python
from psconrl.errors import SolverError
from psconrl.planning.compiled.elimination import Chain, collect, eliminate, likely_state, residuals, visits
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.elimination_order import elimination_order
from psconrl.planning.poisson import Factor, PoissonSolver, factor_work, generator_of
from psconrl.planning.tolerances import (
    EPS,
    MAX_ELIMINATION_WORK,
    MAX_FACTOR_WORK,
    MAX_FLOAT_TIME,
    MAX_PRECISE_WORK,
    MAX_WORK,
    PRECISE_BITS,
    SOLVED,
    SUPPORT,
    UNLIKELY,
)

_PRECISION = Lock()


def stationary_distribution(matrix: sparse.csr_array, sparsely: bool = True) -> Floats | None:
    """The stationary distribution of a chain (S, S) without a bias; None if there are several.

    sparsely: whether sparse factors and iteration will do, which lose the digits of rare states.
    """
    classes = closed_classes(matrix)
    return None if len(classes) > 1 else solve_chain(chain_of(matrix), classes, sparsely).stationary


def chain_of(matrix: sparse.csr_array) -> Chain:
    """A sparse matrix (S, S) as kernels take it."""
    return Chain(
        np.asarray(matrix.indptr, dtype=np.int64),
        np.asarray(matrix.indices, dtype=np.int64),
        np.asarray(matrix.data, dtype=np.float64),
    )


def solve_chain(chain: Chain, classes: list[Ints], sparsely: bool = True) -> SolvedChain:
    """By elimination, unless that takes long and sparse factors or iteration serve."""
    kept = np.array([likely_state(chain, int(states[0])) for states in classes], dtype=np.int64)
    order, work = elimination_order(chain, kept)
    if work > (MAX_ELIMINATION_WORK if sparsely else MAX_WORK):
        found = SparseChain(chain, classes)
        # What is not certain is checked by those who use it; elimination would take hours.
        if found.converged and (found.is_certain() or work > MAX_FACTOR_WORK):
            return found
    eliminated = EliminatedChain(chain, classes, kept, order)
    if eliminated.exact:
        return eliminated
    if work > MAX_PRECISE_WORK:
        raise SolverError("the numbers of a chain exceed the range of floats: its probabilities are too uneven")
    return EliminatedChain(chain, classes, kept, order, precise=True)


class SolvedChain(ABC):
    """A chain of S states with K recurrent classes, of each of which one state is kept.

    Attributes:
        stationary: (S,), the stationary distribution of each class; 0 in transient states.
        error: no average of costs in [0, 2) is off by more; inf where only the equations of a bias can tell.
    """

    error = np.inf
    _arithmetic: Callable[[], AbstractContextManager[None]] = nullcontext

    def __init__(self, chain: Chain, classes: list[Ints]) -> None:
        self.chain, self.classes, self.S = chain, classes, len(chain.indptr) - 1
        self.label = np.full(self.S, -1, dtype=np.int64)
        for k, states in enumerate(classes):
            self.label[states] = k
        self.stationary: Floats = np.zeros(self.S)
        # The same, and the chain, in the numbers that are used within.
        self._mass: NDArray[Any] = self.stationary
        self._chain = chain

    def shares(self, initial: Floats) -> Floats:
        """The mass (K,) that ends in each class."""
        if len(self.classes) == 1:
            return np.ones(1)
        with self._arithmetic():
            entries = self._entries(initial)
            return np.asarray((entries / entries.sum()).astype(np.float64))

    def values(self, of_classes: Floats) -> Floats:
        """The mean (S,) of values (K,) of the class in which a state ends."""
        if len(self.classes) == 1:
            return np.full(self.S, of_classes[0])
        with self._arithmetic():
            values = self._collect(np.zeros(self.S), of_classes).astype(np.float64)
        return np.where(self.label >= 0, of_classes[self.label], np.clip(values, of_classes.min(), of_classes.max()))

    def collected(self, amounts: Floats) -> Floats:
        """What is collected (S,) of amounts (S,) until a kept state is met."""
        with self._arithmetic():
            return np.asarray(self._collect(amounts, np.zeros(len(self.classes))).astype(np.float64))

    def bias(self, amounts: Floats) -> Floats:
        """The h = amounts + P h (S,) with mean zero in each class; amounts (S,), of mean zero in each."""
        nothing = np.zeros(len(self.classes))
        with self._arithmetic(), np.errstate(over="ignore", invalid="ignore"):
            exact = amounts.astype(self._mass.dtype)
            exact = exact - self._means(exact)  # amounts are rounded, and so is their mean
            h = self._collect(exact, nothing)
            # One step of refinement. What averages are rounded by cannot be removed: all states get the same of it.
            left = residuals(self._chain, exact, 2.0, h)[0]
            h = h + self._collect(left - self._means(left), nothing)
            return np.asarray((h - self._collect(np.zeros(self.S), self.averages(h))).astype(np.float64))

    def averages(self, values: NDArray[Any]) -> NDArray[Any]:
        """The averages (K,) of values (S,) in the classes."""
        mass = self._mass if values.dtype == object else self.stationary
        likely = [states[mass[states] > 0] for states in self.classes]  # values of others may be infinite
        return np.array([mass[states] @ values[states] for states in likely])

    def _means(self, values: NDArray[Any]) -> NDArray[Any]:
        """The average (S,) of values (S,) in the class of each state; 0 in transient states."""
        return np.where(self.label >= 0, self.averages(values)[self.label], 0.0)

    @abstractmethod
    def _collect(self, amounts: NDArray[Any], of_classes: NDArray[Any]) -> NDArray[Any]:
        """Amounts (S,) collected until a kept state is met, plus the values (K,) of those."""

    @abstractmethod
    def _entries(self, start: Floats) -> NDArray[Any]:
        """The probabilities (K,) to enter each kept state before others, from a start distribution (S,)."""


class EliminatedChain(SolvedChain):
    """A chain from which all but the kept states are eliminated; `exact` says whether floats lost nothing that counts.

    Every step of the elimination changes probabilities by a few roundings, and so stationary distributions by 2 S times
    as much at most, relatively (O'Cinneide, Numerische Mathematik 65, 1993): S^2 times in all.
    """

    def __init__(self, chain: Chain, classes: list[Ints], kept: Ints, order: Ints, precise: bool = False) -> None:
        """kept (K,): a state of each class; order: of the others. precise: with numbers of some thousand bits."""
        super().__init__(chain, classes)
        self.kept = kept
        if precise:
            self._arithmetic = _precise_numbers
        with self._arithmetic():
            if precise:
                self._chain = chain._replace(data=_exactly(chain.data))
            for _ in range(3):
                self._eliminate(order)
                likeliest = np.array([states[self.stationary[states].argmax()] for states in classes])
                unlikely = self.stationary[self.kept] < UNLIKELY * self.stationary[likeliest]
                if not unlikely.any():
                    break
                self.kept = np.where(unlikely, likeliest, self.kept)
                order, _ = elimination_order(chain, self.kept)
        fill = int(np.diff(self.elimination.up_begin).max(initial=0))
        self.error = SOLVED if precise else 2.0 * self.S**2 * (fill + 3) * EPS

    def _eliminate(self, order: Ints) -> None:
        chain, kept = self._chain, self.kept
        self.order, self.place = order, np.argsort(np.concatenate([order, kept]))
        self.elimination = eliminate(chain, order, self.place)
        if self.elimination.exact and not self.elimination.fine:
            raise SolverError("some states of a chain lead to none of its recurrent classes")
        # Expected visits between a departure from each kept state and the return to it.
        start = self._zeros(self.S)
        for s in kept:
            entries = slice(chain.indptr[s], chain.indptr[s + 1])
            np.add.at(start, self.place[chain.indices[entries]], chain.data[entries])
        start[self.place[kept]] = 0.0
        with np.errstate(all="ignore"):
            met, exact = visits(self.elimination, start, False)
            self._mass = met[self.place]
            self._mass[kept], self._mass[self.label < 0] = 1.0, 0.0
            for states in self.classes:
                self._mass[states] /= self._mass[states].sum()
            self.stationary = self._mass.astype(np.float64)
            # What products lost is below 1e-300 each time. That matters where it may take for ever to be corrected.
            self.exact = bool(np.isfinite(self.stationary).all()) and (
                (exact and self.elimination.exact) or (self.elimination.fine and self._longest_time() <= MAX_FLOAT_TIME)
            )

    def _longest_time(self) -> float:
        """The most steps that are expected until a kept state is met."""
        return float(self._collect(np.ones(self.S), np.zeros(len(self.classes))).max())

    def _zeros(self, n: int) -> NDArray[Any]:
        return np.zeros(n, dtype=self._chain.data.dtype)

    def _collect(self, amounts: NDArray[Any], of_classes: NDArray[Any]) -> NDArray[Any]:
        values = self._zeros(self.S)
        values[self.place[self.kept]] = of_classes
        collect(self.elimination, amounts[self.order].astype(values.dtype), values)
        return values[self.place]

    def _entries(self, start: Floats) -> NDArray[Any]:
        by_place = self._zeros(self.S)
        by_place[self.place] = start
        return visits(self.elimination, by_place, True)[0][self.place[self.kept]]


@contextmanager
def _precise_numbers() -> Iterator[None]:
    """Kernels run as Python, for arrays of FLINT's numbers of many bits; how many is the same for all threads."""
    from flint import ctx

    with _PRECISION, ctx.workprec(PRECISE_BITS), as_python():
        yield


def _exactly(numbers: Floats) -> NDArray[Any]:
    from flint import arb

    return np.array([arb(x) for x in numbers.tolist()], dtype=object)


class SparseChain(SolvedChain):
    """A chain by sparse factors or iteration (`poisson`); `converged`: whether stationary distributions were found."""

    def __init__(self, chain: Chain, classes: list[Ints]) -> None:
        super().__init__(chain, classes)
        S = self.S
        self.generator = generator_of(Rows(np.arange(S + 1), *chain))
        if len(classes) == 1:
            self.solver = PoissonSolver(self.generator)
            self.solver.switch_policy(np.arange(S))
            mass = self.solver.distribution(np.full(S, 1.0 / S), SOLVED / S**0.5)
            self.converged = mass is not None
        else:
            mass, self.converged = None, factor_work(self.generator) <= MAX_FACTOR_WORK
            if self.converged:
                self.kept = np.array([likely_state(chain, int(states[0])) for states in classes], dtype=np.int64)
                self.factor = Factor(self.generator, self.kept)
                # Every class is met from its own kept state only, so one solution has the visits of all.
                mass = np.ones(S)
                mass[self.factor.rest] = self.factor.visit(self.factor.from_kept.sum(axis=0))
                self.converged = bool(np.isfinite(mass).all() and (mass >= 0).all())
        if mass is not None:
            for states in classes:
                self._mass[states] = mass[states] / mass[states].sum()

    def is_certain(self) -> bool:
        """Whether averages of some costs are: blocks that hardly meet may have any weights in a distribution."""
        probe = np.random.default_rng(0).random(self.S)
        amounts = probe - self.values(self.averages(probe))
        return bool(np.abs(amounts - self.generator @ self.bias(amounts)).max() <= SOLVED)

    def bias(self, amounts: Floats) -> Floats:
        """See `SolvedChain.bias`."""
        if len(self.classes) > 1:
            return super().bias(amounts)
        tolerance = SUPPORT * float(np.abs(amounts).max(initial=0.0))
        h = self.solver.bias(amounts, np.zeros(self.S), tolerance).values
        return np.asarray(h - self.stationary @ h)

    def _collect(self, amounts: NDArray[Any], of_classes: NDArray[Any]) -> NDArray[Any]:
        h, rest = np.empty(self.S), self.factor.rest
        h[self.kept] = of_classes
        h[rest] = self.factor.collect(amounts[rest] + self.factor.into_kept @ of_classes)
        return h

    def _entries(self, start: Floats) -> NDArray[Any]:
        return start[self.kept] + self.factor.into_kept.T @ self.factor.visit(start[self.factor.rest])
