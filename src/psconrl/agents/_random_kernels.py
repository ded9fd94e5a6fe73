"""Random numbers inside compiled loops: a small generator of their own, seeded by numpy's.

A numpy generator costs 40 microseconds each time it is handed to compiled code, and every number a call. This is
SFC64 (C. Doty-Humphrey, Practically Random), the same as numpy's of that name; `state` (4,) is its a, b, c and counter.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from psconrl._core.checks import Floats
from psconrl._core.njit import njit, njit_inline

State: TypeAlias = NDArray[np.uint64]

_ONE, _LEFT, _RIGHT, _TURN, _BACK, _DOUBLE, _LAYER, _SIGN = (np.uint64(n) for n in (1, 3, 11, 24, 40, 11, 255, 256))
_ROUNDS = 12


def _layers(r: float, area: float, density: Callable[[float], float], inverse: Callable[[float], float]) -> Floats:
    """A falling density under 256 layers of equal area (Marsaglia and Tsang's ziggurat): their right ends.

    The lowest one holds the tail beyond r, and stands for a rectangle of its area.
    """
    x = np.zeros(257)
    x[0], x[1] = area / density(r), r
    for layer in range(1, 255):
        x[layer + 1] = inverse(density(x[layer]) + area / x[layer])
    return x


_EXP_R, _NORMAL_R = 7.69711747013104972, 3.6541528853610088
_EXP_X = _layers(_EXP_R, 3.9496598225815571993e-3, lambda x: math.exp(-x), lambda y: -math.log(y))
_NORMAL_X = _layers(
    _NORMAL_R, 4.92867323399e-3, lambda x: math.exp(-0.5 * x * x), lambda y: math.sqrt(-2.0 * math.log(y))
)
_EXP_F, _NORMAL_F = np.exp(-_EXP_X), np.exp(-0.5 * _NORMAL_X**2)


def seeded(rng: np.random.Generator) -> State:
    """A state, of four random numbers."""
    return np.asarray(rng.bit_generator.random_raw(4))


@njit_inline
def mix(state: State) -> None:
    """Forget the seed's bits; to be done once before the first number."""
    for _ in range(_ROUNDS):
        raw(state)


@njit
def raw(state: State) -> Any:
    """64 random bits."""
    a, b, c = state[0], state[1], state[2]
    bits = a + b + state[3]
    state[3] += _ONE
    state[0] = b ^ (b >> _RIGHT)
    state[1] = c + (c << _LEFT)
    state[2] = ((c << _TURN) | (c >> _BACK)) + bits
    return bits


@njit
def uniform(state: State) -> float:
    """A number in [0, 1)."""
    return float(raw(state) >> _DOUBLE) * 2.0**-53


@njit_inline
def exponential(state: State) -> float:
    """A standard exponential variable."""
    while True:
        bits = raw(state)
        layer = int(bits & _LAYER)
        x = float(bits >> _DOUBLE) * 2.0**-53 * _EXP_X[layer]
        if x < _EXP_X[layer + 1]:
            return x
        if layer == 0:
            return _EXP_R - math.log(1.0 - uniform(state))
        if _EXP_F[layer] + uniform(state) * (_EXP_F[layer + 1] - _EXP_F[layer]) < math.exp(-x):
            return x


@njit_inline
def normal(state: State) -> float:
    """A standard normal variable."""
    while True:
        bits = raw(state)
        layer = int(bits & _LAYER)
        sign = 1.0 if bits & _SIGN else -1.0
        x = float(bits >> _DOUBLE) * 2.0**-53 * _NORMAL_X[layer]
        if x < _NORMAL_X[layer + 1]:
            return sign * x
        if layer == 0:
            beyond, y = 1.0, 0.0
            while 2.0 * y <= beyond * beyond:
                beyond, y = -math.log(1.0 - uniform(state)) / _NORMAL_R, -math.log(1.0 - uniform(state))
            return sign * (_NORMAL_R + beyond)
        if _NORMAL_F[layer] + uniform(state) * (_NORMAL_F[layer + 1] - _NORMAL_F[layer]) < math.exp(-0.5 * x * x):
            return sign * x


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
