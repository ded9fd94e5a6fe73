"""An agent at work: its counts, its current plan, its random streams.

Everything a learner is can be taken out as plain values (`state`) and put back (`restore`) at any step, in another
process, and it goes on bit for bit.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psconrl._checks import Floats, Ints, whole
from psconrl._lazy import later
from psconrl.agents.contract import FOREVER, Agent, Memory, Plan
from psconrl.agents.counts import Counts
from psconrl.simulation.run import Snapshot
from psconrl.simulation.streams import streams

_kernels = later("psconrl.simulation._kernels")

REASONS = ("length", "count", "horizon")
SNAPSHOTS = 40

Rows = list[tuple[Any, ...]]


class Learner:
    """Runs one agent, step by step: `a = learner.act(s)`, then `learner.observe(s, a, costs, s_next)`.

    horizon: T, for the agents that need it.
    """

    def __init__(self, agent: Agent, horizon: int, seed: int) -> None:
        if not isinstance(agent, Agent):
            raise TypeError(f"agent is {agent!r}; it must be an agent, such as psconrl.agents.PSConRL(problem)")
        problem = agent.problem
        self.agent, self.horizon, self.seed = agent, whole(horizon, "horizon"), whole(seed, "seed", 0)
        self.environment, self.actions, self.planning = streams(seed)
        self.observed = Counts(problem.S, problem.A)
        self.visits: Ints = np.zeros((problem.S, problem.A), dtype=np.int64)
        self.cost_sums: Floats = np.zeros((problem.m + 1, problem.S, problem.A))
        self.clock: Ints = np.zeros(4, dtype=np.int64)
        self.current: Plan | None = None
        self.cumulative_policy: Floats = np.zeros((1, 0))
        self.count_limit: Ints = np.zeros((0, 0), dtype=np.int64)
        self.origin = 0  # the state in which the current plan was made
        self.last_length = 1
        self.carry: dict[str, NDArray[Any]] = {}
        self.rows: Rows = []
        self.kept: list[Snapshot] = []
        self.newest: Snapshot | None = None  # of the current plan, or the last
        self.spacing = float(self.horizon + 1) ** (1.0 / SNAPSHOTS)  # of snapshots, in the logarithm of time

    @property
    def counts(self) -> Ints:
        """N(s, a, s') as an array (S, A, S), made anew at each call."""
        return self.observed.dense()

    @property
    def t(self) -> int:
        """Steps done."""
        return self.clock.item(0)

    def begin(self, s: int) -> Plan:
        """Make the next plan in state s."""
        self._keep_newest()
        t = self.t
        memory = Memory(
            t=t,
            horizon=self.horizon,
            state=s,
            episode=len(self.rows),
            last_length=self.last_length,
            observed=self.observed,
            visits=self.visits,
            cost_sums=self.cost_sums,
            carry=self.carry,
        )
        plan = self.agent.plan(memory, self.planning)
        self.clock[1], self.origin = 0, s
        self.newest = Snapshot(t, plan.policy, self._adopt(plan))
        return plan

    def _keep_newest(self) -> None:
        """Keep the snapshot of the plan before if it came late enough after the one kept last."""
        newest = self.newest
        if newest is not None and (not self.kept or newest.start + 1 >= (self.kept[-1].start + 1) * self.spacing):
            self.kept.append(newest.copy())

    @property
    def snapshots(self) -> list[Snapshot]:
        """Those that are kept, and the newest one."""
        return self.kept if self.newest is None else [*self.kept, self.newest.copy()]

    def supply(self) -> None:
        """Have random numbers and room for counts at hand, for at least one step."""
        self.observed.room()
        self.environment.ready()
        self.actions.ready()

    def _adopt(self, plan: Plan) -> Ints:
        """Make a plan the current one, if it is sound; a copy of the visits so far."""
        S, A = self.visits.shape
        if plan.policy.ndim != 3 or plan.policy.shape[1:] != (S, A):
            raise ValueError(f"Plan.policy has shape {plan.policy.shape}; it must be (L, S, A) with (S, A) = {(S, A)}")
        whole(plan.max_length, "Plan.max_length")
        limit = np.full((S, A), FOREVER) if plan.count_limit is None else plan.count_limit
        if limit.shape != (S, A):
            raise ValueError(f"Plan.count_limit has shape {limit.shape}; it must be (S, A) = {(S, A)}")
        sound, cumulative, limit, visits = _kernels().take_up(plan.policy, limit, self.visits)
        if not sound:
            raise ValueError("Plan.policy has a row that is no distribution over the actions")
        self.current, self.cumulative_policy, self.count_limit = plan, cumulative, limit
        before: Ints = visits
        return before

    def end(self, reason: int, averages: Floats | None = None) -> None:
        """Close the current plan and write its row."""
        plan = self.current
        assert plan is not None
        self.rows.append(self.row(reason, averages))
        self.last_length = self.rows[-1][1]
        self.carry, self.current = dict(plan.carry), None

    def row(self, reason: int, averages: Floats | None = None) -> tuple[Any, ...]:
        """The row of the current plan."""
        plan, length = self.current, self.clock.item(1)
        assert plan is not None
        row = (
            self.t - length,
            length,
            plan.phase,
            plan.feasible,
            plan.connected,
            REASONS[reason],
            plan.value,
            plan.solver,
        )
        return row if averages is None else (*row, averages)

    def act(self, s: int) -> int:
        """The action in state s; a new plan is made first if the last one is over."""
        if not 0 <= s < self.agent.problem.S:
            raise ValueError(f"state {s} is none of 0, ..., {self.agent.problem.S - 1}")
        if self.current is None:
            self.begin(s)
        row = self.cumulative_policy[int(self.clock[1]) % len(self.cumulative_policy)]
        A = self.agent.problem.A
        return int(_kernels().draw(row, s * A, s * A + A, self.actions.random()) - s * A)

    def observe(self, s: int, a: int, costs: ArrayLike, s_next: int) -> bool:
        """Take in one step; whether the plan is over after it."""
        if self.current is None:
            raise ValueError("observe a step only after act has chosen its action")
        c = np.asarray(costs, dtype=np.float64)
        if c.shape != (len(self.cost_sums),):
            raise ValueError(f"costs have shape {c.shape}; a step has m + 1 = {len(self.cost_sums)} of them")
        self.observed.add(s, a, s_next)
        self.visits[s, a] += 1
        self.cost_sums[:, s, a] += c
        self.clock[0] += 1
        self.clock[1] += 1
        if self.clock[1] >= self.current.max_length:
            self.end(0)
        elif self.visits[s, a] > self.count_limit[s, a]:
            self.end(1)
        return self.current is None

    def state(self) -> dict[str, Any]:
        """All that this learner is, as plain values that later steps do not change."""
        plan = self.current
        return {
            "horizon": self.horizon,
            "seed": self.seed,
            "streams": [self.environment.state(), self.actions.state(), self.planning.bit_generator.state],
            "counts": (*(array.copy() for array in self.observed.chains), int(self.observed.used[0])),
            "visits": self.visits.copy(),
            "cost_sums": self.cost_sums.copy(),
            "clock": self.clock.copy(),
            "origin": self.origin,
            "last_length": self.last_length,
            "carry": {key: value.copy() for key, value in self.carry.items()},
            "rows": list(self.rows),
            "snapshots": [(s.start, s.policy, s.visits) for s in self.snapshots],
            "plan": None if plan is None else {name: getattr(plan, name) for name in Plan.__dataclass_fields__},
        }

    @classmethod
    def restore(cls, agent: Agent, state: dict[str, Any]) -> Learner:
        """A learner that goes on from a state."""
        learner = cls(agent, state["horizon"], state["seed"])
        environment, actions, planning = state["streams"]
        learner.environment.restore(environment)
        learner.actions.restore(actions)
        learner.planning.bit_generator.state = planning
        head, link, target, number, used = state["counts"]
        learner.observed = Counts.of(head, link, target, number, used, agent.problem.S).copy()
        for name in ("visits", "cost_sums", "clock"):
            setattr(learner, name, state[name].copy())
        learner.origin, learner.last_length = state["origin"], state["last_length"]
        learner.carry = dict(state["carry"])
        learner.rows = list(state["rows"])
        learner.kept = [Snapshot(*snapshot).copy() for snapshot in state["snapshots"]]
        if learner.kept:
            learner.newest = learner.kept.pop()
        if state["plan"] is not None:
            learner._adopt(Plan(**state["plan"]))
        return learner
