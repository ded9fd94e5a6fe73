"""The fastest way into a set of states: a stochastic shortest path, solved exactly by policy iteration.

    V(s) = 0 on the targets,     V(s) = 1 + min_a sum_s' p(s' | s, a) V(s')     elsewhere

V is the minimal expected number of moves. Where no policy reaches the targets with probability one, it is
infinite. The start policy follows the paths with the least sum of 1 / p, the number of attempts that a move
takes; it is proper (it reaches the targets), and so is every improvement of a proper policy.

A chain that leaves a cluster of states with probability 1e-12 per move has V of the order of 1e12, and two
actions that differ by a factor of two in the way out differ by one part in 1e12 in the right-hand side
above. Hence everything is done in differences, from which that large common part falls out:

    advantage(s, a) = 1 + sum_s' p(s' | s, a) (V(s') - V(s))

V is held as an unevaluated sum of two floats, corrected until the advantage of the current policy vanishes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from scipy import linalg, sparse
from scipy.sparse import csgraph
from scipy.sparse.linalg import splu

from psconrl._checks import Bools, Floats, Ints
from psconrl.graph import almost_sure_reach

_NEVER = 1e-100  # moves less likely than this are left out: nobody waits for them
_TIE = 1e-12  # relative difference from which an action counts as better
_RARE = 1e-14  # the same, where the times would exceed the range of floats
_DENSE = 300  # up to this many states the elimination is dense
_DENSE_AT_MOST = 2000  # and up to this many where the sparse one fails
_ROUNDS = 6  # of correction
_EPS = float(np.finfo(np.float64).eps)


def fastest_way(matrix: sparse.csr_array, targets: Bools) -> tuple[Floats, Ints]:
    """The minimal expected times (S,) to reach the targets, and an action (S,) that attains each.

    On the targets the time is 0 and the action -1; where no policy reaches them with probability one, inf
    and -1. Of equally good actions, the one in use stays, and otherwise the lowest is taken. What a row of
    `matrix` lacks to one counts as staying. Times beyond the range of floats are inf, but have an action.
    """
    S = matrix.shape[1]
    times: Floats = np.where(targets, 0.0, np.inf)
    actions: Ints = np.full(S, -1, dtype=np.int64)
    for least in (_NEVER, _RARE):
        matrix = _likely(matrix, least)
        states, allowed = almost_sure_reach(matrix, targets)
        if not (states & ~targets).any():
            break
        problem = _Problem.of(matrix, states & ~targets, targets, allowed)
        policy, V = _iterate(problem)
        times[problem.states] = V
        actions[problem.states] = problem.action[policy]
        if np.isfinite(V).all():
            break
    return times, actions


@dataclass(frozen=True)
class _Problem:
    """The n states to be left, numbered 0..n-1; all targets together are state n.

    states (n,): their numbers in the model. Each pair k = 0..K-1 is an action[k] in state source[k]; the
    pairs of one state are neighbours. pair, start, end, p: the possible moves, by pair; those of pair k
    begin at begin[k].
    """

    states: Ints
    source: Ints
    action: Ints
    pair: Ints
    start: Ints
    end: Ints
    p: Floats
    begin: Ints

    @classmethod
    def of(cls, matrix: sparse.csr_array, inside: Bools, targets: Bools, allowed: Bools) -> "_Problem":
        """From a model, the states to be left, the targets and the allowed actions."""
        S, A = allowed.shape
        states = np.flatnonzero(inside)
        number = np.full(S, -1)
        number[states] = np.arange(len(states))
        number[targets] = len(states)
        pairs = np.flatnonzero((allowed & inside[:, np.newaxis]).ravel())
        chosen = matrix if len(pairs) == S * A else matrix[pairs]
        pair = np.repeat(np.arange(len(pairs)), np.diff(chosen.indptr))
        source = number[pairs // A]
        ends = number[chosen.indices]
        return cls(states, source, pairs % A, pair, source[pair], ends, chosen.data, chosen.indptr.astype(np.int64))

    @cached_property
    def first(self) -> Ints:
        """The first pair of each state."""
        return np.searchsorted(self.source, np.arange(len(self.states)))


class _Solver(Protocol):
    def __call__(self, amounts: Floats) -> Floats:
        """The expected sums of the amounts (n,) collected until the targets are reached."""


def _likely(matrix: sparse.csr_array, least: float) -> sparse.csr_array:
    """The matrix without moves that are less likely than the least probability."""
    if (matrix.data > least).all():
        return matrix
    matrix = matrix.copy()
    matrix.data[matrix.data <= least] = 0.0
    matrix.eliminate_zeros()
    return matrix


def _iterate(problem: _Problem) -> tuple[Ints, Floats]:
    """Policy iteration: the pair that the last policy uses in each state, and its values.

    Values that do not come down, which only rounding can bring about, end it; the policy before is kept.
    """
    policy = _start(problem)
    V = _evaluate(problem, policy)
    if not np.isfinite(V.high).all():
        return policy, V.high
    for _ in range(len(problem.states) + 100):
        better = _improve(problem, policy, V)
        if (better == policy).all():
            break
        W = _evaluate(problem, better)
        if not (W.high <= V.high * (1 + 1e-9)).all():
            break
        policy, V = better, W
    return policy, V.high


def _start(problem: _Problem) -> Ints:
    """The policy that follows the paths with the least sum of 1 / p."""
    n = len(problem.states)
    shape = (n + 1, len(problem.source))
    back = sparse.csc_array((1 / problem.p, problem.end, problem.begin), shape=shape).tocsr()
    graph = sparse.csr_array((back.data, problem.source[back.indices], back.indptr), shape=(n + 1, n + 1))
    _, nearer = csgraph.dijkstra(graph, directed=True, indices=[n], return_predecessors=True)
    onward = np.flatnonzero(nearer[0, problem.start] == problem.end)
    # Of the moves to the next state on the path, the likeliest; of equally likely ones, the lowest action.
    order = onward[np.lexsort((problem.pair[onward], -problem.p[onward], problem.start[onward]))]
    _, first = np.unique(problem.start[order], return_index=True)
    return problem.pair[order[first]]


@dataclass(frozen=True)
class _Values:
    """V = high + low, exactly; `high` is V rounded."""

    high: Floats
    low: Floats

    def plus(self, change: Floats) -> "_Values":
        change = change + self.low
        high = self.high + change
        return _Values(high, (self.high - high) + change)


def _evaluate(problem: _Problem, policy: Ints) -> _Values:
    """The expected times of a proper policy; inf where they exceed the range of floats.

    Where sparse elimination fails, because ways out are too rare for it, dense elimination is tried.
    """
    n = len(problem.states)
    used = np.zeros(len(problem.source), dtype=np.bool_)
    used[policy] = True
    moves = np.flatnonzero(used[problem.pair] & (problem.start != problem.end))
    start, end, p = problem.start[moves], problem.end[moves], problem.p[moves]
    if n > _DENSE:
        V, sound = _corrected(_sparse, start, end, p, n)
        if sound or n > _DENSE_AT_MOST:
            return V
    return _corrected(_dense, start, end, p, n)[0]


def _corrected(
    factorise: Callable[[Ints, Ints, Floats, int], _Solver], start: Ints, end: Ints, p: Floats, n: int
) -> tuple[_Values, bool]:
    """Expected times, corrected until the advantages of the moves vanish; and whether they nearly do."""
    infinite = _Values(np.full(n, np.inf), np.zeros(n))
    try:
        with np.errstate(all="ignore"):
            solve = factorise(start, end, p, n)
            V = _Values(solve(np.ones(n)), np.zeros(n))
            for _ in range(_ROUNDS):
                error, size = _advantages(V, start, end, p, start, n)
                if not np.isfinite(error).all() or (np.abs(error) <= 4 * _EPS * size).all():
                    break
                V = V.plus(solve(error))
    except RuntimeError:  # a factor is singular
        return infinite, False
    if not np.isfinite(V.high).all():
        return infinite, False
    sound = (V.high > 0.5).all() and (np.abs(error) <= 1e-6 * size + 1e-4 * _EPS * V.high).all()
    return V, bool(sound)


def _advantages(V: _Values, start: Ints, end: Ints, p: Floats, group: Ints, groups: int) -> tuple[Floats, Floats]:
    """1 + sum p (V(end) - V(start)) over each group of moves, and the same with absolute values."""
    from psconrl.planning._shortest_kernels import advantages

    return advantages(np.append(V.high, 0.0), np.append(V.low, 0.0), start, end, p, group, groups)


def _improve(problem: _Problem, policy: Ints, V: _Values) -> Ints:
    """The policy with a better pair wherever there is one: better by more than rounding can feign."""
    advantage, size = _advantages(V, problem.start, problem.end, problem.p, problem.pair, len(problem.source))
    noise = _TIE * size + (_EPS * 1e-4 * V.high + 2 * np.abs(advantage[policy]))[problem.source]
    best = np.minimum.reduceat(advantage, problem.first)
    near = np.flatnonzero(advantage <= best[problem.source] + noise)
    lowest = near[np.searchsorted(problem.source[near], np.arange(len(problem.states)))]
    return np.where(advantage[lowest] < -noise[lowest], lowest, policy)


def _dense(start: Ints, end: Ints, p: Floats, n: int) -> _Solver:
    """Subtraction-free elimination; the targets become state 0, which is kept."""
    from psconrl.planning._kernels import eliminate

    P = np.zeros((n + 1, n + 1))
    P[start + 1, (end + 1) % (n + 1)] = p  # the moves of one pair have different ends, but for the targets
    P[1:, 0] = np.bincount(start[end == n], p[end == n], n)
    out = eliminate(P, np.zeros((n + 1, 0)), 1)[1:]
    visits = np.eye(n) - np.triu(P[1:, 1:], 1)
    onward = np.diag(out) - np.tril(P[1:, 1:], -1)

    def solve(amounts: Floats) -> Floats:
        collected = linalg.solve_triangular(visits, amounts, check_finite=False)
        return np.asarray(linalg.solve_triangular(onward, collected, lower=True, check_finite=False))

    return solve


def _sparse(start: Ints, end: Ints, p: Floats, n: int) -> _Solver:
    """Sparse LU of I - P, its diagonal summed from the ways out."""
    inner = end < n
    rows = np.concatenate([start[inner], np.arange(n)])
    columns = np.concatenate([end[inner], np.arange(n)])
    values = np.concatenate([-p[inner], np.bincount(start, p, n)])
    system = sparse.csc_array((values, (rows, columns)), shape=(n, n))
    factors = splu(system, permc_spec="MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options={"SymmetricMode": True})
    return lambda amounts: np.asarray(factors.solve(amounts), dtype=np.float64)
