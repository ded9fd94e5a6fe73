"""The agent for those who do not want to choose: PSConRL with what was found to help everywhere, and nothing to tune.

    prior = "learned"          how random the moves are, and which states there are, is learned (`hierarchy`)
    execution = "steered"      the excess of the limits so far decides what to do next (`psconrl.planning.steered`)
    restarts = True            samples are planned in for the time a plan lasts (`PosteriorAgent.within_time`), and what
                               may be discovered in it is learned (`psconrl.agents.discovery`)
    infeasible = "nearest"     where a sample cannot meet the limits, the nearest that it can take their place

The margin is PSConRL's, zero by default.

Steering alone cannot keep a limit if plans promise too much. The columns of an optimum may differ in one action of one
state, so that none of them lowers an excess by more than a thousandth per step, while a sample, whose optimum takes the
pairs that came out best, is wrong by a hundredth. So what is owed is paid back: a plan is made with the limits

    tau_i - [V_i]+ / t,    V_i = sum_t (c_i - tau_i),

lower by the mean excess so far, or by half of the sample's margin if that is less. Steering counts from tau as before.

What is proved, and what is only measured, says docs/algorithms/recommended.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from psconrl._core.checks import Floats
from psconrl.agents.contract import Memory
from psconrl.agents.hierarchy import LEARNED
from psconrl.agents.planning import Execution, Model, margin_in
from psconrl.agents.psconrl import PSConRL
from psconrl.agents.schedules import Stop
from psconrl.planning.for_agents import BestPolicy
from psconrl.problem import Problem


@dataclass(frozen=True, eq=False)
class Recommended(PSConRL):
    """PSConRL with a learned prior, its limits kept by steering."""

    prior: ArrayLike | sparse.csr_array = LEARNED
    infeasible: Literal["uniform", "explore", "nearest"] = "nearest"
    execution: Execution = field(default="steered", kw_only=True)
    restarts: bool = field(default=True, kw_only=True)

    def best(self, model: Model, costs: Floats, limits: Floats, memory: Memory, stop: Stop) -> BestPolicy:
        """The best policy in a sampled model that pays back what is owed."""
        owed = np.minimum(memory.excess / max(memory.t, 1), limits / 2).clip(0.0)  # no margin is wider than its limit
        found = super().best(model, costs, limits - owed, memory, stop)
        if not found.feasible and owed.any():
            owed = np.minimum(owed, max(margin_in(model, costs, limits, memory), 0.0) / 2)
            found = super().best(model, costs, limits - owed, memory, stop)
        if found.steered is None:
            return found
        return found._replace(steered=found.steered._replace(limits=limits.copy(), drifts=found.steered.drifts - owed))


def recommended(problem: Problem) -> Recommended:
    """The agent to start with; it has nothing to tune."""
    return Recommended(problem)
