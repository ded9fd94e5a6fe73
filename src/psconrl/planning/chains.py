"""A chain, solved: its stationary laws, and the averages, biases and shares that follow from them.

All states but one of each recurrent class are eliminated without subtractions: laws and averages are accurate to
rounding in every entry, however nearly decomposable the chain is. The one that is kept is likely: where the law says
that it was not, the likeliest is taken instead, and all is done again; the law does not depend on it, but the bias is
what is collected on the way to it. Where elimination would take long, in large grids and random graphs, sparse factors
or iteration take its place (`poisson`).
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from scipy import sparse

from psconrl._core.checks import Floats, Ints
from psconrl._core.graph import closed_classes
from psconrl.errors import SolverError
from psconrl.planning.compiled.elimination import (
    Chain,
    collect,
    correct,
    eliminate,
    likely_state,
    residuals,
    visits,
)
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.elimination_order import elimination_order
from psconrl.planning.poisson import Factor, PoissonSolver, factor_work, generator_of
from psconrl.planning.precise_chains import PreciseChain
from psconrl.planning.tolerances import MAX_FACTOR_WORK, MAX_FULL, MAX_WORK, SOLVED, SUPPORT, UNLIKELY

PARTS = 4
"""In so many parts of falling size a bias is held; see `evaluation.Evaluation.parts`."""
MAX_ELIMINATION_WORK = 3e6
"""Eliminations of more multiplications than this come after sparse factors and iteration, which then are faster."""
LEAST = 1e-60
"""Ways out of states that are likelier, and times until kept states are met that are shorter than the inverse of this,
make no more of what floats lose than a share of 1e-100."""
MAX_PRECISE = 30
"""States: in chains up to this size nothing is lost, however rare it is."""
MAX_PRECISE_WORK = 1e7
"""Eliminations of more multiplications than this are not repeated with numbers of many bits: it takes ten seconds."""
ROUNDING = 16.0
"""Equations of the bias that fail by more than this many times the bound on rounding are solved once more."""


def stationary_distribution(matrix: sparse.csr_array, sparsely: bool = True) -> Floats | None:
    """The stationary law of a chain (S, S), without all else that `evaluate_chain` gives; None if there are several.

    sparsely: whether sparse factors and iteration will do, which lose the digits of rare states.
    """
    classes = closed_classes(matrix)
    return None if len(classes) > 1 else solve_chain(chain_of(matrix), classes, sparsely).law


def chain_of(matrix: sparse.csr_array) -> Chain:
    """A sparse matrix (S, S) as kernels take it."""
    return Chain(
        np.asarray(matrix.indptr, dtype=np.int64),
        np.asarray(matrix.indices, dtype=np.int64),
        np.asarray(matrix.data, dtype=np.float64),
    )


class SolvedChain(Protocol):
    """A chain of S states with K recurrent classes, ready to be asked.

    law (S,): the stationary law of each class, 0 elsewhere.
    """

    law: Floats

    def shares(self, initial: Floats) -> Floats:
        """The mass (K,) that ends in each class."""

    def values(self, of_classes: Floats) -> Floats:
        """The mean (S,) of values (K,) of the class in which a state ends."""

    def bias(self, amounts: Floats) -> Floats:
        """h = amounts + P h with mean zero in each class, in parts (PARTS, S); amounts (S,), of mean zero in each."""

    def collected(self, amounts: Floats) -> Floats:
        """What is collected (S,) of amounts (S,) of transient states."""


def solve_chain(chain: Chain, classes: list[Ints], sparsely: bool = True) -> SolvedChain:
    """By elimination without subtractions, unless that takes long and sparse factors or iteration serve.

    With numbers of many bits where floats lose some.
    """
    kept = np.array([likely_state(chain, int(states[0])) for states in classes], dtype=np.int64)
    order, work = elimination_order(chain, kept)
    if work > (MAX_ELIMINATION_WORK if sparsely else MAX_WORK):
        found = SparseChain(chain, classes)
        # What is not certain is checked once more by those who ask; elimination would take hours.
        if found.converged and (found.is_certain() or work > MAX_FACTOR_WORK):
            return found
    eliminated = EliminatedChain(chain, classes, kept, order)
    if eliminated.exact:
        return eliminated
    if work > MAX_PRECISE_WORK:
        raise SolverError("the numbers of a chain exceed the range of floats: its probabilities are too uneven")
    return PreciseChain(chain, classes, kept, order, PARTS)


class EliminatedChain:
    """A chain from which all but one state of each recurrent class are eliminated."""

    def __init__(self, chain: Chain, classes: list[Ints], kept: Ints, order: Ints) -> None:
        self.chain, self.classes, self.kept = chain, classes, kept
        self.S = len(chain.indptr) - 1
        self.label = _label(classes, self.S)
        for _ in range(3):
            self._eliminate(order)
            likeliest = np.array([states[self.law[states].argmax()] for states in classes])
            unlikely = self.law[self.kept] < UNLIKELY * self.law[likeliest]
            if not unlikely.any():
                break
            self.kept = np.where(unlikely, likeliest, self.kept)
            order, _ = elimination_order(chain, self.kept)

    def _eliminate(self, order: Ints) -> None:
        self.order, self._by_place = order, np.concatenate([order, np.sort(self.kept)])
        self.place = np.argsort(self._by_place)
        self.elimination = eliminate(self.chain, order, self.place)
        if self.elimination.exact and not self.elimination.fine:
            raise SolverError("some states of a chain lead to none of its recurrent classes")
        # The law: expected visits on the way from each kept state back to it.
        start = np.zeros(self.S)
        for s in self.kept:
            entries = slice(self.chain.indptr[s], self.chain.indptr[s + 1])
            np.add.at(start, self.place[self.chain.indices[entries]], self.chain.data[entries])
        start[self.place[self.kept]] = 0.0
        with np.errstate(all="ignore"):
            met, exact = visits(self.elimination, start, False)
        mass = met[self.place]
        mass[self.kept] = 1.0
        self.exact, self.law = exact and self.elimination.exact, np.zeros(self.S)
        for states in self.classes:
            total = mass[states].sum()
            if total < np.inf:
                self.law[states] = mass[states] / total
            else:  # the kept state is hardly ever visited
                self.exact, self.law[states[mass[states].argmax()]] = False, 1.0
        if not self.exact and self.S > MAX_PRECISE and (mass < np.inf).all() and self.elimination.out.min() >= LEAST:
            # What was lost is below 1e-300 each time. That matters where it may take for ever to be corrected.
            with np.errstate(all="ignore"):
                self.exact = bool(self.collected(np.ones(self.S)).max() <= 1.0 / LEAST)

    def shares(self, initial: Floats) -> Floats:
        """See `SolvedChain.shares`."""
        start = np.empty(self.S)
        start[self.place] = initial
        met = visits(self.elimination, start, True)[0][self.place[self.kept]]
        return np.asarray(met / met.sum())

    def values(self, of_classes: Floats) -> Floats:
        """See `SolvedChain.values`."""
        if len(self.classes) == 1:
            return np.full(self.S, of_classes[0])
        values = self._collected(np.zeros(self.S), of_classes).sum(axis=0)
        return np.where(self.label >= 0, of_classes[self.label], values)

    def collected(self, amounts: Floats) -> Floats:
        """See `SolvedChain.collected`."""
        return np.asarray(self._collected(amounts, np.zeros(len(self.classes))).sum(axis=0))

    def bias(self, amounts: Floats) -> Floats:
        """See `SolvedChain.bias`."""
        parts = self._bias(amounts)
        if self.S <= MAX_FULL and residuals(self.chain, amounts, 2.0, parts).worst > ROUNDING:
            # A value is that of the likeliest state it leads to, and more: states must lead to likely ones.
            rest = np.setdiff1d(np.arange(self.S), self.kept)
            self._eliminate(rest[np.argsort(self.law[rest], kind="stable")])
            parts = self._bias(amounts)
        return parts

    def _bias(self, amounts: Floats) -> Floats:
        h = self._collected(amounts, np.zeros(len(self.classes))).sum(axis=0)
        means = np.array([self.law[states] @ np.where(self.law[states] > 0, h[states], 0.0) for states in self.classes])
        parts = self._collected(amounts, np.where(np.isfinite(means), -means, 0.0))
        # One step of refinement. What the averages are rounded by cannot be removed: all states get the same of it.
        left = residuals(self.chain, amounts, 2.0, parts).left
        rounded = np.array([self.law[states] @ left[states] for states in self.classes])
        left = np.where(self.label >= 0, left - rounded[self.label], left)
        parts = np.ascontiguousarray(parts[:, self._by_place])
        correct(self.elimination, left[self.order], parts)
        return parts[:, self.place]

    def _collected(self, amounts: Floats, of_classes: Floats) -> Floats:
        """Amounts (S,) collected on the way to the kept states, plus the values (K,) of those: parts (PARTS, S)."""
        parts = np.zeros((PARTS, self.S))
        parts[0, self.place[self.kept]] = of_classes
        collect(self.elimination, amounts[self.order], parts)
        return np.ascontiguousarray(parts[:, self.place])


class SparseChain:
    """A chain by sparse factors or iteration (`poisson`); `converged` says whether its laws were found."""

    def __init__(self, chain: Chain, classes: list[Ints]) -> None:
        S = len(chain.indptr) - 1
        self.classes, self.label = classes, _label(classes, S)
        self.generator = generator_of(Rows(np.arange(S + 1), *chain))
        self.law = np.zeros(S)
        if len(classes) == 1:
            self.solver = PoissonSolver(self.generator)
            self.solver.switch_policy(np.arange(S))
            law = self.solver.distribution(np.full(S, 1.0 / S), SOLVED / S**0.5)
            self.converged = law is not None
            if law is not None:
                self.law[classes[0]] = law[classes[0]] / law[classes[0]].sum()
            return
        kept = np.array([likely_state(chain, int(states[0])) for states in classes], dtype=np.int64)
        self.converged = factor_work(self.generator) <= MAX_FACTOR_WORK
        if self.converged:
            self.factor = Factor(self.generator, kept)
            # Every class is met from its own kept state only, so one solution has the visits of all.
            self.law[kept], self.law[self.factor.rest] = 1.0, self.factor.visit(self.factor.from_kept.sum(axis=0))
            self.law[self.label < 0] = 0.0
            self.converged = bool(np.isfinite(self.law).all() and (self.law >= 0).all())
            self.law /= np.where(self.label >= 0, self._by_class(self.law)[self.label], 1.0)

    def is_certain(self) -> bool:
        """Whether the averages of some costs are certain: blocks that hardly meet may have any weights in a law."""
        probe = np.random.default_rng(0).random(len(self.law))
        amounts = probe - self.values(self._by_class(self.law * probe))
        left = np.abs(amounts - self.generator @ self.bias(amounts)[0])
        return bool(left.max() <= SOLVED)

    def shares(self, initial: Floats) -> Floats:
        """See `SolvedChain.shares`."""
        if len(self.classes) == 1:
            return np.ones(1)
        started = np.where(self.label < 0, initial, 0.0)[self.factor.rest]
        met = self.factor.into_kept.T @ self.factor.visit(started)
        shares = self._by_class(initial) + met
        return np.asarray(shares / shares.sum())

    def values(self, of_classes: Floats) -> Floats:
        """See `SolvedChain.values`."""
        values = np.full(len(self.law), of_classes[0])
        if len(self.classes) > 1:
            values[self.factor.rest] = self.factor.collect(self.factor.into_kept @ of_classes)
            values = np.clip(values, of_classes.min(), of_classes.max())
            values[self.label >= 0] = of_classes[self.label[self.label >= 0]]
        return values

    def collected(self, amounts: Floats) -> Floats:
        """See `SolvedChain.collected`."""
        result = np.zeros(len(amounts))
        result[self.factor.rest] = self.factor.collect(amounts[self.factor.rest])
        return result

    def bias(self, amounts: Floats) -> Floats:
        """See `SolvedChain.bias`."""
        if len(self.classes) == 1:
            tolerance = SUPPORT * float(np.abs(amounts).max(initial=0.0))
            bias = self.solver.bias(amounts, np.zeros(len(amounts)), tolerance).values
        else:
            bias = self.collected(amounts)
            bias += self.collected(amounts - self.generator @ bias)
        bias = bias - self.values(self._by_class(self.law * bias))
        return np.concatenate([bias[np.newaxis], np.zeros((PARTS - 1, len(bias)))])

    def _by_class(self, mass: Floats) -> Floats:
        inside = self.label >= 0
        return np.bincount(self.label[inside], mass[inside], len(self.classes)).astype(np.float64)


def _label(classes: list[Ints], S: int) -> Ints:
    """The class of each state, -1 if transient."""
    label = np.full(S, -1, dtype=np.int64)
    for k, states in enumerate(classes):
        label[states] = k
    return label
