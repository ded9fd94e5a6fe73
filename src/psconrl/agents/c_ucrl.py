"""C-UCRL: optimism about rewards, pessimism about costs.

L. Zheng, L. Ratliff: Constrained Upper Confidence Reinforcement Learning. L4DC 2020.

Episode k has k h steps: h steps of a baseline policy, then (k - 1) h steps of the policy of the occupancy program
with costs max(c_hat_0 - b, 0) and min(c_hat_i + b, 1), i = 1..m, where t_k is the first step of the episode and

    b(s, a) = scale * sqrt(log(S A (m + 1) pi^2 t_k^3 / (3 delta)) / (2 max(1, N(s, a))))      "original"
    b(s, a) = scale / sqrt(N(s, a)), 1 if N = 0                                                "simple"

Parameters
    h               length unit of the episodes
    bonus, scale    which bonus, and a factor to it
    delta           failure probability in the original bonus
    execution       "stationary", or "steered" by the excess of the limits so far (`psconrl.planning.steered`)
    margin          0: limits are lower by margin * sqrt(log t / t) in plans, or half of the model's margin

Deviations, as in PSConRL's paper: transitions are estimated (the original knows them, and with them its safety
theorem falls), and the baseline is the uniform policy (the original has a safe one). If the program is infeasible,
the baseline goes on, as the original's text says. Pairs never visited lead uniformly to the states seen so far.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from psconrl._core.checks import Floats, whole
from psconrl.agents.bonuses import Bonus, bonus, check_bonus
from psconrl.agents.contract import Memory, Plan
from psconrl.agents.planning import EstimatingAgent, exploit
from psconrl.agents.schedules import Position, fixed


@dataclass(frozen=True, eq=False)
class CUCRL(EstimatingAgent):
    """Optimistic rewards, pessimistic costs, baseline phases (Zheng and Ratliff 2020)."""

    h: int = 50
    bonus: Bonus = "original"
    scale: float = 1.0
    delta: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bonus(self.bonus, self.scale, self.delta)
        whole(self.h, "h")

    @property
    def name(self) -> str:
        """The name in tables."""
        return "C-UCRL"

    def cautious_costs(self, memory: Memory, t_k: int) -> Floats:
        """The costs to plan with (m + 1, S, A): the main one less the bonus, the others more; not yet clipped."""
        S, A, m = self.problem.S, self.problem.A, self.problem.m
        factor = math.log(S * A * (m + 1) * math.pi**2 * t_k**3 / (3 * self.delta)) / 2
        b = bonus(self.bonus, self.scale, factor, memory.visits)
        costs = self.costs(memory).copy()
        costs[0] -= b
        costs[1:] += b
        return costs

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """The baseline for h steps, then the planned policy for (k - 1) h, in turn."""
        at = Position.of(memory)
        if at.baseline_next:
            return self.uniform_plan(**fixed(self.h), carry={**memory.carry, **at.exploring(memory)})
        stop, costs = fixed((at.k - 1) * self.h), self.clip_costs(self.cautious_costs(memory, at.t_k))
        p_hat = self.estimate(memory, rng)
        best = self.best(p_hat, costs, self.limits(p_hat, costs, memory), memory, stop)
        if not best.feasible:
            return self.uniform_plan(**stop, feasible=False, carry={**memory.carry, **at.done()})
        plan = exploit(best, stop, memory)
        return replace(plan, carry={**plan.carry, **at.done()})
