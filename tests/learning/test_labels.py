"""Names and numbers of states and actions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from psconrl import CallOrderError, Learner, Problem, PsconrlError, agents, make
from psconrl.learning.labels import Found, Labels


class Odd:
    """Its comparison fails."""

    def __hash__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return NotImplemented.nothing


def test_numbers_are_whole_and_in_range() -> None:
    numbering = Labels(3)
    found = [numbering.find(value, "s") for value in (0, 2, np.int64(1), np.uint8(2))]
    assert found == [(0, False), (2, False), (1, False), (2, False)]
    assert (len(numbering), numbering.name(2), numbering.names) == (3, 2, None)
    wrong: Any
    for wrong in (-1, 3, 1.0, "1", None, True, [], Odd()):
        with pytest.raises(PsconrlError, match=r"s is .*; it must be one of 0, \.\.\., 2"):
            numbering.find(wrong, "s")


def test_names_beside_numbers() -> None:
    numbering = Labels(3, ["idle", "busy", ("down", 2)])
    assert numbering.find("busy", "s") == Found(1, True)
    assert numbering.find(("down", np.int64(2)), "s") == Found(2, True)
    assert numbering.find(1, "s") == Found(1, False)
    assert numbering.name(0) == "idle"
    told = r"s is 'bsy'; it must be one of 0, \.\.\., 2, or a name: 'idle', 'busy', .*did you mean 'busy'\?"
    with pytest.raises(PsconrlError, match=told):
        numbering.find("bsy", "s")
    wrong: Any
    for wrong in (3, -1, None, 1.5, [1], {}, Odd()):
        with pytest.raises(PsconrlError, match="it must be one of"):
            numbering.find(wrong, "s")


def test_names_that_are_numbers_are_names() -> None:
    numbering = Labels(3, [30, 10, 20])
    assert numbering.find(10, "s") == Found(1, True)
    with pytest.raises(PsconrlError, match="s is 1; it must be a name: 30, 10, 20"):
        numbering.find(1, "s")


def test_what_is_discovered_gets_the_next_number() -> None:
    numbering = Labels(None)
    values = ["a", ("b", 2), 7, None, 1.5, b"c", frozenset({1}), np.int64(8)]
    for k, value in enumerate(values):
        assert numbering.find(value, "s") == Found(k, True)
        assert len(numbering) == k
        numbering.take_in(value)
    assert [numbering.find(value, "s").number for value in values] == list(range(len(values)))
    assert numbering.find(np.float64(1.5), "s").number == 4
    assert numbering.find(8.0, "s").number == 7, "equal values are one"
    assert type(numbering.name(7)) is int
    numbering.forget_last()
    assert numbering.find(8, "s").number == len(numbering) == 7


@pytest.mark.parametrize(
    "wrong",
    [[1], {}, {1}, np.zeros(2), float("nan"), ("a", float("nan")), ([],), Odd()],
    ids=["list", "dict", "set", "array", "nan", "nan inside", "list inside", "other"],
)
def test_what_cannot_be_a_name_is_refused(wrong: Any) -> None:
    with pytest.raises(PsconrlError, match=r"s is .*; it must be hashable and equal to itself"):
        Labels(None).find(wrong, "s")


def test_act_answers_with_names_where_actions_were_given_by_name() -> None:
    learner = Learner(agents.Uniform(Problem(2, ["wait", "go"], [0.5])), 100, 0)
    answers = set()
    for _ in range(30):
        a = learner.act(0)
        answers.add(a)
        learner.observe(0, a, [0.0, 1.0], 0)
    assert answers == {"wait", "go"}
    learner.act(0)
    learner.observe(0, 1, [0.0, 1.0], 0)  # by number, too
    assert learner.visits.sum() == 31
    learner.act(0)
    with pytest.raises(PsconrlError, match=r"a is 'stop'; it must be one of 0, \.\.\., 1, or a name: 'wait', 'go'"):
        learner.observe(0, "stop", [0.0, 1.0], 0)


def test_a_model_is_asked_by_number_or_by_name_and_answers_alike() -> None:
    toy = make("toy").replace(state_names=["left", "right"], action_names=["stay", "move"])
    problem = toy.problem()
    assert (problem.state_names, problem.action_names) == (("left", "right"), ("stay", "move"))
    assert not problem.answers_by_name
    learner = Learner(agents.Uniform(problem), 10, 0)
    assert learner.state_names == ("left", "right")
    a = learner.act(0)
    assert isinstance(a, int)
    assert learner.act("left") == ("stay", "move")[a]
    learner.observe("left", a, [0.0, 1.0], "right")
    learner.act(1)
    with pytest.raises(CallOrderError, match=r"s is 'left', but act was asked in 'right'; call act\('left'\) first"):
        learner.observe("left", 0, [0.0, 1.0], "left")


def test_declared_names_may_be_anything_hashable() -> None:
    problem = Problem([("shop", 0), ("shop", 1), None], [b"x", 3], [0.5])
    assert (problem.S, problem.A, problem.open) == (3, 2, False)
    learner = Learner(agents.PSConRL(problem), 20, 0)
    for _ in range(10):
        for s, x in ((("shop", 0), ("shop", 1)), (("shop", 1), None), (None, ("shop", 0))):
            if learner.t < 20:
                a = learner.act(s)
                assert a in (b"x", 3)
                learner.observe(s, a, [0.5, 0.5], x)
    assert learner.visits.sum() == 20


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"S": [], "A": 2}, "S is empty"),
        ({"S": ["a", "a"], "A": 2}, "S has 'a' twice"),
        ({"S": ["a", []], "A": 2}, r"S\[1\] is \[\]; it must be hashable"),
        ({"S": "abc", "A": 2}, "S is 'abc'; it must be a whole number"),
        ({"S": {"a", "b"}, "A": 2}, "it must be a list of names"),
        ({"S": 2, "A": ["x"], "action_names": ["y"]}, "A and action_names both give names"),
        ({"S": 2, "A": 2, "state_names": ["a"]}, "there are 1 state_names; there must be 2"),
        ({"S": None, "A": 2, "state_names": ["a"]}, "state_names is given, but S is None"),
        ({"S": None, "A": 2, "costs": np.zeros((1, 2, 2))}, "costs are given, but S is None"),
        ({"S": None, "A": None}, "A is None; it must be a whole number"),
    ],
)
def test_names_that_are_none_are_refused(arguments: dict[str, Any], told: str) -> None:
    with pytest.raises(PsconrlError, match=told):
        Problem(**arguments)


class Moody:
    """Equal to others of its kind every other time it is asked."""

    asked = 0

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        Moody.asked += 1
        return self is other or Moody.asked % 3 == 0


def test_numbers_never_exceed_what_was_taken_in() -> None:
    """Dates of numpy differ from the dates that they become; a user's class may change its mind."""
    numbering = Labels(None)
    date, at = np.datetime64("2020-01-01"), (1, np.timedelta64(3, "D"))
    for value in (date, at, date, at, np.datetime64("2020-01-01"), *(Moody() for _ in range(20))):
        number = numbering.find(value, "s").number
        assert 0 <= number <= len(numbering)
        if number == len(numbering):
            numbering.take_in(value)
        assert numbering.names is not None
        assert len(numbering) == len(numbering.names)
    assert (numbering.find(date, "s"), numbering.find(at, "s")) == ((0, True), (1, True))
    size = len(numbering)
    numbering.take_in("last")
    numbering.forget_last()
    assert (len(numbering), numbering.find("last", "s").number) == (size, size)


def test_dates_as_states() -> None:
    """The second time a date was met it was counted beyond the end of all arrays."""
    learner = Learner(None, 200, 0, problem=Problem(None, ["sell", "keep"], [0.5]))
    days = np.arange("2020-01-01", "2020-01-06", dtype="datetime64[D]")
    for k in range(100):
        day, after = days[k % 5], days[(k + 1) % 5]
        learner.observe(day, learner.act(day), [0.5, 0.2], after)
    assert learner.counts.shape == (5, 2, 5)
