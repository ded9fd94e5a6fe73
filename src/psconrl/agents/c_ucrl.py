"""C-UCRL: optimism about rewards, pessimism about costs.

L. Zheng, L. Ratliff: Constrained Upper Confidence Reinforcement Learning. L4DC 2020.

Episode k has k h steps: h steps of a baseline policy, then (k - 1) h steps of the policy of the occupancy program
with costs max(c_hat_0 - b, 0) and min(c_hat_i + b, 1), i = 1..m, where t_k is the first step of the episode and

    b(s, a) = scale * sqrt(log(S A (m + 1) pi^2 t_k^3 / (3 delta)) / (2 max(1, N(s, a))))      "published"
    b(s, a) = scale / sqrt(N(s, a)), 1 if N = 0                                                "simple"

Parameters
    h               length unit of the episodes
    bonus, scale    which bonus, and a factor to it
    delta           failure probability in the published bonus
    impute, clip, elsewhere    see `variants`
    execution       "stationary", or "steered" by the excess of the limits so far (`psconrl.planning.steered`)
    margin          0: limits are lower by margin * sqrt(log t / t) in plans, or half of the model's margin

Deviations, as in PSConRL's paper: transitions are estimated (the original knows them, and with them its safety
theorem falls), and the baseline is the uniform policy (the original has a safe one). If the program is infeasible,
the baseline goes on, as the original's text says. Pairs never visited lead uniformly to the states seen so far. The
released code of PSConRL's authors has impute="self-loop", clip=False, elsewhere="action 0".
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from psconrl._core.checks import whole
from psconrl.agents.bonuses import Bonus, bonus, check_bonus
from psconrl.agents.contract import Memory, Plan
from psconrl.agents.planning import LimitedAgent, exploit
from psconrl.agents.schedules import Position, fixed
from psconrl.agents.variants import (
    Elsewhere,
    Impute,
    check_elsewhere,
    check_impute,
    clipped,
    imputed_transitions,
    plan_elsewhere,
)


@dataclass(frozen=True, eq=False)
class CUCRL(LimitedAgent):
    """Optimistic rewards, pessimistic costs, baseline phases (Zheng and Ratliff 2020)."""

    h: int = 50
    bonus: Bonus = "published"
    scale: float = 1.0
    delta: float = 0.05
    impute: Impute = "seen"
    clip: bool = True
    elsewhere: Elsewhere = "fastest way"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bonus(self.bonus, self.scale, self.delta)
        whole(self.h, "h")
        check_impute(self.impute, self.clip)
        check_elsewhere(self.elsewhere)

    @property
    def name(self) -> str:
        """The name in tables."""
        return "C-UCRL"

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """The baseline for h steps, then the planned policy for (k - 1) h, in turn."""
        at = Position.of(memory)
        if at.baseline_next:
            return self.uniform_plan(**fixed(self.h), carry={**memory.carry, **at.exploring(memory)})
        S, A, m = self.problem.S, self.problem.A, self.problem.m
        factor = math.log(S * A * (m + 1) * math.pi**2 * at.t_k**3 / (3 * self.delta)) / 2
        b = bonus(self.bonus, self.scale, factor, memory.visits)
        costs = self.costs(memory).copy()
        costs[0] = clipped(costs[0] - b, self.clip)
        costs[1:] = clipped(costs[1:] + b, self.clip)
        stop = fixed((at.k - 1) * self.h)
        p_hat = imputed_transitions(memory, self.impute, rng)
        limits, steer = self.limits(p_hat, costs, memory), self.steer(memory, stop)
        best = plan_elsewhere(p_hat, costs, limits, memory, stop, self.elsewhere, self.impute, steer=steer)
        if not best.feasible:
            return self.uniform_plan(**stop, feasible=False, carry={**memory.carry, **at.done()})
        plan = exploit(best, stop, memory)
        return replace(plan, carry={**plan.carry, **at.done()})
