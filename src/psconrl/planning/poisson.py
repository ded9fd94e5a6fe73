"""Poisson's equation of sparse chains: gain and bias of a policy, and its stationary distribution.

For a chain P with one closed class and costs c, the gain g and the bias h solve c - g + P h - h = 0, and the stationary
distribution mu solves mu (I - P) = 0. The diagonal of I - P is the sum of the other entries of its row, so that the
ways out of a state that is hardly ever left keep their digits. Three methods, tried in the order of what they cost:

    GMRES after sweeps     with one sweep of Gauss and Seidel as its approximate inverse: where chains forget their
                           start within some tens of steps, as in random graphs, in which factors would fill up
    GMRES after a factor   with the sparse factor of another policy of the model, not too different
    a sparse factor        SuperLU in the order of minimum degree, without pivoting: I - P less the rows and columns of
                           some kept states, one in each closed class, is an M-matrix

GMRES works on M = I - P + 1 u', u the uniform distribution: M x = b has g = u' x and a bias. Answers are judged by what
they leave of the equation, whatever the method: no average of the chain is further from g than that (`Bias.error`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order, connected_components
from scipy.sparse.linalg import SuperLU, splu

from psconrl._core.checks import Floats, Ints
from psconrl.planning.compiled.elimination import Chain, likely_state
from psconrl.planning.compiled.pricing import gauss_seidel_sweep
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.tolerances import EPS, MAX_DENSE, MAX_FACTOR_WORK, MAX_WORK, SOLVED, UNLIKELY

SWEPT_STEPS, REUSED_STEPS = 40, 12
"""Most steps of GMRES, after sweeps and with the factor of another policy, before it starts again."""
PROGRESS, MORE_PROGRESS = 0.5, 0.01
"""Methods start again as long as every round leaves no more than this share of what was left before; the second where
another method is to follow that takes less time than many rounds."""

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
        """What is collected of amounts (n,) per visit on the way from each of the other states to the kept ones."""
        return np.asarray(self._lu.solve(amounts, "T"))

    def visit(self, start: Floats) -> Floats:
        """Expected visits (n,) to the other states on the way to the kept ones, from starts (n,) in them."""
        return np.asarray(self._lu.solve(start))


class BorderedFactor:
    """The same for one kept state r, for systems in M; `visits` (n,): on the way from r back to it."""

    def __init__(self, generator: sparse.csr_array, r: int) -> None:
        self.r, self._factor = r, Factor(generator, np.array([r]))
        self.rest, self._from_r = self._factor.rest, self._factor.from_kept.toarray()[0]
        self._times = self._factor.collect(np.ones(len(self.rest)))
        self.visits = self._factor.visit(self._from_r)

    def bias(self, b: Floats) -> Floats:
        """The x with M x = b."""
        y, x = self._factor.collect(b[self.rest]), np.zeros(len(b))
        g = (b[self.r] + self._from_r @ y) / (1.0 + self._from_r @ self._times)
        x[self.rest] = y - g * self._times
        return x + (g - x.mean())

    def distribution(self, b: Floats) -> Floats:
        """The x with x M = b."""
        total = b.sum()
        y, x = self._factor.visit(b[self.rest] - total / len(b)), np.empty(len(b))
        x[self.r] = (total - y.sum()) / (1.0 + self.visits.sum())
        x[self.rest] = y + x[self.r] * self.visits
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
        self.chain = generator[:0]
        self._factor: BorderedFactor | None = None
        self._swept, self._current = self.S > MAX_DENSE, False

    @cached_property
    def _factor_work(self) -> float:
        """About the work of a factor, of the first chain that asks for one."""
        return factor_work(self.chain) if self.S > MAX_DENSE else 0.0

    def switch_policy(self, policy: Ints) -> None:
        """From now on solve for the chain of a policy (S,)."""
        self.chain, self._current = self.generator[policy], False

    @np.errstate(all="ignore")  # what is not finite is no improvement
    def bias(self, c: Floats, guess: Floats, tolerance: float) -> Bias:
        """Gain and bias for costs c (S,) from a guess (S,) of the bias; the error says whether they were found."""
        best = Bias(np.nan, guess, np.inf)
        for solve, progress in self._methods(tolerance, transposed=False):
            h, before = best.values, np.inf
            while True:
                left = c - self.chain @ h
                low, high = float(left.min()), float(left.max())
                g, error = (low + high) / 2, (high - low) / 2
                if error < best.error:
                    best = Bias(g, h - h[self.reference], error)
                if error <= tolerance:
                    return best
                if not error < progress * before:
                    break
                before = error
                h = h + solve(left - g)
        return best

    @np.errstate(all="ignore")
    def distribution(self, guess: Floats, tolerance: float = SOLVED) -> Floats | None:
        """The stationary distribution (S,) from a guess; None where it is not found to SOLVED at least."""
        into, best, least = self.chain.T.tocsr(), guess, np.inf
        for solve, progress in self._methods(tolerance, transposed=True):
            mu, before = guess / guess.sum(), np.inf
            while True:
                left = into @ mu
                error = float(np.linalg.norm(left))
                if error < least:
                    best, least = mu, error
                if error <= tolerance or not error < progress * before:
                    break
                before = error
                mu = mu - solve(left)
            if least <= SOLVED:
                mu = np.maximum(best, 0.0)
                return np.asarray(mu / mu.sum())
        return None

    def _methods(self, tolerance: float, transposed: bool) -> Iterator[tuple[Solve, float]]:
        """Ways to solve M x = b, or x M = b, one after another until one is good enough, with their least progress."""
        if self._swept:
            cheap = self._factor_work <= MAX_WORK
            yield self._by_gmres(SWEPT_STEPS, tolerance, transposed), MORE_PROGRESS if cheap else PROGRESS
            self._swept = self._factor_work > MAX_FACTOR_WORK
        elif not transposed and self._factor is not None and not self._current and self.S > MAX_DENSE:
            # Stationary distributions have to be exact: of policies that are worth a factor of their own.
            yield self._by_gmres(REUSED_STEPS, tolerance, transposed), MORE_PROGRESS
        if not self._current and not self._swept:
            self._refactor()
        if self._factor is not None:
            yield self._factor.distribution if transposed else self._factor.bias, PROGRESS

    def _refactor(self) -> None:
        """Factor the chain, with a reference state that is visited often."""
        chain = self.chain
        leaving = Chain(chain.indptr.astype(np.int64), chain.indices.astype(np.int64), -chain.data)
        try:
            factor = BorderedFactor(chain, likely_state(leaving, self.reference))
            likely = int(factor.visits.argmax()) if self.S > 1 else 0
            if self.S > 1 and UNLIKELY * factor.visits[likely] > 1.0:
                factor = BorderedFactor(chain, int(factor.rest[likely]))
        except RuntimeError:  # singular: some states do not lead to the reference
            self._factor = None
            return
        self._factor, self._current, self.reference = factor, True, factor.r

    def _by_gmres(self, steps: int, tolerance: float, transposed: bool) -> Solve:
        """Some steps of GMRES with the factor at hand, or with a sweep if there is none."""
        matrix, factor = self.chain.T.tocsr() if transposed else self.chain, self._factor
        if factor is None:
            inverse: Solve = partial(gauss_seidel_sweep, matrix.indptr, matrix.indices, matrix.data)
        else:
            inverse = factor.distribution if transposed else factor.bias
        return partial(gmres, lambda x: matrix @ x + x.sum() / self.S, inverse, steps=steps, enough=0.5 * tolerance)


def gmres(apply: Solve, inverse: Solve, b: Floats, *, steps: int, enough: float) -> Floats:
    """An x for which b - apply(x) is small, by GMRES (Saad and Schultz) with an approximate inverse on the right.

    In vectors (S,) of some thousand numbers most of the time of scipy's is Python's; this one has three calls a step.

    Args:
        apply: the operator. inverse: an approximation of its inverse. b: the right-hand side (S,).
        steps: at most so many. enough: the Euclidean norm of what may be left.
    """
    size = float(np.linalg.norm(b))
    V, H = np.empty((steps + 1, len(b))), np.zeros((steps + 1, steps))
    V[0] = b / size
    for k in range(1, steps + 1):
        w = apply(inverse(V[k - 1]))
        for _ in range(2):  # twice is enough to be orthogonal to rounding
            shares = V[:k] @ w
            w -= shares @ V[:k]
            H[:k, k - 1] += shares
        norm = float(np.linalg.norm(w))
        H[k, k - 1] = norm
        done = k == steps or not norm > EPS * size
        if done or k % 4 == 0:  # a look at what is left costs as much as a step
            y, *_ = np.linalg.lstsq(H[: k + 1, :k], np.append(size, np.zeros(k)), rcond=None)
            left = np.linalg.norm(H[: k + 1, :k] @ y - np.append(size, np.zeros(k)))
            if done or left <= enough:
                break
        V[k] = w / norm
    return inverse(y @ V[:k])
