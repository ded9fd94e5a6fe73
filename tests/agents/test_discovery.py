"""What may be discovered: hazards against a replay of every step, and agents that look for it as long as it pays."""

import numpy as np
import pytest

from psconrl import CMDP, Learner, agents, make, simulate, solve
from psconrl._core.checks import Floats
from psconrl.agents import Memory, Model
from psconrl.agents.sampled_model import SampledModel
from psconrl.agents.schedules import Stop
from psconrl.planning.for_agents import BestPolicy


def river(S: int) -> CMDP:
    """Upstream is worth everything, any place on the way less than the bank; going up fails once in ten times."""
    p, c = np.zeros((S, 2, S)), np.full((1, S, 2), 0.98)
    for s in range(S):
        p[s, 0, max(s - 1, 0)] += 0.9
        p[s, 0, s] += 0.1
        p[s, 1, min(s + 1, S - 1)] += 0.9
        p[s, 1, max(s - 1, 0)] += 0.1
    c[0, 0, 0], c[0, -1, 1] = 0.8, 0.1
    return CMDP(p, c)


def test_every_step_is_a_try_of_the_level_of_its_pair() -> None:
    cmdp = river(8)
    learner = Learner(agents.recommended(cmdp.problem()), 2_000)
    rng, s, t = np.random.default_rng(np.random.SeedSequence(5)), 0, 0
    visits, seen, tries = np.zeros((8, 2), dtype=int), {0}, np.zeros(64)
    for _ in range(2_000):
        a = learner.act(s)
        assert learner.current is not None
        recorded = learner.current.carry
        if learner.clock[1] == 0:
            np.testing.assert_array_equal(recorded["tries"], tries)
            assert recorded["finds"].sum() == len(seen) - 1
            t = learner.t
        after = int(rng.choice(8, p=cmdp.transitions[s, a]))
        tries[int(visits[s, a]).bit_length()] += 1
        visits[s, a] += 1
        seen.add(after)
        learner.observe(s, a, cmdp.costs[:, s, a], after)
        s = after
    assert t > 1_000
    assert len(seen) == 8


class Watching(agents.Recommended):
    """The recommended agent, its samples looked at."""

    def best(self, model: Model, costs: Floats, limits: Floats, memory: Memory, stop: Stop) -> BestPolicy:
        assert isinstance(model, SampledModel)
        matrix = model.rows.matrix().toarray()
        assert (matrix >= 0).all()
        assert (matrix.sum(axis=1) <= 1 + 1e-9).all()
        if model.states[0] == -1:
            known = model.pairs >= 0
            visits = memory.visits.ravel()[model.pairs[known]]
            levels = np.array([int(n).bit_length() for n in visits])
            hazards = matrix[known, 0] * (visits + 1)
            for level in set(levels):
                assert np.ptp(hazards[levels == level]) < 1e-12
            SHARES.append(float(hazards[levels == levels.max()].max()))
            assert matrix[0, 0] == 1.0  # not left, until the restart
        return super().best(model, costs, limits, memory, stop)


SHARES: list[float] = []


def test_pairs_of_a_level_share_a_hazard_that_falls_where_nothing_is_found() -> None:
    """Four states, and four that never occur: what is left to discover is believed in less and less."""
    garnet = make("garnet", S=4, A=2, m=0)
    p, c = np.zeros((8, 2, 8)), np.zeros((1, 8, 2))
    p[:4, :, :4], p[4:, :, 0], c[:, :4] = garnet.transitions, 1.0, garnet.costs
    SHARES.clear()
    simulate(Watching(CMDP(p, c).problem()), CMDP(p, c), 4_000, 0)
    assert np.mean(SHARES[-50:]) < 0.05


@pytest.mark.parametrize("seed", range(3))
def test_the_river_is_crossed(seed: int) -> None:
    cmdp, T = river(20), 10_000
    run = simulate(agents.recommended(cmdp.problem()), cmdp, T, seed, optimum=solve(cmdp))
    late = run.regret[-1] - run.regret[3 * len(run.grid) // 4]
    assert late < 0.1 * 0.7 * T / 4  # 0.7 a step is what staying at the bank loses


@pytest.mark.parametrize("seed", range(6))
def test_a_door_that_often_stays_shut_is_not_given_up(seed: int) -> None:
    """Behind three places, whose moves are certain, a door opens three times in ten; beyond, everything is cheaper."""
    p, c, T = np.zeros((6, 2, 6)), np.full((1, 6, 2), 0.6), 10_000
    for s in range(6):
        p[s, 0, max(s - 1, 0)] = p[s, 1, min(s + 1, 5)] = 1.0
    p[3, 1, [3, 4]], c[0, 4:] = [0.7, 0.3], 0.1
    cmdp = CMDP(p, c)
    run = simulate(agents.recommended(cmdp.problem()), cmdp, T, seed, optimum=solve(cmdp))
    assert run.regret[-1] < 0.5 * T / 4  # 0.5 a step is what never passing it loses


def test_states_that_never_occur_do_not_lure() -> None:
    """A machine with two limits, and six states that it never gets to; a fixed prior goes for them for ever."""
    cmdp = make("queue")
    S, T = cmdp.S + 6, 5_000
    p, c = np.zeros((S, cmdp.A, S)), np.zeros((cmdp.m + 1, S, cmdp.A))
    p[: cmdp.S, :, : cmdp.S], p[cmdp.S :, :, 0] = cmdp.to_dense().transitions, 1.0
    c[:, : cmdp.S] = cmdp.costs
    spare = CMDP(p, c, cmdp.thresholds)
    optimum = solve(cmdp)
    L = [
        simulate(agents.recommended(model.problem()), model, T, seed, optimum=optimum).lagrangian[-1]
        for model in (cmdp, spare)
        for seed in range(3)
    ]
    assert np.mean(L[3:]) < 2 * np.mean(L[:3]) + 50
