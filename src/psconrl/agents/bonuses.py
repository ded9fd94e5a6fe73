"""Confidence bonuses: a published formula times a scale, or simply scale / sqrt(N).

"published"    scale * sqrt(factor / max(1, N)), the factor of the algorithm's own paper
"simple"       scale / sqrt(N), and 1 for pairs never visited, as released code does
"""

from typing import Literal

import numpy as np

from psconrl._core import checks
from psconrl._core.checks import Floats, Ints

Bonus = Literal["published", "simple"]


def check_bonus(kind: str, scale: float, delta: float = 0.5) -> None:
    """Refuse settings that make no bonus."""
    checks.one_of(kind, "bonus", ("published", "simple"))
    checks.real(scale, "scale", "a number >= 0", lambda x: x >= 0)
    checks.real(delta, "delta", "a number between 0 and 1", lambda x: 0 < x < 1)


def bonus(kind: Bonus, scale: float, factor: float, visits: Ints) -> Floats:
    """The bonus (S, A) of every pair."""
    if kind == "published":
        return np.asarray(scale * np.sqrt(factor / np.maximum(visits, 1)))
    return np.where(visits > 0, scale / np.sqrt(np.maximum(visits, 1)), 1.0)
