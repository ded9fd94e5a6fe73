"""Shortest paths in models of any size: the fastest way into a set of states, and how often states are met on a way."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import breadth_first_order

from psconrl._core.checks import Bools, Floats, Ints
from psconrl.planning.compiled.elimination import Chain, as_floats, eliminate, visits
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.compiled.shortest_path import (
    ShortestPath,
    almost_surely,
    fastest,
    moves_into,
    nearest_targets,
)
from psconrl.planning.elimination_order import elimination_order
from psconrl.planning.poisson import Factor, generator_of
from psconrl.planning.tolerances import EXACT

MAX_ELIMINATED = 300
"""Policies of models up to this size are evaluated without subtractions, those of larger ones by sparse factors."""
MAX_TIME = 1e5
"""Longer times have too few digits left to tell actions apart, and are found without subtractions too."""
MAX_WORK = 1e8
"""So are single chains that take no more multiplications than this."""
MAX_POLICIES = 1000
TIE = 1e-11
"""An action is faster by more than this share of the time that is left."""


def shortest_path_policy(rows: Rows, targets: Bools) -> ShortestPath:
    """The fastest way into the targets (S,) of a model by rows."""
    if rows.S <= MAX_ELIMINATED:
        return _without_subtractions(rows, targets)
    times, pairs = np.where(targets, 0.0, np.inf), np.full(rows.S, -1, dtype=np.int64)
    into = moves_into(rows, 0.0)
    inside, allowed = almost_surely(targets, into)
    left, nearest = nearest_targets(rows, targets, inside, allowed, into)
    if not len(left):
        return ShortestPath(times, pairs)
    policy, generator = rows.begin[:-1].copy(), generator_of(rows)
    policy[left] = nearest
    reached = np.ones(rows.S, dtype=np.bool_)
    reached[left] = False
    kept, first = np.flatnonzero(reached), rows.begin[:-1]
    for _ in range(MAX_POLICIES):
        V = np.zeros(rows.S)
        try:
            factor = Factor(generator[policy], kept)
            V[factor.rest] = factor.collect(np.ones(len(left)))
        except RuntimeError:  # singular, by rounding
            return _without_subtractions(rows, targets)
        advantage = 1.0 - generator @ V
        if not (V.max() <= MAX_TIME and np.abs(advantage[policy[left]]).max() <= EXACT):
            return _without_subtractions(rows, targets)
        if V.sum() >= times[left].sum():
            break  # what is not faster is so by rounding only
        times[left], pairs[left] = V[left], policy[left]
        advantage[~allowed] = np.inf
        least = np.minimum.reduceat(advantage, first)
        better = least < -TIE * np.maximum(V, 1.0)
        better[kept] = False
        if not better.any():
            break
        best = np.flatnonzero(advantage == least[rows.source])
        best = best[np.searchsorted(rows.source[best], np.arange(rows.S)[better])]
        policy[better] = best
    return ShortestPath(times, pairs)


def _without_subtractions(rows: Rows, targets: Bools) -> ShortestPath:
    return fastest(rows, targets, np.full(rows.S, -1, dtype=np.int64))


def round_trip(rows: Rows, stops: Ints) -> tuple[Floats, bool]:
    """The occupancy (K,) of going from state to state by the fastest ways, and back to the first.

    False if there is no way, or one longer than floats can say, or no time is needed.
    """
    flow, target = np.zeros(rows.K), np.zeros(rows.S, dtype=np.bool_)
    for here, there in zip(stops, np.roll(stops, -1), strict=True):
        if here == there:
            continue
        target[there] = True
        path = shortest_path_policy(rows, target).pairs
        if path[here] < 0:
            return flow, False
        path = np.maximum(path, rows.begin[:-1])
        visited = expected_visits(rows, path, int(here), target)
        visited[there], target[there] = 0.0, False
        np.add.at(flow, path, visited)
    total = float(flow.sum())
    if not 0.0 < total < np.inf:
        return flow, False
    return flow / total, True


def expected_visits(rows: Rows, policy: Ints, start: int, targets: Bools) -> Floats:
    """Expected visits (S,) to each state on the way from a start state to the targets under a policy (S,) of pairs.

    The start counts as a visit; on the targets, the probability to enter there. What a row lacks to one counts as
    staying. inf where numbers exceed the range of floats; nan everywhere if the targets are not reached for sure.
    """
    result = np.zeros(rows.S)
    if targets[start]:
        result[start] = 1.0
        return result
    chain = rows.matrix()[policy]
    chain = sparse.csr_array(sparse.diags_array(np.where(targets, 0.0, 1.0)) @ chain)
    chain.eliminate_zeros()
    if not targets.any():
        return np.full(rows.S, np.nan)
    met = np.sort(breadth_first_order(chain, start, return_predecessors=False)).astype(np.int64)
    part, kept = chain[met][:, met], np.flatnonzero(targets[met])
    here = int(np.searchsorted(met, start))
    small = Chain(part.indptr.astype(np.int64), part.indices.astype(np.int64), part.data)
    order, work = elimination_order(small, kept)
    place = np.argsort(np.concatenate([order, kept]))
    starts = np.zeros(len(met))
    if work <= MAX_WORK:
        elimination = eliminate(small, order, place)
        starts[place[here]] = 1.0
        found = as_floats(*visits(elimination, starts, False))[place] if elimination.fine else np.nan
    else:
        generator = generator_of(Rows(np.arange(len(met) + 1), *small))
        factor, found = Factor(generator, kept), np.zeros(len(met))
        starts[here] = 1.0
        found[factor.rest] = factor.visit(starts[factor.rest])
        found[kept] = factor.into_kept.T @ found[factor.rest]
    result[met] = found
    return result
