"""Random numbers inside compiled loops: a small generator of their own, seeded by numpy's.

A numpy generator costs 40 microseconds each time it is handed to compiled code, and every number a call. This is
SFC64 (C. Doty-Humphrey, Practically Random), the same as numpy's of that name; `state` (4,) is its a, b, c and counter.
"""

import math
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from psconrl._numba import njit_inline

State: TypeAlias = NDArray[np.uint64]

_ONE, _LEFT, _RIGHT, _TURN, _BACK, _DOUBLE = (np.uint64(number) for number in (1, 3, 11, 24, 40, 11))
_ROUNDS = 12


def seeded(rng: np.random.Generator) -> State:
    """A state, from three random numbers."""
    state: State = np.ones(4, dtype=np.uint64)
    state[:3] = rng.bit_generator.random_raw(3)
    return state


@njit_inline
def mix(state: State) -> None:
    """Forget the seed's bits; to be done once before the first number."""
    for _ in range(_ROUNDS):
        raw(state)


@njit_inline
def raw(state: State) -> Any:
    """64 random bits."""
    a, b, c = state[0], state[1], state[2]
    bits = a + b + state[3]
    state[3] += _ONE
    state[0] = b ^ (b >> _RIGHT)
    state[1] = c + (c << _LEFT)
    state[2] = ((c << _TURN) | (c >> _BACK)) + bits
    return bits


@njit_inline
def uniform(state: State) -> float:
    """A number in [0, 1)."""
    return float(raw(state) >> _DOUBLE) * 2.0**-53


@njit_inline
def log_uniform(state: State) -> float:
    """The logarithm of a number in (0, 1]: minus an exponential variable."""
    return math.log(1.0 - uniform(state))


@njit_inline
def normal(state: State) -> float:
    """A standard normal variable, by Marsaglia's polar method."""
    while True:
        x, y = 2.0 * uniform(state) - 1.0, 2.0 * uniform(state) - 1.0
        square = x * x + y * y
        if 0.0 < square < 1.0:
            return x * math.sqrt(-2.0 * math.log(square) / square)


@njit_inline
def gamma(state: State, shape: float) -> float:
    """A Gamma variable of shape at least 1, by Marsaglia and Tsang's method."""
    d = shape - 1.0 / 3.0
    scale = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = normal(state)
        v = 1.0 + scale * x
        if v > 0.0:
            v = v * v * v
            u = uniform(state)
            # The first is enough in most cases, and costs no logarithm.
            if u < 1.0 - 0.0331 * x**4 or math.log(u) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
                return d * v
