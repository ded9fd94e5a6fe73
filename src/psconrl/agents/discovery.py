"""What may still be discovered, learned: how often trying leads to a state never seen, and what that is worth.

A sampled model with a learned prior has one state that stands for all states never seen.

How likely it is to be found is learned. Of all pairs that were tried N times, some share of the next tries led
somewhere new. This hazard is kept for N = 0, 1, 2-3, 4-7, ... Up to the last level with a find, it has Jeffreys' prior
Beta(1/2, 1/2). Above, what was tried longer is not likelier to lead somewhere new, so that the misses of lower levels
count as well; and either there is nothing more to be found in a level, or the same prior holds, both equally likely
before anything is known. That m tries were in vain has the likelihood 1 in the first case, and about 1 / sqrt(pi m) in
the second. At each plan the hazards are drawn, what exists in a level also in those below. The likelihood of the moves
alone would not do: where nearly all moves are certain, it believes that a pair that once led back always does.

What it is worth is inferred, too. A state never seen costs the least there is, as long as one can be there. A pair that
finds it after N tries leads there once in N + 1 tries; and one stays as surely as seen states are left for one of their
neighbours, with the probability p(s) of the likeliest move of a seen state s. In L steps that makes up a share of

    hazard / (N + 1) * mean over s of 1 / (L - (L - 1) p(s)),

with which a pair leads to the state never seen, not left in the L steps of the plan (see `SampledModel.with_restarts`).
Where moves are random, nothing found by chance can be held, and it is not sought. L grows with the plans, so whatever
may be found is looked for again while its hazard falls more slowly; where nothing is found, it falls with every try.

So an agent goes on up a river of which every place so far was worthless, as long as trying leads to new places; it
does not give up at a door that often stays shut; and states that never occur lure it less and less.
"""

from __future__ import annotations

import math

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


def with_discoveries(model: SampledModel, memory: Memory, steps: float, rng: np.random.Generator) -> SampledModel:
    """A model with the hazards of discoveries drawn from what was discovered so far.

    Args:
        model: of `hierarchy.sample`; what it saw at this plan and the last is in its carry and the memory's.
        memory: what the agent knows.
        steps: L, for how many steps it is planned in.
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
    stayed = kernels.share_stayed(model.rows, steps)
    hazard = _drawn(tries[:levels], finds[:levels], rng)
    changed = kernels.with_discoveries(model.rows, model.pairs, memory.visits.ravel(), hazard, stayed)
    return model._replace(rows=Rows(model.rows.begin, *changed), carry=carry)


def _drawn(tries: Floats, finds: Floats, rng: np.random.Generator) -> Floats:
    """The hazard of each level from its posterior, zero where there is nothing to be found."""
    misses, last = np.maximum(tries - finds, 0.0), int(np.max(np.flatnonzero(finds), initial=-1))
    misses[last + 1 :] = np.cumsum(misses[last + 1 :])
    in_vain = np.array([math.exp(math.lgamma(m + 0.5) - math.lgamma(m + 1.0)) for m in misses.tolist()])
    likelihood = in_vain / math.sqrt(math.pi)
    exists = (np.arange(len(finds)) <= last) | (rng.random() < likelihood / (1.0 + likelihood))
    return np.where(exists, rng.beta(0.5 + finds, 0.5 + misses), 0.0)


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
