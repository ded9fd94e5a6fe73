"""Graph algorithms against brute force: enumeration of all deterministic policies of tiny models."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from psconrl._core import graph
from psconrl._core.checks import Bools, Floats, Ints


def random_matrix(seed: int, S: int, A: int) -> sparse.csr_array:
    """Every pair has one or two successors, so that the graph often falls apart."""
    rng = np.random.default_rng(seed)
    p = np.zeros((S * A, S))
    for row in range(S * A):
        p[row, rng.choice(S, size=min(S, int(rng.integers(1, 3))), replace=False)] = 1.0
    return sparse.csr_array(p / p.sum(axis=1, keepdims=True))


models = st.builds(random_matrix, st.integers(0, 10**6), st.integers(1, 5), st.integers(1, 2))


def closure(edges: Bools) -> Bools:
    """Reflexive transitive closure."""
    reach = edges | np.eye(len(edges), dtype=np.bool_)
    for k in range(len(edges)):
        reach |= np.outer(reach[:, k], reach[k])
    return reach


def policies(matrix: sparse.csr_array) -> list[Floats]:
    """The chains of all deterministic policies."""
    S = matrix.shape[1]
    p = matrix.toarray().reshape(S, -1, S)
    return [p[np.arange(S), actions] for actions in product(range(p.shape[1]), repeat=S)]


def recurrent(chain: Floats) -> set[frozenset[int]]:
    reach = closure(chain > 0)
    return {
        frozenset(np.flatnonzero(reach[s]).tolist())
        for s in range(len(chain))
        if all(reach[x, s] for x in np.flatnonzero(reach[s]))
    }


def possible(matrix: sparse.csr_array) -> Bools:
    """(S, A, S): which moves are possible."""
    S = matrix.shape[1]
    return np.asarray(matrix.toarray().reshape(S, -1, S) > 0, dtype=np.bool_)


def as_sets(groups: list[Ints]) -> list[list[int]]:
    return [group.tolist() for group in groups]


def mask(matrix: sparse.csr_array, seed: int) -> Bools:
    return np.random.default_rng(seed).random(matrix.shape[1]) < 0.5


@settings(deadline=None)  # kernels are compiled at first use
@given(models, st.integers(0, 99))
def test_state_graph_and_reachable(matrix: sparse.csr_array, seed: int) -> None:
    edges = np.asarray(possible(matrix).any(axis=1))
    found = graph.state_graph(matrix)
    np.testing.assert_array_equal(found.toarray(), edges.astype(float))
    start = mask(matrix, seed)
    np.testing.assert_array_equal(graph.reachable(matrix, start), closure(edges)[start].any(axis=0))
    assert graph.is_communicating(matrix) == closure(edges).all()


@settings(deadline=None)  # kernels are compiled at first use
@given(models)
def test_closed_classes_are_the_recurrent_classes(matrix: sparse.csr_array) -> None:
    for chain in policies(matrix)[:8]:
        found = as_sets(graph.closed_classes(sparse.csr_array(chain)))
        assert found == sorted(sorted(group) for group in recurrent(chain))
        assert found == sorted(found)


@settings(deadline=None)  # kernels are compiled at first use
@given(models)
def test_weakly_communicating(matrix: sparse.csr_array) -> None:
    """Brute force: the states recurrent under some policy are all reachable from each other, and closed."""
    S = matrix.shape[1]
    edges = np.asarray(possible(matrix).any(axis=1))
    reach = closure(edges)
    somewhere = sorted({s for chain in policies(matrix) for group in recurrent(chain) for s in group})
    expected = bool(reach[np.ix_(somewhere, somewhere)].all())
    closed_class = {s for s in range(S) if reach[:, s].all()}
    expected = expected and set(somewhere) <= closed_class
    assert graph.is_weakly_communicating(matrix) == expected


@settings(deadline=None)  # kernels are compiled at first use
@given(models, st.integers(0, 99), st.booleans())
def test_end_components(matrix: sparse.csr_array, seed: int, everywhere: bool) -> None:
    """Unions of overlapping end components are end components: merging gives the maximal ones."""
    states = None if everywhere else mask(matrix, seed)
    inside = set(range(matrix.shape[1]) if states is None else np.flatnonzero(states).tolist())
    merged: list[set[int]] = []
    for piece in brute_end_components(matrix, inside):
        touching = [other for other in merged if other & piece]
        merged = [other for other in merged if not other & piece] + [piece.union(*touching)]
    assert as_sets(graph.end_components(matrix, states)) == sorted(sorted(group) for group in merged)
    chosen = np.ones(matrix.shape[1], dtype=np.bool_) if states is None else states
    assert graph.stay_for_ever(matrix, chosen).any() == bool(merged)


def brute_end_components(matrix: sparse.csr_array, inside: set[int]) -> list[set[int]]:
    """All sets of states that are end components, by trying every subset."""
    S = matrix.shape[1]
    p = possible(matrix)
    found = []
    for bits in product([False, True], repeat=S):
        chosen = np.array(bits)
        group = set(np.flatnonzero(chosen).tolist())
        if not group or not group <= inside:
            continue
        staying = ~(p & ~chosen).any(axis=2)
        edges = (p & staying[:, :, np.newaxis]).any(axis=1)[np.ix_(chosen, chosen)]
        if staying[chosen].any(axis=1).all() and closure(edges).all():
            found.append(group)
    return found


def test_stored_zeros_are_no_moves() -> None:
    p = sparse.csr_array(np.array([[0.5, 0.5], [0.5, 0.5]]))
    p.data[1] = 0.0
    assert p.nnz == 4
    assert not graph.is_communicating(p)
    assert as_sets(graph.end_components(p)) == [[0]]
    np.testing.assert_array_equal(graph.reachable(p, np.array([True, False])), [True, False])
    assert p.nnz == 4  # the caller's matrix is left alone


def corridor(S: int) -> sparse.csr_array:
    """One action: to the right; the last state stays."""
    return sparse.csr_array((np.ones(S), (np.arange(S), np.minimum(np.arange(S) + 1, S - 1))), shape=(S, S))


def test_an_action_that_leads_nowhere_is_no_action() -> None:
    """State 0: stay, or nothing; state 1: nothing, or to 0."""
    p = sparse.csr_array(np.array([[1.0, 0.0], [0.0, 0.0], [0.0, 0.0], [1.0, 0.0]]))
    assert as_sets(graph.end_components(p)) == [[0]]


def test_a_long_corridor_falls_state_by_state() -> None:
    S = 3000
    everything = np.ones(S, dtype=np.bool_)
    assert as_sets(graph.end_components(corridor(S))) == [[S - 1]]
    assert graph.is_weakly_communicating(corridor(S))
    everything[-1] = False
    assert graph.end_components(corridor(S), everything) == []


def test_no_states_at_all() -> None:
    nowhere = np.zeros(4, dtype=np.bool_)
    assert graph.end_components(corridor(4), nowhere) == []
    assert not graph.reachable(corridor(4), nowhere).any()


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_index_types(dtype: type) -> None:
    p = corridor(5)
    p = sparse.csr_array((p.data, p.indices.astype(dtype), p.indptr.astype(dtype)), shape=p.shape)
    start = np.arange(5) == 3
    np.testing.assert_array_equal(graph.reachable(p, start), [False, False, False, True, True])
    assert as_sets(graph.closed_classes(graph.state_graph(p))) == [[4]]
