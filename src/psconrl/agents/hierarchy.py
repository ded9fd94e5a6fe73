"""A prior that is learned: how random the moves are, and what the actions of a state have in common.

The law of the next state of a pair (s, a) is Dirichlet with the parameters

    theta [(1 - eps) b(j | s, a) + eps / K]

over the K states thought possible: those seen so far, and one that stands for all others as long as there may be some.
b is the support of the other actions of s, one share for each action that was seen to lead to j; where no other was
tried, it is uniform.

Either all pairs are alike: theta and eps, log-uniform on grids, have the same values everywhere. Or each is of its own
kind: it has its own theta, from the same grid, and shares nothing, eps = 1. Before anything is seen one is as likely as
the other. Otherwise an action that was tried a thousand times would tell that all are as certain as it is, and one that
failed once would not be tried again.

How likely all this makes the data is kept as a sum over steps, by the chain rule: a step from (s, a) to j, after N
steps from there of which n went to j, has the probability

    (theta [(1 - eps) b(j | s, a) + eps / K] + n) / (theta + N),

b and K those of the plan under which the step was taken. So each plan has to look only at what was counted since the
one before. Where each pair is of its own kind, the likelihood of a pair is the mean over theta of such products, and
that of all is their product. At a plan it is drawn from the posterior whether all pairs are alike, then theta and eps,
and then the model from its own, Dirichlet of these parameters plus the counts.

The one that stands for all others must not be a paradise: every action there costs the least there is, and leads to a
seen state, each as likely as the other. Pairs that were never tried are thought to cost the least, too, where costs are
not known, and a draw may let one lead back to itself: then an agent goes a long way to this pair, and passes by others
as unknown. That finds what is far away, but in most worlds the nearest should be tried first. So a coin decides at each
plan whether these rows are drawn from the posterior, or lead to a few states, all alike: the prior's mean in small.
Then all unknown pairs promise about the same, and the nearest is best.
"""

from __future__ import annotations

import numpy as np

from psconrl._core.checks import BOOL, FLOAT, INT, Bools, Floats, Ints
from psconrl.agents import _hierarchy_kernels as kernels
from psconrl.agents import _random_kernels as random_kernels
from psconrl.agents.contract import Memory
from psconrl.agents.sampled_model import SampledModel
from psconrl.planning.compiled.rows import Rows
from psconrl.problem import Problem

LEARNED = "learned"
"""What a prior is called that is learned."""

THETA: Floats = 10.0 ** np.arange(-4.0, 3.1, 0.5)
"""The concentration: how much a row that was never seen is worth, in steps."""

EPS: Floats = np.array([1.0, 0.3, 0.1, 0.03, 0.01])
"""The share of what the support of the other actions does not tell; 1: nothing is shared."""


def sample(problem: Problem, memory: Memory, rng: np.random.Generator, cut: float) -> SampledModel:
    """Hyperparameters and a model from the posterior; what the next plan needs of them is in its carry.

    Entries below `cut` are left out.
    """
    observed = memory.observed
    used, chains = observed.used.item(0), kernels.Chains(*observed.chains)
    evidence, apart, counted, seen = last_plan(memory)
    rows, states, pairs, (tried, weights, known) = kernels.sample(
        evidence,
        apart,
        THETA,
        EPS,
        chains,
        used,
        counted,
        seen,
        memory.state,
        np.array(problem.available),
        problem.open,
        problem.costs is None,
        random_kernels.seeded(rng),
        cut,
    )
    carry = {
        "evidence": evidence,
        "tried": tried,
        "weights": weights,
        "apart": np.array([known]),
        "counted": chains.number[:used].copy(),
        "seen": seen,
    }
    return SampledModel(Rows(*rows), states, pairs, problem, carry)


def last_plan(memory: Memory) -> tuple[Floats, kernels.Apart, Ints, Bools]:
    """What the last plan left: copies of the evidence and of the states seen, and the numbers that they are of.

    Nothing where that has other shapes; kernels look at the values.
    """
    S, carry = memory.observed.S, memory.carry
    seen = np.zeros(S, dtype=np.bool_)
    try:
        evidence, counted, before = carry["evidence"], carry["counted"], carry["seen"]
        tried, weights, of_all = carry["tried"], carry["weights"], carry["apart"]
        if (
            evidence.shape == (len(THETA), len(EPS))
            and weights.shape == (len(tried), len(THETA))
            and of_all.shape == (1,)
            and counted.ndim == before.ndim == tried.ndim == 1
            and len(before) <= S
            and evidence.dtype == weights.dtype == of_all.dtype == FLOAT
            and counted.dtype == tried.dtype == INT
            and before.dtype == BOOL
            and all(array.flags.carray for array in (evidence, weights, counted, tried))
        ):
            seen[: len(before)] = before
            return evidence.copy(), kernels.Apart(tried, weights, of_all.item(0)), counted, seen
    except (KeyError, AttributeError, TypeError):
        pass
    nothing = np.zeros(0, dtype=np.int64)
    apart = kernels.Apart(nothing, np.zeros((0, len(THETA))), 0.0)
    return np.zeros((len(THETA), len(EPS))), apart, nothing, seen
