"""What PSConRL does when its sample is infeasible, and the counterexample to CMDP-PSRL."""

import numpy as np
import pytest

from psconrl import CMDP, Problem, agents, make
from psconrl._core.checks import Floats
from psconrl.agents import posterior
from psconrl.agents.counts import Counts
from psconrl.agents.planning import to_least_visited
from psconrl.agents.posterior import Prior
from psconrl.learning import simulate
from psconrl.planning.compiled.rows import Rows
from tests.agents.drawing import dense
from tests.learning.walk import Recording

FEASIBLE = 1 / 0.5275 - 1
"""The least theta at which the toy is feasible, 0.895735."""

TOY_PRIOR = (((1.0, 0.0), (1.0, 1.0)), ((1.0, 0.0), (1.0, 0.0)))
"""Only the probability of going right is unknown."""


def record_draws(patch: pytest.MonkeyPatch) -> list[Floats]:
    """Every model that an agent draws from now on."""
    drawn: list[Floats] = []
    draw = posterior.draw

    def recording(prior: Prior, counts: Counts, rng: np.random.Generator) -> Rows:
        p = draw(prior, counts, rng)
        drawn.append(dense(p))
        return p

    patch.setattr(posterior, "draw", recording)
    return drawn


@pytest.mark.parametrize("seed", range(3))
def test_uniform_exactly_when_the_sample_is_infeasible(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    toy = make("toy")
    drawn = record_draws(monkeypatch)
    agent = Recording(agents.PSConRL(toy.problem("known"), prior=TOY_PRIOR))
    run = simulate(agent, toy, 600, seed)
    assert len(drawn) == len(run.episodes)
    theta = np.array([p[0, 1, 1] for p in drawn])
    clear = np.abs(theta - FEASIBLE) > 1e-9
    feasible = theta >= FEASIBLE
    np.testing.assert_array_equal(run.episodes["feasible"][clear], feasible[clear])
    assert 0 < feasible.sum() < len(feasible)
    for (_, plan), is_feasible in zip(agent.plans, run.episodes["feasible"], strict=True):
        uniform = np.array_equal(plan.policy, np.full((1, 2, 2), 0.5))
        assert uniform == (not is_feasible)
        assert plan.phase == ("exploit" if is_feasible else "explore")
        assert np.isnan(plan.value) == (not is_feasible)
        if is_feasible:
            assert plan.value == pytest.approx(1 - 0.5275, abs=1e-7)


def test_cmdp_psrl_drops_the_constraints_when_the_sample_is_infeasible(monkeypatch: pytest.MonkeyPatch) -> None:
    toy = make("toy")
    drawn = record_draws(monkeypatch)
    agent = Recording(agents.CMDPPSRL(toy.problem("known"), prior=TOY_PRIOR))
    run = simulate(agent, toy, 600, 0)
    assert len(drawn) == len(run.episodes) - 1  # the first epoch is uniform
    np.testing.assert_array_equal(run.episodes["feasible"][1:], [p[0, 1, 1] >= FEASIBLE for p in drawn])
    for _, plan in agent.plans[1:]:
        if not plan.feasible:
            assert plan.policy[0, 0].tolist() == [1.0, 0.0]  # stay in state 0, where the main cost is 0
            assert plan.value == pytest.approx(0.0, abs=1e-9)


def hitting_times(p: Floats, target: int) -> Floats:
    """The least expected times into a state, by value iteration."""
    V: Floats = np.zeros(len(p))
    for _ in range(20_000):
        following = (1 + p @ V).min(axis=1)
        following[target] = 0.0
        if np.abs(following - V).max() < 1e-12:
            break
        V = following
    return V


def test_explore_takes_the_fastest_way_to_the_least_visited_state(monkeypatch: pytest.MonkeyPatch) -> None:
    """A limit of zero on positive costs: every sample is infeasible."""
    rng = np.random.default_rng(np.random.SeedSequence(7))
    S, A = 5, 3
    cmdp = CMDP(rng.dirichlet(np.full(S, 0.3), (S, A)), rng.uniform(0.1, 1.0, (2, S, A)), [0.0])
    drawn = record_draws(monkeypatch)
    agent = Recording(agents.PSConRL(cmdp.problem("known"), prior=0.5, infeasible="explore"))
    run = simulate(agent, cmdp, 300, 0)
    assert not run.episodes["feasible"].any()
    assert (run.episodes["phase"] == "explore").all()
    for (memory, plan), p in zip(agent.plans, drawn, strict=True):
        policy = plan.policy[0]
        assert plan.policy.shape == (1, S, A)
        assert set(policy.ravel()) <= {0.0, 1.0}
        target = int(np.argmin(memory.visits.sum(axis=1)))
        assert policy[target].argmax() == memory.visits[target].argmin()
        V = hitting_times(p, target)
        taken = 1 + np.einsum("sa,sax,x->s", policy, p, V)
        taken[target] = 0.0
        np.testing.assert_allclose(taken, V, rtol=1e-7, atol=1e-7)
    # It pays: after 300 steps no pair is untried.
    assert (run.counts.sum(axis=2) > 0).all()


def test_explore_is_uniform_where_there_is_no_way() -> None:
    p = np.zeros((3, 2, 3))
    p[0, :, 0] = 1.0  # state 0 is a trap
    p[1, 0, 2], p[1, 1, 0] = 1.0, 1.0
    p[2, :, 1] = 1.0
    visits = np.array([[5, 5], [3, 4], [1, 0]])
    policy, connected = to_least_visited(Rows.from_dense(p), visits)
    assert not connected
    np.testing.assert_array_equal(policy, [[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]])


def test_bad_infeasible_option() -> None:
    with pytest.raises(ValueError, match="infeasible is 'safe'"):
        agents.PSConRL(Problem(2, 2, [0.5]), infeasible="safe")  # type: ignore[arg-type]


def counterexample(seeds: int, least_ratio: float) -> None:
    """Mean auxiliary cost, and how often action 1 is tried in state 0, over T = 1,500 steps.

    Measured over seeds 0..599: CMDP-PSRL spends 0.954, PSConRL 0.610 ("explore", 200 seeds: 0.530). By resampling
    those runs, the mean of 40 (200) seeds breaks the bound 0.9 with probability 0.002 (below 1e-4), and 0.56 and 0.64
    below 1e-4.

    Tries of CMDP-PSRL have a heavy tail: half of its runs try at most 3 times, but one in eleven does not get stuck
    and tries more than 300 times. So the medians differ by a factor of 217, the means only by 8.5 (95% interval 7.1 to
    10.5): a factor of 10 between means, as a first run of 60 seeds showed (12.0), is luck of those seeds and is not
    asserted. `least_ratio` is broken with probability 1e-4.
    """
    toy, T = make("toy"), 1500
    problem = toy.problem("known")
    makers = {
        "CMDP-PSRL": agents.CMDPPSRL(problem, prior=TOY_PRIOR),
        "uniform": agents.PSConRL(problem, prior=TOY_PRIOR),
        "explore": agents.PSConRL(problem, prior=TOY_PRIOR, infeasible="explore"),
    }
    spent, tries = {}, {}
    for name, agent in makers.items():
        runs = [simulate(agent, toy, T, seed, checkpoints=1) for seed in range(seeds)]
        spent[name] = float(np.mean([run.cumulative[1, -1] / T for run in runs]))
        tries[name] = np.array([run.counts[0, 1].sum() for run in runs])
    assert spent["CMDP-PSRL"] >= 0.9
    assert 0.56 <= spent["uniform"] <= 0.64
    assert spent["explore"] <= 0.54
    for name in ("uniform", "explore"):
        assert np.median(tries[name]) >= 10 * np.median(tries["CMDP-PSRL"])
        assert tries[name].mean() >= least_ratio * tries["CMDP-PSRL"].mean()


def test_counterexample() -> None:
    counterexample(40, least_ratio=3.1)


@pytest.mark.long
def test_counterexample_many_seeds() -> None:
    counterexample(200, least_ratio=4.9)
