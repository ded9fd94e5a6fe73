"""From the columns of an optimum to a policy that can be executed; `psconrl.planning.executable` has the rules."""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.pricing import Columns, Start
from psconrl.planning.compiled.rows import Rows, closed_class
from psconrl.planning.compiled.shortest_path import fastest, round_trip
from psconrl.planning.tolerances import NO_WEIGHT, THIN

_NO_TRIP: Floats = np.empty(0)


class Executed(NamedTuple):
    """A policy (K,), the probability of each pair, made of an optimum.

    value: the average of c_0 of the mixture. average_costs (m + 1,): of the policy, nan if classes stay apart.
    classes: recurrent ones of the mixture, joined by round trips if there is a way. connected: whether all states lead
    there (those that do not act uniformly). way (S,): the pairs of the fastest way, -1 on the support. policies (k, S):
    the columns used, the safest first; reference (1,): their likeliest state. stops (classes,): a state of each class.
    """

    policy: Floats
    value: float
    average_costs: Floats
    classes: int
    connected: bool
    way: Ints
    policies: Ints
    reference: Ints
    stops: Ints


def execute(
    rows: Rows, costs: Floats, columns: Columns, basis: Ints, basic: Floats, last_way: Ints, join: float
) -> Executed:
    """Execute the columns that a basis names with weights `basic`; the way is looked for from the last one.

    costs (m + 1, K). join: the share of time for round trips between classes that do not meet.
    """
    made = _execute(rows, costs, columns, basis, basic, last_way, _NO_TRIP, 0.0)
    if made.classes < 2:
        return made
    trip, found = round_trip(rows, made.stops)
    made = _execute(rows, costs, columns, basis, basic, last_way, trip, join if found else 0.0)
    if not found:
        made.average_costs[:] = np.nan
    return made


@njit
def _execute(
    rows: Rows, costs: Floats, columns: Columns, basis: Ints, basic: Floats, last_way: Ints, trip: Floats, join: float
) -> Executed:
    """The same with the occupancy (K,) of a round trip; without one, classes that would need it are only counted."""
    S, K = len(rows.begin) - 1, len(rows.indptr) - 1
    names, weights = np.empty(len(basis), dtype=np.int64), np.empty(len(basis))
    count, total = 0, 0.0
    for b in range(len(basis)):
        if basis[b] >= 0 and basic[b] > NO_WEIGHT:
            at = count
            while at > 0 and columns.J[names[at - 1], -1] > columns.J[basis[b], -1]:
                names[at], weights[at] = names[at - 1], weights[at - 1]
                at -= 1
            names[at], weights[at] = basis[b], basic[b]
            count += 1
            total += basic[b]
    policy, mass, averages = np.zeros(K), np.zeros(S), np.zeros(len(costs))
    group, stops = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    inside, own = np.zeros(S, dtype=np.bool_), np.zeros((count, S), dtype=np.bool_)
    policies = np.empty((count, S), dtype=np.int64)
    for k in range(count):
        weights[k] /= total
        law, actions = columns.laws[names[k]], columns.policies[names[k]]
        likeliest = 0
        for s in range(S):
            policies[k, s] = actions[s]
            if law[s] > law[likeliest]:
                likeliest = s
        closed_class(rows, actions, likeliest, own[k])
        group[k], stops[k] = k, likeliest
        for j in range(k):
            most = 0.0
            for s in range(S):
                if own[j, s] and own[k, s]:
                    most = max(most, min(weights[j] * columns.laws[names[j], s], weights[k] * law[s]))
            if most > THIN:
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
    reference = np.zeros(1, dtype=np.int64)
    for s in range(S):
        if mass[s] > mass[reference[0]]:
            reference[0] = s
    value = averages[0]
    if classes > 1 and len(trip) == 0:
        return Executed(policy, value, averages, classes, False, last_way, policies, reference, stops[:classes])
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
    way = np.empty(0, dtype=np.int64)
    if missing > 0 and count > 0:
        way = fastest(rows, inside, last_way, way).pairs
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
        elif count > 0 and way[s] >= 0:
            policy[way[s]] = 1.0
        else:
            connected = False
            for pair in range(first, after):
                policy[pair] = 1.0 / (after - first)
    if missing == 0 or count == 0:
        way = last_way
    return Executed(policy, value, averages, classes, connected, way, policies, reference, stops[:classes])


@njit
def sound(rows: Rows, start: Start, way: Ints) -> bool:
    """Whether a start belongs to a model of this size: pairs of their states, finite numbers, multipliers >= 0."""
    S = len(rows.begin) - 1
    fine = 0 <= start.reference[0] < S and len(start.policies) > 0
    for k in range(len(start.policies)):
        for s in range(S):
            fine = fine and rows.begin[s] <= start.policies[k, s] < rows.begin[s + 1]
    for s in range(S):
        fine = fine and (way[s] == -1 or rows.begin[s] <= way[s] < rows.begin[s + 1])
    for s in range(len(start.bias)):
        fine = fine and np.isfinite(start.bias[s])
    for i in range(len(start.multipliers)):
        fine = fine and 0.0 <= start.multipliers[i] < np.inf
    return bool(fine)
