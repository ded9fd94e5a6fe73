"""Mixtures to be steered, from whatever found them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.graph import closed_classes
from psconrl.planning.compiled.planned import mixture_of
from psconrl.planning.compiled.pricing import Columns, Mixture
from psconrl.planning.compiled.rows import Rows, reach
from psconrl.planning.compiled.steering import meet, mixed
from psconrl.planning.components import Column
from psconrl.planning.evaluation import evaluate_chain
from psconrl.planning.for_agents import Steer, plan_rows
from psconrl.planning.mixtures import core_of
from psconrl.planning.model_rows import rows_of
from psconrl.planning.shortest_paths import shortest_path_policy
from psconrl.planning.solution import Solution
from psconrl.planning.steered import Steered, without_ways
from psconrl.planning.tolerances import PROVEN


class Places(NamedTuple):
    """Where columns live, or parts of them: laws (k, S), drifts (k, m) and actions (k, S), -1 elsewhere."""

    laws: Floats
    drifts: Floats
    actions: Ints


def steered_between(rows: Rows, costs: Floats, mixture: Mixture, thresholds: Floats, steer: Steer) -> Steered:
    """A mixture to be steered, with ways into the cores of its columns where they do not meet."""
    executed = steer.rows or rows
    least = 1.0 / max(steer.time, rows.S)  # so that every row has a move that likely
    actions, drifts, binding, laws, whole = mixed(tuple(executed), tuple(mixture), thresholds, least)
    made = without_ways(mixture.weights.copy(), actions, drifts, binding, thresholds)
    places = Places(laws, drifts, actions)
    if not whole.all():
        places = _in_parts(places, whole, executed, costs[1:], thresholds, steer.time, least)
    if not meet(places.laws):
        made = _with_ways(made, places, executed, steer.time)
    # With restarts, as otherwise the way of least J_i would make for what costs nothing, however far away.
    return _with_reserves(made, rows, costs, steer)


def _in_parts(
    places: Places, whole: Bools, rows: Rows, costs: Floats, thresholds: Floats, time: int, least: float
) -> Places:
    """With the parts of columns that are not whole in their place; costs (m, K).

    A part is where a column stays by moves that are to be expected in `time` steps. Its mu is that of the column, and
    its drift what this mu costs: the column promises a mean over parts between which it does not go in that time.
    """
    found = []
    for k, (mu, drift, actions) in enumerate(zip(*places, strict=True)):
        pairs, core, parts = rows.begin[:-1] + np.maximum(actions, 0), core_of(mu, mu > 0, time), []
        if not whole[k]:
            chain = rows.matrix()[pairs]
            chain.data[chain.data < least] = 0.0
            chain.eliminate_zeros()
            parts = [part for part in closed_classes(chain) if core[part].any()]
        if not parts:
            found.append((mu, drift, actions))
        for part in parts:
            own, acting = np.zeros(rows.S), np.full(rows.S, -1)
            own[part], acting[part] = mu[part] / mu[part].sum(), actions[part]
            found.append((own, costs[:, pairs] @ own - thresholds, acting))
    return Places(*(np.array(values) for values in zip(*found, strict=True)))


def _with_ways(made: Steered, places: Places, rows: Rows, time: int) -> Steered:
    """With the fastest ways into the cores that the places have in `time` steps.

    Also with the band: d is the expected time of the longest round trip; what takes longer than `time` steps is not
    worth knowing more of.
    """
    laws, drifts, _ = places
    cores = [core_of(mu, mu > 0, time) for mu in laws]
    found = [shortest_path_policy(rows, core) for core in cores]
    ways = [
        _way_and_core(rows, way.pairs - rows.begin[:-1], actions, mu, core)
        for way, actions, mu, core in zip(found, places.actions, laws, cores, strict=True)
    ]
    times = np.array(
        [
            [mu[core] @ np.minimum(way.times[core], time) / mu[core].sum() for way in found]
            for mu, core in zip(laws, cores, strict=True)
        ]
    )
    size = np.abs(drifts).sum(axis=1, keepdims=True)
    return made._replace(
        ways=np.array(ways),
        directions=np.divide(drifts, size, out=np.zeros_like(drifts), where=size > 0),
        levels=np.tile([1.0, -0.5], (len(ways), 1)),
        slope=1.0 + min(float((times + times.T).max()), float(time)),
    )


def _way_and_core(rows: Rows, way: Ints, actions: Ints, mu: Floats, core: Bools) -> Ints:
    """What to do (S,) on the way into a core and in it; -1 where no way is known.

    A core between whose parts its column goes through unlikely states falls apart without these: then they are kept.
    """
    led = np.where(core, actions, np.maximum(way, -1))
    reached = np.empty(rows.S, dtype=np.bool_)
    reach(rows, rows.begin[:-1] + np.maximum(led, 0), int(mu.argmax()), 0.0, reached)
    return led if reached[core].all() else np.where(actions >= 0, actions, led)


def from_columns(
    rows: Rows, costs: Floats, columns: list[tuple[float, Column]], thresholds: Floats, steer: Steer
) -> Steered | None:
    """The mixture of columns with their weights; None without limits."""
    if not len(thresholds):
        return None
    found = Columns(
        np.array([column.J for _, column in columns]),
        np.array([column.mu for _, column in columns]),
        np.array([column.policy for _, column in columns]),
        np.array([len(columns)]),
    )
    mixture = mixture_of(found, np.array([weight for weight, _ in columns]))
    return steered_between(rows, costs, mixture, np.array(thresholds), steer)


def _with_reserves(made: Steered, rows: Rows, costs: Floats, steer: Steer) -> Steered:
    """With the way of least sum of J_i over the limits that are exceeded by more than the band, while no column lowers
    them. One at a time would not do: what lowers one of them may raise another, in turns and for ever.

    A plan that may last long gets it beforehand, if no column lowers the limits by a band in that time.
    costs (m + 1, K).
    """
    long = steer.time > 4 * steer.t
    enough = math.sqrt(made.slope / steer.time) if long else 10 * PROVEN
    limits = made.drifts.min(axis=0) > -enough
    if not long:
        limits &= steer.excess > math.sqrt(made.slope * steer.t)
    if not limits.any():
        return made
    best = plan_rows(rows, costs[1:][limits].mean(axis=0, keepdims=True), np.zeros(0), join=0.5)
    assert best.policy is not None
    return made.with_reserve(_actions(rows, best.policy.ravel()), limits)


def from_solution(solution: Solution, steer: Steer, unit: Floats) -> Steered | None:
    """The mixture of a solution, its costs (m + 1) divided by units; None without limits."""
    model = solution.model
    assert model is not None
    rows, first = rows_of(model), np.arange(model.S) * model.A
    costs = np.ascontiguousarray(model.pairs.taken(model.costs) / unit[:, np.newaxis])
    columns = []
    for member in solution.mixture:
        policy = np.searchsorted(model.pairs.numbers, first + member.policy)
        exact = evaluate_chain(rows.matrix()[policy], costs[:, policy], model.initial)
        columns.append((member.weight, Column(policy, exact.average_costs @ model.initial, exact.stationary)))
    steered = from_columns(rows, costs, columns, model.thresholds / unit[1:], steer)
    return None if steered is None else steered.named(model.pairs)


def _actions(rows: Rows, policy: Floats) -> Ints:
    """What a policy (K,) does in each state (S,), -1 where it is random."""
    sure = np.flatnonzero(policy == 1.0)
    actions = np.full(rows.S, -1)
    actions[rows.source[sure]] = sure - rows.begin[rows.source[sure]]
    return actions
