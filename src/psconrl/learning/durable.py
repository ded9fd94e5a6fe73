"""A learner that lives in a database: decisions are asked for, and answered whenever the answer is known.

    d = learner.ask(state, stream="ward-7")       an action, under a number that is stored before it is handed out
    learner.tell(d.id, costs, next_state)         what came of it: in any order, late, twice (the second does nothing)
    learner.observe(s, a, costs, s_next)          a step that somebody else decided

What returned is stored; what is stored is counted once. Every process that opens a store rebuilds the same learner from
it: the last checkpoint, which is written when a plan is made, and the observations after it. The random numbers of a
decision and of a plan are functions of the seed and of their number, so a learner that was killed goes on as one that
was not. Whoever is asked when a plan is over makes the next one, while it holds the store's write lock.

Costs are told when they are known, and plans end by what was told, not by what was asked: with answers that come late,
more decisions are made by the same plan. All streams share counts, limits and plans.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from psconrl._core import checks, compiling
from psconrl._core.checks import Floats, short_repr, whole
from psconrl.agents.contract import FOREVER, Agent
from psconrl.errors import CallOrderError, InvalidArgumentError, LearnerFileError, PsconrlError, StoreError
from psconrl.io import writing
from psconrl.learning import state_io
from psconrl.learning.drift import FALSE_ALARM_RATE, DriftMonitor
from psconrl.learning.learner import Learner, agent_for, step_costs
from psconrl.learning.store import Store, checksum, open_store
from psconrl.problem import Problem

if TYPE_CHECKING:
    from psconrl.learning.estimate import Estimate

HISTORY = 10**6
"""Decisions and observations that are kept; older ones live on in the counts."""
EXPIRES_AFTER = 7 * 24 * 3600.0
"""Seconds after which a decision that was not answered is reported as expired."""
BATCH = 10_000
"""Observations that are read at a time."""
CHECKPOINT_EVERY = 10_000
"""Observations between checkpoints, at the most: what is replayed when a store is opened."""
HOURS = 14 * 24
"""Hours for which totals are kept."""
MOST_STREAMS = 1000
"""Streams that are counted one by one; steps of further ones are counted under "other"."""
MOST_LETTERS = 200
"""Of the name of a stream or a request."""
CANCELLED = -1
"""Stands in a decision for the observation that will not come."""


@dataclass(frozen=True)
class Decision:
    """An action that was chosen.

    Attributes:
        id: the number under which to tell what came of it.
        action: by name if the problem's actions were given by name, else by number.
        probability: with which it was chosen, given what is known; 1 if the excess of the limits decided.
        state: in which it was asked for, named as the action is.
        stream: for whom.
        plan: the number of the plan that chose it.
        asked, expires: when it was asked for, and when it is reported as unanswered.
    """

    id: int
    action: Any
    probability: float
    state: Any
    stream: str
    plan: int
    asked: datetime
    expires: datetime


class DurableLearner:
    """A learner in a store; `psconrl.Learner.open` makes it. Safe for threads, and a context manager."""

    def __init__(
        self,
        store: Store,
        agent: Agent,
        *,
        seed: int = 0,
        horizon: int | None = None,
        expires_after: float = EXPIRES_AFTER,
        history: int = HISTORY,
        window: int | None = None,
    ) -> None:
        self.agent, self.problem, self.store = agent, agent.problem, store
        self.expires_after = checks.real(expires_after, "expires_after", "a number of seconds > 0", lambda x: x > 0)
        self.history = whole(history, "history", CHECKPOINT_EVERY)
        self.window = None if window is None else whole(window, "window", 1, self.history)
        if horizon is None and agent.needs_horizon:
            raise InvalidArgumentError(f"{agent.name} needs a horizon; give horizon=, or take another agent")
        self.horizon = FOREVER if horizon is None else whole(horizon, "horizon")
        self._lock = RLock()
        self._now = 0.0
        with store.change():
            if store.is_new():
                store.create(json.dumps(self._description()), whole(seed, "seed", 0, most=None))
        description, self.seed = store.described()
        state_io.check_owner(json.loads(description)["agent"], self.agent)
        _, self._actions, self._planning = np.random.SeedSequence(self.seed).spawn(3)
        self._key = self._actions.generate_state(2, np.uint64)
        self._replica: _Replica | None = None
        self._current()
        self._warm_up()

    @classmethod
    def open(
        cls, path: str | Path, agent: Agent | None = None, *, problem: Problem | None = None, **settings: Any
    ) -> DurableLearner:
        """The learner in a store, or a new one; see `psconrl.Learner.open`."""
        agent = agent_for(agent, problem)
        store = open_store(path)
        try:
            return cls(store, agent, **settings)
        except BaseException:
            store.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DurableLearner({self.agent.name}, {self.store.where!r})"

    def close(self) -> None:
        """Write a checkpoint and give the store back; calls after it are refused."""
        with self._lock:
            if self._replica is not None and self.store.usable:
                try:
                    with self._change() as replica:
                        self._write_checkpoint(replica)
                except PsconrlError:  # what was told is stored in any case
                    pass
            self.store.close()
            self._replica = None

    # --- asking and telling ---

    def ask(self, state: Any, stream: str = "", *, request: str | None = None) -> Decision:
        """Choose an action.

        Args:
            state: a state of the problem, by number or name; where states are discovered, any hashable value.
            stream: who asks; streams share all that is learned.
            request: a name for this question: asked again under the same name, the same decision is given.

        Returns:
            The decision, which is stored by now.

        Raises:
            InvalidArgumentError: if there is no such state.
            StoreError: if it could not be stored; nothing was decided.
        """
        stream = _label(stream, "stream")
        request = None if request is None else _label(request, "request")
        with self._lock:
            with self._change() as replica:
                known = None if request is None else self._decided(request)
                if known is not None:
                    return known
                learner = replica.learner
                if learner.t >= self.horizon:
                    raise CallOrderError(
                        f"the horizon of {self.horizon} steps is over; open the store with a longer one"
                    )
                number = self._number(replica, state, "state")
                if learner.current is None:
                    self._plan(replica, number)
                id = replica.decisions
                action, probability = learner._choose(number, self._uniform(id))
                asked = self._time()
                row = (id, stream, number, action, probability, replica.plans, asked, asked + self.expires_after)
                self.store.run("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL, ?)", *row, request)
                self.store.run("UPDATE learner SET decisions = ?", id + 1)
                replica.decisions = id + 1
            return self._decision(row)

    def tell(self, id: int, costs: ArrayLike, next_state: Any) -> bool:
        """Say what came of a decision.

        Args:
            id: the decision's number.
            costs: the m + 1 costs of the step, in the problem's units.
            next_state: where it led.

        Returns:
            Whether it counts: False if this decision was answered before.

        Raises:
            InvalidArgumentError: if there is no such decision, state or cost.
            CallOrderError: if the decision was cancelled.
            StoreError: if it could not be stored; tell it again.
        """
        id = whole(id, "id", 0)
        step_costs(costs, self.problem)
        with self._lock, self._change() as replica:
            rows = self.store.run("SELECT observation, stream, state, action FROM decisions WHERE id = ?", id)
            if not rows:
                raise self._no_such(id)
            observation, stream, state, action = rows[0]
            if observation == CANCELLED:
                raise CallOrderError(f"decision {id} was cancelled; if it was carried out after all, use observe")
            if observation is None:
                after = self._number(replica, next_state, "next_state")
                self._record(replica, id, stream, state, action, costs, after)
            return observation is None

    def observe(self, s: Any, a: Any, costs: ArrayLike, s_next: Any, stream: str = "") -> None:
        """Take in a step that somebody else decided.

        Args:
            s: the state. a: the action that was taken in it.
            costs: the m + 1 costs of the step, in the problem's units.
            s_next: where it led.
            stream: whose step it was.

        Raises:
            InvalidArgumentError: if there is no such state, action or cost.
            StoreError: if it could not be stored; nothing was counted.
        """
        stream = _label(stream, "stream")
        step_costs(costs, self.problem)
        with self._lock, self._change() as replica:
            action = replica.learner.action_labels.find(a, "a").number
            state = self._number(replica, s, "s")
            replica.learner._check_available(state, action)
            self._record(replica, None, stream, state, action, costs, self._number(replica, s_next, "s_next"))

    def cancel(self, id: int) -> bool:
        """Take a decision back that was not carried out.

        Returns:
            Whether it was pending.
        """
        id = whole(id, "id", 0)
        with self._lock, self._change():
            rows = self.store.run("SELECT observation FROM decisions WHERE id = ?", id)
            if not rows:
                raise self._no_such(id)
            if rows[0][0] is None:
                self.store.run("UPDATE decisions SET observation = ? WHERE id = ?", CANCELLED, id)
            return rows[0][0] is None

    # --- what it knows ---

    def pending(self, most: int = 1000) -> list[Decision]:
        """The decisions that were not answered yet, the oldest first, expired ones included."""
        with self._lock:
            self._follow()
            rows = self.store.run(
                "SELECT id, stream, state, action, probability, plan, asked, expires FROM decisions "
                "WHERE observation IS NULL ORDER BY id LIMIT ?",
                whole(most, "most"),
            )
            return [self._decision(row) for row in rows]

    def status(self) -> dict[str, Any]:
        """How it stands, as plain values.

        Returns:
            "steps", "decisions", "plans", "infeasible_plans", "conflict" (limits that the last plan could not meet
            together) and "nearest" (by name, those that it could), "average_costs", "limits" (by name, "limit",
            "average" and "excess"), "pending", "expired", "forgotten", "oldest_pending", "drift", "hours", "streams".
        """
        with self._lock:
            replica = self._follow()
            return _status(self.store, self._description(), replica.ledger, replica.notes(), self._time())

    def estimate(self, confidence: float | None = None, *, draws: int = 200, seed: int = 0) -> Estimate:
        """What was learned so far, as a model to be solved; as `Learner.estimate`."""
        with self._lock:
            learner = Learner.restore(self.agent, self._follow().learner.state())
        return learner.estimate(confidence, draws=draws, seed=seed)

    def policy(self) -> tuple[list[Hashable], list[Hashable], Floats]:
        """States, actions and the probabilities (S, A) with which the current plan chooses them."""
        with self._lock:
            learner = self._follow().learner
            states = [learner.states.name(s) for s in range(len(learner.states))]
            actions = [learner.action_labels.name(a) for a in range(self.problem.A)]
            if learner.current is None:
                return states, actions, np.array(learner.pairs.uniform)
            policy = learner.compiled.policy[learner.clock.item(1) % len(learner.compiled.policy)]
            cumulative = np.minimum(policy, 1.0).reshape(len(states), len(actions))
            return states, actions, np.diff(cumulative, axis=1, prepend=0.0)

    def export(self, path: str | Path) -> int:
        """Write the observations that are kept as a table, .csv or .parquet.

        Returns:
            How many rows were written.
        """
        with self._lock:
            self._current()
            return _export(self.store, self._description(), path)

    # --- inside ---

    def _description(self) -> dict[str, Any]:
        """The agent, and what is needed to read the store without it."""
        problem = self.problem
        return {
            "agent": state_io.description(self.agent),
            "name": self.agent.name,
            "cost_names": list(problem.cost_names),
            "thresholds": problem.thresholds.tolist(),
            "states": None if problem.state_names is None else [state_io.to_text(n) for n in problem.state_names],
            "A": problem.A,
            "actions": None if problem.action_names is None else [state_io.to_text(n) for n in problem.action_names],
        }

    def _time(self) -> float:
        """Seconds since 1970, which never go back although a clock may."""
        self._now = max(self._now, time.time())
        return self._now

    def _uniform(self, id: int) -> float:
        """The random number of a decision."""
        return float(np.random.Generator(np.random.Philox(key=self._key, counter=id)).random())

    @contextmanager
    def _change(self) -> Iterator[_Replica]:
        """A transaction, with a replica that knows all that was stored; a replica that ran ahead is thrown away."""
        try:
            with self.store.change():
                yield self._follow()
        except BaseException:
            self._replica = None
            raise

    def _current(self) -> _Replica:
        """The replica; made anew from the store if there is none."""
        if self._replica is None:
            if not self.store.usable:
                raise CallOrderError("the learner was closed; open it again")
            self._replica = self._load()
        return self._replica

    def _follow(self) -> _Replica:
        """The replica, after all that others stored since it was looked at last."""
        replica = self._current()
        if self.store.shared:
            decisions, observations, plans, states = self.store.counters()
            if plans != replica.plans:
                replica = self._replica = self._load()
            else:
                self._catch_up(replica, observations, states)
            replica.decisions = decisions
        return replica

    def _load(self) -> _Replica:
        decisions, observations, plans, states = self.store.counters()
        state = _read_checkpoint(self.store)
        if state is None:
            replica = _Replica(Learner(self.agent, self.horizon, self.seed))
        else:
            replica = _Replica(Learner.restore(self.agent, state["learner"]))
            replica.learner.horizon = self.horizon
            replica.monitor.restore(state["drift"])
            replica.ledger.restore(state["ledger"])
            replica.observations, replica.plans, replica.infeasible, replica.nearest = state["notes"]
        replica.decisions, replica.checkpoint = decisions, replica.observations
        self._catch_up(replica, observations, states)
        if replica.plans != plans:
            raise LearnerFileError(f"{self.store.where}: its checkpoint is of another plan; restore it from a backup")
        return replica

    def _catch_up(self, replica: _Replica, observations: int, states: int) -> None:
        known = len(replica.learner.states)
        if self.problem.open and states > known:
            for (name,) in self.store.run("SELECT name FROM states WHERE number >= ? ORDER BY number", known):
                replica.learner._discover(state_io.from_text(name))
        if observations > replica.observations:
            for number, _, stream, s, a, costs, x, seen in _observations(self.store, replica.observations):
                if number != replica.observations:
                    raise LearnerFileError(f"{self.store.where}: observation {replica.observations} is missing")
                replica.apply(stream, s, a, json.loads(costs), x, seen)

    def _number(self, replica: _Replica, state: Any, what: str) -> int:
        """The number of a state; one that is new is stored."""
        learner = replica.learner
        number = learner.states.find(state, what).number
        if number == len(learner.states):
            text = state_io.to_text(checks.hashable(state, what))
            self.store.run("INSERT INTO states VALUES (?, ?)", number, text)
            self.store.run("UPDATE learner SET states = ?", number + 1)
            learner._discover(state)
        return number

    def _plan(self, replica: _Replica, number: int) -> None:
        """Make the next plan, and store it with all that it was made from."""
        learner = replica.learner
        if self.window is not None and learner.t > self.window:
            rows = self.store.run(
                "SELECT state, action, next_state, costs FROM observations WHERE number >= ? ORDER BY number",
                replica.observations - self.window,
            )
            learner._recount(
                np.array([row[:3] for row in rows], dtype=np.int64),
                np.array([step_costs(json.loads(row[3]), self.problem) for row in rows]),
            )
        learner.planning = np.random.default_rng(
            np.random.SeedSequence(self.seed, spawn_key=(*self._planning.spawn_key, replica.plans))
        )
        plan = learner._begin(number)
        replica.plans += 1
        replica.infeasible += not plan.feasible
        replica.nearest = learner.status()["nearest"]
        learner.rows, learner.kept = learner.rows[-1:], []  # a learner that runs for ever keeps no history of plans
        self.store.run("UPDATE learner SET plans = ?", replica.plans)
        self._write_checkpoint(replica)

    def _write_checkpoint(self, replica: _Replica) -> None:
        document, data = state_io.pack(
            {
                "learner": replica.learner.state(),
                "drift": replica.monitor.state(),
                "ledger": replica.ledger.state(),
                "notes": [replica.observations, replica.plans, replica.infeasible, replica.nearest],
            }
        )
        self.store.run("DELETE FROM checkpoint")
        self.store.run("INSERT INTO checkpoint VALUES (?, ?, ?)", document, data, zlib.crc32(document + data))
        replica.checkpoint = replica.observations
        self._forget_oldest(replica)

    def _forget_oldest(self, replica: _Replica) -> None:
        """Keep the store bounded: what is older than the history lives on in the counts."""
        self.store.run("DELETE FROM observations WHERE number < ?", replica.observations - self.history)
        oldest = replica.decisions - self.history
        if oldest > 0:
            lost = self.store.run("SELECT count(*) FROM decisions WHERE id < ? AND observation IS NULL", oldest)[0][0]
            self.store.run("DELETE FROM decisions WHERE id < ?", oldest)
            self.store.run("UPDATE learner SET forgotten = forgotten + ?", lost)

    def _record(
        self,
        replica: _Replica,
        decision: int | None,
        stream: str,
        state: int,
        action: int,
        costs: ArrayLike,
        after: int,
    ) -> None:
        """Store a step and count it."""
        number, seen = replica.observations, self._time()
        told = np.asarray(costs, dtype=np.float64).tolist()
        row = [number, decision, stream, state, action, json.dumps(told), after, seen]
        self.store.run("INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", *row, checksum(row))
        self.store.run("UPDATE learner SET observations = ?", number + 1)
        if decision is not None:
            self.store.run("UPDATE decisions SET observation = ? WHERE id = ?", number, decision)
        replica.apply(stream, state, action, told, after, seen)
        if replica.observations - replica.checkpoint >= CHECKPOINT_EVERY:
            self._write_checkpoint(replica)

    def _decided(self, request: str) -> Decision | None:
        """The decision that was given under the name of a request."""
        rows = self.store.run(
            "SELECT id, stream, state, action, probability, plan, asked, expires FROM decisions WHERE request = ?",
            request,
        )
        return self._decision(rows[0]) if rows else None

    @staticmethod
    def _no_such(id: int) -> InvalidArgumentError:
        return InvalidArgumentError(f"id is {id}; no such decision is kept; give one that ask gave")

    def _decision(self, row: tuple[Any, ...]) -> Decision:
        id, stream, state, action, probability, plan, asked, expires = row
        learner, by_name = self._current().learner, self.problem.answers_by_name
        return Decision(
            id=id,
            action=learner.action_labels.name(action) if by_name else action,
            probability=probability,
            state=learner.states.name(state) if by_name or self.problem.open else state,
            stream=stream,
            plan=plan,
            asked=_moment(asked),
            expires=_moment(expires),
        )

    def _warm_up(self) -> None:
        """Have everything compiled that planning and counting need, so that nobody waits for it."""
        if not self.problem.open:
            ranges = self.problem.cost_ranges
            twin = Learner(self.agent, self.horizon, self.seed)
            with compiling.notify():
                twin.observe(0, twin.act(0), np.zeros(self.problem.m + 1) if ranges is None else ranges[:, 0], 0)


class _Replica:
    """A learner, and what is told of it besides, after a number of observations."""

    def __init__(self, learner: Learner) -> None:
        problem = learner.problem
        self.learner = learner
        self.monitor = DriftMonitor(problem.A, problem.m)
        self.ledger = _Ledger(problem.m + 1)
        self.decisions = self.observations = self.plans = self.checkpoint = self.infeasible = 0
        self.nearest: dict[str, float] = {}

    def apply(self, stream: str, s: int, a: int, costs: list[float], x: int, seen: float) -> None:
        """Count a step."""
        c = step_costs(costs, self.learner.problem)
        self.learner._count(s, a, c, x)
        self.observations += 1
        self.monitor.add(s, a, x, c, self.observations)
        self.ledger.add(stream, costs, seen)

    def notes(self) -> dict[str, Any]:
        """What is told of plans and changes of the environment."""
        return _notes(self.plans, self.infeasible, self.nearest, self.monitor)


def _notes(plans: int, infeasible: int, nearest: dict[str, float], monitor: DriftMonitor) -> dict[str, Any]:
    pairs = [divmod(pair, monitor.A) for pair in monitor.pairs]
    drift = {"alarms": list(monitor.alarms), "pairs": pairs, "false_alarm_rate": FALSE_ALARM_RATE}
    return {
        "plans": plans,
        "infeasible_plans": infeasible,
        "conflict": list(nearest),
        "nearest": nearest,
        "drift": drift,
    }


class _Ledger:
    """Totals of costs, in all and by hour, and steps by hour and stream; hours of the latest weeks."""

    def __init__(self, costs: int) -> None:
        self.steps, self.sums = 0, [0.0] * costs
        self.totals: dict[int, list[float]] = {}
        self.streams: dict[str, dict[int, int]] = {}

    def add(self, stream: str, costs: list[float], seen: float) -> None:
        """Count a step."""
        self.steps += 1
        self.sums = [total + cost for total, cost in zip(self.sums, costs, strict=True)]
        hour = int(seen // 3600)
        totals = self.totals.get(hour)
        if totals is None:
            totals = self.totals[hour] = [0.0] * (1 + len(costs))
            for old in [hours for hours in self.totals if hours <= hour - HOURS]:
                del self.totals[old]
            for steps in self.streams.values():
                for old in [hours for hours in steps if hours <= hour - HOURS]:
                    del steps[old]
        totals[0] += 1
        for i, cost in enumerate(costs, 1):
            totals[i] += cost
        if stream not in self.streams and len(self.streams) >= MOST_STREAMS:
            stream = "other"
        steps = self.streams.setdefault(stream, {})
        steps[hour] = steps.get(hour, 0) + 1

    def hours_status(self) -> list[dict[str, Any]]:
        """Steps and average costs of each hour."""
        return [
            {
                "hour": _moment(hour * 3600).isoformat(),
                "steps": int(steps),
                "average_costs": [total / steps for total in sums],
            }
            for hour, (steps, *sums) in sorted(self.totals.items())
        ]

    def streams_status(self) -> dict[str, dict[str, int]]:
        """Steps of each stream by hour."""
        return {
            stream: {_moment(hour * 3600).isoformat(): steps for hour, steps in sorted(by_hour.items())}
            for stream, by_hour in sorted(self.streams.items())
        }

    def state(self) -> list[Any]:
        """All that it is, as plain values."""
        return [
            [self.steps, *self.sums],
            [[hour, *totals] for hour, totals in self.totals.items()],
            [[stream, [[hour, steps] for hour, steps in by_hour.items()]] for stream, by_hour in self.streams.items()],
        ]

    def restore(self, state: list[Any]) -> None:
        """Go on from a state."""
        self.steps, *self.sums = state[0]
        self.totals = {hour: list(totals) for hour, *totals in state[1]}
        self.streams = {stream: dict(by_hour) for stream, by_hour in state[2]}


def _label(text: Any, what: str) -> str:
    """A short text, or InvalidArgumentError."""
    if not isinstance(text, str) or len(text) > MOST_LETTERS or "\0" in text:
        raise InvalidArgumentError(f"{what} is {short_repr(text)}; it must be text of at most {MOST_LETTERS} letters")
    return text


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def read_status(url: str | Path) -> dict[str, Any]:
    """How the learner in a store stands, also while another process has it; see `DurableLearner.status`.

    Raises:
        StoreError: if there is none, or it cannot be reached.
    """
    with _reading(url) as store:
        description, _ = store.described()
        said = json.loads(description)
        state, m = _read_checkpoint(store), len(said["thresholds"])
        ledger, monitor = _Ledger(m + 1), DriftMonitor(said["A"], m)
        notes: list[Any] = [0, 0, 0, {}]
        if state is not None:
            ledger.restore(state["ledger"])
            monitor.restore(state["drift"])
            notes = state["notes"]
        for _, _, stream, _, _, costs, _, seen in _observations(store, notes[0]):
            ledger.add(stream, json.loads(costs), seen)
        return _status(store, said, ledger, _notes(notes[1], notes[2], notes[3], monitor), time.time())


def export_log(url: str | Path, path: str | Path) -> int:
    """Write the observations that a store keeps as a table, .csv or .parquet; how many."""
    with _reading(url) as store:
        return _export(store, json.loads(store.described()[0]), path)


@contextmanager
def _reading(url: str | Path) -> Iterator[Store]:
    store = open_store(url, read_only=True)
    try:
        if store.is_new():
            raise StoreError(f"{store.where}: there is no learner in it")
        yield store
    finally:
        store.close()


def _read_checkpoint(store: Store) -> Any:
    """What the checkpoint holds, None before the first."""
    rows = store.run("SELECT document, data, crc FROM checkpoint")
    if not rows:
        return None
    document, data, crc = rows[0]
    if zlib.crc32(document + data) != crc:
        raise LearnerFileError(f"{store.where}: its checkpoint is damaged: checksum mismatch; restore it from a backup")
    return state_io.unpack(document, data, f"{store.where}: ")


def _observations(store: Store, first: int) -> Iterator[tuple[Any, ...]]:
    """The observations from a number on, in their order."""
    while True:
        rows = store.run(
            "SELECT number, decision, stream, state, action, costs, next_state, seen, crc FROM observations "
            "WHERE number >= ? ORDER BY number LIMIT ?",
            first,
            BATCH,
        )
        for *row, crc in rows:
            if checksum(row) != crc:
                raise LearnerFileError(f"{store.where}: observation {row[0]} is damaged: checksum mismatch; restore it")
            yield tuple(row)
        if len(rows) < BATCH:
            return
        first = rows[-1][0] + 1


def _status(store: Store, said: dict[str, Any], ledger: _Ledger, notes: dict[str, Any], now: float) -> dict[str, Any]:
    pending, expired, oldest = store.run(
        "SELECT count(*), coalesce(sum(CASE WHEN expires < ? THEN 1 ELSE 0 END), 0), min(asked) "
        "FROM decisions WHERE observation IS NULL",
        now,
    )[0]
    steps, names = ledger.steps, said["cost_names"]
    states, actions = _names(store, said)
    averages = [total / steps if steps else None for total in ledger.sums]
    return {
        "agent": said["name"],
        "steps": steps,
        "decisions": store.counters()[0],
        "average_costs": averages,
        "limits": {
            name: {"limit": limit, "average": average, "excess": total - steps * limit}
            for name, limit, average, total in zip(
                names[1:], said["thresholds"], averages[1:], ledger.sums[1:], strict=True
            )
        },
        "pending": int(pending),
        "expired": int(expired),
        "forgotten": int(store.run("SELECT forgotten FROM learner")[0][0]),
        "oldest_pending": None if oldest is None else _moment(oldest).isoformat(),
        "hours": ledger.hours_status(),
        "streams": ledger.streams_status(),
        **notes,
        "drift": notes["drift"] | {"pairs": [[states(s), actions(a)] for s, a in notes["drift"]["pairs"]]},
    }


def _names(store: Store, said: dict[str, Any]) -> tuple[Callable[[int], Any], Callable[[int], Any]]:
    """What states and actions are called, by number."""
    texts = said["states"] or [name for (name,) in store.run("SELECT name FROM states ORDER BY number")]
    states, actions = ([state_io.from_text(text) for text in found] for found in (texts, said["actions"] or ()))
    return (
        lambda s: str(states[s]) if states else s,
        lambda a: str(actions[a]) if actions else a,
    )


def _export(store: Store, said: dict[str, Any], path: str | Path) -> int:
    file = checks.path(path)
    if file.suffix.lower() not in (".csv", ".parquet"):
        raise InvalidArgumentError(f"{file}: the file must end in .csv or .parquet")
    import pyarrow as pa
    from pyarrow import csv, parquet

    states, actions = _names(store, said)
    fixed = ("seen_at", "stream", "decision", "state", "action", "next_state")
    costs_as = [f"cost_{name}" if name in fixed else name for name in said["cost_names"]]
    columns: dict[str, list[Any]] = {name: [] for name in (*fixed, *costs_as)}
    for _, decision, stream, s, a, costs, x, seen in _observations(store, 0):
        row = (
            _moment(seen),
            stream,
            decision,
            states(s),
            actions(a),
            states(x),
            *json.loads(costs),
        )
        for column, value in zip(columns.values(), row, strict=True):
            column.append(value)
    table = pa.table(columns)
    with writing.replacing(file) as target:
        (csv.write_csv if file.suffix.lower() == ".csv" else parquet.write_table)(table, target)
    return table.num_rows
