"""What a run leaves behind.

`RunData` is the one table of what a run records: a field there is a column of the store, checked and read back, and an
attribute of `Run` and of stored runs. `COLUMNS` is the same for the table of episodes, `psconrl.learning.metrics` has
what is derived.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from psconrl._core import display
from psconrl._core.checks import Floats, Ints
from psconrl._core.lazy import lazy_import
from psconrl.agents.contract import Plan
from psconrl.cmdp import CMDP
from psconrl.learning.metrics import Metrics
from psconrl.planning.solution import Solution
from psconrl.planning.solving import solve
from psconrl.problem import Problem

if TYPE_CHECKING:
    from psconrl.learning import estimate as estimation
    from psconrl.learning.estimate import Estimate
else:
    estimation = lazy_import("psconrl.learning.estimate")


class Episode(NamedTuple):
    """One plan that was executed: when it started, how many steps it took, and why it ended."""

    plan: Plan
    start: int
    length: int
    reason: str


class Column(NamedTuple):
    """A column of a run's table of plans: its name, numpy's type, and its value in the row of an episode.

    value: the name of an attribute of the episode, or what computes it of an episode. each_limit: whether it has a
    value for each limit, (m,), nan where the episode has none.
    """

    name: str
    kind: Any
    value: str | Callable[[Episode], Any]
    each_limit: bool = False


def _of_limits(name: str) -> Callable[[Episode], Any]:
    """What copies an array (m,) of a plan, nan where the plan has none."""

    def values(episode: Episode) -> Any:
        array = getattr(episode.plan, name)
        return np.nan if array is None else array.copy()

    return values


COLUMNS = [
    Column("start", np.int64, "start"),
    Column("length", np.int64, "length"),
    Column("phase", "U8", "plan.phase"),
    Column("feasible", np.bool_, "plan.feasible"),
    Column("connected", np.bool_, "plan.connected"),
    Column("reason", "U8", "reason"),
    Column("value", np.float64, "plan.value"),
    Column("solver", "U8", "plan.solver"),
    Column("multipliers", np.float64, _of_limits("multipliers"), each_limit=True),
    Column("nearest", np.float64, _of_limits("nearest"), each_limit=True),
]
"""The one place for columns: runs have them, the store writes and reads them. A new one comes last."""


@cache
def _values() -> tuple[Callable[[Episode], tuple[Any, ...]], list[Callable[[Episode], Any]]]:
    """What gives the first values of a row, attributes, all at once, and what gives each of the others."""
    names: list[str] = []
    others: list[Callable[[Episode], Any]] = []
    for column in COLUMNS:
        if isinstance(column.value, str) and not others:
            names.append(column.value)
        else:
            others.append(attrgetter(column.value) if isinstance(column.value, str) else column.value)
    return attrgetter(*names), others


def row_of(episode: Episode) -> tuple[Any, ...]:
    """The row of an episode, a value for each of the columns."""
    first, others = _values()
    return (*first(episode), *[value(episode) for value in others])


def episode_table(rows: Sequence[tuple[Any, ...]], m: int, averages: bool = False) -> NDArray[Any]:
    """A run's table of plans, of their rows."""
    table = np.array(rows, episode_columns(m, averages))
    table["multipliers"] += 0.0  # -0 is 0
    return table


def episode_columns(m: int, averages: bool = False) -> list[Any]:
    """The columns of a run's table of plans under m limits as numpy has them, with exact averages if asked for."""
    columns = [
        (column.name, column.kind, (m,)) if column.each_limit else (column.name, column.kind) for column in COLUMNS
    ]
    return [*columns, ("average_costs", np.float64, (m + 1,))] if averages else columns


def nearest_by_name(nearest: Floats | None, problem: Problem) -> dict[str, float]:
    """The limits that could not be met together in the model of a plan, by name, and the nearest that could.

    Args:
        nearest: (m,), `Plan.nearest` in the user's units.
        problem: what names the limits.
    """
    if nearest is None:
        return {}
    raised = np.flatnonzero(nearest > problem.thresholds)
    return {problem.cost_names[i + 1]: float(nearest[i]) for i in raised}


class Snapshot(NamedTuple):
    """One plan on the way: when it started, its policy (L, S, A), and the visits (S, A) before it."""

    start: int
    policy: Floats
    visits: Ints

    def copy(self) -> "Snapshot":
        """A snapshot that nothing changes any more."""
        return Snapshot(self.start, self.policy.copy(), self.visits.copy())

    def widened(self, uniform: Floats) -> "Snapshot":
        """The same with more states, as many as the uniform policy (S, A) has, which is what the plan did there."""
        (L, known, A), S = self.policy.shape, len(uniform)
        if known == S:
            return self
        policy = np.concatenate([self.policy, np.broadcast_to(uniform[known:], (L, S - known, A))], axis=1)
        return Snapshot(self.start, policy, np.concatenate([self.visits, np.zeros((S - known, A), dtype=np.int64)]))


class Axes(NamedTuple):
    """The axes of an array: limits (m), costs (m + 1), checkpoint times (G), ends of a range (2); and the type of its
    entries."""

    kind: Any
    names: tuple[Literal["limit", "cost", "time", "end"], ...]


PerLimit = Annotated[Floats, Axes(np.float64, ("limit",))]
PerCostCurve = Annotated[Floats, Axes(np.float64, ("cost", "time"))]
Times = Annotated[Ints, Axes(np.int64, ("time",))]


@dataclass(frozen=True, eq=False, kw_only=True)
class RunData(Metrics):
    """What a run has, whether it was just made or comes from a store.

    Attributes:
        horizon: T.
        seed: chose all random numbers.
        thresholds: tau, (m,).
        optimum: J*, nan if it is not known.
        grid: (G,), checkpoint times, as evenly spaced as whole steps allow; the last is the horizon.
        cumulative: (m + 1, G), costs summed up to each checkpoint.
        cumulative_excess: (m + 1, G), sums of max(c_i - level_i, 0), levels (optimum, *thresholds); row 0 is nan
            without an optimum.
        peaks: (m + 1, G), the largest that sum_t (c_i - level_i) has been, at any step so far, or 0; row 0 as above.
        episodes: structured array with start, length, phase, feasible, connected, reason, value, solver, multipliers
            (m,), the shadow prices of the limits in the model planned with, nan where there are none, and
            average_costs (m + 1,) if asked for: exact averages of the executed policy in the true model.
        snapshots: about 40 plans, evenly spaced in the logarithm of time, and the last one.
    """

    horizon: int
    seed: int
    thresholds: PerLimit
    optimum: float
    grid: Times
    cumulative: PerCostCurve
    cumulative_excess: PerCostCurve
    peaks: PerCostCurve
    episodes: NDArray[np.void]
    snapshots: tuple[Snapshot, ...]

    def data(self) -> dict[str, Any]:
        """The fields of this class by name."""
        return {field.name: getattr(self, field.name) for field in fields(RunData)}


@dataclass(frozen=True, eq=False, kw_only=True)
class Run(RunData):
    """The curves of one run and one row per plan: the attributes of `RunData`, and

    Attributes:
        agent: the name of the agent.
        counts: N(s, a, s') in the layout of the transitions: (S, A, S), or sparse (S * A, S) for a sparse model.
        state_names, action_names: what states and actions are called, None where they have numbers only. States that
            were discovered by `learn` are numbered in the order in which they appeared.
        state: what `simulate` continues from, plain values; after `learn`, state["learner"] for `Learner.restore`.
        problem: what the agent knew before.
        truth: where `multipliers` come from: the solution of the true model, or the model, solved when they are first
            asked for; None if neither is known.
    """

    agent: str
    counts: Ints | sparse.csr_array
    state_names: tuple[Hashable, ...] | None
    action_names: tuple[Hashable, ...] | None
    state: dict[str, Any] = field(repr=False)
    problem: Problem = field(repr=False)
    truth: Solution | CMDP | None = field(default=None, repr=False)

    def plot(self) -> Any:
        """Draw the averages of all costs so far, with their limits, with matplotlib.

        Returns:
            The axes, one per cost.
        """
        return display.plot_averages(
            self.grid, self.cumulative / self.grid, [None, *self.thresholds.tolist()], self.problem.cost_names
        )

    def _repr_html_(self) -> str:
        limits = ["", *(f"{tau:g}" for tau in self.thresholds)]
        rows = zip(self.problem.cost_names, self.cumulative[:, -1] / self.grid[-1], limits, strict=True)
        caption = f"{self.agent}, seed {self.seed}: {self.horizon:,} steps, {len(self.episodes):,} plans"
        return display.html_table(caption, ("cost", "average", "limit"), rows)

    @property
    def policy(self) -> Floats:
        """The policy (L, S, A) of the last plan."""
        return self.snapshots[-1].policy

    @property
    def named_policy(self) -> dict[Hashable, dict[Hashable, float]]:
        """The same in names, {state: {action: probability}}; its first step, if it changes from step to step."""
        S, A = self.policy.shape[1:]
        states, actions = self.state_names or range(S), self.action_names or range(A)
        return {
            state: {action: float(p) for action, p in zip(actions, row, strict=True) if p > 0}
            for state, row in zip(states, self.policy[0], strict=True)
        }

    @cached_property
    def multipliers(self) -> Floats:
        """lambda*, (m,): the optimal multipliers of the true model; nan where it is not known."""
        if isinstance(self.truth, CMDP):
            return solve(self.truth).multipliers
        return np.full(len(self.thresholds), np.nan) if self.truth is None else self.truth.multipliers

    def status(self) -> dict[str, Any]:
        """How far the run came, and whether its limits can be met.

        Returns:
            "steps"; "plans"; "infeasible_plans", those made where the limits could not be met; and "conflict", of the
            last of these the names of the limits that could not hold together, with the "nearest" that could, by name.
        """
        missed = self.episodes[~self.episodes["feasible"]]
        nearest = missed["nearest"][-1] if len(missed) and not np.isnan(missed["nearest"][-1]).any() else None
        by_name = nearest_by_name(nearest, self.problem)
        return {
            "steps": int(self.grid[-1]),
            "plans": len(self.episodes),
            "infeasible_plans": len(missed),
            "conflict": list(by_name),
            "nearest": by_name,
        }

    def estimate(self, confidence: float | None = None, *, draws: int = 200, seed: int = 0) -> "Estimate":
        """What was learned, as a model to be solved: the plan in it, not the last sample, is what to deploy.

        confidence: with 0.95, limits are tightened until the plan keeps the true ones in that share of `draws` models
        from the posterior; `seed` chooses these. See `psconrl.learning.estimate`.
        """
        return estimation.estimate(self.problem, self.state["learner"], confidence, draws, seed)

    def __repr__(self) -> str:
        violation = ", ".join(f"{v:.4g}" for v in self.violation[:, -1])
        infeasible = int((~self.episodes["feasible"]).sum())
        return (
            f"Run({self.agent}, seed {self.seed}, T={self.grid[-1]}, regret={self.regret[-1]:.4g}, "
            f"violation=[{violation}], episodes={len(self.episodes)}, infeasible={infeasible})"
        )
