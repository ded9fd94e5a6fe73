"""Confidence bonuses: the formula of the algorithm's own article times a scale, or simply scale / sqrt(N).

"original"    scale * sqrt(factor / max(1, N)), with the factor of the algorithm's own article
"simple"      scale / sqrt(N), and 1 for pairs never visited, as released code does
"""

from typing import Literal

import numpy as np

from psconrl._core import checks
from psconrl._core.checks import Floats, Ints

Bonus = Literal["original", "simple"]


def check_bonus(kind: str, scale: float, delta: float = 0.5) -> None:
    """Raise an error unless the settings define a bonus."""
    checks.one_of(kind, "bonus", ("original", "simple"))
    checks.real(scale, "scale", "a number >= 0", lambda x: x >= 0)
    checks.real(delta, "delta", "a number between 0 and 1", lambda x: 0 < x < 1)


def bonus(kind: Bonus, scale: float, factor: float, visits: Ints) -> Floats:
    """The bonus (S, A) of every pair."""
    if kind == "original":
        return np.asarray(scale * np.sqrt(factor / np.maximum(visits, 1)))
    return np.where(visits > 0, scale / np.sqrt(np.maximum(visits, 1)), 1.0)
