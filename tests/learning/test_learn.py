"""Learning in Gymnasium environments: what is recorded, what is refused, and that it learns."""

import re
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, MultiBinary

from psconrl import CMDP, Problem, agents, evaluate, solve
from psconrl._core.checks import Floats
from psconrl.learning.gymnasium_loop import learn
from psconrl.learning.run import Run
from tests.learning.tiny import Corridor, Shifted


def uniform(m: int = 0) -> agents.Uniform:
    return agents.Uniform(Problem(4, 2, np.full(m, 0.5)))


def expected_counts(env: Corridor, T: int, start_of_next: list[int]) -> Floats:
    """N(s, a, s'): a terminal step leads to the next start, a truncated one where it led; no reset counts."""
    counts = np.zeros((4, 2, 4))
    episode = 0
    for s, a, x, terminated, truncated in env.log[:T]:
        counts[s, a, start_of_next[episode + 1] if terminated else x] += 1
        episode += terminated or truncated
    return counts


@pytest.mark.parametrize("limit", [1000, 3, 2, 1])
@pytest.mark.parametrize("make_env", [Corridor, Shifted])
def test_terminal_and_truncated_steps(make_env: type[Corridor], limit: int) -> None:
    env, T = make_env(limit), 300
    run = learn(uniform(), env, T, 0, reward_range=(-1, 0))
    assert len(env.log) == T
    assert run.counts.sum() == T
    np.testing.assert_array_equal(run.counts, expected_counts(env, T, [i % 2 for i in range(T + 2)]))
    assert run.counts[3].sum() == 0  # nobody ever acts in the terminal state
    if limit == 1000:
        assert run.counts[:, :, 3].sum() == 0
        assert run.counts[2, 1, :2].sum() > 0
        assert run.counts[2, 1, 2:].sum() == 0
    if limit <= 2:  # truncated in every second step, or in each, and recorded as it was
        assert run.counts[1, 1, 2] > 0
    # The main cost is 0 into the terminal state and 1 else, wherever it is recorded to lead.
    ended = np.cumsum([terminated for *_, terminated, _ in env.log])
    np.testing.assert_array_equal(run.cumulative[0], (np.arange(1, T + 1) - ended)[run.grid - 1])


def test_a_step_that_both_terminates_and_is_truncated_is_terminal() -> None:
    env = Corridor(limit=3)
    run = learn(uniform(), env, 400, 1, reward_range=(-1, 0))
    assert any(terminated and truncated for *_, terminated, truncated in env.log)
    assert run.counts[:, :, 3].sum() == 0


def test_the_environment_is_seeded_once_and_repeats() -> None:
    first, second = Corridor(), Corridor()
    one, other = (learn(uniform(), env, 100, 4, reward_range=(-1, 0)) for env in (first, second))
    np.testing.assert_array_equal(one.counts, other.counts)
    assert first.seeds == second.seeds
    assert first.seeds[0] is not None
    assert set(first.seeds[1:]) == {None}
    assert (learn(uniform(), Corridor(), 100, 5, reward_range=(-1, 0)).counts != one.counts).any()


@pytest.mark.parametrize(
    ("info", "m", "spent"),
    [
        ({}, 0, []),
        ({"cost": 0.25}, 1, [0.25]),
        ({"cost": [0.25]}, 1, [0.25]),
        ({"cost": np.float32(1)}, 1, [1.0]),
        ({"cost": (0.5, 1)}, 2, [0.5, 1.0]),
        ({"cost": np.array([0.0, 0.125, 1.0])}, 3, [0.0, 0.125, 1.0]),
    ],
)
def test_costs_from_info(info: dict[str, Any], m: int, spent: list[float]) -> None:
    run = learn(uniform(m), Corridor(info=info), 40, 0, reward_range=(-1, 0), optimum=0.5)
    np.testing.assert_allclose(run.cumulative[1:, -1], 40 * np.array(spent))
    np.testing.assert_allclose(run.cumulative_excess[1:, -1], 40 * np.maximum(np.array(spent) - 0.5, 0))
    np.testing.assert_allclose(run.cumulative_excess[0], 0.5 * run.cumulative[0])
    np.testing.assert_allclose(run.violation[:, -1], 40 * (np.array(spent) - 0.5))


def test_costs_from_a_function() -> None:
    seen: list[tuple[Any, ...]] = []

    def costs(s: int, a: int, s_next: int, reward: float, info: dict[str, Any]) -> tuple[float, float]:
        seen.append((s, a, s_next, reward, info["tag"]))
        return 0.25, float(s_next == 3)

    env = Corridor(info={"tag": "x", "cost": 77})
    run = learn(uniform(1), env, 60, 0, costs=costs)
    assert [(s, a, x) for s, a, x, *_ in seen] == [(s, a, x) for s, a, x, *_ in env.log]
    assert {tag for *_, tag in seen} == {"x"}
    assert run.cumulative[0, -1] == 15
    assert run.cumulative[1, -1] == sum(terminated for *_, terminated, _ in env.log)
    short = learn(uniform(1), Corridor(), 60, 0, costs=lambda s, a, x: (0.25, float(x == 3)))
    np.testing.assert_array_equal(short.cumulative, run.cumulative)


@pytest.mark.parametrize(
    ("info", "m", "options", "message"),
    [
        ({}, 1, {"reward_range": (-1, 0)}, 'info["cost"] gives 1 costs in all, main cost included; with 1 thresholds'),
        ({"cost": [0, 0]}, 1, {"reward_range": (-1, 0)}, 'info["cost"] gives 3 costs in all'),
        ({"cost": 2.0}, 1, {"reward_range": (-1, 0)}, "learners need costs in [0, 1]"),
        ({"cost": np.nan}, 1, {"reward_range": (-1, 0)}, "learners need costs in [0, 1]"),
        ({}, 0, {"reward_range": (-0.5, 0)}, "the reward -1.0 lies outside reward_range (-0.5, 0)"),
        ({}, 0, {"reward_range": (0, 0)}, "reward_range is (0, 0); its first number must be below its second"),
        ({}, 0, {}, "give costs, a function of a step, or reward_range=(low, high)"),
        ({}, 1, {"costs": lambda s, a: 0.5}, "costs(...) gives 1 costs in all"),
        ({}, 0, {"costs": lambda s, a: -0.5}, "costs(...) gives [-0.5]; learners need costs in [0, 1]"),
    ],
)
def test_bad_costs_are_refused(info: dict[str, Any], m: int, options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        learn(uniform(m), Corridor(info=info), 50, 0, **options)


@pytest.mark.parametrize(
    ("what", "space", "message"),
    [
        (
            "observation_space",
            Box(0.0, 1.0),
            "the observation space is Box(0.0, 1.0, (1,), float32); learn needs discrete",
        ),
        ("action_space", MultiBinary(2), "the action space is MultiBinary(2); learn needs discrete ones"),
        ("observation_space", Discrete(5), "the observation space has 5 elements, but the agent's problem has 4"),
        ("action_space", Discrete(3), "the action space has 3 elements, but the agent's problem has 2"),
    ],
)
def test_spaces_that_do_not_fit_are_refused(what: str, space: Any, message: str) -> None:
    env = Corridor()
    setattr(env, what, space)
    with pytest.raises(ValueError, match=re.escape(message)):
        learn(uniform(), env, 10, 0, reward_range=(-1, 0))


def test_grid_rows_and_state() -> None:
    agent = agents.PSConRL(Problem(4, 2))
    run = learn(agent, Corridor(), 100, 0, reward_range=(-1, 0), checkpoints=10)
    assert run.grid.tolist() == list(range(10, 101, 10))
    assert np.isnan(run.cumulative_excess[0]).all()
    assert run.episodes["length"].sum() == 100
    np.testing.assert_array_equal(run.episodes["start"], np.cumsum(run.episodes["length"]) - run.episodes["length"])
    assert run.state["learner"]["visits"].sum() == 100
    with pytest.raises(ValueError, match="horizon is 0"):
        learn(agent, Corridor(), 0, 0, reward_range=(-1, 0))


def test_psconrl_learns_the_corridor() -> None:
    """From 0, three steps right and back to a start, 0 or 1 in turn: 5 steps for 2 visits, J* = 1 - 2 / 5."""
    run = learn(agents.PSConRL(Problem(4, 2), prior=0.3), Corridor(), 3000, 0, reward_range=(-1, 0), optimum=0.6)
    np.testing.assert_array_equal(run.policy[0, :3].argmax(axis=1), [1, 1, 1])
    assert abs(run.regret[-1]) < 60  # 200 steps of the uniform policy's regret, 0.3 each


def loss_in_a_fifth(cmdp: CMDP, run: Run, which: int = 5) -> tuple[float, Floats]:
    """(J - J*) / (J(uniform) - J*), J the mean cost of a fifth of a run; and the means of all costs there."""
    first, last = (len(run.grid) * k // 5 - 1 for k in (which - 1, which))
    first = max(first, 0)
    J = (run.cumulative[:, last] - run.cumulative[:, first]) / (run.grid[last] - run.grid[first])
    uniform_policy = np.full((cmdp.S, cmdp.A), 1 / cmdp.A)
    most = (evaluate(cmdp, uniform_policy).average_costs @ cmdp.initial)[0]
    optimum = solve(cmdp).value
    return float((J[0] - optimum) / (most - optimum)), J


def test_psconrl_learns_cliff_walking() -> None:
    """48 states; falling from the cliff, which costs, leads back to the start; at most 0.05 falls per step.

    What is asserted is behaviour, against what would hold without learning: the second fifth of the same run, and the
    uniform policy (1.0 of its loss), for three seeds. Sampled in n = 4,000 steps, a mean of costs in [0, 1] that is
    within its limit exceeds it by more than sqrt(log(1000) / 2 n) = 0.03 once in 1,000 runs, if steps were independent.
    The policy of the last plan is no measure at this horizon: it belongs to one sample.
    """

    def costs(s: int, a: int, s_next: int, reward: float) -> tuple[float, float]:
        return float(s_next != 47), float(reward == -100)

    env = gymnasium.make("CliffWalking-v1")
    cmdp = CMDP.from_gymnasium(env, costs=costs, thresholds=[0.05])
    for seed in (0, 3, 5):
        run = learn(agents.PSConRL(cmdp.problem(), prior=0.3), env, 20_000, seed, costs=costs)
        early, _ = loss_in_a_fifth(cmdp, run, 2)
        late, J = loss_in_a_fifth(cmdp, run, 5)
        assert late < min(early, 1.0)
        assert J[1] <= 0.05 + np.sqrt(np.log(1000) / (2 * 4_000))


@pytest.mark.long
def test_psconrl_learns_frozen_lake() -> None:
    """Slippery, 16 states; the second cost is a fall into a hole; its limit does not bind at the optimum.

    The prior matters: 0.01 per next state is a belief in determinism, and here every action has up to three outcomes.
    In the last fifth of 200,000 steps 0.07, 0.07 and 0.04 of the uniform policy's loss are left with 0.3 (seeds 0, 1,
    2), but 0.46 and 0.46 with 0.01 (seeds 0, 1), whose last policy for seed 1 breaks the limit (0.0995).
    The last policy is within 5% of the optimum for seeds 0 and 1 with 0.3, but not for seed 2 (9.9%), so behaviour is
    asserted. (The time limit of the environment truncates after 100 steps.)
    """
    holes = (5, 7, 11, 12)

    def costs(s: int, a: int, s_next: int) -> tuple[float, float]:
        return float(s_next != 15), float(s_next in holes)

    env = gymnasium.make("FrozenLake-v1")
    cmdp = CMDP.from_gymnasium(env, costs=costs, thresholds=[0.03])
    assert solve(cmdp).feasible
    run = learn(agents.PSConRL(cmdp.problem(), prior=0.3), env, 200_000, 0, costs=costs)
    share, J = loss_in_a_fifth(cmdp, run)
    assert share <= 0.2
    assert J[1] <= 0.03 + 0.01


def final_loss(cmdp: CMDP, run: Run) -> tuple[float, float]:
    """Of the last policy, exactly: its loss as a share of the uniform policy's, and its second cost."""
    J = evaluate(cmdp, run.policy[0]).average_costs @ cmdp.initial
    uniform = evaluate(cmdp, np.full((cmdp.S, cmdp.A), 1 / cmdp.A)).average_costs @ cmdp.initial
    optimum = solve(cmdp).value
    return float((J[0] - optimum) / (uniform[0] - optimum)), float(J[1])


def test_the_last_policy_is_nearly_optimal_where_the_possible_moves_are_known() -> None:
    """CliffWalking with a mask of possible moves as prior; the cliff's cells, never entered, lure without it.

    Seeds 0 to 5 all end with a loss of 0.000.
    """

    def costs(s: int, a: int, s_next: int, reward: float) -> tuple[float, float]:
        return float(s_next != 47), float(reward == -100)

    env = gymnasium.make("CliffWalking-v1")
    cmdp = CMDP.from_gymnasium(env, costs=costs, thresholds=[0.02])
    possible = cmdp.to_dense().transitions > 0
    run = learn(agents.PSConRL(cmdp.problem(), prior=possible), env, 20_000, 0, costs=costs)
    loss, falls = final_loss(cmdp, run)
    assert loss <= 0.05
    assert falls <= 0.02 + 0.01


@pytest.mark.long
def test_the_last_policy_is_nearly_optimal_on_the_frozen_lake() -> None:
    """The same, slippery, with Dirichlet(1) on the possible moves."""

    def costs(s: int, a: int, s_next: int) -> tuple[float, float]:
        return float(s_next != 15), float(s_next in (5, 7, 11, 12))

    env = gymnasium.make("FrozenLake-v1")
    cmdp = CMDP.from_gymnasium(env, costs=costs, thresholds=[0.02])
    possible = cmdp.to_dense().transitions > 0
    run = learn(agents.PSConRL(cmdp.problem(), prior=1.0 * possible), env, 100_000, 0, costs=costs)
    loss, falls = final_loss(cmdp, run)
    assert loss <= 0.05
    assert falls <= 0.02 + 0.01
