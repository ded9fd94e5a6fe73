"""An agent in a tabular model: the compiled loop, and its plain twin."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from psconrl._core import compiling
from psconrl._core.checks import Floats, Ints, flag, real, short_repr, unavailable, whole
from psconrl._core.lazy import lazy_import
from psconrl.agents.contract import Agent, Plan
from psconrl.cmdp import CMDP, require_model, require_ranges
from psconrl.errors import InvalidArgumentError
from psconrl.learning import saved
from psconrl.learning.learner import REASONS, Learner, Rows
from psconrl.learning.parts import Curves, Supply, plain
from psconrl.learning.run import Run, episode_table
from psconrl.learning.world import World
from psconrl.planning.averages import Averages
from psconrl.planning.solution import Solution
from psconrl.problem import Problem

if TYPE_CHECKING:
    from psconrl.learning import _kernels as kernels
else:
    kernels = lazy_import("psconrl.learning._kernels")

CHECKPOINTS = 500
MOST_CHECKPOINTS = 10**7
HORIZON = REASONS.index("horizon")
"""Reasons before it end a plan; the one after it, that the loop ran out of random numbers or room, does not."""


def simulate(
    agent: Agent,
    cmdp: CMDP,
    horizon: int,
    seed: int,
    *,
    checkpoints: int | None = None,
    optimum: float | Solution | None = None,
    evaluate_policies: bool = False,
    stop: int | None = None,
    state: Mapping[str, Any] | None = None,
    compiled: bool = True,
) -> Run:
    """Run an agent in a model for `horizon` steps.

    Args:
        agent: what learns; it sees only its problem and what it experiences.
        cmdp: the true model; its costs must lie in [0, 1], or in the ranges that the agent's problem declares. An agent
            whose problem does not know its states discovers them; the run has them in the model's order.
        horizon: T, the number of steps. seed: chooses all random numbers of the run.
        checkpoints: how many evenly spaced times to record; 500 by default (all, for shorter runs).
        optimum: J*, for regret and excess: a number, or `psconrl.solve(cmdp)`, whose prices `Run.lagrangian` then has.
        evaluate_policies: also write the exact averages of each executed policy, from the state it starts in; they
            are what `Run.policy_violation` sums.
        stop: end after this many steps, to continue later from `run.state`. state: the state to continue from.
        compiled: False runs the same loop uncompiled; the results are the same.
    """
    simulation = _Simulation(agent, cmdp, horizon, seed, checkpoints, optimum, evaluate_policies, compiled)
    until = horizon if stop is None else min(whole(stop, "stop"), horizon)
    if state is not None:
        simulation.restore(state)
    with one_thread(), compiling.notify():
        simulation.run(until)
    return simulation.result()


class _Simulation:
    def __init__(
        self,
        agent: Agent,
        cmdp: CMDP,
        horizon: int,
        seed: int,
        checkpoints: int | None,
        optimum: float | Solution | None,
        evaluate_policies: bool,
        compiled: bool,
    ) -> None:
        require_model(cmdp)
        self.learner = Learner(agent, horizon, seed)
        problem = agent.problem
        self.cmdp, self.open, self.units = cmdp, problem.open, problem.units
        if (cmdp.S if self.open else problem.S, problem.A, problem.m) != (cmdp.S, cmdp.A, cmdp.m):
            raise InvalidArgumentError(f"{problem} does not fit {cmdp}; make the agent with cmdp.problem()")
        check_available(problem, cmdp, cmdp.state_names)
        require_ranges(cmdp, problem.cost_ranges)
        self.evaluate_policies = flag(evaluate_policies, "evaluate_policies")
        self.averages = Averages(cmdp) if self.evaluate_policies else None
        self.run_plan = _kernel(flag(compiled, "compiled"))
        self.world = World(cmdp, self.units)
        self.optimum = optimum_level(optimum, cmdp.m)
        self.truth = optimum if isinstance(optimum, Solution) else cmdp
        levels = np.append(self.optimum, cmdp.thresholds)
        self.levels = levels if self.units is None else self.units.normalized(levels)
        self.grid = time_grid(horizon, checkpoints)
        self.totals = np.zeros((3, cmdp.m + 1))
        self.curves = np.full((3, cmdp.m + 1, len(self.grid)), np.nan)
        self.learner.clock[2] = self.world.first_state(self.learner.environment.random())
        if self.open:
            self._look_around()

    def restore(self, state: Mapping[str, Any]) -> None:
        keys = ("learner", "totals", "curves", "agent", "optimum", "evaluate_policies")
        state = saved.mapping(state, keys, "the state of a run of simulate")
        mine, before = self.learner, saved.mapping(state["learner"], ("horizon", "seed", "cost_sums"))
        same = {
            "horizon": (mine.horizon, before["horizon"]),
            "seed": (mine.seed, before["seed"]),
            "number of checkpoints": (len(self.grid), (0, *getattr(state["curves"], "shape", ()))[-1]),
            "size": (mine.cost_sums.shape[::2], getattr(before["cost_sums"], "shape", ())[::2]),
            "agent": (mine.agent.name, state["agent"]),
            "optimum": (str(self.optimum), state["optimum"]),
            "choice of evaluate_policies": (self.evaluate_policies, state["evaluate_policies"]),
        }
        for what, (now, then) in same.items():
            if not isinstance(then, type(now)) or now != then:
                raise InvalidArgumentError(
                    f"the state comes from a run with another {what}: {short_repr(then)}, not {now}; go on with the "
                    "same one"
                )
        self.totals = saved.array(state["totals"], "totals", np.float64, self.totals.shape)
        self.curves = saved.array(state["curves"], "curves", np.float64, self.curves.shape)
        self.learner = Learner.restore(self.learner.agent, state["learner"])
        if self.open:
            self._number_as_seen()
        done = int(np.searchsorted(self.grid, self.learner.t, side="right"))
        if self.learner.clock[3] != done:
            raise saved.refused("clock", f"must have passed {done} checkpoints")

    def run(self, until: int) -> None:
        learner, clock = self.learner, self.learner.clock
        environment, actions = learner.environment, learner.actions
        supply = plain(Supply(environment.buffer, actions.buffer, environment.position, actions.position))
        record = plain(Curves(self.totals, self.levels, self.grid, self.curves))
        moves, seen = plain(self.world.moves), plain(learner._seen())
        while clock.item(0) < until:
            plan = learner.current or learner._begin(clock.item(2))
            *orders, steered = learner.orders
            mixture = None if steered is None else plain(steered)
            reason = self.run_plan(tuple(orders), mixture, moves, supply, seen, record, clock, until)
            found = self.open and self._look_around()
            if reason < HORIZON:
                learner._end(reason, self._averages(plan))
            elif reason > HORIZON:
                learner._supply()
            if found or reason > HORIZON:
                moves, seen = plain(self.world.moves), plain(learner._seen())

    def _look_around(self) -> bool:
        """Let the learner discover the state that it is in; whether it is a new one."""
        learner, at = self.learner, self.learner.clock.item(2)
        new = len(learner.states)
        if at < new:
            return False
        learner._discover(self.cmdp.state_names[self.world.order[at]])
        # The move into it, if there was one, was counted under the number that it had so far.
        target = learner.observed.chains[2][: learner.observed.used[0]]
        target[target == at] = new
        learner.clock[2] = new
        self._number_as_seen()
        return True

    def _number_as_seen(self) -> None:
        try:
            self.world.renumber([self.world.number[name] for name in self.learner.states.names or ()])
        except KeyError:
            raise saved.refused("states", f"must be names of states of {self.cmdp}") from None

    def _averages(self, plan: Plan) -> Floats | None:
        if self.averages is None:
            return None
        start = int(self.world.order[self.learner.origin])
        if plan.steered is None:
            return self.averages(self._whole(plan.policy), start)
        # Those of the columns, weighted: in the long run steering gives each its share of the time.
        columns = plan.steered.policies(plan.policy[0])[:, np.newaxis]
        return np.asarray(plan.steered.weights @ [self.averages(self._whole(column), start) for column in columns])

    def _whole(self, policy: Floats) -> Floats:
        """A policy in the numbers of the model's states."""
        return self.world.policy(policy) if self.open else policy

    def result(self) -> Run:
        learner = self.learner
        rows: Rows = list(learner.rows)
        if learner.current is not None:
            rows.append(learner._row(HORIZON, self._averages(learner.current)))
        curves = self.curves.copy()
        if self.units is not None:
            curves = np.stack([self.units.sums(curves[0], self.grid), *map(self.units.excesses, curves[1:])])
        if np.isnan(self.optimum):
            curves[1:, 0] = np.nan
        state = {
            "learner": learner.state(),
            "totals": self.totals.copy(),
            "curves": self.curves.copy(),
            "agent": learner.agent.name,
            "optimum": str(self.optimum),
            "evaluate_policies": self.evaluate_policies,
        }
        return Run(
            agent=learner.agent.name,
            horizon=learner.horizon,
            seed=learner.seed,
            thresholds=self.cmdp.thresholds,
            optimum=self.optimum,
            grid=self.grid,
            cumulative=curves[0],
            cumulative_excess=curves[1],
            peaks=curves[2],
            episodes=episode_table(rows, self.cmdp.m, self.evaluate_policies),
            counts=self._counts(),
            snapshots=tuple(map(self.world.snapshot, learner.snapshots) if self.open else learner.snapshots),
            state_names=self.cmdp.state_names,
            action_names=self.cmdp.action_names,
            state=state,
            problem=learner.agent.problem,
            truth=self.truth,
        )

    def _counts(self) -> Ints | sparse.csr_array:
        observed = self.learner.observed
        if not self.open:
            return observed.sparse() if self.cmdp.is_sparse else observed.dense()
        counts = self.world.counts(observed)
        shape = self.cmdp.S, self.cmdp.A, self.cmdp.S
        return counts if self.cmdp.is_sparse else np.asarray(counts.toarray()).reshape(shape)


def check_available(problem: Problem, cmdp: CMDP, states: Sequence[Hashable]) -> None:
    """Refuse a problem with actions that the model has not; one with fewer keeps the agent from taking the others.

    states: what an agent that discovers the model's states would call them.
    """
    if problem.open:
        offered = np.array([problem.available_actions(state) for state in states])
    elif problem.S != cmdp.S:
        return  # said elsewhere
    else:
        offered = problem.available
    wrong = np.argwhere(offered & ~cmdp.available)
    if len(wrong):
        s, a = wrong[0]
        raise InvalidArgumentError(
            f"the agent's problem does not fit {cmdp}: "
            f"{unavailable(cmdp.state_names[s], cmdp.action_names[a])}; make the agent with cmdp.problem()"
        )


def one_thread() -> AbstractContextManager[object]:
    """Linear algebra on one thread: two change the order of sums, and so the bits of the results."""
    return _controller().limit(limits=1)


@cache
def _controller() -> Any:
    import scipy.linalg.cython_blas  # noqa: F401  the library that compiled kernels call must be there to be limited
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def optimum_level(optimum: float | Solution | None, m: int) -> float:
    """J* as a number; nan if there is none, or it is not known. A solution must be one with m limits."""
    if isinstance(optimum, Solution):
        if optimum.multipliers.shape != (m,):
            raise InvalidArgumentError(
                f"optimum is a solution with {len(optimum.multipliers)} limits, but there are {m} of them here; solve "
                "the model that the agent is run in"
            )
        return float(optimum.value)
    if optimum is None or (isinstance(optimum, float) and math.isnan(optimum)):
        return math.nan
    return real(optimum, "optimum", "a number, a Solution, or None", lambda x: True)


def time_grid(horizon: int, checkpoints: int | None) -> Ints:
    """Times as evenly spaced as whole steps allow, the last is the horizon; 500 by default, or as many as steps."""
    horizon = whole(horizon, "horizon")
    most = CHECKPOINTS if checkpoints is None else whole(checkpoints, "checkpoints", most=MOST_CHECKPOINTS)
    G = min(most, horizon)
    steps = np.arange(1, G + 1)
    return steps * (horizon // G) + steps * (horizon % G) // G


def _kernel(compiled: bool) -> Callable[..., int]:
    return kernels.run_plan if compiled else kernels.run_plan.py_func  # type: ignore[attr-defined]
