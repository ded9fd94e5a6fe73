"""PSConRL: posterior sampling for constrained reinforcement learning.

D. Provodin, P. Gajane, M. Pechenizkiy, M. Kaptein: Provably Efficient Exploration in Constrained Reinforcement
Learning: Posterior Sampling Is All You Need. arXiv 2309.15737, Algorithm 1.

At the start of episode k, t_k:

    p_k ~ Dirichlet(prior + N_{t_k}(s, a, .)) for every pair
    pi_k = the policy of the occupancy program under p_k if it is feasible, else the uniform policy pi_0

and pi_k is run until TSDE's rule fires: t > t_k + T_{k-1}, or N_t(s, a) > 2 N_{t_k}(s, a) for some pair; T_0 = 1.

Parameters
    prior         0.01 per next state, as in the experiments; (S, A), (S, A, S), or a mask of possible moves; "learned":
                  the posterior of a hierarchical prior, see `psconrl.agents.hierarchy`
    infeasible    "uniform": pi_0 (this paper); "explore": for the whole episode the fastest way, under p_k, to the
                  least visited state and there the least tried action (the idea of the later version,
                  arXiv 2405.19017)
    episodes      "tsde" as above, or "quadrupling" (see `schedules`)
    floor         None, or a number: p_k ~ Dirichlet(max(N, floor)), and the prior is not used
    elsewhere     see `variants`
    execution     "stationary", or "steered" by the excess of the limits so far (`psconrl.planning.steered`)
    margin        0: limits are lower by margin * sqrt(log t / t) in plans, or half of the model's margin

Deviations. The printed episode rule ("N_t >= 2 N_{t_k} or t <= t_k + T_{k-1}") and the printed UNTIL condition are
slips: the rule above is the cited one of Ouyang et al. The released code draws Dirichlet(max(N, 0.05)), ends an
episode when a count has quadrupled, and plays action 0 in states without occupancy: floor=0.05,
episodes="quadrupling", elsewhere="action 0".
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from psconrl._core.checks import Floats, one_of, real
from psconrl.agents.contract import Memory, Plan
from psconrl.agents.planning import LimitedAgent, carried, exploit, plan_in, to_least_visited
from psconrl.agents.posterior import PosteriorAgent
from psconrl.agents.sampled_model import SampledModel
from psconrl.agents.schedules import Stop, quadrupling, tsde
from psconrl.agents.variants import Elsewhere, check_elsewhere, draw_floored, plan_elsewhere
from psconrl.errors import InvalidArgumentError
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.for_agents import BestPolicy


@dataclass(frozen=True, eq=False)
class PSConRL(LimitedAgent, PosteriorAgent):
    """Posterior sampling for constrained reinforcement learning (Provodin et al. 2023)."""

    infeasible: Literal["uniform", "explore"] = "uniform"
    episodes: Literal["tsde", "quadrupling"] = "tsde"
    floor: float | None = None
    elsewhere: Elsewhere = "fastest way"

    def __post_init__(self) -> None:
        one_of(self.infeasible, "infeasible", ("uniform", "explore"))
        one_of(self.episodes, "episodes", ("tsde", "quadrupling"))
        check_elsewhere(self.elsewhere)
        if self.floor is not None:
            real(self.floor, "floor", "a number in (0, 1], or None", lambda x: 0 < x <= 1)
        super().__post_init__()
        if self.parameters is None and (self.floor is not None or self.elsewhere != "fastest way"):
            raise InvalidArgumentError(
                'prior is "learned"; floor and elsewhere are of models with all states, leave them as they are'
            )

    def sample(self, memory: Memory, rng: np.random.Generator) -> Rows | SampledModel:
        """p_k from the posterior, or with the floor in the prior's place."""
        return PosteriorAgent.sample(self, memory, rng) if self.floor is None else draw_floored(memory, self.floor, rng)

    def best(self, model: Rows | SampledModel, costs: Floats, limits: Floats, memory: Memory, stop: Stop) -> BestPolicy:
        """The best policy in a sampled model."""
        steer = None if self.execution == "stationary" else self.steer(memory, stop)
        if self.elsewhere == "fastest way":
            return plan_in(model, costs, limits, memory, stop, steer=steer)
        return plan_elsewhere(model, costs, limits, memory, stop, self.elsewhere, steer=steer)

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """Sample a model from the posterior and plan in it."""
        stop = tsde(memory) if self.episodes == "tsde" else quadrupling(memory)
        p_k = self.sample(memory, rng)
        costs = self.costs_in(p_k, memory)
        best = self.best(p_k, costs, self.limits(p_k, costs, memory), memory, stop)
        if best.feasible:
            return exploit(best, stop, memory)
        carry = carried(best, memory)
        if self.infeasible == "uniform":
            return self.uniform_plan(**stop, feasible=False, carry=carry)
        policy, connected = to_least_visited(p_k, memory.visits, memory.pairs)
        return Plan(policy[np.newaxis], **stop, phase="explore", feasible=False, connected=connected, carry=carry)
