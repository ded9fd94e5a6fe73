"""Poisson's equation of sparse chains: gain and bias of a policy, and its stationary distribution.

For a chain P with one closed class and costs c, the gain g and the bias h solve c - g + P h - h = 0, and the stationary
distribution mu solves mu (I - P) = 0. The diagonal of I - P is the sum of the other entries of its row, so that the
probabilities to leave a state that is hardly ever left keep their digits. Two methods, tried in this order:

    sweeps             of Gauss and Seidel: where chains forget their start within some tens of steps, as in random
                       graphs, in which factors would fill up
    a sparse factor    SuperLU in the order of minimum degree, without pivoting: I - P less the rows and columns of
                       some kept states, one in each closed class, is an M-matrix

Answers are judged by what they leave of the equation, whatever the method: no average of the chain is further from g
than that (`Bias.error`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import count
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import SuperLU, splu

from psconrl._core.checks import Floats, Ints
from psconrl.planning.compiled.elimination import Chain, likely_state
from psconrl.planning.compiled.pricing import gauss_seidel_sweep
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.tolerances import (
    MAX_DENSE,
    MAX_FACTOR_WORK,
    MAX_WORK,
    MORE_PROGRESS,
    PROGRESS,
    SOLVED,
    SWEEPS_PER_CHECK,
    UNLIKELY,
)

Solve = Callable[[Floats], Floats]


class Bias(NamedTuple):
    """The gain, the bias h (S,), and by how much the equation fails at most: the gain is off by no more."""

    gain: float
    values: Floats
    error: float


class Factor:
    """A sparse factor of I - P (S, S) less the rows and columns of the kept states, to which all others lead."""

    def __init__(self, generator: sparse.csr_array, kept: Ints) -> None:
        S = generator.shape[0]
        self.kept, self.rest = kept, np.setdiff1d(np.arange(S), kept)
        self.from_kept = -generator[kept][:, self.rest]
        self._others = generator[self.rest]
        # By rows this matrix is stored as its transpose is by columns.
        inner, n = self._others[:, self.rest], len(self.rest)
        transposed = sparse.csc_array((inner.data, inner.indices, inner.indptr), shape=(n, n))
        self._lu: SuperLU = splu(
            transposed, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )

    @cached_property
    def into_kept(self) -> sparse.csr_array:
        """The probabilities (n, k) to move to the kept states."""
        return -self._others[:, self.kept]

    def collect(self, amounts: Floats) -> Floats:
        """What is collected of amounts (n,) per visit from each of the other states until a kept one is met."""
        return np.asarray(self._lu.solve(amounts, "T"))

    def visit(self, start: Floats) -> Floats:
        """Expected visits (n,) to the other states until a kept one is met, from starts (n,) in them."""
        return np.asarray(self._lu.solve(start))


class ReferenceFactor:
    """The same for one kept state r; mu (S,): the stationary distribution."""

    def __init__(self, generator: sparse.csr_array, r: int) -> None:
        self.r, self._factor, self.mu = r, Factor(generator, np.array([r])), np.ones(generator.shape[0])
        self._rest, self._from_r = self._factor.rest, self._factor.from_kept.toarray()[0]
        self._times = self._factor.collect(np.ones(len(self._rest)))
        self.mu[self._rest] = self._factor.visit(self._from_r)
        self.mu /= self.mu.sum()

    def bias(self, b: Floats) -> Floats:
        """An x for which b - (I - P) x is constant."""
        y, x = self._factor.collect(b[self._rest]), np.zeros(len(b))
        g = (b[self.r] + self._from_r @ y) / (1.0 + self._from_r @ self._times)
        x[self._rest] = y - g * self._times
        return x

    def distribution(self, b: Floats) -> Floats:
        """The x with x (I - P) = b, which sums to zero, and x(r) = 0."""
        x = np.zeros(len(b))
        x[self._rest] = self._factor.visit(b[self._rest])
        return x


def factor_work(matrix: sparse.csr_array) -> float:
    """About how many multiplications a sparse factor of a matrix (S, S) takes, by its largest connected part.

    Levels of a breadth-first search separate what comes before from what comes after: the widest one fills up.
    """
    labels = connected_components(matrix, directed=False)[1]
    start = int(np.argmax(labels == np.bincount(labels).argmax()))
    order, before = breadth_first_order(matrix, start, directed=False)
    place, edges = np.empty(len(labels), dtype=np.int64), [0, 1]
    place[order] = np.arange(len(order))
    parents = place[before[order[1:]]]
    while edges[-1] < len(order):
        edges.append(1 + int(np.searchsorted(parents, edges[-1])))
    return float(np.diff(edges).max()) ** 3


def generator_of(rows: Rows) -> sparse.csr_array:
    """I - P (K, S) of all pairs of a model, the diagonal first, summed from the other entries."""
    source, pair = rows.source, np.repeat(np.arange(rows.K), np.diff(rows.indptr))
    away = rows.indices != source[pair]
    out = np.bincount(pair[away], rows.data[away], rows.K)
    entries = np.concatenate([out, -rows.data[away]])
    places = np.concatenate([np.arange(rows.K), pair[away]]), np.concatenate([source, rows.indices[away]])
    return sparse.csr_array((entries, places), shape=(rows.K, rows.S))


class PoissonSolver:
    """Solves Poisson's equation for one policy of a model after another.

    Attributes:
        reference: the state where biases are zero; a likely one.
    """

    def __init__(self, generator: sparse.csr_array) -> None:
        """generator (K, S): see `generator_of`."""
        self.generator, self.S = generator, generator.shape[1]
        self.reference = 0
        self.chain, self._policy = generator[:0], np.empty(0, dtype=np.int64)
        self._factor: ReferenceFactor | None = None
        self._swept = self.S > MAX_DENSE

    @cached_property
    def _factor_work(self) -> float:
        """About the work of a factor, of the first chain that asks for one."""
        return factor_work(self.chain)

    def switch_policy(self, policy: Ints) -> None:
        """From now on solve for the chain of a policy (S,)."""
        if not np.array_equal(policy, self._policy):
            self.chain, self._policy, self._factor = self.generator[policy], policy.copy(), None

    @np.errstate(all="ignore")  # what is not finite is no improvement
    def bias(self, c: Floats, guess: Floats, tolerance: float) -> Bias:
        """Gain and bias for costs c (S,) from a guess (S,) of the bias; the error says whether they were found."""
        best = Bias(np.nan, guess, np.inf)
        for solve, steps, progress in self._methods(self.chain, "bias"):
            h, before = best.values, np.inf
            for step in count():
                left = c - self.chain @ h
                low, high = float(left.min()), float(left.max())
                g, error = (low + high) / 2, (high - low) / 2
                if error < best.error:
                    best = Bias(g, h - h[self.reference], error)
                if error <= tolerance:
                    return best
                if step % steps == 0:
                    if not error < progress * before:
                        break
                    before = error
                h = h + solve(left - left.mean())
        return best

    @np.errstate(all="ignore")
    def distribution(self, guess: Floats, tolerance: float = SOLVED) -> Floats | None:
        """The stationary distribution (S,) from a guess; None where it is not found to SOLVED at least."""
        into, best, least = self.chain.T.tocsr(), guess, np.inf
        for solve, steps, progress in self._methods(into, "distribution"):
            mu = guess / guess.sum() if self._factor is None else self._factor.mu
            before = np.inf
            for step in count():
                left = into @ mu
                error = float(np.linalg.norm(left))
                if error < least:
                    best, least = mu, error
                if error <= tolerance:
                    break
                if step % steps == 0:
                    if not error < progress * before:
                        break
                    before = error
                mu = mu - solve(left)
                mu = mu / mu.sum()
            if least <= SOLVED:
                mu = np.maximum(best, 0.0)
                return np.asarray(mu / mu.sum())
        return None

    def _methods(self, matrix: sparse.csr_array, which: str) -> Iterator[tuple[Solve, int, float]]:
        """What solves with a matrix (S, S) one after another, with the steps between checks and their progress."""
        if self._swept:
            progress = MORE_PROGRESS if self._factor_work <= MAX_WORK else PROGRESS
            yield partial(gauss_seidel_sweep, matrix.indptr, matrix.indices, matrix.data), SWEEPS_PER_CHECK, progress
            self._swept = self._factor_work > MAX_FACTOR_WORK
        if not self._swept:
            self._refactor()
        if self._factor is not None:
            yield getattr(self._factor, which), 1, PROGRESS

    def _refactor(self) -> None:
        """Factor the chain, with a reference state that is visited often, if that was not done."""
        if self._factor is not None:
            return
        chain = self.chain
        leaving = Chain(chain.indptr.astype(np.int64), chain.indices.astype(np.int64), -chain.data)
        try:
            factor = ReferenceFactor(chain, likely_state(leaving, self.reference))
            likely = int(factor.mu.argmax())
            if UNLIKELY * factor.mu[likely] > factor.mu[factor.r]:
                factor = ReferenceFactor(chain, likely)
        except RuntimeError:  # singular: some states do not lead to the reference
            return
        self._factor, self.reference = factor, factor.r
