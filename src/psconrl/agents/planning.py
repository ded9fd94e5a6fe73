"""Pieces that several agents share: planning with a model they believe in, and estimates of unseen pairs."""

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np

from psconrl._core.checks import Floats, Ints, one_of, real
from psconrl._core.lazy import lazy_import
from psconrl._core.pairs import Pairs
from psconrl.agents.contract import FOREVER, Agent, Carry, Memory, Plan
from psconrl.agents.sampled_model import SampledModel
from psconrl.agents.schedules import Stop
from psconrl.errors import InvalidTypeError
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.compiled.shortest_path import fastest_way
from psconrl.planning.for_agents import BestPolicy, Method, Steer, model_margin, plan_rows
from psconrl.planning.model_rows import with_pairs

if TYPE_CHECKING:
    from psconrl.agents import _counts_kernels as kernels
else:
    kernels = lazy_import("psconrl.agents._counts_kernels")


Execution = Literal["stationary", "steered"]
Model = Floats | Rows | SampledModel
"""A believed model: an array (S, A, S), or what `PosteriorAgent.sample` and `EstimatingAgent.estimate` return."""


@dataclass(frozen=True, eq=False)
class LimitedAgent(Agent):
    """An agent that plans with limits.

    execution: how the optimum, a mixture of deterministic policies, is executed: "stationary" mixes them by chance in
    every state, "steered" lets the excess of the limits so far choose between them (see `psconrl.planning.steered`).
    margin: plan with limits lower by min(margin sqrt(log t / t), half of the model's margin), as UC-CURL does
    (Agarwal, Bai, Aggarwal: arXiv 2109.05439).
    """

    execution: Execution = field(default="stationary", kw_only=True)
    margin: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        one_of(self.execution, "execution", ("stationary", "steered"))
        real(self.margin, "margin", "a number >= 0", lambda x: x >= 0)
        super().__post_init__()

    def steer(self, memory: Memory, stop: Stop) -> Steer | None:
        """What the planner needs to know of the run if the plan is to be steered."""
        if self.execution == "stationary":
            return None
        time = min(memory.t + stop["max_length"], memory.horizon)
        return Steer(memory.t, time, memory.excess)

    def tightened(self, t: int, margin: float) -> Floats:
        """The limits (m,) to plan with after t steps in a model of some margin."""
        t = max(t, 2)
        eps = min(self.margin * math.sqrt(math.log(t) / t), max(margin, 0.0) / 2)
        return self.problem.thresholds - eps

    def limits(self, model: Model, costs: Floats, memory: Memory) -> Floats:
        """The limits (m,) to plan with in a believed model."""
        thresholds = self.problem.thresholds
        if self.margin == 0 or not len(thresholds):
            return thresholds
        return self.tightened(memory.t, margin_in(model, costs, thresholds, memory))

    def best(self, model: Model, costs: Floats, limits: Floats, memory: Memory, stop: Stop) -> BestPolicy:
        """The best policy in a believed model, for a subclass to change.

        Args:
            model: the model to plan in.
            costs: (m + 1, S, A).
            limits: (m,), on the long-run averages of costs[1:].
            memory: what the agent has seen.
            stop: when the plan ends.

        Returns:
            The policy, or the news that the limits cannot be met.
        """
        return plan_in(model, costs, limits, memory, stop, steer=self.steer(memory, stop))


@dataclass(frozen=True, eq=False)
class EstimatingAgent(LimitedAgent):
    """An agent that plans in the empirical model, with bonuses on its costs."""

    def estimate(self, memory: Memory, rng: np.random.Generator) -> Model:
        """The transitions to plan with: observed frequencies; pairs never visited lead uniformly to the states seen."""
        return empirical_transitions(memory)

    def clip_costs(self, costs: Floats) -> Floats:
        """The costs after the bonus, clipped to [0, 1]."""
        return costs.clip(0.0, 1.0)


def margin_in(model: Model, costs: Floats, limits: Floats, memory: Memory) -> float:
    """By how much all limits (m,) could be lower in a believed model; negative if they cannot be met."""
    model = _by_rows(model)
    if isinstance(model, SampledModel):
        return model_margin(model.rows, model.own_costs(costs), limits)
    return model_margin(with_pairs(model, memory.pairs), memory.pairs.taken(costs), limits)


def _by_rows(model: Model) -> Rows | SampledModel:
    return Rows.from_dense(model) if isinstance(model, np.ndarray) else model


def plan_in(
    model: Model,
    costs: Floats,
    thresholds: Floats,
    memory: Memory,
    stop: Stop,
    *,
    warm: bool = True,
    steer: Steer | None = None,
    method: Method = "compiled",
    join: float | None = None,
) -> BestPolicy:
    """The best policy in a believed model.

    Args:
        model: an array (S, A, S), or a sampled or estimated model.
        costs: (m + 1, S, A).
        thresholds: (m,), the limits on the long-run averages of costs[1:].
        memory: what the agent has seen, and what its last plan left to start from.
        stop: when the plan ends.
        warm: whether to start from what the last plan left.
        steer: what the planner must know of the run if the plan is to be steered.
        method: where to begin, as in `psconrl.planning.best_policy`; a learned prior's model has its own.
        join: the share of time for joining several recurrent classes; by default it falls with the plan's length.

    Returns:
        The policy (S, A), or the news that the limits cannot be met.
    """
    model, start = _by_rows(model), memory.carry if warm else None
    join = joining(memory, stop) if join is None else join
    if isinstance(model, SampledModel):
        return model.best_policy(costs, thresholds, join=join, start=start, steer=steer)
    pairs = memory.pairs
    if pairs.every:
        return plan_rows(model, costs, thresholds, join=join, start=start, method=method, steer=steer)
    rows = with_pairs(model, pairs)
    best = plan_rows(rows, pairs.taken(costs), thresholds, join=join, start=start, method=method, steer=steer)
    return named(best, pairs)


def named(best: BestPolicy, pairs: Pairs) -> BestPolicy:
    """A best policy of available pairs for all actions."""
    if best.policy is None:
        return best
    steered = None if best.steered is None else best.steered.named(pairs)
    return best._replace(policy=pairs.table(best.policy), steered=steered)


def joining(memory: Memory, stop: Stop) -> float:
    """The share of time for joining classes: one over the root of the steps that a plan may last, or has lasted.

    Plans that end by a count alone rarely last longer than all that was before. No plan depends on the run's horizon.
    """
    return 1.0 / math.sqrt(max(min(stop["max_length"], memory.t), 4))


def carried(best: BestPolicy, memory: Memory) -> Carry:
    """What the next plan may start from; what an agent carries besides stays."""
    return {**memory.carry, **best.start}


def exploit(best: BestPolicy, stop: Stop, memory: Memory) -> Plan:
    """The plan that executes a best policy."""
    _, policy, value, _, multipliers, _, connected, _, method, start, steered = best
    assert policy is not None
    return Plan(
        policy[np.newaxis],
        stop["max_length"],
        stop["count_limit"],
        value=value,
        connected=connected,
        solver=method,
        carry={**memory.carry, **start},
        steered=steered,
        multipliers=multipliers if len(multipliers) else None,
    )


def as_array(model: Model, memory: Memory) -> Floats:
    """A believed model as an array (S, A, S).

    Args:
        model: the model.
        memory: what the agent has seen.

    Returns:
        The transitions; rows of actions that are not available are zero.

    Raises:
        InvalidTypeError: the model lumps the states never seen together, as that of a learned prior does.
    """
    model, pairs = _by_rows(model), memory.pairs
    if isinstance(model, SampledModel):
        raise InvalidTypeError("the model lumps the states never seen together; it has no array (S, A, S)")
    S, A = memory.visits.shape
    p = np.zeros((S * A, S))
    p[pairs.numbers if model.K == pairs.K else slice(None)] = model.matrix().toarray()
    return p.reshape(S, A, S)


def empirical_transitions(memory: Memory) -> Rows:
    """p_hat by rows; pairs never visited lead uniformly to the states seen so far."""
    observed = memory.observed
    indptr, indices, data = kernels.empirical(*observed.chains, int(observed.used[0]), memory.visits, memory.state)
    rows = Rows(observed.begin, indptr, indices, data)
    return with_pairs(rows, memory.pairs)


def to_least_visited(model: Rows | SampledModel, visits: Ints, pairs: Pairs | None = None) -> tuple[Floats, bool]:
    """The fastest way to the least visited state, and there the least tried action: a policy (S, A).

    Also says whether there is such a way from every state; where there is none, it is uniform. pairs: those that are
    available; all if left out.
    """
    S, A = visits.shape
    pairs = Pairs.all(S, A) if pairs is None else pairs
    if isinstance(model, SampledModel):
        rows, states, numbers = model[:3]
    else:
        rows, states, numbers = with_pairs(model, pairs), np.arange(S), pairs.numbers
    target = int(np.argmin(np.where(states >= 0, visits.sum(axis=1)[states], FOREVER)))
    targets = np.zeros(len(states), dtype=np.bool_)
    targets[target] = True
    way = fastest_way(rows, targets).pairs.copy()
    first, after = rows.begin[target : target + 2]
    way[target] = first + np.argmin(visits.ravel()[numbers[first:after]])
    policy = pairs.uniform
    found = (way >= 0) & (states >= 0)
    policy[states[found]] = 0.0
    policy.ravel()[numbers[way[found]]] = 1.0
    return policy, bool((way >= 0).all())
