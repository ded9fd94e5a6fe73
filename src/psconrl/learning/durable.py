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
from collections.abc import Hashable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from psconrl._core import checks, compiling
from psconrl._core.checks import Floats, short_repr, whole
from psconrl._core.lazy import lazy_import
from psconrl.agents.contract import FOREVER, Agent
from psconrl.errors import CallOrderError, InvalidArgumentError, LearnerFileError, PsconrlError
from psconrl.io.tables import MAX_STATES
from psconrl.learning import state_io, store_status
from psconrl.learning.drift import DriftMonitor
from psconrl.learning.learner import Learner, step_costs
from psconrl.learning.store import DecisionRow, ObservationRow, Store
from psconrl.learning.store import open_store as open_store
from psconrl.learning.store_status import Totals, moment

if TYPE_CHECKING:
    from psconrl.learning import estimate as estimates
    from psconrl.learning.estimate import Estimate
else:
    estimates = lazy_import("psconrl.learning.estimate")

CHECKPOINT_EVERY = 10_000
"""Observations between checkpoints, at the most: what is replayed when a store is opened."""
RANDOM_BLOCK = 256
"""Random numbers that are drawn at a time."""
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
        seed: int,
        horizon: int | None,
        *,
        expires_after: float,
        history: int,
        window: int | None,
    ) -> None:
        self.agent, self.problem, self.store = agent, agent.problem, store
        self._lock = RLock()
        self._now = 0.0
        self._block, self._random = -1, np.zeros(0)
        self._replica: _Replica | None = None
        try:
            self.expires_after = checks.real(expires_after, "expires_after", "a number of seconds > 0", lambda x: x > 0)
            self.history = whole(history, "history", CHECKPOINT_EVERY)
            self.window = None if window is None else whole(window, "window", 1, self.history)
            if horizon is None and agent.needs_horizon:
                raise InvalidArgumentError(f"{agent.name} needs a horizon; give horizon=, or take another agent")
            self.horizon = FOREVER if horizon is None else whole(horizon, "horizon")
            self._begin(whole(seed, "seed", 0, most=None))
        except BaseException:
            store.close()
            raise

    def _begin(self, seed: int) -> None:
        """Create what the store does not hold, and follow what it holds."""
        self._description = {"agent": state_io.description(self.agent)}
        self._description |= store_status.describe(self.problem, self.agent.name)
        with self.store.transaction():
            if self.store.is_new():
                self.store.create(json.dumps(self._description), seed)
            description, self.seed = self.store.described()
        state_io.check_owner(description["agent"], self.agent)
        _, self._actions, self._planning = np.random.SeedSequence(self.seed).spawn(3)
        self._key = self._actions.generate_state(2, np.uint64)
        self._warm_up()
        with self._transaction():
            pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"DurableLearner({self.agent.name}, {self.store.where!r})"

    def close(self) -> None:
        """Write a checkpoint and give the store back; calls after it are refused."""
        with self._lock:
            with suppress(PsconrlError), self._transaction() as replica:  # what was told is stored in any case
                self._write_checkpoint(replica)
            self.store.close()

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
            CallOrderError: if the request was asked in another state, or the horizon is over.
            StoreError: if it could not be stored, or it is not known whether it was; ask again.
        """
        stream, request = _label(stream, "stream"), None if request is None else _label(request, "request")
        with self._transaction() as replica:
            number = self._number(replica, state, "state")
            if request is not None:
                for row in self.store.decisions("request = ?", request):
                    if row.state != number:
                        raise CallOrderError(f"request {request!r} was asked in another state; give it another name")
                    return self._decision(replica, row)
            learner = replica.learner
            if learner.t >= self.horizon:
                raise CallOrderError(f"the horizon of {self.horizon} steps is over; open the store with a longer one")
            if learner.current is None:
                self._plan(replica, number)
            id, asked = replica.decisions, self._time()
            action, probability = learner._choose(number, self._uniform(id))
            expires, plan = asked + self.expires_after, replica.totals.plans
            row = DecisionRow(id, stream, number, action, probability, plan, asked, expires, request, None)
            self.store.add_decision(row)
            return self._decision(replica, row)

    def tell(self, id: int, costs: ArrayLike, next_state: Any) -> bool:
        """Say what came of a decision.

        Args:
            id: the decision's number.
            costs: the m + 1 costs of the step, in the problem's units.
            next_state: where it led.

        Returns:
            Whether it counts: False if the same was told before.

        Raises:
            InvalidArgumentError: if there is no such decision, state or cost.
            CallOrderError: if something else was told before, or the decision was cancelled.
            StoreError: if it could not be stored, or it is not known whether it was; tell it again.
        """
        step_costs(costs, self.problem)
        with self._transaction() as replica:
            decision = self._stored(id)
            after = self._number(replica, next_state, "next_state")
            if decision.observation == CANCELLED:
                raise CallOrderError(f"decision {id} was cancelled; if it was carried out after all, use observe")
            if decision.observation is None:
                self.store.answer(decision, replica.totals.observations)
                self._record(replica, id, decision.stream, decision.state, decision.action, costs, after)
                return True
            for row in self.store.observations("number = ?", decision.observation):
                if (row.costs, row.next_state) != (_floats(costs), after):
                    told = f"costs {row.costs} and next state {short_repr(replica.learner.states.name(row.next_state))}"
                    raise CallOrderError(f"decision {id} was answered before, with {told}; that is what counts")
            return False

    def observe(
        self, s: Any, a: Any, costs: ArrayLike, s_next: Any, stream: str = "", *, request: str | None = None
    ) -> bool:
        """Take in a step that somebody else decided.

        Args:
            s: the state. a: the action that was taken in it.
            costs: the m + 1 costs of the step, in the problem's units.
            s_next: where it led.
            stream: whose step it was.
            request: a name for this step: told again under the same name, it is counted once.

        Returns:
            Whether it counts: False if its request was counted before.

        Raises:
            InvalidArgumentError: if there is no such state, action or cost.
            StoreError: if it could not be stored, or it is not known whether it was.
        """
        stream, request = _label(stream, "stream"), None if request is None else _label(request, "request")
        step_costs(costs, self.problem)
        with self._transaction() as replica:
            if request is not None and self.store.observations("request = ?", request):
                return False
            action = replica.learner.action_labels.find(a, "a").number
            state = self._number(replica, s, "s")
            replica.learner._check_available(state, action)
            self._record(replica, None, stream, state, action, costs, self._number(replica, s_next, "s_next"), request)
            return True

    def cancel(self, id: int) -> bool:
        """Take a decision back that was not carried out.

        Args:
            id: the decision's number.

        Returns:
            Whether it was pending.

        Raises:
            InvalidArgumentError: if there is no such decision.
            StoreError: if it could not be stored, or it is not known whether it was; cancel it again.
        """
        with self._transaction():
            decision = self._stored(id)
            pending = decision.observation is None
            if pending:
                self.store.answer(decision, CANCELLED)
            return pending

    # --- what it knows ---

    def pending(self, most: int = 1000) -> list[Decision]:
        """The decisions that were not answered yet, the oldest first, expired ones included; at most so many."""
        with self._transaction() as replica:
            rows = self.store.decisions("observation IS NULL ORDER BY id LIMIT ?", whole(most, "most"))
            return [self._decision(replica, row) for row in rows]

    def status(self) -> dict[str, Any]:
        """How it stands, as plain values.

        Returns:
            "steps", "decisions", "plans", "infeasible_plans", "conflict" (limits that the last plan could not meet
            together) and "nearest" (by name, those that it could), "average_costs", "limits" (by name, "limit",
            "average" and "excess"), "pending", "expired", "forgotten", "oldest_pending", "drift", "hours", "streams".
        """
        with self._transaction() as replica:
            return store_status.status(self.store, self._description, replica.totals, replica.monitor)

    def estimate(self, confidence: float | None = None, *, draws: int = 200, seed: int = 0) -> Estimate:
        """What was learned so far, as a model to be solved; as `Learner.estimate`."""
        with self._transaction() as replica:
            state = replica.learner.state()
        return estimates.estimate(self.problem, state, confidence, draws, seed)

    def policy(self) -> tuple[list[Hashable], list[Hashable], Floats]:
        """States, actions and the probabilities (S, A) with which the current plan chooses them."""
        with self._transaction() as replica:
            learner = replica.learner
            states = [learner.states.name(s) for s in range(len(learner.states))]
            actions = [learner.action_labels.name(a) for a in range(self.problem.A)]
            if learner.current is None:
                return states, actions, np.array(learner.pairs.uniform)
            cumulative = learner.compiled.policy[learner.clock.item(1) % len(learner.compiled.policy)]
            # The sums so far end above one, for drawing.
            return states, actions, np.diff(np.minimum(cumulative, 1.0).reshape(-1, len(actions)), axis=1, prepend=0.0)

    def export(self, path: str | Path) -> int:
        """Write the observations that are kept as a table, .csv or .parquet.

        Returns:
            How many rows were written.
        """
        return store_status.export_log(self.store.url, path)

    # --- inside ---

    def _time(self) -> float:
        """Seconds since 1970, which never go back although a clock may."""
        self._now = max(self._now, time.time())
        return self._now

    def _uniform(self, id: int) -> float:
        """The random number of a decision."""
        block, i = divmod(id, RANDOM_BLOCK)
        if block != self._block:
            generator = np.random.Generator(np.random.Philox(key=self._key, counter=id - i))
            self._block, self._random = block, generator.random(RANDOM_BLOCK)
        return float(self._random[i])

    @contextmanager
    def _transaction(self) -> Iterator[_Replica]:
        """A transaction, with a replica that knows all that was stored; one that ran ahead of it is thrown away."""
        with self._lock:
            try:
                with self.store.transaction():
                    yield self._follow()
            except (InvalidArgumentError, CallOrderError):  # refused
                if self.store.changed:
                    self._replica = None
                raise
            except BaseException:
                self._replica = None
                raise

    def _follow(self) -> _Replica:
        """The replica, after all that was stored since, here or by other processes."""
        counters, replica = self.store.counters(), self._replica
        if replica is None or replica.totals.plans != counters.plans or replica.decisions > counters.decisions:
            replica = self._replica = self._load()
        if self.problem.open and counters.states > len(replica.learner.states):
            for name in self.store.states(len(replica.learner.states)):
                replica.learner._discover(state_io.from_text(name))
        if counters.observations > replica.totals.observations:
            for row in self.store.log(replica.totals.observations):
                if row.number != replica.totals.observations:
                    raise LearnerFileError(f"{self.store.where}: observation {replica.totals.observations} is missing")
                replica.count(row)
        replica.decisions = counters.decisions
        if replica.totals.plans != counters.plans:
            raise LearnerFileError(f"{self.store.where}: its checkpoint is of another plan; restore it from a backup")
        return replica

    def _load(self) -> _Replica:
        """The replica of the checkpoint."""
        state = store_status.read_checkpoint(self.store)
        if state is None:
            return _Replica(Learner(self.agent, self.horizon, self.seed))
        replica = _Replica(Learner.restore(self.agent, state["learner"]))
        replica.learner.horizon = self.horizon
        replica.monitor.restore(state["drift"])
        replica.totals.restore(state["totals"])
        replica.checkpoint = replica.totals.observations
        return replica

    def _number(self, replica: _Replica, state: Any, what: str) -> int:
        """The number of a state; one that is new is stored."""
        labels = replica.learner.states
        number = labels.find(state, what).number
        if number == len(labels):
            if number >= MAX_STATES:
                raise InvalidArgumentError(f"{what} is {short_repr(state)}, a new one; {MAX_STATES} are there already")
            self.store.add_state(number, state_io.to_text(checks.hashable(state, what)))
            replica.learner._discover(state)
        return number

    def _stored(self, id: int) -> DecisionRow:
        """A decision that was given before."""
        for row in self.store.decisions("id = ?", whole(id, "id", 0)):
            return row
        raise InvalidArgumentError(f"id is {id}; no such decision is kept; give one that ask gave")

    def _decision(self, replica: _Replica, row: DecisionRow) -> Decision:
        learner, by_name = replica.learner, self.problem.answers_by_name
        return Decision(
            id=row.id,
            action=learner.action_labels.name(row.action) if by_name else row.action,
            probability=row.probability,
            state=learner.states.name(row.state) if by_name or self.problem.open else row.state,
            stream=row.stream,
            plan=row.plan,
            asked=moment(row.asked),
            expires=moment(row.expires),
        )

    def _plan(self, replica: _Replica, number: int) -> None:
        """Make the next plan in a state, and store it with all that it was made from."""
        learner, totals = replica.learner, replica.totals
        spawn_key = (*self._planning.spawn_key, totals.plans)
        totals.plans += 1
        self.store.count_plans(totals.plans)
        if self.window is not None and learner.t > self.window:
            rows = list(self.store.log(totals.observations - self.window))
            learner._recount(
                np.array([(row.state, row.action, row.next_state) for row in rows]),
                np.array([step_costs(row.costs, self.problem) for row in rows]),
            )
        learner.planning = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=spawn_key))
        totals.infeasible += not learner._begin(number).feasible
        totals.nearest = learner.status()["nearest"]
        learner.rows, learner.kept = learner.rows[-1:], []  # a learner that runs for ever keeps no history of plans
        self._write_checkpoint(replica)

    def _write_checkpoint(self, replica: _Replica) -> None:
        """Store the learner as it is, and delete what is older than the history: it lives on in the counts."""
        learner, drift, totals = replica.learner.state(), replica.monitor.state(), replica.totals.state()
        self.store.write_checkpoint(*state_io.pack({"learner": learner, "drift": drift, "totals": totals}))
        replica.checkpoint = replica.totals.observations
        self.store.delete_before(replica.decisions - self.history, replica.checkpoint - self.history)

    def _record(
        self,
        replica: _Replica,
        decision: int | None,
        stream: str,
        state: int,
        action: int,
        costs: ArrayLike,
        after: int,
        request: str | None = None,
    ) -> None:
        """Store a step and count it."""
        number = replica.totals.observations
        row = ObservationRow(number, decision, stream, state, action, _floats(costs), after, self._time(), request)
        self.store.add_observation(row)
        replica.count(row)
        if replica.totals.observations - replica.checkpoint >= CHECKPOINT_EVERY:
            self._write_checkpoint(replica)

    def _warm_up(self) -> None:
        """Have everything compiled that planning and counting need, so that nobody waits for it."""
        twin = Learner(self.agent.with_problem(self.problem.normalized(2)), self.horizon, self.seed)
        with compiling.notify():
            state = twin.states.name(0)
            twin.observe(state, twin.act(state), np.zeros(self.problem.m + 1), state)


class _Replica:
    """A learner, and what is told of it besides, after some decisions and observations of a store.

    Attributes:
        decisions: how many decisions there were.
        checkpoint: after how many observations the last checkpoint was written.
    """

    def __init__(self, learner: Learner) -> None:
        self.learner = learner
        self.monitor = DriftMonitor(learner.problem.A, learner.problem.m)
        self.totals = Totals(learner.problem.m + 1)
        self.decisions = self.checkpoint = 0

    def count(self, row: ObservationRow) -> None:
        """Count a step."""
        costs = step_costs(row.costs, self.learner.problem)
        self.totals.add(row)
        self.learner._count(row.state, row.action, costs, row.next_state)
        self.monitor.add(row.state, row.action, row.next_state, costs, self.totals.observations)


def _floats(costs: ArrayLike) -> list[float]:
    numbers: list[float] = np.asarray(costs, dtype=np.float64).tolist()
    return numbers


def _label(text: Any, what: str) -> str:
    """A short text, or InvalidArgumentError."""
    if not isinstance(text, str) or len(text) > MOST_LETTERS or "\0" in text:
        raise InvalidArgumentError(f"{what} is {short_repr(text)}; it must be text of at most {MOST_LETTERS} letters")
    return text
