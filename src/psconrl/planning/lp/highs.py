"""One linear program on HiGHS: a pure function of (program, basis).

    min cost' x   s.t.   row_lower <= M x <= row_upper,   col_lower <= x <= col_upper

HiGHS runs on one thread and starts from the given basis or from none, never from what an earlier call left
behind; a vertex is returned, with its basis as plain numbers that another call may start from. It is a proposal:
HiGHS has been seen to call vertices optimal that are not, so who asks has to prove what is to be believed.
"""

import threading
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from psconrl._core.checks import Floats
from psconrl.errors import SolverError
from psconrl.planning.tolerances import FEASIBLE, HIGHS_SECONDS, HIGHS_STEPS, LP_SCALE

Basis = NDArray[np.uint8]
"""HiGHS's status of each column, then of each row."""

_local = threading.local()


@dataclass(frozen=True, eq=False)
class LinearProgram:
    """The arrays of a linear program; `matrix` is kept by columns."""

    cost: Floats
    matrix: sparse.csc_array
    row_lower: Floats
    row_upper: Floats
    col_lower: Floats
    col_upper: Floats


@dataclass(frozen=True, eq=False)
class Vertex:
    """An optimal vertex, or the news that there is none."""

    status: Literal["optimal", "infeasible"]
    x: Floats
    row_duals: Floats
    objective: float
    basis: Basis


def run(program: LinearProgram, basis: Basis | None = None) -> Vertex:
    """Solve the program; SolverError if HiGHS fails on it, on a cleaned start and by interior point too."""
    attempts: list[tuple[float, Basis | None, dict[str, Any]]] = [
        # Scaled by LP_SCALE, an occupancy that sums to one may be negative by 1e-15 only: with probabilities of 1e-9 in
        # the model, an error of 1e-9 could carry any mass anywhere.
        # A given basis is nearly primal feasible: primal simplex; from nothing: dual simplex.
        (LP_SCALE, basis, {"simplex_strategy": 1 if basis is None else 4, "presolve": "off"}),
        (1.0, None, {"simplex_strategy": 1, "presolve": "on"}),
        (1.0, None, {"solver": "ipm", "run_crossover": "on", "presolve": "on"}),
    ]
    if not (np.isfinite(program.cost).all() and np.isfinite(program.matrix.data).all()):
        raise SolverError("the linear program holds numbers that are not finite; check costs and transitions")
    outcomes = []
    for scale, start, options in attempts:
        status, vertex = _attempt(program, scale, start, options)
        if vertex is not None:
            return vertex
        outcomes.append(status)
    raise SolverError(
        f"the linear program ({program.matrix.shape[0]} rows, {program.matrix.shape[1]} columns) failed "
        f"numerically: {'; '.join(outcomes)}. Probabilities or costs of very different size make a program "
        "hard; remove probabilities below 1e-9 or rescale the costs"
    )


def _attempt(
    program: LinearProgram, scale: float, basis: Basis | None, options: dict[str, Any]
) -> tuple[str, Vertex | None]:
    import highspy

    rows, columns = program.matrix.shape
    solver = _solver()
    solver.resetOptions()
    settings = {
        "output_flag": False,
        "threads": 1,
        "solver": "simplex",
        "primal_feasibility_tolerance": FEASIBLE,
        "dual_feasibility_tolerance": FEASIBLE,
        "simplex_iteration_limit": HIGHS_STEPS * (rows + columns),
        # HiGHS counts the time of all runs of an instance.
        "time_limit": solver.getRunTime() + HIGHS_SECONDS,
    }
    for name, value in (settings | options).items():
        solver.setOptionValue(name, value)
    matrix = program.matrix
    solver.passModel(
        columns,
        rows,
        matrix.nnz,
        int(highspy.MatrixFormat.kColwise),
        int(highspy.ObjSense.kMinimize),
        0.0,
        program.cost,
        scale * program.col_lower,
        scale * program.col_upper,
        scale * program.row_lower,
        scale * program.row_upper,
        matrix.indptr,
        matrix.indices,
        matrix.data,
        np.zeros(columns, dtype=np.int32),
    )
    if basis is not None:
        start = highspy.HighsBasis()
        statuses = [_basis_statuses()[code] for code in basis.tolist()]
        start.col_status, start.row_status = statuses[:columns], statuses[columns:]
        start.valid = True
        solver.setBasis(start)
    solver.run()
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        nothing = np.full(columns, np.nan)
        return "infeasible", Vertex("infeasible", nothing, np.full(rows, np.nan), np.nan, np.zeros(0, dtype=np.uint8))
    if status != highspy.HighsModelStatus.kOptimal:
        return solver.modelStatusToString(status), None
    solution, found = solver.getSolution(), solver.getBasis()
    x = np.array(solution.col_value) / scale
    return "optimal", Vertex(
        "optimal",
        x,
        np.array(solution.row_dual),
        float(program.cost @ x),
        np.array([int(code) for code in (*found.col_status, *found.row_status)], dtype=np.uint8),
    )


def _solver() -> Any:
    """This thread's HiGHS instance."""
    import highspy

    if not hasattr(_local, "solver"):
        _local.solver = highspy.Highs()  # type: ignore[no-untyped-call]
    return _local.solver


@cache
def _basis_statuses() -> tuple[Any, ...]:
    """HiGHS's names for the numbers of a basis."""
    from highspy import HighsBasisStatus

    return tuple(HighsBasisStatus(code) for code in range(5))
