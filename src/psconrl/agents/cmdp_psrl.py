"""CMDP-PSRL: posterior sampling in doubling epochs.

M. Agarwal, Q. Bai, V. Aggarwal: Regret Guarantees for Model-Based Reinforcement Learning with Long-Term Average
Constraints. UAI 2022.

The first epoch plays the uniform policy. When v_e(s, a) >= max(1, N_e(s, a)) for the pair just played, a model is
drawn from Dirichlet(prior + N) and the policy of the occupancy program under it is played for the next epoch. If the
program is infeasible under the sample, the violated constraint is ignored for that epoch.

Parameters
    prior        1 per next state, as its paper has it; or "learned", see `psconrl.agents.hierarchy`
    restarts     whether samples are planned in for a limited time; see `PosteriorAgent.within_time`
    execution    "stationary", or "steered" by the excess of the limits so far (`psconrl.planning.steered`)
    margin       0: limits are lower by margin * sqrt(log t / t) in plans, or half of the model's margin

Deviations. With several constraints the paper does not say which ones are dropped; here all are. In states without
occupancy the policy takes the fastest path into the others (the paper assumes ergodicity).
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from psconrl.agents.contract import Memory, Plan
from psconrl.agents.planning import LimitedAgent, carried, exploit, plan_in
from psconrl.agents.posterior import PosteriorAgent
from psconrl.agents.schedules import doubling


@dataclass(frozen=True, eq=False)
class CMDPPSRL(LimitedAgent, PosteriorAgent):
    """Posterior sampling in doubling epochs, constraints dropped if infeasible (Agarwal et al. 2022)."""

    prior: ArrayLike = 1.0

    @property
    def name(self) -> str:
        """The name in tables."""
        return "CMDP-PSRL"

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """Sample a model from the posterior and plan in it; without constraints if they cannot be met."""
        stop = doubling(memory)
        if memory.episode == 0:
            return self.uniform_plan(**stop)
        p_k = self.within_time(self.sample(memory, rng), memory, stop, rng)
        costs = p_k.costs
        best = self.best(p_k, costs, self.limits(p_k, costs, memory), memory, stop)
        if best.feasible:
            return exploit(best, stop, memory)
        free = exploit(plan_in(p_k, costs[:1], np.zeros(0), memory, stop, warm=False), stop, memory)
        return replace(free, feasible=False, carry=carried(best, memory))
