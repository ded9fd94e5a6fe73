"""Safe-PSRL: posterior sampling with a dual variable for each limit, and limits that are tightened.

K. C. Kalagarla, R. Jain, P. Nuzzo: Safe Posterior Sampling for Constrained MDPs with Bounded Constraint Violation.
arXiv 2301.11547.

At the start of episode k a model is drawn from the posterior, and the policy is run that minimises in it

    c_0 + sum_i lambda_i c_i,    then    lambda_i <- [lambda_i + step (J_i + eps_k - tau_i) / sqrt(k)]+

with J_i the policy's averages in the sample and eps_k = margin * sqrt(log t / t), at most half of tau_i.

Parameters
    prior      0.01 per next state, the same as PSConRL's, for comparison; or "learned", see `psconrl.agents.hierarchy`
    step       of the dual variables
    margin     by how much limits are tightened
    restarts   whether samples are planned in for a limited time; see `PosteriorAgent.within_time`

Deviations. The paper is episodic; this is its idea for average costs, with TSDE's episodes in place of the given ones.
Its schedules of step and tightening have constants that depend on unknown ones of the model; those above do not.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from psconrl._core.checks import FLOAT, Floats, real
from psconrl.agents.contract import Memory, Plan
from psconrl.agents.planning import exploit, plan_in
from psconrl.agents.posterior import PosteriorAgent
from psconrl.agents.schedules import tsde


@dataclass(frozen=True, eq=False)
class SafePSRL(PosteriorAgent):
    """Posterior sampling, primal and dual, with tightened limits (after Kalagarla et al. 2023)."""

    step: float = 1.0
    margin: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        real(self.step, "step", "a number > 0", lambda x: x > 0)
        real(self.margin, "margin", "a number >= 0", lambda x: x >= 0)

    @property
    def name(self) -> str:
        """The name in tables."""
        return "Safe-PSRL"

    def duals(self, memory: Memory) -> Floats:
        """The dual variables (m,), zero at the start."""
        found = memory.carry.get("duals")
        if isinstance(found, np.ndarray) and found.shape == (self.problem.m,) and found.dtype == FLOAT:
            return np.where(np.isfinite(found), np.maximum(found, 0.0), 0.0)
        return np.zeros(self.problem.m)

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """Sample a model, minimise its Lagrangian, and move the dual variables."""
        stop, duals, t = tsde(memory), self.duals(memory), max(memory.t, 2)
        p_k = self.within_time(self.sample(memory, rng), memory, stop, rng)
        costs = p_k.costs.copy()
        costs[0] += np.tensordot(duals, costs[1:], 1)
        never = np.full(self.problem.m, 2.0)  # limits that no average of costs in [0, 1] reaches
        best = plan_in(p_k, costs, never, memory, stop)
        eps = np.minimum(self.margin * math.sqrt(math.log(t) / t), self.problem.thresholds.clip(0.0) / 2)
        rate = self.step / math.sqrt(memory.episode + 1)
        moved = np.maximum(duals + rate * (best.average_costs[1:] + eps - self.problem.thresholds), 0.0)
        plan = exploit(best, stop, memory)
        return replace(plan, multipliers=duals, carry={**plan.carry, "duals": moved})
