"""Exact graph algorithms on the support of a model: which moves are possible, never how likely they are.

`matrix` is the sparse (S * A, S) matrix of transitions, row s * A + a; a pair is such a row. Everything here
needs memory proportional to the number of possible moves.

    end component      states C and, for each, a non-empty set of actions that never leave C, such that all
                       states of C reach each other: where a policy may stay for ever
"""

from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from psconrl._core.checks import Bools, Ints


def state_graph(matrix: sparse.csr_array) -> sparse.csr_array:
    """The (S, S) graph with an edge s -> s' wherever some action has p(s' | s, a) > 0."""
    matrix = _support(matrix)
    graph = _graph(matrix.indices, matrix.indptr[:: _actions(matrix)])
    graph.sum_duplicates()
    graph.data[:] = 1.0
    return graph


def reachable(matrix: sparse.csr_array, start: Bools) -> Bools:
    """The states that some sequence of actions reaches, from `start`, with positive probability."""
    matrix = _support(matrix)
    return _search(matrix.indices, matrix.indptr[:: _actions(matrix)], start)


def strong_classes(graph: sparse.csr_array) -> tuple[int, Ints]:
    """The number of strongly connected components of a graph, and the component of each state."""
    count, labels = csgraph.connected_components(_support(graph), directed=True, connection="strong")
    return int(count), labels.astype(np.int64)


def closed_classes(graph: sparse.csr_array) -> list[Ints]:
    """The strong components that no edge leaves, each sorted, in the order of their smallest states.

    For the graph of a policy's chain these are its recurrent classes.
    """
    count, labels = strong_classes(graph)
    edges = _support(graph).tocoo()
    leaves = labels[edges.row] != labels[edges.col]
    closed = np.ones(count, dtype=np.bool_)
    closed[labels[edges.row[leaves]]] = False
    return groups(labels, closed[labels])


def is_communicating(matrix: sparse.csr_array) -> bool:
    """Whether every state can be reached from every other one under some policy."""
    return strong_classes(state_graph(matrix))[0] == 1


def is_weakly_communicating(matrix: sparse.csr_array) -> bool:
    """Whether there is one closed communicating class, and every other state is transient under every policy.

    (Puterman, section 8.3.1.)
    """
    closed = closed_classes(state_graph(matrix))
    if len(closed) > 1:
        return False
    outside = np.ones(matrix.shape[1], dtype=np.bool_)
    outside[closed[0]] = False
    return not stay_for_ever(matrix, outside).any()


def stay_for_ever(matrix: sparse.csr_array, states: Bools) -> Bools:
    """The largest subset of `states` in which some policy stays for ever, with certainty.

    It is empty if and only if there is no end component within `states`.
    """
    pairs = _Pairs(matrix)
    pairs.remove(np.flatnonzero(~states))
    return pairs.states


def end_components(matrix: sparse.csr_array, states: Bools | None = None) -> list[Ints]:
    """The maximal end components within the given states, in the order of their smallest states."""
    pairs = _Pairs(matrix)
    if states is not None:
        pairs.remove(np.flatnonzero(~states))
    while True:
        sources, targets = pairs.moves()
        graph = sparse.csr_array((np.ones(len(sources)), (pairs.source[sources], targets)), shape=(pairs.S, pairs.S))
        _, labels = strong_classes(graph)
        crossing = sources[labels[pairs.source[sources]] != labels[targets]]
        if not len(crossing):
            return groups(labels, pairs.states)
        pairs.forbid(crossing)


def groups(labels: Ints, chosen: Bools | None = None) -> list[Ints]:
    """The (chosen) states by label, each group sorted, groups in the order of their smallest states."""
    states = np.arange(len(labels)) if chosen is None else np.flatnonzero(chosen)
    if not len(states):
        return []
    order = states[np.argsort(labels[states], kind="stable")]
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    return sorted(np.split(order, cuts), key=lambda group: int(group[0]))


class _Pairs:
    """The pairs that are still allowed while states and pairs are taken away.

    A state without allowed pairs is taken away too, and so are all pairs that may lead to a state taken away. Each
    pair is removed once, so any sequence of removals costs O(moves).
    """

    def __init__(self, matrix: sparse.csr_array) -> None:
        self.matrix = _support(matrix)
        self.S, self.A = self.matrix.shape[1], _actions(self.matrix)
        self.source = np.repeat(np.arange(self.S), self.A)
        self.states = np.ones(self.S, dtype=np.bool_)
        self.allowed = np.ones(self.S * self.A, dtype=np.bool_)
        self._left = np.full(self.S, self.A)
        nowhere = np.flatnonzero(np.diff(self.matrix.indptr) == 0)
        if len(nowhere):  # an action that leads nowhere cannot be taken
            self.forbid(nowhere)

    @cached_property
    def _into(self) -> sparse.csc_array:
        return self.matrix.tocsc()

    def moves(self) -> tuple[Ints, Ints]:
        """The possible moves of the allowed pairs: pair and next state of each."""
        lengths = np.diff(self.matrix.indptr)
        keep = np.repeat(self.allowed, lengths)
        pairs = np.repeat(np.arange(len(lengths)), lengths)[keep]
        return pairs, self.matrix.indices[keep].astype(np.int64)

    def remove(self, states: Ints) -> None:
        """Take away states, and whatever falls with them."""
        while len(states):
            self.states[states] = False
            own = (states[:, np.newaxis] * self.A + np.arange(self.A)).ravel()
            into = self._into.indices[_slices(self._into.indptr, states)]
            states = self._drop(np.concatenate([own, into]))

    def forbid(self, pairs: Ints) -> None:
        """Take away pairs, and whatever falls with them."""
        self.remove(self._drop(pairs))

    def _drop(self, pairs: NDArray[np.integer]) -> Ints:
        """Forbid pairs; the states that are left without any."""
        pairs = np.unique(pairs[self.allowed[pairs]])
        self.allowed[pairs] = False
        np.subtract.at(self._left, pairs // self.A, 1)
        touched = np.unique(pairs // self.A)
        empty = (self._left[touched] == 0) & self.states[touched]
        return np.asarray(touched[empty], dtype=np.int64)


def _support(matrix: sparse.csr_array) -> sparse.csr_array:
    """The matrix without stored zeros."""
    if (matrix.data > 0).all():
        return matrix
    matrix = matrix.copy()
    matrix.eliminate_zeros()
    return matrix


def _actions(matrix: sparse.csr_array) -> int:
    return int(matrix.shape[0] // matrix.shape[1])


def _graph(indices: NDArray[np.integer], indptr: NDArray[np.integer]) -> sparse.csr_array:
    nodes = len(indptr) - 1
    return sparse.csr_array((np.ones(len(indices)), indices.copy(), indptr.copy()), shape=(nodes, nodes))


def _search(indices: NDArray[np.integer], indptr: NDArray[np.integer], start: Bools) -> Bools:
    """The nodes that a breadth-first search from a set of nodes finds."""
    S = len(indptr) - 1
    origins = np.flatnonzero(start).astype(indices.dtype)
    # One more node, with edges to the whole set, to start from.
    graph = _graph(np.concatenate([indices, origins]), np.append(indptr, len(indices) + len(origins)))
    found = np.zeros(S + 1, dtype=np.bool_)
    found[csgraph.breadth_first_order(graph, S, directed=True, return_predecessors=False)] = True
    return found[:S]


def _slices(indptr: NDArray[np.integer], which: Ints) -> Ints:
    """The positions of the entries of the given rows (or columns) of a compressed matrix."""
    begin = indptr[which].astype(np.int64)
    lengths = indptr[which + 1] - begin
    shift = np.repeat(begin - np.concatenate([[0], np.cumsum(lengths)[:-1]]), lengths)
    return shift + np.arange(len(shift))
