"""Learners on disk: what is saved goes on bit for bit, and what is damaged, foreign or another's is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from psconrl import CallOrderError, Learner, LearnerFileError, Problem, PsconrlError, agents, make
from psconrl.agents import Agent
from psconrl.learning.state_io import pack, unpack
from tests.states import same

TOY = make("toy")


def walked(agent: Agent, steps: int, horizon: int = 60) -> tuple[Learner, int]:
    """A learner after some steps of the toy, and where it is."""
    learner, s = Learner(agent, horizon, 5), 0
    for _ in range(steps):
        s = step(learner, s)
    return learner, s


def step(learner: Learner, s: int) -> int:
    a = learner.act(s)
    x = int(s == 0 and a == 1)
    learner.observe(s, a, [float(s), 1.0 - s], x)
    return x


@pytest.mark.parametrize("name", [name for name, agent in agents.registry().items() if not agent.sees_model])
@pytest.mark.parametrize("steps", [0, 1, 30, 60])
def test_a_saved_learner_goes_on_bit_for_bit(name: str, steps: int, tmp_path: Path) -> None:
    kind: Any = agents.find(name)
    learner, s = walked(kind(TOY.problem()), steps)
    learner.save(tmp_path / "learner.npz")
    twin = Learner.load(tmp_path / "learner.npz", kind(TOY.problem()))
    assert same(twin.state(), learner.state())
    r = s
    for _ in range(60 - steps):
        s, r = step(learner, s), step(twin, r)
    assert same(twin.state(), learner.state())


def test_between_act_and_observe_it_can_be_saved_too(tmp_path: Path) -> None:
    learner, s = walked(agents.PSConRL(TOY.problem()), 31)
    a = learner.act(s)
    learner.save(tmp_path / "learner.npz")
    twin = Learner.load(tmp_path / "learner.npz", learner.agent)
    assert twin.act(s) == a
    assert same(twin.state(), learner.state())


@pytest.mark.parametrize(
    "value",
    [
        *(
            None,
            True,
            False,
            0,
            -1,
            2**62,
            2**63,
            -(2**70),
            10**60,
            0.1,
            -0.0,
            1e308,
            "",
            "é\x00",
            "\ud800",
            b"",
            b"\x00\xff",
        ),
        *((), (1, ("a", (None,))), [], [1, [2]], {}, {"a": {"b": (1,)}}, {"array": 1}, {"tuple": [1]}),
    ],
    ids=repr,
)
def test_values_come_back_as_they_were(value: Any) -> None:
    found = unpack(*pack({"value": value}))["value"]
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize("kind", ["<i8", "<f8", ">f8", "<f4", "|b1", "<u2", "<i4"])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 3), (2, 0, 4)])
def test_arrays_come_back_as_they_were(kind: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape, dtype=int), dtype=np.int64).reshape(shape).astype(kind)
    found = unpack(*pack({"a": array, "b": array.T}))
    np.testing.assert_array_equal(found["a"], array)
    np.testing.assert_array_equal(found["b"], array.T)
    assert found["a"].dtype == array.dtype.newbyteorder("<")
    assert found["a"].flags.writeable
    special = np.array([np.nan, -0.0, np.inf, 5e-324])
    assert unpack(*pack({"a": special}))["a"].tobytes() == special.tobytes()


class Odd:
    """A name that only its class can make."""


@pytest.mark.parametrize("name", [Odd(), frozenset({1}), ("a", Odd()), 1j], ids=["class", "set", "tuple", "complex"])
def test_names_that_no_file_holds_are_refused_and_the_old_file_stays(name: Any, tmp_path: Path) -> None:
    learner = Learner(agents.PSConRL(Problem(None, 2, [0.5])), 10, 0)
    learner.observe(0, learner.act(0), [0.5, 0.5], 1)
    learner.save(tmp_path / "learner.npz")
    before = (tmp_path / "learner.npz").read_bytes()
    learner.observe(1, learner.act(1), [0.5, 0.5], name)
    with pytest.raises(PsconrlError, match=r"cannot be saved; names of states may be text, numbers"):
        learner.save(tmp_path / "learner.npz")
    assert (tmp_path / "learner.npz").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["learner.npz"]
    assert learner.observe(name, learner.act(name), [0.5, 0.5], 0) in (True, False)


def test_a_name_that_is_too_deep_is_refused(tmp_path: Path) -> None:
    name: Any = "x"
    for _ in range(20):
        name = (name,)
    learner = Learner(agents.Uniform(Problem(None, 2)), 10, 0)
    learner.act(name)
    with pytest.raises(PsconrlError, match="nested more than 12 levels"):
        learner.save(tmp_path / "learner.npz")


OTHERS: dict[str, Any] = {
    "prior": lambda: agents.PSConRL(TOY.problem(), prior=0.02),
    "TSDE": lambda: agents.TSDE(TOY.problem()),
    "A = ": lambda: agents.PSConRL(Problem(2, 3, TOY.thresholds)),
    "thresholds": lambda: agents.PSConRL(TOY.replace(thresholds=[0.7]).problem()),
    "costs": lambda: agents.PSConRL(TOY.problem("known")),
    "cost_ranges": lambda: agents.PSConRL(TOY.problem(cost_ranges=[(0, 2), (0, 2)])),
    "action_names": lambda: agents.PSConRL(TOY.replace(action_names=["x", "y"]).problem()),
    "S = ": lambda: agents.PSConRL(Problem(None, 2, TOY.thresholds, action_names=TOY.action_names)),
}


@pytest.mark.parametrize("told", OTHERS)
def test_another_agent_is_refused(told: str, tmp_path: Path) -> None:
    learner, _ = walked(agents.PSConRL(TOY.problem()), 20)
    learner.save(tmp_path / "learner.npz")
    other = OTHERS[told]()
    with pytest.raises(LearnerFileError, match=rf"learner\.npz: .*{told}"):
        Learner.load(tmp_path / "learner.npz", other)
    with pytest.raises(PsconrlError, match=told):
        Learner.restore(other, learner.state())
    with pytest.raises(PsconrlError, match="agent is None"):
        Learner.load(tmp_path / "learner.npz", None)  # type: ignore[arg-type]


def test_equal_arrays_are_equal_settings_and_others_are_not(tmp_path: Path) -> None:
    mask = np.ones((2, 2, 2), dtype=bool)
    learner, _ = walked(agents.PSConRL(TOY.problem(), prior=mask), 20)
    learner.save(tmp_path / "learner.npz")
    Learner.load(tmp_path / "learner.npz", agents.PSConRL(TOY.problem(), prior=mask.copy()))
    mask[1, 1, 1] = False
    with pytest.raises(LearnerFileError, match="PSConRL with prior = "):
        Learner.load(tmp_path / "learner.npz", agents.PSConRL(TOY.problem(), prior=mask))


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    agent = agents.PSConRL(TOY.problem())
    learner, _ = walked(agent, 20)
    path = tmp_path / "learner.npz"
    learner.save(path)
    good = path.read_bytes()
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    contents: list[Any] = [good[:-40], b"", good.replace(b"document", b"docxment", 1)]
    for name, array in arrays.items():
        damaged = array.copy()
        damaged[len(damaged) // 2] ^= 1
        contents += [arrays | {name: damaged}, arrays | {name: array[:-1]}, arrays | {name: np.zeros(3)}]
    for content in contents:
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            np.savez(path, **content)
        with pytest.raises(LearnerFileError, match=r"learner\.npz"):
            Learner.load(path, agent)
    TOY.save(path)
    with pytest.raises(LearnerFileError, match=r"learner\.npz"):
        Learner.load(path, agent)
    for wrong in (tmp_path / "learner.txt", None):
        with pytest.raises(PsconrlError):
            learner.save(wrong)  # type: ignore[arg-type]


def test_documents_of_other_formats_are_refused() -> None:
    document, data = pack({"a": np.zeros(4)})
    parsed = json.loads(document)
    for change in ({"format": "psconrl.cmdp"}, {"format": True}, {"state": {"code": "exit()"}}):
        with pytest.raises(PsconrlError):
            unpack(json.dumps(parsed | change).encode(), data)


def test_a_learner_goes_on_past_its_horizon() -> None:
    learner, s = walked(agents.PSConRL(TOY.problem()), 60)
    with pytest.raises(CallOrderError):
        learner.act(s)
    with pytest.raises(PsconrlError):
        learner.extend(59)
    learner.extend(90)
    for _ in range(30):
        s = step(learner, s)
    assert learner.t == learner.status()["steps"] == learner.status()["horizon"] == 90
    assert same(Learner.restore(learner.agent, learner.state()).state(), learner.state())


def test_the_status_is_that_of_the_steps() -> None:
    learner, _ = walked(agents.PSConRL(TOY.problem()), 50)
    status = learner.status()
    limit = status["limits"][TOY.cost_names[1]]
    assert limit["limit"] == TOY.thresholds[0]
    assert limit["average"] == pytest.approx(learner.cost_sums[1].sum() / 50)
    assert limit["excess"] == pytest.approx(learner.cost_sums[1].sum() - 50 * TOY.thresholds[0])
    assert status["plans"] == len(learner.episode_rows())
    assert 0 <= status["infeasible_plans"] <= status["plans"]
    json.dumps(status)


def test_no_document_asks_for_more_than_the_file_holds() -> None:
    """Arrays follow on each other in the data, so that a short text cannot stand for much."""
    document, data = pack({"a": np.zeros(4), "b": np.zeros(4)})
    twice = document.replace(b'"b"', b'"c": {"array": ["<f8", [4]]}, "b"')
    for wrong in (twice, document.replace(b"[4]", b"[1000000000000]"), document.replace(b"[4]", b"[-4]")):
        with pytest.raises(PsconrlError):
            unpack(wrong, data)


def test_the_status_before_the_first_step() -> None:
    status = Learner(agents.PSConRL(TOY.problem()), 10).status()
    assert (status["steps"], status["plans"], status["infeasible_plans"], status["conflict"]) == (0, 0, 0, [])
    assert status["limits"][TOY.cost_names[1]]["excess"] == 0.0
