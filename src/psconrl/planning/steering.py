"""Mixtures to be steered, from whatever found them; `psconrl.planning.steered` has the rule."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.graph import closed_classes
from psconrl.planning.compiled.planned import mixture_of
from psconrl.planning.compiled.pricing import Columns, Mixture
from psconrl.planning.compiled.rows import Rows, closed_class, reach
from psconrl.planning.components import Column
from psconrl.planning.evaluation import evaluate_chain
from psconrl.planning.for_agents import Steer, plan_rows
from psconrl.planning.mixtures import core_of
from psconrl.planning.model_rows import rows_of
from psconrl.planning.shortest_paths import shortest_path_policy
from psconrl.planning.solution import Solution
from psconrl.planning.steered import Steered, meeting
from psconrl.planning.tolerances import FEASIBLE, MIN_LIKELY, PROVEN, WHOLE


class Places(NamedTuple):
    """Where columns, or components of them, are: distributions (k, S), drifts (k, m), actions (k, S), -1 elsewhere."""

    distributions: Floats
    drifts: Floats
    actions: Ints


def steered_between(rows: Rows, costs: Floats, mixture: Mixture, thresholds: Floats, steer: Steer) -> Steered:
    """A mixture to be steered, with paths into the cores of its columns where they do not meet."""
    executed = steer.rows or rows
    least = 1.0 / max(steer.time, rows.S)  # so that every row has a move that likely
    places, whole = _places(executed, mixture, thresholds, least)
    binding = mixture.weights @ places.drifts > -10.0 * FEASIBLE
    made = meeting(mixture.weights.copy(), places.actions, places.drifts, binding, thresholds)
    if not whole.all():
        places = _components(places, whole, executed, costs[1:], thresholds, steer.time, least)
    both = np.minimum(places.distributions[:, np.newaxis], places.distributions)
    if both.max(axis=2).min() * rows.S < MIN_LIKELY:
        made = _with_paths(made, places, executed, steer.time)
    # With restarts, as otherwise the policy of least J_i would make for what costs nothing, however far away.
    return _with_reserves(made, rows, costs, steer)


def _places(rows: Rows, mixture: Mixture, thresholds: Floats, least: float) -> tuple[Places, Bools]:
    """Where the columns are, and (k,) whether they are whole: moves less likely than `least` do not count there."""
    own = np.zeros(mixture.policies.shape, dtype=np.bool_)
    inside, shares = np.empty(rows.S, dtype=np.bool_), np.empty(len(own))
    for k, (mu, policy) in enumerate(zip(mixture.distributions, mixture.policies, strict=True)):
        likeliest = int(mu.argmax())
        reach(rows, policy, likeliest, 0.0, own[k])
        closed_class(rows, policy, likeliest, least, inside)
        shares[k] = mu[own[k] & inside].sum()
    actions = np.where(own, mixture.policies - rows.begin[:-1], -1)
    drifts = np.ascontiguousarray(mixture.J[:, 1:] - thresholds)
    return Places(np.where(own, mixture.distributions, 0.0), drifts, actions), shares >= WHOLE


def _components(
    places: Places, whole: Bools, rows: Rows, costs: Floats, thresholds: Floats, time: int, least: float
) -> Places:
    """With the components of columns that are not whole in their place; costs (m, K).

    A column stays in a component by moves that are to be expected in `time` steps. The drift there is what its own mu
    costs there: the column promises a mean over components between which it does not go in that time.
    """
    found = []
    for k, (mu, drift, actions) in enumerate(zip(*places, strict=True)):
        pairs, core, components = rows.begin[:-1] + np.maximum(actions, 0), core_of(mu, mu > 0, time), []
        if not whole[k]:
            chain = rows.matrix()[pairs]
            chain.data[chain.data < least] = 0.0
            chain.eliminate_zeros()
            components = [states for states in closed_classes(chain) if core[states].any()]
        if not components:
            found.append((mu, drift, actions))
        for states in components:
            own, acting = np.zeros(rows.S), np.full(rows.S, -1)
            own[states], acting[states] = mu[states] / mu[states].sum(), actions[states]
            found.append((own, costs[:, pairs] @ own - thresholds, acting))
    return Places(*(np.array(values) for values in zip(*found, strict=True)))


def _with_paths(made: Steered, places: Places, rows: Rows, time: int) -> Steered:
    """With the shortest paths into the cores that the places have in `time` steps.

    Also with the band: d is the expected time of the longest round trip; what takes longer than `time` steps is not
    worth knowing more of.
    """
    mus, drifts, _ = places
    cores = [core_of(mu, mu > 0, time) for mu in mus]
    paths = [shortest_path_policy(rows, core) for core in cores]
    transfers = [
        _path_and_core(rows, path.pairs - rows.begin[:-1], actions, mu, core)
        for path, actions, mu, core in zip(paths, places.actions, mus, cores, strict=True)
    ]
    shares = np.where(cores, mus, 0.0)
    times = shares @ np.array([np.minimum(path.times, time) for path in paths]).T / shares.sum(axis=1, keepdims=True)
    size = np.abs(drifts).sum(axis=1, keepdims=True)
    return made._replace(
        transfers=np.array(transfers),
        directions=np.divide(drifts, size, out=np.zeros_like(drifts), where=size > 0),
        levels=np.tile([1.0, -0.5], (len(transfers), 1)),
        slope=1.0 + min(float((times + times.T).max()), float(time)),
    )


def _path_and_core(rows: Rows, path: Ints, actions: Ints, mu: Floats, core: Bools) -> Ints:
    """What to do (S,) on the path into a core and in it; -1 where no path is known.

    A core between whose components its column goes through unlikely states falls apart without these: they are kept.
    """
    steps = np.where(core, actions, np.maximum(path, -1))
    reached = np.empty(rows.S, dtype=np.bool_)
    reach(rows, rows.begin[:-1] + np.maximum(steps, 0), int(mu.argmax()), 0.0, reached)
    return steps if reached[core].all() else np.where(actions >= 0, actions, steps)


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
    """With the policy of least sum of J_i over the limits that are exceeded by more than the band, where no column
    lowers them. One at a time would not do: what lowers one of them may raise another, in turns and for ever.

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
