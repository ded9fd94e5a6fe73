"""Numbers of states and actions, which users may call by name.

numbers       0, 1, ..., n - 1
names         declared beside the numbers: either is understood, unless a name is a whole number itself
discovered    any hashable values, numbered as they appear; values that are equal are one, as in a dictionary
"""

from __future__ import annotations

import operator
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple

from psconrl._core.checks import hashable, short_repr
from psconrl.errors import InvalidArgumentError, did_you_mean


class Found(NamedTuple):
    """A number, and whether it was asked for by name."""

    number: int
    named: bool


class Labels:
    """What is called how; count None: nothing is known yet, and everything is taken in."""

    def __init__(self, count: int | None, names: Iterable[Hashable] | None = None) -> None:
        self.open = count is None
        self.names: list[Hashable] | None = [] if self.open else None if names is None else list(names)
        self._numbers = {name: i for i, name in enumerate(self.names or ())}
        self._count = count or 0  # for open ones, the names count: what a user's class says is equal may change
        self._by_number = not self.open and not any(type(name) is int for name in self._numbers)

    def __len__(self) -> int:
        return len(self.names) if self.open and self.names is not None else self._count

    def find(self, value: Any, what: str) -> Found:
        """The number of a value; the next one for a value that was not seen before, if such are taken in."""
        if self.names is not None:
            number = self._number(value)
            if number is None and self.open:
                number = self._number(hashable(value, what))  # numpy's dates are not equal to what they become
                number = len(self) if number is None else number
            if number is not None:
                return Found(number, True)
        if self._by_number:
            if type(value) is int and 0 <= value < self._count:
                return Found(value, False)
            try:
                number = -1 if isinstance(value, bool) else operator.index(value)
            except TypeError:
                number = -1
            if 0 <= number < self._count:
                return Found(number, False)
        raise InvalidArgumentError(f"{what} is {short_repr(value)}; it must be {self._rule(value)}")

    def _number(self, name: Any) -> int | None:
        try:
            return self._numbers.get(name)
        except Exception:  # not hashable, or what a user's class does
            return None

    def _rule(self, value: Any) -> str:
        numbers = f"one of 0, ..., {self._count - 1}"
        if self.names is None:
            return numbers
        texts = [name for name in self.names if isinstance(name, str)]
        near = did_you_mean(value, texts) if isinstance(value, str) else ""
        listed = ", ".join(short_repr(name) for name in self.names[:3]) + (", ..." if self._count > 3 else "")
        return f"{numbers + ', or ' if self._by_number else ''}a name: {listed}{near}"

    def take_in(self, value: Any) -> None:
        """Give a new value the next number."""
        assert self.names is not None
        name = hashable(value, "a state")
        self._numbers[name] = len(self.names)
        self.names.append(name)

    def forget_last(self) -> None:
        """Forget the value that was taken in last."""
        assert self.names is not None
        last = self.names.pop()
        self._numbers = {name: number for name, number in self._numbers.items() if name is not last}

    def name(self, number: int) -> Hashable:
        """What users call it."""
        return number if self.names is None else self.names[number]
