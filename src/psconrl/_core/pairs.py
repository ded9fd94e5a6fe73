"""Pairs: a state with one of the actions that are available there.

Tables (S, A) have room for every action in every state. Planners number the pairs that exist, state by state:
those of state s are begin[s], ..., begin[s + 1] - 1, in the order of their actions. Compiled code that wants as many
actions in every state gets *slots* (S, A'), A' the most that any state has: in each state its pairs, and then its first
one again and again, which is never chosen where the first of equals is.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psconrl._core.checks import Bools, Floats, Ints


@dataclass(frozen=True, eq=False)
class Pairs:
    """The pairs of a mask `available` (S, A) with at least one action in every state."""

    available: Bools

    @staticmethod
    def all(S: int, A: int) -> Pairs:
        """Every action in every state."""
        return Pairs(np.broadcast_to(np.True_, (S, A)))

    @cached_property
    def every(self) -> bool:
        """Whether all actions are available everywhere."""
        return bool(self.available.all())

    @cached_property
    def K(self) -> int:
        """The number of pairs."""
        return len(self.numbers)

    @cached_property
    def numbers(self) -> Ints:
        """s * A + a of each pair, (K,)."""
        return np.flatnonzero(self.available)

    @cached_property
    def source(self) -> Ints:
        """The state of each pair, (K,)."""
        return self.numbers // self.available.shape[1]

    @cached_property
    def begin(self) -> Ints:
        """The first pair of each state, and K, (S + 1,)."""
        return np.append(0, np.cumsum(self.available.sum(axis=1, dtype=np.int64)))

    @cached_property
    def slots(self) -> Ints:
        """The pair in each slot, (S * A',)."""
        many = np.diff(self.begin)
        place = np.arange(int(many.max()))
        return (self.begin[:-1, np.newaxis] + np.where(place < many[:, np.newaxis], place, 0)).ravel()

    @cached_property
    def places(self) -> Ints:
        """The slot of each pair, (K,)."""
        many = np.diff(self.begin)
        return np.arange(self.K) + np.repeat(np.arange(len(many)) * many.max() - self.begin[:-1], many)

    @property
    def uniform(self) -> Floats:
        """The policy (S, A) that takes all actions of a state equally often."""
        return self._uniform.copy()

    @cached_property
    def _uniform(self) -> Floats:
        return np.asarray(self.available / self.available.sum(axis=1, keepdims=True))

    def taken(self, table: NDArray[Any]) -> NDArray[Any]:
        """The entries (.., K) of a table (.., S, A)."""
        flat = table.reshape(*table.shape[:-2], -1)
        return flat if self.every else np.take(flat, self.numbers, axis=-1)

    def table(self, values: NDArray[Any]) -> NDArray[Any]:
        """The table (.., S, A) of values (.., K), zero where there is no pair."""
        S, A = self.available.shape
        shape = (*values.shape[:-1], S, A)
        if self.every:
            return values.reshape(shape)
        table = np.zeros((*values.shape[:-1], S * A), dtype=values.dtype)
        table[..., self.numbers] = values
        return table.reshape(shape)

    def in_slots(self, values: NDArray[Any]) -> NDArray[Any]:
        """The values (.., S * A') of the slots, of values (.., K)."""
        return values if self.every else np.take(values, self.slots, axis=-1)

    def from_slots(self, values: NDArray[Any]) -> NDArray[Any]:
        """The table (.., S, A) of values (.., S, A') in slots."""
        if self.every:
            return values
        return self.table(np.take(values.reshape(*values.shape[:-2], -1), self.places, axis=-1))

    def actions(self, policy: Ints) -> Ints:
        """The actions (S,) of a deterministic policy (S,) of pairs."""
        return np.asarray(self.numbers[policy] % self.available.shape[1])
