"""When a plan ends, as fields of the plan: the published schedules.

TSDE (Ouyang et al. 2017)        length T_{k-1} + 1, or N(s, a) > 2 N_{t_k}(s, a) for some pair
doubling (UCRL2, Jaksch 2010)    v_k(s, a) >= max(1, N_k(s, a)) for the pair just played
fixed                            a given number of steps
"""

import math
from typing import TypedDict

import numpy as np

from psconrl._checks import Ints
from psconrl.agents.contract import FOREVER, Memory


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
