"""What must be true of a planner's answer, checked against exact rational arithmetic.

All tolerances are relative to the range of the cost in question, plus the rounding of its floats:

    value, margin, limits kept by what is returned      1e-6
    averages stated of a policy                         1e-9
    status                                              must be right where the margin exceeds 1e-9 of the ranges
    certified gap                                       never below the true one by more than 1e-12
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from psconrl._core.checks import Floats
from psconrl._core.graph import is_communicating, is_weakly_communicating
from psconrl.cmdp import CMDP
from psconrl.planning import BestPolicy, Solution
from psconrl.structure import restrict_to_reachable
from tests.planning.oracle import Oracle

WRONG, STATED, DECIDED, CERTIFIED = 1e-6, 1e-9, 1e-9, 1e-12
ROUNDING = 1e-13
ORDINARY = 1e-6
"""Where all probabilities of a communicating model exceed this, a stationary policy must attain the optimum."""


class Failure(NamedTuple):
    """A rule that an answer broke, and how."""

    kind: str
    detail: str


class Tolerances(NamedTuple):
    """What counts as equal, cost by cost: `ranges` times a relative tolerance, plus `rounding`."""

    ranges: Floats
    rounding: Floats

    @staticmethod
    def of(costs: Floats, thresholds: Floats) -> Tolerances:
        """Those of a model."""
        size = np.abs(costs).max(axis=(1, 2))
        size[1:] = np.maximum(size[1:], np.abs(thresholds))
        return Tolerances(np.ptp(costs, axis=(1, 2)), ROUNDING * np.where(size > 0, size, 1.0))

    def __call__(self, relative: float, i: int) -> float:
        return float(relative * self.ranges[i] + self.rounding[i])


def literal(cmdp: CMDP) -> str:
    """The model as an expression to paste."""
    p = cmdp.to_dense().transitions
    initial = cmdp.initial.tolist()
    start = str(initial.index(1.0)) if 1.0 in initial else str(initial)
    return f"CMDP({p.tolist()}, {cmdp.costs.tolist()}, {cmdp.thresholds.tolist()}, initial={start})"


def judge(cmdp: CMDP, solution: Solution, oracle: Oracle | None = None) -> list[Failure]:
    """Every rule that the answer of `solve` breaks."""
    oracle = Oracle.of(cmdp) if oracle is None else oracle
    near = Tolerances.of(cmdp.costs, cmdp.thresholds)
    found = _status(solution.feasible, oracle)
    found += _margin(solution, oracle, near)
    if solution.feasible:
        found += _value(solution.value, oracle, near)
        found += _multipliers(solution.multipliers, solution.value, _gap(solution), oracle, near)
    elif not np.isnan(solution.value):
        found.append(Failure("value", f"infeasible, and yet the value is {solution.value}"))
    if not solution.feasible and not found:
        found += _conflict(solution.conflict, oracle)
    return found + _policy(cmdp, solution, oracle, near)


def judge_best(
    transitions: Floats, costs: Floats, thresholds: Floats, best: BestPolicy, join: float, oracle: Oracle | None = None
) -> list[Failure]:
    """Every rule that the answer of `best_policy` breaks."""
    oracle = Oracle(transitions, costs, thresholds) if oracle is None else oracle
    near = Tolerances.of(costs, thresholds)
    found = _status(best.feasible, oracle)
    if not best.feasible or best.policy is None:
        return found
    found += _value(best.value, oracle, near)
    gap = _gap(best)
    found += _multipliers(best.multipliers, best.value, gap, oracle, near)
    found += _certified(best.value, gap, oracle, near)
    found += _rows(best.policy)
    where = _promised(transitions, best, oracle)
    limits = [Fraction(float(x)) for x in (best.value, *thresholds)]
    for averages in where:
        for i, (average, limit) in enumerate(zip(averages, limits, strict=True)):
            more = float(average - limit)
            if more > (max(gap or 0.0, 0.0) if i == 0 else 0.0) + near(join + WRONG, i):
                said = f"cost {i} of the policy is {float(average)}, {more:.3g} above {float(limit)}"
                return [*found, Failure("policy", said)]
    return found


def judge_optimistic(
    p_hat: Floats, radius: Floats, costs: Floats, extended: Oracle, solution: Solution
) -> list[Failure]:
    """Every rule that the answer of `solve_optimistic`, from state 0, breaks; radius (S, A).

    extended: the stateless oracle of the model whose actions are all vertices of the set. Where a member of the set
    communicates, what is said of the policy must hold in the model believed in, unless all members nearly fall apart
    and the answer says that it is a mixture.
    """
    near = Tolerances.of(costs, extended.thresholds)
    found = _status(solution.feasible, extended)
    found += _margin(solution, extended, near)
    if solution.feasible:
        found += _value(solution.value, extended, near)
        found += _certified(solution.value, _gap(solution), extended, near)
    p = solution.transitions
    assert p is not None
    lower = (p_hat - radius[:, :, np.newaxis]).clip(0.0, 1.0)
    upper = (p_hat + radius[:, :, np.newaxis]).clip(0.0, 1.0)
    outside = max(float((lower - p).max()), float((p - upper).max()), float(np.abs(p.sum(axis=2) - 1).max()))
    if outside > CERTIFIED:
        found.append(Failure("set", f"the model believed in is {outside:.3g} outside the set"))
    found += _rows(solution.policy)
    if found:
        return found
    believed = Oracle(p, costs, extended.thresholds, np.eye(len(p))[0])
    averages = believed.averages_at_start(solution.policy)
    found += _stated("averages", solution.average_costs, averages, near)
    possible = (lower > 0) | ((upper > 0) & (lower.sum(axis=2, keepdims=True) < 1))
    member = possible / possible.sum(axis=2, keepdims=True)
    ordinary = upper[possible].min() > ORDINARY or solution.attained
    if ordinary and is_communicating(CMDP(member, costs, extended.thresholds).matrix):
        found += _missed("policy", averages, solution, extended, near)
    return found


def _promised(transitions: Floats, best: BestPolicy, oracle: Oracle) -> list[list[Fraction]]:
    """The averages of a plan's policy that must be those of the plan.

    One class: wherever the policy ends, and from every state if all are led there. Several: from every state of a
    communicating model, but for one that falls apart nearly, where floats may not hold the rare moves that join them.
    """
    assert best.policy is not None
    moves = transitions[transitions > 0]
    communicating = is_communicating(CMDP(transitions, oracle.costs, oracle.thresholds).matrix)
    if communicating and (best.classes == 1 or moves.min() > ORDINARY):
        return oracle.averages(best.policy)
    if best.classes == 1 and best.connected:
        return list(oracle.class_averages(best.policy).values())
    return []


def _status(feasible: bool, oracle: Oracle) -> list[Failure]:
    if feasible == oracle.feasible:
        return []
    margin = oracle.relative_margin()
    if margin is None:
        return [] if feasible else [Failure("status", "infeasible without limits")]
    if abs(margin) > DECIDED and feasible != (margin > 0):
        said = "optimal" if feasible else "infeasible"
        return [Failure("status", f"called {said}; the margin is {float(margin):.3g} of the ranges")]
    return []


def _margin(solution: Solution, oracle: Oracle, near: Tolerances) -> list[Failure]:
    margin, binding, *_ = oracle.optimum
    if margin is None:
        return [] if solution.margin == np.inf else [Failure("margin", f"{solution.margin} without limits")]
    found = []
    if (solution.margin < 0) == solution.feasible:
        found.append(Failure("margin", f"margin {solution.margin}, status {solution.status}"))
    # A limit of another size may be tight but for its own rounding, which in the units of this margin is large.
    allowed = sum(float(b) * near(WRONG, i) for i, b in enumerate(binding, start=1)) + float(near.rounding[1:].max())
    if not abs(solution.margin - float(margin)) <= allowed:
        # Several prices may prove the margin; what counts is how far it moves with the limits.
        by = [Fraction(near(WRONG, i)) for i in range(1, oracle.m + 1)]
        least, most = oracle.moved([-b for b in by]).margin, oracle.moved(by).margin
        assert least is not None
        assert most is not None
        if not least <= Fraction(solution.margin) <= most:
            found.append(Failure("margin", f"{solution.margin}; exact {float(margin)}, tolerance {allowed:.3g}"))
    return found


def _value(value: float, oracle: Oracle, near: Tolerances) -> list[Failure]:
    """The value, or that of limits moved by their rounding, where it depends on that."""
    if not np.isfinite(value):
        return [Failure("value", f"{value}")]
    wrong = _distance(Fraction(value), oracle, near, near(WRONG, 0))
    if wrong is None or wrong <= near(WRONG, 0):  # without an optimum the status is wrong, and named elsewhere
        return []
    exact = oracle.optimum.value
    known = "none" if exact is None else str(float(exact))
    return [Failure("value", f"{value}; exact {known}, off by {wrong:.3g}, range {near.ranges[0]:.3g}")]


def _distance(value: Fraction, oracle: Oracle, near: Tolerances, allowed: float, below: bool = True) -> float | None:
    """How far a value is above the optimum, or if asked for below; None if there is no optimum.

    Where that is more than allowed: from the nearest optimum with limits moved by 1e-12 of their ranges (2e-9 if they
    cannot be met as they are).
    """
    exact = oracle.optimum.value
    if exact is not None:
        wrong = float(abs(value - exact) if below else value - exact)
        if wrong <= allowed:
            return wrong
    by = [Fraction(near(CERTIFIED if exact is not None else 2 * DECIDED, i)) for i in range(1, oracle.m + 1)]
    least = oracle.moved(by).value
    if least is None:
        return None
    most = exact
    if exact is not None:
        tight = oracle.moved([-b for b in by]).value
        most = exact if tight is None else tight
    over = 0.0 if most is None else max(float(value - most), 0.0)
    return max(over, float(least - value)) if below else over


def _certified(value: float, gap: float | None, oracle: Oracle, near: Tolerances) -> list[Failure]:
    """The certified gap covers the distance of the value from the optimum."""
    if gap is None:
        return []
    wrong = _distance(Fraction(float(value)), oracle, near, gap + near(CERTIFIED, 0))
    if gap < -near(CERTIFIED, 0) or (wrong is not None and wrong > gap + near(CERTIFIED, 0)):
        return [Failure("gap", f"the value is off by {wrong:.3g}, the certified gap is {gap:.3g}")]
    return []


def _multipliers(
    multipliers: Floats, value: float, gap: float | None, oracle: Oracle, near: Tolerances
) -> list[Failure]:
    """Prices are not negative, and prove the value to within the gap."""
    if len(multipliers) != oracle.m or not np.isfinite(multipliers).all():
        return [Failure("multipliers", f"{multipliers}")]
    if (multipliers < 0).any():
        return [Failure("multipliers", f"negative: {multipliers.tolist()}")]
    if not np.isfinite(value):
        return []
    missing = float(Fraction(float(value)) - oracle.lagrangian(multipliers))
    # Limits and costs are read to rounding; a price multiplies that.
    allowed = near(STATED, 0) + float(multipliers @ near.rounding[1:])
    if missing > (WRONG * near.ranges[0] if gap is None else max(gap, 0.0)) + allowed:
        stated = "none stated" if gap is None else f"{gap:.3g}"
        return [Failure("multipliers", f"{multipliers.tolist()} leave {missing:.3g} unproved; gap: {stated}")]
    return []


def _conflict(conflict: Sequence[int], oracle: Oracle) -> list[Failure]:
    """The set cannot hold together, and without any one of it can."""
    held = list(conflict)
    if not held or held != sorted(set(held)):
        return [Failure("conflict", f"{held}")]
    margin = oracle.relative_margin(held)
    if margin is None or margin > DECIDED:
        return [Failure("conflict", f"{held} can hold together, margin {float(margin or 0):.3g} of the ranges")]
    for i in held:
        rest = [j for j in held if j != i]
        smaller = oracle.relative_margin(rest)
        if smaller is not None and smaller < -DECIDED:
            return [Failure("conflict", f"{held} is not minimal: {rest} conflicts, margin {float(smaller):.3g}")]
    return []


def _policy(cmdp: CMDP, solution: Solution, oracle: Oracle, near: Tolerances) -> list[Failure]:
    """What is handed out does what is said of it."""
    found = _rows(solution.policy)
    if found:
        return found
    averages = oracle.averages_at_start(solution.policy)
    stated = _stated("averages", solution.average_costs, averages, near)
    communicating = is_communicating(cmdp.matrix)
    if getattr(solution, "attained", True):
        starts = oracle.averages(solution.policy) if communicating else []
        for returned in (averages, *starts):
            missed = _missed("policy", returned, solution, oracle, near)
            if missed:
                return stated + missed
        return stated + _upper(averages, solution, oracle, near)
    met = restrict_to_reachable(cmdp).matrix
    if met.data.min() > ORDINARY and is_weakly_communicating(met):
        found.append(Failure("attained", "all that can be reached communicates, and yet a mixture is returned"))
    mixture: list[Any] = list(getattr(solution, "mixture"))  # noqa: B009
    total = [Fraction(0)] * (cmdp.m + 1)
    weights = [Fraction(float(member.weight)) for member in mixture]
    if not mixture or min(weights) < 0 or abs(float(sum(weights)) - 1) > CERTIFIED:
        return [*found, Failure("mixture", f"weights {[float(w) for w in weights]}")]
    for weight, member in zip(weights, mixture, strict=True):
        exact = oracle.averages_at_start(np.asarray(member.policy))
        found += _stated("mixture", member.average_costs, exact, near)
        total = [t + weight / sum(weights) * x for t, x in zip(total, exact, strict=True)]
    if stated:  # those of the stationary policy, or of the mixture
        found += _stated("averages", solution.average_costs, total, near)
    missed = _missed("mixture", total, solution, oracle, near)
    return found + (missed or _upper(total, solution, oracle, near))


def _rows(policy: Floats) -> list[Failure]:
    if not (np.isfinite(policy).all() and (policy >= 0).all() and np.allclose(policy.sum(axis=1), 1.0, atol=1e-12)):
        return [Failure("policy", f"not a policy: {policy.tolist()}")]
    return []


def _stated(kind: str, stated: Floats, exact: list[Fraction], near: Tolerances) -> list[Failure]:
    for i, (said, average) in enumerate(zip(stated, exact, strict=True)):
        if not abs(float(said) - float(average)) <= near(STATED, i):
            return [Failure(kind, f"stated average of cost {i}: {said}; exact {float(average)}")]
    return []


def _missed(kind: str, averages: list[Fraction], solution: Solution, oracle: Oracle, near: Tolerances) -> list[Failure]:
    """Averages above the value or the limits (below the least largest violation, if infeasible)."""
    value, margin = oracle.optimum.value, oracle.optimum.margin
    limits: list[Fraction | None] = [value if solution.feasible else None]
    relief = min(margin or Fraction(0), Fraction(0))
    limits += [Fraction(float(t)) - relief for t in oracle.thresholds]
    for i, (average, limit) in enumerate(zip(averages, limits, strict=True)):
        if limit is not None and average - limit > near(WRONG, i):
            more = float(average - limit)
            return [Failure(kind, f"cost {i} is {float(average)}, {more:.3g} above {float(limit)}")]
    return []


def _upper(averages: list[Fraction], solution: Solution, oracle: Oracle, near: Tolerances) -> list[Failure]:
    """The certified gap covers the true distance of what is returned, and of the value, from the optimum."""
    gap = _gap(solution)
    if gap is None or not solution.feasible:
        return []
    allowed = gap + near(CERTIFIED, 0)
    if allowed < 0:
        return [Failure("gap", f"certified {gap:.3g}, a negative one")]
    for what, value, below in (("what is returned", averages[0], False), ("value", Fraction(solution.value), True)):
        wrong = _distance(value, oracle, near, allowed, below)
        if wrong is not None and wrong > allowed:
            return [Failure("gap", f"certified {gap:.3g}; {what} is {wrong:.3g} from the optimum")]
    return []


def _gap(answer: Solution | BestPolicy) -> float | None:
    gap = getattr(answer, "gap", None)
    return None if gap is None or not np.isfinite(gap) else float(gap)
