"""From the mixture of an optimum to one that can be steered; `psconrl.planning.steered` has the rule."""

from typing import Any

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.rows import Rows, closed_class
from psconrl.planning.tolerances import FEASIBLE

_LIKELY = 0.25
"""States with this share of 1 / S in the laws of two columns are visited often enough to change between them there."""


@njit
def mixed(moves: tuple[Any, ...], mixture: tuple[Any, ...], limits: Floats) -> tuple[Ints, Floats, Bools, Floats, bool]:
    """What it takes to steer a mixture; limits (m,): the thresholds of the costs 1, ..., m.

    moves and mixture: Rows and Mixture as plain tuples. Gives the fields actions, drifts and binding of what is
    steered, the laws (k, S) of its columns, and whether every two of them meet in a likely state.
    """
    begin, indptr, indices, data = moves
    rows = Rows(begin, indptr, indices, data)
    J, stationary, policies, weights = mixture
    S, m, count = len(begin) - 1, len(limits), len(weights)
    own, laws = np.empty(S, dtype=np.bool_), np.empty((count, S))
    actions, drifts = np.empty((count, S), dtype=np.int64), np.empty((count, m))
    binding = np.zeros(m, dtype=np.bool_)
    for k in range(count):
        law, policy = stationary[k], policies[k]
        likeliest = 0
        for s in range(S):
            if law[s] > law[likeliest]:
                likeliest = s
        closed_class(rows, policy, likeliest, own)
        for s in range(S):
            actions[k, s] = policy[s] - begin[s] if own[s] else -1
            laws[k, s] = law[s] if own[s] else 0.0
        for i in range(m):
            drifts[k, i] = J[k, i + 1] - limits[i]
    for i in range(m):
        mean = 0.0
        for k in range(count):
            mean += weights[k] * drifts[k, i]
        binding[i] = mean > -10.0 * FEASIBLE
    meet = True
    for j in range(count):
        for k in range(j):
            most = 0.0
            for s in range(S):
                most = max(most, min(laws[j, s], laws[k, s]))
            meet = meet and most * S >= _LIKELY
    return actions, drifts, binding, laws, meet
