"""The learned prior: its evidence against a plain twin, its draws against their law, calibration, and whole runs."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from scipy import special, stats

import psconrl
from psconrl import CMDP, InvalidModelError, Problem, agents, simulate
from psconrl._core.checks import Bools, Floats, Ints
from psconrl.agents import Memory, Plan, _hierarchy_kernels, _random_kernels, check_agent
from psconrl.agents.counts import Counts
from psconrl.agents.hierarchy import EPS, THETA
from psconrl.agents.posterior import CUT, PosteriorAgent
from psconrl.agents.sampled_model import SampledModel

POSTERIOR: list[type[PosteriorAgent]] = [agents.PSConRL, agents.CMDPPSRL, agents.TSDE]


def plain_scores(snapshots: Iterable[tuple[Ints, Bools]], theta: Floats, eps: Floats) -> Floats:
    """The twin of `score`, pair by pair, from the counts (S, A, S) and the states seen at each plan."""
    before: Ints | None = None
    known: Bools | None = None
    for counts, seen in snapshots:
        S, A, _ = counts.shape
        if before is None or known is None:
            before, known, total = np.zeros_like(counts), seen, np.zeros((S, A, len(theta), len(eps)))
        K = known.sum() + (not known.all())
        for s, a in np.ndindex(S, A):
            support = (before[s] > 0).sum(axis=0) - (before[s, a] > 0)
            b = support / support.sum() if support.sum() else np.full(S, 1 / K)
            for (g, t), (e, share) in pairs_of(theta, eps):
                parameters = t * ((1 - share) * b + share / K)
                old, new = before[s, a], counts[s, a]
                rising = special.gammaln(parameters + new) - special.gammaln(parameters + old)
                total[s, a, g, e] += rising[new > old].sum()
                total[s, a, g, e] -= special.gammaln(t + new.sum()) - special.gammaln(t + old.sum())
        before, known = counts, seen
    return total


def pairs_of(theta: Floats, eps: Floats) -> list[tuple[tuple[int, float], tuple[int, float]]]:
    return [(g, e) for g in enumerate(theta.tolist()) for e in enumerate(eps.tolist())]


def chains_of(counts: Ints) -> _hierarchy_kernels.Chains:
    return _hierarchy_kernels.Chains(*Counts.from_dense(counts).chains)


def tried_in(counts: Ints) -> Bools:
    return (counts.sum(axis=2) > 0).ravel()


class Recorder(agents.PSConRL):
    """PSConRL that writes down what it knew at each plan."""

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        plan = super().plan(memory, rng)
        LOG.append((memory.counts, plan.carry["seen"], plan.carry["evidence"], float(plan.carry["apart"][0])))
        return plan


LOG: list[tuple[Ints, Bools, Floats, float]] = []


@pytest.mark.parametrize("seed", range(3))
def test_the_evidence_is_that_of_the_plain_twin_after_every_plan(seed: int) -> None:
    """States 6 and 7 are never seen, and one row is nearly deterministic."""
    rng = np.random.default_rng(np.random.SeedSequence([31, seed]))
    p = np.zeros((8, 3, 8))
    p[:, :, :6] = rng.dirichlet(np.full(6, 0.3), (8, 3))
    cmdp = CMDP(p, rng.random((2, 8, 3)), [0.7])
    LOG.clear()
    simulate(Recorder(cmdp.problem(), prior="learned"), cmdp, 400, seed)
    assert len(LOG) > 20
    for k in (1, 5, len(LOG)):
        scores = plain_scores([(counts, seen) for counts, seen, *_ in LOG[:k]], THETA, EPS)
        np.testing.assert_allclose(LOG[k - 1][2], scores.sum(axis=(0, 1)), rtol=1e-9, atol=1e-9)
        each = special.logsumexp(scores[:, :, :, EPS == 1.0], axis=2) - math.log(len(THETA))
        assert LOG[k - 1][3] == pytest.approx(each.sum(), rel=1e-9, abs=1e-9)
    counts, seen, *_ = LOG[-1]
    assert (seen == (counts.sum(axis=(0, 1)) + counts.sum(axis=(1, 2)) > 0)).all()


def test_the_evidence_of_a_first_look_is_the_likelihood_of_the_symmetric_law() -> None:
    """With nothing known before, nothing is shared: Dirichlet-multinomial with alpha = theta / K for every eps."""
    rng = np.random.default_rng(np.random.SeedSequence(32))
    counts = rng.poisson(0.7, (5, 2, 5))
    evidence, seen = np.zeros((len(THETA), len(EPS))), np.ones(5, dtype=np.bool_)
    nothing = np.zeros(0, dtype=np.int64)
    _hierarchy_kernels.score(evidence, THETA, EPS, chains_of(counts), nothing, tried_in(counts), seen, 5)
    for g, theta in enumerate(THETA):
        alpha = theta / 5
        wanted = sum(
            special.gammaln(theta)
            - special.gammaln(theta + row.sum())
            + (special.gammaln(alpha + row) - special.gammaln(alpha)).sum()
            for row in counts.reshape(-1, 5)
        )
        np.testing.assert_allclose(evidence[g], wanted, rtol=1e-9)


def test_hyperparameters_are_drawn_with_the_weights_of_their_evidence() -> None:
    """A chi-square test at 1e-4: a false alarm in one of 10,000 choices of the seed."""
    evidence = np.log(np.array([[1.0, 2.0], [3.0, 4.0], [1e-300, 10.0]])) + 500.0
    apart = _hierarchy_kernels.Apart(np.array([1]), np.array([[5.0, 1.0, 2.0]]) / 8.0, 500.0 + math.log(10.0))
    theta, eps = np.array([1.0, 2.0, 3.0]), np.array([0.5, 0.1])
    stream = _random_kernels.seeded(np.random.default_rng(np.random.SeedSequence(33)))
    alike, own, n = np.zeros((3, 2)), np.zeros((3, 3)), 20_000
    for _ in range(n):
        thetas, shared = _hierarchy_kernels.hyperparameters(
            evidence, apart, theta, eps, np.array([-1, 0]), np.ones((1, 2), dtype=np.bool_), stream
        )
        g = np.searchsorted(theta, thetas)
        if shared == 1.0:
            own[g[0], g[1]] += 1
        else:
            assert g[0] == g[1]
            alike[g[0], np.flatnonzero(eps == shared)] += 1
    # Together 20 / 6 as likely as 10; pair 0 was not tried.
    wanted = n * np.concatenate([np.array([1, 2, 3, 4, 10]) / 6, np.outer(np.ones(3) / 3, [5, 1, 2]).ravel() / 0.8])
    assert alike[2, 0] == 0
    found = np.concatenate([np.delete(alike.ravel(), 4), own.ravel()])
    assert stats.chisquare(found, wanted / (20 / 6 + 10)).pvalue > 1e-4


@pytest.mark.parametrize("theta", [0.05, 0.9, 30.0])
@pytest.mark.parametrize("eps", [1.0, 0.3])
def test_rows_have_the_means_and_variances_of_their_law(theta: float, eps: float) -> None:
    """Sticks and one by one. |z| < 5 for 6 rows of 4 means and squares: false alarms below 6 * 48 * 5.8e-7 = 2e-4."""
    counts = np.zeros((4, 2, 4), dtype=np.int64)
    counts[0, 0], counts[0, 1], counts[1, 0] = [0, 3, 1, 0], [2, 0, 0, 0], [0, 0, 5, 0]
    states = np.array([-1, 0, 1, 2])  # state 3 was never seen
    stream = _random_kernels.seeded(np.random.default_rng(np.random.SeedSequence([34, int(10 * theta)])))
    n, K = 6_000, 4
    available, thetas = np.ones((4, 2), dtype=np.bool_), np.append(theta, np.full(7, theta))
    thetas[5] = 2.0 * theta
    draws = np.zeros((n, 7, K))
    for i in range(n):
        rows, pairs = _hierarchy_kernels.draw_rows(thetas, eps, chains_of(counts), states, available, stream, CUT)
        draws[i] = rows.matrix().toarray()
    assert pairs.tolist() == [-1, 0, 1, 2, 3, 4, 5]
    assert rows.begin.tolist() == [0, 1, 3, 5, 7]
    np.testing.assert_allclose(draws[:, 0], [[0, 1 / 3, 1 / 3, 1 / 3]] * n)
    np.testing.assert_allclose(draws.sum(axis=2), 1.0)
    place = {0: 1, 1: 2, 2: 3}
    for row, pair in enumerate(pairs[1:].tolist(), 1):
        s, a = divmod(pair, 2)
        base, number = np.full(K, 1 / K), np.zeros(K)
        other = counts[s, 1 - a] > 0
        if other.any():
            base = np.full(K, eps / K)
            for x in np.flatnonzero(other).tolist():
                base[place[x]] += (1 - eps) / other.sum()
        for x in np.flatnonzero(counts[s, a]).tolist():
            number[place[x]] = counts[s, a, x]
        alpha = thetas[pair] * base + number
        for k in range(K):
            law = stats.beta(alpha[k], alpha.sum() - alpha[k])
            for power in (1, 2):
                mean, square = law.moment(power), law.moment(2 * power)
                error = math.sqrt(max(square - mean**2, 0) / n)
                assert abs((draws[:, row, k] ** power).mean() - mean) <= 5 * error + 1e-9, (row, k, power)


def test_actions_that_a_state_has_not_are_not_drawn() -> None:
    counts = np.zeros((3, 2, 3), dtype=np.int64)
    counts[0, 1, 1] = counts[1, 0, 2] = 1
    available = np.array([[False, True], [True, True], [True, False]])
    stream = _random_kernels.seeded(np.random.default_rng(np.random.SeedSequence(35)))
    rows, pairs = _hierarchy_kernels.draw_rows(
        np.full(6, 0.5), 0.1, chains_of(counts), np.arange(3), available, stream, CUT
    )
    assert pairs.tolist() == [1, 2, 3, 4]
    assert rows.begin.tolist() == [0, 1, 3, 4]
    rows.checked()


@pytest.mark.parametrize("S", [3, 30])
def test_pairs_that_were_never_tried_lead_anywhere_if_they_look_free(S: int) -> None:
    """Small models: to every state alike. Large ones: to a few, each state as often as the other (chi-square)."""
    counts = np.zeros((S, 2, S), dtype=np.int64)
    counts[:, 0, 0] = counts[0, 0, 1:] = 1
    available, thetas = np.ones((S, 2), dtype=np.bool_), np.where(tried_in(counts), 0.1, 0.0)
    stream = _random_kernels.seeded(np.random.default_rng(np.random.SeedSequence([38, S])))
    found = np.zeros(S)
    for _ in range(200):
        rows, _ = _hierarchy_kernels.draw_rows(thetas, 0.1, chains_of(counts), np.arange(S), available, stream, CUT)
        rows.checked()
        unknown = rows.matrix().toarray()[1::2]
        if S <= _hierarchy_kernels.GUESSES:
            np.testing.assert_allclose(unknown, 1.0 / S)
        guesses = unknown * min(S, _hierarchy_kernels.GUESSES)
        np.testing.assert_allclose(guesses, guesses.round(), atol=1e-9)
        found += guesses.sum(axis=0)
    assert stats.chisquare(found).pvalue > 1e-4


@pytest.mark.parametrize("costs", ["estimated", "known"])
def test_half_of_the_plans_let_pairs_lead_anywhere_that_look_free(costs: Literal["estimated", "known"]) -> None:
    """With known costs nothing but the draw makes an agent try what it does not know."""
    cmdp = psconrl.make("marsrover-4x4")
    guessed: list[bool] = []

    class Watched(agents.PSConRL):
        def sample(self, memory: Memory, rng: np.random.Generator) -> SampledModel:
            model = super().sample(memory, rng)
            assert isinstance(model, SampledModel)
            unknown = (model.pairs >= 0) & (memory.visits.ravel()[model.pairs] == 0)
            if len(model.states) > _hierarchy_kernels.GUESSES and unknown.sum() > 2:
                row = np.repeat(unknown, np.diff(model.rows.indptr))
                guesses = model.rows.data[row] * _hierarchy_kernels.GUESSES
                guessed.append(len(guesses) > 2 * unknown.sum() and np.allclose(guesses, guesses.round()))
            return model

    for seed in range(4):
        simulate(Watched(cmdp.problem(costs), prior="learned"), cmdp, 100, seed=seed)
    assert len(guessed) > 100
    assert 0.35 < np.mean(guessed) < 0.65 if costs == "estimated" else not any(guessed)


def test_theta_is_calibrated() -> None:
    """Drawn from its prior, and data from it: its rank in the posterior is uniform.

    K = 6 states, all known, 12 pairs with a random number of steps each; p > 1e-3 in a chi-square test with 10 bins of
    the randomised rank: a false alarm in one of 1,000 choices of the seed.
    """
    rng = np.random.default_rng(np.random.SeedSequence(36))
    S, A, repetitions = 6, 2, 1_000
    one, seen, nothing = np.ones(1), np.ones(S, dtype=np.bool_), np.zeros(0, dtype=np.int64)
    ranks = np.zeros(repetitions)
    for i in range(repetitions):
        truth = rng.integers(len(THETA))
        gammas = np.log(rng.standard_gamma(1 + THETA[truth] / S, (S, A, S)))
        gammas += np.log(rng.random((S, A, S))) * (S / THETA[truth])
        p = special.softmax(gammas, axis=2)
        counts = np.array([rng.multinomial(rng.integers(1, 12), row) for row in p.reshape(-1, S)]).reshape(S, A, S)
        evidence = np.zeros((len(THETA), 1))
        _hierarchy_kernels.score(evidence, THETA, one, chains_of(counts), nothing, tried_in(counts), seen, S)
        posterior = special.softmax(evidence[:, 0])
        ranks[i] = posterior[:truth].sum() + rng.random() * posterior[truth]
    observed = np.bincount(np.minimum((ranks * 10).astype(int), 9), minlength=10)
    assert stats.chisquare(observed).pvalue > 1e-3


def test_whether_pairs_are_alike_is_calibrated() -> None:
    """Drawn with even odds, and data from it: the posterior probability that pairs are of their own kinds is right.

    In five bins of it the share of worlds in which they were; |z| < 4: a false alarm in 3,000 choices of the seed.
    """
    rng = np.random.default_rng(np.random.SeedSequence(37))
    S, A, repetitions = 3, 2, 2_000
    one, seen, nothing = np.ones(1), np.ones(S, dtype=np.bool_), np.zeros(0, dtype=np.int64)
    told, truth = np.zeros(repetitions), np.zeros(repetitions)
    for i in range(repetitions):
        truth[i] = rng.integers(2)
        theta = THETA[rng.integers(len(THETA), size=(S, A) if truth[i] else ())] * np.ones((S, A))
        alpha = np.repeat(theta[..., np.newaxis] / S, S, axis=2)
        p = special.softmax(np.log(rng.standard_gamma(1 + alpha)) + np.log(rng.random((S, A, S))) / alpha, axis=2)
        counts = np.array([rng.multinomial(rng.integers(0, 9), row) for row in p.reshape(-1, S)]).reshape(S, A, S)
        evidence, chains = np.zeros((len(THETA), 1)), chains_of(counts)
        _hierarchy_kernels.score(evidence, THETA, one, chains, nothing, tried_in(counts), seen, S)
        apart = _hierarchy_kernels.Apart(nothing, np.zeros((0, len(THETA))), 0.0)
        apart = _hierarchy_kernels.score_apart(apart, THETA, chains, nothing, tried_in(counts), S)
        told[i] = special.expit(apart.evidence - _hierarchy_kernels.log_mean(evidence))
    bins = np.minimum((told * 5).astype(int), 4)
    assert (np.bincount(bins, minlength=5) > 40).sum() >= 3
    for k in range(5):
        inside = bins == k
        spread = math.sqrt((told[inside] * (1 - told[inside])).sum())
        assert abs((truth - told)[inside].sum()) <= 4 * spread + 1e-9, k


def test_an_action_that_failed_once_is_tried_again() -> None:
    """State 0 can be left by one action alone, which fails with probability 0.7; the other one is dearer than to leave.

    One theta for all pairs would be told by the other action alone: ten of these 20 runs never left.
    """
    p = np.zeros((3, 2, 3))
    p[0, 0, 0], p[0, 1, [0, 1]], p[1:, :, 2] = 1.0, [0.7, 0.3], 1.0
    p[2, 1] = [1.0, 0.0, 0.0]
    cmdp = CMDP(p, [[[0.5, 0.7], [0.0, 0.0], [0.0, 0.0]]])
    left = [simulate(agents.recommended(cmdp.problem()), cmdp, 3_000, seed).counts[0, 1, 1] > 0 for seed in range(20)]
    assert sum(left) >= 18


@pytest.mark.parametrize("agent", POSTERIOR)
@pytest.mark.parametrize("m", [0, 1, 2])
def test_learned_agents_keep_the_contract(agent: type[PosteriorAgent], m: int) -> None:
    check_agent(agent(Problem(4, 2, [0.6] * m), prior="learned"), steps=60)


@pytest.mark.parametrize(("S", "A"), [(1, 1), (1, 3), (2, 1), (5, 1)])
def test_the_smallest_problems(S: int, A: int) -> None:
    check_agent(agents.PSConRL(Problem(S, A, [0.9]), prior="learned"), steps=30)


@pytest.mark.parametrize("infeasible", ["uniform", "explore"])
def test_infeasible_samples_keep_what_was_learned(infeasible: Any) -> None:
    """A limit that no policy meets: the evidence goes on from plan to plan nevertheless."""
    cmdp = psconrl.make("garnet", S=6, A=2, seed=3).replace(thresholds=[0.0])
    agent = agents.PSConRL(cmdp.problem(), prior="learned", infeasible=infeasible)
    run = simulate(agent, cmdp, 200, 0)
    assert not run.episodes["feasible"][len(run.episodes) // 2 :].any()
    assert len(run.state["learner"]["carry"]["counted"]) > 6
    check_agent(replace(agent, problem=cmdp.problem("known")))


@pytest.mark.parametrize("agent", POSTERIOR)
def test_words_other_than_learned_are_refused(agent: type[PosteriorAgent]) -> None:
    with pytest.raises(InvalidModelError, match=r"prior is 'lerned'; prior must be real numbers, or \"learned\""):
        agent(Problem(2, 2), prior="lerned")


def with_spare_states(cmdp: CMDP, spare: int) -> CMDP:
    """The model with states that never occur: from each a way leads back."""
    S, A = cmdp.S, cmdp.A
    p, c = np.zeros((S + spare, A, S + spare)), np.zeros((cmdp.m + 1, S + spare, A))
    p[:S, :, :S], p[S:, :, 0] = cmdp.to_dense().transitions, 1.0
    c[:, :S] = cmdp.costs
    return CMDP(p, c, cmdp.thresholds)


@pytest.mark.parametrize("agent", POSTERIOR)
def test_how_many_states_never_occur_does_not_matter(agent: type[PosteriorAgent]) -> None:
    """One or ten: all that were never seen are one, so the runs are the same."""
    cmdp = psconrl.make("marsrover-4x4", slip=0.1)
    few, many = (with_spare_states(cmdp, spare) for spare in (1, 10))
    one, ten = (simulate(agent(model.problem(), prior="learned"), model, 1_500, 4) for model in (few, many))
    np.testing.assert_array_equal(one.cumulative, ten.cumulative)
    np.testing.assert_array_equal(one.policy[0], ten.policy[0, :17])
    np.testing.assert_array_equal(ten.policy[0, 17:], 1 / cmdp.A)


def test_states_that_never_occur_do_not_matter() -> None:
    """Ten of them, or none: the 95% intervals of L = regret + lambda* violation overlap.

    Were both means the same, and normal, the intervals would be apart in 0.6% of all choices of the seeds.
    """
    cmdp = psconrl.make("marsrover-4x4")
    solution = psconrl.solve(cmdp)
    ends = []
    for model in (cmdp, with_spare_states(cmdp, 10)):
        agent = agents.PSConRL(model.problem(), prior="learned")
        runs = [simulate(agent, model, 1_500, seed, optimum=solution.value) for seed in range(12)]
        L = np.array([run.regret[-1] + solution.multipliers @ run.violation[:, -1] for run in runs])
        reach = stats.t(len(L) - 1).ppf(0.975) * L.std(ddof=1) / math.sqrt(len(L))
        ends.append((L.mean() - reach, L.mean() + reach))
    (low, high), (other_low, other_high) = ends
    assert low < other_high
    assert other_low < high


HOSTILE: dict[str, Any] = {
    "evidence": np.full((len(THETA), len(EPS)), np.nan),
    "counted": np.array([99, 99]),
    "tried": np.array([3, 3, 10**9, -1]),
    "weights": np.full((2, len(THETA)), np.nan),
    "apart": np.array([np.inf]),
    "seen": np.ones(1_000, dtype=np.bool_),
    "policies": np.full((2, 9), 77),
    "reference": np.array([10**9]),
    "bias": np.full(3, np.inf),
    "paths": np.array([-5]),
    "multipliers": np.full(1, -1.0),
}


@pytest.mark.parametrize("key", HOSTILE)
@pytest.mark.parametrize("how", ["value", "kind", "shape", "missing"])
def test_a_carry_that_does_not_fit_is_not_used(key: str, how: str) -> None:
    """Whatever a saved state says, plans stay sound."""
    cmdp = psconrl.make("marsrover-4x4")
    agent = agents.PSConRL(cmdp.problem(), prior="learned")
    state = simulate(agent, cmdp, 300, 1, stop=150).state
    carry, plan = state["learner"]["carry"], state["learner"]["plan"]
    for part in (carry, {} if plan is None else plan["carry"]):
        if how == "value" and key in part:
            part[key] = HOSTILE[key]
        elif how == "kind" and key in part:
            part[key] = part[key].astype(np.complex128)
        elif how == "shape" and key in part:
            part[key] = part[key].reshape(-1)[:1].reshape(1, 1, 1)
        else:
            part.pop(key, None)
    run = simulate(agent, cmdp, 300, 1, state=state)
    assert run.episodes["length"].sum() == 300
    assert np.isfinite(run.policy).all()


def test_what_is_random_and_what_is_shared_is_found_out() -> None:
    """After 3,000 steps: theta is small in a deterministic grid, and eps is small where the grid is slippery."""
    sure, slippery = (psconrl.make("marsrover-4x4", slip=slip) for slip in (0.0, 0.3))
    found = []
    for cmdp in (sure, slippery):
        run = simulate(agents.PSConRL(cmdp.problem(), prior="learned"), cmdp, 3_000, 0)
        weights = special.softmax(run.state["learner"]["carry"]["evidence"])
        found.append((THETA @ weights.sum(axis=1), EPS @ weights.sum(axis=0)))
    assert found[0][0] < 0.1 < found[1][0]
    assert found[1][1] < 0.5 < found[0][1]


@pytest.mark.parametrize("agent", POSTERIOR)
def test_states_that_are_discovered(agent: type[PosteriorAgent]) -> None:
    """The number of states is not known: a run that is cut and continued is the same, and the goal is found."""
    cmdp = psconrl.make("marsrover-4x4")
    learner = agent(Problem(None, cmdp.A, cmdp.thresholds), prior="learned")
    whole = simulate(learner, cmdp, 1_000, 2)
    half = simulate(learner, cmdp, 1_000, 2, stop=437)
    again = simulate(learner, cmdp, 1_000, 2, state=half.state)
    np.testing.assert_array_equal(whole.cumulative, again.cumulative)
    assert whole.cumulative[0, -1] < 0.9 * 1_000  # the uniform policy has 0.975 per step
