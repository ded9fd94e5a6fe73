"""The fast way to a policy, for callers that plan often: no margin, no diagnosis, a basis in and out."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from psconrl._checks import Floats
from psconrl.planning.highs import Basis, run
from psconrl.planning.policy import executable, joint_occupancy
from psconrl.planning.program import best_vertex, cut, largest_margin, occupancy_program


@dataclass(frozen=True, eq=False)
class BestPolicy:
    """A policy (S, A) for the stateless program of a model, or the news that it is infeasible.

    policy: None if infeasible; multipliers (m,); basis: for the next call; classes: how many recurrent classes
    the optimum has; connected: whether every state is led into its support.
    """

    feasible: bool
    policy: Floats | None
    value: float
    multipliers: Floats
    basis: Basis | None
    classes: int
    connected: bool


def best_policy(
    matrix: sparse.csr_array, costs: Floats, thresholds: Floats, *, join: float, basis: Basis | None = None
) -> BestPolicy:
    """Plan in a model (S * A, S) with costs (m + 1, S, A): a pure function of its arguments.

    basis: what an earlier answer for a model of the same size gave; a good one saves most of the work and
    changes the answer only where several are optimal.
    """
    model, m = cut(matrix), len(thresholds)
    program = occupancy_program(model, costs, thresholds)
    vertex = run(program.value, basis)
    if vertex.status == "infeasible":
        # Never on the word of a solver's tolerance: the margin decides.
        margin, safest = largest_margin(program)
        if margin < 0:
            return BestPolicy(False, None, np.nan, np.full(m, np.nan), None, 0, True)
        vertex = best_vertex(program, safest)
    pairs, A = matrix.shape[0], matrix.shape[0] // matrix.shape[1]

    def joint() -> Floats | None:
        margin, safest = largest_margin(program, vertex.basis)
        strict = None if safest is None else (safest.x[:pairs].reshape(-1, A).clip(0.0), margin)
        return joint_occupancy(matrix, model, costs, thresholds, strict)

    execution = executable(vertex.x[:pairs].reshape(-1, A).clip(0.0), model, matrix, joint=joint, join=join)
    return BestPolicy(
        True,
        execution.policy,
        vertex.objective,
        (-vertex.row_duals[program.constraint_rows]).clip(0.0),
        vertex.basis,
        execution.classes,
        execution.connected,
    )
