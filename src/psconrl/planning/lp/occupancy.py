"""The linear program over occupancy measures.

Stateless program (communicating models: the value does not depend on the start), mu(s, a) >= 0:

    min   sum mu c_0
    s.t.  sum_a mu(s, a) - sum_{s', a} mu(s', a) p(s | s', a) = 0        for every s
          sum mu = 1
          sum mu c_i + gamma <= tau_i                                    i = 1..m

gamma >= 0 is idle in this program. Freeing its sign and maximising it instead of minimising c_0 gives the margin: the
largest gamma such that some policy keeps J_i <= tau_i - gamma for all i. Both have the same matrix, and the margin's
vertex is a feasible start for the value.
"""

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from psconrl._core.checks import Floats
from psconrl.errors import SolverError
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.lp.highs import Basis, LinearProgram, Vertex, run
from psconrl.planning.poisson import generator_of
from psconrl.planning.tolerances import FEASIBLE


@dataclass(frozen=True, eq=False)
class OccupancyProgram:
    """The program of one model; `pairs` = S * A occupancies come first among the columns."""

    value: LinearProgram
    margin: LinearProgram
    m: int

    @property
    def constraint_rows(self) -> slice:
        """The rows of the m constraints, the last ones."""
        rows = len(self.value.row_upper)
        return slice(rows - self.m, rows)

    @property
    def thresholds(self) -> Floats:
        """The limits tau, (m,)."""
        return self.value.row_upper[self.constraint_rows]

    def with_thresholds(self, thresholds: Floats) -> "OccupancyProgram":
        """The same program with other limits."""
        upper = self.value.row_upper.copy()
        upper[self.constraint_rows] = thresholds
        value, margin = (replace(program, row_upper=upper) for program in (self.value, self.margin))
        return replace(self, value=value, margin=margin)


def occupancy_program(rows: Rows, costs: Floats, thresholds: Floats) -> OccupancyProgram:
    """The program of a model with costs (m + 1, K) and thresholds (m,).

    HiGHS takes no notice of probabilities below 1e-9.
    """
    pairs, S, m = rows.K, rows.S, len(thresholds)
    auxiliary = sparse.csr_array(costs[1:].reshape(m, pairs).T)
    # Rows here are columns of the program: built by rows, handed over by columns, without a transposition.
    blocks = [[generator_of(rows), np.ones((pairs, 1)), auxiliary]]
    equalities = np.append(np.zeros(S), 1.0)
    if m:
        gamma = sparse.csr_array(np.ones((1, m)))
        widths = [sparse.csr_array((1, block.shape[1])) for block in blocks[0][:-1]]
        blocks.append([*widths, gamma])
    by_rows = sparse.csr_array(sparse.block_array(blocks, format="csr"))
    matrix = sparse.csc_array((by_rows.data, by_rows.indices, by_rows.indptr), shape=by_rows.shape[::-1])
    return _assembled(matrix, costs, equalities, thresholds)


def _assembled(matrix: sparse.csc_array, costs: Floats, equalities: Floats, thresholds: Floats) -> OccupancyProgram:
    """The program with a matrix whose rows are equalities, then constraints, and whose first columns are pairs."""
    pairs = costs.shape[1]
    columns, m = matrix.shape[1], len(thresholds)
    value = LinearProgram(
        cost=np.append(costs[0], np.zeros(columns - pairs)),
        matrix=matrix,
        row_lower=np.concatenate([equalities, np.full(m, -np.inf)]),
        row_upper=np.concatenate([equalities, thresholds]),
        col_lower=np.zeros(columns),
        col_upper=np.full(columns, np.inf),
    )
    margin = value
    if m:
        gain, least = np.zeros_like(value.cost), value.col_lower.copy()
        gain[-1], least[-1] = -1.0, (thresholds - costs[1:].reshape(m, -1).max(axis=1)).min()
        margin = replace(value, cost=gain, col_lower=least)
    return OccupancyProgram(value, margin, m)


def largest_margin(program: OccupancyProgram, basis: Basis | None = None) -> tuple[float, Vertex | None]:
    """The Slater margin and the vertex that attains it; +inf and None without constraints."""
    if np.isinf(program.thresholds).all():
        return np.inf, None
    vertex = run(program.margin, basis)
    if vertex.status == "infeasible":
        raise SolverError("the linear program of the margin, always feasible, was found infeasible")
    margin = -vertex.objective
    return (0.0 if -FEASIBLE <= margin < 0 else margin), vertex


def best_vertex(program: OccupancyProgram, safest: Vertex | None) -> Vertex:
    """The optimum of a program that was found feasible, starting from the vertex of its margin."""
    shortfall = 0.0 if safest is None else max(safest.objective, 0.0)
    return feasible_vertex(program, None if safest is None else safest.basis, shortfall)


def feasible_vertex(program: OccupancyProgram, basis: Basis | None, shortfall: float = 0.0) -> Vertex:
    """The optimum of a program whose limits can be met, or miss it by the shortfall and rounding only."""
    size = np.where(np.isinf(program.thresholds), 1.0, np.maximum(1.0, np.abs(program.thresholds)))
    for slack in (0.0, 1e-12, FEASIBLE):
        relaxed = (
            program
            if shortfall + slack == 0
            else program.with_thresholds(program.thresholds + shortfall + slack * size)
        )
        vertex = run(relaxed.value, basis)
        if vertex.status == "optimal":
            return vertex
    raise SolverError("the linear program was found feasible, then infeasible; its numbers are too uneven")
