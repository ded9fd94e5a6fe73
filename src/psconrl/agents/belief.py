"""What counts say about a model, all at once: the posterior under the hierarchical prior of `hierarchy`.

Whoever collected the data, the law of the next state of a pair is Dirichlet with the parameters

    n_j + theta [(1 - eps) b(j | s, a) + eps / K].

Here, where all counts are there at once, theta and eps are weighed by how likely they make each pair's counts given the
supports of the other actions of its state,

    log p = lgamma(theta) - lgamma(N + theta) + sum_j [lgamma(n_j + theta beta_j) - lgamma(theta beta_j)],

beta the square bracket above: a pseudo-likelihood, as each pair serves the others. All pairs are taken to be alike, the
first of the two cases of `hierarchy`.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from psconrl._core.checks import Bools, Floats, Ints
from psconrl.agents import _hierarchy_kernels as kernels
from psconrl.agents import _random_kernels as random_kernels
from psconrl.agents.counts import Counts
from psconrl.agents.hierarchy import EPS, THETA
from psconrl.agents.posterior import CUT
from psconrl.planning.compiled.rows import Rows

MOST_SPREAD = 2 * 10**6
"""Entries of a mean model that the prior alone may add: among thousands of states it would fill the memory."""


class CostBelief:
    """The posterior of mean costs (m + 1, S, A) in [0, 1], from sums and visits N (S, A); known ones are sure."""

    def __init__(self, sums: Floats, N: Floats, known: Floats | None) -> None:
        self.sums, self.N, self.known = sums, N, known
        tried = N > 0
        means = sums[:, tried] / N[tried]
        self.q: Floats = (means.sum(axis=1) + 0.5) / (tried.sum() + 1)
        hits = np.clip(sums[:, tried], 0.0, N[tried])
        of_cost = ([self._likelihood(hits[i], N[tried], q, theta) for theta in THETA] for i, q in enumerate(self.q))
        self.weights: Floats = np.array([_normalised(np.array(log)) for log in of_cost])

    @staticmethod
    def _likelihood(hits: Floats, N: Floats, q: float, theta: float) -> float:
        from scipy.special import betaln

        a, b = theta * q, theta * (1 - q)
        return float((betaln(hits + a, N - hits + b) - betaln(a, b)).sum())

    def mean(self) -> Floats:
        """Empirical means, 0 where nothing was tried; or the known costs."""
        return self.sums / np.maximum(self.N, 1) if self.known is None else self.known

    def draw(self, rng: np.random.Generator) -> Floats:
        """Mean costs (m + 1, S, A) from the posterior."""
        if self.known is not None:
            return self.known
        theta = np.array([rng.choice(THETA, p=weights) for weights in self.weights])
        a, b = (part[:, np.newaxis, np.newaxis] for part in (theta * self.q, theta * (1 - self.q)))
        return rng.beta(self.sums + a, np.maximum(self.N - self.sums, 0.0) + b)


def _normalised(log: Floats) -> Floats:
    """Probabilities from their logarithms, up to a factor."""
    weights = np.exp(log - log.max())
    return np.asarray(weights / weights.sum())


class Belief:
    """The posterior of a model with S states and A actions.

    Attributes:
        tried: (S, A), the pairs that were. left: (S,), the states in which something was tried. seen: (S,), those left,
            entered, or in which the learner is now.
        weights: (theta, eps), the posterior of the hyperparameters on their grids.
        K: how many states are thought possible.
    """

    def __init__(self, counts: Counts, available: Bools, state: int, endless: bool) -> None:
        S, A = available.shape
        self.counts, self.available = counts, available
        self.moves = counts.sparse().astype(np.float64)
        self.N: Floats = np.asarray(self.moves.sum(axis=1)).ravel()
        self.tried: Bools = (self.N > 0).reshape(S, A)
        self.left: Bools = np.asarray(self.tried.any(axis=1))
        self.seen: Bools = self.left.copy()
        self.seen[counts.visited()] = True
        self.seen[state] = True
        self.K = int(self.seen.sum()) + (endless or not self.seen.all())
        self.support, self.shared = self._supports()
        self.weights = self._weights()

    def _supports(self) -> tuple[sparse.csr_array, Bools]:
        """b (S * A, S) of the pairs that were tried, and where some other action of the state was."""
        S, A = self.tried.shape
        own = sparse.csr_array((np.ones(self.moves.nnz), self.moves.indices, self.moves.indptr), shape=self.moves.shape)
        state = np.repeat(np.arange(S), A)
        of_state = sparse.csr_array((np.ones(S * A), (state, np.arange(S * A))), shape=(S, S * A))
        others = sparse.csr_array(of_state.T @ (of_state @ own) - own)
        others.eliminate_zeros()
        total = np.asarray(others.sum(axis=1)).ravel()
        shared = (total > 0) & (self.N > 0)
        scale = np.divide(1.0, total, out=np.zeros(S * A), where=shared)
        return sparse.csr_array(sparse.diags_array(scale) @ others), shared

    def _weights(self) -> Floats:
        from scipy.special import gammaln

        moves = self.moves.tocoo()
        row, n = moves.coords[0], moves.data
        b = np.where(self.shared[row], np.asarray(self.support[moves.coords]).ravel(), 1.0 / self.K)
        N = self.N[self.N > 0]
        log = np.empty((len(THETA), len(EPS)))
        for g, theta in enumerate(THETA):
            of_rows = float((gammaln(theta) - gammaln(N + theta)).sum())
            for e, eps in enumerate(EPS):
                parameter = theta * ((1 - eps) * b + eps / self.K)
                log[g, e] = of_rows + float((gammaln(n + parameter) - gammaln(parameter)).sum())
        return _normalised(log)

    def mean(self) -> sparse.csr_array:
        """The posterior mean (S * A, S) of the pairs that were tried, among the states seen; other rows are empty.

        What it leaves to states never seen, or seen and never left, without a move there, is shared out to the others.
        So is what it spreads over all states, except for the pairs with the most of that, if this is too much to hold.
        """
        S, A = self.tried.shape
        pull = THETA[:, np.newaxis] / (self.N + THETA[:, np.newaxis])
        of_counts = np.where(self.N > 0, self.weights.sum(axis=1) @ (1.0 / (self.N + THETA[:, np.newaxis])), 0.0)
        of_support = np.where(self.shared, (self.weights @ (1 - EPS)) @ pull, 0.0)
        of_all = np.where(
            self.N > 0, np.where(self.shared, (self.weights @ EPS) @ pull, self.weights.sum(axis=1) @ pull), 0.0
        )
        found = sparse.diags_array(of_counts) @ self.moves + sparse.diags_array(of_support) @ self.support
        spread = np.where(of_all / self.K >= CUT, of_all / self.K, 0.0)
        everywhere = np.flatnonzero(self.left)
        spread[np.argsort(-spread, kind="stable")[MOST_SPREAD // max(len(everywhere), 1) :]] = 0.0
        rows = np.flatnonzero(spread)
        uniform = sparse.csr_array(
            (
                np.repeat(spread[rows], len(everywhere)),
                np.tile(everywhere, len(rows)),
                np.concatenate([[0], np.cumsum(np.where(spread > 0, len(everywhere), 0))]),
            ),
            shape=(S * A, S),
        )
        mean = sparse.csr_array(found + uniform)
        total = np.asarray(mean.sum(axis=1)).ravel()
        return sparse.csr_array(sparse.diags_array(np.divide(1.0, total, out=np.zeros(S * A), where=total > 0)) @ mean)

    def draw(self, rng: np.random.Generator) -> tuple[Rows, Ints, Ints]:
        """A model of the states seen, and one that stands for all others if there may be some.

        Also the numbers of its states, -1 for all others, and of its pairs, s * A + a, -1 for those of the others.
        """
        cumulative = np.cumsum(self.weights.ravel())
        u = cumulative[-1] * rng.random()
        g, e = divmod(int(np.searchsorted(cumulative, u, "right")), len(EPS))
        seen = np.flatnonzero(self.seen)
        states = np.append(-1, seen) if len(seen) < self.K else seen
        stream = random_kernels.seeded(rng)
        random_kernels.mix(stream)
        rows, pairs = kernels.draw_rows(
            np.full(self.tried.size, THETA[g]),
            float(EPS[e]),
            kernels.Chains(*self.counts.chains),
            states,
            self.available,
            stream,
            CUT,
        )
        return rows, states, pairs
