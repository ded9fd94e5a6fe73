"""UC-CURL: optimism over a confidence set of transitions, with limits that are tightened.

M. Agarwal, Q. Bai, V. Aggarwal: Concave Utility Reinforcement Learning with Zero-Constraint Violations. TMLR 2022,
arXiv 2109.05439.

In epochs of UCRL2 (a new one when v_k(s, a) >= max(1, N_k(s, a)) for the pair just played) the best policy over all
models of a confidence set is computed for the limits

    tau_i - eps_k,    eps_k = min(margin * sqrt(log t / t), half of the margin of the set)

so that what optimism exceeds them by is made up for.

Parameters
    margin          K of its paper, there a bound of unknown constants; 1 by default
    bonus, scale, b which radius, and a factor to it, as in UCRL-CMDP; its alpha is not used
    execution       "stationary", or "steered" by the excess of the limits so far (`psconrl.planning.steered`)

Deviations. Utilities are linear: the main cost is its average. The confidence set bounds each transition probability,
as that of UCRL-CMDP does, where the paper bounds the L1 distance of rows. Half of the margin bounds eps_k, so that the
program stays feasible. An infeasible program gives the uniform policy.
"""

from dataclasses import dataclass, field

from psconrl.agents.contract import Memory
from psconrl.agents.schedules import Stop, doubling
from psconrl.agents.ucrl_cmdp import UCRLCMDP


@dataclass(frozen=True, eq=False)
class UCCURL(UCRLCMDP):
    """Optimism over transitions with tightened limits, in doubling epochs (Agarwal et al. 2022)."""

    margin: float = field(default=1.0, kw_only=True)

    @property
    def name(self) -> str:
        """The name in tables."""
        return "UC-CURL"

    def schedule(self, memory: Memory) -> Stop:
        """When the next plan ends."""
        return doubling(memory)
