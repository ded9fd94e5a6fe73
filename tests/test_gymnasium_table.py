"""Models from Gymnasium tables, against value iteration on the tables themselves."""

from types import SimpleNamespace
from typing import Any

import gymnasium
import numpy as np
import pytest

from psconrl import CMDP, InvalidModelError, evaluate, solve
from psconrl._core.checks import Floats
from psconrl.gymnasium_table import move_costs


def best_average_reward(env: Any) -> float:
    """The best long-run reward per step if every end is followed by a new start: value iteration on the table.

    Relative to the start, on the lazy chain (half of the time it waits), which converges and halves the average.
    """
    P, law = env.unwrapped.P, np.asarray(env.unwrapped.initial_state_distrib)
    V = np.zeros(len(P))
    for _ in range(100_000):
        following = np.empty_like(V)
        for s in P:
            following[s] = max(sum(p * (r + (law @ V if done else V[x])) for p, x, r, done in P[s][a]) for a in P[s])
        following = (following + V) / 2
        change = following - V
        reachable = [s for s in P if visited(env)[s]]
        if np.ptp(change[reachable]) < 1e-12:
            return float(2 * (law @ change))
        V = following - following[0]
    raise AssertionError("value iteration did not converge")


def visited(env: Any) -> Any:
    """The states that can be entered from the start, if ends lead to it."""
    P, law = env.unwrapped.P, np.asarray(env.unwrapped.initial_state_distrib)
    if not hasattr(env, "_seen"):
        seen = law > 0
        for _ in P:
            for s in np.flatnonzero(seen):
                for a in P[s]:
                    for p, x, _, done in P[s][a]:
                        if p > 0 and not done:
                            seen[x] = True
        env._seen = seen
    return env._seen


@pytest.mark.parametrize("slippery", [True, False])
def test_frozen_lake(slippery: bool) -> None:
    env = gymnasium.make("FrozenLake-v1", is_slippery=slippery)
    cmdp = CMDP.from_gymnasium(env)
    assert (cmdp.S, cmdp.A, cmdp.m) == (16, 4, 0)
    gain = best_average_reward(env)
    found = solve(cmdp)
    assert found.value == pytest.approx(1 - gain, abs=1e-8)
    assert found.average_costs[0] == pytest.approx(1 - gain, abs=1e-6)
    if not slippery:
        assert gain == pytest.approx(1 / 6)  # six steps to the goal
    p = np.asarray(cmdp.transitions)
    np.testing.assert_allclose(p.sum(axis=2), 1.0)
    assert (p[:, :, [5, 7, 11, 12, 15]] == 0).all()  # holes and goal lead to the start
    assert p[14, 2, 0] == (pytest.approx(1 / 3) if slippery else 1)


def test_cliff_walking() -> None:
    env = gymnasium.make("CliffWalking-v1")
    cmdp = CMDP.from_gymnasium(env, costs=lambda s, a, x, r: (float(x != 47), float(r == -100)), thresholds=[0.0])
    assert solve(cmdp).value == pytest.approx(12 / 13)  # thirteen steps, the last of which is free
    scaled = CMDP.from_gymnasium(env)
    gain = best_average_reward(env)  # -1 per step, whatever one does
    assert gain == pytest.approx(-1)
    assert solve(scaled).value == pytest.approx(0)
    assert scaled.costs.max() == 1  # a fall
    # The best way in terms of the first cost: right along the cliff, without a fall.
    policy = np.zeros((48, 4))
    policy[:, 1] = 1.0
    policy[36], policy[35] = [1, 0, 0, 0], [0, 0, 1, 0]
    average = evaluate(cmdp, policy).average_costs[:, 36]
    np.testing.assert_allclose(average, [12 / 13, 0], atol=1e-12)


def table(outcomes: list[tuple[float, int, float, bool]], law: Any = (1.0, 0.0)) -> Any:
    P = {0: {0: outcomes}, 1: {0: [(1.0, 0, 0.0, False)]}}
    inner = SimpleNamespace(P=P, initial_state_distrib=law)
    return SimpleNamespace(unwrapped=inner)


def test_ends_lead_to_the_start_law() -> None:
    env = table([(0.5, 1, 0.0, True), (0.5, 1, 1.0, False)], law=[0.25, 0.75])
    cmdp = CMDP.from_gymnasium(env)
    np.testing.assert_allclose(cmdp.initial, [0.25, 0.75])
    np.testing.assert_allclose(np.asarray(cmdp.transitions)[0, 0], [0.125, 0.875])
    assert cmdp.move_costs is not None
    # Into state 1: by the end (0.375, cost 1) or by the move (0.5, cost 0): the mean is charged.
    np.testing.assert_allclose(cmdp.move_costs[0, 0, 0], [1.0, 0.375 / 0.875])
    assert cmdp.costs[0, 0, 0] == pytest.approx(0.5)


def test_costs_and_thresholds_of_a_table() -> None:
    env = table([(1.0, 1, 5.0, False)])
    seen: list[Any] = []

    def costs(s: int, a: int, x: int, r: float, info: Any) -> Floats:
        seen.append((s, a, x, r, dict(info)))
        return np.array([0.5, r / 10])

    cmdp = CMDP.from_gymnasium(env, costs=costs, thresholds=[0.3])
    assert seen == [(0, 0, 1, 5.0, {}), (1, 0, 0, 0.0, {})]
    assert cmdp.m == 1
    np.testing.assert_allclose(cmdp.costs[1].ravel(), [0.5, 0.0])
    scaled = CMDP.from_gymnasium(env, reward_range=(0, 10))
    np.testing.assert_allclose(scaled.costs[0].ravel(), [0.5, 1.0])


def test_constant_rewards() -> None:
    cmdp = CMDP.from_gymnasium(table([(1.0, 1, 0.0, False)]))
    assert ((cmdp.costs >= 0) & (cmdp.costs <= 1)).all()


def test_what_cannot_be_a_model_is_refused() -> None:
    with pytest.raises(InvalidModelError, match=r"has no table of transitions env.unwrapped.P"):
        CMDP.from_gymnasium(gymnasium.make("CartPole-v1"))
    env = table([(1.0, 1, 5.0, False)])
    del env.unwrapped.initial_state_distrib
    with pytest.raises(InvalidModelError, match="does not say where it starts"):
        CMDP.from_gymnasium(env)
    with pytest.raises(InvalidModelError, match="there are 1 costs and 1 thresholds"):
        CMDP.from_gymnasium(table([(1.0, 1, 5.0, False)]), thresholds=[0.5])
    with pytest.raises(InvalidModelError, match=r"transitions\[0, 0\] sums to 0.5"):
        CMDP.from_gymnasium(table([(0.5, 1, 5.0, False)]))
    with pytest.raises(ValueError, match=r"the reward 5\.0 lies outside reward_range"):
        CMDP.from_gymnasium(table([(1.0, 1, 5.0, False)]), reward_range=(0, 1))


def test_functions_get_as_much_of_a_step_as_they_take() -> None:
    step = (1, 2, 3, 0.5, {"a": 1})
    for costs, value in (
        (lambda: 0.125, 0.125),
        (lambda s: s / 8, 0.125),
        (lambda s, a, x: x / 4, 0.75),
        (lambda s, a, x, r, info: info["a"] * r, 0.5),
        (lambda *everything: len(everything) / 10, 0.5),
        (lambda s, a=9, *, flag=1: a / 4, 0.5),
    ):
        assert move_costs(costs, None, 0)(*step).tolist() == [value]


def partial(P: Any, actions: int | None = None) -> Any:
    space = {} if actions is None else {"action_space": SimpleNamespace(n=actions)}
    return SimpleNamespace(P=P, initial_state_distrib=np.array([1.0, 0.0]), **space)


def test_a_table_without_some_actions() -> None:
    stay, leave = [(1.0, 0, 0.0, False)], [(1.0, 1, 1.0, False)]
    cmdp = CMDP.from_gymnasium(partial({0: {0: stay, 1: leave}, 1: {1: stay}}))
    assert cmdp.available.tolist() == [[True, True], [False, True]]
    assert CMDP.from_gymnasium(partial([[stay, leave], [leave]], actions=3)).available.tolist() == [
        [True, True, False],
        [True, False, False],
    ]
    for wrong in ({0: {0: stay, 7: leave}, 1: {0: stay}}, {0: {0: stay}, 1: {"a": stay}}):
        with pytest.raises(InvalidModelError, match=r"env.unwrapped.P\[\d\] has the action .*; there are 0, ..., 1"):
            CMDP.from_gymnasium(partial(wrong))
    with pytest.raises(InvalidModelError, match="every state needs at least one"):
        CMDP.from_gymnasium(partial({0: {0: stay, 1: leave}, 1: {}}))


def test_limits_by_name_name_the_costs() -> None:
    P = {0: {0: [(1.0, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 0.0, False)]}}
    cmdp = CMDP.from_gymnasium(partial(P), costs=lambda s: (0.5, s), thresholds={"risk": 0.75})
    assert (cmdp.cost_names, cmdp.thresholds.tolist()) == (("c0", "risk"), [0.75])
