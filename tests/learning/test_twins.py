"""The compiled loop, its plain twin, the act / observe loop and cut runs all give the same bits."""

import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psconrl import CMDP, agents, make
from psconrl.agents import Agent
from psconrl.learning import Run, simulate
from tests.learning.walk import walk

ENVIRONMENTS = ["marsrover-4x4", "marsrover-8x8", "box", "toy", "queue", "garnet", "dirichlet"]
NAMES = list(agents.registry())
SLIP: dict[str, Any] = {"slip": 0.2}


def build(name: str, cmdp: CMDP, costs: str = "known") -> Agent:
    special: dict[str, dict[str, Any]] = {"C-UCRL": {"h": 4}, "Optimal": {"model": cmdp}}
    parameters = special.get(name, {})
    return agents.find(name)(cmdp.problem(costs), **parameters)  # type: ignore[arg-type]


def steps(name: str, env: str) -> int:
    """Plans over confidence sets are slow: few steps; in the large models a plan or two."""
    if name in ("UCRL-CMDP", "FHA"):
        return 5 if env in ("marsrover-8x8", "box") else 16
    return 40


def assert_same(a: Run, b: Run) -> None:
    """All that a run leaves behind, bit by bit."""
    counts = [run.counts if isinstance(run.counts, np.ndarray) else run.counts.toarray() for run in (a, b)]
    np.testing.assert_array_equal(counts[0].ravel(), counts[1].ravel())
    for field in ("grid", "cumulative", "cumulative_excess"):
        np.testing.assert_array_equal(getattr(a, field), getattr(b, field), err_msg=field)
    assert a.episodes.dtype == b.episodes.dtype
    for column in a.episodes.dtype.names or ():
        np.testing.assert_array_equal(a.episodes[column], b.episodes[column], err_msg=column)
    assert len(a.snapshots) == len(b.snapshots)
    for one, other in zip(a.snapshots, b.snapshots, strict=True):
        assert one.start == other.start
        np.testing.assert_array_equal(one.policy, other.policy)
        np.testing.assert_array_equal(one.visits, other.visits)


@pytest.mark.parametrize("env", ENVIRONMENTS)
@pytest.mark.parametrize("name", NAMES)
def test_compiled_and_plain_loops_agree(name: str, env: str) -> None:
    cmdp = make(env)
    agent, T = build(name, cmdp), steps(name, env)
    assert_same(
        simulate(agent, cmdp, T, 5, optimum=0.3),
        simulate(agent, cmdp, T, 5, optimum=0.3, compiled=False),
    )


@pytest.mark.parametrize("name", NAMES)
def test_twins_with_costs_per_move_and_estimated_costs(name: str) -> None:
    cmdp = make("marsrover-4x4", **SLIP)
    assert cmdp.move_costs is not None
    agent, T = build(name, cmdp, "estimated"), steps(name, "marsrover-4x4")
    whole = simulate(agent, cmdp, T, 6)
    assert_same(whole, simulate(agent, cmdp, T, 6, compiled=False))
    sparse = simulate(agent, cmdp.to_sparse(), T, 6)
    if name != "Optimal":  # a sparse model is solved in another order
        assert_same(whole, sparse)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_runs_cut_at_random_steps_go_on_unchanged(name: str, compiled: bool) -> None:
    cmdp = make("dirichlet")
    agent, T = build(name, cmdp, "estimated"), 30 if name in ("UCRL-CMDP", "FHA") else 60
    whole = simulate(agent, cmdp, T, 7, optimum=0.3, evaluate_policies=True)
    rng = np.random.default_rng(np.random.SeedSequence(9))
    state: dict[str, Any] | None = None
    for stop in [*sorted(rng.integers(1, T, 4).tolist()), T]:
        again = build(name, cmdp, "estimated")
        part = simulate(
            again, cmdp, T, 7, optimum=0.3, evaluate_policies=True, stop=stop, state=state, compiled=compiled
        )
        assert part.counts.sum() == stop
        state = pickle.loads(pickle.dumps(part.state))
    assert_same(whole, part)


def test_a_state_is_not_changed_by_going_on() -> None:
    cmdp = make("toy")
    agent = build("PSConRL", cmdp)
    half = simulate(agent, cmdp, 100, 1, stop=37)
    before = pickle.dumps(half.state)
    first = simulate(agent, cmdp, 100, 1, state=half.state)
    assert pickle.dumps(half.state) == before
    assert_same(first, simulate(agent, cmdp, 100, 1, state=half.state))


def test_the_learner_is_restored_at_any_step() -> None:
    from psconrl import Learner

    cmdp = make("toy")
    agent = build("PSConRL", cmdp)
    way = walk(agent, cmdp, 60, 3)
    learner = Learner(agent, 60, 3)
    learner.environment.random()
    for s, a, x, c in zip(way.states, way.actions, way.next_states, way.costs, strict=True):
        learner.environment.random()
        learner = Learner.restore(agent, pickle.loads(pickle.dumps(learner.state())))
        assert learner.act(int(s)) == a
        learner = Learner.restore(agent, learner.state())
        learner.observe(int(s), int(a), c, int(x))
    np.testing.assert_array_equal(learner.counts, way.learner.counts)
    assert [row[:2] for row in learner.rows] == [row[:2] for row in way.learner.rows]


CONTINUE = """
import pickle, sys
from psconrl import agents, make, simulate
cmdp = make("marsrover-4x4", slip=0.2)
with open(sys.argv[1], "rb") as file:
    states = pickle.load(file)
runs = {}
for name, state in states.items():
    agent = agents.find(name)(cmdp.problem("estimated"))
    runs[name] = simulate(agent, cmdp, 60, 8, state=state)
with open(sys.argv[1], "wb") as file:
    pickle.dump(runs, file)
"""


def test_another_process_goes_on_with_the_same_bits(tmp_path: Path) -> None:
    cmdp = make("marsrover-4x4", **SLIP)
    names = ["PSConRL", "ConRL", "CMDP-PSRL", "C-UCRL", "Uniform"]
    fresh = {name: agents.find(name)(cmdp.problem("estimated")) for name in names}
    whole = {name: simulate(agent, cmdp, 60, 8) for name, agent in fresh.items()}
    states = {name: simulate(agent, cmdp, 60, 8, stop=23).state for name, agent in fresh.items()}
    file = tmp_path / "states"
    file.write_bytes(pickle.dumps(states))
    subprocess.run([sys.executable, "-c", CONTINUE, str(file)], check=True, timeout=120)
    for name, run in pickle.loads(file.read_bytes()).items():
        assert_same(run, whole[name])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("env", ["dirichlet", "marsrover-4x4"])
def test_act_and_observe_walk_the_same_way(name: str, env: str) -> None:
    """See `walk`: the same model, fed with the numbers of the environment's stream."""
    cmdp = make(env, **SLIP) if env.startswith("mars") else make(env)
    agent, T = build(name, cmdp, "estimated"), steps(name, env)
    run, way = simulate(agent, cmdp, T, 11), walk(agent, cmdp, T, 11)
    np.testing.assert_array_equal(run.counts, way.learner.counts)
    np.testing.assert_array_equal(run.cumulative, np.cumsum(way.costs, axis=0).T)
    assert run.episodes["start"].tolist() == way.starts
    np.testing.assert_array_equal(run.policy, way.learner.snapshots[-1].policy)


def test_seeds_matter_and_repeat() -> None:
    cmdp = make("dirichlet")
    agent = build("PSConRL", cmdp)
    one, again, other = (simulate(agent, cmdp, 200, seed) for seed in (1, 1, 2))
    assert_same(one, again)
    assert (one.counts != other.counts).any()
