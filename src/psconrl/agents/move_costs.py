"""What the pairs of a sampled model cost, if the cost of a step depends on where it leads.

A fall costs because of the hole, not because of the step. An agent that takes the mean over a pair's steps for its
cost believes, after three steps that did not reach the goal, that this pair never does, whatever the sampled
transitions say. So costs go with the sample p_k:

    c_k(s, a) = sum_j p_k(j | s, a) c(s, a, j),

c(s, a, j) the mean cost of the steps from (s, a) to j. For moves that the action never made, there are two ways to
guess: what the pair cost on other moves, c(s, a), and what other actions of s paid for the same move, c(s, j). Which is
right is learned for each cost: both guess all moves that were seen, each left out in turn, and

    c(s, a, j) = (1 - w) c(s, a) + w c(s, j),    w = E_pair / (E_pair + E_others),

E the sums of squared errors. Costs of pairs alone have E_pair = 0, and costs of moves alone E_others = 0, so w is 0 or
1. Where no action of s led to j, w = 0. Pairs that were never tried cost nothing, as ever.
"""

from __future__ import annotations

import numpy as np

from psconrl._core.checks import Floats
from psconrl.agents import _move_cost_kernels as kernels
from psconrl.agents.contract import Memory
from psconrl.agents.sampled_model import SampledModel


def sampled_costs(model: SampledModel, memory: Memory) -> Floats:
    """Costs (m + 1, S, A) that belong to a sampled model; means over pairs if costs of moves were not kept."""
    sums, observed = memory.cost_sums, memory.observed
    if observed.spent.shape != (len(observed.chains[1]), len(sums)):
        return memory.mean_costs()
    costs = np.zeros(sums.shape)
    seen = kernels.Spent(*observed.chains, observed.spent, memory.visits, sums)
    kernels.charge(costs, model.rows, model.states, model.pairs, seen)
    return costs
