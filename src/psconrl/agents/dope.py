"""DOPE: optimism about the main cost, pessimism about the limits, and a safe policy to begin with.

A. Bura, A. HasanzadeZonuzy, D. Kalathil, S. Shakkottai, J. Chamberland: DOPE: Doubly Optimistic and Pessimistic
Exploration for Safe Reinforcement Learning. NeurIPS 2022.

At the start of an epoch the best policy is computed over all models with

    |p'(s' | s, a) - p_hat(s' | s, a)| <= radius(s, a)  for all s, a, s'

and the costs

    c_0(s, a) - b(s, a),     c_i(s, a) + b(s, a) for i >= 1,     b(s, a) = radius(s, a),  all clipped to [0, 1].

As long as no policy meets the limits with these costs, the safe policy is run.

Parameters
    safe_policy     (S, A), or an action for each state (S,); it is known to meet the limits. None: the uniform policy
    bonus, scale    which radius, and a factor to it
    delta           failure probability in the original radius

Deviations. The paper is episodic; here epochs are those of UCRL2, and averages take the place of totals. Its bonus also
pays for errors of transitions by the horizon times their sum, which would be infinite here; `scale` takes that place.
"""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from psconrl._core.checks import Floats, numbers
from psconrl.agents.bonuses import Bonus, bonus, check_bonus
from psconrl.agents.contract import Agent, Memory, Plan
from psconrl.agents.schedules import doubling
from psconrl.errors import InvalidArgumentError
from psconrl.planning.optimistic import solve_optimistic


@dataclass(frozen=True, eq=False)
class DOPE(Agent):
    """Optimism about the main cost, pessimism about limits, starting from a safe policy (Bura et al. 2022)."""

    own_kernels = True

    safe_policy: ArrayLike | None = None
    bonus: Bonus = "original"
    scale: float = 0.1
    delta: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        check_bonus(self.bonus, self.scale, self.delta)
        if self.safe_policy is not None and not self.problem.open:
            self.safe(self.problem.S)

    def safe(self, S: int) -> Floats:
        """The safe policy (S, A) for S states; uniform in those that it says nothing of.

        Raises:
            InvalidArgumentError: a policy of another shape, or whose rows are not distributions over available actions.
        """
        policy = self.problem.uniform
        if self.safe_policy is None:
            return policy
        given = numbers(self.safe_policy, "safe_policy")
        if given.ndim == 1:
            given = np.eye(self.problem.A)[given.astype(np.int64).clip(0, self.problem.A - 1)]
        sound = given.ndim == 2 and given.shape[1] == self.problem.A and len(given) <= S
        if sound:
            sound = bool((given >= 0).all() and not given[~self.problem.available[: len(given)]].any())
        if not (sound and np.allclose(given.sum(axis=1), 1)):
            raise InvalidArgumentError(
                f"safe_policy has shape {given.shape}; it must be ({S}, {self.problem.A}), each row a distribution "
                "over the available actions"
            )
        policy[: len(given)] = given / given.sum(axis=1, keepdims=True)
        return policy

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """The best policy by optimistic main costs and pessimistic limits; the safe one if there is none."""
        S, A = memory.visits.shape
        stop = doubling(memory)
        factor = math.log(2 * S * A * max(memory.t, 1) / self.delta)
        radius = np.minimum(bonus(self.bonus, self.scale, factor, memory.visits), 1.0)
        radius[memory.visits == 0] = 1.0
        costs = memory.mean_costs() if self.problem.costs is None else self.problem.costs.copy()
        costs[0] -= radius
        costs[1:] += radius
        found = solve_optimistic(
            memory.mean_transitions(),
            radius,
            costs.clip(0.0, 1.0),
            self.problem.thresholds,
            available=None if memory.pairs.every else memory.pairs.available,
        )
        if not found.feasible:
            return Plan(self.safe(S)[np.newaxis], **stop, phase="explore", feasible=False)
        return Plan(found.policy[np.newaxis], **stop, value=found.value, multipliers=found.multipliers)
