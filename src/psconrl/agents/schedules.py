"""When a plan ends, as fields of the plan: the schedules of the literature.

TSDE (Ouyang et al. 2017)        length T_{k-1} + 1, or N(s, a) > 2 N_{t_k}(s, a) for some pair
doubling (UCRL2, Jaksch 2010)    v_k(s, a) >= max(1, N_k(s, a)) for the pair just played
fixed                            a given number of steps
alternating (Zheng 2020)         h steps of a baseline, then (k - 1) h of the planned policy: two plans in turn
"""

import math
from typing import NamedTuple, TypedDict

import numpy as np

from psconrl._core.checks import Ints
from psconrl.agents.contract import FOREVER, Carry, Memory


class Stop(TypedDict):
    """The stopping rule of a plan."""

    max_length: int
    count_limit: Ints | None


def tsde(memory: Memory) -> Stop:
    """Both criteria of TSDE: one step longer than the last episode, or a count more than doubled."""
    return Stop(max_length=memory.last_length + 1, count_limit=memory.visits + memory.visits)


def doubling(memory: Memory) -> Stop:
    """UCRL2's rule: a pair was played as often as in all epochs before."""
    return Stop(max_length=FOREVER, count_limit=memory.visits + np.maximum(1, memory.visits) - 1)


def fixed(length: int) -> Stop:
    """A number of steps."""
    return Stop(max_length=length, count_limit=None)


def power(horizon: int, alpha: float) -> Stop:
    """Episodes of ceil(T^alpha) steps."""
    return fixed(max(1, math.ceil(horizon**alpha - 1e-9)))


_LAST = 2**40
"""No run has an episode of this number, or one that starts so late."""


class Position(NamedTuple):
    """Where the alternating schedule is: in episode k, begun at step t_k, after its baseline phase or not."""

    k: int
    t_k: int
    explored: bool

    @staticmethod
    def of(memory: Memory) -> "Position":
        """The position that the plan before left; none at the start of a run."""
        found = memory.carry.get("position")
        if isinstance(found, np.ndarray) and found.dtype == np.int64 and found.shape == (3,):
            k, t_k, explored = found.tolist()
            if min(k, t_k) >= 1 and max(k, t_k) <= _LAST:
                return Position(k, t_k, bool(explored))
        return Position(0, 0, False)

    @property
    def baseline_next(self) -> bool:
        """Whether a baseline phase comes next: that of a new episode. The first one is a baseline phase alone."""
        return not self.explored or self.k == 1

    def exploring(self, memory: Memory) -> Carry:
        """What to carry from the baseline phase of the next episode."""
        return {"position": np.array([self.k + 1, memory.t + 1, 1])}

    def done(self) -> Carry:
        """What to carry from the planned policy of this episode."""
        return {"position": np.array([self.k, self.t_k, 0])}
