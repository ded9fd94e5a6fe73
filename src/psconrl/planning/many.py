"""The compiled planner of models of many states: it looks for the part of a model that holds together, and plans there.

Calls of kernels one by one, unlike `_plan_kernels.plan`: they last milliseconds, and compile in half the time.
"""

import numpy as np

from psconrl._checks import Floats, Ints
from psconrl.planning import _many_kernels as kernels
from psconrl.planning._plan_kernels import FAILED, INFEASIBLE, OPTIMAL

_GAP = 1e-8
"""Bounds further apart than this are no certificate."""
_FEASIBLE = 1e-9
"""Limits missed by less than this are left to a second opinion."""

Found = tuple[int, Floats, float, float, Floats, Ints, Ints, Floats]
"""Status, occupancy, value, gap, multipliers, policies, reference state, bias: what `plan` gives."""


def plan_many(
    indptr: Ints,
    indices: Ints,
    data: Floats,
    all_costs: Floats,
    thresholds: Floats,
    start: Ints,
    guess: Floats,
    reference: Ints,
    last_bias: Floats,
) -> Found:
    """What `_plan_kernels.plan` gives, for many states."""
    n, S, A = all_costs.shape
    costs = all_costs.reshape(n, S * A)
    rows = indptr, indices, data
    failed = FAILED, np.zeros((S, A)), np.nan, np.inf, guess, start, reference, last_bias
    if not (np.isfinite(costs).all() and np.isfinite(thresholds).all()):
        return failed
    some, r, inside, allowed = kernels.part(int(reference[0]), A, *rows)
    if not some:
        return failed
    reference = np.array([r])
    if allowed.all():
        return kernels.search(*rows, costs, thresholds, start, guess, reference, last_bias)
    own_indptr, own_indices, own_data, own_costs, stand_in = kernels.confined(inside, allowed, r, A, *rows, costs)
    states = np.arange(S)
    start = stand_in[states * A + start] % A
    status, mu, value, gap, multipliers, policies, reference, h = kernels.search(
        own_indptr, own_indices, own_data, own_costs, thresholds, start, guess, reference, last_bias
    )
    least = kernels.least_outside(inside, A, indptr, indices, costs, thresholds, status == OPTIMAL, multipliers)
    if status == INFEASIBLE and (len(thresholds) > 1 or least <= _FEASIBLE):
        return failed
    if status == OPTIMAL:
        gap = max(gap, value - least)
        if not gap <= _GAP:
            return failed
        mu = np.bincount(stand_in, mu.ravel(), S * A).astype(np.float64).reshape(S, A)
        policies = stand_in[states * A + policies] % A
    return status, mu, value, gap, multipliers, policies, reference, h
