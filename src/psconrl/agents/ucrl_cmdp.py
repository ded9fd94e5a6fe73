"""UCRL-CMDP: optimism over a confidence set of transitions.

R. Singh, A. Gupta, N. Shroff: Learning in Constrained Markov Decision Processes. arXiv 2002.12435.

Episodes have ceil(T^alpha) steps. At the start of each, the best policy over all models with

    |p'(s' | s, a) - p_hat(s' | s, a)| <= eps(s, a)  for all s, a, s'

is computed, exactly (see `planning.optimistic`), with the radius

    eps(s, a) = scale * sqrt(log(T^b S A) / max(1, N(s, a)))      "original"
    eps(s, a) = scale / sqrt(N(s, a))                             "simple"

The original radius is given from memory of the literature; it was not compared with the article's text.

Parameters
    alpha           exponent of the episode length; 1/3 gives the rate T^(2/3)
    bonus, scale    which radius, and a factor to it
    b               exponent of T in the original radius, > 1
    execution       "stationary", or "steered" by the excess of the limits so far (`psconrl.planning.steered`)
    margin          0: limits are lower by margin * sqrt(log t / t) in plans, or half of the model's margin

Deviations. Costs are empirical means where the problem does not give them, as in PSConRL's paper (the original knows
them). Pairs never visited are free: any transition is believed. An infeasible program gives the uniform policy.
"""

import math
from dataclasses import dataclass

import numpy as np

from psconrl._core.checks import real
from psconrl.agents import warm_start
from psconrl.agents.bonuses import Bonus, bonus, check_bonus
from psconrl.agents.contract import Memory, Plan
from psconrl.agents.planning import LimitedAgent, joining
from psconrl.agents.schedules import Stop, power
from psconrl.planning.optimistic import best_optimistic, optimistic_margin


@dataclass(frozen=True, eq=False)
class UCRLCMDP(LimitedAgent):
    """Optimism over a confidence set of transitions (Singh et al. 2020)."""

    own_kernels = True
    needs_horizon = True

    alpha: float = 1 / 3
    bonus: Bonus = "original"
    scale: float = 1.0
    b: float = 2.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bonus(self.bonus, self.scale)
        real(self.b, "b", "a number above 1", lambda x: x > 1)
        real(self.alpha, "alpha", "a number in (0, 1]", lambda x: 0 < x <= 1)

    @property
    def name(self) -> str:
        """The name in tables."""
        return "UCRL-CMDP"

    def schedule(self, memory: Memory) -> Stop:
        """When the next plan ends."""
        return power(memory.horizon, self.alpha)

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """The best policy over the confidence set."""
        S, A = self.problem.S, self.problem.A
        stop = self.schedule(memory)
        factor = self.b * math.log(memory.horizon) + math.log(S * A)
        radius = bonus(self.bonus, self.scale, factor, memory.visits)
        radius[memory.visits == 0] = 1.0
        p_hat, costs, thresholds = memory.mean_transitions(), self.costs(memory), self.problem.thresholds
        if self.margin > 0 and len(thresholds):
            thresholds = self.tightened(memory.t, optimistic_margin(p_hat, radius, costs, thresholds, memory.pairs))
        best = best_optimistic(
            p_hat,
            radius,
            costs,
            thresholds,
            join=joining(memory, stop),
            start=warm_start.optimistic(memory.carry, memory.pairs),
            pairs=memory.pairs,
            steer=self.steer(memory, stop),
        )
        fallbacks = warm_start.count(memory.carry, "fallbacks") + (best.method == "program")
        carry = {**best.start, "fallbacks": fallbacks}
        if best.policy is None:
            return self.uniform_plan(**stop, feasible=False, carry=carry)
        return Plan(
            best.policy[np.newaxis],
            **stop,
            value=best.value,
            connected=best.connected,
            carry=carry,
            steered=best.steered,
            multipliers=best.multipliers,
        )
