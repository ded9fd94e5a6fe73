"""Confidence bonuses: a published formula times a scale, or simply scale / sqrt(N).

"published"    scale * sqrt(factor / max(1, N)), the factor of the algorithm's own paper
"simple"       scale / sqrt(N), and 1 for pairs never visited, as released code does
"""

from typing import Literal

import numpy as np

from psconrl._checks import Floats, Ints

Bonus = Literal["published", "simple"]


def bonus(kind: Bonus, scale: float, factor: float, visits: Ints) -> Floats:
    """The bonus (S, A) of every pair."""
    if kind == "published":
        return np.asarray(scale * np.sqrt(factor / np.maximum(visits, 1)))
    if kind == "simple":
        return np.where(visits > 0, scale / np.sqrt(np.maximum(visits, 1)), 1.0)
    raise ValueError(f'bonus is {kind!r}; it must be "published" or "simple"')
