"""The model: what it accepts, what it refuses and in which words, and that nobody can change it."""

import pickle
import re
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import psconrl
from psconrl import agents, make
from psconrl.cmdp import CMDP, Layout
from psconrl.errors import InvalidModelError, PsconrlError

P = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])
C = np.array([[[0.0, 1.0], [2.0, 3.0]], [[1.0, 0.0], [0.5, 0.5]]])


def changed(array: Any, at: tuple[int, ...], value: float) -> Any:
    array = np.array(array, dtype=float)
    array[at] = value
    return array


def flat(p: Any) -> sparse.csr_array:
    p = np.asarray(p, dtype=float)
    return sparse.csr_array(p.reshape(p.shape[0] * p.shape[1], p.shape[2]))


def refused(message: str, transitions: Any = P, costs: Any = C, thresholds: Any = (0.5,), **options: Any) -> None:
    """The whole message is exactly this."""
    with pytest.raises(InvalidModelError) as caught:
        CMDP(transitions, costs, thresholds, **options)
    assert str(caught.value) == message
    assert isinstance(caught.value, (PsconrlError, ValueError))


ROW = "make every row p(. | s, a) a probability distribution over the next states"


# Transitions


@pytest.mark.parametrize("form", [np.asarray, flat])
@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        ((1, 1, 0), -0.25, f"transitions[1, 1, 0] is -0.25; a probability must be >= 0; {ROW}"),
        ((0, 1, 1), np.nan, f"transitions[0, 1, 1] is nan; a probability must be >= 0; {ROW}"),
        ((1, 0, 0), 0.25, f"transitions[1, 0] sums to 1.25; it must sum to 1 (to 1e-06); {ROW}"),
        ((1, 0, 1), 0.0, f"transitions[1, 0] sums to 0; it must sum to 1 (to 1e-06); {ROW}"),
        ((0, 0, 0), 0.5 + 2e-6, f"transitions[0, 0] sums to 1.000002; it must sum to 1 (to 1e-06); {ROW}"),
        ((0, 0, 0), np.inf, f"transitions[0, 0] sums to inf; it must sum to 1 (to 1e-06); {ROW}"),
    ],
)
def test_bad_probabilities(form: Any, at: tuple[int, ...], value: float, message: str) -> None:
    refused(message, form(changed(P, at, value)))


@pytest.mark.parametrize("form", [np.asarray, flat])
def test_rows_within_the_tolerance_are_renormalised(form: Any) -> None:
    cmdp = CMDP(form(changed(P, (0, 0, 0), 0.5 + 5e-10)), C, [0.5])
    np.testing.assert_allclose(cmdp.matrix.sum(axis=1), 1.0, rtol=0, atol=1e-15)
    third = np.full((3, 1, 3), 1 / 3)
    unchanged = CMDP(form(third), np.zeros((1, 3, 1))).matrix
    np.testing.assert_array_equal(unchanged.toarray(), third[:, 0])  # rounding alone changes no bit


@pytest.mark.parametrize(
    ("transitions", "message"),
    [
        (np.ones((2, 2)), "transitions have shape (2, 2); they must be (S, A, S), or a scipy sparse"),
        (np.ones((2, 2, 3)), "transitions have shape (2, 2, 3); they must be (S, A, S), or a scipy sparse"),
        (np.ones((0, 2, 0)), "there are no states or no actions; a model needs at least one of each"),
        (np.ones((2, 0, 2)), "there are no states or no actions; a model needs at least one of each"),
        ([[[1.0], [0.5, 0.5]]], "transitions must be real numbers in a regular array"),
        ([[["x"]]], "transitions must be real numbers in a regular array"),
        ([[[1.0 + 0j]]], "transitions must be real numbers in a regular array"),
        (
            sparse.csr_array(np.ones((5, 2))),
            "sparse transitions have shape (5, 2); they must be (S * A, S), and 5 rows are no",
        ),
        (sparse.csr_array((0, 2)), "there are no states or no actions; a model needs at least one of each"),
        (sparse.csr_array((2, 0)), "there are no states or no actions; a model needs at least one of each"),
        (sparse.coo_array(np.ones(4)), "sparse transitions have shape (4,); they must be (S * A, S)"),
        (sparse.csr_array(np.eye(2) * 1j), "transitions must be real numbers in a regular array"),
    ],
)
def test_transitions_of_the_wrong_form(transitions: Any, message: str) -> None:
    with pytest.raises(InvalidModelError) as caught:
        CMDP(transitions, C, [0.5])
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csc_array, sparse.coo_array, sparse.csr_matrix])
def test_sparse_stays_sparse(make: Any) -> None:
    cmdp = CMDP(make(flat(P)), C, [0.5])
    assert cmdp.is_sparse
    assert isinstance(cmdp.transitions, sparse.csr_array)
    assert (cmdp.S, cmdp.A, cmdp.m) == (2, 2, 1)
    assert cmdp.matrix is cmdp.transitions
    assert repr(cmdp) == "CMDP(S=2, A=2, m=1, sparse, 6 transitions)"
    assert cmdp == CMDP(P, C, [0.5]).to_sparse()
    assert cmdp.to_dense() == CMDP(P, C, [0.5])
    assert cmdp.to_sparse() is cmdp
    assert cmdp.replace(thresholds=[0.1]).is_sparse


def test_sparse_input_is_made_canonical() -> None:
    """Duplicates are added up, stored zeros go, columns are sorted."""
    messy = sparse.csr_array(
        (np.array([0.5, 0.25, 0.25, 0.0, 1.0]), np.array([1, 0, 0, 1, 0]), np.array([0, 3, 5])), shape=(2, 2)
    )
    cmdp = CMDP(messy, np.zeros((1, 2, 1)))
    assert cmdp.matrix.data.tolist() == [0.5, 0.5, 1.0]
    assert cmdp.matrix.indices.tolist() == [0, 1, 0]


# Costs


@pytest.mark.parametrize("form", [np.asarray, flat])
def test_bad_costs(form: Any) -> None:
    remedy = "it must be finite; give every pair (s, a) a finite cost"
    refused(f"costs[1, 0, 1] is nan; {remedy}", form(P), changed(C, (1, 0, 1), np.nan))
    refused(f"costs[0, 1, 0] is -inf; {remedy}", form(P), changed(C, (0, 1, 0), -np.inf))
    refused("costs must be real numbers in a regular array", form(P), [[["a", "b"], ["c", "d"]]])
    count = "each cost but the first, which is minimised, needs one threshold: give"
    refused(f"there are 2 costs and 0 thresholds; {count} 1", form(P), C, ())
    refused(f"there are 1 costs and 1 thresholds; {count} 0", form(P), C[:1])
    refused(f"there are 0 costs and 1 thresholds; {count} 0", form(P), C[:0])


def test_costs_of_the_wrong_shape() -> None:
    refused(
        "costs have shape (2, 2, 3); they must be (m + 1, S, A) = (2, 2, 2), or (2, 2, 2, 2) for one cost per move",
        P,
        np.zeros((2, 2, 3)),
    )
    refused(
        "costs have shape (2, 5); they must be (m + 1, S, A) = (2, 2, 2), or, for one cost per move, m + 1 "
        "sparse matrices of shape (4, 2), or an array (m + 1, nnz) = (2, 6) in the order of a CSR matrix "
        "without stored zeros",
        flat(P),
        np.zeros((2, 5)),
    )
    refused(
        "each sparse cost must have the shape of the transitions, (4, 2)",
        flat(P),
        [sparse.csr_array((2, 2))] * 2,
    )
    refused("costs[1, 3] is inf; it must be finite; give every move a finite cost", flat(P), per_entry(np.inf))


def per_entry(last: float) -> Any:
    costs = np.ones((2, 6))
    costs[1, 3] = last
    return costs


def test_costs_per_move_are_averaged() -> None:
    moves = np.arange(16.0).reshape(2, 2, 2, 2)
    cmdp = CMDP(P, moves, [0.5])
    np.testing.assert_allclose(cmdp.costs, (moves * P).sum(axis=3))
    assert cmdp.move_costs is not None
    assert cmdp.move_costs[0, 0, 1, 1] == 0.0  # a move that cannot happen
    thin = cmdp.to_sparse()
    assert thin.move_costs is not None
    assert thin.move_costs.shape == (2, 6)
    np.testing.assert_allclose(thin.costs, cmdp.costs)
    assert thin.to_dense() == cmdp
    by_matrix = CMDP(flat(P), [sparse.csr_array(c.reshape(4, 2)) for c in moves], [0.5])
    assert by_matrix == thin


def test_costs_per_move_follow_unsorted_entries() -> None:
    p = sparse.csr_array((np.array([0.25, 0.75]), np.array([1, 0]), np.array([0, 2])), shape=(1, 2))
    p = sparse.vstack([p, sparse.csr_array([[1.0, 0.0]])], format="csr")
    p.indices[:2], p.data[:2] = [1, 0], [0.25, 0.75]
    p.has_sorted_indices = False
    cmdp = CMDP(p, np.array([[10.0, 20.0, 30.0]]))
    assert cmdp.move_costs is not None
    assert cmdp.move_costs.tolist() == [[20.0, 10.0, 30.0]]
    assert cmdp.costs.tolist() == [[[17.5], [30.0]]]


# Thresholds, initial law, names


def test_bad_thresholds() -> None:
    refused("thresholds have shape (); they must be a list of m numbers, one per constraint", thresholds=0.5)
    refused(
        "thresholds[0] is nan; it must be finite; leave out the costs that have no limit",
        thresholds=[np.nan],
    )
    refused("thresholds must be real numbers in a regular array", thresholds=["low"])
    refused("thresholds must be real numbers in a regular array", thresholds=[None])
    assert CMDP(P, C[:1]).m == 0


def test_bad_initial() -> None:
    remedy = "give a state, or a distribution over the states"
    refused("initial is 2; a start state must be one of 0, ..., 1", initial=2)
    refused("initial is -1; a start state must be one of 0, ..., 1", initial=-1)
    refused("initial is 0.5; a start state must be one of 0, ..., 1", initial=0.5)
    refused("initial is nan; a start state must be one of 0, ..., 1", initial=np.nan)
    refused("initial is 'c'; there is no state of that name", initial="c", state_names=["a", "b"])
    refused("initial has shape (3,); it must be a state or a distribution over the 2 states", initial=[1, 0, 0])
    refused(f"initial sums to 0.9; it must sum to 1 (to 1e-06); {remedy}", initial=[0.4, 0.5])
    refused(f"initial[1] is -0.5; a probability must be >= 0; {remedy}", initial=[1.5, -0.5])
    refused(f"initial[0] is nan; a probability must be >= 0; {remedy}", initial=[np.nan, 1.0])


@pytest.mark.parametrize("given", [1, np.int64(1), 1.0, "b", [0, 1], (0.0, 1.0)])
def test_initial(given: Any) -> None:
    assert CMDP(P, C, [0.5], initial=given, state_names=["a", "b"]).initial.tolist() == [0.0, 1.0]


def test_names() -> None:
    refused("there are 3 state_names; there must be 2", state_names=["a", "b", "c"])
    refused("there are 1 action_names; there must be 2", action_names=["a"])
    refused("cost_names has 'a' twice; names must be distinct", cost_names=["a", "a"])
    cmdp = CMDP(P, C, [0.5])
    assert cmdp.state_names == cmdp.action_names == ("0", "1")
    assert cmdp.cost_names == ("c0", "c1")


def test_layout_is_checked_and_copied() -> None:
    agent = np.array([[0, 0], [0, 1]])
    layout = Layout(("..",), agent)
    cmdp = CMDP(P, C, [0.5], layout=layout)
    agent[0] = 7
    assert cmdp.layout is not None
    assert cmdp.layout.agent.tolist() == [[0, 0], [0, 1]]
    refused("layout.agent has shape (1, 2); it must be (2, 2)", layout=Layout((".",), agent[:1]))
    refused("layout.box has shape (1, 2); it must be (2, 2)", layout=Layout((".",), agent, agent[:1]))


# A value


@pytest.mark.parametrize("thin", [False, True])
def test_immutable(thin: bool) -> None:
    given = P.copy()
    cmdp = CMDP(flat(given) if thin else given, C, [0.5])
    given[:] = 0.5
    assert cmdp.to_dense() == CMDP(P, C, [0.5])
    with pytest.raises(AttributeError, match=r"a CMDP is immutable; use cmdp.replace\(S=...\) to get a changed"):
        cmdp.S = 3
    with pytest.raises(AttributeError, match="a CMDP is immutable"):
        del cmdp.costs
    for array in (cmdp.costs, cmdp.thresholds, cmdp.initial, cmdp.matrix.data, cmdp.matrix.indices):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    for array in cmdp.to_arrays().values():
        assert not array.flags.writeable or array.dtype.kind == "U"


def test_replace() -> None:
    cmdp = CMDP(P, C, [0.5], state_names=["a", "b"])
    other = cmdp.replace(thresholds=[0.25], initial="b")
    assert other.thresholds.tolist() == [0.25]
    assert other.state_names == ("a", "b")
    assert cmdp.thresholds.tolist() == [0.5]
    with pytest.raises(TypeError, match=r"replace\(\) takes transitions, .*; not S, gamma"):
        cmdp.replace(S=3, gamma=0.9)


@pytest.mark.parametrize("thin", [False, True])
@pytest.mark.parametrize("per_move", [False, True])
def test_equality_and_pickling(thin: bool, per_move: bool) -> None:
    costs = np.arange(16.0).reshape(2, 2, 2, 2) if per_move else C
    layout = Layout(("..",), np.array([[0, 0], [0, 1]]))
    cmdp = CMDP(P, costs, [0.5], cost_names=["time", "fuel"], layout=layout)
    cmdp = cmdp.to_sparse() if thin else cmdp
    copy = pickle.loads(pickle.dumps(cmdp))
    assert copy == cmdp
    assert hash(copy) == hash(cmdp)
    assert copy.is_sparse == thin
    assert copy.layout is not None
    assert copy.layout.rows == ("..",)
    assert cmdp != cmdp.replace(thresholds=[0.4])
    assert cmdp != cmdp.replace(cost_names=["time", "money"])
    assert cmdp != cmdp.replace(initial=1)
    assert cmdp != cmdp.replace(layout=None)
    assert cmdp != "cmdp"


def test_policy() -> None:
    cmdp = CMDP(P, C, [0.5])
    for model in (cmdp, cmdp.to_sparse()):
        chain = model.policy_matrix(model.check_policy([[1.0, 0.0], [0.5, 0.5]]))
        assert chain.toarray().tolist() == [[0.5, 0.5], [0.125, 0.875]]
    remedy = "give each state a distribution over the actions"
    cases: list[tuple[Any, str]] = [
        ([[1.0, 0.0]], "the policy has shape (1, 2); it must be (S, A) = (2, 2)"),
        ([[1, 0], [0, 0.5]], f"policy[1] sums to 0.5; it must sum to 1 (to 1e-06); {remedy}"),
        ([[1, 0], [2, -1]], f"policy[1, 1] is -1.0; a probability must be >= 0; {remedy}"),
        ([[1, 0], [np.nan, 1]], f"policy[1, 0] is nan; a probability must be >= 0; {remedy}"),
        ("left", "policy must be real numbers in a regular array"),
    ]
    for policy, message in cases:
        with pytest.raises(InvalidModelError) as caught:
            cmdp.check_policy(policy)
        assert str(caught.value) == message


def test_a_name_is_no_model() -> None:
    name: Any = "toy"
    uniform = psconrl.agents.Uniform(psconrl.Problem(2, 2))
    for call in (
        lambda: psconrl.solve(name),
        lambda: psconrl.evaluate(name, [[1.0]]),
        lambda: psconrl.threshold_sweep(name),
        lambda: psconrl.simulate(uniform, name, 10, 0),
    ):
        with pytest.raises(TypeError, match="'toy' is not a CMDP"):
            call()


def damaged_matrices() -> dict[str, Any]:
    """Sparse matrices of the toy whose parts do not fit together."""
    good: Any = make("toy").to_sparse().matrix.copy()

    def broken(kind: str, part: str, at: int, value: int) -> Any:
        matrix = good.asformat(kind).copy()
        array = getattr(matrix, part)
        array.setflags(write=True)
        array[at] = value
        return matrix

    coo = good.tocoo().copy()
    coo.coords = (coo.coords[0], coo.coords[1] + 10**6)
    short = good.copy()
    short.indices = short.indices[:1]
    hidden = sparse.coo_array(([1.5, -0.5, 1.0, 1.0, 1.0], ([0, 0, 1, 2, 3], [0, 0, 0, 0, 0])), shape=(4, 2))
    return {
        "index too large": broken("csr", "indices", 0, 10**6),
        "index negative": broken("csr", "indices", 0, -7),
        "indptr falls": broken("csr", "indptr", 1, 10**6),
        "indptr too long": broken("csr", "indptr", -1, 10**6),
        "indptr does not start at 0": broken("csr", "indptr", 0, 1),
        "csc": broken("csc", "indices", 0, 10**6),
        "bsr": broken("bsr", "indices", 0, 10**6),
        "coo": coo,
        "fewer indices than data": short,
        "negative and hidden by a sum": hidden,
    }


@pytest.mark.parametrize("name", list(damaged_matrices()))
def test_a_damaged_sparse_matrix_is_refused(name: str) -> None:
    toy, matrix = make("toy"), damaged_matrices()[name]
    with pytest.raises(InvalidModelError, match=r"transitions( is a damaged|\[0, 0, 0\] is -0.5)"):
        CMDP(matrix, toy.costs, toy.thresholds)
    if name != "negative and hidden by a sum":
        with pytest.raises(InvalidModelError, match="costs is a damaged"):
            CMDP(toy.to_sparse().transitions, [matrix, matrix], toy.thresholds)
        with pytest.raises(InvalidModelError, match="prior is a damaged"):
            agents.PSConRL(toy.problem(), prior=matrix)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_a_limit_is_a_finite_number(wrong: float) -> None:
    toy = make("toy")
    with pytest.raises(InvalidModelError, match=r"thresholds\[0\] is"):
        toy.replace(thresholds=[wrong])


# Actions that differ by state

MASK = np.array([[True, True], [False, True]])


def partly(form: Any = np.asarray, **options: Any) -> CMDP:
    """A model with nonsense where an action is not available."""
    wrong, costs = np.array(P), np.array(C, dtype=np.float64)
    wrong[1, 0], costs[:, 1, 0] = [-7.0, np.nan], np.inf
    return CMDP(form(wrong), costs, [0.5], available=MASK, **options)


@pytest.mark.parametrize("form", [np.asarray, flat])
def test_what_is_not_available_is_not_looked_at(form: Any) -> None:
    cmdp = partly(form)
    np.testing.assert_array_equal(cmdp.available, MASK)
    assert not cmdp.available.flags.writeable
    assert not cmdp.matrix[[2]].nnz
    assert not cmdp.costs[:, 1, 0].any()
    np.testing.assert_array_equal(cmdp.costs[:, MASK], np.asarray(C)[:, MASK])
    assert "3 of 4 pairs" in repr(cmdp)
    np.testing.assert_array_equal(cmdp.uniform, [[0.5, 0.5], [0.0, 1.0]])
    for same in (cmdp.to_sparse().to_dense(), pickle.loads(pickle.dumps(cmdp)).to_dense(), cmdp.to_dense().replace()):
        assert same == cmdp.to_dense()
    assert cmdp.to_dense() != CMDP(P, C, [0.5])


def test_a_mask_of_all_actions_is_none() -> None:
    assert CMDP(P, C, [0.5], available=np.ones((2, 2))) == CMDP(P, C, [0.5])
    assert CMDP(P, C, [0.5]).available.all()
    assert partly().replace(transitions=P, costs=C, available=None) == CMDP(P, C, [0.5])


def test_costs_of_moves_that_are_not_available() -> None:
    moves = np.arange(16.0).reshape(2, 2, 2, 2)
    dense = CMDP(P, moves, [0.5], available=MASK)
    matrix = flat(P)
    entries = matrix.tocoo()
    listed = moves.reshape(2, 4, 2)[:, entries.row, entries.col]
    thin = CMDP(matrix, listed, [0.5], available=MASK)
    assert thin.to_dense() == dense
    assert dense.to_sparse() == thin


def test_costs_that_are_not_available_have_no_range() -> None:
    costs = [[[2.0, 4.0], [99.0, 3.0]], [[10.0, 20.0], [-99.0, 10.0]]]
    scaled = CMDP(P, costs, [15.0], available=MASK).rescaled()
    np.testing.assert_allclose(scaled.costs, [[[0.0, 1.0], [0.0, 0.5]], [[0.0, 1.0], [0.0, 0.0]]])
    assert scaled.thresholds.tolist() == [0.5]
    assert scaled.problem("known").available.tolist() == MASK.tolist()


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ([True, False], "available has shape (2,); it must be a mask (S, A) = (2, 2) of True and False"),
        ([[True, True], [False, False]], "available[1] has no action; every state needs at least one"),
        ([[1, 2], [1, 1]], "available must hold True and False only"),
        ([[0.5, 1.0], [1.0, 1.0]], "available must hold True and False only"),
        ([[True], [True, False]], "available is [[True], [True, False]]; it must be a mask"),
        ("all", "available is 'all'; it must be a mask"),
    ],
)
def test_masks_that_are_none(mask: Any, message: str) -> None:
    for form in (np.asarray, flat):
        with pytest.raises(InvalidModelError, match=re.escape(message)):
            CMDP(form(P), C, [0.5], available=mask)


def test_a_policy_takes_what_is_available() -> None:
    cmdp = partly(state_names=["idle", "busy"], action_names=["wait", "work"])
    for wrong in ([[0.5, 0.5], [0.25, 0.75]], [0, 0]):
        with pytest.raises(InvalidModelError, match=r"policy\[1, 0\].*action 'wait' is not available in state 'busy'"):
            psconrl.evaluate(cmdp, wrong)
    assert psconrl.evaluate(cmdp, [0, 1]).average_costs.shape == (2, 2)


# Limits by name


def test_limits_by_name() -> None:
    costs = np.arange(12.0).reshape(3, 2, 2)
    named = CMDP(P, costs, {"noise": 3.0, "energy": 2.0}, cost_names=["delay", "energy", "noise"])
    assert named.thresholds.tolist() == [2.0, 3.0]
    assert CMDP(P, costs, {"c2": 3, "c1": 2}).thresholds.tolist() == [2.0, 3.0]
    assert named.replace(thresholds={"energy": 1, "noise": 0}).thresholds.tolist() == [1.0, 0.0]
    assert CMDP(P, costs[:1], {}).m == 0


@pytest.mark.parametrize(
    ("limits", "names", "message"),
    [
        ({"enrgy": 1}, ["delay", "energy"], "unknown cost in thresholds 'enrgy'; did you mean 'energy'?"),
        ({"delay": 1}, ["delay", "energy"], "thresholds has a limit for 'delay', which is minimised"),
        ({}, ["delay", "energy"], "thresholds has no limit for the cost 'energy'"),
        ({"energy": 1}, None, "thresholds has a limit for 'energy', but costs have no names; give cost_names"),
        ({"energy": "much"}, ["delay", "energy"], "thresholds must be real numbers"),
        ({"energy": 1}, ["delay", "energy", "noise"], "thresholds has no limit for the cost 'noise'"),
    ],
)
def test_limits_by_wrong_names(limits: Any, names: Any, message: str) -> None:
    with pytest.raises(PsconrlError, match=re.escape(message)):
        CMDP(P, C, limits, cost_names=names)


def test_costs_whose_sums_would_overflow_are_refused() -> None:
    def swing(size: float) -> CMDP:
        return CMDP([[[0.0, 1.0]], [[1.0, 0.0]]], [[[size], [-size / 2]]], [])

    assert psconrl.solve(swing(1e200)).value == pytest.approx(2.5e199)
    with pytest.raises(InvalidModelError, match="size"):
        swing(1e201)
