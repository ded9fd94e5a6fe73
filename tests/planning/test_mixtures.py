"""Columns as they are executed: cores, ways into them and times between them, against hitting times and by hand."""

import numpy as np
import pytest

import psconrl
from psconrl import CMDP
from psconrl._core.checks import Floats, Ints
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.components import Column
from psconrl.planning.mixtures import Executed, executed, switching_times
from psconrl.structure import hitting_times


def column_of(cmdp: CMDP, actions: Ints) -> Column:
    """A deterministic policy as a column, from the initial law."""
    found = psconrl.evaluate(cmdp, actions)
    return Column(np.arange(cmdp.S) * cmdp.A + actions, found.average_costs @ cmdp.initial, found.stationary)


def as_executed(cmdp: CMDP, actions: Ints, horizon: int | None = None) -> Executed:
    costs = cmdp.costs.reshape(cmdp.m + 1, -1)
    return executed(Rows.from_sparse(cmdp.matrix), costs, column_of(cmdp, actions), cmdp.initial, horizon)


def actions_of(cmdp: CMDP, member: Executed) -> Ints:
    return np.asarray(member.policy - np.arange(cmdp.S) * cmdp.A)


@pytest.mark.parametrize("S", [6, 25])
def test_two_banks(S: int) -> None:
    """To stay at the left end, or to swim: 8^-k of the time k places below the upper end."""
    river, T = psconrl.make("riverswim", S=S), 20_000
    left, right = (as_executed(river, np.full(S, a), T) for a in (0, 1))
    law = 8.0 ** (np.arange(S) - S + 1)
    assert right.core.tolist() == (law / law.sum() > 1 / (S * np.sqrt(T))).tolist()
    assert left.core.tolist() == [True] + [False] * (S - 1)
    times = switching_times([left, right])
    assert times[0, 0] == times[1, 1] == 0.0
    # One step down a place; up to the first place of the core by swimming.
    share = right.mu[right.core] / right.mu[right.core].sum()
    assert times[1, 0] == pytest.approx(share @ np.flatnonzero(right.core), rel=1e-12)
    upwards = hitting_times(river, np.eye(2)[np.ones(S, dtype=np.int64)], [int(right.core.argmax())])
    assert times[0, 1] == pytest.approx(upwards[0, 0], rel=1e-12)


def test_without_a_horizon_cores_are_recurrent_classes() -> None:
    river = psconrl.make("riverswim")
    solution = psconrl.solve(river)
    cores = sorted(member.core.tolist() for member in solution.mixture)
    assert cores == [[True] + [False] * 5, [True] * 6]
    assert (solution.switching_times == 0.0).all()  # the left end belongs to both


def test_unlikely_states_take_the_fastest_way_back() -> None:
    """A column whose action in a state that it hardly ever visits is a bad one."""
    river, S, T = psconrl.make("riverswim", S=8), 8, 10_000
    actions = np.ones(S, dtype=np.int64)
    actions[0] = 0  # once at the left end, there for ever: but that takes 10^6 steps
    kept = as_executed(river.replace(initial=S - 1), actions)
    assert kept.core.tolist() == [True] + [False] * (S - 1)
    slow = np.array(river.transitions)
    slow[0, 0] = 0.999 * np.eye(S)[0] + 0.001 * np.eye(S)[1]
    leaky = CMDP(slow, river.costs, river.thresholds, initial=0)
    found = as_executed(leaky, actions, T)
    assert not found.core[0]
    assert actions_of(leaky, found).tolist() == [1] * S
    np.testing.assert_allclose(found.J, psconrl.evaluate(leaky, np.ones(S, dtype=np.int64)).average_costs[:, 0])


def test_a_core_that_would_fall_apart_is_left_together() -> None:
    """Two states where the column stays for long, and two unlikely ones between them, each on the way to one."""
    p = np.zeros((4, 2, 4))
    p[0, :, 0], p[0, :, 1] = 0.999, 0.001
    p[1, 0, 2] = p[1, 1, 0] = 1.0  # on, or back
    p[2, :, 2], p[2, :, 3] = 0.999, 0.001
    p[3, 0, 0] = p[3, 1, 2] = 1.0
    cmdp = CMDP(p, np.stack([np.eye(4)[0][:, np.newaxis] * np.ones(2)]))
    found = as_executed(cmdp, np.zeros(4, dtype=np.int64), 10_000)
    assert found.core.tolist() == [True, False, True, False]
    assert actions_of(cmdp, found).tolist() == [0, 0, 0, 0]
    assert found.J[0] == pytest.approx(1000 / 2002)


def test_what_ends_in_several_classes_keeps_its_way_there() -> None:
    """From state 0 by chance to 1 or 2, for ever; state 3 is not met, and takes the fastest way."""
    p = np.zeros((4, 2, 4))
    p[0, 0, 1], p[0, 0, 2], p[0, 1, 1] = 0.3, 0.7, 1.0
    p[1, :, 1] = p[2, :, 2] = 1.0
    p[3, 0, 0] = p[3, 1, 2] = 1.0
    cmdp = CMDP(p, np.eye(4)[2][np.newaxis, :, np.newaxis] * np.ones((1, 1, 2)))
    for horizon in (None, 100):
        found = as_executed(cmdp, np.zeros(4, dtype=np.int64), horizon)
        assert found.core.tolist() == [False, True, True, False]
        assert actions_of(cmdp, found).tolist() == [0, 0, 0, 1]
        np.testing.assert_allclose(found.J, [0.7])


def test_no_way_takes_for_ever() -> None:
    p = np.zeros((3, 2, 3))
    p[0, 0, 1] = p[0, 1, 2] = 1.0
    p[1, :, 1] = p[2, :, 2] = 1.0
    costs = np.array([[[1.0, 1.0], [1.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [0.0, 0.0], [1.0, 1.0]]])
    solution = psconrl.solve(CMDP(p, costs, [0.25]))
    assert sorted(member.core.tolist() for member in solution.mixture) == [[False, False, True], [False, True, False]]
    np.testing.assert_array_equal(solution.switching_times, [[0.0, np.inf], [np.inf, 0.0]])


def test_members_are_what_they_say() -> None:
    """Actions as executed have the averages that the member states, from the initial law."""
    for name in ("riverswim", "marsrover-4x4", "queue", "garnet", "inventory", "hospital"):
        cmdp = psconrl.make(name)
        solution = psconrl.solve(cmdp)
        k = len(solution.mixture)
        assert solution.switching_times.shape == (k, k)
        for member in solution.mixture:
            found = psconrl.evaluate(cmdp, member.policy)
            np.testing.assert_allclose(member.average_costs, found.average_costs @ cmdp.initial, atol=1e-9)
            assert len(found.classes) == 1
            assert member.core[found.classes[0]].all()
            assert member.core.sum() == len(found.classes[0])


def random_law(rng: np.random.Generator, S: int) -> Floats:
    return np.asarray(rng.dirichlet(np.ones(S)))


def test_cores_hold_all_but_a_share_of_one_over_the_root_of_the_horizon() -> None:
    rng = np.random.default_rng(0)
    for seed in range(10):
        cmdp = psconrl.make("garnet", S=30, seed=seed)
        cmdp = cmdp.replace(initial=random_law(rng, cmdp.S))
        actions = rng.integers(cmdp.A, size=cmdp.S)
        column = column_of(cmdp, actions)
        for T in (1, 100, 10_000):
            found = as_executed(cmdp, actions, T)
            assert column.mu[~found.core].sum() <= 1 / np.sqrt(T) + 1e-12
            assert (actions_of(cmdp, found)[found.core] == actions[found.core]).all()


def test_stay_here_or_go_there_for_ever() -> None:
    """Half of the runs may go to where it costs: no stationary policy does that, and the answer says so."""
    p = np.zeros((2, 2, 2))
    p[0, 0, 0] = p[0, 1, 1] = p[1, :, 1] = 1.0
    costs = np.array([[[1.0, 1.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 1.0]]])
    solution = psconrl.solve(CMDP(p, costs, [0.5], initial=0))
    assert solution.value == pytest.approx(0.5, abs=1e-9)
    assert not solution.attained
    assert "attained by the mixture only" in repr(solution)
