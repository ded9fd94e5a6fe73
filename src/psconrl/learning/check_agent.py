"""A checker for agents, ours and yours: does an agent keep the contract?"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from psconrl._core.checks import short_repr, whole
from psconrl.agents.contract import Agent, Memory, Plan
from psconrl.cmdp import CMDP
from psconrl.errors import AgentError, InvalidTypeError
from psconrl.learning import simulate
from psconrl.problem import Problem

_STATES = 4
"""States of the model in which agents that discover theirs are checked."""


def check_agent(agent: Agent, *, steps: int = 200, seed: int = 0) -> None:
    """Run an agent in a small random model and check every plan; AgentError tells the first rule it breaks.

    Checked: plans have the right shapes, policies are distributions over available actions, lengths are positive,
    planning changes neither the agent nor its memory, the same memory and random numbers give the same plan, and a run
    that is cut, saved and restored goes on unchanged.

    >>> from psconrl import Problem, agents
    >>> agents.check_agent(agents.PSConRL(Problem(4, 2, [0.6])))
    """
    if not isinstance(agent, Agent):
        raise InvalidTypeError(f"agent is {short_repr(agent)}; it must be an agent, such as agents.PSConRL(problem)")
    steps, seed, problem = whole(steps, "steps", 2), whole(seed, "seed", 0, most=None), agent.problem
    rng = np.random.default_rng(np.random.SeedSequence(seed))
    S = _STATES if problem.S is None else problem.S
    p = rng.dirichlet(np.ones(S), (S, problem.A))
    costs = problem.costs
    if costs is None:
        costs = rng.random((problem.m + 1, S, problem.A))
        if problem.units is not None and problem.cost_ranges is not None:
            costs = problem.units.sums(costs, 1).clip(*problem.cost_ranges.T[:, :, np.newaxis, np.newaxis])
    available = problem.available
    if problem.open:
        available = np.array([problem.available_actions(str(s)) for s in range(S)])
    cmdp = CMDP(p, costs, problem.thresholds, available=available)
    checked = _Checked(agent)
    full = simulate(checked, cmdp, steps, seed)
    half = simulate(checked, cmdp, steps, seed, stop=steps // 2)
    resumed = simulate(checked, cmdp, steps, seed, state=half.state)
    _rule(
        np.array_equal(full.counts, resumed.counts) and np.array_equal(full.cumulative, resumed.cumulative),
        "a run that is saved and restored half-way must go on unchanged: keep no state outside the carry",
    )


class _Checked(Agent):
    """The agent, with every plan checked."""

    def __init__(self, agent: Agent) -> None:
        object.__setattr__(self, "problem", agent.problem)
        object.__setattr__(self, "agent", agent)

    def with_problem(self, problem: Problem) -> "_Checked":
        return _Checked(self.agent.with_problem(problem))  # type: ignore[attr-defined]

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        agent: Agent = self.agent  # type: ignore[attr-defined]
        before = [array.copy() for array in _arrays(memory)]
        state = rng.bit_generator.state
        plan = agent.plan(memory, rng)
        after = rng.bit_generator.state
        rng.bit_generator.state = state
        again = agent.plan(memory, rng)
        _rule(_same(before, _arrays(memory)), "planning must not change the memory")
        _rule(rng.bit_generator.state == after, "planning twice must use the same random numbers")
        _check_plan(plan, agent)
        _rule(
            plan.max_length == again.max_length and _same(_decisions(plan), _decisions(again)),
            "planning must be a pure function of (memory, rng): the same ones gave another plan",
        )
        return plan


def _arrays(memory: Memory) -> list[NDArray[Any]]:
    """All arrays of a memory."""
    return [
        memory.counts,
        memory.visits,
        memory.cost_sums,
        memory.observed.spent,
        memory.excess,
        *memory.carry.values(),
    ]


def _decisions(plan: Plan) -> list[NDArray[Any]]:
    """All arrays that a plan decides with."""
    limit = [] if plan.count_limit is None else [plan.count_limit]
    steered = [] if plan.steered is None else [np.asarray(part) for part in plan.steered]
    return [plan.policy, *limit, *steered, *(plan.carry[key] for key in sorted(plan.carry))]


def _same(some: list[NDArray[Any]], others: list[NDArray[Any]]) -> bool:
    return len(some) == len(others) and all(map(np.array_equal, some, others))


def _check_plan(plan: Plan, agent: Agent) -> None:
    S, A = agent.problem.S, agent.problem.A
    _rule(isinstance(plan, Plan), f"plan() must return a Plan, not {type(plan).__name__}")
    _rule(
        plan.policy.ndim == 3 and plan.policy.shape[1:] == (S, A),
        f"Plan.policy has shape {plan.policy.shape}; it must be (L, S, A) with (S, A) = {(S, A)}",
    )
    _rule(bool((plan.policy >= 0).all()), "Plan.policy has a negative or NaN probability")
    sums = plan.policy.sum(axis=2)
    _rule(bool((np.abs(sums - 1) < 1e-9).all()), "a row of Plan.policy does not sum to one")
    taken = plan.policy[:, ~agent.problem.available]
    _rule(not taken.any(), "Plan.policy takes an action where it is not available; give it probability 0 there")
    _rule(plan.max_length >= 1, f"Plan.max_length is {plan.max_length}; it must be at least 1")
    if plan.multipliers is not None:
        shape, m = plan.multipliers.shape, agent.problem.m
        _rule(shape == (m,), f"Plan.multipliers has shape {shape}; it must be (m,) = ({m},)")
    if plan.count_limit is not None:
        _rule(plan.count_limit.shape == (S, A), f"Plan.count_limit has shape {plan.count_limit.shape}")
    _rule(
        plan.phase in ("exploit", "explore"),
        f'Plan.phase is {short_repr(plan.phase)}; it must be "exploit" or "explore"',
    )
    _rule(
        all(isinstance(value, np.ndarray) and value.dtype != object for value in plan.carry.values()),
        "Plan.carry must hold plain arrays only",
    )


def _rule(holds: bool, message: str) -> None:
    if not holds:
        raise AgentError(message)
