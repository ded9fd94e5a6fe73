"""From a mixture to one stationary policy: round trips, ways in, what cannot be reached."""

import numpy as np
import pytest

import psconrl
from psconrl import CMDP, evaluate
from psconrl._core.checks import Floats
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.components import Column, Component, end_components
from psconrl.planning.executable import Execution, executable, merge_overlapping
from tests.planning.reference import river


@pytest.mark.parametrize("join", [1e-2, 1e-7])
@pytest.mark.parametrize("S", [6, 50, 400])
def test_banks_of_a_river_are_joined(S: int, join: float) -> None:
    """The optimum stays at one bank or at the other; by chance nobody ever changes, by a round trip everybody does."""
    cmdp = river(S)
    solution = psconrl.solve(cmdp, join=join)
    averages = evaluate(cmdp, solution.policy).average_costs
    assert np.ptp(averages, axis=1).max() < 1e-9  # from everywhere the same
    assert (averages[0] <= solution.value + join).all()
    assert (averages[1] <= cmdp.thresholds[0] + join).all()
    assert abs(solution.loss) < (1e-6 if join < 1e-6 else join)
    assert solution.attained or join > 1e-6
    mixed = sum(member.weight * member.average_costs for member in solution.mixture)
    np.testing.assert_allclose(mixed, [solution.value, 0.3], atol=1e-9)


def columns_of(rows: Rows, costs: Floats, weighted: list[tuple[float, list[int], int]]) -> list[tuple[float, Column]]:
    """Columns of deterministic policies by actions, each from some state."""
    found = []
    for weight, actions, start in weighted:
        policy = rows.begin[:-1] + np.array(actions)
        chain = CMDP(rows.matrix()[policy].toarray()[:, np.newaxis], np.zeros((1, rows.S, 1)), initial=start)
        law = evaluate(chain, np.zeros(rows.S, dtype=np.int64)).stationary
        found.append((weight, Column(policy, costs[:, policy] @ law, law)))
    return found


def executed(p: Floats, weighted: list[tuple[float, list[int], int]], start: Floats | None, e: float) -> Execution:
    rows = Rows.from_dense(p)
    parts = [Component(rows, states, pairs) for states, pairs in end_components(rows)]
    return executable(rows, parts, columns_of(rows, np.zeros((1, rows.K)), weighted), start, e)


def ring(S: int) -> Floats:
    """Stay, or go on to the next state."""
    p = np.zeros((S, 2, S))
    p[np.arange(S), 0, np.arange(S)] = 1.0
    p[np.arange(S), 1, (np.arange(S) + 1) % S] = 1.0
    return p


@pytest.mark.parametrize("e", [0.1, 1e-3, 1e-9])
def test_a_round_trip_by_hand(e: float) -> None:
    """Of four states in a ring two are stayed in, 3/4 and 1/4 of the time: the trip is one move in each state.

    x = (1 - e) x + e / 4: the law of the policy is that, so its time in states 1 and 3 is e / 4 each.
    """
    found = executed(ring(4), [(0.75, [0, 1, 1, 1], 0), (0.25, [1, 1, 0, 1], 2)], None, e)
    assert (found.classes, found.connected) == (2, True)
    np.testing.assert_allclose(
        found.occupancy.reshape(4, 2), [[0.75, 0.0], [0.0, 0.0], [0.25, 0.0], [0.0, 0.0]], atol=1e-15
    )
    policy = found.policy.reshape(4, 2)
    stay = [(1 - e) * 0.75 / ((1 - e) * 0.75 + e / 4), 0.0, (1 - e) * 0.25 / ((1 - e) * 0.25 + e / 4), 0.0]
    np.testing.assert_allclose(policy[:, 0], stay, rtol=1e-12)
    np.testing.assert_allclose(policy.sum(axis=1), 1.0, rtol=1e-14)
    law = evaluate(CMDP(ring(4), np.zeros((1, 4, 2))), policy).stationary
    np.testing.assert_allclose(law, [(1 - e) * 0.75 + e / 4, e / 4, (1 - e) * 0.25 + e / 4, e / 4], rtol=1e-9)


def test_columns_that_meet_need_no_trip() -> None:
    """All round the ring, or stay in state 0 for ever: they meet there, and the mixture is one class."""
    found = executed(ring(3), [(0.5, [1, 1, 1], 0), (0.5, [0, 1, 1], 0)], None, 0.1)
    assert found.classes == 1
    np.testing.assert_allclose(found.policy.reshape(3, 2), [[0.75, 0.25], [0.0, 1.0], [0.0, 1.0]], atol=1e-12)


def test_ways_in_and_no_way() -> None:
    """From state 1 to 0 by action 1; state 2 is a trap: uniform there without a start law."""
    p = np.zeros((3, 2, 3))
    p[0, :, 0] = p[1, 0, 1] = p[1, 1, 0] = p[2, :, 2] = 1.0
    found = executed(p, [(1.0, [0, 0, 0], 0)], None, 0.1)
    assert (found.classes, found.connected) == (1, False)
    np.testing.assert_array_equal(found.policy.reshape(3, 2), [[1, 0], [0, 1], [0.5, 0.5]])


def test_from_a_start_law_a_mixture_is_drawn_on_the_way() -> None:
    """From 0 to one of two traps: in the ratio of the weights."""
    p = np.zeros((3, 2, 3))
    p[0, 0, 1] = p[0, 1, 2] = p[1, :, 1] = p[2, :, 2] = 1.0
    start = np.array([1.0, 0.0, 0.0])
    found = executed(p, [(0.3, [0, 0, 0], 0), (0.7, [1, 0, 0], 0)], start, 0.1)
    assert found.classes == 2
    np.testing.assert_allclose(found.policy.reshape(3, 2)[0], [0.3, 0.7], atol=1e-15)
    np.testing.assert_allclose(found.occupancy.reshape(3, 2).sum(axis=1), [0, 0.3, 0.7], atol=1e-15)


def test_groups_meet_in_likely_states_only() -> None:
    a, b, c = np.array([0, 1]), np.array([1, 2]), np.array([3])
    likely, unlikely = np.array([0.5, 0.5]), np.array([1e-12, 1.0])
    assert [states.tolist() for states, _ in merge_overlapping([(a, likely), (b, likely), (c, np.ones(1))])] == [
        [0, 1, 2],
        [3],
    ]
    assert [states.tolist() for states, _ in merge_overlapping([(a, likely), (b, unlikely)])] == [[0, 1], [1, 2]]
    (_, mass), *_ = merge_overlapping([(a, likely), (b, likely)])
    np.testing.assert_array_equal(mass, [0.5, 1.0, 0.5])


def test_on_the_way_to_several_classes_a_single_column_keeps_its_actions() -> None:
    """Action 1 leads to the worse of two absorbing states, sooner than action 0 to either of them."""
    p = np.zeros((4, 2, 4))
    p[0, 0, 1] = p[0, 1, 3] = p[2, :, 2] = p[3, :, 3] = 1.0
    p[1, :, 2:] = 0.9, 0.1
    solution = psconrl.solve(psconrl.CMDP(p, np.eye(4)[3][np.newaxis, :, np.newaxis].repeat(2, axis=2)))
    assert solution.attained
    assert solution.average_costs.tolist() == pytest.approx([0.1], abs=1e-12)
