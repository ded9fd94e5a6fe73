"""A learner's rules: what breaks one is refused by an error of the project, and leaves the learner as it was."""

from __future__ import annotations

import pickle
import re
import threading
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np
import pytest

from psconrl import CallOrderError, Learner, Problem, PsconrlError, agents, make, simulate
from psconrl.agents import Agent, Memory, Plan
from tests.states import same


def learner(horizon: int = 50, seed: int = 0) -> Learner:
    return Learner(agents.PSConRL(Problem(3, 2, [0.5])), horizon, seed)


def after_steps(n: int, horizon: int = 50) -> tuple[Learner, int]:
    """A learner that has seen n steps of a walk round three states, and where it is."""
    found, s = learner(horizon), 0
    for _ in range(n):
        a = found.act(s)
        found.observe(s, a, [0.5, float(a)], (s + 1) % 3)
        s = (s + 1) % 3
    return found, s


def kind(value: object) -> str:
    """A name that is the same in every process."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


WRONG_STATES = (-1, 3, 99, 2**70, 1.0, np.nan, "0", None, True, [0], np.array([0]), object())
WRONG_COSTS: tuple[Any, ...] = (
    *([np.nan, 0.0], [0.0, np.inf], [-0.1, 0.0], [0.0, 1.1], [0.5], [0.5, 0.5, 0.5], [[0.5, 0.5]], 0.5, None),
    *("ab", ["0.1", "0.2"], [0.5, None], [1j, 0], [[1], [2, 3]], {}, object()),
)


@pytest.mark.parametrize("wrong", WRONG_STATES, ids=kind)
def test_states_and_actions_are_checked_before_anything_is_counted(wrong: Any) -> None:
    found, s = after_steps(7)
    a = found.act(s)
    before = found.state()
    calls: list[Callable[[], Any]] = [
        lambda: found.act(wrong),
        lambda: found.observe(wrong, a, [0.5, 0.5], 0),
        lambda: found.observe(s, wrong, [0.5, 0.5], 0),
        lambda: found.observe(s, a, [0.5, 0.5], wrong),
    ]
    for call in calls:
        with pytest.raises(PsconrlError, match=r"(s|a|s_next) is .*; it must be one of 0, \.\.\., [12]"):
            call()
        assert same(found.state(), before)
    found.observe(s, a, [0.5, 0.5], 0)
    assert found.t == 8


@pytest.mark.parametrize("wrong", WRONG_COSTS, ids=kind)
def test_costs_are_checked_before_anything_is_counted(wrong: Any) -> None:
    found, s = after_steps(7)
    a = found.act(s)
    before = found.state()
    with pytest.raises(PsconrlError, match=r"costs.* is "):
        found.observe(s, a, wrong, 0)
    assert same(found.state(), before)
    found.observe(s, a, [0.0, 1.0], 0)


def test_a_step_is_observed_after_it_was_asked_for_and_once() -> None:
    found = learner()
    with pytest.raises(CallOrderError, match="only after act"):
        found.observe(0, 0, [0.5, 0.5], 1)
    a = found.act(0)
    with pytest.raises(CallOrderError, match=r"s is 1, but act was asked in 0; call act\(1\) first"):
        found.observe(1, a, [0.5, 0.5], 2)
    found.observe(0, a, [0.5, 0.5], 1)
    before = found.state()
    with pytest.raises(CallOrderError, match="only once"):
        found.observe(0, a, [0.5, 0.5], 1)
    assert same(found.state(), before)


def test_asked_again_in_the_same_state_it_gives_the_same_action() -> None:
    """A lost answer may be asked for again; it takes no random number."""
    found, s = after_steps(11)
    twin, _ = after_steps(11)
    a = found.act(s)
    before = found.state()
    assert [found.act(s) for _ in range(20)] == [a] * 20
    assert same(found.state(), before)
    assert twin.act(s) == a


def test_asked_in_another_state_it_forgets_the_step_before() -> None:
    found, s = after_steps(11)
    found.act(s)
    a = found.act((s + 1) % 3)
    with pytest.raises(CallOrderError):
        found.observe(s, a, [0.5, 0.5], 0)
    found.observe((s + 1) % 3, a, [0.5, 0.5], 0)
    assert found.t == 12


def test_an_action_that_was_overruled_is_counted_as_the_one_taken() -> None:
    found, s = after_steps(11)
    taken = 1 - found.act(s)
    before = found.visits.copy()
    found.observe(s, taken, [0.25, 1.0], 2)
    assert found.visits[s, taken] == before[s, taken] + 1
    assert found.visits.sum() == before.sum() + 1
    assert found.counts[s, taken, 2] >= 1


def test_the_horizon_is_the_end() -> None:
    found, s = after_steps(5, horizon=5)
    before = found.state()
    with pytest.raises(CallOrderError, match="the horizon of 5 steps is over"):
        found.act(s)
    with pytest.raises(CallOrderError):
        found.observe(s, 0, [0.5, 0.5], 0)
    assert same(found.state(), before)


def test_threads_take_turns() -> None:
    """Eight threads at one learner: every step that was taken in is whole, whatever was refused."""
    found = learner(horizon=2000)
    failures: list[BaseException] = []

    def work(number: int) -> None:
        rng = np.random.default_rng(number)
        for _ in range(100):
            s = int(rng.integers(3))
            try:
                found.observe(s, found.act(s), rng.random(2), int(rng.integers(3)))
            except CallOrderError:
                pass  # another thread asked in between
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert found.t == found.visits.sum() == found.counts.sum() > 0
    again = Learner.restore(found.agent, found.state())
    assert same(again.state(), found.state())


def test_a_learner_is_copied_and_pickled_by_its_state() -> None:
    found, s = after_steps(11)
    found.act(s)
    for twin in (deepcopy(found), pickle.loads(pickle.dumps(found))):
        assert same(twin.state(), found.state())


def damaged() -> list[tuple[str, Any]]:
    """Parts of a state with something else in them."""
    state = after_steps(20)[0].state()
    head, link, target, number, used = state["counts"]

    def changed(array: Any, at: Any, value: Any) -> Any:
        copy = array.copy()
        copy[at] = value
        return copy

    policy = state["plan"]["policy"] if state["plan"] else np.full((1, 3, 2), 0.5)
    plan = {"policy": policy, "max_length": 3, "count_limit": None, "phase": "exploit", "feasible": True}
    plan |= {"value": 0.5, "connected": True, "solver": "", "carry": {}, "steered": None, "multipliers": None}
    cycle = changed(link, 0, 0)
    return [
        *((key, None) for key in state if key not in ("plan", "asked", "states")),
        *((key, object()) for key in state),
        *((key, -1) for key in state),
        ("horizon", 3),
        ("counts", (changed(head, 0, 10**9), link, target, number, used)),
        ("counts", (head, cycle, target, number, used)),
        ("counts", (head, changed(link, 0, 10**12), target, number, used)),
        ("counts", (head, link, changed(target, 0, 99), number, used)),
        ("counts", (head, link, changed(target, 0, -5), number, used)),
        ("counts", (head, link, target, changed(number, 0, -1), used)),
        ("counts", (head, link, target, changed(number, 0, 7), used)),
        ("counts", (head, link, target, number, used + 10**6)),
        ("counts", (head, link, target[:1], number, used)),
        ("counts", (head[:-1], link, target, number, used)),
        ("counts", (head.astype(np.int32), link, target, number, used)),
        ("visits", state["visits"] + 1),
        ("visits", state["visits"].T.copy()),
        ("visits", state["visits"].astype(float)),
        ("cost_sums", state["cost_sums"] * np.nan),
        ("cost_sums", state["cost_sums"] + 100),
        ("cost_sums", -state["cost_sums"]),
        ("cost_sums", state["cost_sums"][:1]),
        ("clock", changed(state["clock"], 0, 10**12)),
        ("clock", changed(state["clock"], 1, -1)),
        ("clock", changed(state["clock"], 2, 77)),
        ("clock", state["clock"][:2]),
        ("streams", state["streams"][:2]),
        ("streams", [{"generator": {}, "at": 1}] * 3),
        ("streams", [{**state["streams"][0], "at": 10**6}, *state["streams"][1:]]),
        ("carry", {"policies": [1, 2]}),
        ("carry", {1: np.zeros(1)}),
        ("rows", [(1, 2)]),
        ("rows", [("a",) * 8]),
        ("snapshots", [(0, np.zeros((1, 9, 9)), state["visits"])]),
        ("snapshots", [(0, policy)]),
        ("plan", {}),
        ("plan", plan | {"policy": policy * 2}),
        ("plan", plan | {"policy": policy[:, :2]}),
        ("plan", plan | {"policy": np.zeros((0, 3, 2))}),
        ("plan", plan | {"policy": policy.astype(np.float32)}),
        ("plan", plan | {"policy": policy.tolist()}),
        ("plan", plan | {"max_length": 0}),
        ("plan", plan | {"count_limit": np.zeros((9, 9), dtype=np.int64)}),
        ("plan", plan | {"colour": 1}),
        ("plan", plan | {"value": (1, 2)}),
        ("plan", plan | {"multipliers": np.zeros(4)}),
        ("plan", plan | {"feasible": "yes"}),
        ("plan", plan | {"phase": None}),
        ("plan", plan | {"policy": (1, np.zeros(2), [])}),
        ("streams", [*state["streams"][:2], np.int64(3)]),
        ("streams", [*state["streams"][:2], dict(state["streams"][2], state=7)]),
        ("agent", {}),
        ("agent", dict(state["agent"], settings=[])),
        ("states", ["a", "b", "c"]),
        ("asked", (0, 5)),
        ("asked", (9, 0)),
    ]


@pytest.mark.parametrize(("part", "value"), damaged(), ids=lambda value: value if isinstance(value, str) else "")
def test_a_damaged_state_is_refused(part: str, value: Any) -> None:
    found, s = after_steps(20)
    found.act(s)
    state = found.state()
    with pytest.raises(PsconrlError):
        Learner.restore(found.agent, state | {part: value})
    assert same(Learner.restore(found.agent, state).state(), state)


def test_a_state_without_a_part_is_refused() -> None:
    found, _ = after_steps(20)
    for part, state in [(part, found.state()) for part in found.state()]:
        del state[part]
        with pytest.raises(PsconrlError, match=f"the state has no '{part}'"):
            Learner.restore(found.agent, state)


@pytest.mark.parametrize("key", ["learner", "totals", "curves", "agent", "optimum", "evaluate_policies"])
def test_a_run_goes_on_from_no_damaged_state(key: str) -> None:
    toy = make("toy")
    agent = agents.Uniform(toy.problem())
    state = simulate(agent, toy, 60, 0, stop=20).state
    for wrong in (None, object(), -1, {}, [], np.zeros(1), np.zeros((2, 2, 60), dtype=np.float32)):
        with pytest.raises(PsconrlError):
            simulate(agent, toy, 60, 0, state=state | {key: wrong})
    moved = dict(state["learner"], clock=state["learner"]["clock"] + np.array([0, 0, 0, 5, 0]))
    with pytest.raises(PsconrlError, match="checkpoints"):
        simulate(agent, toy, 60, 0, state=state | {"learner": moved})
    assert simulate(agent, toy, 60, 0, state=state).counts.sum() == 60


class Given(Agent):
    """Plans with what a test gives."""

    def __init__(self, problem: Problem, plan: Any) -> None:
        object.__setattr__(self, "problem", problem)
        object.__setattr__(self, "given", plan)

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        return self.given  # type: ignore[attr-defined]


HALF = np.full((1, 3, 2), 0.5)


@pytest.mark.parametrize(
    "plan",
    [
        *(None, "uniform", Plan(None), Plan(HALF[0]), Plan(HALF.tolist()), Plan(HALF.astype(int)), Plan(HALF * np.nan)),  # type: ignore[arg-type]
        *(Plan(HALF, max_length=0), Plan(HALF, max_length=1.5), Plan(HALF, count_limit=np.zeros((3, 2)))),  # type: ignore[arg-type]
        *(Plan(HALF, multipliers=np.zeros(3)), Plan(HALF, multipliers=[0.5]), Plan(HALF, multipliers=np.zeros(1, int))),  # type: ignore[arg-type]
        Plan(np.zeros((0, 3, 2))),
    ],
    ids=lambda plan: type(plan).__name__,
)
def test_a_plan_that_is_none_is_refused(plan: Any) -> None:
    found = Learner(Given(Problem(3, 2, [0.5]), plan), 10, 0)
    with pytest.raises(PsconrlError, match=r"[Pp]lan"):
        found.act(0)
    assert found.t == 0
    assert found.current is None
