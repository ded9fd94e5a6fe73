"""Slow, plain twins that the environments are compared with."""

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from psconrl._core.checks import Floats
from psconrl.cmdp import CMDP


def optimum(cmdp: CMDP) -> tuple[float, Floats]:
    """Value and multipliers of the occupancy program, by scipy."""
    S, A = cmdp.S, cmdp.A
    leaving = sparse.csr_array(np.repeat(np.eye(S), A, axis=1))
    balance = sparse.vstack([leaving - cmdp.matrix.T, sparse.csr_array(np.ones((1, S * A)))])
    result = linprog(
        cmdp.costs[0].ravel(),
        A_ub=cmdp.costs[1:].reshape(cmdp.m, -1) if cmdp.m else None,
        b_ub=cmdp.thresholds if cmdp.m else None,
        A_eq=balance,
        b_eq=np.append(np.zeros(S), 1.0),
    )
    assert result.fun is not None, result.message
    return float(result.fun), -np.asarray(result.ineqlin.marginals, dtype=np.float64)


def go(cmdp: CMDP, state: str, action: str) -> tuple[dict[str, float], list[float]]:
    """The law of the next state, by name, and the mean costs."""
    s, a = cmdp.state_names.index(state), cmdp.action_names.index(action)
    row = cmdp.matrix[[s * cmdp.A + a]].toarray()[0]
    law = {cmdp.state_names[i]: float(row[i]) for i in np.flatnonzero(row)}
    return law, [float(c) for c in cmdp.costs[:, s, a]]
