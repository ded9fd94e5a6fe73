"""From a mixture of policies whose classes meet to one policy; `psconrl.planning.executable` has the rules."""

from typing import Any, NamedTuple

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl._core.njit import njit_inline
from psconrl.planning.compiled.rows import Rows, reach
from psconrl.planning.compiled.shortest_path import fastest
from psconrl.planning.tolerances import MIN_OVERLAP

Plain = tuple[Any, ...]


class Executed(NamedTuple):
    """A policy (K,), the probability of each pair, made of a mixture; nothing but the value where `classes` is not 1.

    value: the average of c_0. average_costs (m + 1,). classes: recurrent ones of the mixture. connected: whether all
    states lead there (those that do not act uniformly). link: how likely the states are in which columns meet, where
    that is least, 1 if they do not: the shares of pairs in these states are as exact as their distributions. paths
    (S,): the pairs of the fastest ones, -1 on the support. reference (1,): the likeliest state.
    """

    policy: Floats
    value: float
    average_costs: Floats
    classes: int
    connected: bool
    link: float
    paths: Ints
    reference: Ints


def execute(model: Plain, costs: Floats, mixture: Plain, last_paths: Ints) -> Executed:
    """Execute a mixture; the paths are looked for from the last ones. Plain tuples as kernels get them."""
    policy, averages, paths = np.empty(costs.shape[1]), np.empty(len(costs)), np.empty(len(last_paths), np.int64)
    into = policy, averages, paths, np.empty(1, np.int64)
    value, classes, connected, link = execute_mixture(model, costs, mixture, last_paths, into)
    return Executed(policy, value, averages, classes, connected, link, paths, into[3])


@njit_inline
def are_paths(paths: Ints, begin: Ints) -> bool:
    """Whether paths (S,) are pairs of the states, which begin at begin (S + 1,), or -1."""
    s = 0
    while s < len(paths) and (paths[s] == -1 or begin[s] <= paths[s] < begin[s + 1]):
        s += 1
    return s == len(paths)


@njit_inline
def execute_mixture(
    model: Any, costs: Floats, mixture: Any, last_paths: Ints, into: Any
) -> tuple[float, int, bool, float]:
    """Fill in a policy (K,), its averages (n,), the paths (S,) and the reference (1,).

    Value, classes, connected, link as `Executed` has them.
    """
    rows = Rows(model[0], model[1], model[2], model[3])
    _, distributions, policies, weights = mixture
    policy, averages, paths, reference = into
    S, K, count = len(rows.begin) - 1, len(rows.indptr) - 1, len(weights)
    mass, group = np.zeros(S), np.empty(count, dtype=np.int64)
    inside, own = np.zeros(S, dtype=np.bool_), np.zeros((count, S), dtype=np.bool_)
    for pair in range(K):
        policy[pair] = 0.0
    for i in range(len(costs)):
        averages[i] = 0.0
    sound = are_paths(last_paths, rows.begin)
    for s in range(S):
        paths[s] = last_paths[s] if sound else -1
    link = 1.0
    for k in range(count):
        mu, actions = distributions[k], policies[k]
        likeliest = 0
        for s in range(S):
            if mu[s] > mu[likeliest]:
                likeliest = s
        reach(rows, actions, likeliest, 0.0, own[k])
        group[k] = k
        for j in range(k):
            most = 0.0
            for s in range(S):
                if own[j, s] and own[k, s]:
                    most = max(most, min(weights[j] * distributions[j, s], weights[k] * mu[s]))
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
                policy[actions[s]] += weights[k] * mu[s]
                mass[s] += weights[k] * mu[s]
        for i in range(len(costs)):
            average = 0.0
            for s in range(S):
                average += mu[s] * costs[i, actions[s]]
            averages[i] += weights[k] * average
    classes = 0
    for k in range(count):
        classes += group[k] == k
    likeliest = 0
    for s in range(S):
        if mass[s] > mass[likeliest]:
            likeliest = s
    reference[0] = likeliest
    value = averages[0]
    if classes > 1:
        return value, classes, False, link
    missing = 0
    for s in range(S):
        missing += not inside[s]
    if missing > 0:
        found = fastest(rows, inside, paths).pairs
        for s in range(S):
            paths[s] = found[s]
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
        elif paths[s] >= 0:
            policy[paths[s]] = 1.0
        else:
            connected = False
            for pair in range(first, after):
                policy[pair] = 1.0 / (after - first)
    return value, classes, connected, link
