"""FHA: finite-horizon approximation.

L. Chen, R. Jain, H. Luo: Learning Infinite-Horizon Average-Reward Markov Decision Processes with Constraints.
ICML 2022, Algorithm 3.

Episodes have H steps. At the start of each, from the current state, the best non-stationary policy for H steps is
computed over all models with

    |p'(s' | s, a) - p_hat(s' | s, a)| <= eps(s, a, s')

subject to E sum_h c_i <= H tau_i + span, and its actions are sampled. The radius is

    eps = scale * (4 sqrt(p_hat alpha) + 28 alpha),  alpha = log(2 S A T / delta) / max(1, N)      "original"
    eps = scale / sqrt(N)                                                                          "simple"

Parameters
    H               steps of an episode; ceil((T / (S^2 A))^(1/3)) by default, as in its paper; must be given where
                    the number of states is not known
    span            bound on the span of the optimal policy's cost bias, which loosens the budget of an episode
    bonus, scale    which radius, and a factor to it
    delta           failure probability in the original radius
    execution       "stationary" alone: there is no mixture of stationary policies to be steered

Deviations. Costs are empirical means where the problem does not give them. Pairs never visited are free. An
infeasible program, for which the paper defines nothing, gives the uniform policy.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from psconrl._core.checks import Floats, real, short_repr, whole
from psconrl.agents import warm_start
from psconrl.agents.bonuses import Bonus, bonus, check_bonus
from psconrl.agents.contract import Agent, Memory, Plan
from psconrl.agents.schedules import fixed
from psconrl.errors import InvalidArgumentError
from psconrl.planning.finite_horizon import solve_finite
from psconrl.planning.intervals import Intervals


@dataclass(frozen=True, eq=False)
class FHA(Agent):
    """Finite-horizon approximation, optimistic over transitions (Chen, Jain and Luo 2022)."""

    own_kernels = True
    needs_horizon = True

    execution: Literal["stationary"] = field(default="stationary", kw_only=True)
    H: int | None = None
    span: float = 1.0
    bonus: Bonus = "original"
    scale: float = 1.0
    delta: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.execution, str) or self.execution != "stationary":
            raise InvalidArgumentError(
                f'execution is {short_repr(self.execution)}; FHA knows "stationary" only: its policies change from '
                "step to step, so there is no mixture to be steered"
            )
        check_bonus(self.bonus, self.scale, self.delta)
        if self.H is not None:
            whole(self.H, "H")
        elif self.problem.S is None:
            raise InvalidArgumentError(
                "H is None, and the number of states, from which it follows, is not known; give H"
            )
        real(self.span, "span", "a number >= 0", lambda x: x >= 0)

    def steps(self, horizon: int) -> int:
        """H of a run of T steps."""
        if self.H is not None:
            return self.H
        return max(1, math.ceil((horizon / (self.problem.S**2 * self.problem.A)) ** (1 / 3)))

    def radius(self, memory: Memory, p_hat: Floats) -> Floats:
        """eps (S, A, S)."""
        if self.bonus == "original":
            log = math.log(2 * self.problem.S * self.problem.A * memory.horizon / self.delta)
            alpha = (log / np.maximum(memory.visits, 1))[:, :, np.newaxis]
            eps = self.scale * (4 * np.sqrt(p_hat * alpha) + 28 * alpha)
        else:
            flat = bonus(self.bonus, self.scale, 0.0, memory.visits)
            eps = np.broadcast_to(flat[:, :, np.newaxis], p_hat.shape).copy()
        eps[memory.visits == 0] = 1.0
        return np.asarray(eps)

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """The best policy for the next H steps over the confidence set."""
        H = self.steps(memory.horizon)
        p_hat = memory.mean_transitions()
        intervals = Intervals.around(p_hat, self.radius(memory, p_hat))
        budgets = H * self.problem.thresholds + self.span
        found = solve_finite(
            intervals,
            self.costs(memory),
            budgets,
            H,
            memory.state,
            columns=warm_start.columns(memory.carry, H, memory.pairs),
            pairs=memory.pairs,
        )
        carry = {} if found.columns is None else {"columns": found.columns}
        if not found.feasible:
            return self.uniform_plan(**fixed(H), feasible=False, carry=carry)
        return Plan(found.policy, **fixed(H), value=found.value / H, carry=carry, multipliers=found.multipliers)
