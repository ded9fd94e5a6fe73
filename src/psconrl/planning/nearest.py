"""Limits that cannot be met, and the nearest that can."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from psconrl._core.checks import Floats, short_repr
from psconrl.cmdp import CMDP, require_model
from psconrl.errors import InvalidModelError, InvalidTypeError
from psconrl.planning import Solution, solve, threshold_sweep

ROUNDED = 1e-6
"""Limits are rounded up to multiples of this, so that they can be met as they are printed."""


@dataclass(frozen=True, eq=False)
class NearestLimits:
    """What would have to change for limits to be met.

    Attributes:
        together: (m,), limits that can be met together, whose largest rise over the given ones is least, and of which
            none could be lowered further, towards the given one, with the others as they are.
        alone: (m,), the least value of each limit that can be met if only it is changed; nan if the others cannot
            hold together.
    """

    together: Floats
    alone: Floats


def nearest_limits(cmdp: CMDP, solution: Solution | None = None) -> NearestLimits:
    """The limits nearest to those of a model that can be met; solution: that of `solve`, if it is at hand.

    >>> import psconrl
    >>> nearest_limits(psconrl.make("toy", tau=0.1)).together  # 1 / 1.9 can be met
    array([0.526316])
    """
    require_model(cmdp)
    if solution is None:
        solution = solve(cmdp)
    elif not isinstance(solution, Solution) or len(solution.multipliers) != cmdp.m:
        raise InvalidTypeError(f"solution is {short_repr(solution)}; it must be that of psconrl.solve(cmdp), or None")
    tau = cmdp.thresholds
    together = np.maximum(tau, _rounded_up(tau + max(0.0, -solution.margin)))
    # All limits raised by the least that is enough; then each one, those that conflict last, back as far as it goes.
    for i in sorted(range(cmdp.m), key=lambda i: i + 1 in solution.conflict):
        together[i] = _least(cmdp.replace(thresholds=together), solution, i, tau[i])
    return NearestLimits(together, np.array([_least(cmdp, solution, i, tau[i]) for i in range(cmdp.m)]))


def _least(cmdp: CMDP, solution: Solution, i: int, floor: float) -> float:
    """The least value, from `floor` on, of limit i that can be met with the others; nan if they cannot be met."""
    try:
        sweep = threshold_sweep(cmdp, i + 1, [floor], discount=solution.discount, episode=solution.episode)
        return max(floor, float(_rounded_up(sweep.least)))
    except InvalidModelError:
        return np.nan


def _rounded_up(values: Floats | float) -> Floats:
    # What misses a multiple by rounding alone is not pushed to the next one.
    return np.asarray(np.ceil(np.asarray(values) / ROUNDED - 1e-3) * ROUNDED).round(6) + 0.0  # no -0
