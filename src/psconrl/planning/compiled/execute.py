"""From the columns of an optimum to a policy that can be executed; `psconrl.planning.executable` has the rules."""

from typing import NamedTuple

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl._numba import njit
from psconrl.planning.compiled.pricing import Columns, Start
from psconrl.planning.compiled.rows import Rows, closed_class
from psconrl.planning.compiled.shortest_path import fastest
from psconrl.planning.tolerances import NO_WEIGHT, THIN


class Executed(NamedTuple):
    """A policy (K,), the probability of each pair, made of an optimum.

    single: whether its columns meet in one class; else nothing else is done. connected: whether all states lead there
    (those that do not act uniformly). way (S,): the pairs of the fastest way, -1 on the support. names (k,), weights
    (k,): the columns used, the safest first; reference (1,): their likeliest state.
    """

    single: bool
    connected: bool
    policy: Floats
    way: Ints
    names: Ints
    weights: Floats
    reference: Ints


@njit
def execute(rows: Rows, columns: Columns, basis: Ints, basic: Floats, last_way: Ints) -> Executed:
    """Execute the columns that a basis (m + 1,) names with weights `basic`; the way is looked for from the last one."""
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
    policy, mass, group = np.zeros(K), np.zeros(S), np.empty(count, dtype=np.int64)
    inside, own = np.zeros(S, dtype=np.bool_), np.zeros((count, S), dtype=np.bool_)
    for k in range(count):
        weights[k] /= total
        law, actions = columns.laws[names[k]], columns.policies[names[k]]
        likeliest = 0
        for s in range(S):
            if law[s] > law[likeliest]:
                likeliest = s
        closed_class(rows, actions, likeliest, own[k])
        group[k] = k
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
    single = True
    for k in range(count):
        single = single and group[k] == group[0]
    reference, missing = np.zeros(1, dtype=np.int64), 0
    for s in range(S):
        missing += not inside[s]
        if mass[s] > mass[reference[0]]:
            reference[0] = s
    names, weights = names[:count].copy(), weights[:count].copy()
    if not single:
        return Executed(False, False, policy, last_way, names, weights, reference)
    way = np.empty(0, dtype=np.int64)
    if missing > 0:
        way = fastest(rows, inside, last_way, np.empty(0, dtype=np.int64)).pairs
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
                        policy[pair] = 1.0 if pair == columns.policies[names[k], s] else 0.0
        elif way[s] >= 0:
            policy[way[s]] = 1.0
        else:
            connected = False
            for pair in range(first, after):
                policy[pair] = 1.0 / (after - first)
    return Executed(True, connected, policy, way if missing > 0 else last_way, names, weights, reference)


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
