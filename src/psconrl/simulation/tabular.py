"""An agent in a tabular model: the compiled loop, and its plain twin."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from psconrl._checks import Floats, Ints, flag, real, shown, whole
from psconrl._lazy import late
from psconrl.agents.contract import Agent, Plan
from psconrl.cmdp import CMDP, require_model
from psconrl.errors import InvalidArgumentError
from psconrl.planning.evaluation import evaluate
from psconrl.simulation import saved
from psconrl.simulation.learner import REASONS, Learner, Rows
from psconrl.simulation.run import Run, episode_columns

if TYPE_CHECKING:
    from psconrl.simulation import _kernels as kernels
else:
    kernels = late("psconrl.simulation._kernels")

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
    optimum: float | None = None,
    evaluate_policies: bool = False,
    stop: int | None = None,
    state: Mapping[str, Any] | None = None,
    compiled: bool = True,
) -> Run:
    """Run an agent in a model for `horizon` steps.

    Args:
        agent: what learns; it sees only its problem and what it experiences.
        cmdp: the true model; its costs must lie in [0, 1].
        horizon: T. seed: chooses all random numbers of the run.
        checkpoints: how many evenly spaced times to record; 500 by default (all, for shorter runs).
        optimum: J*, for regret and excess; `psconrl.solve(cmdp).value` gives it.
        evaluate_policies: also write the exact averages of each executed policy, from the state it starts in.
        stop: end after this many steps, to continue later from `run.state`; state: such a state.
        compiled: False runs the same loop uncompiled; the results are the same.
    """
    simulation = _Simulation(agent, cmdp, horizon, seed, checkpoints, optimum, evaluate_policies, compiled)
    until = horizon if stop is None else min(whole(stop, "stop"), horizon)
    if state is not None:
        simulation.restore(state)
    with one_thread():
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
        optimum: float | None,
        evaluate_policies: bool,
        compiled: bool,
    ) -> None:
        require_model(cmdp)
        self.learner = Learner(agent, horizon, seed)
        problem = agent.problem
        if (problem.S, problem.A, problem.m) != (cmdp.S, cmdp.A, cmdp.m):
            raise InvalidArgumentError(f"{problem} does not fit {cmdp}; make the agent with cmdp.problem()")
        cmdp.problem()  # asks for costs in [0, 1]
        self.cmdp, self.evaluate_policies = cmdp, flag(evaluate_policies, "evaluate_policies")
        self.run_plan = _kernel(flag(compiled, "compiled"))
        matrix = cmdp.to_sparse() if cmdp.move_costs is not None else cmdp
        self.indptr, self.indices = (
            np.asarray(array, dtype=np.int64) for array in (cmdp.matrix.indptr, cmdp.matrix.indices)
        )
        self.cumulative = _cumulative_rows(cmdp.matrix.data, self.indptr)
        self.costs: Floats = np.ascontiguousarray(
            cmdp.costs.reshape(cmdp.m + 1, -1) if matrix.move_costs is None else matrix.move_costs
        )
        self.optimum = optimum_level(optimum)
        self.levels = np.append(self.optimum, cmdp.thresholds)
        self.grid = time_grid(horizon, checkpoints)
        self.totals = np.zeros((2, cmdp.m + 1))
        self.curves = np.full((2, cmdp.m + 1, len(self.grid)), np.nan)
        start = int(np.searchsorted(np.cumsum(cmdp.initial), self.learner.environment.random(), side="right"))
        self.learner.clock[2] = min(start, int(np.flatnonzero(cmdp.initial)[-1]))

    def restore(self, state: Mapping[str, Any]) -> None:
        keys = ("learner", "totals", "curves", "agent", "optimum", "evaluate_policies")
        state = saved.mapping(state, keys, "the state of a run of simulate")
        mine, before = self.learner, saved.mapping(state["learner"], ("horizon", "seed", "cost_sums"))
        same = {
            "horizon": (mine.horizon, before["horizon"]),
            "seed": (mine.seed, before["seed"]),
            "number of checkpoints": (len(self.grid), (0, *getattr(state["curves"], "shape", ()))[-1]),
            "size": (mine.cost_sums.shape, getattr(before["cost_sums"], "shape", ())),
            "agent": (mine.agent.name, state["agent"]),
            "optimum": (str(self.optimum), state["optimum"]),
            "choice of evaluate_policies": (self.evaluate_policies, state["evaluate_policies"]),
        }
        for what, (now, then) in same.items():
            if not isinstance(then, type(now)) or now != then:
                raise InvalidArgumentError(
                    f"the state comes from a run with another {what}: {shown(then)}, not {now}; go on with the same one"
                )
        self.totals = saved.array(state["totals"], "totals", np.float64, self.totals.shape)
        self.curves = saved.array(state["curves"], "curves", np.float64, self.curves.shape)
        self.learner = Learner.restore(self.learner.agent, state["learner"])
        done = int(np.searchsorted(self.grid, self.learner.t, side="right"))
        if self.learner.clock[3] != done:
            raise saved.refused("clock", f"must have passed {done} checkpoints")

    def run(self, until: int) -> None:
        learner, clock = self.learner, self.learner.clock
        environment, actions, plain = learner.environment, learner.actions, kernels.plain
        supply = plain(kernels.Supply(environment.buffer, actions.buffer, environment.position, actions.position))
        world = plain(
            kernels.World(self.indptr, self.indices, self.cumulative, self.costs, self.cmdp.move_costs is not None)
        )
        record = plain(kernels.Curves(self.totals, self.levels, self.grid, self.curves))
        seen = plain(learner._seen())
        while clock.item(0) < until:
            plan = learner.current or learner._begin(clock.item(2))
            reason = self.run_plan(plain(learner.orders), world, supply, seen, record, clock, until)
            if reason < HORIZON:
                learner._end(reason, self._averages(plan))
            elif reason > HORIZON:
                learner._supply()
                seen = plain(learner._seen())  # there is more room for counts

    def _averages(self, plan: Plan) -> Floats | None:
        return exact_averages(self.cmdp, plan, self.learner.origin) if self.evaluate_policies else None

    def result(self) -> Run:
        learner = self.learner
        rows: Rows = list(learner.rows)
        if learner.current is not None:
            rows.append(learner._row(HORIZON, self._averages(learner.current)))
        observed = learner.observed
        curves = self.curves.copy()
        if np.isnan(self.optimum):
            curves[1, 0] = np.nan
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
            episodes=np.array(rows, episode_columns(self.cmdp.m + 1 if self.evaluate_policies else None)),
            counts=observed.sparse() if self.cmdp.is_sparse else observed.dense(),
            snapshots=tuple(learner.snapshots),
            state=state,
        )


def one_thread() -> AbstractContextManager[object]:
    """Linear algebra on one thread: two change the order of sums, and so the bits of the results."""
    return _controller().limit(limits=1)


@cache
def _controller() -> Any:
    import scipy.linalg.cython_blas  # noqa: F401  the library that compiled kernels call must be there to be limited
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def optimum_level(optimum: float | None) -> float:
    """J* as a number; nan if there is none, or it is not known."""
    if optimum is None or (isinstance(optimum, float) and math.isnan(optimum)):
        return math.nan
    return real(optimum, "optimum", "a number, or None", lambda x: True)


def time_grid(horizon: int, checkpoints: int | None) -> Ints:
    """Times as evenly spaced as whole steps allow, the last is the horizon; 500 by default, or as many as steps."""
    horizon = whole(horizon, "horizon")
    most = CHECKPOINTS if checkpoints is None else whole(checkpoints, "checkpoints", most=MOST_CHECKPOINTS)
    G = min(most, horizon)
    steps = np.arange(1, G + 1)
    return steps * (horizon // G) + steps * (horizon % G) // G


def _kernel(compiled: bool) -> Callable[..., int]:
    return kernels.run_plan if compiled else kernels.run_plan.py_func  # type: ignore[attr-defined]


def _cumulative_rows(data: Floats, indptr: Ints) -> Floats:
    """Cumulative probabilities within each row; the last entry of a row exceeds every number in [0, 1)."""
    cumulative = data.copy()
    kernels.cumulate(cumulative, indptr)
    return cumulative


def exact_averages(cmdp: CMDP, plan: Plan, state: int) -> Floats:
    """The exact averages (m + 1,) of a plan's policy from a state; of its L steps if it is not stationary.

    If it is steered, the weighted ones of its columns.
    """
    if plan.steered is not None:
        columns = plan.steered.policies(plan.policy[0])
        each = [evaluate(cmdp, column).average_costs[:, state] for column in columns]
        return np.asarray(plan.steered.weights @ each)
    if len(plan.policy) == 1:
        return np.asarray(evaluate(cmdp, plan.policy[0]).average_costs[:, state])
    law, totals = np.eye(cmdp.S)[state], np.zeros(cmdp.m + 1)
    for pi in plan.policy:
        totals += np.einsum("s,sa,isa->i", law, pi, cmdp.costs)
        law = law @ cmdp.policy_matrix(pi)
    return totals / len(plan.policy)
