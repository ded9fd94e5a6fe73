"""A plain re-simulation, step by step, that uses nothing of the compiled loop but the agent's own learner.

`simulate` takes one number of the environment's stream for the start and one for each next state, and one of the
actions' stream for each action; fed with the same numbers, the act / observe loop of a `Learner` must walk the same
way.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl.agents import Agent, Memory, Plan
from psconrl.agents.counts import Counts
from psconrl.cmdp import CMDP
from psconrl.learning import Learner


@dataclass(frozen=True)
class Walk:
    """states, actions, next states (T,), costs (T, m + 1), and what walked."""

    states: Ints
    actions: Ints
    next_states: Ints
    costs: Floats
    learner: Learner

    @property
    def starts(self) -> list[int]:
        """Steps done before each plan; the running one included."""
        starts = [int(row[0]) for row in self.learner.rows]
        running = self.learner.t - int(self.learner.clock[1])
        return starts if self.learner.current is None else [*starts, running]

    def visits_before(self, t: int) -> Ints:
        """N(s, a) after t steps."""
        visits = np.zeros_like(self.learner.visits)
        np.add.at(visits, (self.states[:t], self.actions[:t]), 1)
        return visits


def pick(probabilities: Floats, u: float) -> int:
    """The outcome that the uniform number u stands for."""
    total = 0.0
    for i, p in enumerate(probabilities):
        total += p
        if p > 0 and u < total:
            return i
    return int(np.flatnonzero(probabilities)[-1])


def walk(agent: Agent, cmdp: CMDP, horizon: int, seed: int) -> Walk:
    """What `simulate(agent, cmdp, horizon, seed)` does, one step at a time."""
    cmdp = cmdp.to_dense()
    learner = Learner(agent, horizon, seed)
    transitions = np.asarray(cmdp.transitions)
    steps = []
    s = pick(cmdp.initial, learner.environment.random())
    for _ in range(horizon):
        a = learner.act(s)
        x = pick(transitions[s, a], learner.environment.random())
        c = cmdp.costs[:, s, a] if cmdp.move_costs is None else cmdp.move_costs[:, s, a, x]
        learner.observe(s, a, c, x)
        steps.append((s, a, x, c))
        s = x
    states, actions, next_states, costs = zip(*steps, strict=True)
    return Walk(np.array(states), np.array(actions), np.array(next_states), np.array(costs), learner)


class Recording(Agent):
    """An agent that remembers its plans, and the visits and the state they were made with."""

    def __init__(self, agent: Agent) -> None:
        object.__setattr__(self, "problem", agent.problem)
        self.__dict__["agent"] = agent
        self.__dict__["plans"] = []

    @property
    def plans(self) -> Sequence[tuple[Memory, Plan]]:
        """All plans so far, and (copies of) the memory they came from."""
        plans: list[tuple[Memory, Plan]] = self.__dict__["plans"]
        return plans

    def plan(self, memory: Memory, rng: np.random.Generator) -> Plan:
        plan: Plan = self.__dict__["agent"].plan(memory, rng)
        kept: dict[str, Any] = {
            name: value.copy() if isinstance(value, np.ndarray | Counts) else value
            for name, value in vars(memory).items()
        }
        self.__dict__["plans"].append((Memory(**kept), plan))
        return plan
