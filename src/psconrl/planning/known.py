"""Exact planning in a known model: the occupancy program on HiGHS, turned into an executable policy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from psconrl._checks import Floats, Ints
from psconrl.cmdp import CMDP, policy_chain
from psconrl.graph import closed_classes, is_communicating, is_weakly_communicating, reachable
from psconrl.errors import SolverError
from psconrl.planning.evaluation import evaluate, stationary_law
from psconrl.planning.highs import Basis, Vertex, run
from psconrl.planning.policy import SUPPORT, Execution, balanced, executable
from psconrl.planning.program import OccupancyProgram, cut, occupancy_program
from psconrl.planning.solution import Solution

FEASIBLE = 1e-9
"""A margin above minus this counts as zero: limits may be met exactly."""

JOIN = 1e-7
"""Default weight of the rare moves that join several recurrent classes."""


def solve(cmdp: CMDP, *, join: float = JOIN) -> Solution:
    """The best policy of a known model, exactly: min J_0 subject to J_i <= tau_i.

    If all states that the initial law leads to communicate (transient ones may lead there), the value is the
    same from each of them, and the stationary policy attains it within `join`, limits included. Otherwise the
    program is solved from the initial law, and the loss of the stationary policy is only reported.

    >>> import psconrl
    >>> solution = psconrl.solve(psconrl.make("marsrover-4x4"))
    >>> round(solution.value, 6), round(float(solution.multipliers[0]), 6)
    (0.775, 0.125)
    """
    if not 0 < join < 1:
        raise ValueError(f"join is {join}; it must lie between 0 and 1")
    scope = Scope.of(cmdp)
    margin, safest = largest_margin(scope.program)
    if margin < 0:
        assert safest is not None
        vertex, value = safest, np.nan
        multipliers, conflict = np.full(cmdp.m, np.nan), _conflict(scope.program, safest)
    else:
        vertex = best_vertex(scope.program, safest)
        value, conflict = vertex.objective, ()
        multipliers = (-vertex.row_duals[scope.program.constraint_rows]).clip(0.0)

    execution, averages = _execute(scope, vertex, value, safest, margin, join)
    return Solution(
        status="infeasible" if margin < 0 else "optimal",
        value=value,
        policy=execution.policy,
        average_costs=averages @ cmdp.initial,
        occupancy=execution.occupancy,
        multipliers=multipliers,
        margin=margin,
        conflict=conflict,
        program="stateless" if scope.start is None else "multichain",
        classes=execution.classes,
    )


def _execute(
    scope: Scope, vertex: Vertex, value: float, safest: Vertex | None, margin: float, join: float
) -> tuple[Execution, Floats]:
    """The policy of a vertex, with its exact averages (m + 1, S).

    How small an occupancy may be before it is rounding depends on how nearly the model falls apart; if the
    averages miss what the program promises, smaller and larger bounds are tried and the best is kept.
    """
    cmdp = scope.cmdp

    def joint() -> Floats:
        return scope.joint_occupancy(None if safest is None else scope.occupancy(safest), margin)

    best: tuple[float, Execution, Floats] | None = None
    for support in (SUPPORT, 1e-2 * SUPPORT, 1e3 * SUPPORT):
        execution = executable(
            scope.occupancy(vertex),
            scope.matrix,
            cmdp.matrix,
            routing=scope.routing(vertex),
            joint=joint if scope.start is None else None,
            join=join / max(1.0, float(np.ptp(cmdp.costs, axis=(1, 2)).max())),
            support=support,
        )
        averages = evaluate(cmdp, execution.policy).average_costs
        worst = averages[:, scope.states].max(axis=1)
        limits = cmdp.thresholds - min(margin, 0.0)
        excess = max([*(worst[1:] - limits), worst[0] - value if margin >= 0 else -np.inf], default=0.0)
        if best is None or excess < best[0]:
            best = excess, execution, averages
        if excess <= join or scope.start is not None:
            break
    assert best is not None
    return best[1:]


def largest_margin(program: OccupancyProgram, basis: Basis | None = None) -> tuple[float, Vertex | None]:
    """The Slater margin and the vertex that attains it; +inf and None without constraints."""
    if program.m == 0:
        return np.inf, None
    vertex = run(program.margin, basis)
    margin = -vertex.objective
    return (0.0 if -FEASIBLE <= margin < 0 else margin), vertex


def best_vertex(program: OccupancyProgram, safest: Vertex | None) -> Vertex:
    """The optimum of a feasible program, starting from the vertex of its margin."""
    if safest is None:
        return run(program.value)
    if safest.objective > 0:  # limits that can just be met but for rounding
        program = program.with_thresholds(program.thresholds + safest.objective)
    vertex = run(program.value, safest.basis)
    if vertex.status == "infeasible":
        raise SolverError("the linear program was found feasible, then infeasible; its numbers are too uneven")
    return vertex


def _conflict(program: OccupancyProgram, safest: Vertex) -> tuple[int, ...]:
    """An irreducible set of constraints that cannot hold together.

    The multipliers of the margin prove that the constraints which carry them are in conflict; of those,
    each is left out in turn and stays out if the others are in conflict without it.
    """
    kept = -safest.row_duals[program.constraint_rows] > 1e-9
    for i in np.flatnonzero(kept):
        if kept.sum() == 1:
            break
        without = kept.copy()
        without[i] = False
        if largest_margin(program.with_thresholds(np.where(without, program.thresholds, np.inf)))[0] < 0:
            kept = without
    return tuple(int(i) + 1 for i in np.flatnonzero(kept))


@dataclass(frozen=True, eq=False)
class Scope:
    """The part of a model that planning from the initial law sees, and its program.

    states: those planned for; all of a communicating model, else those that the initial law leads to.
    start: None if the value is the same from all of them, else the initial law on them.
    """

    cmdp: CMDP
    matrix: sparse.csr_array
    states: Ints
    start: Floats | None
    program: OccupancyProgram

    @staticmethod
    def of(cmdp: CMDP) -> Scope:
        """What matters for planning in this model."""
        matrix, start = cut(cmdp.matrix), None
        states = np.arange(cmdp.S)
        inside = matrix
        if not is_communicating(cmdp.matrix):
            states = np.flatnonzero(reachable(cmdp.matrix, cmdp.initial > 0))
            pairs = (states[:, np.newaxis] * cmdp.A + np.arange(cmdp.A)).ravel()
            inside = matrix[pairs][:, states]
            if not is_weakly_communicating(cmdp.matrix[pairs][:, states]):
                start = cmdp.initial[states]
        program = occupancy_program(inside, cmdp.costs[:, states], cmdp.thresholds, start)
        return Scope(cmdp, matrix, states, start, program)

    def occupancy(self, vertex: Vertex) -> Floats:
        """The occupancy (S, A) of a vertex, zero outside the scope."""
        return self._embed(vertex.x[: len(self.states) * self.cmdp.A])

    def routing(self, vertex: Vertex) -> Floats | None:
        """The multichain program's way (S, A) from the initial law to the recurrent classes."""
        pairs = len(self.states) * self.cmdp.A
        return None if self.start is None else self._embed(vertex.x[pairs : 2 * pairs])

    def _embed(self, x: Floats) -> Floats:
        mu = np.zeros((self.cmdp.S, self.cmdp.A))
        mu[self.states] = x.reshape(-1, self.cmdp.A).clip(0.0)
        return mu

    def joint_occupancy(self, safest: Floats | None, margin: float) -> Floats:
        """An occupancy (S, A) that visits every state; within the limits if the margin allows it."""
        cmdp = self.cmdp
        uniform = np.full((cmdp.S, cmdp.A), 1.0 / cmdp.A)
        chain = policy_chain(cmdp.matrix, uniform)
        recurrent = closed_classes(chain[self.states][:, self.states])[0]
        law = np.zeros(cmdp.S)
        law[self.states[recurrent]] = stationary_law(chain[self.states[recurrent]][:, self.states[recurrent]])
        everywhere = law[:, np.newaxis] * uniform
        if safest is None or margin <= 0:
            return everywhere
        excess = float(np.max((cmdp.costs[1:] * everywhere).sum(axis=(1, 2)) - cmdp.thresholds + margin))
        share = 0.5 if excess <= 2 * margin else margin / excess
        return (1.0 - share) * balanced(safest, self.matrix)[0] + share * everywhere
