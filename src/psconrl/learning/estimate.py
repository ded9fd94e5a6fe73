"""What a learner has learned, as a model: to be solved, and held against what is not known.

The transitions are the posterior mean of the pairs that were tried (`psconrl.agents.belief`), the costs their empirical
means, or the known ones. A pair that was never tried is not available. A state in which nothing was ever tried has all
its actions; nobody knows more about them, so each costs the most there is and leads to where the learner is now.

How sure all this is, draws from the posterior say: of the transitions, and, where costs are estimated, of their means,

    Beta(sum + theta q, N - sum + theta (1 - q)),

as if each cost were 0 or 1: right for such costs, and wider than need be for others. q is the mean over pairs, and
theta, how much it is worth, is drawn from its own posterior: small where all pairs cost always or never.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from psconrl._core import checks
from psconrl._core.checks import Floats, Ints, real, whole
from psconrl.agents.belief import Belief, CostBelief
from psconrl.cmdp import CMDP
from psconrl.errors import CallOrderError, InvalidArgumentError
from psconrl.learning import state_io
from psconrl.planning.averages import long_run
from psconrl.planning.solving import solve
from psconrl.problem import Problem

DRAWS = 200
MOST_DRAWS = 10**6
_ROUNDS = 20
"""How often limits are tightened anew before it is said that this does not help."""
_SHARP = 1e-6
"""Averages whose standard deviation is below this share of the range of their cost count as if it were this."""


class Evidence(NamedTuple):
    """All that a learner saw: its problem, what counts say and costs in [0, 1], where it is now, the states' names."""

    problem: Problem
    belief: Belief
    costs: CostBelief
    state: int
    names: tuple[Hashable, ...] | None

    @staticmethod
    def of(problem: Problem, learner: Mapping[str, Any]) -> Evidence:
        """The evidence in the state of a learner; CallOrderError if there is none."""
        observed = state_io.observations(learner, problem)
        if not observed.visits.any():
            raise CallOrderError("nothing was observed yet, so there is nothing to estimate; learn some steps first")
        inside = problem.normalized(len(observed.visits), observed.available if problem.open else None)
        return Evidence(
            problem,
            Belief(observed.counts, np.array(inside.available), observed.state, problem.open),
            CostBelief(observed.cost_sums, observed.visits.astype(np.float64), inside.costs),
            observed.state,
            tuple(observed.discovered) if problem.open else problem.state_names,
        )

    def in_units(self, averages: Floats) -> Floats:
        """Averages (m + 1, ...) of costs in [0, 1] in the units of the problem."""
        units = self.problem.units
        return averages if units is None else units.sums(averages, 1)


class Estimate(CMDP):
    """A model that was learned: a CMDP, with credible intervals of what policies do in it.

    Attributes:
        visits: N(s, a), (S, A). limits: tau as the problem has it, (m,); `thresholds` are lower where they were
            tightened.
        confidence: in which share of draws from the posterior the plan keeps the limits at least, if that was asked
            for; else None.
    """

    visits: Ints
    limits: Floats
    confidence: float | None
    evidence: Evidence

    def __init__(self, evidence: Evidence, thresholds: Floats | None = None, confidence: float | None = None) -> None:
        problem, belief, costs, state, names = evidence
        S, A = belief.available.shape
        N = belief.N.reshape(S, A).astype(np.int64)
        unknown = belief.available & ~belief.left[:, np.newaxis]
        pairs = np.flatnonzero(unknown)
        back = sparse.csr_array((np.ones(len(pairs)), (pairs, np.full(len(pairs), state))), shape=(S * A, S))
        super().__init__(
            sparse.csr_array(belief.mean() + back),
            evidence.in_units(np.where(unknown, 1.0, costs.mean())),
            problem.thresholds if thresholds is None else thresholds,
            initial=state,
            available=belief.tried | unknown,
            state_names=_texts(names),
            action_names=_texts(problem.action_names),
            cost_names=problem.cost_names,
        )
        N.setflags(write=False)
        self.__dict__.update(visits=N, limits=problem.thresholds, confidence=confidence, evidence=evidence)

    def __reduce__(self) -> tuple[Any, ...]:
        return Estimate, (self.evidence, self.thresholds, self.confidence)

    def __repr__(self) -> str:
        return super().__repr__().replace("CMDP", "Estimate", 1)

    def intervals(self, policy: ArrayLike, level: float = 0.95, draws: int = DRAWS, seed: int = 0) -> Floats:
        """Credible intervals (m + 1, 2) of a policy's long-run averages, from where the learner is now.

        policy: (S, A), or one action (S,) for each state; it may take actions that were never tried. level: the share
        of the posterior inside. draws: how many models are drawn from it. seed: chooses them.
        """
        level = real(level, "level", "a number between 0 and 1", lambda x: 0 < x < 1)
        return np.quantile(self.averages(policy, draws, seed), [(1 - level) / 2, (1 + level) / 2], axis=0).T

    def averages(self, policy: ArrayLike, draws: int = DRAWS, seed: int = 0) -> Floats:
        """The long-run averages (draws, m + 1) of a policy in models drawn from the posterior; see `intervals`."""
        pi = self._policy(policy)
        seed = whole(seed, "seed", 0, most=None)
        return np.array([self._drawn(pi, seed, k) for k in range(whole(draws, "draws", most=MOST_DRAWS))])

    def _drawn(self, policy: Floats, seed: int, k: int) -> Floats:
        """The averages of a policy in the k-th model, the same for all policies."""
        rng = np.random.default_rng([seed, k])
        rows, states, pairs = self.evidence.belief.draw(rng)
        seen = pairs >= 0
        costs = np.where(seen, self.evidence.costs.draw(rng).reshape(self.m + 1, -1)[:, pairs], 1.0)
        start = int(np.flatnonzero(states == self.evidence.state)[0])
        return self.evidence.in_units(long_run(rows, costs, np.where(seen, policy.ravel()[pairs], 1.0), start))

    def _policy(self, policy: ArrayLike) -> Floats:
        """The policy (S, A), if the problem has its actions."""
        pi = checks.numbers(policy, "policy")
        if pi.shape == (self.S,) and (pi == np.floor(pi)).all() and ((pi >= 0) & (pi < self.A)).all():
            pi = np.eye(self.A)[pi.astype(np.int64)]
        pi = checks.policy(pi, self.S, self.A)
        wrong = np.argwhere((pi > 0) & ~self.evidence.belief.available)
        if len(wrong):
            s, a = wrong[0]
            told = checks.unavailable(self.state_names[s], self.action_names[a])
            raise InvalidArgumentError(f"the policy is wrong: {told}; give it probability 0 there")
        return pi

    def _tightened(self, confidence: float, draws: int, seed: int) -> Estimate:
        """The same model with limits so much lower that its plan keeps the true ones in that share of the draws.

        All are lowered together, each by the same number of standard deviations that its average has in the posterior.
        """
        lowered, surest = _Lowered(), 0.0
        spread = np.zeros(self.m)
        for _ in range(_ROUNDS):
            tighter = Estimate(self.evidence, self.limits - lowered.now * spread, confidence)
            plan = solve(tighter)
            if not plan.feasible:
                if not lowered.too_far():
                    break
                continue
            excess = self.averages(plan.policy, draws, seed)[:, 1:] - self.limits
            kept = float((excess <= 0).all(axis=1).mean())
            if kept >= confidence:
                return tighter
            surest = max(surest, kept)
            spread = spread if spread.any() else np.maximum(excess.std(axis=0), _SHARP * self._ranges())
            missing = np.quantile((excess / spread).max(axis=1), confidence, method="higher")
            lowered.further(max(float(missing), 0.01))
        raise InvalidArgumentError(
            f"confidence is {confidence:g}, but the surest plan found keeps the limits in {surest:.0%} of the draws "
            "only; learn longer, ask for less, or raise the limits"
        )

    def _ranges(self) -> Floats:
        """How far apart limited costs can be, (m,)."""
        units = self.evidence.problem.units
        return np.ones(self.m) if units is None else units.width[1:]


def _texts(names: tuple[Hashable, ...] | None) -> list[str] | None:
    """Names as models have them: texts, told apart as their values are."""
    if names is None:
        return None
    texts = [str(name) for name in names]
    return texts if len(set(texts)) == len(texts) else [repr(name) for name in names]


class _Lowered:
    """How far limits are lowered: ever further, but less than where they could not be met."""

    def __init__(self) -> None:
        self.now, self.met, self.missed = 0.0, 0.0, np.inf

    def further(self, step: float) -> None:
        """The limits could be met, but not surely enough."""
        self.met = self.now
        self.now = min(self.now + step, (self.met + self.missed) / 2)

    def too_far(self) -> bool:
        """The limits could not be met; whether there is something left to try."""
        self.missed = self.now
        self.now = (self.met + self.missed) / 2
        return self.missed > 0


def estimate(problem: Problem, state: Mapping[str, Any], confidence: float | None, draws: int, seed: int) -> Estimate:
    """The estimate of a learner's state; with a confidence its limits are tightened."""
    found = Estimate(Evidence.of(problem, state))
    if confidence is None:
        return found
    confidence = real(confidence, "confidence", "a number between 0 and 1, or None", lambda x: 0 < x < 1)
    return found._tightened(confidence, whole(draws, "draws", most=MOST_DRAWS), whole(seed, "seed", 0, most=None))
