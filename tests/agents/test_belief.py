"""What counts say about a model, against sums over pairs and moves."""

from __future__ import annotations

import math

import numpy as np
import pytest

from psconrl.agents import belief as belief_module
from psconrl.agents.belief import Belief, CostBelief
from psconrl.agents.counts import Counts
from psconrl.agents.hierarchy import EPS, THETA


def counted(seed: int = 0) -> np.ndarray:
    """Counts (S, A, S): one state was never seen, one entered and never left, some pairs were not tried."""
    rng = np.random.default_rng(seed)
    S, A = 6, 3
    p = rng.dirichlet(np.full(4, 0.4), size=(4, A))
    counts = np.zeros((S, A, S), dtype=np.int64)
    for s in range(4):
        for a in range(A):
            counts[s, a, :4] = rng.multinomial(rng.integers(0, 12), p[s, a])
    counts[1, 2] = 0
    counts[2, 0, 4] = 3
    return counts


def base(counts: np.ndarray, s: int, a: int, K: int) -> np.ndarray:
    """b(. | s, a), by its definition."""
    support = np.zeros(counts.shape[2])
    for other in range(counts.shape[1]):
        if other != a:
            support += counts[s, other] > 0
    return support / support.sum() if support.sum() else np.full(len(support), 1 / K)


def belief_of(counts: np.ndarray, endless: bool = False) -> Belief:
    return Belief(Counts.from_dense(counts), np.ones(counts.shape[:2], dtype=np.bool_), 0, endless)


def test_who_was_seen_left_and_tried() -> None:
    counts = counted()
    belief = belief_of(counts)
    assert belief.left.tolist() == [True] * 4 + [False] * 2
    assert belief.seen.tolist() == [True] * 5 + [False]
    assert belief.K == 6  # five, and one for the sixth
    np.testing.assert_array_equal(belief.tried, counts.sum(axis=2) > 0)
    assert belief_of(counts[:5, :, :5]).K == 5
    assert belief_of(counts[:5, :, :5], endless=True).K == 6


def test_hyperparameters_are_weighed_by_the_likelihood_of_every_pair() -> None:
    counts = counted(1)
    belief = belief_of(counts)
    log = np.zeros((len(THETA), len(EPS)))
    for g, theta in enumerate(THETA):
        for e, eps in enumerate(EPS):
            for s, a in np.argwhere(counts.sum(axis=2) > 0):
                n, N = counts[s, a], counts[s, a].sum()
                alpha = theta * ((1 - eps) * base(counts, s, a, 6) + eps / 6)
                log[g, e] += math.lgamma(theta) - math.lgamma(N + theta)
                log[g, e] += sum(math.lgamma(n[j] + alpha[j]) - math.lgamma(alpha[j]) for j in range(6) if n[j])
    expected = np.exp(log - log.max())
    np.testing.assert_allclose(belief.weights, expected / expected.sum(), rtol=1e-9, atol=1e-12)


def test_the_mean_is_that_of_all_hyperparameters() -> None:
    counts = counted(2)
    belief = belief_of(counts)
    mean = belief.mean().toarray().reshape(6, 3, 6)
    for s in range(6):
        for a in range(3):
            n, N = counts[s, a], counts[s, a].sum()
            if N == 0:
                assert not mean[s, a].any()
                continue
            expected = np.zeros(6)
            for g, theta in enumerate(THETA):
                for e, eps in enumerate(EPS):
                    uniform = np.where(belief.left, 1 / 6, 0.0)
                    b = base(counts, s, a, 6)
                    shared = b if (counts[s].sum(axis=1) > 0).sum() > 1 else uniform
                    expected += belief.weights[g, e] * (n + theta * ((1 - eps) * shared + eps * uniform)) / (N + theta)
            np.testing.assert_allclose(mean[s, a], expected / expected.sum(), rtol=1e-7, atol=1e-8)


def test_draws_have_the_mean() -> None:
    """By six standard errors: a false alarm in a million for each of the numbers."""
    counts = counted(3)
    counts[:, :, 4:] = 0
    counts = counts[:4, :, :4]
    counts[1, 2, 0] = 1
    belief, draws = belief_of(counts), 1000
    found = np.zeros((draws, 4 * 3, 4))
    for k in range(draws):
        rows, states, pairs = belief.draw(np.random.default_rng([5, k]))
        assert states.tolist() == [0, 1, 2, 3]
        found[k, pairs] = rows.matrix().toarray()
    tried = (counts.sum(axis=2) > 0).ravel()
    mean, error = found.mean(axis=0), found.std(axis=0) / math.sqrt(draws)
    assert (np.abs(mean - belief.mean().toarray())[tried] <= 6 * error[tried] + 1e-6).all()


def test_costs_that_are_always_the_same_are_sure() -> None:
    N = np.full((4, 3), 20.0)
    sums = np.stack([np.where(np.arange(12).reshape(4, 3) % 2 == 0, N, 0.0), N * 0.5])
    belief = CostBelief(sums, N, None)
    drawn = np.array([belief.draw(np.random.default_rng(k)) for k in range(200)])
    np.testing.assert_allclose(drawn[:, 0].mean(axis=0), sums[0] / N, atol=2e-3)
    # One half each time may as well be a coin: what it is on average is not known better than that.
    assert 0.02 < drawn[:, 1].std(axis=0).mean() < 0.15
    np.testing.assert_array_equal(belief.mean(), sums / N)


def test_known_costs_are_known() -> None:
    known = np.random.default_rng(0).random((2, 4, 3))
    belief = CostBelief(np.zeros((2, 4, 3)), np.ones((4, 3)), known)
    assert belief.draw(np.random.default_rng(0)) is known
    assert belief.mean() is known


def test_the_prior_does_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for two pairs to be spread, those that were tried least are; all rows are distributions still."""
    counts = counted(3)
    whole = belief_of(counts).mean().toarray()
    monkeypatch.setattr(belief_module, "MOST_SPREAD", 2 * 4 + 3)
    few = belief_of(counts).mean().toarray()
    visits = counts.sum(axis=2).ravel()
    np.testing.assert_allclose(few.sum(axis=1), visits > 0, atol=1e-12)
    reached = (few > 0).sum(axis=1)
    spread = np.flatnonzero((few == whole).all(axis=1) & (visits > 0) & (reached >= 4))
    assert len(spread) >= 2
    assert few.astype(bool).sum() < whole.astype(bool).sum()
