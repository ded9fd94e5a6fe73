"""Poisson's equation of sparse chains: gain and bias of a policy, and its stationary distribution.

For a chain P with one closed class and costs c, the gain g and the bias h solve c - g + P h - h = 0, and the stationary
distribution mu solves mu (I - P) = 0. The diagonal of I - P is the sum of the other entries of its row, so that the
ways out of a state that is hardly ever left keep their digits. Three methods, tried in the order of what they cost:

    GMRES                  where chains forget their start within some tens of steps, as in random graphs, in which
                           elimination would fill in everything
    GMRES after a factor   with the sparse factor of another policy of the model, not too different
    a sparse factor        SuperLU in the order of minimum degree, without pivoting: I - P less the row and column of a
                           reference state is an M-matrix

GMRES works on M = I - P + 1 u', u the uniform distribution: M x = b has g = u' x and a bias. Answers are judged by what
they leave of the equation, whatever the method: no average of the chain is further from g than that (`Bias.error`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import SuperLU, splu

from psconrl._core.checks import Floats, Ints
from psconrl.planning.compiled.elimination import Chain, likely_state
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.tolerances import EPS, EXACT_LAW

MAX_FACTORED_AT_ONCE = 400
"""Chains of up to so many states are factored at once: that takes less time than some steps of GMRES."""
PLAIN_STEPS, REUSED_STEPS = 60, 12
"""Most steps of GMRES, without a factor and with that of another policy: beyond them the next method is cheaper."""
MAX_REFINEMENTS = 4
CHECKED_EVERY = 4
"""Steps of GMRES from one look at what is left to the next: a look costs as much as a step."""
RARELY_VISITED = 100.0
"""A reference state is replaced by one that is visited this many times as often: from rare states all others look
alike, and numbers grow with the time until they are met."""

Solve = Callable[[Floats], Floats]


class Bias(NamedTuple):
    """The gain, the bias h (S,), and by how much the equation fails at most: the gain is off by no more."""

    gain: float
    values: Floats
    error: float


class Factor:
    """A sparse factor of a chain less its reference state r; `times` to r, `visits` on the way from it back to it."""

    def __init__(self, generator: sparse.csr_array, r: int) -> None:
        S = generator.shape[0]
        self.r, self.rest = r, np.append(np.arange(r), np.arange(r + 1, S))
        # By rows this matrix is stored as its transpose is by columns.
        inner = generator[self.rest][:, self.rest]
        transposed = sparse.csc_array((inner.data, inner.indices, inner.indptr), shape=(S - 1, S - 1))
        self._lu: SuperLU = splu(
            transposed, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True}
        )
        leaving = generator[[r]].toarray()[0]
        self._from_r = -leaving[self.rest]
        self.times = self._lu.solve(np.ones(S - 1), "T")
        self.visits = self._lu.solve(self._from_r)

    def bias(self, b: Floats) -> Floats:
        """The x with M x = b."""
        y, x = self._lu.solve(b[self.rest], "T"), np.zeros(len(b))
        g = (b[self.r] + self._from_r @ y) / (1.0 + self._from_r @ self.times)
        x[self.rest] = y - g * self.times
        return x + (g - x.mean())

    def distribution(self, b: Floats) -> Floats:
        """The x with x M = b."""
        total = b.sum()
        y, x = self._lu.solve(b[self.rest] - total / len(b)), np.empty(len(b))
        x[self.r] = (total - y.sum()) / (1.0 + self.visits.sum())
        x[self.rest] = y + x[self.r] * self.visits
        return x


def generator_of(rows: Rows) -> sparse.csr_array:
    """I - P (K, S) of all pairs of a model, the diagonal summed from the other entries."""
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
        self._factor: Factor | None = None
        self._plain, self._current = self.S > MAX_FACTORED_AT_ONCE, False

    def switch_policy(self, policy: Ints) -> None:
        """From now on solve for the chain of a policy (S,)."""
        self.chain, self._current = self.generator[policy], False

    def bias(self, c: Floats, guess: Floats, tolerance: float) -> Bias:
        """Gain and bias for costs c (S,) from a guess (S,) of the bias; the error says whether they were found."""
        best = Bias(np.nan, guess, np.inf)
        for solve in self._methods(tolerance, transposed=False):
            h, before = best.values, np.inf
            for _ in range(MAX_REFINEMENTS):
                left = c - self.chain @ h
                low, high = float(left.min()), float(left.max())
                g, error = (low + high) / 2, (high - low) / 2
                if error < best.error:
                    best = Bias(g, h - h[self.reference], error)
                if error <= tolerance:
                    return best
                if not error < 0.5 * before:
                    break
                before = error
                h = h + solve(left - g)
        return best

    def distribution(self, guess: Floats) -> Floats | None:
        """The stationary distribution (S,) from a guess; None where it is not found."""
        into = self.chain.T.tocsr()
        for solve in self._methods(EXACT_LAW, transposed=True):
            mu, before = guess / guess.sum(), np.inf
            for _ in range(MAX_REFINEMENTS):
                left = into @ mu
                error = float(np.linalg.norm(left))
                if error <= EXACT_LAW:
                    mu = np.maximum(mu, 0.0)
                    return np.asarray(mu / mu.sum())
                if not error < 0.5 * before:
                    break
                before = error
                mu = mu - solve(left)
        return None

    def _methods(self, tolerance: float, transposed: bool) -> Iterator[Solve]:
        """Ways to solve M x = b, or x M = b, one after another until one is good enough."""
        if self._plain:
            yield self._by_gmres(PLAIN_STEPS, tolerance, transposed)
            self._plain = False
        elif self._factor is not None and not self._current and self.S > MAX_FACTORED_AT_ONCE:
            yield self._by_gmres(REUSED_STEPS, tolerance, transposed)
        if not self._current:
            self._refactor()
        if self._factor is not None:
            yield self._factor.distribution if transposed else self._factor.bias

    def _refactor(self) -> None:
        """Factor the chain, with a reference state that is visited often."""
        chain = self.chain
        leaving = Chain(chain.indptr.astype(np.int64), chain.indices.astype(np.int64), -chain.data)
        try:
            factor = Factor(chain, likely_state(leaving, self.reference))
            likely = int(factor.visits.argmax()) if self.S > 1 else 0
            if self.S > 1 and factor.visits[likely] > RARELY_VISITED:
                factor = Factor(chain, int(factor.rest[likely]))
        except RuntimeError:  # singular: some states do not lead to the reference
            self._factor = None
            return
        self._factor, self._current, self.reference = factor, True, factor.r

    def _by_gmres(self, steps: int, tolerance: float, transposed: bool) -> Solve:
        matrix, factor = self.chain.T.tocsr() if transposed else self.chain, self._factor
        inverse: Solve = _same
        if factor is not None:
            inverse = factor.distribution if transposed else factor.bias
        return partial(gmres, lambda x: matrix @ x + x.sum() / self.S, inverse, steps=steps, enough=0.5 * tolerance)


def _same(x: Floats) -> Floats:
    return x


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
        if done or k % CHECKED_EVERY == 0:
            y, *_ = np.linalg.lstsq(H[: k + 1, :k], np.append(size, np.zeros(k)), rcond=None)
            left = np.linalg.norm(H[: k + 1, :k] @ y - np.append(size, np.zeros(k)))
            if done or left <= enough:
                break
        V[k] = w / norm
    return inverse(y @ V[:k])
