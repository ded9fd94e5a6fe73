"""When episodes end, against plain loops over the recorded trajectory."""

import math
from itertools import pairwise

import numpy as np
import pytest

from psconrl import CMDP, Problem, agents, make
from psconrl._core.checks import Ints
from psconrl.agents import Agent, Memory, schedules
from psconrl.agents.counts import Counts
from psconrl.learning import simulate
from tests.learning.walk import Walk, walk


def tsde_starts(states: Ints, actions: Ints, S: int, A: int) -> list[int]:
    """Steps done before each episode: WHILE t <= t_k + T_{k-1} AND N_t <= 2 N_{t_k} FOR ALL (s, a), T_0 = 1."""
    T = len(states)
    N = np.zeros((S, A), dtype=np.int64)
    t, t_k, starts = 1, 0, []
    while t <= T:
        T_before = t - t_k
        t_k = t
        N_k = N.copy()
        starts.append(t_k - 1)
        while t <= t_k + T_before and (2 * N_k >= N).all() and t <= T:
            N[states[t - 1], actions[t - 1]] += 1
            t += 1
    return starts


def doubling_starts(states: Ints, actions: Ints, S: int, A: int) -> list[int]:
    """UCRL2's epochs: a new one as soon as v_k(s, a) >= max(1, N_k(s, a)) for some pair."""
    N, v = np.zeros((S, A), dtype=np.int64), np.zeros((S, A), dtype=np.int64)
    starts = [0]
    for t, (s, a) in enumerate(zip(states, actions, strict=True), start=1):
        v[s, a] += 1
        if (v >= np.maximum(1, N)).any():
            N += v
            v[:] = 0
            starts.append(t)
    return starts if starts[-1] < len(states) else starts[:-1]


def agents_for(name: str, cmdp: CMDP) -> Agent:
    return agents.find(name)(cmdp.problem("known"))


def bound(cmdp: CMDP, T: int) -> float:
    return math.sqrt(2 * cmdp.S * cmdp.A * T * math.log2(T))


CASES = [("toy", 400), ("dirichlet", 300), ("queue", 120), ("marsrover-4x4", 150)]


@pytest.mark.parametrize(("env", "T"), CASES)
@pytest.mark.parametrize("name", ["PSConRL", "TSDE"])
def test_tsde_rule(name: str, env: str, T: int) -> None:
    cmdp = make(env)
    way = walk(agents_for(name, cmdp), cmdp, T, seed=3)
    assert way.starts == tsde_starts(way.states, way.actions, cmdp.S, cmdp.A)
    lengths = [row[1] for row in way.learner.rows]
    assert lengths[0] == 1  # T_1 = 1
    assert all(after <= before + 1 for before, after in pairwise(lengths))
    assert len(way.starts) <= bound(cmdp, T)
    check_endings(way)


def check_endings(way: Walk) -> None:
    """The first visit to a pair ends an episode; each ends by the reason that its row gives; both limits are strict."""
    ends = {row[0] + row[1] for row in way.learner.rows}
    pairs = list(zip(way.states.tolist(), way.actions.tolist(), strict=True))
    for t, pair in enumerate(pairs, start=1):
        if pair not in pairs[: t - 1]:
            assert t in ends or t == len(pairs)
    before = 1
    for start, length, _, _, _, reason, *_ in way.learner.rows:
        last = pairs[start + length - 1]
        more_than_doubled = way.visits_before(start + length)[last] > 2 * way.visits_before(start)[last]
        if reason == "length":
            assert length == before + 1 or start == 0
        else:
            assert reason == "count"
            assert more_than_doubled
        before = length


def test_the_first_episode_has_one_step_and_the_second_up_to_two() -> None:
    """One state, one action: N doubles exactly, which must not end an episode, so lengths are 1, 2, 3, ..."""
    cmdp = CMDP([[[1.0]]], [[[0.5]]])
    run = simulate(agents.TSDE(cmdp.problem()), cmdp, 55, 0)
    assert run.episodes["length"].tolist() == list(range(1, 11))
    # Episode 1 ends by the count (N = 1 > 0) and by its length limit T_0 + 1 = 2 never; from then on by length.
    assert run.episodes["reason"].tolist() == ["count"] + ["length"] * 9
    assert (run.episodes["start"] == np.cumsum([0, *range(1, 10)])).all()


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("env", ["toy", "dirichlet", "queue"])
def test_episodes_stay_below_the_bound(env: str, seed: int) -> None:
    cmdp = make(env)
    T = 600 if env != "queue" else 200
    for name in ("PSConRL", "TSDE"):
        run = simulate(agents_for(name, cmdp), cmdp, T, seed)
        for k, start in enumerate(run.episodes["start"]):
            assert k + 1 <= bound(cmdp, max(int(start) + 1, 2)) + 1
        assert len(run.episodes) <= bound(cmdp, T)


@pytest.mark.parametrize(("env", "T"), CASES)
@pytest.mark.parametrize("name", ["ConRL", "CMDP-PSRL"])
def test_doubling_rule(name: str, env: str, T: int) -> None:
    cmdp = make(env)
    way = walk(agents_for(name, cmdp), cmdp, T, seed=4)
    assert way.starts == doubling_starts(way.states, way.actions, cmdp.S, cmdp.A)
    assert {row[5] for row in way.learner.rows} == {"count"}
    # Each pair can end at most 1 + log2(N) + 1 epochs.
    assert len(way.starts) <= 1 + cmdp.S * cmdp.A * (2 + math.log2(T))


@pytest.mark.parametrize("h", [1, 7])
def test_c_ucrl_alternates(h: int) -> None:
    """Episode k: h steps of the baseline, then (k - 1) h of the planned policy; episode 1 is the baseline only."""
    cmdp = make("dirichlet")
    T = h * 45  # 9 whole episodes: h (1 + 2 + ... + 9)
    run = simulate(agents.CUCRL(cmdp.problem("known"), h=h, bonus="simple", scale=0.01), cmdp, T, 0)
    expected = [h]
    for k in range(2, 10):
        expected += [h, (k - 1) * h]
    assert run.episodes["length"].tolist() == expected
    assert (run.episodes["phase"][0], run.episodes["phase"][1]) == ("explore", "explore")
    planned = run.episodes[2::2]
    np.testing.assert_array_equal(planned["phase"] == "exploit", planned["feasible"])
    assert (run.episodes["phase"][1::2] == "explore").all()
    assert planned["feasible"].any()


def test_c_ucrl_goes_on_with_the_baseline_if_infeasible() -> None:
    cmdp = make("dirichlet")
    problem = Problem(cmdp.S, cmdp.A, [0.0], cmdp.costs)
    run = simulate(agents.CUCRL(problem, h=5), cmdp.replace(thresholds=[0.0]), 75, 0)
    assert run.episodes["length"].tolist() == [5, 5, 5, 5, 10, 5, 15, 5, 20]
    assert (run.episodes["phase"] == "explore").all()
    assert run.episodes["feasible"].tolist() == [True, True, False, True, False, True, False, True, False]


def memory(horizon: int, S: int = 2, A: int = 2) -> Memory:
    counts = np.zeros((S, A, S), dtype=np.int64)
    return Memory(0, horizon, 0, 0, 1, Counts.from_dense(counts), counts.sum(axis=2), np.zeros((2, S, A)), {})


@pytest.mark.parametrize(
    ("horizon", "alpha", "length"),
    [(1000, 1 / 3, 10), (1001, 1 / 3, 11), (999, 1 / 3, 10), (5000, 1 / 3, 18), (500_000, 1 / 3, 80), (100, 0.5, 10)],
)
def test_power_of_the_horizon(horizon: int, alpha: float, length: int) -> None:
    """ceil(T^alpha), also where T^alpha is a whole number but for rounding."""
    assert schedules.power(horizon, alpha) == {"max_length": length, "count_limit": None}


def test_ucrl_cmdp_episodes() -> None:
    cmdp = make("toy")
    run = simulate(agents.UCRLCMDP(cmdp.problem("known")), cmdp, 100, 0)
    assert run.episodes["length"].tolist() == [5] * 20  # ceil(100^(1/3)) = 5
    run = simulate(agents.UCRLCMDP(cmdp.problem("known"), alpha=0.6), cmdp, 100, 0)
    assert run.episodes["length"].tolist() == [16] * 6 + [4]
    assert run.episodes["reason"].tolist() == ["length"] * 6 + ["horizon"]


def test_fha_episodes() -> None:
    cmdp = make("toy")
    problem = cmdp.problem("known")
    assert simulate(agents.FHA(problem, H=7), cmdp, 30, 0).episodes["length"].tolist() == [7, 7, 7, 7, 2]
    # As published: ceil((T / (S^2 A))^(1/3)) = ceil(125^(1/3)) = 5 for T = 1000.
    assert agents.FHA(problem).steps(1000) == 5
    assert simulate(agents.FHA(problem), cmdp, 1000, 0, stop=20).episodes["length"].tolist() == [5, 5, 5, 5]
    assert agents.FHA(problem).plan(memory(1000), np.random.default_rng(0)).policy.shape == (5, 2, 2)


def test_lengths_that_make_no_sense_are_refused() -> None:
    problem = Problem(2, 2, [0.5])
    with pytest.raises(ValueError, match="h is 0; it must be at least 1"):
        agents.CUCRL(problem, h=0)
    with pytest.raises(ValueError, match="H is 0; it must be at least 1"):
        agents.FHA(problem, H=0)
    with pytest.raises(ValueError, match=r"alpha is 1.5; it must be a number in \(0, 1\]"):
        agents.UCRLCMDP(problem, alpha=1.5)
