"""TSDE: Thompson sampling with dynamic episodes, without constraints.

Y. Ouyang, M. Gagrani, A. Nayyar, R. Jain: Learning Unknown Markov Decision Processes: A Thompson Sampling Approach.
NeurIPS 2017.

At the start of an episode a model is drawn from the posterior and the policy that minimises the average main cost
in it is run until t > t_k + T_{k-1}, or N_t(s, a) > 2 N_{t_k}(s, a) for some pair; T_0 = 1.

Parameters
    prior    0.01 per next state, the same as PSConRL's, for comparison (the released script uses 0.1); or "learned",
             see `psconrl.agents.hierarchy`
    restarts whether samples are planned in for a limited time; see `PosteriorAgent.within_time`

Deviations. None; constraints are ignored, which makes it the reference line for what they cost.
"""

from dataclasses import dataclass

import numpy as np

from psconrl.agents.contract import Memory, Plan
from psconrl.agents.planning import exploit, plan_in
from psconrl.agents.posterior import PosteriorAgent
from psconrl.agents.schedules import tsde


@dataclass(frozen=True, eq=False)
class TSDE(PosteriorAgent):
    """Thompson sampling with dynamic episodes, blind to constraints (Ouyang et al. 2017)."""

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """Sample a model from the posterior and minimise its main cost."""
        stop = tsde(memory)
        p_k = self.within_time(self.sample(memory, rng), memory, stop, rng)
        return exploit(plan_in(p_k, p_k.costs[:1], np.zeros(0), memory, stop), stop, memory)
