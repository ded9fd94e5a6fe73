"""From the columns of an optimum to a mixture that can be steered; `psconrl.planning.steered` has the rule."""

from typing import Any

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.njit import njit
from psconrl.planning.compiled.rows import Rows, closed_class
from psconrl.planning.tolerances import FEASIBLE, NO_WEIGHT

_LIKELY = 0.25
"""States with this share of 1 / S in the laws of two columns are visited often enough to change between them there."""


@njit
def mixed(
    moves: tuple[Any, ...], found: tuple[Any, ...], basis: Ints, basic: Floats, limits: Floats
) -> tuple[Floats, Ints, Floats, Bools, Floats, bool]:
    """The columns that a basis names with weights `basic`; limits (m,): the thresholds of the costs 1, ..., m.

    moves and found: Rows and Columns as plain tuples. Gives the fields weights, actions, drifts and binding of a
    mixture, the laws (k, S) of its columns, and whether every two of them meet in a likely state.
    """
    begin, indptr, indices, data = moves
    rows = Rows(begin, indptr, indices, data)
    J, stationary, policies, _ = found
    S, m = len(begin) - 1, len(limits)
    names, weights = np.empty(len(basis), dtype=np.int64), np.empty(len(basis))
    count, total = 0, 0.0
    for b in range(len(basis)):
        if basis[b] >= 0 and basic[b] > NO_WEIGHT:
            # The one that keeps the last limit best comes first: it acts where the excess does not decide.
            at = count
            while at > 0 and J[names[at - 1], -1] > J[basis[b], -1]:
                names[at], weights[at] = names[at - 1], weights[at - 1]
                at -= 1
            names[at], weights[at] = basis[b], basic[b]
            count += 1
            total += basic[b]
    own, laws = np.empty(S, dtype=np.bool_), np.empty((count, S))
    actions, drifts = np.empty((count, S), dtype=np.int64), np.empty((count, m))
    binding = np.zeros(m, dtype=np.bool_)
    for k in range(count):
        weights[k] /= total
        law, policy = stationary[names[k]], policies[names[k]]
        likeliest = 0
        for s in range(S):
            if law[s] > law[likeliest]:
                likeliest = s
        closed_class(rows, policy, likeliest, own)
        for s in range(S):
            actions[k, s] = policy[s] - begin[s] if own[s] else -1
            laws[k, s] = law[s] if own[s] else 0.0
        for i in range(m):
            drifts[k, i] = J[names[k], i + 1] - limits[i]
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
    return weights[:count], actions, drifts, binding, laws, meet
