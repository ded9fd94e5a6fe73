"""The trade-off curve: what the best policy costs as one limit moves."""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from psconrl import _checks
from psconrl._checks import Floats
from psconrl.cmdp import CMDP, require_model
from psconrl.errors import InvalidModelError
from psconrl.planning.highs import LinearProgram, run
from psconrl.planning.known import Scope
from psconrl.planning.program import FEASIBLE, best_vertex, feasible_vertex, largest_margin


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
    """

    constraint: int
    thresholds: Floats
    values: Floats
    multipliers: Floats
    least: float
    idle: float

    def __repr__(self) -> str:
        feasible = int(np.isfinite(self.values).sum())
        return (
            f"Sweep(constraint {self.constraint}, {len(self.thresholds)} thresholds, {feasible} feasible, "
            f"least={self.least:.6g}, idle={self.idle:.6g})"
        )


def threshold_sweep(cmdp: CMDP, constraint: int = 1, thresholds: ArrayLike | None = None, *, points: int = 41) -> Sweep:
    """Solve the model for many thresholds of one constraint, the others held.

    thresholds: by default `points` of them, evenly from the smallest that can be met to the first that costs
    nothing.

    >>> import psconrl
    >>> sweep = psconrl.threshold_sweep(psconrl.make("marsrover-4x4"), thresholds=[0.0, 0.1, 0.25])
    >>> sweep.values.round(6)
    array([0.875, 0.825, 0.75 ])
    """
    require_model(cmdp)
    if points < 2:
        raise ValueError(f"points is {points}; it must be at least 2")
    if constraint not in range(1, cmdp.m + 1):
        raise InvalidModelError(f"constraint is {constraint}; this model has the constraints 1, ..., {cmdp.m}")
    program = Scope.of(cmdp).program
    i = constraint - 1

    def limited(tau: float) -> Floats:
        limits = cmdp.thresholds.copy()
        limits[i] = tau
        return limits

    free = program.with_thresholds(limited(np.inf))
    margin, safest = largest_margin(free)
    if margin < 0:
        raise InvalidModelError(f"the constraints other than {constraint} cannot hold together")
    spent = program.value.matrix[[program.constraint_rows.start + i]].toarray().ravel()
    spent[-1] = 0.0
    vertex = best_vertex(free, safest)
    least = run(replace(free.value, cost=spent), vertex.basis).objective
    idle = _least_spent_at(free.value, spent, vertex.objective)
    if thresholds is None:
        taus = np.linspace(least, max(idle, least), points)
    else:
        taus = _checks.numbers(thresholds, "thresholds").ravel()
        _checks.finite(taus, "thresholds", "give finite limits")
    values, multipliers = np.full(len(taus), np.nan), np.full((len(taus), cmdp.m), np.nan)
    basis = vertex.basis
    for k in np.argsort(-taus, kind="stable"):
        if taus[k] < least - FEASIBLE:
            break
        found = feasible_vertex(program.with_thresholds(limited(max(taus[k], least))), basis)
        values[k], basis = found.objective, found.basis
        multipliers[k] = (-found.row_duals[program.constraint_rows]).clip(0.0)
    return Sweep(constraint, taus, values, multipliers, least, idle)


def _least_spent_at(program: LinearProgram, spent: Floats, value: float) -> float:
    """The least of spent' x among the points of a program whose objective is at most `value`."""
    matrix = sparse.csc_array(sparse.vstack([program.matrix, sparse.csr_array(program.cost[np.newaxis])]))
    slack = 1e-13 * max(1.0, abs(value))
    return run(
        replace(
            program,
            cost=spent,
            matrix=matrix,
            row_lower=np.append(program.row_lower, -np.inf),
            row_upper=np.append(program.row_upper, value + slack),
        )
    ).objective
