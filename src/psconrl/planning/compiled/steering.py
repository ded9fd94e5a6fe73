"""From the mixture of an optimum to one that can be steered; `psconrl.planning.steered` has the rule."""

from typing import Any

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.rows import Rows, closed_class, reach
from psconrl.planning.tolerances import FEASIBLE

_LIKELY = 0.25
"""States with this share of 1 / S in two stationary distributions are visited often enough to change columns there."""
_WHOLE = 0.9
"""A column is whole if it spends this share of its time where it stays."""


@njit
def mixed(
    moves: tuple[Any, ...], mixture: tuple[Any, ...], limits: Floats, least: float
) -> tuple[Ints, Floats, Bools, Floats, Bools]:
    """What it takes to steer a mixture; limits (m,): the thresholds of the costs 1, ..., m.

    moves and mixture: Rows and Mixture as plain tuples. Gives the fields actions, drifts and binding of what is
    steered, the distributions (k, S) of its columns, and (k,) whether they are whole: a column may go from part to
    part of its class by moves that are less likely than `least`.
    """
    begin, indptr, indices, data = moves
    rows = Rows(begin, indptr, indices, data)
    J, stationary, policies, weights = mixture
    S, m, count = len(begin) - 1, len(limits), len(weights)
    own, distributions = np.empty(S, dtype=np.bool_), np.empty((count, S))
    actions, drifts = np.empty((count, S), dtype=np.int64), np.empty((count, m))
    binding = np.zeros(m, dtype=np.bool_)
    for k in range(count):
        law, policy = stationary[k], policies[k]
        likeliest = 0
        for s in range(S):
            if law[s] > law[likeliest]:
                likeliest = s
        reach(rows, policy, likeliest, 0.0, own)
        for s in range(S):
            actions[k, s] = policy[s] - begin[s] if own[s] else -1
            distributions[k, s] = law[s] if own[s] else 0.0
        for i in range(m):
            drifts[k, i] = J[k, i + 1] - limits[i]
    for i in range(m):
        mean = 0.0
        for k in range(count):
            mean += weights[k] * drifts[k, i]
        binding[i] = mean > -10.0 * FEASIBLE
    whole = np.zeros(count, dtype=np.bool_)
    for k in range(count):
        likeliest = 0
        for s in range(S):
            if distributions[k, s] > distributions[k, likeliest]:
                likeliest = s
        closed_class(rows, policies[k], likeliest, least, own)
        share = 0.0
        for s in range(S):
            share += distributions[k, s] if own[s] else 0.0
        whole[k] = share >= _WHOLE
    return actions, drifts, binding, distributions, whole


@njit
def meet(distributions: Floats) -> bool:
    """Whether every two columns with these distributions (k, S) meet in a likely state."""
    count, S = distributions.shape
    all_meet = True
    for j in range(count):
        for k in range(j):
            most = 0.0
            for s in range(S):
                most = max(most, min(distributions[j, s], distributions[k, s]))
            all_meet = all_meet and most * S >= _LIKELY
    return all_meet
