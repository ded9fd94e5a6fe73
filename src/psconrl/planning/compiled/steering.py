"""From the mixture of an optimum to one that can be steered; `psconrl.planning.steered` has the rule."""

from typing import NamedTuple

import numpy as np

from psconrl._core.checks import Floats
from psconrl._core.njit import njit
from psconrl.planning.compiled.pricing import Mixture
from psconrl.planning.compiled.rows import Rows, closed_class
from psconrl.planning.steered import Steered
from psconrl.planning.tolerances import FEASIBLE

_LIKELY = 0.25
"""States with this share of 1 / S in the laws of two columns are visited often enough to change between them there."""


class Mixed(NamedTuple):
    """A mixture without ways, the laws (k, S) of its columns, and whether every two of them meet in a likely state."""

    steered: Steered
    laws: Floats
    meet: bool


@njit
def mixed(rows: Rows, mixture: Mixture, limits: Floats) -> Mixed:
    """A mixture to be steered; limits (m,): the thresholds of the costs 1, ..., m."""
    S, m, count = len(rows.begin) - 1, len(limits), len(mixture.weights)
    own, laws = np.empty(S, dtype=np.bool_), np.empty((count, S))
    actions, drifts = np.empty((count, S), dtype=np.int64), np.empty((count, m))
    binding, limit = np.zeros(m, dtype=np.bool_), np.empty(m)
    for k in range(count):
        law, policy = mixture.laws[k], mixture.policies[k]
        likeliest = 0
        for s in range(S):
            if law[s] > law[likeliest]:
                likeliest = s
        closed_class(rows, policy, likeliest, own)
        for s in range(S):
            actions[k, s] = policy[s] - rows.begin[s] if own[s] else -1
            laws[k, s] = law[s] if own[s] else 0.0
        for i in range(m):
            drifts[k, i] = mixture.J[k, i + 1] - limits[i]
    for i in range(m):
        mean = 0.0
        for k in range(count):
            mean += mixture.weights[k] * drifts[k, i]
        binding[i], limit[i] = mean > -10.0 * FEASIBLE, limits[i]
    meet = True
    for j in range(count):
        for k in range(j):
            most = 0.0
            for s in range(S):
                most = max(most, min(laws[j, s], laws[k, s]))
            meet = meet and most * S >= _LIKELY
    ways, directions, levels = np.empty((0, S), dtype=np.int64), np.empty((0, m)), np.empty((0, 2))
    weights = mixture.weights.copy()
    return Mixed(Steered(weights, actions, drifts, limit, binding, ways, directions, levels, 1.0), laws, meet)
