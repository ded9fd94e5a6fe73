"""The trade-off curve: what the best policy costs as one limit moves."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from psconrl._core import checks, display
from psconrl._core.checks import Floats
from psconrl.cmdp import CMDP, require_model
from psconrl.errors import InvalidModelError, UnknownNameError
from psconrl.planning.compiled.generation import INFEASIBLE, OPTIMAL
from psconrl.planning.compiled.master import VALUE, Limits
from psconrl.planning.criteria import Restarted
from psconrl.planning.scaled_model import ScaledModel
from psconrl.planning.tolerances import EPS, FAR, FEASIBLE, NOISE


@dataclass(frozen=True, eq=False)
class Sweep:
    """Value and shadow prices along thresholds of one constraint.

    Attributes:
        constraint: its number i, in 1..m.
        thresholds: (n,), the values of tau_i.
        values: (n,), the optimum for each; nan where it is infeasible.
        multipliers: (n, m), the shadow prices of all constraints; nan where infeasible.
        least: the smallest threshold that can be met together with the other constraints.
        idle: the threshold from which on the constraint costs nothing.
        names: those of the main cost and of the constraint's.
    """

    constraint: int
    thresholds: Floats
    values: Floats
    multipliers: Floats
    least: float
    idle: float
    names: tuple[str, str] = ("c0", "c1")

    def plot(self, ax: Any = None) -> Any:
        """Draw the trade-off curve with matplotlib.

        Args:
            ax: the axes to draw on; new ones if left out.

        Returns:
            The axes.
        """
        return display.plot_sweep(self.thresholds, self.values, self.least, self.idle, self.names, ax)

    def _repr_html_(self) -> str:
        return display.html_figure(repr(self), self.plot())

    def __repr__(self) -> str:
        feasible = int(np.isfinite(self.values).sum())
        return (
            f"Sweep(constraint {self.constraint}, {len(self.thresholds)} thresholds, {feasible} feasible, "
            f"least={self.least:.6g}, idle={self.idle:.6g})"
        )


def threshold_sweep(
    cmdp: CMDP,
    constraint: int | str = 1,
    thresholds: ArrayLike | None = None,
    *,
    points: int = 41,
    discount: float | None = None,
    episode: int | None = None,
) -> Sweep:
    """Solve the model for many thresholds of one constraint, the others held.

    Args:
        cmdp: the model.
        constraint: the number of the constraint, from 1, or the name of its cost.
        thresholds: by default `points` of them, evenly from the smallest that can be met to the first that costs
            nothing.
        points: how many thresholds there are by default.
        discount, episode: for limits on totals, as in `solve`.

    Returns:
        The value and the shadow prices at each threshold.

    Raises:
        InvalidModelError: there is no such constraint, or the others conflict.

    >>> import psconrl
    >>> sweep = psconrl.threshold_sweep(psconrl.make("marsrover-4x4"), thresholds=[0.0, 0.1, 0.25])
    >>> sweep.values.round(6)
    array([0.875, 0.825, 0.75 ])
    """
    require_model(cmdp)
    points = checks.whole(points, "points", least=2)
    if isinstance(constraint, str):
        if constraint not in cmdp.cost_names[1:]:
            raise UnknownNameError("constraint", constraint, cmdp.cost_names[1:])
        constraint = cmdp.cost_names.index(constraint)
    constraint = checks.whole(constraint, "constraint", most=None)
    if constraint > cmdp.m:
        raise InvalidModelError(f"constraint is {constraint}; this model has the constraints 1, ..., {cmdp.m}")
    if discount is not None or episode is not None:
        return _sweep_of_totals(Restarted.of(cmdp, discount, episode), constraint, thresholds, points)
    if cmdp.durations is not None:
        return threshold_sweep(cmdp.uniformized(), constraint, thresholds, points=points)
    model, i = ScaledModel(cmdp), constraint - 1
    others = model.limits[model.limits != i]
    held = model.units.near[others]
    free = model.mixture(VALUE, Limits(held, np.ones(len(others))), others)
    if free.status == INFEASIBLE or np.delete(model.unmet, i).any():
        raise InvalidModelError(f"the constraints other than {constraint} cannot hold together")
    low, unit = float(model.units.low[constraint]), float(model.units.unit[constraint])
    safest = model.mixture(VALUE, Limits(held, np.ones(len(others))), others, main=constraint)
    # The least spent among the policies that cost least, but for rounding.
    tight = np.append(held, free.J[0] + NOISE)
    thrifty = model.mixture(VALUE, Limits(tight, np.ones(len(tight))), np.append(others, -1), main=constraint)
    least = low + unit * float(safest.J[0])
    idle = low + unit * float(thrifty.J[0] if thrifty.status == OPTIMAL else model.averages(free)[constraint])
    if thresholds is None:
        taus = np.linspace(least, max(idle, least), points)
    else:
        taus = checks.numbers(thresholds, "thresholds").ravel()
        checks.finite(taus, "thresholds", "give finite limits")
    values, multipliers = np.full(len(taus), np.nan), np.full((len(taus), cmdp.m), np.nan)
    for k, tau in enumerate(taus):
        # The unit of a constant cost is that of the limit that the model has.
        room = 8 * EPS * abs(tau) if model.constant[i] else FEASIBLE * unit
        if tau < least - room:
            continue
        scaled = np.append(held, min(max((tau - low) / unit, float(safest.J[0])), FAR))
        found = model.mixture(VALUE, Limits(scaled, np.ones(len(scaled))), np.append(others, i))
        if found.status != OPTIMAL:
            continue
        values[k] = model.units.low[0] + model.units.unit[0] * found.J[0]
        prices = np.zeros(cmdp.m)
        prices[np.append(others, i)] = found.multipliers
        multipliers[k] = model.units.multipliers(prices)
    names = cmdp.cost_names[0], cmdp.cost_names[constraint]
    return Sweep(constraint, taus, values, multipliers, least, idle, names)


def _sweep_of_totals(restarted: Restarted, constraint: int, thresholds: ArrayLike | None, points: int) -> Sweep:
    n, floor = restarted.cycle, restarted.floor
    if thresholds is not None:
        thresholds = (checks.numbers(thresholds, "thresholds") + floor[constraint]) / n
    found = threshold_sweep(restarted.model, constraint, thresholds, points=points)
    return replace(
        found,
        thresholds=n * found.thresholds - floor[constraint],
        values=n * found.values - floor[0],
        least=n * found.least - floor[constraint],
        idle=n * found.idle - floor[constraint],
    )
