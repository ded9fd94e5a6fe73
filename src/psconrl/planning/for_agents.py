"""Policies for callers that plan often: no margin, no diagnosis, a start in and out."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from psconrl._core import checks
from psconrl._core.checks import FLOAT, INT, Floats, Ints
from psconrl._core.lazy import lazy_import
from psconrl._core.pairs import Pairs
from psconrl.errors import InvalidArgumentError, InvalidModelError, SolverError
from psconrl.planning import ties
from psconrl.planning.compiled.execute import execute
from psconrl.planning.compiled.generation import FAILED, INFEASIBLE, OPTIMAL
from psconrl.planning.compiled.master import MARGIN, VALUE, Limits
from psconrl.planning.compiled.parametric import plan_by_inverses
from psconrl.planning.compiled.planned import NO_LEVELS, room
from psconrl.planning.compiled.pricing import Mixture
from psconrl.planning.compiled.pricing import Start as Begin
from psconrl.planning.compiled.rows import Rows
from psconrl.planning.components import inverted, planner
from psconrl.planning.model_rows import with_pairs
from psconrl.planning.sparse_pricing import plan_sparse
from psconrl.planning.steered import Steered
from psconrl.planning.tolerances import FEASIBLE, MIN_LINK, NOISE, PROVEN, SOLVED, TIE_BREAK
from psconrl.planning.units import Units

if TYPE_CHECKING:
    from psconrl.planning import fallbacks, steering
else:
    steering = lazy_import("psconrl.planning.steering")
    fallbacks = lazy_import("psconrl.planning.fallbacks")

Method = Literal["compiled", "components", "program"]
Start = Mapping[str, NDArray[Any]]


class BestPolicy(NamedTuple):
    """A policy (S, A) for the stateless program of a model, or the result that it is infeasible.

    Attributes:
        feasible: whether the limits can be met.
        policy: (S, A), or (K,) for rows in which states have different numbers of actions; None if infeasible.
        value: the optimum, within `gap`.
        average_costs: (m + 1,), of the policy, from every state that leads to its recurrent class; nan if infeasible.
        multipliers: (m,), those that prove the value.
        classes: how many recurrent classes the optimum has; several are joined.
        connected: whether every state has a path into them.
        gap: how far the averages of the policy may be above the optimum.
        method: what solved it: "compiled"; where that had no proof "components", or for a confidence set "program".
        start: plain arrays for the next call.
        steered: the columns of the optimum and the rule that chooses between them; None unless asked for.
    """

    feasible: bool
    policy: Floats | None
    value: float
    average_costs: Floats
    multipliers: Floats
    classes: int
    connected: bool
    gap: float
    method: Method
    start: Start
    steered: Steered | None = None

    def shaped(self, shape: tuple[int, ...]) -> BestPolicy:
        """With the policy in another shape."""
        return self if self.policy is None else self._replace(policy=self.policy.reshape(shape))


class Steer(NamedTuple):
    """That a mixture is to be steered after t steps with some excess (m,), by a plan that lasts to step `time`.

    rows: the model in which it is executed, if it is another one than that of the plan, which may have restarts.
    """

    t: int
    time: int
    excess: Floats
    rows: Rows | None = None


def best_policy(
    transitions: ArrayLike | Rows,
    costs: ArrayLike,
    thresholds: ArrayLike,
    *,
    join: float,
    start: Start | None = None,
    method: Method = "compiled",
    available: ArrayLike | None = None,
) -> BestPolicy:
    """Plan in a model, (S, A, S) or by rows, with costs (m + 1, S, A): a pure function of its arguments.

    Args:
        transitions: an array (S, A, S), or `Rows`.
        costs: (m + 1, S, A), or (m + 1, K) for rows. thresholds: (m,).
        join: the share of time for joining several recurrent classes.
        start: `start` of an earlier answer for a model of the same size. A good one saves most of the work and changes
            the answer only where several are optimal; one that does not fit is ignored.
        method: where to begin: "compiled" is column generation by inverses or sparse factors; "components" looks at the
            end components one by one, slowly.
        available: a mask (S, A) of the actions that can be taken, for arrays (S, A, S); all if left out.
    """
    checks.one_of(method, "method", ("compiled", "components"))
    join = checks.open_unit_interval(join, "join")
    if available is not None:
        return _best_available(transitions, costs, thresholds, join, start, method, available)
    rows = _checked_rows(transitions)
    c, tau = checks.numbers(costs, "costs"), checks.numbers(thresholds, "thresholds")
    if tau.ndim != 1 or c.ndim not in (2, 3) or c.size != (len(tau) + 1) * rows.K:
        raise InvalidModelError(
            f"costs have shape {c.shape} and thresholds {tau.shape}; they must be (m + 1, S, A) and (m,) for {rows.S} "
            f"states and {rows.K} pairs"
        )
    checks.finite(c, "costs", "give finite costs")
    checks.finite(tau, "thresholds", "leave out limits that are none")
    units = Units.of(np.ascontiguousarray(c.reshape(len(tau) + 1, rows.K)), tau)
    scaled = _scaled_start(start, units)
    best = plan_rows(rows, units.costs, units.near, join=join, start=scaled, method=method)
    return best._replace(
        policy=None if best.policy is None else _shaped(rows, best.policy),
        value=float(units.low[0] + units.unit[0] * best.value),
        average_costs=units.averages(best.average_costs),
        multipliers=units.multipliers(best.multipliers),
        gap=float(units.unit[0] * best.gap),
        start={**best.start, **_in_units(best.start, units)},
    )


def _best_available(
    transitions: ArrayLike | Rows,
    costs: ArrayLike,
    thresholds: ArrayLike,
    join: float,
    start: Start | None,
    method: Method,
    available: ArrayLike,
) -> BestPolicy:
    """`best_policy` with the actions of a mask only."""
    if isinstance(transitions, Rows):
        raise InvalidArgumentError("rows have the pairs that are available; leave out available, or give an array")
    p, mask = checks.dense_transitions(transitions, available)
    pairs = Pairs.all(*p.shape[:2]) if mask is None else Pairs(mask)
    c = checks.numbers(costs, "costs")
    if c.shape[1:] != p.shape[:2]:
        raise InvalidModelError(f"costs have shape {c.shape}; they must be (m + 1, S, A), (S, A) = {p.shape[:2]}")
    rows = with_pairs(Rows.from_dense(p), pairs)
    best = best_policy(rows, pairs.taken(c), thresholds, join=join, start=start, method=method)
    return best if best.policy is None else best._replace(policy=pairs.table(best.policy.ravel()))


def _in_units(start: Start, units: Units) -> dict[str, NDArray[Any]]:
    """The prices and the bias of a start in the units of the model."""
    if "multipliers" not in start:
        return {}
    return {"multipliers": units.multipliers(start["multipliers"]), "bias": units.unit[0] * start["bias"]}


def _scaled_start(start: Start | None, units: Units) -> Start | None:
    """A start in the scaled units; one that has no numbers there is none."""
    if not isinstance(start, Mapping):
        return None
    try:
        multipliers = np.asarray(start["multipliers"], dtype=np.float64) * (units.unit[1:] / units.unit[0])
        return {**start, "multipliers": multipliers, "bias": np.asarray(start["bias"], np.float64) / units.unit[0]}
    except (KeyError, TypeError, ValueError):
        return None


def plan_rows(
    rows: Rows,
    costs: Floats,
    thresholds: Floats,
    *,
    join: float,
    start: Start | None = None,
    method: Method = "compiled",
    steer: Steer | None = None,
) -> BestPolicy:
    """`best_policy` without checks, for agents: rows and costs are their own; to be steered, costs in [0, 1].

    costs: (m + 1, S, A), or (m + 1, K) where states have different numbers of actions; so is the policy.
    """
    m, shape = len(thresholds), costs.shape[1:]
    if not costs.flags.carray:
        costs = costs.copy()
    if not thresholds.flags.carray:
        thresholds = thresholds.copy()
    flat = costs.reshape(m + 1, -1)
    if method == "compiled":
        best = _compiled(rows, flat, thresholds, join, check_warm_start(rows, start, m), steer)
        if best is not None:
            return best.shaped(shape)
    try:
        best = fallbacks.by_components(rows, flat, thresholds, join, steer)
    except SolverError:
        if method != "compiled":
            raise
        # Seen with probabilities of 1e-10 among large ones: nothing but another start was missing.
        best = _compiled(rows, flat, thresholds, join, check_warm_start(rows, None, m), steer)
        if best is None:
            raise
    return best.shaped(shape)


def model_margin(rows: Rows, costs: Floats, thresholds: Floats) -> float:
    """The largest gamma with J_i <= tau_i - gamma for all i; arguments as those of `plan_rows`."""
    m = len(thresholds)
    flat = np.array(costs.reshape(m + 1, -1))
    limits = Limits(np.array(thresholds), np.ones(m))
    optimum = planner(rows)(rows, flat, limits, Begin(*check_warm_start(rows, None, m)[:4]), MARGIN, NO_LEVELS)
    if optimum.status == OPTIMAL and abs(optimum.objective - optimum.bound) <= PROVEN:
        return -float(optimum.objective)
    return fallbacks.margin_by_components(rows, flat, thresholds)


def check_warm_start(rows: Rows, start: Start | None, m: int) -> tuple[Ints, Floats, Ints, Floats, Ints]:
    """A `Begin` for the compiled planner, and the last paths: those of a start that fits, else the first pairs.

    Kernels look at the numbers. To them arrays that cannot be written to, or with gaps, are of another kind, for which
    they would be compiled once more.
    """
    S = len(rows.begin) - 1
    if start:
        try:
            policies, multipliers, reference = start["policies"], start["multipliers"], start["reference"]
            bias, paths = start["bias"], start["paths"]
            if (
                policies.shape == (len(policies), S)
                and multipliers.shape == (m,)
                and reference.shape == (1,)
                and bias.shape == paths.shape == (S,)
                and policies.dtype == reference.dtype == paths.dtype == INT
                and bias.dtype == multipliers.dtype == FLOAT
                and policies.flags.carray
                and multipliers.flags.carray
                and reference.flags.carray
                and bias.flags.carray
                and paths.flags.carray
            ):
                return policies, multipliers, reference, bias, paths
        except (KeyError, AttributeError, TypeError):
            pass
    first = rows.begin[:-1].reshape(1, S).copy()
    return first, np.zeros(m), np.zeros(1, dtype=np.int64), np.zeros(S), np.full(S, -1)


@cache
def _ones(m: int) -> Floats:
    return np.ones(m)


def _compiled(
    rows: Rows,
    costs: Floats,
    thresholds: Floats,
    join: float,
    given: tuple[Ints, Floats, Ints, Floats, Ints],
    steer: Steer | None,
) -> BestPolicy | None:
    """The answer of the compiled planner, a policy (K,); None if unproven. given: see `check_warm_start`."""
    model, (n, K), S = tuple(rows), costs.shape, len(rows.begin) - 1
    few, m = inverted(rows), n - 1
    into, limits, last_paths = room(n, S, K if few else 0), (thresholds, _ones(m)), given[4]
    multipliers, bias, J, distributions, policies, weights, policy, averages, paths, reference = into
    levels, status, made = ties.levels(K), FAILED, list[Any]()
    if few:
        status, objective, bound, off, count, *made = plan_by_inverses(model, costs, levels, limits, given, VALUE, into)
    # Where biases are so large that rounding decides between equals anyway, models are planned in without a rule.
    for deciding in (levels,) if few else (levels, NO_LEVELS):
        if status == FAILED:
            found = plan_sparse(rows, costs, Limits(*limits), Begin(*given[:4]), VALUE, deciding)
            status, objective, bound, off, multipliers, bias, (J, distributions, policies, weights), _ = found
            count, made, reference, paths = len(weights), [], given[2], last_paths
    if status == INFEASIBLE:
        policies, multipliers, reference, bias, paths = given
        following = _next_start(policies, multipliers, reference, bias, paths)
        nothing = np.full(n, np.nan)
        return BestPolicy(False, None, np.nan, nothing, nothing[1:], 0, True, np.nan, "compiled", following)
    if status != OPTIMAL or not abs(objective - bound) <= PROVEN:
        return None
    bound -= TIE_BREAK
    mixture = Mixture(J, distributions, policies, weights).first(count)
    met = SOLVED if few else FEASIBLE
    if few and not made and ((mixture.weights @ mixture.J)[1:] - thresholds > met).any():
        return None
    following = _next_start(mixture.policies, multipliers, reference, bias, paths)
    value, classes, connected, link = made or (np.nan, 1, False, 1.0)
    if not made and off <= PROVEN / 2:
        executed = execute(model, costs, tuple(mixture), last_paths)
        policy, value, averages, classes, connected, link, paths, reference = executed
        following = _next_start(mixture.policies, multipliers, reference, bias, paths)
    if classes > 1 or off > PROVEN / 2 or link < MIN_LINK:
        best = fallbacks.exactly(rows, costs, mixture, thresholds, bound, multipliers, join, steer)
        return None if best is None else best._replace(start=following)
    gap = max(value - bound, 0.0) + off + NOISE
    steered = None
    if steer is not None and m:
        steered = steering.steered_between(rows, costs, mixture, thresholds, steer)
    return BestPolicy(True, policy, value, averages, multipliers, 1, connected, gap, "compiled", following, steered)


def _next_start(policies: Ints, multipliers: Floats, reference: Ints, bias: Floats, paths: Ints) -> Start:
    """What the next plan may start from."""
    return {"policies": policies, "multipliers": multipliers, "reference": reference, "bias": bias, "paths": paths}


def _shaped(rows: Rows, policy: Floats) -> Floats:
    """A policy (K,) as (S, A), if all states have as many actions."""
    A = len(policy) // rows.S
    return policy.reshape(rows.S, A) if (np.diff(rows.begin) == A).all() else policy


def _checked_rows(transitions: ArrayLike | Rows) -> Rows:
    """A model by rows, checked before compiled code sees it."""
    if isinstance(transitions, Rows):
        return transitions.checked()
    p = checks.numbers(transitions, "transitions")
    if p.ndim != 3 or p.shape[0] != p.shape[2] or 0 in p.shape:
        raise InvalidModelError(f"transitions have shape {p.shape}; they must be (S, A, S)")
    bad = np.argwhere(~((p >= 0) & (p <= 1 + 1e-9)))
    if len(bad):
        at = tuple(int(i) for i in bad[0])
        raise InvalidModelError(f"transitions{list(at)} is {p[at]}; probabilities must lie in [0, 1]")
    sums = p.sum(axis=2)
    off = np.argwhere(~(np.abs(sums - 1) <= 1e-6))
    if len(off):
        s, a = (int(i) for i in off[0])
        raise InvalidModelError(f"transitions[{s}, {a}] sum to {sums[s, a]:.9g}; each row must sum to 1")
    return Rows.from_dense(p)
