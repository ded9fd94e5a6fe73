"""What a learner may know before it starts: sizes, names, limits, and the costs if they are given.

States and actions are numbers from 0, and may have names: any hashable values. The number of states may be unknown:
then a learner numbers them as they appear. Costs lie in [0, 1] unless other ranges are declared; learners then plan
with costs and limits brought to [0, 1],

    inside = (c - low) / (high - low)

and everything they are told, and tell, is in the units of the ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import ArrayLike

from psconrl._core import checks
from psconrl._core.checks import Bools, Floats, Ints
from psconrl._core.pairs import Pairs
from psconrl.errors import InvalidArgumentError, InvalidModelError


class Units(NamedTuple):
    """The units of m + 1 costs: cost i = low[i] + width[i] * the normalized one, which lies in [0, 1]."""

    low: Floats
    width: Floats

    @staticmethod
    def of(ranges: Floats) -> Units:
        """The units of costs with the ranges (m + 1, 2)."""
        return Units(ranges[:, 0].copy(), ranges[:, 1] - ranges[:, 0])

    def normalized(self, costs: Floats) -> Floats:
        """Costs (m + 1, ...) in [0, 1]; those that are in their ranges do not leave it by rounding."""
        return np.asarray((costs - self._column(self.low, costs)) / self._column(self.width, costs))

    def normalized_limits(self, thresholds: Floats) -> Floats:
        """The limits (m,) that belong to costs in [0, 1]."""
        with np.errstate(over="ignore"):  # what is far outside of its range is refused by whoever takes it
            return np.asarray((thresholds - self.low[1:]) / self.width[1:])

    def sums(self, inside: Floats, steps: Ints | int) -> Floats:
        """Sums of costs (m + 1, ...) over so many steps in the user's units."""
        return np.asarray(self._column(self.low, inside) * steps + self._column(self.width, inside) * inside)

    def excesses(self, inside: Floats) -> Floats:
        """Differences of costs (m + 1, ...) in the user's units."""
        return np.asarray(self._column(self.width, inside) * inside)

    def prices(self, inside: Floats) -> Floats:
        """Shadow prices (m,) in the user's units: of the first cost for one of the other."""
        return np.asarray(self.width[0] / self.width[1:] * inside)

    @staticmethod
    def _column(values: Floats, like: Floats) -> Floats:
        return values.reshape((-1,) + (1,) * (like.ndim - 1))


AvailableFunction = Callable[[Any], Iterable[Hashable]]


@dataclass(frozen=True, init=False, eq=False)
class Problem:
    """A learning problem.

    Args:
        S: the number of states, or their names; None if it is not known: learners then take any hashable states and
            number them as they appear.
        A: the number of actions, or their names; learners then answer with names.
        thresholds: tau, (m,), or {cost name: limit}.
        costs: (m + 1, S, A), if they are known; with None the learner estimates them by empirical means.
        cost_ranges: (low, high) of each of the m + 1 costs; [0, 1] if left out.
        state_names, action_names: names in addition to the numbers S and A. Learners take either; asked with the name
            of a state, they answer with the name of an action.
        cost_names: of the m + 1 costs; by default "c0" and the names of the thresholds, if these are given by name.
        available: the actions that can be taken in each state; all if left out. A function of a state that gives its
            actions, by name or number; or a table {state: actions}, in which states that have all may be left out; or,
            where the states are known, a mask (S, A).

    Attributes:
        S: None where the number of states is not known. A, m: numbers of actions and limits.
        thresholds, costs: read-only, in the user's units. cost_ranges: (m + 1, 2), or None.
        state_names, action_names: tuples, or None where there are none.
        answers_by_name: whether learners always answer with names of actions.
        open: whether more states may still be discovered.
        cost_names: a tuple. available: (S, A), no rows where S is not known. pairs: those pairs, numbered.
        available_function: the function that gives the actions of a state that is discovered; else None.

    >>> Problem(16, 4, [0.2])
    Problem(S=16, A=4, m=1, costs estimated)
    >>> Problem(None, ["wait", "serve"], [5.0], cost_ranges=[(0, 1), (0, 10)])
    Problem(S=None, A=2, m=1, costs estimated in [0, 1], [0, 10])
    """

    S: int
    A: int
    thresholds: Floats
    costs: Floats | None
    cost_ranges: Floats | None
    state_names: tuple[Hashable, ...] | None
    action_names: tuple[Hashable, ...] | None
    answers_by_name: bool
    open: bool
    cost_names: tuple[str, ...]
    pairs: Pairs
    available_function: AvailableFunction | None

    def __init__(
        self,
        S: int | Sequence[Hashable] | None,
        A: int | Sequence[Hashable],
        thresholds: ArrayLike | Mapping[str, float] = (),
        costs: ArrayLike | None = None,
        *,
        cost_ranges: ArrayLike | None = None,
        state_names: Sequence[Hashable] | None = None,
        action_names: Sequence[Hashable] | None = None,
        cost_names: Sequence[str] | None = None,
        available: ArrayLike | AvailableFunction | Mapping[Any, Iterable[Hashable]] | None = None,
    ) -> None:
        number, states = (None, None) if S is None else _numbered(S, state_names, "S", "state_names")
        if S is None and state_names is not None:
            raise InvalidArgumentError("state_names is given, but S is None; give their number, or no names")
        actions, names = _numbered(A, action_names, "A", "action_names")
        if isinstance(thresholds, Mapping) and cost_names is None:
            cost_names = ["c0", *thresholds]
        tau = checks.thresholds(thresholds, cost_names)
        available_function = _available_function(available, number, states, actions)
        if available_function is not None and number is not None:
            every = range(number) if states is None else states
            available, available_function = (
                [_action_mask(available_function, state, actions, names) for state in every],
                None,
            )
        mask = None if available is None or number is None else checks.available(available, number, actions)
        ranges = None if cost_ranges is None else checks.cost_ranges(cost_ranges, len(tau) + 1)
        known = None if costs is None else _known_costs(costs, (len(tau) + 1, number, actions), ranges, mask)
        for array in (tau, ranges, known):
            if array is not None:
                array.setflags(write=False)
        self._set(
            S=number,
            A=actions,
            thresholds=tau,
            costs=known,
            cost_ranges=ranges,
            state_names=states,
            action_names=names,
            answers_by_name=_is_list(A),
            open=S is None,
            cost_names=checks.names(cost_names, len(tau) + 1, "cost_names", "c"),
            pairs=Pairs.all(number or 0, actions) if mask is None else Pairs(mask),
            available_function=available_function,
        )
        if ranges is not None:
            checks.finite(self.normalized(1).thresholds, "thresholds", "give limits that fit cost_ranges")

    def _set(self, **fields: Any) -> None:
        for name, value in fields.items():
            object.__setattr__(self, name, value)

    @cached_property
    def m(self) -> int:
        """The number of constraints."""
        return len(self.thresholds)

    @property
    def available(self) -> Bools:
        """Which actions can be taken in each state, (S, A)."""
        return self.pairs.available

    @property
    def uniform(self) -> Floats:
        """The policy (S, A) that takes all actions that are available equally often."""
        return self.pairs.uniform

    @cached_property
    def units(self) -> Units | None:
        """The units of the costs, if they are not [0, 1]."""
        return None if self.cost_ranges is None else Units.of(self.cost_ranges)

    def available_actions(self, state: Hashable) -> Bools:
        """The actions (A,) of a state that was discovered."""
        if self.available_function is None:
            return np.ones(self.A, dtype=np.bool_)
        return _action_mask(self.available_function, state, self.A, self.action_names)

    def normalized(self, seen: int, available: Bools | None = None) -> Problem:
        """The problem that agents plan in: costs and limits for [0, 1], and if it is open, the states seen so far.

        available: the actions (seen, A) of these; all if left out.
        """
        units = self.units
        if units is None and not self.open:
            return self
        pairs = self.pairs
        if self.open:
            seen = checks.whole(seen, "seen")
            mask = None if available is None else checks.available(available, seen, self.A)
            pairs = Pairs.all(seen, self.A) if mask is None else Pairs(mask)
        problem = object.__new__(Problem)
        problem._set(
            **{name: getattr(self, name) for name in Problem.__dataclass_fields__}
            | {
                "S": seen if self.open else self.S,
                "thresholds": self.thresholds if units is None else units.normalized_limits(self.thresholds),
                "costs": self.costs if units is None or self.costs is None else units.normalized(self.costs),
                "cost_ranges": None,
                "pairs": pairs,
            }
        )
        return problem

    def __repr__(self) -> str:
        costs = "estimated" if self.costs is None else "known"
        if self.cost_ranges is not None:
            costs += " in " + ", ".join(f"[{low:g}, {high:g}]" for low, high in self.cost_ranges)
        some = "" if self.pairs.every else f"{self.pairs.K} of {self.S * self.A} pairs, "
        return f"Problem(S={self.S}, A={self.A}, m={self.m}, {some}costs {costs})"


def _is_list(given: object) -> bool:
    scalar = isinstance(given, (str, bytes)) or (isinstance(given, np.ndarray) and given.ndim == 0)
    return isinstance(given, Iterable) and not scalar


def _numbered(
    given: int | Sequence[Hashable], names: Sequence[Hashable] | None, what: str, names_what: str
) -> tuple[int, tuple[Hashable, ...] | None]:
    """How many states or actions there are, and their names."""
    if not _is_list(given):
        number = checks.whole(given, what)
        return number, None if names is None else checks.hashables(names, names_what, number)
    if names is not None:
        raise InvalidArgumentError(f"{what} and {names_what} both give names; give them once")
    found = checks.hashables(given, what)
    return len(found), found


@dataclass(frozen=True)
class _Table:
    """Actions by state; a state that is left out has all A."""

    actions: Mapping[Any, Iterable[Hashable]]
    A: int

    def __call__(self, state: Any) -> Iterable[Hashable]:
        return self.actions.get(state, range(self.A))


def _available_function(
    available: Any, S: int | None, states: tuple[Hashable, ...] | None, A: int
) -> AvailableFunction | None:
    """The function that gives the actions of a state, if that, or a table, is what is given."""
    if isinstance(available, Mapping):
        for state in available if S is not None else ():
            if state not in (range(S or 0) if states is None else states):
                raise InvalidArgumentError(f"available has {checks.short_repr(state)}, which is none of the states")
        return _Table({s: checks.hashables(a, f"available[{checks.short_repr(s)}]") for s, a in available.items()}, A)
    if callable(available):
        return cast(AvailableFunction, available)
    if S is None and available is not None:
        raise InvalidArgumentError(
            "available is given, but S is None; give a function of a state that gives its actions, a table "
            "{state: actions}, or S and a mask"
        )
    return None


def _action_mask(
    available_function: AvailableFunction, state: Any, A: int, names: tuple[Hashable, ...] | None
) -> Bools:
    """The actions (A,) that a function gives for a state."""
    mask = np.zeros(A, dtype=np.bool_)
    numbers = {name: a for a, name in enumerate(names or ())}
    for action in checks.hashables(available_function(state), f"available({checks.short_repr(state)})"):
        number = numbers.get(action, action if type(action) is int else -1)
        if not 0 <= number < A:
            raise InvalidArgumentError(
                f"available({checks.short_repr(state)}) gives {checks.short_repr(action)}; it must give names of "
                "actions, "
                f"or numbers from 0 to {A - 1}"
            )
        mask[number] = True
    return mask


def _known_costs(
    costs: ArrayLike, shape: tuple[int, int | None, int], ranges: Floats | None, mask: Bools | None
) -> Floats:
    if shape[1] is None:
        raise InvalidArgumentError("costs are given, but S is None; costs of states that are not known cannot be known")
    known = checks.numbers(costs, "costs")
    if known.shape != shape:
        raise InvalidModelError(
            f"costs have shape {known.shape}; with {shape[0] - 1} thresholds they must be (m + 1, S, A) = {shape}"
        )
    if mask is not None:
        known[:, ~mask] = 0.0 if ranges is None else ranges[:, :1]
    checks.within_ranges(known, "costs", ranges)
    return known
