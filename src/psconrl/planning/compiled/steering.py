"""From the columns of an optimum to a mixture that can be steered; `psconrl.planning.steered` has the rule."""

import numpy as np

from psconrl._checks import Bools, Floats, Ints
from psconrl._numba import njit
from psconrl.planning.compiled.pricing import Columns
from psconrl.planning.compiled.rows import Rows, closed_class
from psconrl.planning.compiled.shortest_path import fastest_in
from psconrl.planning.steered import Steered
from psconrl.planning.tolerances import FEASIBLE, NO_WEIGHT

_LIKELY = 0.25
"""States with this share of 1 / S in the laws of two columns are visited often enough to change between them there."""


@njit
def mixture(rows: Rows, columns: Columns, basis: Ints, basic: Floats, limits: Floats, time: int) -> Steered:
    """The columns that a basis names with weights `basic`, to be steered by a plan that lasts to step `time`.

    limits (m,): the thresholds of the costs 1, ..., m.
    """
    S, m = len(rows.begin) - 1, len(limits)
    names, weights = np.empty(len(basis), dtype=np.int64), np.empty(len(basis))
    count, total = 0, 0.0
    for b in range(len(basis)):
        if basis[b] >= 0 and basic[b] > NO_WEIGHT:
            # The one that keeps the last limit best comes first: it acts where the excess does not decide.
            at = count
            while at > 0 and columns.J[names[at - 1], -1] > columns.J[basis[b], -1]:
                names[at], weights[at] = names[at - 1], weights[at - 1]
                at -= 1
            names[at], weights[at] = basis[b], basic[b]
            count += 1
            total += basic[b]
    own, drifts = np.zeros((count, S), dtype=np.bool_), np.empty((count, m))
    actions = np.empty((count, S), dtype=np.int64)
    binding, limit = np.zeros(m, dtype=np.bool_), np.empty(m)
    for k in range(count):
        weights[k] /= total
        law, policy = columns.laws[names[k]], columns.policies[names[k]]
        likeliest = 0
        for s in range(S):
            if law[s] > law[likeliest]:
                likeliest = s
        closed_class(rows, policy, likeliest, own[k])
        for s in range(S):
            actions[k, s] = policy[s] - rows.begin[s] if own[k, s] else -1
        for i in range(m):
            drifts[k, i] = columns.J[names[k], i + 1] - limits[i]
    for i in range(m):
        mean = 0.0
        for k in range(count):
            mean += weights[k] * drifts[k, i]
        binding[i], limit[i] = mean > -10.0 * FEASIBLE, limits[i]
    laws = np.empty((count, S))
    for k in range(count):
        for s in range(S):
            laws[k, s] = columns.laws[names[k], s] if own[k, s] else 0.0
    if _meet(laws):
        nowhere = np.empty((0, S), dtype=np.int64)
        return Steered(
            weights[:count], actions, drifts, limit, binding, nowhere, np.empty((0, m)), np.empty((0, 2)), 1.0
        )
    ways, d = _ways(rows, actions, laws, time)
    directions, levels = np.zeros((count, m)), np.empty((count, 2))
    for k in range(count):
        size = 0.0
        for i in range(m):
            size += abs(drifts[k, i])
        for i in range(m):
            directions[k, i] = drifts[k, i] / size if size > 0.0 else 0.0
        levels[k, 0], levels[k, 1] = 1.0, 0.0
    return Steered(weights[:count], actions, drifts, limit, binding, ways, directions, levels, 1.0 + d)


@njit
def _meet(laws: Floats) -> bool:
    """Whether every two columns, laws (k, S), share a likely state."""
    count, S = laws.shape
    for j in range(count):
        for k in range(j):
            most = 0.0
            for s in range(S):
                most = max(most, min(laws[j, s], laws[k, s]))
            if most * S < _LIKELY:
                return False
    return True


@njit
def _ways(rows: Rows, actions: Ints, laws: Floats, time: int) -> tuple[Ints, float]:
    """The fastest ways (k, S) into the cores of the columns, and the expected time d of the longest round trip.

    A core is where a column spends its time in `time` steps: states likelier than 1 / (S sqrt(time)). Trips that take
    longer than `time` steps are not worth knowing more of.
    """
    count, S = laws.shape
    core = np.empty((count, S), dtype=np.bool_)
    ways, nowhere = np.empty((count, S), dtype=np.int64), np.full(S, -1)
    least = 1.0 / (S * np.sqrt(float(time)))
    between = np.zeros((count, count))
    likeliest = np.zeros(count, dtype=np.int64)
    for k in range(count):
        for s in range(S):
            core[k, s] = laws[k, s] > least
            if laws[k, s] > laws[k, likeliest[k]]:
                likeliest[k] = s
        core[k, likeliest[k]] = True
    pairs, reached = np.empty(S, dtype=np.int64), np.empty(S, dtype=np.bool_)
    for k in range(count):
        way = fastest_in(rows, core[k], nowhere)
        # A core between whose parts the column goes through unlikely states falls apart without these.
        for whole in (False, True):
            for s in range(S):
                own = core[k, s] or (whole and laws[k, s] > 0.0)
                ways[k, s] = actions[k, s] if own else (way.pairs[s] - rows.begin[s] if way.pairs[s] >= 0 else -1)
                pairs[s] = rows.begin[s] + max(ways[k, s], 0)
            closed_class(rows, pairs, likeliest[k], reached)
            apart = False
            for s in range(S):
                apart = apart or (core[k, s] and not reached[s])
            if not apart:
                break
        for j in range(count):
            between[j, k] = _mean_time(laws[j], core[j], way.times, time)
    d = 0.0
    for j in range(count):
        for k in range(j):
            d = max(d, between[j, k] + between[k, j])
    return ways, min(d, float(time))


@njit
def _mean_time(law: Floats, core: Bools, times: Floats, most: int) -> float:
    """The mean of times (S,), `most` at the most, under a law (S,) in its core."""
    total, mass = 0.0, 0.0
    for s in range(len(law)):
        if core[s]:
            total += law[s] * min(times[s], most)
            mass += law[s]
    return total / mass
