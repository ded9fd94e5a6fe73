"""The fast way to a policy, for callers that plan often: no margin, no diagnosis, a basis in and out."""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

from psconrl._checks import Floats
from psconrl.errors import SolverError
from psconrl.planning.highs import Basis, run
from psconrl.planning.policy import SUPPORT, complete, executable, joint_occupancy
from psconrl.planning.program import CUT, best_vertex, dense_program, largest_margin


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
    transitions: Floats, costs: Floats, thresholds: Floats, *, join: float, basis: Basis | None = None
) -> BestPolicy:
    """Plan in a model (S, A, S) with costs (m + 1, S, A): a pure function of its arguments.

    basis: what an earlier answer for a model of the same size gave; a good one saves most of the work and
    changes the answer only where several are optimal.
    """
    from psconrl.planning._kernels import one_class

    S, A, _ = transitions.shape
    m = len(thresholds)
    P = transitions.reshape(S * A, S)
    model = np.where(P > CUT, P, 0.0)
    model /= model.sum(axis=1, keepdims=True)
    program = dense_program(model, costs, thresholds)
    try:
        vertex = run(program.value, basis)
        doubtful = vertex.status == "infeasible"
    except SolverError:
        doubtful = True
    if doubtful:
        # Never on the word of a solver's tolerance: the margin decides.
        margin, safest = largest_margin(program)
        if margin < 0:
            return BestPolicy(False, None, np.nan, np.full(m, np.nan), None, 0, True)
        vertex = best_vertex(program, safest)
    mu = vertex.x[: S * A].reshape(S, A).clip(0.0)
    classes = 1
    if one_class(mu, model, SUPPORT):
        clean = np.where(mu > SUPPORT, mu, 0.0)
        policy, connected = complete(clean, model, P)
    else:

        def joint() -> Floats | None:
            margin, safest = largest_margin(program, vertex.basis)
            strict = None if safest is None else (safest.x[: S * A].reshape(S, A).clip(0.0), margin)
            return joint_occupancy(uncut, cut_model, costs, thresholds, strict)

        uncut, cut_model = sparse.csr_array(P), sparse.csr_array(model)
        execution = executable(mu, cut_model, uncut, joint=joint, join=join)
        policy, connected, classes = execution.policy, execution.connected, execution.classes
    return BestPolicy(
        True,
        policy,
        vertex.objective,
        (-vertex.row_duals[program.constraint_rows]).clip(0.0),
        vertex.basis,
        classes,
        connected,
    )
