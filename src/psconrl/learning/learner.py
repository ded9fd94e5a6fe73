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

import warnings
from collections.abc import Hashable, Mapping
from dataclasses import replace
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psconrl import agents
from psconrl._core import compiling, display
from psconrl._core.checks import Floats, Ints, range_rule, short_repr, unavailable, whole
from psconrl._core.lazy import lazy_import
from psconrl._core.pairs import Pairs
from psconrl.agents.contract import Agent, Memory, Plan
from psconrl.agents.counts import Counts
from psconrl.errors import (
    CallOrderError,
    InvalidArgumentError,
    InvalidTypeError,
    LearnerFileError,
    LimitsOutOfReachWarning,
    PsconrlError,
)
from psconrl.learning import _kernels as kernels
from psconrl.learning import state_io
from psconrl.learning.labels import Labels
from psconrl.learning.loop_data import CompiledPlan, Statistics, compile_plan, extended_plan, random_streams
from psconrl.learning.run import COLUMNS, Episode, Snapshot, nearest_by_name, row_of
from psconrl.planning.steered import FREE, chosen, settle, take_over
from psconrl.problem import Problem

if TYPE_CHECKING:
    from psconrl.learning import durable, fitting
    from psconrl.learning import estimate as estimation
    from psconrl.learning.durable import DurableLearner
    from psconrl.learning.estimate import Estimate
else:
    durable = lazy_import("psconrl.learning.durable")
    estimation = lazy_import("psconrl.learning.estimate")
    fitting = lazy_import("psconrl.learning.fitting")

HORIZON = 10**6
"""Steps of a learner that was not told how many there will be."""
EXPIRES_AFTER = 7 * 24 * 3600.0
"""Seconds after which a decision without an outcome is reported as expired."""
HISTORY = 10**6
"""Decisions and observations that a durable learner keeps."""
REASONS = ("length", "count", "horizon")
FEASIBLE = [column.name for column in COLUMNS].index("feasible")
SNAPSHOTS = 40
PATIENCE = 300
"""Steps without a model that could meet the limits after which the user is told."""


def require_agent(agent: Any) -> None:
    """Raise InvalidTypeError for what is not an agent."""
    if not isinstance(agent, Agent):
        raise InvalidTypeError(
            f"agent is {short_repr(agent)}; it must be an agent, such as psconrl.agents.PSConRL(problem)"
        )


def agent_for(agent: Agent | None, problem: Problem | None) -> Agent:
    """The agent, or the one that is recommended for the problem."""
    if agent is None and isinstance(problem, Problem):
        return agents.recommended(problem)
    if agent is None:
        raise InvalidTypeError(f"agent is None and problem {short_repr(problem)}; give an agent, or a psconrl.Problem")
    require_agent(agent)
    if problem is not None:
        raise InvalidArgumentError("give either an agent, which has a problem of its own, or a problem; not both")
    return agent


def step_costs(costs: ArrayLike, problem: Problem) -> NDArray[Any]:
    """The costs (m + 1,) of a step, normalized to [0, 1]."""
    c, ranges, units = cost_numbers(costs, problem.m), problem.cost_ranges, problem.units
    low, high = 0.0, 1.0
    for i, x in enumerate(c.tolist()):  # faster than array operations for a few numbers
        if ranges is not None:
            low, high = ranges[i].tolist()
        if not low <= x <= high:
            raise InvalidArgumentError(f"costs[{i}] is {x}; {range_rule(ranges, i)}")
    return c if units is None else units.normalized(c)


def cost_numbers(costs: ArrayLike, m: int) -> NDArray[Any]:
    """The costs (m + 1,) of a step with m limits, numbers of any size."""
    try:
        c = np.asarray(costs)
    except (ValueError, TypeError):
        c = np.array(None)
    if c.dtype.kind not in "biuf" or c.shape != (m + 1,):
        raise InvalidArgumentError(f"costs is {short_repr(costs)}; a step has m + 1 = {m + 1} of them, all numbers")
    return c


class Learner:
    """Runs one agent, step by step: `a = learner.act(s)`, then `learner.observe(s, a, costs, s_next)`.

    Args:
        agent: the agent; None for the recommended one.
        horizon: T, for the agents that need it; `extend` raises it.
        seed: of all random numbers.
        problem: instead of an agent, what is known of the environment.
        log: what `psconrl.fit` returned; the decisions in the log count as steps already taken.

    Attributes:
        agent, horizon, seed, problem: as above.
        visits: N(s, a), (S, A).
        cost_sums: sums of costs, normalized to [0, 1], (m + 1, S, A).
        excess: (m,), sums of costs less their limits, as steering counts them.

    Raises:
        InvalidTypeError: if there is neither an agent nor a problem.
    """

    def __init__(
        self,
        agent: Agent | None,
        horizon: int = HORIZON,
        seed: int = 0,
        *,
        problem: Problem | None = None,
        log: Estimate | None = None,
    ) -> None:
        if agent is None and problem is None and log is not None:
            problem = log.evidence.problem
        self.agent = agent_for(agent, problem)
        self.horizon, self.seed = whole(horizon, "horizon"), whole(seed, "seed", 0, most=None)
        self.problem = self.agent.problem
        S, A, m = self.problem.S, self.problem.A, self.problem.m
        self.states = Labels(S, self.problem.state_names)
        self.action_labels = Labels(A, self.problem.action_names)
        self.pairs = self.problem.pairs
        self.planner = self.agent if self.problem.open else self.agent.with_problem(self.problem.normalized(S))
        self.environment, self.actions, self.planning = random_streams(self.seed)
        self.observed = Counts(len(self.states), A, m + 1 if self.agent.tells_moves_apart else 0)
        self.visits: Ints = np.zeros((len(self.states), A), dtype=np.int64)
        self.cost_sums: Floats = np.zeros((m + 1, len(self.states), A))
        self.excess: Floats = np.zeros(m)  # of the limits, as steering counts it
        self.direction: Floats = np.zeros(m)  # in which the plan before was forcing it at its end
        self.clock: Ints = np.array([0, 0, 0, 0, FREE])
        self.current: Plan | None = None
        self.asked: tuple[int, int] | None = None  # the state and the action of the step to be observed next
        self._limits: Floats = np.array(self.problem.normalized(1).thresholds)
        no_counts: Ints = np.zeros((0, A), dtype=np.int64)
        self.compiled = CompiledPlan(np.zeros((1, 0)), 1, no_counts, self._limits, None)  # the current plan
        self.origin = 0  # the state in which the current plan was made
        self.last_length = 1
        self.carry: dict[str, NDArray[Any]] = {}
        self.rows: list[tuple[Any, ...]] = []  # of the table of episodes, for the plans that are over
        self.episode = 0  # how many there were; whoever runs for ever drops old rows
        self.kept: list[Snapshot] = []
        self.newest: Snapshot | None = None  # of the current plan, or the last
        self.met_at, self.warned = 0, False  # when the limits were last met in a plan; whether the user knows
        self._lock = RLock()
        if log is not None:
            self._take_over(log)

    def _take_over(self, log: Estimate) -> None:
        """Start with the counts and costs of a log, after as many steps."""
        _, belief, costs, state, _ = fitting.require_log(log, self.problem).evidence
        needed = self.observed.spent.shape[1]
        self.observed, self.visits = belief.counts.copy(), log.visits.copy()
        self.observed.spent = np.ascontiguousarray(self.observed.spent[:, :needed])
        self.cost_sums = costs.sums.copy()
        steps = int(self.visits.sum())
        self.horizon += steps
        self.clock[0], self.clock[2] = steps, state

    def __reduce__(self) -> tuple[Any, ...]:
        return Learner.restore, (self.agent, self.state())

    def _repr_html_(self) -> str:
        limits = self.status()["limits"]
        rows = [(name, *limit.values()) for name, limit in limits.items()]
        return display.html_table(repr(self), ("cost", "limit", "average so far", "excess"), rows)

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
            self.compiled = extended_plan(self.compiled, self.current, self.pairs)

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
        self._adopt(plan, len(self.states))
        self.clock[1], self.clock[4], self.origin = 0, FREE, s
        if self.compiled.steered is not None:
            self.clock[4] = take_over(self.compiled.steered, self.excess, self.direction, t)
        self._keep_newest()
        self.newest = Snapshot(t, plan.policy, self.visits.copy())
        return plan

    def _keep_newest(self) -> None:
        """Keep the snapshot of the previous plan if it came late enough after the one kept last."""
        newest, spacing = self.newest, float(self.horizon + 1) ** (1.0 / SNAPSHOTS)  # in the logarithm of time
        if newest is not None and (not self.kept or newest.start + 1 >= (self.kept[-1].start + 1) * spacing):
            self.kept.append(newest.copy())

    @property
    def snapshots(self) -> list[Snapshot]:
        """Those that are kept, and the newest one, all with the states that are known by now."""
        found = self.kept if self.newest is None else [*self.kept, self.newest.copy()]
        return [snapshot.widened(self.pairs.uniform) for snapshot in found] if self.problem.open else found

    def _refill(self) -> None:
        """Have random numbers and room for counts at hand, for at least one step."""
        self.observed.room()
        self.environment.ready()
        self.actions.ready()

    def _statistics(self) -> Statistics:
        """What a loop updates, until there is more room for counts."""
        observed = self.observed
        return Statistics(*observed.chains, observed.used, self.visits, self.cost_sums, self.excess, observed.spent)

    def _adopt(self, plan: Plan, S: int) -> None:
        """Make a plan for the first S states the current one, if it keeps the contract."""
        pairs = self.pairs if len(self.visits) == S else Pairs(self.pairs.available[:S])
        shape = (S, self.problem.A)
        self.compiled = compile_plan(plan, shape, pairs, self._limits, self._unavailable)
        self.current = plan

    def _end(self, reason: int, averages: Floats | None = None) -> None:
        """Close the current plan and write its row."""
        plan = self.current
        assert plan is not None
        self.rows.append(self._row(reason, averages))
        self.episode += 1
        self.last_length = self.rows[-1][1]
        self.carry, self.current = dict(plan.carry), None
        if self.compiled.steered is not None:
            self.direction = self.compiled.steered.direction(self.clock.item(4))
            self.clock[4] = FREE

    def _row(self, reason: int, averages: Floats | None = None) -> tuple[Any, ...]:
        """The row of the current plan."""
        plan, length = self.current, self.clock.item(1)
        assert plan is not None
        units = self.problem.units
        if units is not None:
            prices = None if plan.multipliers is None else units.prices(plan.multipliers)
            value = float(units.low[0]) + float(units.width[0]) * float(plan.value)
            plan = replace(plan, value=value, multipliers=prices, nearest=self._nearest(plan))
        row = row_of(Episode(plan, self.t - length, length, REASONS[reason]))
        return row if averages is None else (*row, averages)

    def _nearest(self, plan: Plan) -> Floats | None:
        """The nearest limits (m,) that the model of a plan could meet, in the user's units; None if it met them."""
        units = self.problem.units
        if plan.nearest is None or units is None:
            return plan.nearest
        return np.asarray(units.low[1:] + units.width[1:] * plan.nearest)

    def _warn_of_conflict(self) -> None:
        """Tell the user, once, if for some hundred steps no model that was planned in could meet the limits."""
        plan = self.current
        if plan is None or plan.feasible or plan.nearest is None:
            self.met_at = self.t
        elif self.t - self.met_at >= PATIENCE and not self.warned:
            self.warned = True
            nearest = nearest_by_name(self._nearest(plan), self.problem)
            warnings.warn(
                f"the limits on {' and '.join(nearest)} seem out of reach: no model believed in for {PATIENCE} steps "
                f"could meet them all. About {', '.join(f'{name} {limit:.4g}' for name, limit in nearest.items())} can "
                "be met, and is what the agent aims at; loosen the limits",
                LimitsOutOfReachWarning,
                stacklevel=4,
            )

    def episode_rows(self, averages: Floats | None = None) -> list[tuple[Any, ...]]:
        """The rows of all plans; averages (m + 1,) are those of a plan that is under way."""
        if self.current is None:
            return list(self.rows)
        return [*self.rows, self._row(REASONS.index("horizon"), averages)]

    def act(self, s: Any) -> Any:
        """The action in state s; a new plan is made first if the last one is over.

        Args:
            s: the state, by number or by name.

        Returns:
            The action: by name if the actions or the state were given by name, else by number.

        Raises:
            CallOrderError: after the horizon.
            InvalidArgumentError: if there is no such state.
        """
        with self._lock:
            state, named = self.states.find(s, "s")
            if self.asked is None or self.asked[0] != state:
                if self.clock[0] >= self.horizon:
                    raise CallOrderError(f"the horizon of {self.horizon} steps is over; give Learner a longer one")
                self._ask(state, s)
            assert self.asked is not None
            a = self.asked[1]
            return self.action_labels.name(a) if named or self.problem.answers_by_name else a

    def _ask(self, state: int, s: Any) -> None:
        """Choose the action in state number `state`, which is called s."""
        before = self.observed, self.visits, self.cost_sums, self.compiled, self.pairs
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
                self.observed, self.visits, self.cost_sums, self.compiled, self.pairs = before
            raise
        self.asked = state, self._choose(state, self.actions.random())[0]
        self.clock[2] = state
        self._warn_of_conflict()

    def _choose(self, state: int, u: float) -> tuple[int, float]:
        """The action of the current plan in a state, and its probability; u: a uniform random number."""
        policy, steered, A = self.compiled.policy, self.compiled.steered, self.problem.A
        if steered is not None:
            a = chosen(steered, self.excess, self.clock.item(4), state)
            if a >= 0:
                return int(a), 1.0
        row, first = policy[self.clock.item(1) % len(policy)], state * A
        a = int(kernels.draw(row, first, first + A, u) - first)
        # The sums so far end above one, for drawing.
        return a, float(min(row[first + a], 1.0) - (row[first + a - 1] if a else 0.0))

    def observe(self, s: Any, a: Any, costs: ArrayLike, s_next: Any) -> bool:
        """Learn from one step, in the state in which `act` was called.

        Args:
            s: the state in which `act` was called.
            a: the action that was really taken, which may be another than the one chosen.
            costs: (m + 1,), in the problem's ranges.
            s_next: the next state.

        Returns:
            Whether the plan is over after it.

        Raises:
            CallOrderError: if `act` was not called in this state, or the step was observed before.
            InvalidArgumentError: if there is no such state, action or cost.
        """
        with self._lock:
            if self.asked is None or self.current is None:
                raise CallOrderError("observe a step only after act has chosen its action, and only once")
            state, action = self.states.find(s, "s").number, self.action_labels.find(a, "a").number
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
            self._count(state, action, c, after)
            return self.current is None

    def _count(self, state: int, action: int, c: Floats, after: int) -> None:
        """Count a step, with costs (m + 1,) in [0, 1]; the current plan, if there is one, may be over after it."""
        self.observed.add(state, action, after, c)
        self.visits[state, action] += 1
        self.cost_sums[:, state, action] += c
        self.clock[0] += 1
        self.clock[1] += 1
        self.clock[2] = after
        plan = self.compiled
        self.excess += c[1:] - plan.limits
        if self.current is None:
            return
        if plan.steered is not None:
            self.clock[4] = settle(plan.steered, self.excess, self.clock.item(4), self.t)
        if self.clock[1] >= plan.max_length:
            self._end(0)
        elif self.visits[state, action] > plan.count_limit[state, action]:
            self._end(1)

    def _recount(self, moves: Ints, costs: Floats) -> None:
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
        return unavailable(self.states.name(s), self.action_labels.name(a))

    def extend(self, horizon: int) -> None:
        """Go on past the horizon.

        Args:
            horizon: the new number of steps in all; agents that need it plan with it from their next plan on.

        Raises:
            InvalidArgumentError: if it is below the old one.
        """
        with self._lock:
            self.horizon = whole(horizon, "horizon", self.horizon)

    def status(self) -> dict[str, Any]:
        """How learning goes, as plain values.

        Returns:
            "steps" done and the "horizon"; "limits", by name: the "limit", the "average" so far (None before the first
            step) and the "excess", the sum of what was above the limit less what was below;
            "plans" made, "infeasible_plans" of these, in whose model the limits could not all be met, and "conflict",
            the names of the limits that cannot hold together in the model of the current plan, with the "nearest" that
            can, by name.
        """
        with self._lock:
            averages, names = self.average_costs[1:].tolist(), self.problem.cost_names[1:]
            nearest = nearest_by_name(None if self.current is None else self._nearest(self.current), self.problem)
            feasible = [row[FEASIBLE] for row in self.rows]
            if self.current is not None:
                feasible.append(self.current.feasible)
            return {
                "steps": self.t,
                "horizon": self.horizon,
                "limits": {
                    name: {
                        "limit": limit,
                        "average": average if self.t else None,
                        "excess": (average - limit) * self.t if self.t else 0.0,
                    }
                    for name, limit, average in zip(names, self.problem.thresholds.tolist(), averages, strict=True)
                },
                "plans": self.episode + (self.current is not None),
                "infeasible_plans": feasible.count(False),
                "conflict": list(nearest),
                "nearest": nearest,
            }

    def save(self, path: str | Path) -> None:
        """Write the complete state of this learner to a file, for `Learner.load`.

        Args:
            path: must end in .npz; nothing is pickled. Names of discovered states may be text, numbers, True, False,
                None, bytes and tuples of these.

        Raises:
            InvalidTypeError: if the name of a state is none of these.
            WriteError: if the file cannot be written; what was there before stays.
        """
        state_io.save(self.state(), path)

    @classmethod
    def load(cls, path: str | Path, agent: Agent) -> Learner:
        """A learner that continues, bit for bit, from a file that `save` wrote.

        Args:
            path: the file.
            agent: the one that it was saved with.

        Raises:
            LearnerFileError: if the file is damaged, or belongs to another agent.
        """
        require_agent(agent)
        state = state_io.load(path)
        try:
            return cls.restore(agent, state)
        except PsconrlError as error:
            raise LearnerFileError(f"{path}: {error}") from error

    @classmethod
    def open(
        cls,
        path: str | Path,
        agent: Agent | None = None,
        *,
        problem: Problem | None = None,
        seed: int = 0,
        horizon: int | None = None,
        expires_after: float = EXPIRES_AFTER,
        history: int = HISTORY,
        window: int | None = None,
    ) -> DurableLearner:
        """A durable learner in a database: `ask` it for decisions, `tell` it their outcomes whenever they are known.

        Args:
            path: a file (SQLite), or `postgresql://USER@HOST/DATABASE` for several processes that share a learner. An
                existing learner is resumed; otherwise a new one is created.
            agent: the agent; None for the recommended one.
            problem: the problem, if no agent is given.
            seed: chooses all random numbers of a new learner.
            horizon: how many steps there will be, for agents that need to know.
            expires_after: seconds after which a decision without an outcome is reported as expired; a week by default.
            history: how many decisions and observations are kept; a million by default.
            window: plan with only this many latest steps; by default nothing is forgotten.

        Returns:
            The learner, with `ask`, `tell`, `observe`, `cancel`, `pending`, `status`, `estimate`, `export`, `close`.

        Raises:
            StoreError: if the database cannot be reached, or another process has the file.
            LearnerFileError: if it is damaged.
            InvalidArgumentError: if it belongs to another agent or problem.
        """
        agent = agent_for(agent, problem)
        return durable.DurableLearner(
            durable.open_store(path), agent, seed, horizon, expires_after=expires_after, history=history, window=window
        )

    def estimate(self, confidence: float | None = None, *, draws: int = 200, seed: int = 0) -> Estimate:
        """What was learned so far, as a model to solve; as `Run.estimate`."""
        return estimation.estimate(self.problem, self.state(), confidence, draws, seed)

    def state(self) -> dict[str, Any]:
        """The complete state of this learner, as plain values that later steps do not change."""
        with self._lock:
            return state_io.state_of(self)

    @classmethod
    def restore(cls, agent: Agent, state: Mapping[str, Any]) -> Learner:
        """A learner that continues, bit for bit, from a state.

        Args:
            agent: the one that the state belongs to.
            state: what `state` gave, or `run.state["learner"]`.

        Raises:
            InvalidArgumentError: if the state is damaged, or belongs to another agent; the message names the part.
        """
        require_agent(agent)
        state = state_io.validated(state, agent)
        learner = cls(agent, state["horizon"], state["seed"])
        state_io.restore(learner, state)
        return learner
