"""The fast way to a policy, for callers that plan often: no margin, no diagnosis, a start in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from psconrl._checks import Floats, Ints
from psconrl._lazy import later
from psconrl.errors import SolverError
from psconrl.planning.highs import run
from psconrl.planning.policy import SUPPORT, Execution, executable, joint_occupancy
from psconrl.planning.program import (
    CUT,
    OccupancyProgram,
    best_vertex,
    cut,
    dense_program,
    largest_margin,
    occupancy_program,
)
from psconrl.planning.rows import Rows

Method = Literal["compiled", "highs"]
Start = Mapping[str, NDArray[Any]]

_kernels, _many = later("psconrl.planning._plan_kernels"), later("psconrl.planning.many")

INVERTED_UP_TO = 130
"""Policies of models up to this size are evaluated by inverses, those of larger ones by sparse factors."""

_DENSE = 300
"""Programs of models up to this size are assembled faster from arrays."""


class BestPolicy(NamedTuple):
    """A policy (S, A) for the stateless program of a model, or the news that it is infeasible.

    policy: None if infeasible; multipliers (m,); classes: how many recurrent classes the optimum has; connected:
    whether every state is led into its support; gap: between the certified bounds of the value; method: what solved
    it in the end; start: plain arrays for the next call.
    """

    feasible: bool
    policy: Floats | None
    value: float
    multipliers: Floats
    classes: int
    connected: bool
    gap: float
    method: Method
    start: Start


def best_policy(
    transitions: Floats | Rows,
    costs: Floats,
    thresholds: Floats,
    *,
    join: float,
    start: Start | None = None,
    method: Method = "compiled",
) -> BestPolicy:
    """Plan in a model, (S, A, S) or by rows, with costs (m + 1, S, A): a pure function of its arguments.

    start: what an earlier answer for a model of the same size gave; a good one saves most of the work and changes the
    answer only where several are optimal. method: "compiled" is column generation over policies with a certificate;
    where that fails, and with "highs", the linear program is solved by HiGHS.
    """
    rows = transitions if isinstance(transitions, Rows) else Rows.from_dense(transitions, CUT)
    uncut = transitions
    if not isinstance(uncut, Rows) and np.count_nonzero(uncut) == len(rows.data):
        uncut = rows
    start = start or {}
    if method == "compiled":
        best = _compiled(rows, uncut, costs, thresholds, join, start)
        if best is not None:
            return best
    return _by_highs(rows, uncut, costs, thresholds, join, start)


def _compiled(
    rows: Rows, uncut: Floats | Rows, costs: Floats, thresholds: Floats, join: float, start: Start
) -> BestPolicy | None:
    """The answer of the compiled planner; None if it has no certificate."""
    kernels = _kernels()
    m, S = len(thresholds), rows.S
    if "policies" not in start:
        start = {**start, **_first_start(S, m)}
    # To the compiler, arrays that must not be written to, or lie otherwise in memory, are of another kind, for which it
    # would compile everything once more.
    if not costs.flags.carray:
        costs = costs.copy()
    if not thresholds.flags.carray:
        thresholds = thresholds.copy()
    status, mu, value, gap, multipliers, policies, reference, h = _planner(S)(
        rows.indptr,
        rows.indices,
        rows.data,
        costs,
        thresholds,
        start["policies"],
        start["multipliers"],
        start["reference"],
        start["bias"],
    )
    if status == kernels.FAILED:
        return None
    if status == kernels.INFEASIBLE:
        return _infeasible(m, "compiled", start)
    near = policies, reference
    policy, classes, connected, way = _execution(mu, rows, uncut, costs, thresholds, join, start["way"], near)
    following = {"policies": policies, "multipliers": multipliers, "reference": reference, "bias": h, "way": way}
    return BestPolicy(True, policy, value, multipliers, classes, connected, gap, "compiled", following)


def _first_start(S: int, m: int) -> Start:
    """What the compiled planner starts from when there was no plan before."""
    return {
        "policies": np.zeros((1, S), dtype=np.int64),
        "multipliers": np.zeros(m),
        "reference": np.zeros(1, dtype=np.int64),
        "bias": np.zeros(S),
        "way": np.full(S, -1),
    }


def _planner(S: int) -> Any:
    """The compiled planner for models of so many states."""
    if S <= INVERTED_UP_TO:
        return _kernels().plan
    return _many().plan_many


def _by_highs(
    rows: Rows, uncut: Floats | Rows, costs: Floats, thresholds: Floats, join: float, start: Start
) -> BestPolicy:
    """The linear program, from the basis in `start` if there is one; whatever else is there is handed on."""
    if not np.isfinite(costs).all():
        raise SolverError("the costs are not finite")
    S, A, m = rows.S, rows.A, len(thresholds)
    program = _program(rows, costs, thresholds)
    try:
        vertex = run(program.value, start.get("basis"))
        doubtful = vertex.status == "infeasible"
    except SolverError:
        doubtful = True
    if doubtful:
        # Never on the word of a solver's tolerance: the margin decides.
        margin, safest = largest_margin(program)
        if margin < 0:
            return _infeasible(m, "highs", start)
        vertex = best_vertex(program, safest)
    mu = vertex.x[: S * A].reshape(S, A).clip(0.0)
    policy, classes, connected, _ = _execution(mu, rows, uncut, costs, thresholds, join, np.full(S, -1))
    multipliers = (-vertex.row_duals[program.constraint_rows]).clip(0.0)
    following = {**start, "basis": vertex.basis}
    return BestPolicy(True, policy, vertex.objective, multipliers, classes, connected, np.nan, "highs", following)


def _program(rows: Rows, costs: Floats, thresholds: Floats) -> OccupancyProgram:
    matrix = cut(rows.matrix())
    if rows.S > _DENSE:
        return occupancy_program(matrix, costs, thresholds)
    return dense_program(matrix.toarray(), costs, thresholds)


def _infeasible(m: int, method: Method, start: Start) -> BestPolicy:
    return BestPolicy(False, None, np.nan, np.full(m, np.nan), 0, True, np.nan, method, start)


def _execution(
    mu: Floats,
    rows: Rows,
    uncut: Floats | Rows,
    costs: Floats,
    thresholds: Floats,
    join: float,
    way: Ints,
    near: tuple[Ints, Ints] | None = None,
) -> tuple[Floats, int, bool, Ints]:
    """The executable policy of an occupancy (S, A), and the way into its support, looked for from `way`.

    Policy, recurrent classes, whether every state is led into the support, way.

    near: policies (k, S) and a reference state (1,) from which the compiled planner may search.
    """
    single, connected, policy, way = _kernels().execute(mu, *rows[:3], way, SUPPORT)
    if single and (connected or uncut is rows):
        return policy, 1, connected, way
    safest = None if single or near is None else _safest(rows, costs, thresholds, near)
    if safest is not None and uncut is rows and rows.S <= INVERTED_UP_TO:
        from psconrl.planning._join_kernels import joined

        sound, flow = joined(mu, safest[0], join, *rows[:3], costs[1], thresholds[0])
        if sound:
            single, connected, policy, way = _kernels().execute(flow, *rows[:3], way, SUPPORT)
            if single:  # not so if what joins the classes is below the support's cut
                return policy, 2, connected, way
    policy, _, classes, connected = _with_care(mu, rows, uncut, costs, thresholds, join, safest)
    return policy, classes, connected, way


def _with_care(
    mu: Floats,
    rows: Rows,
    uncut: Floats | Rows,
    costs: Floats,
    thresholds: Floats,
    join: float,
    safest: tuple[Floats, float] | None,
) -> Execution:
    """The same where there are several recurrent classes, or the cut model leads not all states to them."""
    matrix = cut(rows.matrix())
    whole = uncut.matrix() if isinstance(uncut, Rows) else sparse.csr_array(uncut.reshape(rows.S * rows.A, rows.S))

    def joint() -> Floats | None:
        strict = safest
        if strict is None:
            margin, vertex = largest_margin(occupancy_program(matrix, costs, thresholds))
            strict = None if vertex is None else (vertex.x[: mu.size].reshape(mu.shape).clip(0.0), margin)
        return joint_occupancy(whole, matrix, costs, thresholds, strict)

    return executable(mu, matrix, whole, joint=joint, join=join)


def _safest(rows: Rows, costs: Floats, thresholds: Floats, near: tuple[Ints, Ints]) -> tuple[Floats, float] | None:
    """The occupancy (S, A) with the least cost under one limit, and its margin; None if that is not found."""
    if len(thresholds) != 1:
        return None
    (policies, reference), nothing = near, np.zeros(0)
    start = policies[:1], nothing, reference, nothing
    status, mu, value, *_ = _planner(rows.S)(*rows[:3], costs[1:], nothing, *start)
    return (mu, float(thresholds[0] - value)) if status == _kernels().OPTIMAL else None
