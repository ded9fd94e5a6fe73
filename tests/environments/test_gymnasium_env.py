"""The environments in Gymnasium: its own checks, the law of the moves, rendering, and costs for other environments."""

from __future__ import annotations

import subprocess
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import VectorEnv

import psconrl
from psconrl import CMDP, AddCosts, CMDPEnv, InvalidArgumentError, agents
from psconrl.environments import registry
from psconrl.gymnasium_ids import identifiers

IDS = identifiers()

IDENTIFIERS = list(IDS)


def test_every_environment_has_an_id() -> None:
    assert sorted(IDS.values()) == sorted(registry())
    for identifier, name in IDS.items():
        assert identifier.lower() == f"psconrl/{name.replace('-', '')}-v0"
    assert psconrl.register_envs() == tuple(IDENTIFIERS)


@pytest.mark.parametrize("identifier", IDENTIFIERS)
def test_gymnasium_finds_no_fault(identifier: str) -> None:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        env = gymnasium.make(identifier)
        check_env(env.unwrapped)
    assert [str(warning.message) for warning in said] == []
    inner: Any = env.unwrapped
    assert inner.cmdp == psconrl.make(IDS[identifier]) == CMDP.from_gymnasium(env)
    np.testing.assert_array_equal(inner.thresholds, inner.cmdp.thresholds)
    again = gymnasium.make(gymnasium.spec(identifier))
    assert again.reset(seed=5)[0] == env.reset(seed=5)[0]


@pytest.mark.parametrize(
    "order",
    [
        "import gymnasium, psconrl",
        "import gymnasium",
        "import psconrl, gymnasium; psconrl.register_envs()",
        "import psconrl, gymnasium; psconrl.CMDPEnv",
    ],
)
def test_importing_registers_in_any_order(order: str) -> None:
    module = "" if "psconrl" in order else "psconrl:"
    code = f"{order}; print(gymnasium.make('{module}psconrl/Box-v0').unwrapped.cmdp)"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "CMDP(S=60, A=4, m=1, dense)"


def test_importing_changes_nothing_in_the_process() -> None:
    """No finder of modules, no switch of the garbage collector, no listener of numba's, no thread limit is left."""
    code = """
import gc, sys, warnings
import numpy as np
from threadpoolctl import threadpool_info
def seen():
    return list(sys.meta_path), list(sys.path_hooks), gc.isenabled(), gc.get_threshold(), np.geterr(), threads()
def threads():
    return sorted((pool["filepath"], pool["num_threads"]) for pool in threadpool_info())
before, filters = seen(), list(warnings.filters)
import psconrl, psconrl.agents, psconrl.planning, psconrl.learning, psconrl.environments, psconrl.cli
assert seen()[:5] == before[:5], "importing"
toy = psconrl.make("toy")
loaded = threads()
psconrl.simulate(psconrl.agents.PSConRL(toy.problem()), toy, 50, 0)
assert seen()[:5] == before[:5], "simulating"
assert [pool for pool in threads() if pool in loaded] == loaded, "threads"
from numba.core import event
assert not any(event._registered.get(kind) for kind in list(event._registered)), "listeners"
print("nothing")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "nothing", done.stderr


def test_importing_psconrl_does_not_load_gymnasium() -> None:
    code = "import sys, psconrl, psconrl.cmdp; print('gymnasium' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_options_reach_the_model() -> None:
    env: Any = gymnasium.make("psconrl/Marsrover4x4-v0", slip=0.1, tau=0.3)
    assert env.unwrapped.cmdp == psconrl.make("marsrover-4x4", slip=0.1, tau=0.3)
    assert CMDPEnv(env.unwrapped.cmdp).cmdp is env.unwrapped.cmdp
    with pytest.raises(TypeError, match="has no option 'slipp'"):
        gymnasium.make("psconrl/Marsrover4x4-v0", slipp=0.1)


def test_the_law_of_the_moves_and_their_costs() -> None:
    """Frequencies within four standard deviations of the model, and every step charged by it."""
    model = psconrl.make("marsrover-4x4", slip=0.3).replace(initial=np.full(16, 1 / 16))
    assert model.move_costs is not None
    p = np.asarray(model.transitions)
    env = CMDPEnv(model)
    rng = np.random.default_rng(0)
    s, _ = env.reset(seed=0)
    counts = np.zeros_like(p)
    for _ in range(40_000):
        a = int(rng.integers(4))
        x, reward, terminated, truncated, info = env.step(a)
        assert (info["main_cost"], info["cost"]) == tuple(model.move_costs[:, s, a, x])
        assert reward == -info["main_cost"]
        assert not terminated
        assert not truncated
        counts[s, a, x] += 1
        s = x
    n = counts.sum(axis=2, keepdims=True)
    assert (np.abs(counts - n * p) <= 4 * np.sqrt(n * p * (1 - p)) + 1e-9).all()
    starts = np.bincount([env.reset()[0] for _ in range(8_000)], minlength=16)
    assert (np.abs(starts - 500) < 4 * np.sqrt(500)).all()


def test_one_limit_gives_a_number_and_several_an_array() -> None:
    for name, kind in (("toy", float), ("queue", np.ndarray)):
        env = CMDPEnv(name)
        env.reset(seed=0)
        cost = env.step(0)[4]["cost"]
        assert type(cost) is kind
        assert np.size(cost) == env.cmdp.m
    free = CMDPEnv(psconrl.make("garnet", m=0))
    free.reset(seed=0)
    assert free.step(0)[4]["cost"].shape == (0,)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_vector_environments(mode: str) -> None:
    envs: VectorEnv[Any, Any, Any] = gymnasium.make_vec("psconrl/Queue-v0", num_envs=2, vectorization_mode=mode)
    try:
        envs.reset(seed=0)
        for _ in range(3):
            _, reward, _, _, info = envs.step(envs.action_space.sample())
        assert info["cost"].shape == (2, 2)
        np.testing.assert_array_equal(reward, -info["main_cost"])
    finally:
        envs.close()


def test_it_can_be_cut_into_episodes() -> None:
    env = gymnasium.make("psconrl/Toy-v0", max_episode_steps=3)
    env.reset(seed=0)
    assert [env.step(0)[2:4] for _ in range(3)] == [(False, False), (False, False), (False, True)]


def test_text_shows_the_agent() -> None:
    env = CMDPEnv("marsrover-4x4", render_mode="ansi")
    env.reset(seed=0)
    env.step(0)
    assert env.render() == (
        "W W W W W W\nW . . G . W\nW . P . P W\nW . P @ P W\nW . . S . W\nW W W W W W\n"
        "state (3, 3) (11 of 16), after up: time 1, risk 1\n"
    )
    box = CMDPEnv("box", render_mode="ansi")
    box.reset(seed=0)
    box.step(1)
    text = box.render()
    assert isinstance(text, str)
    assert text.splitlines()[2:4] == ["W . @ . . W", "W W X . . W"]
    queue = CMDPEnv("queue", render_mode="ansi")
    queue.reset(seed=0)
    assert queue.render() == "state x=0 (1 of 6)\n"


@pytest.mark.parametrize("name", ["marsrover-4x4", "box", "queue", "garnet"])
def test_pixels_follow_the_agent(name: str) -> None:
    env = CMDPEnv(name, render_mode="rgb_array")
    frames: dict[int, Any] = {}
    for seed in range(3):
        s, _ = env.reset(seed=seed)
        for action in (0, 1, 2, 2, 0):
            frame: Any = env.render()
            assert frame.dtype == np.uint8
            assert frame.shape[2] == 3
            np.testing.assert_array_equal(frames.setdefault(s, frame), frame)
            s = env.step(action)[0]
    different = list(frames.values())
    assert len(different) > 1
    assert len({frame.tobytes() for frame in different}) == len(different)


def test_mistakes() -> None:
    with pytest.raises(InvalidArgumentError, match="render_mode is 'loud'"):
        CMDPEnv("toy", render_mode="loud")
    env = CMDPEnv("toy", render_mode="ansi")
    for too_early in (env.render, lambda: env.step(0)):
        with pytest.raises(gymnasium.error.ResetNeeded):
            too_early()
    env.reset(seed=0)
    with pytest.raises(InvalidArgumentError, match=r"action is 2; it must be one of 0, \.\.\., 1"):
        env.step(2)
    with pytest.raises(InvalidArgumentError, match=r"model\.json has no option 'tau'"):
        CMDPEnv("model.json", tau=3)
    with pytest.raises(TypeError, match="3 is not a CMDP"):
        CMDPEnv(3)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="costs is 7; it must be a function"):
        AddCosts(env, 7)  # type: ignore[arg-type]


def test_the_table_is_the_model() -> None:
    env = CMDPEnv("marsrover-4x4", slip=0.2)
    table = CMDP.from_gymnasium(env, costs=lambda s, a, x, r: (-r, 0.0), thresholds=[1.0])
    np.testing.assert_allclose(np.asarray(table.transitions), np.asarray(env.cmdp.transitions), atol=1e-15)
    np.testing.assert_allclose(table.costs[0], env.cmdp.costs[0], atol=1e-15)
    np.testing.assert_array_equal(table.initial, env.cmdp.initial)


def test_agents_learn_in_it_without_being_told_anything() -> None:
    env = CMDPEnv("marsrover-4x4")
    agent = agents.PSConRL(env.cmdp.problem())
    run = psconrl.learn(agent, env, horizon=3000, seed=0, optimum=0.775)
    assert run.cumulative[0, -1] / 3000 == pytest.approx(0.775, abs=0.05)
    assert run.cumulative[1, -1] / 3000 == pytest.approx(0.2, abs=0.05)


def holes(s: int, a: int, x: int) -> bool:
    return x in (5, 7, 11, 12)


def test_costs_for_any_environment() -> None:
    lake = gymnasium.make("FrozenLake-v1", is_slippery=False)
    env = AddCosts(lake, holes, thresholds=0.05)
    model = CMDP.from_gymnasium(env)
    assert model.thresholds.tolist() == [0.05]
    assert model.costs[1, 1, 1] == 1.0
    agent = agents.PSConRL(model.problem(), prior=0.3)
    run = psconrl.learn(agent, env, horizon=1500, seed=0, reward_range=(0, 1))
    fell = run.counts[[1, 3, 4, 6, 8, 10, 14]].sum()
    assert 0 < run.cumulative[1, -1] < fell
    np.testing.assert_array_equal(run.violation, run.cumulative[1:] - 0.05 * run.grid)


def test_the_costs_see_the_whole_step() -> None:
    seen: list[Any] = []

    def costs(*step: Any) -> list[float]:
        seen.append(step)
        return [0.25, 0.5]

    env = AddCosts(gymnasium.make("FrozenLake-v1", is_slippery=False), costs)
    env.reset(seed=0)
    *_, info = env.step(2)
    np.testing.assert_array_equal(info["cost"], [0.25, 0.5])
    s, a, x, reward, terminated, said = seen[0]
    assert (s, a, x, reward, terminated) == (0, 2, 1, 0, False)
    assert "prob" in said
    assert env.spec is not None
    assert env.spec.additional_wrappers[-1].name == "AddCosts"


def test_states_with_fewer_actions() -> None:
    env = gymnasium.make("psconrl/Inventory-v0")
    shop = psconrl.make("inventory")
    s, info = env.reset(seed=0)
    env.action_space.seed(0)
    for _ in range(200):
        np.testing.assert_array_equal(info["action_mask"], shop.available[s])
        s, _, _, _, info = env.step(env.action_space.sample(info["action_mask"]))
    inner: Any = env.unwrapped
    inner._state = 5
    with pytest.raises(InvalidArgumentError, match="action 'order 1' is not available in state '5 left'"):
        env.step(1)
    assert inner._state == 5
    assert [len(own) for own in inner.P.values()] == [6, 5, 4, 3, 2, 1]
    assert "action_mask" not in gymnasium.make("psconrl/Toy-v0").reset(seed=0)[1]


def test_a_table_with_fewer_actions() -> None:
    env = gymnasium.make("psconrl/Inventory-v0")
    found = CMDP.from_gymnasium(env, costs=lambda s, a, x, reward: -reward)
    shop = psconrl.make("inventory")
    np.testing.assert_array_equal(found.available, shop.available)
    np.testing.assert_allclose(found.transitions, shop.transitions, atol=1e-15)
    np.testing.assert_allclose(found.costs[0], shop.costs[0], atol=1e-12)
