"""The Dirichlet posterior: moments, tiny parameters, priors in every form, and calibration inside PSConRL."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from psconrl import CMDP, InvalidModelError, Problem, agents
from psconrl._core.checks import Floats, Ints
from psconrl.agents import posterior
from psconrl.agents.counts import Counts
from psconrl.agents.posterior import Prior
from psconrl.learning import simulate
from psconrl.planning.compiled.rows import Rows
from tests.agents.drawing import dense, draw_array

PARAMETERS = (
    (0.01, 0.01, 0.01, 0.01),
    (0.001, 0.001, 0.001, 0.001),
    (0.5, 1.0, 2.0, 7.0),
    (0.01, 3.01, 40.01, 0.01),
    (0.3, 0.0, 0.3, 1.3),
    (1000.5, 200.5, 0.5, 0.5),
    (3.0, 4.0, 2.0, 7.0),  # prior 2 and counts 1, 2, 0, 5: a floor max(prior, N) would be another law
)


def rising(a: float, n: int) -> float:
    return math.prod(a + k for k in range(n))


def test_moments_are_those_of_the_dirichlet_law() -> None:
    """|z| < 5 for 7 x (4 means, 4 variances, 4 squares, 6 products): false alarms below 126 * 5.8e-7 = 8e-5."""
    n = 40_000
    counts = np.zeros((1, 7, 4), dtype=np.int64)
    counts[0, 3], counts[0, 5], counts[0, 6] = [0, 3, 40, 0], [1000, 200, 0, 0], [1, 2, 0, 5]
    alpha = np.array([PARAMETERS]) - counts
    x = draw_array(
        np.broadcast_to(alpha, (n, 7, 4)),
        np.broadcast_to(counts, (n, 7, 4)),
        np.random.default_rng(np.random.SeedSequence(1)),
    )
    for row, a in enumerate(PARAMETERS):
        total = sum(a)

        def moment(*powers: int, a: tuple[float, ...] = a, total: float = total) -> float:
            return math.prod(rising(a[i], k) for i, k in enumerate(powers)) / rising(total, sum(powers))

        for powers in [p for p in np.ndindex(3, 3, 3, 3) if sum(p) in (1, 2) and max(p) <= 2]:
            sample = (x[:, row] ** powers).prod(axis=1)
            mean, square = moment(*powers), moment(*(2 * p for p in powers))
            error = math.sqrt(max(square - mean**2, 0.0) / n)
            assert abs(sample.mean() - mean) <= 5 * error + 1e-15, (a, powers)
        for i, q in enumerate(a):
            m1, m2, m3, m4 = (moment(*(k * (j == i) for j in range(4))) for k in (1, 2, 3, 4))
            variance = q * (total - q) / (total**2 * (total + 1))
            fourth = m4 - 4 * m1 * m3 + 6 * m1**2 * m2 - 3 * m1**4
            error = math.sqrt(max(fourth - variance**2, 0.0) / n)
            assert abs(x[:, row, i].var() - variance) <= 5 * error + variance / n + 1e-15, (a, i)


@pytest.mark.parametrize("parameter", [1e-3, 1e-4, 1e-2])
def test_tiny_parameters_are_safe(parameter: float) -> None:
    rng = np.random.default_rng(np.random.SeedSequence(2))
    p = draw_array(np.full((3000, 4, 16), parameter), np.zeros((3000, 4, 16), dtype=np.int64), rng)
    assert np.isfinite(p).all()
    assert (p >= 0).all()
    np.testing.assert_allclose(p.sum(axis=2), 1.0, rtol=0, atol=1e-12)


def test_zero_prior_entries_are_never_drawn() -> None:
    rng = np.random.default_rng(np.random.SeedSequence(3))
    alpha = np.zeros((2, 2, 5))
    alpha[:, :, [1, 4]] = 0.001
    for _ in range(500):
        p = draw_array(alpha, np.zeros((2, 2, 5), dtype=np.int64), rng)
        assert (p[:, :, [0, 2, 3]] == 0).all()


def test_a_move_that_the_prior_excludes_but_the_data_show_is_drawn() -> None:
    counts = np.zeros((1, 1, 3), dtype=np.int64)
    counts[0, 0, 2] = 4
    p = draw_array(np.array([[[1.0, 0.0, 0.0]]]), counts, np.random.default_rng(np.random.SeedSequence(4)))
    assert p[0, 0, 2] > 0
    assert p[0, 0, 1] == 0


def as_array(prior: Prior, S: int, A: int) -> Floats:
    """The parameters (S, A, S) of a prior."""
    if len(prior.support) == 0:
        return np.repeat(prior.level.reshape(S, A, 1), S, axis=2)
    alpha = np.zeros((S * A, S))
    alpha[np.repeat(np.arange(S * A), np.diff(prior.support)), prior.allowed] = prior.own
    return alpha.reshape(S, A, S)


def test_priors_in_every_form() -> None:
    problem = Problem(3, 2)
    per_pair = np.arange(1.0, 7.0).reshape(3, 2)
    full = np.arange(18.0).reshape(3, 2, 3)
    mask = np.zeros((3, 2, 3), dtype=np.bool_)
    mask[:, :, 1] = True
    forms: list[tuple[Any, Floats]] = [
        (0.2, np.full((3, 2, 3), 0.2)),
        (per_pair, np.repeat(per_pair[:, :, None], 3, axis=2)),
        (full, full),
        (mask, np.where(mask, 0.01, 0.0)),
    ]
    for given, wanted in forms:
        np.testing.assert_array_equal(as_array(Prior.of(given, problem), 3, 2), wanted)
    np.testing.assert_array_equal(Prior.of(mask, problem).level, 0.01)
    assert np.isnan(Prior.of(full, problem).level).all()


@pytest.mark.parametrize("seed", range(200))
def test_a_draw_is_near_an_exact_one(seed: int) -> None:
    """The same random numbers, sticks broken to the end: at most S * 1e-9 apart in L1."""
    rng = np.random.default_rng(np.random.SeedSequence([6, seed]))
    S = int(rng.integers(2, 150))
    counts = np.zeros((1, S), dtype=np.int64)
    seen = rng.choice(S, size=rng.integers(0, min(S, 4)), replace=False)
    counts[0, seen] = rng.integers(1, 1000, size=len(seen))
    alpha = np.full((1, S), rng.choice([0.001, 0.01, 0.05, 0.1]))
    near, exact = (draw_array(alpha, counts, np.random.default_rng(seed), cut) for cut in (posterior.CUT, 0.0))
    assert np.abs(near - exact).sum() <= S * 1e-9
    assert abs(near.sum() - 1) < 1e-12


def test_broken_sticks_have_the_law_of_gammas() -> None:
    """The ordered weights of rows with 40 next states, two of them observed, against numpy's Dirichlet draws.

    Ten Kolmogorov-Smirnov tests at 1e-4 each: false alarms below 1e-3.
    """
    n, S = 20_000, 40
    rng = np.random.default_rng(np.random.SeedSequence(7))
    counts = np.zeros((n, S), dtype=np.int64)
    counts[:, [3, 11]] = [2, 1]
    for alpha in (0.01, 0.1):
        ours = draw_array(np.full((n, S), alpha), counts, rng, cut=0.0)
        theirs = rng.dirichlet(alpha + counts[0], size=n)
        others = np.delete(np.arange(S), [3, 11])
        pairs = [(ours[:, 3], theirs[:, 3]), (ours[:, 11], theirs[:, 11])]
        pairs += [(np.sort(ours[:, others])[:, -k], np.sort(theirs[:, others])[:, -k]) for k in (1, 2, 5)]
        for mine, other in pairs:
            assert stats.ks_2samp(mine, other).pvalue > 1e-4
        share = (ours[:, others] > 1e-6).mean(axis=0)  # every state is as likely as any other to get a stick
        mean = share.mean()
        assert (np.abs(share - mean) < 5 * math.sqrt(mean * (1 - mean) / n)).all()


@pytest.mark.parametrize(
    ("prior", "message"),
    [
        (np.ones((2, 2)), r"prior has shape \(2, 2\); it must be a number, \(S, A\) or \(S, A, S\)"),
        (-0.1, "prior has a negative or infinite parameter"),
        (np.inf, "prior has a negative or infinite parameter"),
        (np.nan, "prior has a negative or infinite parameter"),
        (0.0, r"prior\[0, 0\] allows no move at all"),
        ([[[1, 1, 1]] * 2, [[1, 1, 1], [0, 0, 0]], [[1, 1, 1]] * 2], r"prior\[1, 1\] allows no move at all"),
        ("0.01", "prior must be real numbers"),
    ],
)
@pytest.mark.parametrize("agent", [agents.PSConRL, agents.CMDPPSRL, agents.TSDE])
def test_bad_priors_are_refused_at_once(agent: type[agents.PSConRL], prior: Floats, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        agent(Problem(3, 2, [0.5]), prior=prior)


class EnoughError(Exception):
    """The run has come to the episode that is looked at."""


def counts_at_episode(agent: agents.PSConRL, cmdp: CMDP, k: int, seed: int, patch: pytest.MonkeyPatch) -> Ints:
    """N(s, a, s') at the start of episode k (a stopping time, so that Bayes' rule holds there)."""
    seen: list[Ints] = []

    def recording(prior: Prior, counts: Counts, rng: np.random.Generator) -> Rows:
        if len(seen) == k:
            raise EnoughError
        seen.append(counts.dense())
        return draw(prior, counts, rng)

    draw = posterior.draw
    try:
        with patch.context() as inside:
            inside.setattr(posterior, "draw", recording)
            simulate(agent, cmdp, 10_000, seed)
    except EnoughError:
        return seen[-1]
    raise AssertionError("the run was too short")


def test_the_posterior_is_calibrated_at_episode_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rank of the truth among 99 draws is uniform; given the data the rows are independent, so are their ranks.

    p > 1e-3 in a chi-square test with 10 bins: a false alarm in one of 1000 choices of the seed.
    """
    S, A, repetitions = 3, 2, 150
    root = np.random.SeedSequence(5)
    ranks: list[int] = []
    for seed, sequence in enumerate(root.spawn(repetitions)):
        rng = np.random.default_rng(sequence)
        truth = rng.dirichlet(np.ones(S), (S, A))
        cmdp = CMDP(truth, rng.random((2, S, A)), [0.6])
        agent = agents.PSConRL(cmdp.problem("known"), prior=1.0)
        counts = counts_at_episode(agent, cmdp, 14, seed, monkeypatch)
        prior, known = Prior.of(1.0, agent.problem), Counts.from_dense(counts)
        samples = np.array([dense(posterior.draw(prior, known, rng)) for _ in range(99)])
        entry = counts.argmax(axis=2)  # chosen by the data, which Bayes' rule allows; there a bias shows most
        lower = (samples < truth).sum(axis=0)
        ranks += np.take_along_axis(lower, entry[:, :, None], axis=2).ravel().tolist()
    observed = np.bincount(np.array(ranks) // 10, minlength=10)
    assert observed.sum() == repetitions * S * A
    assert stats.chisquare(observed).pvalue > 1e-3
