"""From a mixture of policies to one that can be executed; `psconrl.planning.executable` has the rules."""

from typing import Any, NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit_inline
from psconrl.planning.compiled.pricing import Mixture
from psconrl.planning.compiled.rows import Rows, reach
from psconrl.planning.compiled.shortest_path import fastest
from psconrl.planning.shortest_paths import round_trip
from psconrl.planning.tolerances import MIN_OVERLAP

NO_TRIP: Floats = np.empty(0)

Plain = tuple[Any, ...]


class Executed(NamedTuple):
    """A policy (K,), the probability of each pair, made of a mixture.

    value: the average of c_0 of the mixture. average_costs (m + 1,): of the policy, nan if classes stay apart.
    classes: recurrent ones of the mixture, joined by round trips if there is a way. connected: whether all states lead
    there (those that do not act uniformly). link: how likely the states are in which columns meet, where that is least,
    1 if they do not: the shares of pairs in these states are as exact as their distributions. way (S,): the pairs of
    the fastest way, -1 on the support. reference (1,): the likeliest state. stops: the first `classes` of them are
    states of each class.
    """

    policy: Floats
    value: float
    average_costs: Floats
    classes: int
    connected: bool
    link: float
    way: Ints
    reference: Ints
    stops: Ints


def execute(model: Rows | Plain, costs: Floats, mixture: Mixture | Plain, last_way: Ints, join: float) -> Executed:
    """Execute a mixture; the way is looked for from the last one.

    model, mixture: named, or plain tuples as kernels get them. costs (m + 1, K). join: the share of time for round
    trips between classes that do not meet.
    """
    model, mixture = tuple(model), tuple(mixture)
    made = _call(model, costs, mixture, last_way, NO_TRIP, 0.0)
    if made.classes < 2:
        return made
    trip, found = round_trip(Rows(*model), made.stops[: made.classes])
    made = _call(model, costs, mixture, last_way, trip, join if found else 0.0)
    if not found:
        made.average_costs[:] = np.nan
    return made


def _call(model: Plain, costs: Floats, mixture: Plain, last_way: Ints, trip: Floats, join: float) -> Executed:
    """The same with the occupancy (K,) of a round trip; without one, classes that would need it are only counted."""
    policy, averages, way = np.empty(costs.shape[1]), np.empty(len(costs)), np.empty(len(last_way), np.int64)
    reference, stops = np.empty(1, np.int64), np.empty(len(mixture[3]), np.int64)
    into = policy, averages, way, reference, stops
    value, classes, connected, link = execute_mixture(model, costs, mixture, last_way, trip, join, into)
    return Executed(policy, value, averages, classes, connected, link, way, reference, stops)


@njit_inline
def is_way(way: Ints, begin: Ints) -> bool:
    """Whether a way (S,) holds pairs of the states, which begin at begin (S + 1,), or -1."""
    s = 0
    while s < len(way) and (way[s] == -1 or begin[s] <= way[s] < begin[s + 1]):
        s += 1
    return s == len(way)


@njit_inline
def execute_mixture(
    model: Any, costs: Floats, mixture: Any, last_way: Ints, trip: Floats, join: float, into: Any
) -> tuple[float, int, bool, float]:
    """Fill in a policy (K,), its averages (n,), the way (S,), the reference (1,) and a stop of each column.

    Value, classes, connected, link as `Executed` has them.
    """
    rows = Rows(model[0], model[1], model[2], model[3])
    _, distributions, policies, weights = mixture
    policy, averages, way, reference, stops = into
    S, K, count = len(rows.begin) - 1, len(rows.indptr) - 1, len(weights)
    mass, group = np.zeros(S), np.empty(count, dtype=np.int64)
    inside, own = np.zeros(S, dtype=np.bool_), np.zeros((count, S), dtype=np.bool_)
    for pair in range(K):
        policy[pair] = 0.0
    for i in range(len(costs)):
        averages[i] = 0.0
    led = is_way(last_way, rows.begin)
    for s in range(S):
        way[s] = last_way[s] if led else -1
    link = 1.0
    for k in range(count):
        law, actions = distributions[k], policies[k]
        likeliest = 0
        for s in range(S):
            if law[s] > law[likeliest]:
                likeliest = s
        reach(rows, actions, likeliest, 0.0, own[k])
        group[k], stops[k] = k, likeliest
        for j in range(k):
            most = 0.0
            for s in range(S):
                if own[j, s] and own[k, s]:
                    most = max(most, min(weights[j] * distributions[j, s], weights[k] * law[s]))
            if most > 0.0:
                link = min(link, most)
            if most > MIN_OVERLAP:
                before, after = group[k], group[j]
                for i in range(k + 1):
                    if group[i] == before:
                        group[i] = after
        for s in range(S):
            if own[k, s]:
                inside[s] = True
                policy[actions[s]] += weights[k] * law[s]
                mass[s] += weights[k] * law[s]
        for i in range(len(costs)):
            average = 0.0
            for s in range(S):
                average += law[s] * costs[i, actions[s]]
            averages[i] += weights[k] * average
    classes = 0
    for k in range(count):
        if group[k] == k:
            stops[classes] = stops[k]
            classes += 1
    likeliest = 0
    for s in range(S):
        if mass[s] > mass[likeliest]:
            likeliest = s
    reference[0] = likeliest
    value = averages[0]
    if classes > 1 and len(trip) == 0:
        return value, classes, False, link
    if join > 0.0:
        for i in range(len(costs)):
            averages[i] *= 1.0 - join
        for s in range(S):
            mass[s] *= 1.0 - join
            for pair in range(rows.begin[s], rows.begin[s + 1]):
                policy[pair] = (1.0 - join) * policy[pair] + join * trip[pair]
                mass[s] += join * trip[pair]
                inside[s] = inside[s] or trip[pair] > 0.0
                for i in range(len(costs)):
                    averages[i] += join * trip[pair] * costs[i, pair]
    missing = 0
    for s in range(S):
        missing += not inside[s]
    if missing > 0:
        found = fastest(rows, inside, way).pairs
        for s in range(S):
            way[s] = found[s]
    connected = True
    for s in range(S):
        first, after = rows.begin[s], rows.begin[s + 1]
        if inside[s] and mass[s] > 0.0:
            for pair in range(first, after):
                policy[pair] /= mass[s]
        elif inside[s]:
            # Too unlikely to have any mass in floats: as the first column that comes here does.
            for k in range(count - 1, -1, -1):
                if own[k, s]:
                    for pair in range(first, after):
                        policy[pair] = 1.0 if pair == policies[k, s] else 0.0
        elif way[s] >= 0:
            policy[way[s]] = 1.0
        else:
            connected = False
            for pair in range(first, after):
                policy[pair] = 1.0 / (after - first)
    return value, classes, connected, link
