"""An agent at work: its counts, its current plan, its random streams.

Everything a learner is can be taken out as plain values (`state`) and put back (`restore`) at any step, in another
process, and it goes on bit for bit.

A learner's rules. What breaks one is refused, and leaves the learner as it was.

    in turn        act(s), observe(s, ...), act(s'), ...: a step is observed once, in the state in which its action was
                   asked for. Asked again in the same state, act gives the same action; asked in another state, it
                   forgets the step that was not observed.
    overruled      the action observed may be another than the one asked for: it is the one that is counted. It must be
                   one that the problem has in that state.
    costs          m + 1 numbers in [0, 1], or in the ranges that the problem declares; NaN is none.
    the horizon    after it there is no action and nothing to observe.
    names          states and actions are numbers, or the names that the problem gives them. Where it does not know its
                   states, every hashable value is one, numbered when it is first asked for or moved to. The answer is
                   the name of an action if the problem's actions were given by name, or the state was; else its number.
    new states     in a state that was discovered while a plan lasts the action is uniformly random; plans that end by
                   counts end after it.
    threads        calls from several threads take place one after the other; the rules above hold for all together.

Inside, costs are those of the problem's ranges brought to [0, 1]; see `psconrl.problem`.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psconrl._core import compiling
from psconrl._core.checks import Floats, Ints, short_repr, unavailable, whole
from psconrl._core.lazy import lazy_import
from psconrl._core.pairs import Pairs
from psconrl.agents.contract import Agent, Memory, Plan
from psconrl.agents.counts import Counts
from psconrl.errors import CallOrderError, InvalidArgumentError, LearnerFileError, PsconrlError
from psconrl.learning import files, plans, restoring, saved
from psconrl.learning.described import described
from psconrl.learning.given import chosen, require_agent, step_costs
from psconrl.learning.labels import Labels
from psconrl.learning.parts import Orders, Seen
from psconrl.learning.run import Episode, Snapshot, row_of
from psconrl.learning.streams import streams
from psconrl.planning.steered import FREE, Steered
from psconrl.problem import Problem

if TYPE_CHECKING:
    from psconrl.learning import _kernels as kernels
    from psconrl.learning import estimate as estimation
    from psconrl.learning.estimate import Estimate
    from psconrl.planning.compiled import steering_rule as rule
else:
    estimation = lazy_import("psconrl.learning.estimate")
    rule = lazy_import("psconrl.planning.compiled.steering_rule")
    kernels = lazy_import("psconrl.learning._kernels")

HORIZON = 10**6
"""Steps of a learner that was not told how many there will be."""
REASONS = ("length", "count", "horizon")
SNAPSHOTS = 40

Rows = list[tuple[Any, ...]]


class Learner:
    """Runs one agent, step by step: `a = learner.act(s)`, then `learner.observe(s, a, costs, s_next)`.

    agent: what learns; None: the one that is recommended for the problem. horizon: T, for the agents that need it.
    """

    def __init__(
        self, agent: Agent | None, horizon: int = HORIZON, seed: int = 0, *, problem: Problem | None = None
    ) -> None:
        self.agent = chosen(agent, problem)
        self.horizon, self.seed = whole(horizon, "horizon"), whole(seed, "seed", 0, most=None)
        self.problem = self.agent.problem
        S, A, m = self.problem.S, self.problem.A, self.problem.m
        self.states = Labels(S, self.problem.state_names)
        self.named_actions = Labels(A, self.problem.action_names)
        self.pairs = self.problem.pairs
        self.planner = self.agent if self.problem.open else self.agent.with_problem(self.problem.normalized(S))
        self.environment, self.actions, self.planning = streams(self.seed)
        self.observed = Counts(len(self.states), A, m + 1 if self.agent.tells_moves_apart else 0)
        self.visits: Ints = np.zeros((len(self.states), A), dtype=np.int64)
        self.cost_sums: Floats = np.zeros((m + 1, len(self.states), A))
        self.excess: Floats = np.zeros(m)  # of the limits, as steering counts it
        self.direction: Floats = np.zeros(m)  # in which the plan before was forcing it at its end
        self.clock: Ints = np.array([0, 0, 0, 0, FREE])
        self.current: Plan | None = None
        self.asked: tuple[int, int] | None = None  # the state and the action of the step to be observed next
        self._limits: Floats = np.array(self.problem.normalized(1).thresholds)
        nothing: Ints = np.zeros((0, A), dtype=np.int64)
        self.orders = Orders(np.zeros((1, 0)), 1, nothing, self._limits, None)  # the current plan, as loops read it
        self.origin = 0  # the state in which the current plan was made
        self.last_length = 1
        self.carry: dict[str, NDArray[Any]] = {}
        self.rows: Rows = []  # of the plans that are over
        self.episode = 0  # how many there were; whoever runs for ever drops old rows
        self.kept: list[Snapshot] = []
        self.newest: Snapshot | None = None  # of the current plan, or the last
        self.spacing = float(self.horizon + 1) ** (1.0 / SNAPSHOTS)  # of snapshots, in the logarithm of time
        self._lock = RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Learner.restore, (self.agent, self.state())

    def __repr__(self) -> str:
        averages = ", ".join(f"{average:.4g}" for average in self.average_costs)
        return (
            f"Learner({self.agent.name}, seed {self.seed}, t={self.t} of {self.horizon}, states={len(self.states)}, "
            f"average_costs=[{averages}], episodes={len(self.rows)})"
        )

    @property
    def counts(self) -> Ints:
        """N(s, a, s') as an array (S, A, S), made anew at each call."""
        return self.observed.dense()

    @property
    def t(self) -> int:
        """Steps done."""
        return self.clock.item(0)

    @property
    def state_names(self) -> tuple[Hashable, ...] | None:
        """What the states are called, in the order of their numbers: those seen so far, where they are discovered."""
        return None if self.states.names is None else tuple(self.states.names)

    @property
    def average_costs(self) -> Floats:
        """The averages (m + 1,) of the costs of all steps so far, in the user's units; nan before the first."""
        sums, units = self.cost_sums.sum(axis=(1, 2)), self.problem.units
        total = sums if units is None else units.sums(sums, self.t)
        return np.asarray(total / self.t if self.t else np.full(len(sums), np.nan))

    def _discover(self, *states: Any) -> None:
        """Take in states that were not seen before; nothing that the old arrays hold is changed."""
        offered = [self.problem.available_actions(state) for state in states]
        for state in states:
            self.states.take_in(state)
        if states:
            self.pairs = Pairs(np.concatenate([self.pairs.available, offered]))
        (n, known, A), S = self.cost_sums.shape, len(self.states)
        self.visits = np.concatenate([self.visits, np.zeros((S - known, A), dtype=np.int64)])
        self.cost_sums = np.concatenate([self.cost_sums, np.zeros((n, S - known, A))], axis=1)
        self.observed = self.observed.widened(S)
        if self.current is not None:
            self.orders = plans.extended(self.orders, self.current, self.pairs)

    def _begin(self, s: int) -> Plan:
        """Make the next plan in state s."""
        if self.problem.open and len(self.states) != self.planner.problem.S:
            self.planner = self.agent.with_problem(self.problem.normalized(len(self.states), self.pairs.available))
        t = self.t
        memory = Memory(
            t=t,
            horizon=self.horizon,
            state=s,
            episode=self.episode,
            last_length=self.last_length,
            observed=self.observed,
            visits=self.visits,
            cost_sums=self.cost_sums,
            carry=self.carry,
            pairs=self.planner.problem.pairs,
            excess=self.excess,
        )
        plan = self.planner.plan(memory, self.planning)
        visits = self._adopt(plan, len(self.states))
        self.clock[1], self.clock[4], self.origin = 0, FREE, s
        if self.orders.steered is not None:
            self.clock[4] = rule.take_over(self.orders.steered, self.excess, self.direction, t)
        self._keep_newest()
        self.newest = Snapshot(t, plan.policy, visits)
        return plan

    def _keep_newest(self) -> None:
        """Keep the snapshot of the plan before if it came late enough after the one kept last."""
        newest = self.newest
        if newest is not None and (not self.kept or newest.start + 1 >= (self.kept[-1].start + 1) * self.spacing):
            self.kept.append(newest.copy())

    @property
    def snapshots(self) -> list[Snapshot]:
        """Those that are kept, and the newest one, all with the states that are known by now."""
        found = self.kept if self.newest is None else [*self.kept, self.newest.copy()]
        return [snapshot.widened(self.pairs.uniform) for snapshot in found] if self.problem.open else found

    def _supply(self) -> None:
        """Have random numbers and room for counts at hand, for at least one step."""
        self.observed.room()
        self.environment.ready()
        self.actions.ready()

    def _seen(self) -> Seen:
        """What a loop updates, until there is more room for counts."""
        observed = self.observed
        return Seen(*observed.chains, observed.used, self.visits, self.cost_sums, self.excess, observed.spent)

    def _adopt(self, plan: Plan, S: int) -> Ints:
        """Make a plan for the first S states the current one, if it is sound; a copy of the visits so far."""
        visits, pairs = self.visits, self.pairs
        if len(visits) != S:
            visits, pairs = visits[:S], Pairs(pairs.available[:S])
        orders, visits = plans.orders(plan, visits, pairs, self._limits, self._unavailable)
        self.current, self.orders = plan, orders
        return visits

    def _end(self, reason: int, averages: Floats | None = None) -> None:
        """Close the current plan and write its row."""
        plan = self.current
        assert plan is not None
        self.rows.append(self._row(reason, averages))
        self.episode += 1
        self.last_length = self.rows[-1][1]
        self.carry, self.current = dict(plan.carry), None
        if self.orders.steered is not None:
            self.direction = self._heading(self.orders.steered)

    def _heading(self, steered: Steered) -> Floats:
        """The direction (m,) of the way that is forced, zero if there is none."""
        forced = self.clock.item(4)
        return np.zeros(len(self.excess)) if forced == FREE else steered.directions[forced].copy()

    def _row(self, reason: int, averages: Floats | None = None) -> tuple[Any, ...]:
        """The row of the current plan."""
        plan, length = self.current, self.clock.item(1)
        assert plan is not None
        units = self.problem.units
        if units is not None:
            prices = None if plan.multipliers is None else units.prices(plan.multipliers)
            value = float(units.low[0]) + float(units.width[0]) * float(plan.value)
            plan = replace(plan, value=value, multipliers=prices)
        row = row_of(Episode(plan, self.t - length, length, REASONS[reason]))
        return row if averages is None else (*row, averages)

    def act(self, s: Any) -> Any:
        """The action in state s; a new plan is made first if the last one is over."""
        with self._lock:
            state, named = self.states.find(s, "s")
            if self.asked is None or self.asked[0] != state:
                if self.clock[0] >= self.horizon:
                    raise CallOrderError(f"the horizon of {self.horizon} steps is over; give Learner a longer one")
                self._ask(state, s)
            assert self.asked is not None
            a = self.asked[1]
            return self.named_actions.name(a) if named or self.problem.answers_by_name else a

    def _ask(self, state: int, s: Any) -> None:
        """Choose the action in state number `state`, which is called s."""
        before = self.observed, self.visits, self.cost_sums, self.orders, self.pairs
        new = state == len(self.states)
        if new:
            self._discover(s)
        try:
            if self.current is None and self.episode:
                self._begin(state)
            elif self.current is None:
                with compiling.notify():
                    self._begin(state)
        except BaseException:
            if new:
                self.states.forget_last()
                self.observed, self.visits, self.cost_sums, self.orders, self.pairs = before
            raise
        self.asked = state, self.choose(state, self.actions.random())[0]
        self.clock[2] = state

    def choose(self, state: int, u: float) -> tuple[int, float]:
        """The action of the current plan in a state, and its probability; u: a uniform random number, if chance decides."""
        policy, steered, A = self.orders.policy, self.orders.steered, self.problem.A
        if steered is not None:
            a = rule.act(steered, self.excess, self.clock.item(4), state)
            if a >= 0:
                return int(a), 1.0
        row, first = policy[self.clock.item(1) % len(policy)], state * A
        a = int(kernels.draw(row, first, first + A, u) - first)
        return a, float(row[first + a] - (row[first + a - 1] if a else 0.0))

    def observe(self, s: Any, a: Any, costs: ArrayLike, s_next: Any) -> bool:
        """Take in one step, in the state in which `act` was asked; whether the plan is over after it.

        a: the action that was really taken, which may be another than the one asked for.
        """
        with self._lock:
            if self.asked is None or self.current is None:
                raise CallOrderError("observe a step only after act has chosen its action, and only once")
            state, action = self.states.find(s, "s").number, self.named_actions.find(a, "a").number
            after = self.states.find(s_next, "s_next").number
            if state != self.asked[0]:
                name = self.states.name(self.asked[0])
                raise CallOrderError(
                    f"s is {short_repr(s)}, but act was asked in {short_repr(name)}; call act({short_repr(s)}) first"
                )
            self._check_available(state, action)
            c = step_costs(costs, self.problem)
            if after == len(self.states):
                self._discover(s_next)
            self.asked = None
            self.count(state, action, c, after)
            return self.current is None

    def count(self, state: int, action: int, c: Floats, after: int) -> None:
        """Count a step, with costs (m + 1,) in [0, 1]; the current plan, if there is one, may be over after it."""
        self.observed.add(state, action, after, c)
        self.visits[state, action] += 1
        self.cost_sums[:, state, action] += c
        self.clock[0] += 1
        self.clock[1] += 1
        self.clock[2] = after
        orders = self.orders
        self.excess += c[1:] - orders.limits
        if self.current is None:
            return
        if orders.steered is not None:
            self.clock[4] = rule.after(orders.steered, self.excess, self.clock.item(4), self.t)
        if self.clock[1] >= orders.max_length:
            self._end(0)
        elif self.visits[state, action] > orders.count_limit[state, action]:
            self._end(1)

    def recount(self, moves: Ints, costs: Floats) -> None:
        """Forget all steps but these: moves (n, 3) are states, actions and next states, costs (n, m + 1) in [0, 1]."""
        S, A = self.visits.shape
        row = moves[:, 0] * A + moves[:, 1]
        self.observed = Counts.from_moves(row, moves[:, 2], costs[:, : self.observed.spent.shape[1]], S, A)
        self.visits = np.bincount(row, minlength=S * A).reshape(S, A)
        sums = [np.bincount(row, cost, minlength=S * A).reshape(S, A) for cost in costs.T]
        self.cost_sums = np.ascontiguousarray(sums)

    def _check_available(self, s: int, a: int) -> None:
        """Refuse an action that the problem has not in a state."""
        pairs = self.pairs
        if not (pairs.every or pairs.available[s, a]):
            raise InvalidArgumentError(f"a is wrong: {self._unavailable(s, a)}; give one of the actions that are")

    def _unavailable(self, s: int, a: int) -> str:
        return unavailable(self.states.name(s), self.named_actions.name(a))

    def save(self, path: str | Path) -> None:
        """Write all that this learner is to a .npz file, never pickled, for `Learner.load`.

        Names of discovered states may be text, numbers, True, False, None, bytes and tuples of these.
        """
        files.save(self.state(), path)

    @classmethod
    def load(cls, path: str | Path, agent: Agent) -> Learner:
        """A learner that goes on, bit for bit, from a file that `save` wrote; agent: the one that it was saved with."""
        require_agent(agent)
        state = files.load(path)
        try:
            return cls.restore(agent, state)
        except PsconrlError as error:
            raise LearnerFileError(f"{path}: {error}") from error

    def estimate(self, confidence: float | None = None, *, draws: int = 200, seed: int = 0) -> Estimate:
        """What was learned so far, as a model to be solved; as `Run.estimate`."""
        return estimation.estimate(self.problem, self.state(), confidence, draws, seed)

    def state(self) -> dict[str, Any]:
        """All that this learner is, as plain values that later steps do not change."""
        with self._lock:
            return self._state()

    def _state(self) -> dict[str, Any]:
        plan = self.current
        return {
            "agent": described(self.agent),
            "states": list(self.states.names or ()) if self.states.open else None,
            "horizon": self.horizon,
            "seed": self.seed,
            "streams": [self.environment.state(), self.actions.state(), self.planning.bit_generator.state],
            "counts": (*(array.copy() for array in self.observed.chains), int(self.observed.used[0])),
            "spent": self.observed.spent.copy(),
            "visits": self.visits.copy(),
            "cost_sums": self.cost_sums.copy(),
            "excess": self.excess.copy(),
            "direction": self.direction.copy(),
            "clock": self.clock.copy(),
            "asked": self.asked,
            "origin": self.origin,
            "last_length": self.last_length,
            "carry": {key: value.copy() for key, value in self.carry.items()},
            "rows": list(self.rows),
            "episode": self.episode,
            "snapshots": [(s.start, s.policy, s.visits) for s in self.snapshots],
            "plan": None if plan is None else saved.plain_plan(plan),
        }

    @classmethod
    def restore(cls, agent: Agent, state: Mapping[str, Any]) -> Learner:
        """A learner that goes on from a state; one that is damaged is refused."""
        require_agent(agent)
        state = restoring.whole_state(state, agent)
        learner = cls(agent, state["horizon"], state["seed"])
        restoring.restore(learner, state)
        return learner
