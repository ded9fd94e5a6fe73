"""What a learner may know."""

import re
from typing import Any

import numpy as np
import pytest

from psconrl import CMDP, InvalidArgumentError, InvalidModelError, Problem, make


def test_a_problem_from_numbers() -> None:
    problem = Problem(3, 2, [0.5, 0.25])
    assert (problem.S, problem.A, problem.m) == (3, 2, 2)
    assert problem.costs is None
    assert repr(problem) == "Problem(S=3, A=2, m=2, costs estimated)"
    np.testing.assert_array_equal(problem.uniform, np.full((3, 2), 0.5))
    assert Problem(1, 1).m == 0


def test_a_problem_from_a_model() -> None:
    cmdp = make("queue")
    known, estimated = cmdp.problem("known"), cmdp.problem("estimated")
    assert known.costs is not None
    np.testing.assert_array_equal(known.costs, cmdp.costs)
    assert estimated.costs is None
    assert cmdp.problem().costs is None
    np.testing.assert_array_equal(known.thresholds, cmdp.thresholds)
    assert "costs known" in repr(known)
    with pytest.raises(ValueError, match=re.escape('costs is \'given\'; it must be "known" or "estimated"')):
        cmdp.problem("given")  # type: ignore[arg-type]


def test_a_problem_is_frozen_and_keeps_its_own_arrays() -> None:
    costs, tau = np.zeros((2, 3, 2)), np.array([0.5])
    problem = Problem(3, 2, tau, costs)
    costs[:], tau[:] = 1.0, 9.0
    assert problem.costs is not None
    assert problem.costs.max() == 0
    assert problem.thresholds.tolist() == [0.5]
    with pytest.raises(ValueError, match="read-only"):
        problem.costs[0, 0, 0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        problem.thresholds[0] = 1.0
    with pytest.raises(AttributeError):
        problem.S = 4  # type: ignore[misc]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, 2), "S is 0; it must be at least 1"),
        ((2, 0), "A is 0; it must be at least 1"),
        ((2.5, 2), "S is 2.5; it must be a whole number"),
        ((2, 2, 0.5), "thresholds have shape (); they must be a list of m numbers"),
        ((2, 2, [np.nan]), "thresholds[0] is nan; it must be finite"),
        (
            (2, 2, [0.5], np.zeros((1, 2, 2))),
            "costs have shape (1, 2, 2); with 1 thresholds they must be (m + 1, S, A) = ",
        ),
        ((2, 2, (), np.zeros((1, 3, 2))), "they must be (m + 1, S, A) = (1, 2, 2)"),
        ((2, 2, (), np.full((1, 2, 2), 1.5)), "costs[0, 0, 0] is 1.5; learners need costs in [0, 1]; cmdp.rescaled()"),
        ((2, 2, (), np.full((1, 2, 2), -0.1)), "costs[0, 0, 0] is -0.1"),
        ((2, 2, (), np.full((1, 2, 2), np.nan)), "costs[0, 0, 0] is nan"),
        ((2, 2, (), "free"), "costs must be real numbers"),
    ],
)
def test_bad_problems_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises((InvalidModelError, InvalidArgumentError), match=re.escape(message)):
        Problem(*arguments)


def test_costs_of_impossible_moves_do_not_count() -> None:
    costs = np.zeros((1, 2, 1, 2))
    costs[0, 0, 0, 1] = 50.0  # never happens
    assert CMDP([[[1.0, 0.0]], [[1.0, 0.0]]], costs).problem().costs is None
    costs[0, 0, 0, 0] = 3.0
    with pytest.raises(InvalidModelError, match=re.escape("costs[0, 0, 0, 0] is 3")):
        CMDP([[[1.0, 0.0]], [[1.0, 0.0]]], costs).problem()


def test_actions_that_differ_by_state() -> None:
    mask = [[True, False, True], [True, True, True]]
    costs = np.full((1, 2, 3), 0.5)
    costs[0, 0, 1] = np.nan
    problem = Problem(2, 3, costs=costs, available=mask)
    np.testing.assert_array_equal(problem.available, mask)
    np.testing.assert_allclose(problem.uniform, [[0.5, 0, 0.5], [1 / 3] * 3])
    assert problem.costs is not None
    assert problem.costs[0, 0, 1] == 0
    assert repr(problem) == "Problem(S=2, A=3, m=0, 5 of 6 pairs, costs known)"
    assert Problem(2, 3).available.all()
    with pytest.raises(InvalidModelError, match=re.escape("available[0] has no action")):
        Problem(2, 3, available=np.zeros((2, 3), dtype=np.bool_))


def test_limits_by_name() -> None:
    problem = Problem(2, 3, {"energy": 0.5, "noise": 0.25})
    assert problem.thresholds.tolist() == [0.5, 0.25]
    assert problem.cost_names == ("c0", "energy", "noise")
    ordered = Problem(2, 3, {"energy": 0.5, "noise": 0.25}, cost_names=["delay", "noise", "energy"])
    assert ordered.thresholds.tolist() == [0.25, 0.5]
    assert make("inventory").problem().cost_names == ("sales missed", "expenses")
    with pytest.raises(InvalidModelError, match="no limit for the cost 'noise'"):
        Problem(2, 3, {"energy": 0.5}, cost_names=["delay", "energy", "noise"])
