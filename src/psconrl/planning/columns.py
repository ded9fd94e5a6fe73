"""Column generation (Dantzig and Wolfe): the best mixture of behaviours that can be found one at a time.

A column is a behaviour with averages J (m + 1,), for instance a deterministic policy. The master, w_k >= 0,

    min  sum_k w_k J_0     s.t.   sum_k w_k J_i + gamma <= tau_i  (i = 1..m),     sum_k w_k = 1

or, for the margin, max gamma, has prices lambda_i >= 0 of its constraints; the search answers with the column that
is best for them and a lower bound for all columns. Generation ends when the master is within GAP of the best bound,
or when nothing new comes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy import sparse

from psconrl._checks import Floats
from psconrl.errors import SolverError
from psconrl.planning.highs import LinearProgram, run

GAP = 1e-10
"""Distance from the proven bound at which the generation of columns stops, where the costs' range is one."""

_COSTS_UP = 1e4  # reduced costs of the master are exact to the solver's tolerance over this
_ROUNDS = 5000


class Column(Protocol):
    """A behaviour with averages J (m + 1,)."""

    @property
    def J(self) -> Floats:
        """The averages of all costs."""


class Search(Protocol):
    """Finds columns."""

    @property
    def columns(self) -> Sequence[Column]:
        """Those found so far."""

    def price(self, weights: Floats, *, enough: float = np.inf, fresh: bool = False) -> float:
        """Add the column with the least sum_i weights_i J_i; a lower bound of that sum over all columns.

        A bound that is `enough` may end the search early; `fresh` asks for a start made for these weights.
        """


@dataclass(frozen=True, eq=False)
class Mixture:
    """Of a master: least objective, weights of the columns, prices of the constraints, proven error."""

    objective: float
    weights: Floats
    prices: Floats
    gap: float = np.inf


def generate(search: Search, tau: Floats, *, margin: bool) -> Mixture:
    """Add columns until the master's optimum is that of all columns.

    The prices returned are those that prove the best bound.
    """
    m = len(tau)
    prices = np.full(m, 1.0 / m) if margin else np.zeros(m)
    bound, proof, objective = -np.inf, prices, np.inf
    for step in range(_ROUNDS):
        known, spent = len(search.columns), float(prices @ tau)
        weights = np.append(0.0 if margin else 1.0, prices)
        found = search.price(weights, enough=objective - GAP + spent, fresh=step == 0) - spent
        if found > bound:
            bound, proof = found, prices
        optimum = _master(np.array([column.J for column in search.columns]), tau, margin=margin)
        gap = max(optimum.objective - bound, 0.0)
        stuck = len(search.columns) == known and np.array_equal(prices, optimum.prices)
        if gap <= GAP or stuck:
            return replace(optimum, prices=proof, gap=gap)
        prices, objective = optimum.prices, optimum.objective
    raise SolverError(f"column generation found no end in {_ROUNDS} policies; its bound is off by {gap:.2g}")


def _master(J: Floats, tau: Floats, *, margin: bool) -> Mixture:
    """The best mixture of columns with averages J (K, m + 1); for the margin the objective is -gamma."""
    K, m = len(J), len(tau)
    matrix = np.zeros((m + 1, K + 1))
    matrix[:m, :K], matrix[:m, K], matrix[m, :K] = J[:, 1:].T, 1.0, 1.0
    cost = np.append(np.zeros(K), -1.0) if margin else np.append(J[:, 0], 0.0)
    vertex = run(
        LinearProgram(
            cost=_COSTS_UP * cost,
            matrix=sparse.csc_array(matrix),
            row_lower=np.append(np.full(m, -np.inf), 1.0),
            row_upper=np.append(tau, 1.0),
            col_lower=np.append(np.zeros(K), (tau - J[:, 1:].max(axis=0)).min() if margin else 0.0),
            col_upper=np.append(np.ones(K), np.inf),
        )
    )
    if vertex.status == "infeasible":
        raise SolverError("the limits could be met, then not; the numbers of the model are too uneven")
    weights = vertex.x[:K].clip(0.0)
    prices = (-vertex.row_duals[:m] / _COSTS_UP).clip(0.0)
    if margin:
        prices = prices / prices.sum()
    return Mixture(float(cost @ vertex.x), weights / weights.sum(), prices)
