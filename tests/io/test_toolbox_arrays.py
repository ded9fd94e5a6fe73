"""Models from arrays with the action first, in every layout, against the same model built by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

import psconrl
from psconrl import CMDP, InvalidModelError

S, A = 3, 2
rng = np.random.default_rng(0)
P = rng.dirichlet(np.ones(S), size=(A, S))
P[0, 1] = 0, 0, 1
BY_STATE, BY_PAIR, BY_MOVE = rng.random(S), rng.random((S, A)), rng.random((A, S, S))
THIN = [sparse.csr_matrix(p) for p in P]


def mean(quantity: Any) -> Any:
    """c(s, a) by definition."""
    c = np.zeros((S, A))
    for s in range(S):
        for a in range(A):
            if quantity.shape == (S,):
                c[s, a] = quantity[s]
            elif quantity.shape == (S, A):
                c[s, a] = quantity[s, a]
            else:
                c[s, a] = sum(P[a, s, x] * quantity[a, s, x] for x in range(S))
    return c


@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize("main", [BY_STATE, BY_PAIR, BY_MOVE], ids=["state", "pair", "move"])
@pytest.mark.parametrize("other", [BY_STATE, BY_PAIR, BY_MOVE], ids=["state", "pair", "move"])
def test_all_layouts(thin: bool, main: Any, other: Any) -> None:
    transitions: Any = THIN if thin else P
    made = CMDP.from_arrays(transitions, main, [other], [0.7], state_names=["a", "b", "c"], initial="b")
    assert made.is_sparse == thin
    for a in range(A):
        for s in range(S):
            np.testing.assert_allclose(made.matrix[[s * A + a]].toarray()[0], P[a, s])
    np.testing.assert_allclose(made.costs, [-mean(main), mean(other)])
    assert (made.move_costs is not None) == (main is BY_MOVE or other is BY_MOVE)
    assert made.initial.tolist() == [0, 1, 0]
    costly = CMDP.from_arrays(transitions, costs=[-main, other], thresholds=[0.7])
    assert psconrl.solve(costly).value == pytest.approx(psconrl.solve(made).value)


def test_costs_of_moves_are_kept() -> None:
    moves = CMDP.from_arrays(P, costs=[BY_MOVE]).move_costs
    assert moves is not None
    assert moves[0, 2, 1, 0] == BY_MOVE[1, 2, 0]
    assert moves[0, 1, 0, 0] == 0  # an impossible move
    for transitions in (P, THIN):
        thin = CMDP.from_arrays(transitions, [sparse.csr_array(r) for r in BY_MOVE]).to_dense()
        assert thin.move_costs is not None
        np.testing.assert_array_equal(thin.move_costs, -moves)


def test_one_state_and_one_action() -> None:
    for rewards in (np.array([[[3.0]]]), [sparse.csr_array([[3.0]])], [3.0], [[3.0]]):
        assert CMDP.from_arrays([[[1.0]]], rewards).costs.tolist() == [[[-3.0]]]
    thin = CMDP.from_arrays([sparse.csr_array([[1.0]])], [sparse.csr_array([[3.0]])], [[0.5]], [1.0])
    assert thin.costs.ravel().tolist() == [-3.0, 0.5]


def test_actions_that_differ_by_state() -> None:
    mask = np.array([[True, True], [True, False], [False, True]])
    wrong = P.copy()
    wrong.transpose(1, 0, 2)[~mask] = np.nan
    dense = CMDP.from_arrays(wrong, BY_PAIR, available=mask)
    np.testing.assert_array_equal(dense.available, mask)
    np.testing.assert_allclose(np.asarray(dense.transitions)[mask], P.transpose(1, 0, 2)[mask])
    assert CMDP.from_arrays(THIN, BY_PAIR, available=mask).to_dense() == dense


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((P,), "there are neither rewards to maximise nor costs to minimise"),
        ((P[0], BY_PAIR), r"transitions have shape \(3, 3\); they must be \(A, S, S\)"),
        ((P.transpose(1, 0, 2), BY_PAIR), r"transitions have shape \(3, 2, 3\)"),
        (("P", BY_PAIR), "transitions must be real numbers"),
        ((None, BY_PAIR), "transitions must be real numbers"),
        ((sparse.csr_array(P[0]), BY_PAIR), "transitions are one sparse matrix; give a list"),
        (([*THIN[:1], sparse.eye_array(2)], BY_PAIR), r"transitions are 2 sparse matrices of shape \(2, 2\), \(3, 3\)"),
        ((P, BY_PAIR.T), r"rewards has shape \(2, 3\); it must be \(S,\) = \(3,\), \(S, A\) = \(3, 2\)"),
        ((P, THIN[:1]), r"rewards are 1 sparse matrices of shape \(3, 3\); there must be 2"),
        ((P, "R"), "rewards must be real numbers"),
        ((P, BY_PAIR, [BY_PAIR.T], [1.0]), r"costs\[0\] has shape \(2, 3\)"),
        ((P, BY_PAIR, BY_PAIR, [1.0]), r"costs\[0\] has shape \(2,\)"),
        ((P, BY_PAIR, 3.0, [1.0]), "costs must be a list of arrays"),
        ((P, BY_PAIR, "c", [1.0]), "costs must be a list of arrays"),
        ((P, BY_PAIR, [BY_PAIR]), "there are 2 costs and 0 thresholds"),
        ((2 * P, BY_PAIR), r"transitions\[0, 0\] sums to 2"),
    ],
)
def test_mistakes(arguments: Any, message: str) -> None:
    with pytest.raises(InvalidModelError, match=message):
        CMDP.from_arrays(*arguments)
