"""Planning with a model that an agent believes in, and estimates of pairs never visited."""

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from psconrl._core import checks
from psconrl._core.checks import FLOAT, Floats, Ints
from psconrl._core.pairs import Pairs
from psconrl.agents import _counts_kernels as kernels
from psconrl.agents.contract import FOREVER, Agent, Carry, Memory, Plan
from psconrl.agents.sampled_model import SampledModel
from psconrl.agents.schedules import Stop
from psconrl.errors import InvalidArgumentError
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.for_agents import BestPolicy, Method, Steer, model_margin, plan_rows
from psconrl.planning.model_rows import with_pairs
from psconrl.planning.shortest_paths import shortest_path_policy
from psconrl.planning.tolerances import PROVEN

Execution = Literal["stationary", "steered"]
Model = SampledModel | Rows | Floats
"""A model to plan in: what `PosteriorAgent.sample` or `EstimatingAgent.estimate` returns, or an array (S, A, S)."""


@dataclass(frozen=True, eq=False)
class LimitedAgent(Agent):
    """An agent that plans with limits.

    Args:
        execution: how the optimum, a mixture of deterministic policies, is executed: "stationary" mixes them at random
            in every state, "steered" lets the excess of the limits so far choose between them (see
            `psconrl.planning.steered`).
        margin: plan with limits lower by min(margin sqrt(log t / t), half of the model's margin), as UC-CURL does
            (Agarwal, Bai, Aggarwal: arXiv 2109.05439).

    Raises:
        InvalidArgumentError: an execution of another name, or a negative margin.
    """

    execution: Execution = field(default="stationary", kw_only=True)
    margin: float = field(default=0.0, kw_only=True)

    def __post_init__(self) -> None:
        checks.one_of(self.execution, "execution", ("stationary", "steered"))
        checks.real(self.margin, "margin", "a number >= 0", lambda x: x >= 0)
        super().__post_init__()

    def steer(self, memory: Memory, stop: Stop) -> Steer | None:
        """What the planner needs to know of the run if the plan is to be steered, else None.

        Args:
            memory: what the agent knows.
            stop: the stopping rule of the plan.
        """
        if self.execution == "stationary":
            return None
        time = min(memory.t + stop["max_length"], memory.horizon)
        return Steer(memory.t, time, memory.excess)

    def tightened(self, t: int, margin: float) -> Floats:
        """The limits (m,) to plan with after t steps in a model whose Slater margin is given."""
        t = max(t, 2)
        eps = min(self.margin * math.sqrt(math.log(t) / t), max(margin, 0.0) / 2)
        return self.problem.thresholds - eps

    def limits(self, model: Model, costs: Floats, memory: Memory) -> Floats:
        """The limits (m,) to plan with in a model.

        Args:
            model: the model to plan in.
            costs: its costs (m + 1, S, A).
            memory: what the agent knows.
        """
        thresholds = self.problem.thresholds
        if self.margin == 0 or not len(thresholds):
            return thresholds
        return self.tightened(memory.t, margin_in(model, costs, thresholds, memory))

    def best(self, model: Model, costs: Floats, limits: Floats, memory: Memory, stop: Stop) -> BestPolicy:
        """The best policy in a model, for subclasses to change.

        Args:
            model: the model to plan in.
            costs: its costs (m + 1, S, A).
            limits: the limits (m,) on the long-run averages of costs[1:].
            memory: what the agent knows.
            stop: when the plan ends.

        Returns:
            The best policy; `feasible` is False if no policy meets the limits.
        """
        return plan_in(model, costs, limits, memory, stop, steer=self.steer(memory, stop))


@dataclass(frozen=True, eq=False)
class EstimatingAgent(LimitedAgent):
    """An agent that plans in the empirical model, with bonuses on its costs."""

    def estimate(self, memory: Memory, rng: np.random.Generator) -> Model:
        """The transitions to plan with: observed frequencies.

        Args:
            memory: what the agent knows.
            rng: the random numbers of this plan.

        Returns:
            A model in which pairs never visited lead uniformly to the states seen.
        """
        return empirical_transitions(memory)

    def clip_costs(self, costs: Floats) -> Floats:
        """The costs after the bonus, clipped to [0, 1]."""
        return costs.clip(0.0, 1.0)


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
    """The best policy in a model that an agent believes in.

    Args:
        model: a sampled or estimated model, or an array (S, A, S) of transitions.
        costs: (m + 1, S, A); costs[0] is minimised.
        thresholds: the limits (m,) on the long-run averages of costs[1:].
        memory: what the agent knows, with what the last plan left in its `carry`.
        stop: when the plan ends.
        warm: whether to start from what the last plan left.
        steer: `LimitedAgent.steer(memory, stop)`, if the policy is to be steered.
        method: where to begin, as in `psconrl.planning.best_policy`; models of some states have their own.
        join: the share of time for joining several recurrent classes; by default it falls with the plan's length.

    Returns:
        The best policy; `feasible` is False if no policy meets the limits in this model.

    Raises:
        InvalidModelError: an array that does not hold transitions.
        InvalidArgumentError: costs or thresholds of another shape or type.
    """
    pairs = memory.pairs
    shape = (len(thresholds) + 1, *pairs.available.shape)
    if costs.shape != shape or costs.dtype != FLOAT or thresholds.dtype != FLOAT:
        raise InvalidArgumentError(
            f"costs are {costs.dtype} of shape {costs.shape}; with {len(thresholds)} limits they must be float64 of "
            f"shape (m + 1, S, A) = {shape}, and the limits float64"
        )
    join, start = joining(memory, stop) if join is None else join, memory.carry if warm else None
    if steer is not None and isinstance(model, SampledModel) and model.restarted is not None:
        steer = steer._replace(rows=model.rows)
    if isinstance(model, SampledModel) and not model.complete:
        return model.best_policy(costs, thresholds, join=join, start=start, steer=steer)
    rows = _rows(model, pairs)
    if pairs.every:
        return plan_rows(rows, costs, thresholds, join=join, start=start, method=method, steer=steer)
    best = plan_rows(rows, pairs.taken(costs), thresholds, join=join, start=start, method=method, steer=steer)
    return as_table(best, pairs)


def _rows(model: Model, pairs: Pairs) -> Rows:
    """The rows of the available pairs of a model; arrays come from outside, and are checked."""
    if isinstance(model, SampledModel):
        return model.planned
    if not isinstance(model, Rows):
        model = Rows.from_dense(checks.dense_transitions(model, None if pairs.every else pairs.available)[0])
    return with_pairs(model, pairs)


def margin_in(model: Model, costs: Floats, limits: Floats, memory: Memory) -> float:
    """By how much all limits (m,) could be lower in a model; negative if they cannot be met."""
    if isinstance(model, SampledModel):
        return model_margin(model.planned, model.own_costs(costs), limits)
    return model_margin(_rows(model, memory.pairs), memory.pairs.taken(costs), limits)


def nearest_limits(model: Model, costs: Floats, limits: Floats, memory: Memory) -> Floats:
    """The limits that a model can meet, nearest to those that it cannot.

    Args:
        model: the model to plan in, in which no policy meets all limits.
        costs: its costs (m + 1, S, A).
        limits: (m,).
        memory: what the agent knows.

    Returns:
        The limits (m,), raised by the least share of each cost's range with which all can be met; those that can be met
        as they are, with the others raised, are not.
    """
    ranges = np.ptp(costs[1:], axis=(1, 2))
    ranges[ranges == 0.0] = 1.0
    scaled = np.concatenate([costs[:1], costs[1:] / ranges[:, np.newaxis, np.newaxis]])

    def margin(tau: Floats) -> float:
        return margin_in(model, scaled, tau / ranges, memory)

    raised = limits + ranges * (PROVEN - margin(limits))
    for i in range(len(limits)):
        kept = raised.copy()
        kept[i] = limits[i]
        if margin(kept) >= 0.0:
            raised = kept
    return raised


def as_array(model: Model, memory: Memory) -> Floats:
    """The transitions of a model as an array (S, A, S), zero for actions that are not available.

    Args:
        model: the model.
        memory: what the agent knows.

    Returns:
        The array; see `SampledModel.transitions` for models of the states seen so far.
    """
    if isinstance(model, SampledModel):
        return model.transitions
    S, A = memory.visits.shape
    p = np.zeros((S * A, S))
    p[memory.pairs.numbers] = _rows(model, memory.pairs).matrix().toarray()
    return p.reshape(S, A, S)


def as_table(best: BestPolicy, pairs: Pairs) -> BestPolicy:
    """A best policy by available pairs, as one for all actions."""
    if best.policy is None:
        return best
    steered = None if best.steered is None else best.steered.named(pairs)
    return best._replace(policy=pairs.table(best.policy), steered=steered)


def joining(memory: Memory, stop: Stop) -> float:
    """The share of time for joining recurrent classes: one over the root of the steps a plan may last, or has lasted.

    Plans that end by a count alone rarely last longer than all that was before. No plan depends on the run's horizon.
    """
    return 1.0 / math.sqrt(max(min(stop["max_length"], memory.t), 4))


def carried(best: BestPolicy, memory: Memory) -> Carry:
    """What the next plan may start from, in addition to what the agent carries already."""
    return {**memory.carry, **best.start}


def exploit(best: BestPolicy, stop: Stop, memory: Memory) -> Plan:
    """The plan that executes a best policy.

    Args:
        best: what `plan_in` returned, feasible.
        stop: the stopping rule.
        memory: what the agent knows.

    Returns:
        The plan; its `carry` holds the warm start of the next one.
    """
    _, policy, value, _, multipliers, _, connected, _, method, start, steered = best
    if policy is None:
        raise InvalidArgumentError("the limits cannot be met in this model, so there is no policy to execute")
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


def empirical_transitions(memory: Memory) -> Rows:
    """p_hat by rows; pairs never visited lead uniformly to the states seen so far."""
    observed = memory.observed
    indptr, indices, data = kernels.empirical(*observed.chains, int(observed.used[0]), memory.visits, memory.state)
    rows = Rows(observed.begin, indptr, indices, data)
    return with_pairs(rows, memory.pairs)


def to_least_visited(model: Rows | SampledModel, visits: Ints, pairs: Pairs | None = None) -> tuple[Floats, bool]:
    """The shortest path to the least visited state, and there the least tried action, as a policy.

    Args:
        model: the model to plan in.
        visits: N(s, a), (S, A).
        pairs: the available actions; all if left out.

    Returns:
        The policy (S, A), uniform where no path leads to that state; and whether one does from every state.
    """
    S, A = visits.shape
    pairs = Pairs.all(S, A) if pairs is None else pairs
    if isinstance(model, SampledModel):
        rows, states, numbers = model[:3]
    else:
        rows, states, numbers = _rows(model, pairs), np.arange(S), pairs.numbers
    target = int(np.argmin(np.where(states >= 0, visits.sum(axis=1)[states], FOREVER)))
    targets = np.zeros(len(states), dtype=np.bool_)
    targets[target] = True
    path = shortest_path_policy(rows, targets).pairs.copy()
    first, after = rows.begin[target : target + 2]
    path[target] = first + np.argmin(visits.ravel()[numbers[first:after]])
    policy = pairs.uniform
    on_path = (path >= 0) & (states >= 0)
    policy[states[on_path]] = 0.0
    policy.ravel()[numbers[path[on_path]]] = 1.0
    return policy, bool((path >= 0).all())
