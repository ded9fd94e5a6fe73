"""Checks of saved states: whatever a state says, compiled code sees only what a run could have left.

A state that is damaged, or belongs to another problem, is refused as a whole; the message names the part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from psconrl._core.checks import LARGEST, Floats, Ints, hashables, short_repr, whole
from psconrl._core.lazy import lazy_import
from psconrl.agents.contract import Agent, Plan
from psconrl.agents.counts import Counts
from psconrl.errors import InvalidArgumentError, PsconrlError
from psconrl.learning.described import described, difference
from psconrl.learning.run import Snapshot, episode_columns
from psconrl.planning.steered import Steered

if TYPE_CHECKING:
    from psconrl.agents import _counts_kernels as kernels
else:
    kernels = lazy_import("psconrl.agents._counts_kernels")

_REMEDY = "give a state as state() or run.state has it, unchanged, and the agent that it belongs to"


def refused(part: str, rule: str) -> InvalidArgumentError:
    """The error about a part of a state."""
    return InvalidArgumentError(f"state[{part!r}] {rule}; {_REMEDY}")


def mapping(state: Any, keys: Iterable[str], what: str = "the state") -> Mapping[str, Any]:
    """A mapping that has all of these keys."""
    if not isinstance(state, Mapping):
        raise InvalidArgumentError(f"{what} is {short_repr(state)}; it must be a mapping; {_REMEDY}")
    missing = [key for key in keys if key not in state]
    if missing:
        raise InvalidArgumentError(f"{what} has no {missing[0]!r}; {_REMEDY}")
    return state


def belongs(value: Any, agent: Agent) -> None:
    """Refuse the state of another agent, or of another problem."""
    other = difference(described(agent), mapping(value, (), 'state["agent"]'))
    if other is not None:
        raise InvalidArgumentError(f"the state belongs to {other}; go on with the agent that it belongs to")


def states(value: Any, discovered: bool) -> list[Any]:
    """The states that were discovered, in the order of their numbers."""
    if not discovered and value is None:
        return []
    if not discovered or not isinstance(value, list):
        raise refused("states", "must be the list of states that were discovered, or None where they were declared")
    try:
        return list(hashables(value, "states")) if value else []
    except PsconrlError as error:
        raise refused("states", f"is wrong: {error}") from None


def integer(value: Any, part: str, least: int, most: int | None = LARGEST) -> int:
    """A whole number within bounds."""
    try:
        return whole(value, part, least, most)
    except PsconrlError as error:
        raise refused(part, f"is wrong: {error}") from None


def array(value: Any, part: str, kind: type[np.generic], shape: tuple[int | None, ...]) -> NDArray[Any]:
    """A fresh array of the kind and the shape that a learner has there; None in a shape is any length."""
    fits = (
        isinstance(value, np.ndarray)
        and value.dtype == np.dtype(kind)
        and value.ndim == len(shape)
        and all(n is None or n == found for n, found in zip(shape, value.shape, strict=True))
    )
    if not fits:
        told = f"{value.dtype} {value.shape}" if isinstance(value, np.ndarray) else short_repr(value)
        raise refused(part, f"is {told}; it must be an array of {kind.__name__} of shape {shape}")
    return np.array(value, order="C")


def finite(value: Any, part: str, shape: tuple[int | None, ...]) -> Floats:
    """A fresh array of finite numbers."""
    numbers = array(value, part, np.float64, shape)
    if not np.isfinite(numbers).all():
        raise refused(part, "has a number that is not finite")
    return numbers


def counts(value: Any, visits: Ints) -> Counts:
    """N(s, a, s') whose chains are whole, and whose sums are the visits."""
    S, A = visits.shape
    if not isinstance(value, (tuple, list)) or len(value) != 5:
        raise refused("counts", "must be the five parts head, link, target, number and used")
    head = array(value[0], "counts", np.int64, (S * A,))
    link = array(value[1], "counts", np.int64, (None,))
    target, number = (array(part, "counts", np.int64, link.shape) for part in value[2:4])
    used = integer(value[4], "counts", 0, len(link))
    following = np.concatenate([head, link[:used]])
    # Every entry follows on exactly one other, or is the first of its row; then no walk along a chain leaves the arrays
    # or comes round again.
    once = np.array_equal(np.sort(following[following >= 0]), np.arange(used)) and (following >= -1).all()
    inside = ((target[:used] >= 0) & (target[:used] < S)).all() and (number[:used] >= 1).all()
    if not (once and inside):
        raise refused("counts", "has a chain that leads astray")
    indptr, indices, numbers = kernels.by_rows(head, link, target, number, used)
    row = np.repeat(np.arange(S * A), np.diff(indptr))
    distinct = not ((np.diff(row) == 0) & (np.diff(indices[: len(row)]) <= 0)).any()
    sums = np.bincount(row, weights=numbers[: len(row)], minlength=S * A)
    if indptr[-1] != used or not distinct or not np.array_equal(sums, visits.ravel()):
        raise refused("counts", "does not add up to the visits")
    return Counts.of(head, link, target, number, used, S)


def spent(value: Any, counts: Counts, n: int) -> Floats:
    """Sums of n costs in [0, 1] for each entry of the counts."""
    number, used = counts.chains[3], int(counts.used[0])
    sums = array(value, "spent", np.float64, (len(number), n))
    if not ((sums[:used] >= 0) & (sums[:used] <= number[:used, np.newaxis] * (1 + 1e-9))).all() or sums[used:].any():
        raise refused("spent", "is not the sum of as many costs in [0, 1] as there were moves")
    return sums


def cost_sums(value: Any, visits: Ints, m: int) -> Floats:
    """Sums of costs in [0, 1]."""
    sums = array(value, "cost_sums", np.float64, (m + 1, *visits.shape))
    if not ((sums >= 0) & (sums <= visits * (1 + 1e-9))).all():
        raise refused("cost_sums", "is not the sum of as many costs in [0, 1] as there were visits")
    return sums


def carry(value: Any, part: str = "carry") -> dict[str, NDArray[Any]]:
    """Arrays by name."""
    plain = isinstance(value, Mapping) and all(
        isinstance(key, str) and isinstance(item, np.ndarray) and item.dtype != object for key, item in value.items()
    )
    if not plain:
        raise refused(part, "must be plain arrays by name")
    return {key: item.copy() for key, item in value.items()}


def rows(value: Any, m: int) -> list[tuple[Any, ...]]:
    """Rows of the table of episodes, with or without the averages."""
    if not isinstance(value, (tuple, list)) or not all(isinstance(row, tuple) for row in value):
        raise refused("rows", "must be a list of tuples, one for each plan that is over")
    wide = bool(value) and len(value[0]) == len(episode_columns(m, averages=True))
    try:
        table = np.array(list(value), episode_columns(m, wide))
    except (ValueError, TypeError, OverflowError):
        raise refused("rows", "must have the columns of run.episodes") from None
    if (table["length"] < 1).any():
        raise refused("rows", "has a plan without a step")
    return list(value)


def snapshots(value: Any, S: int, A: int) -> list[Snapshot]:
    """Snapshots of plans."""
    if not isinstance(value, (tuple, list)) or not all(isinstance(s, (tuple, list)) and len(s) == 3 for s in value):
        raise refused("snapshots", "must be a list of (start, policy, visits)")
    return [
        Snapshot(
            integer(start, "snapshots", 0),
            array(policy, "snapshots", np.float64, (None, S, A)),
            array(visits, "snapshots", np.int64, (S, A)),
        )
        for start, policy, visits in value
    ]


_PLAIN: dict[str, Any] = {
    "phase": str,
    "feasible": (bool, np.bool_),
    "value": (int, float, np.number),
    "connected": (bool, np.bool_),
    "solver": str,
}
"""The plain values of a plan."""


def plan(value: Any) -> Plan | None:
    """The plan that was under way; its policy is checked when it is taken up."""
    if value is None:
        return None
    fields = mapping(value, Plan.__dataclass_fields__, 'state["plan"]')
    unknown = set(fields) - set(Plan.__dataclass_fields__)
    if unknown:
        raise refused("plan", f"has no field {min(map(str, unknown))!r}")
    for name, kind in _PLAIN.items():
        if not isinstance(fields[name], kind):
            raise refused("plan", f"has {short_repr(fields[name])} for its {name}")
    parts = {"carry": carry(fields["carry"], "plan"), "steered": steered(fields["steered"])}
    return Plan(**(dict(fields) | parts))


def steered(value: Any) -> Steered | None:
    """The mixture of a plan, by name; it is checked when it is taken up."""
    if value is None:
        return None
    fields = mapping(value, Steered._fields, 'state["plan"]["steered"]')
    return Steered(**{name: fields[name] for name in Steered._fields})


def plain_plan(plan: Plan) -> dict[str, Any]:
    """A plan as plain values by name."""
    fields = {name: getattr(plan, name) for name in Plan.__dataclass_fields__}
    return fields | {"steered": None if plan.steered is None else plan.steered._asdict()}


def generator(target: np.random.Generator, value: Any) -> None:
    """Bring a generator into a state."""
    try:
        sound = _like(target.bit_generator.state, value)
        if sound:
            target.bit_generator.state = value
    except (ValueError, TypeError, OverflowError):
        sound = False
    if not sound:
        raise refused("streams", "does not hold the states of numpy's generators")


def _like(mine: Any, value: Any) -> bool:
    """Whether a value has the form of this one: tables with the same keys, whole numbers, the same text."""
    if isinstance(mine, dict):
        return isinstance(value, dict) and mine.keys() == value.keys() and all(_like(mine[k], value[k]) for k in mine)
    if isinstance(mine, int):
        return type(value) is int and 0 <= value < 2**128
    return bool(mine == value) if isinstance(value, str) else False
