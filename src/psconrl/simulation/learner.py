"""An agent at work: its counts, its current plan, its random streams.

Everything a learner is can be taken out as plain values (`state`) and put back (`restore`) at any step, in another
process, and it goes on bit for bit.

A learner's rules. What breaks one is refused, and leaves the learner as it was.

    in turn        act(s), observe(s, ...), act(s'), ...: a step is observed once, in the state in which its action was
                   asked for. Asked again in the same state, act gives the same action; asked in another state, it
                   forgets the step that was not observed.
    overruled      the action observed may be another than the one asked for: it is the one that is counted.
    costs          m + 1 numbers in [0, 1]; NaN is none.
    the horizon    after it there is no action and nothing to observe.
    threads        calls from several threads take place one after the other; the rules above hold for all together.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from threading import RLock
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psconrl._checks import Floats, Ints, shown, whole
from psconrl._lazy import late
from psconrl.agents.contract import FOREVER, Agent, Memory, Plan
from psconrl.agents.counts import Counts
from psconrl.errors import InvalidArgumentError, InvalidTypeError, OutOfTurnError
from psconrl.planning.steered import FREE, Steered, unsteered
from psconrl.simulation import saved
from psconrl.simulation.run import COLUMNS, Episode, Snapshot
from psconrl.simulation.streams import streams

if TYPE_CHECKING:
    from psconrl.planning.compiled import steering_rule as rule
    from psconrl.simulation import _kernels as kernels
else:
    rule = late("psconrl.planning.compiled.steering_rule")
    kernels = late("psconrl.simulation._kernels")

REASONS = ("length", "count", "horizon")
SNAPSHOTS = 40

Rows = list[tuple[Any, ...]]


class Learner:
    """Runs one agent, step by step: `a = learner.act(s)`, then `learner.observe(s, a, costs, s_next)`.

    horizon: T, for the agents that need it.
    """

    def __init__(self, agent: Agent, horizon: int, seed: int) -> None:
        if not isinstance(agent, Agent):
            raise InvalidTypeError(
                f"agent is {shown(agent)}; it must be an agent, such as psconrl.agents.PSConRL(problem)"
            )
        problem = agent.problem
        self.agent, self.horizon, self.seed = agent, whole(horizon, "horizon"), whole(seed, "seed", 0, most=None)
        self.environment, self.actions, self.planning = streams(self.seed)
        self.observed = Counts(problem.S, problem.A)
        self.visits: Ints = np.zeros((problem.S, problem.A), dtype=np.int64)
        self.cost_sums: Floats = np.zeros((problem.m + 1, problem.S, problem.A))
        self.excess: Floats = np.zeros(problem.m)  # of the limits, as steering counts it
        self.direction: Floats = np.zeros(problem.m)  # in which the plan before was forcing it at its end
        self.clock: Ints = np.array([0, 0, 0, 0, FREE])
        self.current: Plan | None = None
        self.asked: tuple[int, int] | None = None  # the state and the action of the step to be observed next
        self.orders: kernels.Orders  # the current plan, as loops read it
        self._unsteered = unsteered(problem.S, problem.thresholds)
        self.origin = 0  # the state in which the current plan was made
        self.last_length = 1
        self.carry: dict[str, NDArray[Any]] = {}
        self.rows: Rows = []
        self.kept: list[Snapshot] = []
        self.newest: Snapshot | None = None  # of the current plan, or the last
        self.spacing = float(self.horizon + 1) ** (1.0 / SNAPSHOTS)  # of snapshots, in the logarithm of time
        self._lock = RLock()

    def __reduce__(self) -> tuple[Any, ...]:
        return Learner.restore, (self.agent, self.state())

    @property
    def counts(self) -> Ints:
        """N(s, a, s') as an array (S, A, S), made anew at each call."""
        return self.observed.dense()

    @property
    def t(self) -> int:
        """Steps done."""
        return self.clock.item(0)

    def _begin(self, s: int) -> Plan:
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
            excess=self.excess,
        )
        plan = self.agent.plan(memory, self.planning)
        visits = self._adopt(plan)
        self.clock[1], self.clock[4], self.origin = 0, FREE, s
        if plan.steered is not None:
            self.clock[4] = rule.take_over(self.orders.steered, self.excess, self.direction, t)
        self.newest = Snapshot(t, plan.policy, visits)
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

    def _supply(self) -> None:
        """Have random numbers and room for counts at hand, for at least one step."""
        self.observed.room()
        self.environment.ready()
        self.actions.ready()

    def _seen(self) -> kernels.Seen:
        """What a loop updates, until there is more room for counts."""
        observed = self.observed
        return kernels.Seen(*observed.chains, observed.used, self.visits, self.cost_sums, self.excess)

    def _adopt(self, plan: Plan) -> Ints:
        """Make a plan the current one, if it is sound; a copy of the visits so far."""
        if not isinstance(plan, Plan):
            raise InvalidTypeError(f"plan() gave {shown(plan)}; it must give a psconrl.agents.Plan")
        S, A = self.visits.shape
        policy, limit = plan.policy, plan.count_limit
        if not isinstance(policy, np.ndarray) or policy.ndim != 3 or policy.shape[1:] != (S, A) or not len(policy):
            told = getattr(policy, "shape", None) or shown(policy)
            raise InvalidArgumentError(f"Plan.policy is {told}; it must be (L, S, A) with (S, A) = {(S, A)}")
        if policy.dtype != np.float64:
            raise InvalidTypeError(f"Plan.policy is an array of {policy.dtype}; it must be of float64")
        whole(plan.max_length, "Plan.max_length")
        if limit is None:
            limit = np.full((S, A), FOREVER)
        elif not isinstance(limit, np.ndarray) or limit.shape != (S, A) or limit.dtype != np.int64:
            told = getattr(limit, "shape", None) or shown(limit)
            raise InvalidArgumentError(f"Plan.count_limit is {told}; it must be int64 (S, A) = {(S, A)}")
        sound, cumulative, limit, visits = kernels.take_up(policy, limit, self.visits)
        if not sound:
            raise InvalidArgumentError("Plan.policy has a row that is not a distribution over the actions")
        steered = self._unsteered if plan.steered is None else self._steered(plan)
        self.current, self.orders = plan, kernels.Orders(cumulative, plan.max_length, limit, steered)
        return visits

    def _steered(self, plan: Plan) -> Steered:
        """The mixture of a plan, if compiled code may read it."""
        steered, S, A, m = plan.steered, *self.visits.shape, len(self.excess)
        if not isinstance(steered, Steered):
            raise InvalidTypeError(f"Plan.steered is {shown(steered)}; it must be a Steered or None")
        if len(plan.policy) != 1:
            raise InvalidArgumentError(f"Plan.policy has {len(plan.policy)} steps; only stationary ones can be steered")
        misfit = steered.misfit(S, m)
        if misfit:
            told = getattr(getattr(steered, misfit), "shape", None) or shown(getattr(steered, misfit))
            raise InvalidArgumentError(f"Plan.steered.{misfit} is {told}; that does not fit S = {S} and m = {m}")
        if not all(array.flags.carray for array in steered[:-1]):
            copies: dict[str, Any] = {name: np.array(getattr(steered, name)) for name in Steered._fields[:-1]}
            steered = steered._replace(**copies)
        if not rule.sound(steered, A):
            raise InvalidArgumentError(
                "Plan.steered must have a column, weights that sum to one, actions below A or -1, and finite numbers"
            )
        return steered

    def _end(self, reason: int, averages: Floats | None = None) -> None:
        """Close the current plan and write its row."""
        plan = self.current
        assert plan is not None
        self.rows.append(self._row(reason, averages))
        self.last_length = self.rows[-1][1]
        self.carry, self.current = dict(plan.carry), None
        if plan.steered is not None:
            self.direction = self._heading()

    def _heading(self) -> Floats:
        """The direction (m,) of the way that is forced, zero if there is none."""
        forced = self.clock.item(4)
        return np.zeros(len(self.excess)) if forced == FREE else self.orders.steered.directions[forced].copy()

    def _row(self, reason: int, averages: Floats | None = None) -> tuple[Any, ...]:
        """The row of the current plan."""
        plan, length = self.current, self.clock.item(1)
        assert plan is not None
        episode = Episode(plan, self.t - length, length, REASONS[reason])
        row = tuple([column.value(episode) for column in COLUMNS])
        return row if averages is None else (*row, averages)

    def act(self, s: int) -> int:
        """The action in state s; a new plan is made first if the last one is over."""
        with self._lock:
            state = self._number(s, "s", self.agent.problem.S)
            if self.asked is not None and self.asked[0] == state:
                return self.asked[1]
            if self.clock[0] >= self.horizon:
                raise OutOfTurnError(f"the horizon of {self.horizon} steps is over; give Learner a longer one")
            if self.current is None:
                self._begin(state)
            policy, steered, A = self.orders.policy, self.orders.steered, self.agent.problem.A
            u, a = self.actions.random(), -1
            if len(steered.actions):
                a = rule.act(steered, self.excess, self.clock.item(4), state)
            if a < 0:
                row = policy[self.clock.item(1) % len(policy)]
                a = int(kernels.draw(row, state * A, state * A + A, u) - state * A)
            self.asked = state, a
            return a

    def observe(self, s: int, a: int, costs: ArrayLike, s_next: int) -> bool:
        """Take in one step, in the state in which `act` was asked; whether the plan is over after it.

        a: the action that was really taken, which may be another than the one asked for.
        """
        with self._lock:
            if self.asked is None or self.current is None:
                raise OutOfTurnError("observe a step only after act has chosen its action, and only once")
            problem = self.agent.problem
            state, action = self._number(s, "s", problem.S), self._number(a, "a", problem.A)
            after = self._number(s_next, "s_next", problem.S)
            if state != self.asked[0]:
                raise OutOfTurnError(f"s is {state}, but act was asked in {self.asked[0]}; call act({state}) first")
            c = _costs(costs, len(self.cost_sums))
            self.asked = None
            self.observed.add(state, action, after)
            self.visits[state, action] += 1
            self.cost_sums[:, state, action] += c
            self.clock[0] += 1
            self.clock[1] += 1
            orders = self.orders
            self.excess += c[1:] - orders.steered.limits
            if len(orders.steered.actions):
                self.clock[4] = rule.after(orders.steered, self.excess, self.clock.item(4), self.t)
            if self.clock[1] >= orders.max_length:
                self._end(0)
            elif self.visits[state, action] > orders.count_limit[state, action]:
                self._end(1)
            return self.current is None

    @staticmethod
    def _number(value: Any, what: str, n: int) -> int:
        """The number of a state or an action, one of n."""
        if type(value) is int and 0 <= value < n:
            return value
        try:
            number = operator.index(value)
        except TypeError:
            number = -1
        if not 0 <= number < n or isinstance(value, bool):
            raise InvalidArgumentError(f"{what} is {shown(value)}; it must be one of 0, ..., {n - 1}")
        return number

    def state(self) -> dict[str, Any]:
        """All that this learner is, as plain values that later steps do not change."""
        with self._lock:
            return self._state()

    def _state(self) -> dict[str, Any]:
        plan = self.current
        return {
            "horizon": self.horizon,
            "seed": self.seed,
            "streams": [self.environment.state(), self.actions.state(), self.planning.bit_generator.state],
            "counts": (*(array.copy() for array in self.observed.chains), int(self.observed.used[0])),
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
            "snapshots": [(s.start, s.policy, s.visits) for s in self.snapshots],
            "plan": None if plan is None else saved.plain_plan(plan),
        }

    @classmethod
    def restore(cls, agent: Agent, state: Mapping[str, Any]) -> Learner:
        """A learner that goes on from a state; one that is damaged is refused."""
        state = saved.mapping(state, _PARTS)
        learner = cls(agent, state["horizon"], state["seed"])
        problem = agent.problem
        streams = state["streams"]
        if not isinstance(streams, (tuple, list)) or len(streams) != 3:
            raise saved.refused("streams", "must be those of the environment, the actions and the planning")
        learner.environment.restore(streams[0])
        learner.actions.restore(streams[1])
        saved.generator(learner.planning, streams[2])
        learner.visits = saved.array(state["visits"], "visits", np.int64, (problem.S, problem.A))
        learner.cost_sums = saved.cost_sums(state["cost_sums"], learner.visits, problem.m)
        learner.observed = saved.counts(state["counts"], learner.visits)
        learner.excess, learner.direction = (
            saved.finite(state[part], part, (problem.m,)) for part in ("excess", "direction")
        )
        learner.clock = saved.array(state["clock"], "clock", np.int64, (5,))
        t, length, s, checkpoint, forced = learner.clock.tolist()
        if not (0 <= length <= t <= learner.horizon and 0 <= s < problem.S and checkpoint >= 0):
            raise saved.refused("clock", "does not fit the horizon and the states")
        if learner.visits.sum() != t:
            raise saved.refused("visits", f"does not add up to the {t} steps done")
        learner.origin = cls._number(state["origin"], "origin", problem.S)
        learner.last_length = saved.integer(state["last_length"], "last_length", 1)
        learner.carry = saved.carry(state["carry"])
        learner.rows = saved.rows(state["rows"], problem.m + 1)
        learner.kept = saved.snapshots(state["snapshots"], problem)
        if learner.kept:
            learner.newest = learner.kept.pop()
        plan = saved.plan(state["plan"])
        if plan is not None:
            learner._adopt(plan)
        ways = 0 if plan is None or plan.steered is None else len(plan.steered.ways)
        if not FREE <= forced < max(ways, FREE + 1):
            raise saved.refused("clock", "names a way of steering that the plan does not have")
        if state["asked"] is not None:
            learner.asked = learner._asked(state["asked"])
        return learner

    def _asked(self, pair: Any) -> tuple[int, int]:
        if self.current is None or not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise saved.refused("asked", "must be a state and an action of a plan that is under way")
        problem = self.agent.problem
        return self._number(pair[0], "asked", problem.S), self._number(pair[1], "asked", problem.A)


_PARTS = (
    *("horizon", "seed", "streams", "counts", "visits", "cost_sums", "excess", "direction", "clock", "asked"),
    *("origin", "last_length", "carry", "rows", "snapshots", "plan"),
)
"""What a state has."""


def _costs(given: ArrayLike, n: int) -> NDArray[Any]:
    """The n costs of a step."""
    try:
        c = np.asarray(given)
    except ValueError:
        c = np.array(None)
    if c.dtype.kind not in "biuf" or c.shape != (n,):
        raise InvalidArgumentError(f"costs is {shown(given)}; a step has m + 1 = {n} of them, all numbers")
    for i, x in enumerate(c.tolist()):  # a few numbers are looked through faster than an array
        if not 0.0 <= x <= 1.0:
            raise InvalidArgumentError(
                f"costs[{i}] is {x}; learners need costs in [0, 1]; bring costs and limits there by shift and scale"
            )
    return c
