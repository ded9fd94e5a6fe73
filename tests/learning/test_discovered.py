"""States that are discovered: every agent learns in them as in those that were declared."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete, Text

from psconrl import CMDP, CMDPEnv, Learner, Problem, PsconrlError, agents, evaluate, learn, make, simulate, solve
from psconrl.agents import Agent, Memory, Plan
from tests.learning.walk import walk
from tests.states import same

NAMES = [name for name, agent in agents.registry().items() if not agent.sees_model]
GRID = make("marsrover-4x4", slip=0.1)


def made(name: str, problem: Problem, **settings: Any) -> Agent:
    kind: Any = agents.find(name)
    return kind(problem, **({"H": 3} if name == "FHA" else {}), **settings)


def unknown(cmdp: CMDP) -> Problem:
    return Problem(None, cmdp.A, cmdp.thresholds)


class ByText:
    """A learner that is told of states by other names than the numbers that a model gives them."""

    def __init__(self, learner: Learner) -> None:
        self.learner = learner

    def walk(self, cmdp: CMDP, steps: int, rng: np.random.Generator) -> None:
        p, s = np.asarray(cmdp.to_dense().transitions), 0
        for _ in range(steps):
            a = self.learner.act(self.name(s))
            x = int(rng.choice(cmdp.S, p=p[s, a]))
            self.learner.observe(self.name(s), a, cmdp.costs[:, s, a], self.name(x))
            s = x

    @staticmethod
    def name(s: int) -> Any:
        return (f"state {s}", (s % 3, None)) if s % 2 else f"state {s}"


@pytest.mark.parametrize("name", NAMES)
def test_the_contract_holds(name: str) -> None:
    agents.check_agent(made(name, Problem(None, 2, [0.6])))


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_simulate_is_the_loop_of_a_learner(name: str, compiled: bool) -> None:
    agent = made(name, unknown(GRID))
    run = simulate(agent, GRID, 150, 4, compiled=compiled)
    steps = walk(agent, GRID, 150, 4)
    mine, other = dict(run.state["learner"]), steps.learner.state()
    for part in ("clock", "asked"):  # the compiled loop counts checkpoints, and asks for nothing
        mine.pop(part), other.pop(part)
    mine["counts"], other["counts"] = (learner_counts(state) for state in (mine, other))
    other["states"] = [GRID.state_names[s] for s in other["states"]]
    assert same(mine, other)
    assert run.state["learner"]["clock"][:3].tolist() == steps.learner.clock[:3].tolist()
    np.testing.assert_allclose(run.cumulative[:, -1], steps.costs.sum(axis=0))
    counts = np.zeros((GRID.S, GRID.A, GRID.S), dtype=int)
    np.add.at(counts, (steps.states, steps.actions, steps.next_states), 1)
    np.testing.assert_array_equal(run.counts, counts)
    seen = dict.fromkeys([int(steps.states[0]), *map(int, steps.next_states)])
    assert list(mine["states"]) == [GRID.state_names[s] for s in seen]


def learner_counts(state: dict[str, Any]) -> list[Any]:
    """Counts but for what lies unused beside them."""
    *chains, used = state["counts"]
    return [chains[0], *(array[:used] for array in chains[1:]), used]


@pytest.mark.parametrize("name", NAMES)
def test_what_states_are_called_changes_nothing(name: str) -> None:
    some, other = (ByText(Learner(made(name, unknown(GRID)), 120, 1)) for _ in range(2))
    other.name = lambda s: s  # type: ignore[method-assign]
    for learner in (some, other):
        learner.walk(GRID, 120, np.random.default_rng(3))
    np.testing.assert_array_equal(some.learner.visits, other.learner.visits)
    np.testing.assert_array_equal(some.learner.counts, other.learner.counts)
    assert some.learner.state_names == tuple(map(ByText.name, other.learner.state_names or ()))  # type: ignore[arg-type]


@pytest.mark.parametrize("stop", [1, 2, 40, 149])
@pytest.mark.parametrize("name", [*NAMES, "learned"])
def test_a_run_that_is_cut_goes_on_bit_for_bit(name: str, stop: int) -> None:
    agent = agents.PSConRL(unknown(GRID), prior="learned") if name == "learned" else made(name, unknown(GRID))
    full = simulate(agent, GRID, 150, 2)
    half = simulate(agent, GRID, 150, 2, stop=stop)
    again = simulate(agent, GRID, 150, 2, state=pickle.loads(pickle.dumps(half.state)))
    assert same(again.state, full.state)
    np.testing.assert_array_equal(again.counts, full.counts)
    assert all(same(tuple(a), tuple(b)) for a, b in zip(again.snapshots, full.snapshots, strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_a_learner_that_is_saved_goes_on_bit_for_bit(name: str, tmp_path: Path) -> None:
    problem = Problem(None, ["n", "e", "s", "w"], [0.4], cost_ranges=[(0, 1), (0, 1)])
    learner, straight = (Learner(made(name, problem), 90, 7) for _ in range(2))
    rng, other = np.random.default_rng(0), np.random.default_rng(0)
    s = r = 0
    for t in range(90):
        s, r = _stepped(learner, s, rng), _stepped(straight, r, other)
        if t in (0, 5, 23, 60):
            learner.save(tmp_path / "learner.npz")
            learner = Learner.load(tmp_path / "learner.npz", made(name, problem))
    assert same(learner.state(), straight.state())
    assert learner.state_names == straight.state_names


def _stepped(learner: Learner, s: int, rng: np.random.Generator) -> int:
    """A step in a row of ten states, whose names are of all kinds that a file holds."""
    names: list[Any] = ["zero", ("one", 1), 2, None, 4.5, b"five", ((), ("six",)), True, "", "\x00é"]
    a = learner.act(names[s])
    x = int(rng.integers(10)) if a == "n" else (s + 1) % 10
    learner.observe(names[s], a, [s / 9, float(a == "n")], names[x])
    return x


def test_a_run_in_a_model_has_the_models_numbers() -> None:
    run = simulate(agents.PSConRL(unknown(GRID)), GRID, 400, 0, evaluate_policies=True)
    assert run.state_names == GRID.state_names
    assert run.policy.shape == (1, GRID.S, GRID.A)
    for snapshot in run.snapshots:
        assert snapshot.policy.shape == (1, GRID.S, GRID.A)
        np.testing.assert_allclose(snapshot.policy.sum(axis=2), 1.0)
    # the last plan's row has the exact averages of its policy from where it was made
    visited = np.flatnonzero(run.snapshots[-1].visits.sum(axis=1))
    found = evaluate(GRID, run.policy[0]).average_costs
    assert np.isclose(found.T, run.episodes["average_costs"][-1], atol=1e-9).all(axis=1)[visited].any()


def test_sparse_and_dense_models_give_the_same_run() -> None:
    some, other = (simulate(agents.PSConRL(unknown(GRID)), model, 200, 0) for model in (GRID, GRID.to_sparse()))
    np.testing.assert_array_equal(other.counts.toarray().reshape(some.counts.shape), some.counts)  # type: ignore[union-attr]
    np.testing.assert_array_equal(some.cumulative, other.cumulative)


def test_no_plan_takes_the_unknown_for_a_paradise() -> None:
    """A model whose declared states never occur is learned as quickly as one that does not have them.

    With the ten states declared, PSConRL chases them: they look free of cost. The seeds are fixed.
    """
    toy = make("toy")
    spare = 10
    p = np.zeros((2 + spare, 2, 2 + spare))
    p[:2, :, :2], p[2:, :, 0] = toy.transitions, 1.0
    c = np.ones((2, 2 + spare, 2))
    c[:, :2] = toy.costs
    wide, J = CMDP(p, c, toy.thresholds), solve(toy).value
    runs = [
        [simulate(agents.PSConRL(problem), model, 3000, seed, optimum=J).regret[-1] for seed in range(5)]
        for problem, model in ((unknown(wide), wide), (toy.problem(), toy), (wide.problem(), wide))
    ]
    found, small, declared = (np.mean(np.abs(regrets)) for regrets in runs)
    assert found < 2 * small + 20
    assert declared > 3 * found


def test_in_a_state_that_the_plan_does_not_know_every_action_is_as_likely() -> None:
    """2,000 first steps in new states; chi-square with 3 degrees of freedom, false alarm 1e-6."""
    counts = np.zeros(4)
    for seed in range(2000):
        learner = Learner(agents.FHA(Problem(None, 4), H=5), 10, seed)
        learner.observe("a", learner.act("a"), [0.5], "b")
        counts[learner.act("b")] += 1
        assert learner.current is not None, "the plan goes on"
    assert ((counts - 500) ** 2 / 500).sum() < 30.7


class Long(Agent):
    """Plans that last, with or without limits of counts."""

    counted = False

    def with_problem(self, problem: Problem) -> Long:
        return type(self)(problem)

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        return self.uniform_plan(count_limit=memory.visits + 100 if self.counted else None)


class Counted(Long):
    """With them."""

    counted = True


@pytest.mark.parametrize("kind", [Long, Counted])
def test_plans_that_end_by_counts_end_after_the_first_step_in_a_new_state(kind: type[Long]) -> None:
    learner = Learner(kind(Problem(None, 2)), 1000, 0)
    assert not learner.observe("a", learner.act("a"), [0.5], "b")
    assert learner.observe("b", learner.act("b"), [0.5], "a") is kind.counted
    assert not learner.observe("a", learner.act("a"), [0.5], "a")


@pytest.mark.parametrize("wrong", [[1], np.zeros(2), float("nan"), {}, ("a", [])], ids=repr)
def test_what_is_refused_is_not_discovered(wrong: Any) -> None:
    learner = Learner(agents.PSConRL(Problem(None, 2, [0.5])), 10, 0)
    a = learner.act("a")
    before = learner.state()
    for call in (
        lambda: learner.act(wrong),
        lambda: learner.observe("a", a, [0.5, 0.5], wrong),
        lambda: learner.observe("b", a, [0.5, 0.5], "c"),
        lambda: learner.observe("a", 5, [0.5, 0.5], "c"),
        lambda: learner.observe("a", a, [0.5, 1.5], "c"),
    ):
        with pytest.raises(PsconrlError):
            call()
        assert same(learner.state(), before)
    assert learner.state_names == ("a",)


class Failing(Agent):
    """Cannot plan for two states."""

    def with_problem(self, problem: Problem) -> Failing:
        return Failing(problem)

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        if self.problem.S == 2:
            raise RuntimeError("two states")
        return self.uniform_plan(max_length=1)


def test_an_agent_that_fails_leaves_no_state_behind() -> None:
    learner = Learner(Failing(Problem(None, 2)), 10, 0)
    learner.observe("a", learner.act("a"), [0.5], "a")
    before = learner.state()
    with pytest.raises(RuntimeError, match="two states"):
        learner.act("b")
    assert same(learner.state(), before)
    learner.observe("a", learner.act("a"), [0.5], "a")


@pytest.mark.parametrize(
    ("make_agent", "told"),
    [
        (lambda problem: agents.FHA(problem), "H is None, and the number of states"),
        (
            lambda problem: agents.PSConRL(problem, prior=np.ones((4, 2))),
            "prior is an array, but the states are not known",
        ),
        (lambda problem: agents.Optimal(problem, model=make("toy")), "Optimal knows the states of its model"),
    ],
)
def test_what_needs_the_number_of_states_says_so(make_agent: Any, told: str) -> None:
    with pytest.raises(PsconrlError, match=told):
        make_agent(Problem(None, 2, [0.5]))


def test_states_of_another_model_are_refused() -> None:
    agent = agents.Uniform(unknown(GRID))
    state = simulate(agent, GRID, 20, 0, stop=10).state
    names = state["learner"]["states"]
    for wrong in (["a"] * len(names), names[:-1], [*names[:-1], 99], [*names[:-1], names[0]], None, tuple(names)):
        with pytest.raises(PsconrlError):
            simulate(agent, GRID, 20, 0, state=state | {"learner": state["learner"] | {"states": wrong}})


def test_ten_thousand_states_are_found_in_reasonable_memory() -> None:
    learner = Learner(agents.Uniform(Problem(None, 2)), 10**5, 0)
    for s in range(3000):
        learner.observe(("page", s), learner.act(("page", s)), [0.5], ("page", s + 1))
    assert learner.visits.shape == (3001, 2)
    assert learner.observed.sparse().nnz == 3000


STOCK = make("inventory")


def orders(state: str) -> list[int]:
    """What can be ordered: numbers of actions, by the name of a state of the inventory."""
    return np.flatnonzero(STOCK.available[STOCK.state_names.index(state)]).tolist()


def few() -> Problem:
    return Problem(None, STOCK.A, STOCK.thresholds, available=orders)


@pytest.mark.parametrize("name", [*NAMES, "learned"])
def test_actions_that_differ_by_state_are_asked_for_when_it_is_discovered(name: str) -> None:
    """Every step of the compiled loop and of a learner takes an action that there is; both walk the same way."""
    assert not STOCK.available.all()
    agent = agents.PSConRL(few(), prior="learned") if name == "learned" else made(name, few())
    run = simulate(agent, STOCK, 200, 3, evaluate_policies=True)
    assert np.asarray(run.counts).sum() == 200
    assert not np.asarray(run.counts)[~STOCK.available].any()
    assert all(not snapshot.policy[:, ~STOCK.available].any() for snapshot in run.snapshots)
    learner, s = Learner(agent, 200, 3), int(np.argmax(STOCK.initial))
    p = np.asarray(STOCK.to_dense().transitions)
    rng = np.random.default_rng(0)
    for _ in range(60):
        a = learner.act(STOCK.state_names[s])
        assert STOCK.available[s, a]
        x = int(rng.choice(STOCK.S, p=p[s, a]))
        learner.observe(STOCK.state_names[s], a, STOCK.costs[:, s, a], STOCK.state_names[x])
        s = x
    again = Learner.restore(agent, learner.state())
    assert again.act(STOCK.state_names[s]) == learner.act(STOCK.state_names[s])


def test_learn_asks_for_the_actions_of_observations() -> None:
    by_number = Problem(None, STOCK.A, STOCK.thresholds, available=lambda s: np.flatnonzero(STOCK.available[s]))
    run = learn(agents.PSConRL(by_number), CMDPEnv(STOCK), 100, 0)
    assert run.state_names is not None
    assert not np.asarray(run.counts)[~STOCK.available[np.array(run.state_names)]].any()
    with pytest.raises(PsconrlError, match="does not fit"):
        learn(agents.PSConRL(Problem(None, STOCK.A, STOCK.thresholds)), CMDPEnv(STOCK), 100, 0)
    named = learn(None, CMDPEnv(STOCK), 50, 0)
    assert (named.state_names, named.action_names) == (STOCK.state_names, STOCK.action_names)


def test_an_action_that_a_state_does_not_have_is_refused() -> None:
    problem = Problem(None, ["wait", "sell"], available=lambda s: ["wait", "sell"] if s == "full" else ["wait"])
    learner = Learner(agents.Uniform(problem), 100, 0)
    assert {learner.act("empty") for _ in range(3)} == {"wait"}
    before = learner.state()
    with pytest.raises(PsconrlError, match="sell"):
        learner.observe("empty", "sell", [0.5], "full")
    assert same(learner.state(), before)
    learner.observe("empty", "wait", [0.5], "full")
    assert learner.pairs.available.tolist() == [[True, False], [True, True]]


@pytest.mark.parametrize("offered", [[], [2], [-1], ["fly"], None, 3, [[]], [True]], ids=repr)
def test_functions_that_give_no_actions_are_refused(offered: Any) -> None:
    learner = Learner(agents.Uniform(Problem(None, 2, available=lambda s: offered)), 10, 0)
    before = learner.state()
    with pytest.raises(PsconrlError, match=r"available\('a'\)"):
        learner.act("a")
    assert same(learner.state(), before)
    with pytest.raises(PsconrlError, match="available is given, but S is None"):
        Problem(None, 2, available=np.ones((1, 2)))
    with pytest.raises(PsconrlError, match=r"available\(0\)"):
        Problem(2, 2, available=lambda s: offered)


def test_actions_by_state_as_a_table_a_function_or_a_mask() -> None:
    table = {"empty": ["wait"], "full": ["wait", "sell"]}
    discovered = Problem(None, ["wait", "sell"], available=table)
    assert [discovered.available_actions(s).tolist() for s in ("empty", "half", "full")] == [
        [True, False],
        [True, True],
        [True, True],
    ]
    assert pickle.loads(pickle.dumps(discovered)).available_actions("empty").tolist() == [True, False]
    table["empty"].append("sell")
    mask = [[True, False], [True, True], [True, True]]
    states = ["empty", "half", "full"]
    for given in ({"empty": ["wait"]}, {"empty": [0], "full": [1, 0]}, lambda s: [0] if s == "empty" else [0, 1], mask):
        known = Problem(states, ["wait", "sell"], available=given)
        assert known.available.tolist() == mask
        assert known.available_function is None
    assert Problem(3, 2, available={0: [0]}).available.tolist() == mask
    with pytest.raises(PsconrlError, match="available has 'emty', which is none of the states"):
        Problem(states, 2, available={"emty": [0]})


class Words(gymnasium.Env[Any, Any]):
    """A walk on a circle whose observations are whatever a test wants."""

    action_space = Discrete(2, start=1)

    def __init__(self, show: Any, space: Any) -> None:
        self.show, self.observation_space = show, space

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        self.s = 0
        return self.show(0), {}

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.s = (self.s + 2 * action - 3) % 5
        return self.show(self.s), float(self.s == 3), self.s == 3, False, {"cost": float(action == 2)}


SHOWN = {
    "text": (lambda s: "abcde"[s], Text(1), "a"),
    "array": (lambda s: np.array([s, 2 * s]), Box(0, 10, (2,)), (0, 0)),
    "floats": (lambda s: np.array([[s / 4]], dtype=np.float32), Box(0, 1, (1, 1)), ((0.0,),)),
    "dict": (lambda s: {"x": np.int64(s), "y": [s]}, None, (("x", 0), ("y", (0,)))),
    "number": (lambda s: 10 + s, Discrete(5, start=10), 10),
}


@pytest.mark.parametrize("kind", SHOWN)
def test_learn_takes_any_observations(kind: str) -> None:
    show, space, first = SHOWN[kind]
    run = learn(agents.PSConRL(Problem(None, 2, [0.6])), Words(show, space), 300, 0, reward_range=(0, 1))
    assert run.state_names is not None
    assert run.state_names[0] == first
    assert len(run.state_names) == 4, "the terminal state is never acted in"
    assert run.policy.shape == (1, 4, 2)
    assert np.asarray(run.counts).shape == (4, 2, 4)
    plain = learn(agents.PSConRL(Problem(None, 2, [0.6])), Words(lambda s: s, None), 300, 0, reward_range=(0, 1))
    np.testing.assert_array_equal(run.counts, plain.counts)
    again = Learner.restore(agents.PSConRL(Problem(None, 2, [0.6])), run.state["learner"])
    assert again.state_names == run.state_names


def test_learn_says_what_other_observations_need() -> None:
    env = Words(lambda s: "abcde"[s], Text(1))
    with pytest.raises(
        PsconrlError, match=re.escape("learn needs discrete ones, or an agent for Problem(None, 2, thresholds)")
    ):
        learn(agents.PSConRL(Problem(5, 2, [0.6])), env, 10, 0)
    odd = Words(lambda s: {1, 2}, None)
    with pytest.raises(
        PsconrlError, match=r"the observation that env\.reset\(\) gave is \{1, 2\}; it must be hashable"
    ):
        learn(agents.PSConRL(Problem(None, 2, [0.6])), odd, 10, 0)


def test_learn_without_an_agent_takes_the_recommended_one() -> None:
    run = learn(None, Words(lambda s: "abcde"[s], Text(1)), 50, 0, costs=lambda s, a, x: [0.5])
    assert run.thresholds.shape == (0,)
    assert run.state_names is not None
    given = learn(None, Words(lambda s: s, Discrete(5)), 50, 0, reward_range=(0, 1), problem=Problem(5, 2, [0.6]))
    assert given.thresholds.tolist() == [0.6]
    assert Learner(None, problem=Problem(None, 2)).act("a") in (0, 1)
    with pytest.raises(PsconrlError, match="agent"):
        Learner(None)
    with pytest.raises(PsconrlError, match="problem"):
        Learner(agents.Uniform(Problem(2, 2)), 10, 0, problem=Problem(2, 2))


def test_declared_names_of_a_discrete_environment() -> None:
    env = Words(lambda s: s, Discrete(5))
    run = learn(agents.PSConRL(Problem([20, 21, 22, 23, 24], ["back", "on"], [0.6])), env, 100, 0, reward_range=(0, 1))
    assert (run.state_names, run.action_names) == ((20, 21, 22, 23, 24), ("back", "on"))
    named = run.named_policy
    assert list(named) == [20, 21, 22, 23, 24]
    for k, row in enumerate(named.values()):
        assert [row.get("back", 0.0), row.get("on", 0.0)] == run.policy[0, k].tolist()
    plain = learn(agents.PSConRL(Problem(5, 2, [0.6])), env, 100, 0, reward_range=(0, 1))
    np.testing.assert_array_equal(run.counts, plain.counts)
