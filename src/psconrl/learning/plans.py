"""Plans on their way to compiled code: whatever an agent, or a saved state, says, loops read only what is sound."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from psconrl._core.checks import Floats, Ints, short_repr, whole
from psconrl._core.lazy import lazy_import
from psconrl._core.pairs import Pairs
from psconrl.agents.contract import FOREVER, Plan
from psconrl.errors import InvalidArgumentError, InvalidTypeError
from psconrl.learning.parts import Orders
from psconrl.planning.steered import Steered

if TYPE_CHECKING:
    from psconrl.learning import _kernels as kernels
    from psconrl.planning.compiled import steering_rule as rule
else:
    rule = lazy_import("psconrl.planning.compiled.steering_rule")
    kernels = lazy_import("psconrl.learning._kernels")

_WHOLE, _REAL = np.dtype(np.int64), np.dtype(np.float64)

Told = Callable[[int, int], str]
"""That a state does not have an action, in words."""


def orders(plan: Plan, visits: Ints, pairs: Pairs, limits: Floats, told: Told) -> tuple[Orders, Ints]:
    """A plan as loops read it, if it is sound, and a copy of the visits (S, A).

    pairs: those of the S states that the plan knows. limits (m,): those of a plan that is not steered.
    """
    if not isinstance(plan, Plan):
        raise InvalidTypeError(f"plan() gave {short_repr(plan)}; it must give a psconrl.agents.Plan")
    S, A = visits.shape
    policy, limit = plan.policy, plan.count_limit
    if not isinstance(policy, np.ndarray) or policy.ndim != 3 or policy.shape[1:] != (S, A) or not len(policy):
        found = getattr(policy, "shape", None) or short_repr(policy)
        raise InvalidArgumentError(f"Plan.policy is {found}; it must be (L, S, A) with (S, A) = {(S, A)}")
    if policy.dtype != _REAL:
        raise InvalidTypeError(f"Plan.policy is an array of {policy.dtype}; it must be of float64")
    whole(plan.max_length, "Plan.max_length")
    if limit is None:
        limit = np.full((S, A), FOREVER)
    elif not isinstance(limit, np.ndarray) or limit.shape != (S, A) or limit.dtype != _WHOLE:
        found = getattr(limit, "shape", None) or short_repr(limit)
        raise InvalidArgumentError(f"Plan.count_limit is {found}; it must be int64 (S, A) = {(S, A)}")
    cumulative = np.empty((len(policy), S * A))
    if not kernels.take_up(policy, cumulative):
        raise InvalidArgumentError("Plan.policy has a row that is not a distribution over the actions")
    for name in ("multipliers", "nearest"):
        _check_per_limit(name, getattr(plan, name), len(limits))
    if not pairs.every:
        wrong = np.argwhere((policy > 0) & ~pairs.available)
        if len(wrong):
            raise InvalidArgumentError(f"Plan.policy is wrong: {told(*wrong[0, 1:].tolist())}")
    steered = None if plan.steered is None else _steered(plan, pairs, len(limits), told)
    counted = limits if steered is None else steered.limits
    return Orders(cumulative, plan.max_length, limit.copy(), counted, steered), visits.copy()


def _check_per_limit(name: str, values: Any, m: int) -> None:
    """Refuse a field that is not one number for each of m limits, or None."""
    if values is None:
        return
    if not isinstance(values, np.ndarray) or values.shape != (m,) or values.dtype != _REAL:
        found = getattr(values, "shape", None) or short_repr(values)
        raise InvalidArgumentError(f"Plan.{name} is {found}; it must be float64 (m,) = ({m},), or None")


def _steered(plan: Plan, pairs: Pairs, m: int, told: Told) -> Steered:
    """The mixture of a plan, if compiled code may read it."""
    steered, (S, A) = plan.steered, pairs.available.shape
    if not isinstance(steered, Steered):
        raise InvalidTypeError(f"Plan.steered is {short_repr(steered)}; it must be a Steered or None")
    if len(plan.policy) != 1:
        raise InvalidArgumentError(f"Plan.policy has {len(plan.policy)} steps; only stationary ones can be steered")
    misfit = steered.misfit(S, m)
    if misfit:
        found = getattr(getattr(steered, misfit), "shape", None) or short_repr(getattr(steered, misfit))
        raise InvalidArgumentError(f"Plan.steered.{misfit} is {found}; that does not fit S = {S} and m = {m}")
    if not all(array.flags.carray for array in steered[:-1]):
        copies: dict[str, Any] = {name: np.array(getattr(steered, name), order="C") for name in Steered._fields[:-1]}
        steered = steered._replace(**copies)
    if not rule.sound(steered, A):
        raise InvalidArgumentError(
            "Plan.steered must have a column, weights that sum to one, actions below A or -1, and finite numbers"
        )
    if not pairs.every:
        for actions in (*steered.actions, *steered.ways):
            for s in np.flatnonzero((actions >= 0) & ~pairs.available[np.arange(S), actions]):
                raise InvalidArgumentError(f"Plan.steered is wrong: {told(int(s), int(actions[s]))}")
    return steered


def extended(given: Orders, plan: Plan, pairs: Pairs) -> Orders:
    """The same in more states, those of `pairs`: there uniformly, and to the first visit if it ends by counts."""
    known, (S, A) = len(given.count_limit), pairs.available.shape
    nothing = np.zeros((S - known, A), dtype=np.int64)
    uniform = np.empty((1, (S - known) * A))
    kernels.take_up(pairs.uniform[np.newaxis, known:].copy(), uniform)
    rows = np.broadcast_to(uniform, (len(given.policy), uniform.shape[1]))
    return given._replace(
        policy=np.concatenate([given.policy, rows], axis=1),
        count_limit=np.concatenate([given.count_limit, nothing + (FOREVER if plan.count_limit is None else 0)]),
        steered=None if given.steered is None else given.steered.extended(S - known),
    )
