"""ConRL: optimism about rewards and costs, by bonuses.

K. Brantley, M. Dudik, T. Lykouris, S. Miryoosefi, M. Simchowitz, A. Slivkins, W. Sun: Constrained Episodic
Reinforcement Learning in Concave-Convex and Knapsack Settings. NeurIPS 2020.

The model planned with has the empirical transitions and the costs max(c_hat_i - b, 0) for i = 0..m, with

    b(s, a) = scale * H sqrt(2 log(8 S A H (m + 1) k^2 / delta) / max(1, N(s, a)))      "original"
    b(s, a) = scale / sqrt(N(s, a)), 1 if N = 0                                         "simple"

Recast to the infinite horizon as PSConRL's paper does: the occupancy program in epochs of UCRL2, a new one when
v_k(s, a) >= max(1, N_k(s, a)) for the pair just played.

Parameters
    bonus, scale    which bonus, and a factor to it
    H               horizon of the episodic original in its bonus; it pays for errors of transitions
    delta           failure probability in the original bonus
    execution       "stationary", or "steered" by the excess of the limits so far (`psconrl.planning.steered`)
    margin          0: limits are lower by margin * sqrt(log t / t) in plans, or half of the model's margin

Deviations. Pairs never visited lead uniformly to the states seen so far (the released code of the original imputes
a self-loop, which turns any unvisited pair into an absorbing optimum); costs after the bonus are clipped to [0, 1].
An infeasible program gives the uniform policy.
"""

import math
from dataclasses import dataclass

import numpy as np

from psconrl._core.checks import Floats, real
from psconrl.agents.bonuses import Bonus, bonus, check_bonus
from psconrl.agents.contract import Memory, Plan
from psconrl.agents.planning import EstimatingAgent, exploit
from psconrl.agents.schedules import Stop, doubling


@dataclass(frozen=True, eq=False)
class ConRL(EstimatingAgent):
    """Optimistic rewards and costs by bonuses, in doubling epochs (Brantley et al. 2020)."""

    bonus: Bonus = "original"
    scale: float = 1.0
    H: float = 1.0
    delta: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bonus(self.bonus, self.scale, self.delta)
        real(self.H, "H", "a number > 0", lambda x: x > 0)

    def schedule(self, memory: Memory) -> Stop:
        """When the next plan ends."""
        return doubling(memory)

    def optimistic_costs(self, memory: Memory) -> Floats:
        """The costs to plan with (m + 1, S, A): means less the bonus, not yet clipped."""
        S, A, m = self.problem.S, self.problem.A, self.problem.m
        k = memory.episode + 1
        factor = self.H**2 * 2 * math.log(8 * S * A * self.H * (m + 1) * k**2 / self.delta)
        return self.costs(memory) - bonus(self.bonus, self.scale, factor, memory.visits)

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """Plan in the empirical model with all costs lowered by the bonus."""
        stop, costs = self.schedule(memory), self.clip_costs(self.optimistic_costs(memory))
        p_hat = self.estimate(memory, rng)
        best = self.best(p_hat, costs, self.limits(p_hat, costs, memory), memory, stop)
        if best.feasible:
            return exploit(best, stop, memory)
        return self.uniform_plan(**stop, feasible=False, carry=memory.carry)
