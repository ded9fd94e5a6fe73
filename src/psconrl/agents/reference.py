"""Reference lines: the uniform policy, and the optimal one, which alone sees the model.

Parameters of `Optimal`
    execution    "stationary", or "steered" by the excess of the limits so far (`psconrl.planning.steered`)
    margin       0: limits are lower by margin * sqrt(log t / t) in plans, or half of the model's margin
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import numpy as np

from psconrl._core.checks import short_repr
from psconrl.agents.contract import Agent, Memory, Plan
from psconrl.agents.planning import LimitedAgent
from psconrl.agents.schedules import fixed
from psconrl.cmdp import CMDP
from psconrl.errors import InvalidArgumentError, InvalidTypeError
from psconrl.planning.solution import Solution
from psconrl.planning.solving import solve
from psconrl.planning.steering import from_solution
from psconrl.problem import Problem


@dataclass(frozen=True, eq=False)
class Uniform(Agent):
    """Every action equally likely, forever."""

    uses_planner = False

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """The uniform policy to the end of the run."""
        return self.uniform_plan()


@dataclass(frozen=True, eq=False)
class Optimal(LimitedAgent):
    """The optimal policy of the true model, which it is given."""

    sees_model, uses_planner = True, False

    model: CMDP | None = None

    def __post_init__(self) -> None:
        if self.model is None:
            raise InvalidArgumentError("Optimal needs the model: Optimal(problem, model=cmdp)")
        super().__post_init__()
        if not isinstance(self.model, CMDP):
            raise InvalidTypeError(f"model is {short_repr(self.model)}; it must be a CMDP")
        if self.problem.S is None:
            raise InvalidArgumentError("Optimal knows the states of its model; give it a problem with S states")
        if (self.model.S, self.model.A, self.model.m) != (self.problem.S, self.problem.A, self.problem.m):
            raise InvalidArgumentError(f"{self.model} does not fit {self.problem}; give the problem of this model")
        if (self.model.available & ~self.problem.available).any():
            raise InvalidArgumentError("the model has actions that the problem has not; give the problem of this model")

    def with_problem(self, problem: Problem) -> Self:
        """This agent in the problem's units; its model is in those of the user."""
        if problem is self.problem:
            return self
        assert self.model is not None
        return replace(self, problem=problem, model=self.model.rescaled(self.problem.cost_ranges))

    @cached_property
    def solution(self) -> Solution:
        """The solved model."""
        assert self.model is not None
        return solve(self.model)

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        """The optimal policy to the end of the run."""
        found = self.solution
        if self.margin > 0 and self.problem.m:
            assert self.model is not None
            found = solve(self.model.replace(thresholds=self.tightened(memory.horizon, found.margin)))
        steer, steered = self.steer(memory, fixed(memory.horizon)), None
        if steer is not None and found.feasible and found.attained:
            steered = from_solution(found, steer, np.ones(self.problem.m + 1))
        return Plan(
            found.policy[np.newaxis],
            feasible=found.feasible,
            value=found.value,
            connected=found.connected,
            steered=steered,
            multipliers=found.multipliers,
        )
