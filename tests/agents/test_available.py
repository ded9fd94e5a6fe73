"""Actions that differ by state: no agent plans or takes one that is not available."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from psconrl import CMDP, InvalidModelError, Problem, agents, simulate
from psconrl._core.pairs import Pairs
from psconrl.agents import catalogue, check_agent, warm_start
from psconrl.agents.contract import Agent, Memory, Plan
from psconrl.agents.counts import Counts
from psconrl.agents.planning import empirical_transitions, to_least_visited
from psconrl.agents.posterior import Prior, draw
from psconrl.errors import AgentError
from psconrl.planning.compiled.rows import Rows

RNG = np.random.default_rng(15)
S, A = 5, 4
MASK = (RNG.random((S, A)) < 0.4) | (np.arange(A) == RNG.integers(A, size=(S, 1)))
MODEL = CMDP(RNG.dirichlet(np.full(S, 0.4), (S, A)), RNG.random((2, S, A)), [0.45], available=MASK)


def made(name: str, problem: Problem, **settings: Any) -> Agent:
    kind = catalogue.find(name)
    return kind(problem, **settings, **({"model": MODEL} if kind.sees_model else {}))


@pytest.mark.parametrize("tau", [0.45, 0.01])  # one that can be met, and one that cannot
@pytest.mark.parametrize("name", list(catalogue.registry()))
def test_every_agent_takes_what_is_available(name: str, tau: float) -> None:
    model = MODEL.replace(thresholds=[tau])
    run = simulate(made(name, model.problem()), model, 600, 0)
    assert not np.asarray(run.counts)[~MASK].any()
    assert not any(snapshot.policy[:, ~MASK].any() for snapshot in run.snapshots)
    if not catalogue.find(name).sees_model:
        check_agent(made(name, model.problem()), steps=60)


@pytest.mark.parametrize("name", ["PSConRL", "ConRL", "C-UCRL", "UCRL-CMDP", "CMDP-PSRL", "Optimal"])
def test_steered_agents_take_what_is_available(name: str) -> None:
    agent = made(name, MODEL.problem(), execution="steered", margin=0.01)
    run = simulate(agent, MODEL, 600, 0)
    assert not np.asarray(run.counts)[~MASK].any()
    assert not any(snapshot.policy[:, ~MASK].any() for snapshot in run.snapshots)
    check_agent(agent, steps=60)


@pytest.mark.parametrize("name", ["PSConRL", "ConRL", "UCRL-CMDP", "FHA"])
def test_one_action_everywhere_is_no_choice(name: str) -> None:
    only = np.arange(A) == MASK.argmax(axis=1)[:, np.newaxis]
    model = MODEL.replace(available=only)
    run = simulate(made(name, model.problem()), model, 300, 0)
    np.testing.assert_array_equal(run.policy[0], only)


@pytest.mark.parametrize("name", ["PSConRL", "CMDP-PSRL", "TSDE"])
def test_learned_priors_are_of_what_is_available(name: str) -> None:
    agent = made(name, MODEL.problem(), prior="learned")
    run = simulate(agent, MODEL, 600, 0)
    assert not np.asarray(run.counts)[~MASK].any()
    assert not any(snapshot.policy[:, ~MASK].any() for snapshot in run.snapshots)
    check_agent(agent, steps=60)


@pytest.mark.parametrize("prior", [0.01, "learned"])
def test_exploring_takes_what_is_available(prior: Any) -> None:
    model = MODEL.replace(thresholds=[0.01])
    agent = agents.PSConRL(model.problem(), prior=prior, infeasible="explore")
    run = simulate(agent, model, 600, 0)
    assert not run.episodes["feasible"].all()
    assert not np.asarray(run.counts)[~MASK].any()
    assert np.asarray(run.counts).sum(axis=2)[MASK].min() > 0


def test_a_posterior_has_the_rows_that_are_available() -> None:
    """The rows of a draw are those of a prior and counts for these pairs alone."""
    counts = Counts.from_dense(np.random.default_rng(0).integers(0, 4, (S, A, S)))
    for given in (0.3, np.full((S, A), 0.01), np.where(np.eye(S)[:, np.newaxis], 2.0, 0.5) * np.ones((S, A, S))):
        prior = Prior.of(given, MODEL.problem())
        rows = draw(prior, counts, np.random.default_rng(1))
        assert MASK.sum() == rows.K
        assert rows.checked().begin.tolist() == [0, *np.cumsum(MASK.sum(axis=1)).tolist()]
        seen = counts.dense()[MASK] > 0
        assert (rows.matrix().toarray()[seen] > 0).all()


def test_a_prior_may_say_nothing_of_what_is_not_available() -> None:
    prior = np.where(MASK[:, :, np.newaxis], 0.5, 0.0) * np.ones(S)
    assert Prior.of(prior, MODEL.problem()).level.tolist() == [0.5] * MASK.sum()
    with pytest.raises(InvalidModelError, match="allows no move at all"):
        agents.PSConRL(Problem(S, A, [0.5]), prior=prior)
    s, a = np.argwhere(MASK)[-1]
    prior[s, a] = 0.0
    with pytest.raises(InvalidModelError, match=rf"prior\[{s}, {a}\] allows no move"):
        agents.PSConRL(MODEL.problem(), prior=prior)


def test_pairs_never_visited_are_those_that_are_available() -> None:
    visits = np.zeros((S, A), dtype=np.int64)
    counts = Counts.from_dense(np.zeros((S, A, S), dtype=np.int64))
    memory = Memory(0, 100, 2, 0, 1, counts, visits, np.zeros((2, S, A)), {}, MODEL.pairs)
    rows = empirical_transitions(memory)
    assert (rows.K, rows.indices.tolist()) == (MASK.sum(), [2] * MASK.sum())


def test_the_least_tried_action_is_one_that_is_available() -> None:
    visits = np.where(MASK, 5, 0)
    visits[3] = np.where(MASK[3], 1, 0)
    rows = Rows.from_dense(np.full((S, A, S), 1 / S))
    policy, connected = to_least_visited(rows, visits, MODEL.pairs)
    assert connected
    assert policy[3].argmax() == MASK[3].argmax()
    assert not policy[~MASK].any()


class Careless(Agent):
    """Takes any action."""

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        return Plan(np.full((1, S, A), 1 / A))


def test_a_plan_with_another_action_is_refused() -> None:
    with pytest.raises(AgentError, match="takes an action where it is not available"):
        check_agent(Careless(MODEL.problem()))
    s, a = np.argwhere(~MASK)[0]
    with pytest.raises(ValueError, match=f"Plan.policy is wrong: action '{a}' is not available in state '{s}'"):
        simulate(Careless(MODEL.problem()), MODEL, 10, 0)


def test_what_an_earlier_plan_left_must_fit() -> None:
    """Kernels read it without looking: what belongs to other actions, or is damaged, is left out."""
    pairs = Pairs(np.array([[True, False, True], [False, True, False]]))
    fine = np.array([[[[1, 0]], [[1, 0]]]])
    np.testing.assert_array_equal(warm_start.columns({"columns": fine}, 1, pairs), fine)
    for wrong in ([[[[2, 0]], [[1, 0]]]], [[[[1, 1]], [[1, 0]]]], [[[[1, 0]], [[1, 1]]]], [[[[-1, 0]], [[0, 1]]]]):
        assert warm_start.columns({"columns": np.array(wrong)}, 1, pairs) is None
    for way, sound in (([1, 2], True), ([-1, 2], True), ([2, 2], False), ([0, 1], False), ([-2, 2], False)):
        assert (warm_start.paths({"paths": np.array(way)}, pairs) is not None) == sound
