"""Checks of the options that environments take: the rule, what was given, and the remedy."""

from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np

from psconrl._core.checks import short_repr
from psconrl.errors import InvalidModelError

LARGEST = 10**7
"""No size, such as a number of states, may be larger."""


def fraction(value: object, what: str, low: float = 0.0, high: float = 1.0) -> float:
    """A number in [low, high]."""
    if isinstance(value, Real) and not isinstance(value, bool) and low <= float(value) <= high:
        return float(value)
    raise InvalidModelError(f"{what} is {short_repr(value)}; it must be a number from {low:g} to {high:g}")


def fractions(values: object, what: str, length: int) -> tuple[float, ...]:
    """So many numbers in [0, 1]."""
    if isinstance(values, np.ndarray):
        values = values.tolist()
    if not isinstance(values, Sequence) or isinstance(values, (str, bytes)) or len(values) != length:
        raise InvalidModelError(f"{what} is {short_repr(values)}; it must be a list of {length} numbers from 0 to 1")
    return tuple(fraction(value, f"{what}[{i}]") for i, value in enumerate(values))


def count(value: object, what: str, least: int, most: int | None = None) -> int:
    """A whole number in least, ..., most."""
    if isinstance(value, Integral) and not isinstance(value, bool):
        number = int(value)
        if least <= number <= (LARGEST if most is None else most):
            return number
    if most is None and isinstance(value, Integral) and int(value) > LARGEST:
        most = LARGEST
    limits = f">= {least}" if most is None else f"from {least} to {most}"
    raise InvalidModelError(f"{what} is {short_repr(value)}; it must be a whole number {limits}")


def flag(value: object, what: str) -> bool:
    """True or False."""
    if isinstance(value, (bool, np.bool_)):
        return bool(value)
    raise InvalidModelError(f"{what} is {short_repr(value)}; it must be True or False")


def seed_sequence(seed: object) -> np.random.SeedSequence:
    """The randomness of a seed 0, 1, ..."""
    return np.random.SeedSequence(count(seed, "seed", 0, 2**128))
