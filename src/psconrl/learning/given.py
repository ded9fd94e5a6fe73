"""What users hand to a learner: an agent, or a problem to recommend one for, and the costs of a step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psconrl._core.checks import range_rule, short_repr
from psconrl._core.lazy import lazy_import
from psconrl.agents.contract import Agent
from psconrl.errors import InvalidArgumentError, InvalidTypeError
from psconrl.problem import Problem

if TYPE_CHECKING:
    from psconrl import agents
else:
    agents = lazy_import("psconrl.agents")


def require_agent(agent: Any) -> None:
    """Refuse what is not an agent."""
    if not isinstance(agent, Agent):
        raise InvalidTypeError(
            f"agent is {short_repr(agent)}; it must be an agent, such as psconrl.agents.PSConRL(problem)"
        )


def chosen(agent: Agent | None, problem: Problem | None) -> Agent:
    """The agent, or the one that is recommended for the problem."""
    if agent is None and isinstance(problem, Problem):
        return agents.recommended(problem)
    if agent is None:
        raise InvalidTypeError(f"agent is None and problem {short_repr(problem)}; give an agent, or a psconrl.Problem")
    require_agent(agent)
    if problem is not None:
        raise InvalidArgumentError("problem is given beside an agent, which has its own; leave one of them out")
    return agent


def step_costs(given: ArrayLike, problem: Problem) -> NDArray[Any]:
    """The costs (m + 1,) of a step, brought to [0, 1]."""
    c, ranges, units = cost_numbers(given, problem.m), problem.cost_ranges, problem.units
    low, high = 0.0, 1.0
    for i, x in enumerate(c.tolist()):  # a few numbers are looked through faster than an array
        if ranges is not None:
            low, high = ranges[i].tolist()
        if not low <= x <= high:
            raise InvalidArgumentError(f"costs[{i}] is {x}; {range_rule(ranges, i)}")
    return c if units is None else units.normalized(c)


def cost_numbers(given: ArrayLike, m: int) -> NDArray[Any]:
    """The costs (m + 1,) of a step with m limits, as numbers of any kind and size."""
    try:
        c = np.asarray(given)
    except (ValueError, TypeError):
        c = np.array(None)
    if c.dtype.kind not in "biuf" or c.shape != (m + 1,):
        raise InvalidArgumentError(f"costs is {short_repr(given)}; a step has m + 1 = {m + 1} of them, all numbers")
    return c
