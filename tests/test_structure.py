"""Structure of models against closed forms and enumeration."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from psconrl import structure
from psconrl._core.checks import Floats, Ints
from psconrl.cmdp import CMDP, Layout
from psconrl.errors import InvalidModelError


def model(p: Floats, **options: object) -> CMDP:
    S, A, _ = p.shape
    return CMDP(p, np.zeros((1, S, A)), **options)  # type: ignore[arg-type]


def moves(ends: list[list[int]]) -> CMDP:
    """Deterministic moves: ends[s][a]."""
    return model(np.eye(len(ends))[np.array(ends)])


def cycle(S: int, p: float) -> tuple[CMDP, Floats]:
    """Round a cycle: clockwise with probability p, else back; one action."""
    P = np.zeros((S, 1, S))
    s = np.arange(S)
    P[s, 0, (s + 1) % S] += p
    P[s, 0, (s - 1) % S] += 1 - p
    return model(P), np.ones((S, 1))


def as_lists(groups: list[Ints]) -> list[list[int]]:
    return [group.tolist() for group in groups]


def random_moves(seed: int, S: int, A: int) -> CMDP:
    rng = np.random.default_rng(seed)
    p = np.zeros((S, A, S))
    for s, a in product(range(S), range(A)):
        ends = rng.choice(S, size=min(S, int(rng.integers(1, 3))), replace=False)
        p[s, a, ends] = 1 / len(ends)
    return model(p)


# Reachability and restriction


def test_reachable_follows_the_initial_law() -> None:
    cmdp = moves([[1], [0], [3], [2]])
    assert structure.reachable(cmdp).tolist() == [True, True, False, False]
    both = cmdp.replace(initial=[0.5, 0, 0.5, 0])
    assert structure.reachable(both).all()
    assert structure.restrict_to_reachable(both) is both


@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize("per_move", [False, True])
def test_restrict_keeps_everything_else(thin: bool, per_move: bool) -> None:
    rng = np.random.default_rng(1)
    S, A = 5, 2
    p = np.zeros((S, A, S))
    for s in range(S):
        ends = [1, 3, 4] if s in (1, 3, 4) else list(range(S))
        p[s][:, ends] = rng.dirichlet(np.ones(len(ends)), size=A)
    costs = rng.random((2, S, A, S) if per_move else (2, S, A))
    layout = Layout(("....",), np.arange(10).reshape(5, 2), np.arange(10, 20).reshape(5, 2))
    cmdp = CMDP(p, costs, [0.3], initial="d", state_names=list("abcde"), action_names=["x", "y"], layout=layout)
    cmdp = cmdp.to_sparse() if thin else cmdp
    small = structure.restrict_to_reachable(cmdp)
    assert small.is_sparse == thin
    assert small.state_names == ("b", "d", "e")
    assert small.action_names == ("x", "y")
    assert small.initial.tolist() == [0, 1, 0]
    assert small.thresholds.tolist() == [0.3]
    kept = [1, 3, 4]
    np.testing.assert_array_equal(small.to_dense().transitions, p[kept][:, :, kept])
    np.testing.assert_allclose(small.costs, cmdp.costs[:, kept], rtol=1e-15)
    assert (small.move_costs is not None) == per_move
    if per_move:
        dense = small.to_dense().move_costs
        assert dense is not None
        np.testing.assert_array_equal(dense, costs[:, kept][..., kept])
    assert small.layout is not None
    assert small.layout.agent.tolist() == [[2, 3], [6, 7], [8, 9]]
    assert small.layout.box is not None
    assert small.layout.box.tolist() == [[12, 13], [16, 17], [18, 19]]
    assert structure.restrict(cmdp, kept) == small


@pytest.mark.parametrize(
    ("states", "message"),
    [
        ([0, 1], "the states are not closed: in '1', action '0' may lead to '2', which is not among them; "),
        ([3], "the model may start in state '0', which is not among the states to restrict it to; add it, "),
        ([], "there are no states to restrict the model to"),
        ([7], r"there is no state 7; states are 0, \.\.\., 3"),
        ([-1], r"there is no state -1; states are 0, \.\.\., 3"),
        ([0.5], r"states must be given by numbers or by a mask of shape \(4,\)"),
        ([True, False], r"states must be given by numbers or by a mask of shape \(4,\)"),
    ],
)
def test_restrict_refuses(states: list[int], message: str) -> None:
    with pytest.raises(InvalidModelError, match="^" + message):
        structure.restrict(moves([[1], [2], [0], [3]]), states)


# Classes


def test_classes_of_states() -> None:
    cmdp = moves([[1, 1], [0, 2], [3, 3], [2, 2]])
    assert as_lists(structure.strong_classes(cmdp)) == [[0, 1], [2, 3]]
    assert not structure.communicating(cmdp)
    assert not structure.weakly_communicating(cmdp)  # 0 and 1 may swap for ever
    assert structure.weakly_communicating(moves([[1, 1], [2, 2], [2, 2]]))
    assert structure.communicating(moves([[1], [2], [0]]))


def test_recurrent_classes_of_a_policy() -> None:
    cmdp = moves([[0, 1], [1, 0], [0, 1]])
    stay = [[1.0, 0.0]] * 3
    assert as_lists(structure.recurrent_classes(cmdp, stay)) == [[0], [1]]
    swap = [[0.0, 1.0]] * 3
    assert as_lists(structure.recurrent_classes(cmdp, swap)) == [[0, 1]]
    with pytest.raises(InvalidModelError, match="the policy has shape"):
        structure.recurrent_classes(cmdp, [[1.0]])


# Times


@pytest.mark.parametrize("S", [1, 2, 3, 10, 33])
def test_hitting_times_of_a_fair_cycle(S: int) -> None:
    """From distance d round a cycle of S: d (S - d)."""
    cmdp, policy = cycle(S, 0.5)
    s = np.arange(S)
    d = (s[np.newaxis] - s[:, np.newaxis]) % S
    np.testing.assert_allclose(structure.hitting_times(cmdp, policy), d * (S - d), rtol=1e-12)


def test_gamblers_ruin() -> None:
    """Steps up with p, down with q, and back to 1 from 0: E(k -> 0) = k / (q - p) on a long line."""
    S, p = 400, 0.3
    P = np.zeros((S, 1, S))
    s = np.arange(S)
    P[s, 0, np.minimum(s + 1, S - 1)] += p
    P[s, 0, np.maximum(s - 1, 0)] += 1 - p
    times = structure.hitting_times(model(P), np.ones((S, 1)), [0])
    np.testing.assert_allclose(times[:100, 0], np.arange(100) / (1 - 2 * p), rtol=1e-12)


@settings(deadline=None)  # kernels are compiled at first use
@given(st.integers(0, 10**6), st.integers(1, 7))
def test_hitting_times_against_linear_algebra(seed: int, S: int) -> None:
    cmdp = random_moves(seed, S, 1)
    chain = cmdp.matrix.toarray()
    expected = np.full((S, S), np.inf)
    for t in range(S):
        stopped = (chain > 0) & (np.arange(S) != t)[:, np.newaxis]
        reach = np.linalg.matrix_power(stopped + np.eye(S), S) > 0
        sure = ~reach[:, ~reach[:, t]].any(axis=1)
        rest = np.flatnonzero(sure & (np.arange(S) != t))
        expected[t, t] = 0.0
        expected[rest, t] = np.linalg.solve(np.eye(len(rest)) - chain[np.ix_(rest, rest)], np.ones(len(rest)))
    np.testing.assert_allclose(structure.hitting_times(cmdp, np.ones((S, 1))), expected, rtol=1e-9)


def test_hitting_times_on_chosen_targets() -> None:
    rng = np.random.default_rng(0)
    cmdp, policy = model(rng.dirichlet(np.ones(9), size=(9, 1))), np.ones((9, 1))
    everything = structure.hitting_times(cmdp, policy)
    some = structure.hitting_times(cmdp, policy, [7, 2, 2])
    np.testing.assert_allclose(some, everything[:, [7, 2, 2]], rtol=1e-13)
    by_mask = structure.hitting_times(cmdp, policy, np.arange(9) > 6)
    np.testing.assert_allclose(by_mask, everything[:, 7:], rtol=1e-13)
    assert structure.hitting_times(cmdp, policy, []).shape == (9, 0)
    with pytest.raises(InvalidModelError, match="there is no state 9"):
        structure.hitting_times(cmdp, policy, [9])


@pytest.mark.parametrize("rare", [1e-8, 1e-12, 1e-15])
def test_hitting_times_of_a_nearly_decomposable_chain(rare: float) -> None:
    """Two pairs of states, {0, 1} and {2, 3}, joined by a rare move between 1 and 2.

    From 1 to 2: x = 1 + (1 - rare)(1 + x), so x = 2 / rare - 1.
    """
    P = np.zeros((4, 1, 4))
    P[0, 0, 1] = P[3, 0, 2] = 1.0
    P[1, 0, [0, 2]] = 1 - rare, rare
    P[2, 0, [3, 1]] = 1 - rare, rare
    times = structure.hitting_times(model(P), np.ones((4, 1)))
    x = 2 / rare - 1
    expected = [[0, 1, x + 1, 0], [0, 0, x, 0], [0, x, 0, 0], [0, x + 1, 1, 0]]
    for s, t in product(range(4), [1, 2]):
        assert times[s, t] == pytest.approx(expected[s][t], rel=1e-14)


def test_cover_time_bound() -> None:
    """A cycle that is walked one way: t_hit = S - 1."""
    cmdp, policy = cycle(4, 1.0)
    assert structure.cover_time_bound(cmdp, policy) == pytest.approx(3 * (1 + 1 / 2 + 1 / 3))
    assert structure.cover_time_bound(*cycle(1, 1.0)) == 0.0
    assert structure.cover_time_bound(moves([[0], [0]]), np.ones((2, 1))) == np.inf


def test_diameter() -> None:
    S = 9
    assert structure.diameter(cycle(S, 1.0)[0]) == S - 1
    assert structure.diameter(moves([[(s + 1) % S, (s - 1) % S] for s in range(S)])) == S // 2
    assert structure.diameter(moves([[min(s + 1, S - 1), max(s - 1, 0)] for s in range(S)])) == S - 1
    assert structure.diameter(cycle(S, 0.5)[0]) == pytest.approx(S // 2 * (S - S // 2))
    assert structure.diameter(moves([[0], [0]])) == np.inf
    assert structure.diameter(moves([[0]])) == 0.0


def test_bias_span() -> None:
    """Two states in turn, costs 0 and 1: the bias differs by 1/2."""
    p = np.eye(2)[[[1], [0]]]
    costs = np.array([[[0.0], [1.0]], [[3.0], [-2.0]]])
    cmdp = CMDP(p, costs, [0.8])
    np.testing.assert_allclose(structure.bias_span(cmdp), [0.5, 2.5], atol=1e-9)
    tight = cmdp.replace(thresholds=[0.2])
    assert np.isnan(structure.bias_span(tight)).all()


def test_sparse_models_stay_sparse() -> None:
    """A ring of 20,000 states: nothing of size S x S is ever made."""
    S = 20_000
    s = np.arange(S)
    p = sparse.csr_array((np.ones(2 * S), (np.arange(2 * S), np.stack([(s + 1) % S, s], 1).ravel())))
    cmdp = CMDP(p, np.zeros((1, S, 2)))
    assert structure.communicating(cmdp)
    assert structure.weakly_communicating(cmdp)
    assert structure.reachable(cmdp).all()
    assert structure.restrict(cmdp, s).is_sparse
    around = np.tile([1.0, 0.0], (S, 1))
    assert structure.hitting_times(cmdp, around, [0])[1, 0] == pytest.approx(S - 1)


# Actions that differ by state


def fewer(seed: int, S: int, A: int) -> tuple[CMDP, CMDP]:
    """A model, and the one whose missing actions are copies of one that is available: the same graph and ways."""
    whole = random_moves(seed, S, A)
    rng = np.random.default_rng([seed, 1])
    mask = (rng.random((S, A)) < 0.5) | (np.arange(A) == rng.integers(A, size=(S, 1)))
    states, actions = np.indices((S, A))
    own = np.where(mask, actions, mask.argmax(axis=1)[:, np.newaxis])
    return whole.replace(available=mask), model(np.asarray(whole.transitions)[states, own])


@pytest.mark.parametrize("seed", range(40))
def test_missing_actions_are_like_copies(seed: int) -> None:
    cmdp, copied = fewer(seed, 2 + seed % 5, 2 + seed % 3)
    np.testing.assert_array_equal(structure.reachable(cmdp), structure.reachable(copied))
    assert structure.communicating(cmdp) == structure.communicating(copied)
    assert structure.weakly_communicating(cmdp) == structure.weakly_communicating(copied)
    assert as_lists(structure.strong_classes(cmdp)) == as_lists(structure.strong_classes(copied))
    assert structure.diameter(cmdp) == pytest.approx(structure.diameter(copied))
    inside = structure.restrict_to_reachable(cmdp)
    np.testing.assert_array_equal(inside.available, cmdp.available[structure.reachable(cmdp)])


def test_times_of_policies_of_available_actions() -> None:
    cmdp, _ = fewer(3, 5, 3)
    times = structure.hitting_times(cmdp, cmdp.uniform)
    assert (np.diag(times) == 0).all()
    with pytest.raises(InvalidModelError, match="is not available in state"):
        structure.hitting_times(cmdp, np.full((5, 3), 1 / 3))
