"""A model of some of a problem's states: what an agent believes in that has not seen them all.

What the next plan starts from is kept in the numbers of the problem, as the states of the model change from plan to
plan: state s at s + 1, the one that stands for all others at 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from psconrl._core.checks import FLOAT, INT, Floats, Ints
from psconrl._core.lazy import lazy_import
from psconrl.agents.contract import Carry
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.for_agents import BestPolicy, Steer, plan_rows
from psconrl.planning.steered import Steered
from psconrl.problem import Problem

if TYPE_CHECKING:
    from psconrl.agents import _sampled_model_kernels as kernels
else:
    kernels = lazy_import("psconrl.agents._sampled_model_kernels")


class SampledModel(NamedTuple):
    """A model by rows of some of a problem's states.

    Attributes:
        rows: its transitions.
        states: the number of each of its states in the problem, -1 for one that stands for all others.
        pairs: of each of its pairs s * A + a, -1 for that of the other states: it costs nothing.
        problem: the problem. carry: what the next plan must find beside a start.
    """

    rows: Rows
    states: Ints
    pairs: Ints
    problem: Problem
    carry: Carry

    def own_costs(self, costs: Floats) -> Floats:
        """The costs of its pairs."""
        return kernels.fold_costs(costs, self.pairs)

    def best_policy(
        self,
        costs: Floats,
        thresholds: Floats,
        *,
        join: float,
        start: Carry | None = None,
        steer: Steer | None = None,
    ) -> BestPolicy:
        """The best policy of the model, as one of the problem: uniform in states that are not in the model."""
        S, A = self.problem.S, self.problem.A
        last = _kept(start)
        folded = kernels.fold_start(last, self.rows, self.states, self.pairs, A)
        given: dict[str, NDArray[Any]] = dict(zip(kernels.Kept._fields, folded, strict=True))
        given["multipliers"] = np.zeros(len(thresholds))
        if start is not None and "multipliers" in start:
            given["multipliers"] = start["multipliers"]
        best = plan_rows(self.rows, self.own_costs(costs), thresholds, join=join, start=given, steer=steer)
        following = dict(self.carry)
        if "policies" in best.start:
            found = kernels.Kept(*(best.start[name] for name in kernels.Kept._fields))
            whole = kernels.unfold_start(found, last, self.states, self.pairs, S, A)
            following.update(zip(kernels.Kept._fields, whole, strict=True), multipliers=best.start["multipliers"])
        policy = None if best.policy is None else self.whole_policy(best.policy)
        return best._replace(policy=policy, start=following, steered=self.whole_mixture(best.steered))

    def whole_mixture(self, steered: Steered | None) -> Steered | None:
        """A mixture of the model as one of the problem: it does not come to states that are not in the model."""
        if steered is None:
            return None
        return steered._replace(actions=self._whole_actions(steered.actions), ways=self._whole_actions(steered.ways))

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


def _kept(start: Carry | None) -> kernels.Kept:
    """What a plan before left, if it is of the right kind; whether its actions exist is looked at where it is used."""
    if start:
        try:
            kept = kernels.Kept(*(start[name] for name in kernels.Kept._fields))
            if (
                kept.policies.ndim == 2
                and len(kept.policies) > 0
                and kept.policies.shape[1:] == kept.bias.shape == kept.way.shape
                and kept.reference.shape == (1,)
                and kept.policies.dtype == kept.reference.dtype == kept.way.dtype == INT
                and kept.bias.dtype == FLOAT
                and kept.policies.flags.carray
            ):
                return kept
        except (KeyError, AttributeError, TypeError):
            pass
    nothing = np.zeros(0, dtype=np.int64)
    return kernels.Kept(nothing.reshape(1, 0), np.zeros(1, dtype=np.int64), np.zeros(0), nothing)
