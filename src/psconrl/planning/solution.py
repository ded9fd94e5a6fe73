"""What a planner answers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from psconrl._core import checks, display
from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.lazy import lazy_import
from psconrl.cmdp import CMDP
from psconrl.errors import InvalidArgumentError
from psconrl.planning.tolerances import NOISE, REPORTED, SOLVED

if TYPE_CHECKING:
    from psconrl.planning import decisions
    from psconrl.planning.decisions import Explanation, Rules
else:
    decisions = lazy_import("psconrl.planning.decisions")


class Member(NamedTuple):
    """A deterministic policy of a mixture: its weight, actions (S,) and averages (m + 1,) from the initial
    distribution.

    core (S,): the states where it spends its time; from elsewhere it takes the shortest path there. Without a horizon
    they are its recurrent class, with a horizon T those of a stationary mass above 1 / (S sqrt(T)).
    """

    weight: float
    policy: Ints
    average_costs: Floats
    core: Bools


@dataclass(frozen=True, eq=False)
class Solution:
    """The result of planning.

    Attributes:
        status: "optimal" or "infeasible".
        value: optimum of the linear program, nan if infeasible.
        policy: (S, A), one stationary policy, executable from every state. If the model is infeasible, the one that
            minimises the worst violation.
        average_costs: (m + 1,), the policy's exact averages from the initial distribution: in the long run, or, if it
            was made for a horizon, those that are expected of so many steps.
        long_run_costs: (m + 1,), its long-run averages.
        horizon: the number of steps that the policy was made for, None for the long run. Value, prices, margin,
            conflict and mixture always refer to the long run.
        loss: average_costs[0] - value.
        occupancy: (S, A), the optimal occupancy measure.
        multipliers: (m,), >= 0, the shadow prices -d value / d tau; where these are not unique, those of least
            Euclidean norm; nan if infeasible.
        margin: the largest gamma with J_i <= tau_i - gamma for all i; +inf without constraints, negative if
            and only if the model is infeasible.
        conflict: numbers i of the constraints (costs[i] <= thresholds[i - 1]) that cannot hold together, an
            irreducible set; empty if the model is feasible.
        program: "stateless" if the value is the same from every state that the initial distribution leads to, so that
            the loss is at most `join`; "multichain" if the program was solved from the initial distribution and the
            loss of a stationary policy is only reported.
        bias_spans: (m + 1,), how much a start matters in total: the span of the policy's bias of each cost over the
            states that it may come to from the initial distribution. See `holds_after`.
        classes: number of recurrent classes of the optimal occupancy; several are joined by rare moves.
        connected: False if from some state no path to the optimal ones is known; the policy is uniform there.
        gap: proven distance of the value from the optimum of all policies, rounding included; nan if infeasible.
        attained: whether the stationary policy attains the value and keeps the limits. If not, no stationary policy may
            (stay here or go there for ever): then the answer is the mixture, one member drawn at time 0, and the limits
            hold in expectation only. With a horizon: whether the limits hold, in expectation, over so many steps.
        mixture: the optimum as at most m + 1 deterministic policies with weights, as they are executed.
        switching_times: (k, k), expected steps of the shortest path from the core of one member of the mixture to that
            of another; 0 where they share states, inf where there is no path.
        transitions: for `solve_optimistic`, the model (S, A, S) that it believed in; else None.
        total_costs: (m + 1,), the policy's discounted totals, or totals over an episode, if these were asked for; then
            value, margin and gap are in totals, too, the limits are on totals, average_costs are the totals per step,
            and a policy for an episode is (H, S, A), actions of its members (H, S).
        discount, episode: the discount factor or the number of steps of the totals; else None.
        model: the model that was solved.
    """

    status: Literal["optimal", "infeasible"]
    value: float
    policy: Floats
    average_costs: Floats
    occupancy: Floats
    multipliers: Floats
    margin: float
    conflict: tuple[int, ...]
    program: Literal["stateless", "multichain"]
    classes: int
    bias_spans: Floats
    long_run_costs: Floats
    connected: bool = True
    gap: float = np.nan
    attained: bool = True
    mixture: list[Member] = field(default_factory=list, repr=False)
    switching_times: Floats = field(default_factory=lambda: np.zeros((0, 0)), repr=False)
    transitions: Floats | None = field(default=None, repr=False)
    horizon: int | None = None
    total_costs: Floats | None = None
    discount: float | None = None
    episode: int | None = None
    model: CMDP | None = field(default=None, repr=False)

    @property
    def loss(self) -> float:
        """How far the stationary policy is above the optimum of the linear program; negative for some horizons."""
        return float((self.average_costs if self.total_costs is None else self.total_costs)[0] - self.value)

    @property
    def feasible(self) -> bool:
        """Whether the constraints can be met."""
        return self.status == "optimal"

    @property
    def proven(self) -> bool:
        """Whether the value is proved to be the least, to 1e-6 of the range of c_0; `gap` says how far it may be off.

        Also True if the model is infeasible, which is never reported without a proof, and if c_0 is constant.
        """
        if not self.feasible:
            return True
        width = 1.0 if self.model is None else float(np.ptp(self.model.pairs.taken(self.model.costs)[0]))
        steps = 1.0 if self.discount is None else 1 / (1 - self.discount)
        steps = steps if self.episode is None else float(self.episode)  # over which the range adds up
        return width == 0.0 or bool(self.gap <= REPORTED * width * steps)

    def holds_after(self, tolerance: ArrayLike) -> float:
        """A number of steps from which on the policy keeps its long-run averages, from the initial distribution.

        The expected averages of the first T steps differ from the long-run ones by at most tolerance for every T from
        there on, because T times that difference is at most the span of the bias: a guarantee, not the first such T.

        Args:
            tolerance: one number for all costs, or one for each (m + 1,).

        Returns:
            A whole number; inf if there is none in the range of floats.
        """
        if self.total_costs is not None:
            raise InvalidArgumentError("the limits are on totals; holds_after is about long-run averages")
        allowed = checks.numbers(tolerance, "tolerance")
        n = len(self.bias_spans)
        if allowed.shape not in ((), (n,)):
            raise InvalidArgumentError(
                f"tolerance has shape {allowed.shape}; it must be one number, or one for each of the {n} costs"
            )
        if not ((allowed > 0) & np.isfinite(allowed)).all():
            raise InvalidArgumentError(f"tolerance is {checks.short_repr(tolerance)}; it must be finite and above zero")
        with np.errstate(over="ignore"):
            steps = float((self.bias_spans / allowed).max()) * (
                1.0 - SOLVED
            )  # 140 steps, however 1.4 / 0.01 is rounded
        return max(math.ceil(steps), 1) if steps < math.inf else math.inf

    def table(self) -> dict[str, Any]:
        """The policy as columns state, action, probability and visits, with a row for each action that is ever taken.

        `pandas.DataFrame`, `polars.DataFrame` and `pyarrow.table` take them. The policy of an episode has a column
        step, from 1.

        Returns:
            Arrays by column; visits is the share of time, or the expected (discounted) number for totals.

        >>> import psconrl
        >>> psconrl.solve(psconrl.make("toy", tau=0.6)).table()["probability"].round(3).tolist()
        [0.259, 0.741, 1.0]
        """
        return decisions.table(self)

    def save_policy(self, path: str | Path) -> None:
        """Write the policy as a table.

        Args:
            path: .csv, .parquet, .json, or for people .md or .tex (LaTeX).

        Raises:
            InvalidArgumentError: a file that ends otherwise.
        """
        decisions.save(self, path)

    def explain(self, state: int | str, step: int = 1) -> Explanation:
        """Why the policy does what it does in a state.

        Args:
            state: its name or number.
            step: for an episode's policy, the step, from 1.

        Returns:
            For each action what taking it once, before going on with the policy, changes in total: rows of action,
            extra_costs (m + 1,), probability and priced, the sum at the shadow prices. Printed, it says so in words.
        """
        return decisions.explain(self, state, step)

    def rules(self) -> Rules:
        """The policy without randomisation as a short list of rules, with what it costs; printed, it says so.

        Returns:
            The rules, and the exact averages or totals of the actions that they choose, the likeliest in each state.
            They are those of the policy where it does not randomise; where it does, a limit may be missed.

        Raises:
            InvalidArgumentError: the policy of an episode.

        >>> import psconrl
        >>> river = psconrl.make("riverswim").replace(thresholds=[1.0])
        >>> print(psconrl.solve(river).rules())
        always: right
        """
        return decisions.rules(self)

    def _limit(self, i: int) -> str:
        """A limit in words."""
        if self.model is None:
            return f"constraint {i}"
        return f"{self.model.cost_names[i]} <= {self.model.thresholds[i - 1]:g}"

    def _repr_html_(self) -> str:
        if self.model is None:
            return display.html_table(repr(self), (), ())
        used = self.average_costs if self.total_costs is None else self.total_costs
        names, limits = self.model.cost_names, ["", *(f"{tau:g}" for tau in self.model.thresholds)]
        costs = zip(names, used, limits, ["", *self.multipliers], strict=True)
        columns = self.table()
        rows = list(zip(*(column[: display.LISTED].tolist() for column in columns.values()), strict=True))
        total = len(columns["state"])
        note = f"{len(rows)} of {total:,} rows; .table() has all" if total > len(rows) else ""
        return display.html_table(repr(self), ("cost", "use", "limit", "shadow price"), costs) + display.html_table(
            "Policy", list(columns), rows, note
        )

    def __repr__(self) -> str:
        averages = _written(self.average_costs if self.total_costs is None else self.total_costs)
        if self.horizon is not None:
            averages += f" over {self.horizon} steps"
        costs = "average_costs" if self.total_costs is None else "total_costs"
        if not self.feasible:
            together = " together" if len(self.conflict) > 1 else ""
            return (
                f"Solution(infeasible, margin={self.margin:.6g}, {' and '.join(map(self._limit, self.conflict))} "
                f"cannot hold{together}, {costs}={averages})"
            )
        starts = "every start" if self.program == "stateless" else "the initial distribution"
        doubt = "" if self.proven else f" not proven, gap={self.gap:.2g},"
        how = "" if self.attained or self.horizon is not None else " attained by the mixture only,"
        return (
            f"Solution(value={self.value:.9g},{doubt}{how} {costs}={averages}, "
            f"multipliers={_written(self.multipliers)}, "
            f"margin={without_noise(self.margin):.6g}, loss={without_noise(self.loss):.2g}, from {starts})"
        )


def without_noise(value: float) -> float:
    """The number, or 0 if it is what rounding leaves of zero."""
    return 0.0 if abs(value) < NOISE else value


def _written(values: Floats) -> str:
    return np.array2string(np.round(values, 6) + 0.0, precision=6, separator=", ")
