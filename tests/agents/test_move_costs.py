"""Costs that go with the sampled moves: against a plain twin, and what they are for."""

from __future__ import annotations

import numpy as np
import pytest

from psconrl import CMDP, Learner, agents, make, simulate
from psconrl._core.checks import Floats, Ints
from psconrl.agents import Memory, Plan
from psconrl.agents.hierarchy import sample
from psconrl.agents.move_costs import sampled_costs
from psconrl.agents.posterior import CUT
from psconrl.agents.sampled_model import SampledModel
from psconrl.errors import InvalidArgumentError

FOUND: list[tuple[Floats, Floats]] = []


def plain_costs(model: SampledModel, counts: Ints, spent: Floats, untried: Floats) -> Floats:
    """The twin of `charge`: counts (S, A, S), sums of costs (n, S, A, S), costs of pairs that were never tried."""
    n, _, A, _ = spent.shape
    by_pair, by_others = np.zeros(n), np.zeros(n)
    for s, a, x in np.argwhere(counts > 0):
        k, N, moves = counts[s, a, x], counts[s, a].sum(), counts[s, :, x].sum()
        if k < N and k < moves:
            c = spent[:, s, a, x]
            by_pair += (c / k - (spent[:, s, a].sum(axis=1) - c) / (N - k)) ** 2
            by_others += (c / k - (spent[:, s, :, x].sum(axis=1) - c) / (moves - k)) ** 2
    total = by_pair + by_others
    w = np.divide(by_pair, total, out=np.zeros(n), where=total > 0)
    costs, matrix = untried.copy(), model.rows.matrix().toarray()
    for row, pair in enumerate(model.pairs.tolist()):
        s, a = divmod(pair, A)
        if pair < 0 or not counts[s, a].any():
            continue
        mean = spent[:, s, a].sum(axis=1) / counts[s, a].sum()
        costs[:, s, a] = 0.0
        for column, x in enumerate(model.states.tolist()):
            c = mean
            if x >= 0 and counts[s, a, x]:
                c = spent[:, s, a, x] / counts[s, a, x]
            elif x >= 0 and counts[s, :, x].any():
                c = (1 - w) * mean + w * spent[:, s, :, x].sum(axis=1) / counts[s, :, x].sum()
            costs[:, s, a] += matrix[row, column] * c
    return costs


class Witness(agents.PSConRL):
    """PSConRL that compares the costs it is about to plan with with the twin's."""

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        if memory.t:
            model = sample(self.problem, memory, np.random.default_rng(memory.t), CUT)
            head, link, target, _ = memory.observed.chains
            spent = np.zeros((self.problem.m + 1, *memory.counts.shape))
            for row, first in enumerate(head.tolist()):
                entry = first
                while entry >= 0:
                    spent[:, row // self.problem.A, row % self.problem.A, target[entry]] = memory.observed.spent[entry]
                    entry = int(link[entry])
            np.testing.assert_allclose(spent.sum(axis=3), memory.cost_sums, atol=1e-9)
            FOUND.append(
                (
                    sampled_costs(model, memory),
                    plain_costs(model, memory.counts, spent, np.zeros_like(memory.cost_sums)),
                )
            )
        return super().plan(memory, rng)


def random_moves(seed: int) -> CMDP:
    """Costs of moves; state 5 is never seen, and one pair is not available."""
    rng = np.random.default_rng(np.random.SeedSequence([51, seed]))
    p = np.zeros((6, 3, 6))
    p[:, :, :5] = rng.dirichlet(np.full(5, 0.4), (6, 3))
    available = np.ones((6, 3), dtype=np.bool_)
    available[1, 2] = False
    return CMDP(p, rng.random((2, 6, 3, 6)), [0.6], available=available)


@pytest.mark.parametrize("seed", range(3))
def test_costs_are_those_of_the_plain_twin(seed: int) -> None:
    cmdp = random_moves(seed)
    FOUND.clear()
    simulate(Witness(cmdp.problem(), prior="learned"), cmdp, 300, seed)
    assert len(FOUND) > 20
    for found, wanted in FOUND:
        np.testing.assert_allclose(found, wanted, atol=1e-9)


def test_costs_of_pairs_are_left_as_they_are() -> None:
    """In the queue a step costs the same wherever it leads: the sample changes nothing."""
    cmdp = make("queue")
    FOUND.clear()
    simulate(Witness(cmdp.problem(), prior="learned"), cmdp, 300, 0)
    for found, _ in FOUND:
        tried = found.any(axis=0)
        np.testing.assert_allclose(found[:, tried], cmdp.costs[:, tried], atol=1e-12)


def test_only_agents_that_learn_prior_and_costs_keep_them() -> None:
    cmdp = random_moves(0)
    kinds = {
        agents.PSConRL(cmdp.problem()): 0,
        agents.PSConRL(cmdp.problem("known"), prior="learned"): 0,
        agents.PSConRL(cmdp.problem(), prior="learned"): 2,
        agents.TSDE(cmdp.problem(), prior="learned"): 2,
        agents.ConRL(cmdp.problem()): 0,
    }
    for agent, n in kinds.items():
        assert simulate(agent, cmdp, 20, 0).state["learner"]["spent"].shape[1] == n


def test_what_moves_cost_adds_up_and_survives_a_restart() -> None:
    cmdp = random_moves(1)
    agent = agents.recommended(cmdp.problem())
    run = simulate(agent, cmdp, 200, 3)
    learner = Learner.restore(agent, run.state["learner"])
    used = int(learner.observed.used[0])
    np.testing.assert_allclose(learner.observed.spent[:used].sum(axis=0), run.cumulative[:, -1], rtol=1e-12)
    np.testing.assert_array_equal(learner.state()["spent"], run.state["learner"]["spent"])
    damaged = dict(run.state["learner"], spent=run.state["learner"]["spent"] + 100.0)
    with pytest.raises(InvalidArgumentError, match="spent"):
        Learner.restore(agent, damaged)


class ByPairs(agents.PSConRL):
    """PSConRL with a learned prior that takes means over pairs for costs."""

    tells_moves_apart = False


@pytest.mark.parametrize(("agent", "least", "most"), [(agents.PSConRL, 1_000, 5_000), (ByPairs, 1, 50)])
def test_an_unlucky_pair_is_tried_again(agent: type[agents.PSConRL], least: int, most: int) -> None:
    """In state 0 action 1 reaches the goal, state 1, more often; its first three steps are made to miss it.

    Who charges pairs believes for ever that it never pays, since all its steps did cost 1.
    """
    p, c = np.zeros((2, 2, 2)), np.ones((1, 2, 2, 2))
    p[0, 0], p[0, 1], p[1, :, 0] = [0.8, 0.2], [0.4, 0.6], 1.0
    c[0, 0, :, 1] = 0.0
    cmdp = CMDP(p, c)
    learner = Learner(agent(cmdp.problem(), prior="learned"), 5_000, 0)
    rng, tried, s = np.random.default_rng(np.random.SeedSequence(52)), 0, 0
    for _ in range(5_000):
        a = int(learner.act(s))
        x = int(rng.random() >= p[s, a, 0])
        if (s, a) == (0, 1):
            tried += 1
            x = 0 if tried <= 3 else x
        learner.observe(s, a, c[:, s, a, x], x)
        s = x
    assert least <= tried <= most
