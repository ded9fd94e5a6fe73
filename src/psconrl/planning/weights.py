"""Weights of the columns of a mixture: those that carry something, and the best ones for averages that are exact."""

from __future__ import annotations

import numpy as np

from psconrl._core.checks import Floats
from psconrl.planning.compiled.generation import (
    INFEASIBLE,
    OPTIMAL,
    Optimum,
    PricingProblem,
    PricingResult,
    plain_generate,
)
from psconrl.planning.compiled.master import VALUE, Limits
from psconrl.planning.tolerances import CLOSE, SUPPORT


def carrying(optimum: Optimum) -> list[tuple[int, float]]:
    """The columns of an optimum that carry weight, and their weights."""
    if optimum.status == INFEASIBLE:
        return []
    pairs = zip(optimum.master.basis.tolist(), optimum.master.weights.tolist(), strict=True)
    found = [(k, w) for k, w in pairs if k >= 0 and w > SUPPORT]
    total = sum(w for _, w in found)
    return [(k, w / total) for k, w in found]


def best_weights(J: Floats, limits: Limits, bound: float, multipliers: Floats, goal: int = VALUE) -> Floats | None:
    """The weights (k,) of columns J (k, m + 1) that keep the limits at the least cost; None where they cannot.

    bound: of the optimum, with its multipliers (m,). goal: VALUE, or MARGIN for the safest weights.
    """
    best = plain_generate(
        _FixedColumns.price, _FixedColumns(J, bound, 1.0 if goal == VALUE else 0.0), limits, goal, multipliers, CLOSE
    )
    if best.status != OPTIMAL:
        return None
    weights = np.zeros(len(J))
    for k, weight in carrying(best):
        weights[k] = weight
    return weights


class _FixedColumns:
    """An oracle of pricing that knows some columns J (k, m + 1) and no other ones.

    bound: of the optimum; main: the share of c_0 in what it bounds.
    """

    def __init__(self, J: Floats, bound: float, main: float) -> None:
        self.J, self.bound, self.main = J, bound, main
        self.known = np.array([len(J)])

    def price(self, problem: PricingProblem) -> PricingResult:
        """Nothing new, and nothing known about other sums of costs."""
        bound = self.bound if problem.main == self.main else -np.inf
        return PricingResult(True, bound, problem.prices, False, problem.prices)
