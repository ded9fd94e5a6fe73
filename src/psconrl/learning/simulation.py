"""An agent in a tabular model: the compiled loop, and its plain twin."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cache, cached_property
from typing import Any

import numpy as np
from scipy import sparse

from psconrl._core import compiling
from psconrl._core.checks import Floats, Ints, flag, real, short_repr, unavailable, whole
from psconrl._core.njit import interpreted
from psconrl.agents.contract import Agent, Plan
from psconrl.agents.counts import Counts
from psconrl.cmdp import CMDP, require_model, require_ranges
from psconrl.errors import InvalidArgumentError
from psconrl.learning import _kernels as kernels
from psconrl.learning import state_io
from psconrl.learning.learner import Learner
from psconrl.learning.loop_data import Curves, Moves, RandomBuffers, as_tuples
from psconrl.learning.run import Run, Snapshot, episode_table
from psconrl.planning.averages import Averages
from psconrl.planning.solution import Solution
from psconrl.problem import Problem, Units

MAX_INTERPRETED_STEPS = 10_000
"""Longer runs are compiled from the start: one plan of theirs may last long."""
MAX_INTERPRETED_SIZE = 2**14
"""So are runs with a larger product of states and pairs, in which one plan takes long to make."""

CHECKPOINTS = 500
MAX_CHECKPOINTS = 10**7


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
        agent: the agent; it sees only its problem and what it experiences.
        cmdp: the true model; its costs must lie in [0, 1], or in the ranges that the agent's problem declares. An agent
            whose problem does not know its states discovers them; the run has them in the model's order.
        horizon: T, the number of steps.
        seed: of all random numbers of the run.
        checkpoints: how many evenly spaced times to record; 500 by default (all, for shorter runs).
        optimum: J*, for regret and excess: a number, or `psconrl.solve(cmdp)`, whose multipliers `Run.lagrangian` uses.
        evaluate_policies: also write the exact averages of each executed policy, from the state it starts in; they
            are what `Run.policy_violation` sums.
        stop: end after this many steps, to continue later from `run.state`.
        state: the state to continue from.
        compiled: False runs the same loop uncompiled; the results are the same.

    Returns:
        The curves of the run and one row per plan.

    Raises:
        InvalidArgumentError: if the agent's problem does not fit the model, or the state not the run.
        InvalidModelError: if a cost lies outside its range.
    """
    require_model(cmdp)
    until = whole(horizon, "horizon") if stop is None else min(whole(stop, "stop"), horizon)
    # Short runs of small problems do not wait for a compiler.
    short = until <= MAX_INTERPRETED_STEPS and cmdp.S * cmdp.pairs.K <= MAX_INTERPRETED_SIZE
    with one_thread(), compiling.notify():
        with interpreted(short, kernels.run_plan):
            simulation = _Simulation(agent, cmdp, horizon, seed, checkpoints, optimum, evaluate_policies, compiled)
        if state is not None:
            simulation.restore(state)
        simulation.run(until, short)
        with interpreted(short, kernels.run_plan):
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
        self.learner = Learner(agent, horizon, seed)
        problem = agent.problem
        self.cmdp, self.open = cmdp, problem.open
        if (cmdp.S if self.open else problem.S, problem.A, problem.m) != (cmdp.S, cmdp.A, cmdp.m):
            raise InvalidArgumentError(f"{problem} does not fit {cmdp}; make the agent with cmdp.problem()")
        check_available(problem, cmdp, cmdp.state_names)
        require_ranges(cmdp, problem.cost_ranges)
        self.averages = Averages(cmdp) if flag(evaluate_policies, "evaluate_policies") else None
        self.run_plan: Callable[..., int] = kernels.run_plan
        if not flag(compiled, "compiled"):
            self.run_plan = kernels.run_plan.py_func
        self.model = TabularModel(cmdp, problem.units)
        self.recorder = CurveRecorder(optimum, cmdp.thresholds, horizon, checkpoints, problem.units)
        self.truth = optimum if isinstance(optimum, Solution) else cmdp
        self.learner.clock[2] = self.model.first_state(self.learner.environment.random())
        if self.open:
            self._discover_current_state()

    def restore(self, state: Mapping[str, Any]) -> None:
        keys = ("learner", "totals", "curves", "agent", "optimum", "evaluate_policies")
        state = state_io.mapping(state, keys, "the state of a run of simulate")
        before = state_io.mapping(state["learner"], ("horizon", "seed", "cost_sums"))
        mine, recorder = self.learner, self.recorder
        same = {
            "horizon": (mine.horizon, before["horizon"]),
            "seed": (mine.seed, before["seed"]),
            "number of checkpoints": (len(recorder.grid), (0, *getattr(state["curves"], "shape", ()))[-1]),
            "size": (mine.cost_sums.shape[::2], getattr(before["cost_sums"], "shape", ())[::2]),
            "agent": (mine.agent.name, state["agent"]),
            "optimum": (str(recorder.optimum), state["optimum"]),
            "choice of evaluate_policies": (self.averages is not None, state["evaluate_policies"]),
        }
        for what, (now, then) in same.items():
            if not isinstance(then, type(now)) or now != then:
                raise InvalidArgumentError(
                    f"the state comes from a run with another {what}: {short_repr(then)}, not {now}; go on with the "
                    "same one"
                )
        recorder.totals = state_io.curves(state, "totals", recorder.totals.shape)
        recorder.curves = state_io.curves(state, "curves", recorder.curves.shape)
        self.learner = Learner.restore(mine.agent, state["learner"])
        if self.open:
            self._number_in_order_of_discovery()
        done = int(np.searchsorted(recorder.grid, self.learner.t, side="right"))
        if self.learner.clock[3] != done:
            raise state_io.invalid_state("clock", f"must have passed {done} checkpoints")

    def run(self, until: int, short: bool) -> None:
        learner, clock, recorder = self.learner, self.learner.clock, self.recorder
        environment, actions = learner.environment, learner.actions
        buffers = as_tuples(RandomBuffers(environment.buffer, actions.buffer, environment.position, actions.position))
        record = as_tuples(Curves(recorder.totals, recorder.levels, recorder.grid, recorder.curves))
        moves, statistics = as_tuples(self.model.moves), as_tuples(learner._statistics())
        while clock.item(0) < until:
            with interpreted(short, kernels.run_plan):
                plan = learner.current or learner._begin(clock.item(2))
                *compiled, steered = learner.compiled
                mixture = None if steered is None else as_tuples(steered)
                reason = self.run_plan(tuple(compiled), mixture, moves, buffers, statistics, record, clock, until)
                is_new = self.open and self._discover_current_state()
                if reason < kernels.HORIZON:
                    learner._end(reason, self._averages(plan))
                elif reason == kernels.REFILL:
                    learner._refill()
                if is_new or reason == kernels.REFILL:
                    moves, statistics = as_tuples(self.model.moves), as_tuples(learner._statistics())

    def _discover_current_state(self) -> bool:
        """Let the learner discover the state that it is in; whether it is a new one."""
        learner, at = self.learner, self.learner.clock.item(2)
        new = len(learner.states)
        if at < new:
            return False
        learner._discover(self.cmdp.state_names[self.model.order[at]])
        # The move into it, if there was one, was counted under the number that it had so far.
        target = learner.observed.chains[2][: learner.observed.used[0]]
        target[target == at] = new
        learner.clock[2] = new
        self._number_in_order_of_discovery()
        return True

    def _number_in_order_of_discovery(self) -> None:
        try:
            self.model.renumber([self.model.number[name] for name in self.learner.states.names or ()])
        except KeyError:
            raise state_io.invalid_state("states", f"must be names of states of {self.cmdp}") from None

    def _averages(self, plan: Plan) -> Floats | None:
        """The exact averages (m + 1,) of a plan in the model, if they are asked for."""
        if self.averages is None:
            return None
        start = int(self.model.order[self.learner.origin])
        if plan.steered is None:
            return self.averages(self._in_model(plan.policy), start)
        # Those of the columns, weighted: in the long run steering gives each its share of the time.
        columns = plan.steered.policies(plan.policy[0])[:, np.newaxis]
        averages = [self.averages(self._in_model(column), start) for column in columns]
        return np.asarray(plan.steered.weights @ averages)

    def _in_model(self, policy: Floats) -> Floats:
        return self.model.policy(policy) if self.open else policy

    def result(self) -> Run:
        learner, recorder = self.learner, self.recorder
        last = None if learner.current is None else self._averages(learner.current)
        state = {
            "totals": recorder.totals.copy(),
            "curves": recorder.curves.copy(),
            "agent": learner.agent.name,
            "optimum": str(recorder.optimum),
            "evaluate_policies": self.averages is not None,
        }
        return make_run(
            learner,
            recorder,
            episode_table(learner.episode_rows(last), self.cmdp.m, self.averages is not None),
            counts=self._counts(),
            snapshots=tuple(map(self.model.snapshot, learner.snapshots) if self.open else learner.snapshots),
            state_names=self.cmdp.state_names,
            action_names=self.cmdp.action_names,
            state=state,
            truth=self.truth,
        )

    def _counts(self) -> Ints | sparse.csr_array:
        observed = self.learner.observed
        if not self.open:
            return observed.sparse() if self.cmdp.is_sparse else observed.dense()
        counts = self.model.counts(observed)
        shape = self.cmdp.S, self.cmdp.A, self.cmdp.S
        return counts if self.cmdp.is_sparse else np.asarray(counts.toarray()).reshape(shape)


class CurveRecorder:
    """The curves of a run while it lasts; costs are those of the compiled loop, in [0, 1] if the problem has units.

    Args:
        optimum: J*, a number, a solution, or None.
        thresholds: tau, (m,).
        horizon: T.
        checkpoints: how many times to record.
        units: those of the problem, if the costs recorded are normalized.
    """

    def __init__(
        self,
        optimum: float | Solution | None,
        thresholds: Floats,
        horizon: int,
        checkpoints: int | None,
        units: Units | None,
    ) -> None:
        n = len(thresholds) + 1
        self.thresholds, self.units = thresholds, units
        self.optimum = optimum_level(optimum, len(thresholds))
        levels = np.append(self.optimum, thresholds)
        self.levels: Floats = levels if units is None else units.normalized(levels)
        self.grid = time_grid(horizon, checkpoints)
        self.totals: Floats = np.zeros((3, n))
        self.curves: Floats = np.full((3, n, len(self.grid)), np.nan)
        self._checkpoint = 0

    def add(self, costs: Floats, t: int) -> None:
        """Record step t and its costs (m + 1,), as the compiled loop does."""
        self.totals[0] += costs
        self.totals[1] += np.where(costs > self.levels, costs - self.levels, 0.0)
        self.totals[2] = np.fmax(self.totals[2], self.totals[0] - self.levels * t)
        if t == self.grid[self._checkpoint]:
            self.curves[:, :, self._checkpoint] = self.totals
            self._checkpoint += 1

    def result(self) -> Floats:
        """Cumulative costs, excesses and peaks (3, m + 1, G) in the user's units."""
        curves = self.curves.copy()
        if self.units is not None:
            curves = np.stack([self.units.sums(curves[0], self.grid), *map(self.units.excesses, curves[1:])])
        if math.isnan(self.optimum):
            curves[1:, 0] = np.nan
        return curves


def make_run(learner: Learner, recorder: CurveRecorder, episodes: Any, *, state: dict[str, Any], **fields: Any) -> Run:
    """The run of a learner: its recorded curves, and the fields that differ between the loops."""
    cumulative, excess, peaks = recorder.result()
    return Run(
        agent=learner.agent.name,
        horizon=learner.horizon,
        seed=learner.seed,
        thresholds=recorder.thresholds,
        optimum=recorder.optimum,
        grid=recorder.grid,
        cumulative=cumulative,
        cumulative_excess=excess,
        peaks=peaks,
        episodes=episodes,
        state={"learner": learner.state(), **state},
        problem=learner.problem,
        **fields,
    )


class TabularModel:
    """A model as the compiled loop reads it: rows s * A + a of cumulative probabilities, and costs in [0, 1].

    Where a learner discovers its states, they have the numbers that it gave them, and those that it has not seen come
    after them: the loop stops as soon as it gets into one of those. order (S,): the model's states by these numbers.
    """

    def __init__(self, cmdp: CMDP, units: Units | None) -> None:
        self.cmdp = cmdp
        per_move = cmdp.move_costs is not None
        costs = cmdp.to_sparse().move_costs if per_move else cmdp.costs.reshape(cmdp.m + 1, -1)
        assert costs is not None
        indptr, indices = (np.asarray(array, dtype=np.int64) for array in (cmdp.matrix.indptr, cmdp.matrix.indices))
        cumulative = cmdp.matrix.data.copy()
        kernels.cumulate(cumulative, np.unique(indptr))  # actions that are not available have empty rows
        costs = np.ascontiguousarray(costs if units is None else units.normalized(costs))
        self.moves = self._in_model_order = Moves(indptr, indices, cumulative, costs, per_move)
        self.order = np.arange(cmdp.S)

    @cached_property
    def number(self) -> dict[Hashable, int]:
        """The model's number of each state, by name."""
        return {name: s for s, name in enumerate(self.cmdp.state_names)}

    def first_state(self, u: float) -> int:
        """The start state that belongs to a uniform number."""
        initial = self.cmdp.initial
        return min(int(np.searchsorted(np.cumsum(initial), u, side="right")), int(np.flatnonzero(initial)[-1]))

    def renumber(self, discovered: list[int]) -> None:
        """Give the states that were discovered, in this order, the first numbers."""
        rest = np.ones(self.cmdp.S, dtype=np.bool_)
        rest[discovered] = False
        self.order = np.concatenate([np.array(discovered, dtype=np.int64), np.flatnonzero(rest)])
        number = np.empty_like(self.order)
        number[self.order] = np.arange(len(self.order))
        A, old = self.cmdp.A, self._in_model_order
        rows = (self.order[:, np.newaxis] * A + np.arange(A)).ravel()
        indptr = np.concatenate([[0], np.cumsum(np.diff(old.indptr)[rows])])
        entries = np.repeat(old.indptr[rows] - indptr[:-1], np.diff(indptr)) + np.arange(indptr[-1])
        costs = np.ascontiguousarray(old.costs[:, entries if old.per_move else rows])
        self.moves = Moves(indptr, number[old.indices[entries]], old.cumulative[entries], costs, old.per_move)

    def policy(self, policy: Floats) -> Floats:
        """A plan's policy (L, S, A) in the model's own numbers; uniform in states that it does not know."""
        L, known, _ = policy.shape
        renumbered = np.repeat(self.cmdp.pairs.uniform[np.newaxis], L, axis=0)
        renumbered[:, self.order[:known]] = policy
        return renumbered

    def snapshot(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot in the model's own numbers."""
        wide = snapshot.widened(self.cmdp.pairs.uniform[self.order])
        policy, visits = np.empty_like(wide.policy), np.empty_like(wide.visits)
        policy[:, self.order], visits[self.order] = wide.policy, wide.visits
        return Snapshot(snapshot.start, policy, visits)

    def counts(self, observed: Counts) -> sparse.csr_array:
        """Counts as a sparse matrix (S * A, S) in the model's own numbers."""
        S, A, entries = self.cmdp.S, self.cmdp.A, observed.sparse().tocoo()
        rows = self.order[entries.row // A] * A + entries.row % A
        counts = sparse.csr_array((entries.data, (rows, self.order[entries.col])), shape=(S * A, S))
        counts.sort_indices()
        return counts


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
    most = CHECKPOINTS if checkpoints is None else whole(checkpoints, "checkpoints", most=MAX_CHECKPOINTS)
    G = min(most, horizon)
    steps = np.arange(1, G + 1)
    return steps * (horizon // G) + steps * (horizon % G) // G
