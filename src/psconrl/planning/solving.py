"""Exact planning in a known model."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from psconrl._core import checks, compiling
from psconrl._core.lazy import lazy_import
from psconrl._core.njit import solved_at_once
from psconrl.cmdp import CMDP, require_model
from psconrl.errors import InvalidArgumentError
from psconrl.planning.compiled.parametric import plan_by_inverses
from psconrl.planning.criteria import Restarted, per_time
from psconrl.planning.evaluation import bias_spans
from psconrl.planning.scaled_model import ScaledModel
from psconrl.planning.solution import Solution
from psconrl.planning.tolerances import JOIN, MAX_HORIZON

if TYPE_CHECKING:
    from psconrl.planning import horizon as horizons
else:
    horizons = lazy_import("psconrl.planning.horizon")


def solve(
    cmdp: CMDP,
    *,
    horizon: int | None = None,
    discount: float | None = None,
    episode: int | None = None,
    join: float = JOIN,
) -> Solution:
    """The best policy of a known model, exactly: min J_0 subject to J_i <= tau_i, from the initial distribution.

    Args:
        horizon: a number T of steps. The policy is then a stationary one that was made for the first T steps from the
            initial distribution, the best of a family (see `psconrl.planning.horizon`): its expected averages over T
            steps keep the limits, or miss them by as little as any in the family. They are `average_costs`; single runs
            scatter around them. Everything else (value, prices, margin, mixture) refers to the long run; the
            mixture's cores are for T steps.
        discount: a factor between 0 and 1: the discounted totals from the initial distribution, and limits on these.
        episode: a number H of steps: the totals over H steps from the initial distribution, limits on these, and a
            policy (H, S, A) that depends on the time. Unlike `horizon`, which looks for one stationary policy.
        join: the share of time that may go into joining several recurrent classes, if the optimum needs them. The
            averages of the policy then differ from the optimum by at most this share of each cost's range.

    >>> import psconrl
    >>> solution = psconrl.solve(psconrl.make("marsrover-4x4"))
    >>> round(solution.value, 6), round(float(solution.multipliers[0]), 6)
    (0.775, 0.5)
    >>> river = psconrl.make("riverswim")  # in the long run 0.473, after millions of steps
    >>> psconrl.solve(river, horizon=20_000).average_costs.round(4)
    array([0.4735, 0.6   ])
    """
    require_model(cmdp)
    join = checks.open_unit_interval(join, "join")
    steps = None if horizon is None else checks.whole(horizon, "horizon", most=MAX_HORIZON)
    if horizon is not None and (discount is not None or episode is not None or cmdp.durations is not None):
        raise InvalidArgumentError("horizon goes with averages per step: not with discount, episode or durations")
    if discount is not None or episode is not None:
        restarted, each = Restarted.of(cmdp, discount, episode), partial(solve, join=join)
        return restarted.solution(each(restarted.model), each)
    if cmdp.durations is not None:
        return per_time(cmdp, solve(cmdp.uniformized(), join=join))
    model = ScaledModel(cmdp)

    def answer() -> Solution:
        solution = model.solution(join, steps)
        return solution if steps is None else _for_steps(model, solution, steps)

    with compiling.notify():
        return solved_at_once(cmdp.S * cmdp.pairs.K * (cmdp.m + 1) ** 2, plan_by_inverses, answer)


def _for_steps(model: ScaledModel, solution: Solution, T: int) -> Solution:
    """The solution with a policy that was made for T steps."""
    initial, units, pairs = model.cmdp.initial, model.units, model.cmdp.pairs
    policy, found = horizons.made_for(model, T, pairs.taken(solution.policy))
    J = found.average_costs @ initial
    with np.errstate(over="ignore"):
        spans = units.unit * bias_spans(found, initial)
    return replace(
        solution,
        policy=pairs.table(policy),
        average_costs=units.averages(J),
        long_run_costs=units.averages(found.long_run_costs @ initial),
        bias_spans=spans,
        attained=bool((J[1:] - units.tau <= 0).all()),
        horizon=T,
    )
