"""Random numbers of a run: streams whose uniform numbers are made in blocks, for compiled loops to read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from psconrl._core.checks import Floats, Ints
from psconrl.learning import saved

BLOCK = 4096


class Stream:
    """Uniform numbers of a generator, the same as its `random()` gives one by one.

    buffer (BLOCK,) and position (1,) are what compiled loops read and move on; `ready` refills the buffer when it is
    used up.
    """

    def __init__(self, generator: np.random.Generator) -> None:
        self.generator = generator
        self.buffer: Floats = np.empty(BLOCK)
        self.position: Ints = np.array([BLOCK])
        self._origin = generator.bit_generator.state

    def ready(self) -> None:
        """Make sure that there is a number to read."""
        if self.position[0] == BLOCK:
            self._origin = self.generator.bit_generator.state
            self.generator.random(out=self.buffer)
            self.position[0] = 0

    def random(self) -> float:
        """The next number."""
        self.ready()
        self.position[0] += 1
        return float(self.buffer[self.position[0] - 1])

    def state(self) -> dict[str, Any]:
        """Where the stream is, as plain values."""
        position = int(self.position[0])
        return {"generator": self.generator.bit_generator.state if position == BLOCK else self._origin, "at": position}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        state = saved.mapping(state, ("generator", "at"), 'state["streams"]')
        at = saved.integer(state["at"], "streams", 0, BLOCK)
        saved.generator(self.generator, state["generator"])
        self.position[0] = BLOCK
        if at < BLOCK:
            self.ready()
            self.position[0] = at


def streams(seed: int) -> tuple[Stream, Stream, np.random.Generator]:
    """The three streams of a run: environment, actions, planning."""
    environment, actions, planning = (np.random.default_rng(child) for child in np.random.SeedSequence(seed).spawn(3))
    return Stream(environment), Stream(actions), planning
