"""What may still be discovered, learned: how often trying leads to a state never seen, and what that is worth.

A sampled model with a learned prior has one state that stands for all states never seen.

How likely it is to be found is learned. Of all pairs that were tried N times, some share of the next tries led
somewhere new. This hazard is known for N = 0, 1, 2-3, 4-7, ...: Beta with the tries that were successful, the others,
and one try more that was as successful as those of the level before (one half at N = 0). At each plan the hazards are
drawn, and every pair of a level leads to the state never seen with its hazard. The likelihood of the moves alone would
not do: where nearly all moves are certain, it believes that a pair that once led back always does.

What it is worth is the time that the plan is made for (see `SampledModel.with_restarts`): it costs the least there is,
and is not left. That time grows with the plans, so whatever may be found is looked for again as long as its hazard
falls more slowly; where nothing is found, it falls with every try.

So an agent goes on up a river of which every place so far was worthless, as long as trying leads to new places, and
states that never occur lure it less and less.
"""

from __future__ import annotations

import numpy as np

from psconrl._core.checks import FLOAT, Floats
from psconrl.agents import _discovery_kernels as kernels
from psconrl.agents import hierarchy
from psconrl.agents._hierarchy_kernels import Chains
from psconrl.agents.contract import Memory
from psconrl.agents.sampled_model import SampledModel
from psconrl.planning.compiled.rows import Rows

LEVELS = 64
"""Of visits: one for each doubling of a 64-bit count."""


def with_discoveries(model: SampledModel, memory: Memory, rng: np.random.Generator) -> SampledModel:
    """A model with the hazards of discoveries drawn from what was discovered so far.

    Args:
        model: of `hierarchy.sample`; what it saw at this plan and the last is in its carry and the memory's.
        memory: what the agent knows.
        rng: the random numbers of this plan.

    Returns:
        The model with its rows changed, and with the record of discoveries in its carry.
    """
    tries, finds = _recorded(memory)
    _, _, counted, before = hierarchy.last_plan(memory)
    kernels.record(tries, finds, Chains(*memory.observed.chains), counted, before, model.carry["seen"])
    carry = {**model.carry, "tries": tries, "finds": finds}
    if model.states[0] >= 0:
        return model._replace(carry=carry)
    levels = int(memory.visits.max()).bit_length() + 1
    shares, mean = np.empty(levels), 0.5
    for i in range(levels):
        shares[i], mean = mean, (mean + finds[i]) / (1.0 + tries[i])
    misses = np.maximum(tries[:levels] - finds[:levels], 0.0)
    hazard = rng.beta(shares + finds[:levels], 1.0 - shares + misses)
    changed = kernels.with_discoveries(model.rows, model.pairs, memory.visits.ravel(), hazard)
    return model._replace(rows=Rows(model.rows.begin, *changed), carry=carry)


def _recorded(memory: Memory) -> tuple[Floats, Floats]:
    """Copies of the tries and the finds of each level so far."""
    try:
        tries, finds = memory.carry["tries"], memory.carry["finds"]
        fits = tries.shape == finds.shape == (LEVELS,) and tries.dtype == finds.dtype == FLOAT
        if fits and (finds >= 0.0).all() and (tries >= 0.0).all() and np.isfinite(tries + finds).all():
            return tries.copy(), finds.copy()
    except (KeyError, AttributeError, TypeError):
        pass
    return np.zeros(LEVELS), np.zeros(LEVELS)
