"""PSConRL: posterior sampling for constrained reinforcement learning.

D. Provodin, P. Gajane, M. Pechenizkiy, M. Kaptein: Provably Efficient Exploration in Constrained Reinforcement
Learning: Posterior Sampling Is All You Need. arXiv 2309.15737, Algorithm 1.

At the start of episode k, t_k:

    p_k ~ Dirichlet(prior + N_{t_k}(s, a, .)) for every pair
    pi_k = the policy of the occupancy program under p_k if it is feasible, else the uniform policy pi_0

and pi_k is run until TSDE's rule fires: t > t_k + T_{k-1}, or N_t(s, a) > 2 N_{t_k}(s, a) for some pair; T_0 = 1.

Parameters
    prior         0.01 per next state, as in the paper's experiments; (S, A), (S, A, S), or a mask of possible moves;
                  "learned": the posterior of a hierarchical prior, see `psconrl.agents.hierarchy`
    infeasible    "uniform": pi_0 (this paper); "explore": for the whole episode the shortest path, under p_k, to the
                  least visited state and there the least tried action (the idea of the later version,
                  arXiv 2405.19017); "nearest": the best policy for the nearest limits that p_k can meet
    restarts      whether p_k is planned in for a limited time, by restarts in the current state, as continuing
                  posterior sampling does (arXiv 2211.15931); see `PosteriorAgent.within_time`
    execution     "stationary", or "steered" by the excess of the limits so far (`psconrl.planning.steered`)
    margin        0: limits are lower by margin * sqrt(log t / t) in plans, or half of the model's margin

Deviations. The printed episode rule ("N_t >= 2 N_{t_k} or t <= t_k + T_{k-1}") and the printed UNTIL condition are
slips: the rule above is the cited one of Ouyang et al.
"""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from psconrl._core.checks import one_of
from psconrl.agents.contract import Memory, Plan
from psconrl.agents.planning import LimitedAgent, carried, exploit, nearest_limits, to_least_visited
from psconrl.agents.posterior import PosteriorAgent
from psconrl.agents.schedules import Stop, tsde


@dataclass(frozen=True, eq=False)
class PSConRL(LimitedAgent, PosteriorAgent):
    """Posterior sampling for constrained reinforcement learning (Provodin et al. 2023)."""

    infeasible: Literal["uniform", "explore", "nearest"] = "uniform"

    def __post_init__(self) -> None:
        one_of(self.infeasible, "infeasible", ("uniform", "explore", "nearest"))
        super().__post_init__()

    def schedule(self, memory: Memory) -> Stop:
        """When the next plan ends."""
        return tsde(memory)

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """Sample a model from the posterior and plan in it."""
        stop = self.schedule(memory)
        p_k = self.within_time(self.sample(memory, rng), memory, stop, rng)
        costs = p_k.costs
        limits = self.limits(p_k, costs, memory)
        best = self.best(p_k, costs, limits, memory, stop)
        if best.feasible:
            return exploit(best, stop, memory)
        if self.infeasible == "nearest":
            nearest = nearest_limits(p_k, costs, limits, memory)
            best = self.best(p_k, costs, nearest, memory, stop)
            if best.feasible:
                return replace(exploit(best, stop, memory), feasible=False, nearest=nearest)
        carry = carried(best, memory)
        if self.infeasible == "explore":
            policy, connected = to_least_visited(p_k, memory.visits, memory.pairs)
            return Plan(policy[np.newaxis], **stop, phase="explore", feasible=False, connected=connected, carry=carry)
        return self.uniform_plan(**stop, feasible=False, carry=carry)
