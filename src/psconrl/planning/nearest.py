"""Limits that cannot be met, and the nearest that can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from psconrl._core.checks import Floats, short_repr
from psconrl.cmdp import CMDP, require_model
from psconrl.errors import InvalidModelError, InvalidTypeError
from psconrl.planning import Solution, solve, threshold_sweep


@dataclass(frozen=True, eq=False)
class NearestLimits:
    """What would have to change for limits, on averages or on totals, to be met.

    Attributes:
        together: (m,), limits that can be met together. Their largest rise, relative to the range of its cost, is as
            small as possible, and none of them could be closer to the given one with the others as they are.
        alone: (m,), the least value of each limit that can be met if only it is changed; nan if the others cannot
            hold together.
    """

    together: Floats
    alone: Floats


def nearest_limits(cmdp: CMDP, solution: Solution | None = None) -> NearestLimits:
    """The limits nearest to those of a model that can be met.

    Args:
        cmdp: the model.
        solution: what `solve` returned, if you have it; required for limits on totals.

    Returns:
        The limits, each rounded up to millionths of the range of its cost.

    Raises:
        InvalidTypeError: if the solution is not that of the model.

    >>> import psconrl
    >>> nearest_limits(psconrl.make("toy", tau=0.1)).together  # 1 / 1.9 can be met
    array([0.526316])
    """
    _check(cmdp, solution)
    criterion = {} if solution is None else _criterion(solution)
    tau, ranges = cmdp.thresholds, cost_ranges(cmdp)
    # All limits raised by the least share of their ranges that is enough; then each one, those that conflict last, back
    # as far as it goes.
    together = np.maximum(tau, _rounded_up(tau + ranges * max(0.0, -relative_margin(cmdp, solution)), ranges))
    conflict = () if solution is None else solution.conflict
    for i in sorted(range(cmdp.m), key=lambda i: i + 1 in conflict):
        together[i] = _least(cmdp.replace(thresholds=together), i, tau[i], ranges[i], criterion)
    return NearestLimits(together, np.array([_least(cmdp, i, tau[i], ranges[i], criterion) for i in range(cmdp.m)]))


def relative_margin(cmdp: CMDP, solution: Solution | None = None) -> float:
    """By how many times the range of its cost every limit could be lowered together; negative if they cannot be met.

    Args:
        cmdp: the model.
        solution: what `solve` returned, if you have it; it is enough if all costs have the same range.

    Raises:
        InvalidTypeError: if the solution is not that of the model.
    """
    _check(cmdp, solution)
    ranges = cost_ranges(cmdp)
    if solution is not None and len(ranges) and (ranges == ranges[0]).all():
        return solution.margin / float(ranges[0])
    costs = cmdp.costs.copy()
    costs[1:] /= ranges[:, np.newaxis, np.newaxis]
    criterion = {} if solution is None else _criterion(solution)
    return solve(cmdp.replace(costs=costs, thresholds=cmdp.thresholds / ranges), **criterion).margin


def _check(cmdp: CMDP, solution: Solution | None) -> None:
    """Refuse what is no model, and a solution that is not of it."""
    require_model(cmdp)
    if solution is not None and (not isinstance(solution, Solution) or len(solution.multipliers) != cmdp.m):
        raise InvalidTypeError(f"solution is {short_repr(solution)}; it must be that of psconrl.solve(cmdp), or None")


def _criterion(solution: Solution) -> dict[str, Any]:
    return {"discount": solution.discount, "episode": solution.episode}


def cost_ranges(cmdp: CMDP) -> Floats:
    """The range (m,) of each limited cost over the available pairs; its size, or 1, if it is constant."""
    costs = cmdp.pairs.taken(cmdp.costs)[1:]
    width, size = np.ptp(costs, axis=1), np.abs(costs).max(axis=1)
    return np.asarray(np.where(width > 0, width, np.where(size > 0, size, 1.0)))


def _least(cmdp: CMDP, i: int, floor: float, width: float, criterion: dict[str, Any]) -> float:
    """The least value, from `floor` on, of limit i that can be met with the others; nan if they cannot be met."""
    try:
        return max(floor, float(_rounded_up(threshold_sweep(cmdp, i + 1, [floor], **criterion).least, width)))
    except InvalidModelError:
        return np.nan


def _rounded_up(values: Floats | float, ranges: Floats | float) -> Floats:
    step = 10.0 ** (np.floor(np.log10(ranges)) - 6)
    # What misses a multiple by rounding alone is not pushed to the next one.
    return np.asarray(np.ceil(np.asarray(values) / step - 1e-3) * step) + 0.0  # no -0
