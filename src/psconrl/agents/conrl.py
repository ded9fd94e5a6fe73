"""ConRL: optimism about rewards and costs, by bonuses.

K. Brantley, M. Dudik, T. Lykouris, S. Miryoosefi, M. Simchowitz, A. Slivkins, W. Sun: Constrained Episodic
Reinforcement Learning in Concave-Convex and Knapsack Settings. NeurIPS 2020.

The model planned with has the empirical transitions and the costs max(c_hat_i - b, 0) for i = 0..m, with

    b(s, a) = scale * H sqrt(2 log(8 S A H (m + 1) k^2 / delta) / max(1, N(s, a)))      "published"
    b(s, a) = scale / sqrt(N(s, a)), 1 if N = 0                                         "simple"

Recast to the infinite horizon as PSConRL's paper does: the occupancy program in epochs of UCRL2, a new one when
v_k(s, a) >= max(1, N_k(s, a)) for the pair just played.

Parameters
    bonus, scale    which bonus, and a factor to it
    H               horizon of the episodic original in the published bonus; it pays for errors of transitions
    delta           failure probability in the published bonus
    impute, clip, elsewhere    see `variants`
    episodes        "doubling" as above, or "quadrupling" (see `schedules`)
    execution       "stationary", or "steered" by the excess of the limits so far (`psconrl.planning.steered`)
    margin          0: limits are lower by margin * sqrt(log t / t) in plans, or half of the model's margin

Deviations. Pairs never visited lead uniformly to the states seen so far (the released code of the original imputes
a self-loop, which turns any unvisited pair into an absorbing optimum); costs after the bonus are clipped to [0, 1].
An infeasible program gives the uniform policy. The experiments of PSConRL's authors used scale / sqrt(N), and their
released code has impute="dirichlet", clip=False, episodes="quadrupling", elsewhere="action 0".
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from psconrl._core.checks import one_of, real
from psconrl.agents.bonuses import Bonus, bonus, check_bonus
from psconrl.agents.contract import Memory, Plan
from psconrl.agents.planning import LimitedAgent, exploit
from psconrl.agents.schedules import doubling, quadrupling
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
class ConRL(LimitedAgent):
    """Optimistic rewards and costs by bonuses, in doubling epochs (Brantley et al. 2020)."""

    bonus: Bonus = "published"
    scale: float = 1.0
    H: float = 1.0
    delta: float = 0.05
    impute: Impute = "seen"
    clip: bool = True
    episodes: Literal["doubling", "quadrupling"] = "doubling"
    elsewhere: Elsewhere = "fastest way"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bonus(self.bonus, self.scale, self.delta)
        real(self.H, "H", "a number > 0", lambda x: x > 0)
        check_impute(self.impute, self.clip)
        check_elsewhere(self.elsewhere)
        one_of(self.episodes, "episodes", ("doubling", "quadrupling"))

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """Plan in the empirical model with all costs lowered by the bonus."""
        S, A, m = self.problem.S, self.problem.A, self.problem.m
        k = memory.episode + 1
        factor = self.H**2 * 2 * math.log(8 * S * A * self.H * (m + 1) * k**2 / self.delta)
        b = bonus(self.bonus, self.scale, factor, memory.visits)
        stop = doubling(memory) if self.episodes == "doubling" else quadrupling(memory)
        costs = clipped(self.costs(memory) - b, self.clip)
        p_hat = imputed_transitions(memory, self.impute, rng)
        limits, steer = self.limits(p_hat, costs, memory), self.steer(memory, stop)
        best = plan_elsewhere(p_hat, costs, limits, memory, stop, self.elsewhere, self.impute, steer=steer)
        if best.feasible:
            return exploit(best, stop, memory)
        return self.uniform_plan(**stop, feasible=False, carry=memory.carry)
