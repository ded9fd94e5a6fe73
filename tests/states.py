"""States of learners and runs, compared."""

from typing import Any

import numpy as np


def same(some: Any, other: Any) -> bool:
    """Whether two states are equal, through all their containers."""
    if isinstance(some, dict):
        return some.keys() == other.keys() and all(same(some[k], other[k]) for k in some)
    if isinstance(some, (list, tuple)):
        return len(some) == len(other) and all(map(same, some, other))
    if isinstance(some, np.ndarray):
        return np.array_equal(some, other, equal_nan=some.dtype.kind == "f")
    return bool(some == other) or (some != some and other != other)
