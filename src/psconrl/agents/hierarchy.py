"""A prior that is learned: how random the moves are, and what the actions of a state have in common.

The law of the next state of a pair (s, a) is Dirichlet with the parameters

    theta [(1 - eps) b(j | s, a) + eps / K]

over the K states thought possible: those seen so far, and one that stands for all others as long as there may be some.
b is the support of the other actions of s, one share for each action that was seen to lead to j; where no other was
tried, it is uniform. theta and eps have log-uniform priors on grids, and the same values everywhere.

How likely they make the data is kept as a sum over steps, by the chain rule: a step from (s, a) to j, after N steps
from there of which n went to j, has the probability

    (theta [(1 - eps) b(j | s, a) + eps / K] + n) / (theta + N),

b and K those of the plan under which the step was taken. So each plan has to look only at what was counted since the
one before. At a plan, theta and eps are drawn from their posterior and then the model from its own, Dirichlet of these
parameters plus the counts.

The one that stands for all others must not be a paradise: every action there costs the least there is, and leads to a
seen state, each as likely as the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.lazy import late
from psconrl.agents.contract import Memory
from psconrl.agents.part import Part
from psconrl.problem import Problem

if TYPE_CHECKING:
    from psconrl.agents import _hierarchy_kernels as kernels
    from psconrl.agents import _random_kernels as random_kernels
else:
    kernels = late("psconrl.agents._hierarchy_kernels")
    random_kernels = late("psconrl.agents._random_kernels")

LEARNED = "learned"
"""What a prior is called that is learned."""

THETA: Floats = 10.0 ** np.arange(-4.0, 3.1, 0.5)
"""The concentration: how much a row that was never seen is worth, in steps."""

EPS: Floats = np.array([1.0, 0.3, 0.1, 0.03, 0.01])
"""The share of what the support of the other actions does not tell; 1: nothing is shared."""


def sample(problem: Problem, memory: Memory, rng: np.random.Generator, cut: float) -> Part:
    """Hyperparameters and a model from the posterior; what the next plan needs of them is in its carry.

    Entries below `cut` are left out.
    """
    observed = memory.observed
    used, chains = observed.used.item(0), kernels.Chains(*observed.chains)
    evidence, counted, seen = _kept(memory, chains, used)
    drawn = kernels.sample(
        evidence,
        THETA,
        EPS,
        chains,
        used,
        counted,
        seen,
        memory.state,
        np.array(problem.available),
        problem.open,
        random_kernels.seeded(rng),
        cut,
    )
    carry = {"evidence": evidence, "counted": chains.number[:used].copy(), "seen": seen}
    return Part(drawn.rows, drawn.states, drawn.pairs, problem, carry)


def _kept(memory: Memory, chains: kernels.Chains, used: int) -> tuple[Floats, Ints, Bools]:
    """Copies of the evidence and the states seen, and the numbers they are of, if they are from this run's past."""
    S, carry = memory.observed.S, memory.carry
    seen = np.zeros(S, dtype=np.bool_)
    try:
        evidence, counted, before = carry["evidence"], carry["counted"], carry["seen"]
        if (
            evidence.shape == (len(THETA), len(EPS))
            and counted.ndim == before.ndim == 1
            and len(before) <= S
            and evidence.dtype == np.float64
            and counted.dtype == np.int64
            and before.dtype == np.bool_
            and kernels.sound(evidence, counted, chains, used)
        ):
            seen[: len(before)] = before
            return evidence.copy(), counted, seen
    except (KeyError, AttributeError, TypeError):
        pass
    return np.zeros((len(THETA), len(EPS))), np.zeros(0, dtype=np.int64), seen
