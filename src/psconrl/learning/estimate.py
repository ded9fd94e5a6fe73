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
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from psconrl._core import checks, display
from psconrl._core.checks import Floats, Ints, real, whole
from psconrl.agents.belief import Belief, CostBelief
from psconrl.agents.counts import Counts
from psconrl.cmdp import CMDP
from psconrl.errors import CallOrderError, InvalidArgumentError, InvalidModelError, ModelFileError
from psconrl.io import files, reading, writing
from psconrl.io.exploration import distinct_texts
from psconrl.learning import state_io
from psconrl.planning.averages import long_run
from psconrl.planning.evaluation import evaluate
from psconrl.planning.solving import solve
from psconrl.problem import Problem

DRAWS = 200
LEVEL = 0.95
"""Share of the posterior inside an interval, by default."""
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


class Evaluated(NamedTuple):
    """What a policy would do: policy (S, A), posterior means (m + 1,) and credible intervals (m + 1, 2) of averages."""

    policy: Floats
    average_costs: Floats
    intervals: Floats


class Estimate(CMDP):
    """A learned model: a CMDP with credible intervals for the averages of policies.

    Attributes:
        visits: N(s, a), (S, A). limits: tau as the problem has it, (m,); `thresholds` are lower where they were
            tightened.
        confidence: the share of draws from the posterior in which the plan keeps the limits, at least, if one was asked
            for; else None.
        issues: of a log, the numbers of rows by what is wrong with them.
    """

    visits: Ints
    limits: Floats
    confidence: float | None
    issues: dict[str, Ints]
    evidence: Evidence

    def __init__(
        self,
        evidence: Evidence,
        thresholds: Floats | None = None,
        confidence: float | None = None,
        issues: Mapping[str, Ints] | None = None,
    ) -> None:
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
            state_names=None if names is None else distinct_texts(names),
            action_names=None if problem.action_names is None else distinct_texts(problem.action_names),
            cost_names=problem.cost_names,
        )
        N.setflags(write=False)
        self.__dict__.update(
            visits=N, limits=problem.thresholds, confidence=confidence, issues=dict(issues or {}), evidence=evidence
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return Estimate, (self.evidence, self.thresholds, self.confidence, self.issues)

    def __repr__(self) -> str:
        return super().__repr__().replace("CMDP", "Estimate", 1)

    @property
    def coverage(self) -> dict[str, NDArray[Any]]:
        """How often each action was tried in each state: columns state, action and visits, as `Solution.table`."""
        s, a = np.nonzero(self.evidence.belief.available)
        return {
            "state": np.array(self.state_names)[s],
            "action": np.array(self.action_names)[a],
            "visits": self.visits[s, a],
        }

    @cached_property
    def behaviour(self) -> Evaluated:
        """The policy (S, A) that was followed so far, with its long-run averages; see `evaluate`.

        It is estimated from the visits, too: for the intervals it is drawn from Dirichlet(visits).
        """
        often = np.where(self.visits.any(axis=1, keepdims=True), self.visits, self.evidence.belief.available)
        averages = np.empty((DRAWS, self.m + 1))
        for k in range(DRAWS):
            drawn = np.random.default_rng([1, k]).gamma(often)
            averages[k] = self._drawn(drawn / drawn.sum(axis=1, keepdims=True), 0, k)
        return _evaluated(often / often.sum(axis=1, keepdims=True), averages, LEVEL)

    def evaluate(self, policy: ArrayLike, *, level: float = LEVEL, draws: int = DRAWS, seed: int = 0) -> Evaluated:
        """The long-run averages of a policy, as far as the data tell: off-policy evaluation.

        Args:
            policy: (S, A), or one action (S,) for each state; it may take actions that were never tried.
            level: the share of the posterior inside the intervals.
            draws: how many models are drawn from it.
            seed: chooses them.

        Returns:
            The policy, with the posterior means of its long-run averages and their credible intervals.
        """
        level = real(level, "level", "a number between 0 and 1", lambda x: 0 < x < 1)
        return _evaluated(self._policy(policy), self.averages(policy, draws, seed), level)

    def tightened(self, confidence: float = 0.95, *, draws: int = DRAWS, seed: int = 0) -> Estimate:
        """The same model with limits lowered until its plan, `psconrl.solve` of it, keeps the true ones.

        Args:
            confidence: the share of models drawn from the posterior in which it must.
            draws: how many are drawn.
            seed: chooses them.

        Raises:
            InvalidArgumentError: no plan is that sure.
        """
        confidence = real(confidence, "confidence", "a number between 0 and 1", lambda x: 0 < x < 1)
        lowered, surest = _Lowered(), 0.0
        spread = np.zeros(self.m)
        for _ in range(_ROUNDS):
            # All are lowered together, each by the same number of standard deviations of its average.
            tighter = Estimate(self.evidence, self.limits - lowered.now * spread, confidence, self.issues)
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

    def plot(self) -> Any:
        """Draw the long-run averages of what was done and of the plan, with 95% intervals, with matplotlib.

        Returns:
            The axes, one per cost.
        """
        policies = {"so far": self.behaviour, "with the plan": self.evaluate(solve(self).policy)}
        return display.plot_intervals(policies, [None, *self.limits.tolist()], self.cost_names)

    def _repr_html_(self) -> str:
        columns = self.coverage
        rows = list(zip(*(column[: display.LISTED].tolist() for column in columns.values()), strict=True))
        total = len(columns["state"])
        note = f"{len(rows)} of {total:,} rows; .coverage has all" if total > len(rows) else ""
        return super()._repr_html_() + display.html_table("Tried", list(columns), rows, note)

    def to_try(self, policy: ArrayLike | None = None, most: int = 10) -> dict[str, NDArray[Any]]:
        """What to try next: the actions about which least is known where a policy spends its time.

        Args:
            policy: (S, A); the best one of this model if left out.
            most: how many rows.

        Returns:
            Columns state, action, visits, and share: of time in the state over the square root of one more than the
            visits, which is how they are sorted.
        """
        pi = solve(self).policy if policy is None else self._policy(policy)
        stationary = evaluate(self, np.where(self.available, pi, 0.0)).stationary
        s, a = np.nonzero(self.evidence.belief.available)
        worth = stationary[s] / np.sqrt(self.visits[s, a] + 1.0)
        first = np.argsort(-worth, kind="stable")[: whole(most, "most")]
        table = {name: column[first] for name, column in self.coverage.items()}
        return table | {"share": worth[first]}

    def save(self, path: str | Path) -> None:
        """Write the model; to .npz with all that it was learned from, so that `Estimate.load` brings back everything.

        Args:
            path: .npz, or what `CMDP.save` writes.
        """
        path = checks.path(path)
        if path.suffix.lower() != ".npz":
            super().save(path)
            return
        writing.write_npz(path, self.to_arrays() | self._arrays())

    @classmethod
    def load(cls, path: str | Path, *, thresholds: Mapping[str, float] | None = None) -> Estimate:
        """Read an estimate that `save` wrote to a .npz file.

        Args:
            path: of the file.
            thresholds: limits by name that replace those in the file.

        Raises:
            ModelFileError: a file that is no estimate.
        """
        path = checks.path(path)
        arrays = reading.read_npz(path, ModelFileError, (*files.NUMBERS, *files.TEXTS, *files.LEARNED))
        with reading.reraise_as(ModelFileError, path):
            found = _from_arrays(arrays)
        return found if thresholds is None else found.with_limits(thresholds)

    def with_limits(self, thresholds: Mapping[str, float]) -> Estimate:
        """The same evidence under other limits, by cost name."""
        limits = dict(zip(self.cost_names[1:], self.limits.tolist(), strict=True))
        tau = list((limits | checks.limits(thresholds, limits)).values())
        return Estimate(self.evidence._replace(problem=_with_limits(self.evidence.problem, tau)), issues=self.issues)

    def _arrays(self) -> dict[str, NDArray[Any]]:
        problem, belief, costs, state, _ = self.evidence
        row, target, number, spent = belief.counts.entries()
        arrays: dict[str, NDArray[Any]] = {
            "learned_moves": np.array([row, target, number]),
            "learned_spent": spent,
            "learned_costs": costs.sums,
            "learned_available": belief.available,
            "learned_limits": self.limits,
            "learned_state": np.array([state, belief.K]),
            "learned_ranges": np.zeros((0, 2)) if problem.cost_ranges is None else problem.cost_ranges,
            "learned_known": np.zeros(0) if problem.costs is None else problem.costs,
            "learned_confidence": np.array([np.nan if self.confidence is None else self.confidence]),
            "learned_issues": np.array(list(self.issues), dtype=np.str_),
            "learned_rows": np.concatenate([[len(rows), *rows] for rows in self.issues.values()] or [[]]).astype(int),
        }
        return arrays

    def intervals(self, policy: ArrayLike, level: float = 0.95, draws: int = DRAWS, seed: int = 0) -> Floats:
        """Credible intervals (m + 1, 2) of a policy's long-run averages, from where it is now; see `evaluate`."""
        return self.evaluate(policy, level=level, draws=draws, seed=seed).intervals

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

    def _ranges(self) -> Floats:
        """How far apart limited costs can be, (m,)."""
        units = self.evidence.problem.units
        return np.ones(self.m) if units is None else units.width[1:]


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


def _evaluated(policy: Floats, averages: Floats, level: float) -> Evaluated:
    intervals = np.quantile(averages, [(1 - level) / 2, (1 + level) / 2], axis=0).T
    return Evaluated(policy, averages.mean(axis=0), intervals)


def _with_limits(problem: Problem, thresholds: ArrayLike) -> Problem:
    names = problem.state_names
    return Problem(
        None if problem.open else problem.S if names is None else names,
        problem.A if problem.action_names is None else problem.action_names,
        thresholds,
        problem.costs,
        cost_ranges=problem.cost_ranges,
        cost_names=problem.cost_names,
        available=problem.available_function if problem.open else None if problem.pairs.every else problem.available,
    )


def _from_arrays(arrays: Mapping[str, NDArray[Any]]) -> Estimate:
    """The inverse of `Estimate.save`; names are texts."""
    S, A = (len(arrays[name]) for name in ("state_names", "action_names"))
    row, target, number = (np.asarray(part, dtype=np.int64) for part in arrays["learned_moves"])
    available = checks.available(arrays["learned_available"], S, A)
    available = np.ones((S, A), dtype=np.bool_) if available is None else available
    sound = len(row) and row.min() >= 0 and row.max() < S * A and target.min() >= 0 and target.max() < S
    sums = checks.numbers(arrays["learned_costs"], "learned_costs")
    if not sound or number.min() < 1 or sums.shape[1:] != (S, A) or not available.ravel()[row].all():
        raise InvalidModelError("the counts do not fit the model; write the file again with Estimate.save")
    names = {key: [str(name) for name in arrays[f"{key}_names"]] for key in ("state", "action", "cost")}
    ranges, known = arrays["learned_ranges"], arrays["learned_known"]
    problem = Problem(
        names["state"],
        names["action"],
        arrays["learned_limits"],
        known if known.size else None,
        cost_ranges=ranges if ranges.size else None,
        cost_names=names["cost"],
        available=available,
    )
    state, K = (int(number) for number in arrays["learned_state"])
    checks.whole(state, "learned_state", 0, S - 1)
    spent = checks.numbers(arrays["learned_spent"], "learned_spent").reshape(len(row), -1)
    counts = Counts.from_entries(row, target, number, spent, S, A)
    belief = Belief(counts, available, state, False)
    if belief.K < K:
        belief = Belief(belief.counts, available, state, True)
    visits = belief.N.reshape(S, A)
    inside = problem.normalized(S).costs
    evidence = Evidence(problem, belief, CostBelief(sums, visits, inside), state, problem.state_names)
    confidence = float(arrays["learned_confidence"][0])
    issues, rows = {}, arrays["learned_rows"].astype(np.int64)
    for reason in arrays["learned_issues"].tolist():
        issues[reason], rows = rows[1 : 1 + rows[0]], rows[1 + rows[0] :]
    return Estimate(evidence, arrays["thresholds"], None if np.isnan(confidence) else confidence, issues)


def estimate(problem: Problem, state: Mapping[str, Any], confidence: float | None, draws: int, seed: int) -> Estimate:
    """The estimate of a learner's state; with a confidence its limits are tightened."""
    found = Estimate(Evidence.of(problem, state))
    return found if confidence is None else found.tightened(confidence, draws=draws, seed=seed)
