"""A model that an agent drew from its posterior: of all states of a problem, or of those it has seen.

A posterior with a learned prior, or over states that are discovered, samples a model of the states seen so far and one
more that stands for all others. What the next plan starts from is stored by states of the problem, as the states of the
model change from plan to plan: state s at s + 1, the one that stands for all others at 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from psconrl._core.checks import FLOAT, INT, Floats, Ints
from psconrl.agents import _sampled_model_kernels as kernels
from psconrl.agents.contract import Carry
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.for_agents import BestPolicy, Steer, plan_rows
from psconrl.planning.model_rows import with_pairs
from psconrl.planning.steered import Steered
from psconrl.problem import Problem

MISSING = 1e-9
"""Rows need not store the probability of staying: what is missing to one, if it is more than rounding."""


_NO_COSTS: Floats = np.zeros((0, 0, 0))


class SampledModel(NamedTuple):
    """A sampled model, as `PosteriorAgent.sample` returns it.

    Attributes:
        rows: its transitions, by pairs of a state and an available action.
        states: the problem's number of each of its states; -1 for the one that stands for all others.
        pairs: the problem's number s * A + a of each of its pairs; -1 for those of the other states, which are free.
        problem: the problem.
        carry: what the next sample must find in its memory, in addition to the planner's warm start.
        costs: the costs (m + 1, S, A) to plan with; the agent sets them.
        complete: whether it has all states of the problem, with the problem's numbers.
        restarted: the transitions to plan with, if plans are made for a limited time; see `with_restarts`.
    """

    rows: Rows
    states: Ints
    pairs: Ints
    problem: Problem
    carry: Carry
    costs: Floats = _NO_COSTS
    complete: bool = False
    restarted: Rows | None = None

    @staticmethod
    def of_all_states(rows: Rows, problem: Problem) -> SampledModel:
        """A model of all states of a problem, by the rows of its pairs."""
        return SampledModel(
            with_pairs(rows, problem.pairs), np.arange(problem.S), problem.pairs.numbers, problem, {}, complete=True
        )

    def with_restarts(self, state: int, steps: float) -> SampledModel:
        """The model planned in for the next steps only: its chain starts anew, on average after so many of them.

        The averages of a policy in a model that returns to the current state with probability 1 / L in every step are
        those of a run from there that lasts L steps on average. So a place that is too far for this time is not chosen,
        what cannot be reached counts for nothing, and no bias spans more than L. The policy is executed without
        restarts.

        Args:
            state: the problem's number of the current state.
            steps: L, the mean time between restarts.

        Returns:
            The model with `restarted` transitions.
        """
        home = int(np.flatnonzero(self.states == state)[0])
        return self._replace(restarted=self.rows.with_restarts(1.0 / steps, home))

    @property
    def planned(self) -> Rows:
        """The transitions to plan with."""
        return self.rows if self.restarted is None else self.restarted

    @property
    def transitions(self) -> Floats:
        """p(s' | s, a) as an array (S, A, S), zero for actions that are not available.

        States that the model does not tell apart have the same rows, and are equally likely as next states. Where
        states are discovered, one more state, the last, stands for those that are still unknown.
        """
        S, A = self.problem.S, self.problem.A
        lumped = np.flatnonzero(self.states < 0)
        n = S + bool(len(lumped) and self.problem.open)
        others = np.setdiff1d(np.arange(n), self.states)
        members = [others if s < 0 else np.array([s]) for s in self.states]
        spread = sparse.csr_array(
            (
                np.concatenate([np.full(len(group), 1.0 / len(group)) for group in members]),
                np.concatenate(members),
                np.append(0, np.cumsum([len(group) for group in members])),
            ),
            shape=(len(members), n),
        )
        rows = (self.rows.matrix() @ spread).toarray()
        p = np.zeros((n * A, n))
        known = self.pairs >= 0
        p[self.pairs[known]] = rows[known]
        if len(lumped):
            row = rows[self.rows.begin[lumped[0]]]
            p.reshape(n, A, n)[others] = row
            p.reshape(n, A, n)[:S][~self.problem.available] = 0.0
        staying = np.arange(n * A), np.repeat(np.arange(n), A)
        missing = 1.0 - p.sum(axis=1)
        p[staying] += np.where(p.any(axis=1) & (missing > MISSING), missing, 0.0)
        return p.reshape(n, A, n)

    def own_costs(self, costs: Floats) -> Floats:
        """The costs of its pairs, of costs (m + 1, S, A)."""
        return kernels.fold_costs(costs, self.pairs)

    def best_policy(
        self, costs: Floats, thresholds: Floats, *, join: float, start: Carry | None = None, steer: Steer | None = None
    ) -> BestPolicy:
        """The best policy of a model of some states, as one of the problem: uniform in states it does not have.

        Args:
            costs: (m + 1, S, A).
            thresholds: the limits, (m,).
            join: the share of time for visiting all recurrent classes of the optimum.
            start: a warm start: what an earlier plan left.
            steer: what the planner must know of the run if the policy is to be steered.

        Returns:
            The best policy; `start` holds what the next plan may start from.
        """
        S, A = self.problem.S, self.problem.A
        last = _check_warm_start(start)
        folded = kernels.fold_start(last, self.rows, self.states, self.pairs, A)
        own_start: dict[str, NDArray[Any]] = dict(zip(kernels.WarmStart._fields, folded, strict=True))
        own_start["multipliers"] = np.zeros(len(thresholds))
        if start is not None and "multipliers" in start:
            own_start["multipliers"] = start["multipliers"]
        best = plan_rows(self.planned, self.own_costs(costs), thresholds, join=join, start=own_start, steer=steer)
        following = dict(self.carry)
        if "policies" in best.start:
            new = kernels.WarmStart(*(best.start[name] for name in kernels.WarmStart._fields))
            unfolded = kernels.unfold_start(new, last, self.states, self.pairs, S, A)
            following.update(
                zip(kernels.WarmStart._fields, unfolded, strict=True), multipliers=best.start["multipliers"]
            )
        policy = None if best.policy is None else self.whole_policy(best.policy)
        return best._replace(policy=policy, start=following, steered=self.whole_mixture(best.steered))

    def whole_mixture(self, steered: Steered | None) -> Steered | None:
        """A mixture of the model as one of the problem: it never visits states that are not in the model."""
        if steered is None:
            return None
        return steered._replace(
            actions=self._whole_actions(steered.actions), transfers=self._whole_actions(steered.transfers)
        )

    def _whole_actions(self, actions: Ints) -> Ints:
        """Actions (k, n) in the model's states as those in the problem's (k, S)."""
        A = self.problem.A
        known = np.flatnonzero(self.states >= 0)
        own = actions[:, known]
        theirs = self.pairs[self.rows.begin[known] + np.maximum(own, 0)] - A * self.states[known]
        whole = np.full((len(actions), self.problem.S), -1)
        whole[:, self.states[known]] = np.where(own >= 0, theirs, -1)
        return whole

    def whole_policy(self, policy: Floats) -> Floats:
        """A policy of the model, by pairs, as one of the problem (S, A): uniform in all other states."""
        whole = self.problem.uniform
        kernels.unfold_policy(policy, self.pairs, whole)
        return whole


def _check_warm_start(start: Carry | None) -> kernels.WarmStart:
    """What an earlier plan left, if it has the right types; whether its actions exist is checked where it is used."""
    if start:
        try:
            last = kernels.WarmStart(*(start[name] for name in kernels.WarmStart._fields))
            if (
                last.policies.ndim == 2
                and len(last.policies) > 0
                and last.policies.shape[1:] == last.bias.shape == last.paths.shape
                and last.reference.shape == (1,)
                and last.policies.dtype == last.reference.dtype == last.paths.dtype == INT
                and last.bias.dtype == FLOAT
                and last.policies.flags.carray
            ):
                return last
        except (KeyError, AttributeError, TypeError):
            pass
    empty = np.zeros(0, dtype=np.int64)
    return kernels.WarmStart(empty.reshape(1, 0), np.zeros(1, dtype=np.int64), np.zeros(0), empty)
