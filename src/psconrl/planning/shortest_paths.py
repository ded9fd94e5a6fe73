"""Shortest paths in models of any size: the fastest into a set of states, and how often states are met on the way."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.graph import reachable
from psconrl.planning.compiled.attractor import proper_policy
from psconrl.planning.compiled.elimination import Chain, eliminate, visits
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.compiled.shortest_path import ShortestPath, fastest
from psconrl.planning.elimination_order import elimination_order
from psconrl.planning.poisson import Factor, generator_of
from psconrl.planning.tolerances import CHEAP_WORK, EPS, EVAL_TOL, MAX_DENSE, MAX_ROUNDS, NOISE


def shortest_path_policy(rows: Rows, targets: Bools) -> ShortestPath:
    """The fastest path into the targets (S,) of a model by rows."""
    if rows.S <= MAX_DENSE:
        return _without_subtractions(rows, targets)
    times, pairs = np.where(targets, 0.0, np.inf), np.full(rows.S, -1, dtype=np.int64)
    policy, generator = pairs.copy(), generator_of(rows)
    left, allowed = proper_policy(rows, targets, policy)
    if not len(left):
        return ShortestPath(times, pairs)
    reached = np.ones(rows.S, dtype=np.bool_)
    reached[left] = False
    kept, first = np.flatnonzero(reached), rows.begin[:-1]
    for _ in range(MAX_ROUNDS):
        V = np.zeros(rows.S)
        try:
            factor = Factor(generator[policy], kept)
            V[factor.rest] = factor.collect(np.ones(len(left)))
        except RuntimeError:  # singular, by rounding
            return _without_subtractions(rows, targets)
        advantage = 1.0 - generator @ V
        if not (V.max() <= NOISE / EPS and np.abs(advantage[policy[left]]).max() <= EVAL_TOL):
            return _without_subtractions(rows, targets)
        if V.sum() >= times[left].sum():
            break  # what is not faster is so by rounding only
        times[left], pairs[left] = V[left], policy[left]
        advantage[~allowed] = np.inf
        least = np.minimum.reduceat(advantage, first)
        better = least < -NOISE * np.maximum(V, 1.0)
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
    """The occupancy (K,) of going from state to state by the fastest paths, and back to the first.

    False if there is no path, or one longer than floats can say, or no time is needed.
    """
    flow, target, start = np.zeros(rows.K), np.zeros(rows.S, dtype=np.bool_), np.zeros(rows.S)
    for here, there in zip(stops, np.roll(stops, -1), strict=True):
        if here == there:
            continue
        target[there], start[here] = True, 1.0
        path = shortest_path_policy(rows, target).pairs
        if path[here] < 0:
            return flow, False
        path = np.maximum(path, rows.begin[:-1])
        visited = expected_visits(rows, path, start, target)
        visited[there], target[there], start[here] = 0.0, False, 0.0
        np.add.at(flow, path, visited)
    total = float(flow.sum())
    if not 0.0 < total < np.inf:
        return flow, False
    return flow / total, True


def expected_visits(rows: Rows, policy: Ints, start: Floats, targets: Bools) -> Floats:
    """Expected visits (S,) to each state on the way from a start distribution (S,) to the targets under a policy (S,).

    Starts count as visits; on the targets, the probability to enter there. What a row lacks to one counts as staying.
    inf where numbers exceed the range of floats; nan everywhere if the targets are not reached for sure.
    """
    result = np.where(targets, start, 0.0)
    if targets[start > 0].all():
        return result
    if not targets.any():
        return np.full(rows.S, np.nan)
    chain = sparse.csr_array(sparse.diags_array(np.where(targets, 0.0, 1.0)) @ rows.matrix()[policy])
    chain.eliminate_zeros()
    met = np.flatnonzero(reachable(chain, start > 0))
    part, kept = chain[met][:, met], np.flatnonzero(targets[met])
    small = Chain(part.indptr.astype(np.int64), part.indices.astype(np.int64), part.data)
    order, work = elimination_order(small, kept)
    if work <= CHEAP_WORK:
        place = np.argsort(np.concatenate([order, kept]))
        starts = np.empty(len(met))
        starts[place] = start[met]
        elimination = eliminate(small, order, place)
        result[met] = visits(elimination, starts, False)[0][place] if elimination.fine else np.nan
        return result
    factor = Factor(generator_of(Rows(np.arange(len(met) + 1), *small)), kept)
    found = factor.visit(start[met][factor.rest])
    result[met[factor.rest]] = found
    result[met[kept]] += factor.into_kept.T @ found
    return result
