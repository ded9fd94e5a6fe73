"""Exact planning in a known model: the occupancy program, turned into an executable policy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy import sparse

from psconrl._checks import Floats, Ints
from psconrl.cmdp import CMDP, require_model
from psconrl.errors import SolverError
from psconrl.graph import is_communicating, is_weakly_communicating, reachable
from psconrl.planning.evaluate import evaluate
from psconrl.planning.policies import solve_by_policies
from psconrl.planning.policy import SUPPORT, executable, joint_occupancy
from psconrl.planning.program import (
    OccupancyProgram,
    best_vertex,
    conflict,
    cut,
    largest_margin,
    occupancy_program,
    program_conflict,
)
from psconrl.planning.solution import Solution

LARGE = 2000
"""Models with more states are solved by generating policies: simplex bases of that size get slow."""

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
    (0.775, 0.5)
    """
    require_model(cmdp)
    scope = Scope.of(cmdp)
    large = scope.start is None and len(scope.states) > LARGE
    solution, excess = scope.execute(scope.by_policies(scope.matrix) if large else scope.by_program(), join)
    if excess > join and scope.start is None:
        # Moves that were cut decide; policies can be evaluated with them, however unlikely they are.
        try:
            second, less = scope.execute(scope.by_policies(cmdp.matrix), join)
        except SolverError:
            return solution
        return second if less < excess else solution
    return solution


@dataclass(frozen=True, eq=False)
class Optimum:
    """The optimum of an occupancy program, before it is made a policy.

    occupancy (S, A): optimal, or with the least largest violation; safest (S, A): attains the margin, None
    without constraints; routing (S, A): the multichain program's way to the recurrent classes.
    """

    margin: float
    value: float
    occupancy: Floats
    safest: Floats | None
    multipliers: Floats
    conflict: tuple[int, ...] = ()
    routing: Floats | None = None


@dataclass(frozen=True, eq=False)
class Scope:
    """The part of a model that planning from the initial law sees.

    matrix: the transitions (S * A, S), cut. states: those planned for; all of a communicating model, else
    those that the initial law leads to. start: None if the value is the same from all of them, else the
    initial law.
    """

    cmdp: CMDP
    matrix: sparse.csr_array
    states: Ints
    start: Floats | None

    @staticmethod
    def of(cmdp: CMDP) -> Scope:
        """What matters for planning in this model."""
        matrix, start = cut(cmdp.matrix), None
        states = np.arange(cmdp.S)
        if not is_communicating(cmdp.matrix):
            states = np.flatnonzero(reachable(cmdp.matrix, cmdp.initial > 0))
            if not is_weakly_communicating(_inside(cmdp.matrix, states)):
                start = cmdp.initial[states]
        return Scope(cmdp, matrix, states, start)

    @cached_property
    def program(self) -> OccupancyProgram:
        """The linear program."""
        cmdp = self.cmdp
        inside = _inside(self.matrix, self.states)
        return occupancy_program(inside, cmdp.costs[:, self.states], cmdp.thresholds, self.start)

    def by_policies(self, matrix: sparse.csr_array) -> Optimum:
        """Margin, then value, by generating policies of a model with these transitions."""
        cmdp, inside = self.cmdp, _inside(matrix, self.states)
        costs = cmdp.costs[:, self.states]
        found = solve_by_policies(inside, costs, cmdp.thresholds)
        if not found.gap <= 1e-8:
            raise SolverError(f"policies were generated, but the optimum is proven to {found.gap:.2g} only")

        def margin_of(tau: Floats) -> float:
            limited = np.isfinite(tau)
            return solve_by_policies(inside, costs[np.append(True, limited)], tau[limited]).margin

        return Optimum(
            found.margin,
            found.value,
            self._embed(found.occupancy),
            None if found.safest is None else self._embed(found.safest),
            found.multipliers,
            conflict(found.conflict_weights, cmdp.thresholds, margin_of) if found.margin < 0 else (),
        )

    def by_program(self) -> Optimum:
        """Margin, then value, by linear programming."""
        program, pairs = self.program, len(self.states) * self.cmdp.A
        margin, safest = largest_margin(program)
        if margin < 0:
            assert safest is not None
            vertex, value, multipliers = safest, np.nan, np.full(program.m, np.nan)
        else:
            vertex = best_vertex(program, safest)
            value = vertex.objective
            multipliers = (-vertex.row_duals[program.constraint_rows]).clip(0.0)
        return Optimum(
            margin,
            value,
            self._embed(vertex.x[:pairs]),
            None if safest is None else self._embed(safest.x[:pairs]),
            multipliers,
            program_conflict(program, margin, safest),
            None if self.start is None else self._embed(vertex.x[pairs : 2 * pairs]),
        )

    def execute(self, optimum: Optimum, join: float) -> tuple[Solution, float]:
        """The executable policy of an optimum, with its exact averages, and by how much they miss the optimum.

        How small an occupancy may be before it is rounding depends on how nearly the model falls apart; if the
        averages miss what the program promises, smaller and larger bounds are tried and the best is kept.
        """
        if not 0 < join < 1:
            raise ValueError(f"join is {join}; it must lie between 0 and 1")
        cmdp = self.cmdp
        weight = join / max(1.0, float(np.ptp(cmdp.costs, axis=(1, 2)).max()))
        limits = np.append(np.nan_to_num(optimum.value, nan=np.inf), cmdp.thresholds - min(optimum.margin, 0.0))
        least = np.inf

        def joint() -> Floats | None:
            safest = None if optimum.safest is None else (optimum.safest, optimum.margin)
            if safest is None and cmdp.m:
                margin, vertex = largest_margin(self.program)
                assert vertex is not None
                safest = self._embed(vertex.x[: len(self.states) * cmdp.A]), margin
            return joint_occupancy(cmdp.matrix, self.matrix, cmdp.costs, cmdp.thresholds, safest, self.states)

        for support in (SUPPORT, 1e-2 * SUPPORT, 1e3 * SUPPORT):
            candidate = executable(
                optimum.occupancy,
                self.matrix,
                cmdp.matrix,
                routing=optimum.routing,
                joint=joint if self.start is None else None,
                join=weight,
                support=support,
            )
            averages = evaluate(cmdp, candidate.policy).average_costs
            excess = float(np.max(averages[:, self.states].max(axis=1) - limits))
            if excess < least:
                least, execution, best = excess, candidate, averages
            if excess <= join or self.start is not None:
                break
        solution = Solution(
            status="infeasible" if optimum.margin < 0 else "optimal",
            value=optimum.value,
            policy=execution.policy,
            average_costs=best @ cmdp.initial,
            occupancy=execution.occupancy,
            multipliers=optimum.multipliers,
            margin=optimum.margin,
            conflict=optimum.conflict,
            program="stateless" if self.start is None else "multichain",
            classes=execution.classes,
            connected=execution.connected,
        )
        return solution, least

    def _embed(self, x: Floats) -> Floats:
        mu = np.zeros((self.cmdp.S, self.cmdp.A))
        mu[self.states] = x.reshape(-1, self.cmdp.A).clip(0.0)
        return mu


def _inside(matrix: sparse.csr_array, states: Ints) -> sparse.csr_array:
    """The transitions among some states, which no action leaves."""
    S, A = matrix.shape[1], matrix.shape[0] // matrix.shape[1]
    if len(states) == S:
        return matrix
    return matrix[(states[:, np.newaxis] * A + np.arange(A)).ravel()][:, states]
