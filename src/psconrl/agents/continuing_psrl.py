"""Continuing PSRL: posterior sampling in which every step may be the last of its plan.

W. Xu, S. Dong, B. Van Roy: Posterior Sampling for Continuing Environments. arXiv 2211.15931.

After every step the model is drawn anew with probability 1 - gamma, and the policy is run that is best in it for costs
discounted by gamma from the current state.

Parameters
    window     1 / (1 - gamma), the mean length of a plan; None: sqrt(T), as gamma may depend on the horizon
    prior      0.01 per next state, the same as PSConRL's, for comparison; or "learned", see `psconrl.agents.hierarchy`
    restarts   whether a learned prior also learns what may be discovered (`psconrl.agents.discovery`); plans are
               discounted in any case
    execution  "stationary", or "steered" by the excess of the limits so far (`psconrl.planning.steered`)
    margin     0: limits are lower by margin * sqrt(log t / t) in plans, or half of the model's margin

Deviations. The paper has no limits: here they hold for the discounted averages, as in PSConRL, and an infeasible sample
gives the uniform policy.
"""

import math
from dataclasses import dataclass

import numpy as np

from psconrl._core.checks import real
from psconrl.agents.contract import Memory, Plan
from psconrl.agents.planning import LimitedAgent, carried, exploit
from psconrl.agents.posterior import PosteriorAgent
from psconrl.agents.schedules import fixed


@dataclass(frozen=True, eq=False)
class ContinuingPSRL(LimitedAgent, PosteriorAgent):
    """Posterior sampling with random lengths and discounted plans (Xu et al. 2022), with limits."""

    window: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.window is not None:
            real(self.window, "window", "a number > 1", lambda x: x > 1)

    @property
    def name(self) -> str:
        """The name in tables."""
        return "Continuing-PSRL"

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """Sample a model, plan in it from here by discounted costs, and draw how long the plan lasts."""
        window = max(math.sqrt(memory.horizon), 2.0) if self.window is None else self.window
        stop = fixed(int(rng.geometric(1.0 / window)))
        p_k = self.for_steps(self.sample(memory, rng), memory, window, rng)
        costs = p_k.costs
        best = self.best(p_k, costs, self.limits(p_k, costs, memory), memory, stop)
        if best.feasible:
            return exploit(best, stop, memory)
        return self.uniform_plan(**stop, feasible=False, carry=carried(best, memory))
