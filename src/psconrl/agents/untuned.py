"""The agent for those who do not want to choose: PSConRL with what was found to help everywhere, and nothing to tune.

    prior = "learned"          how random the moves are, and which states there are, is learned (`hierarchy`)

What is proved, and what is only measured, says docs/algorithms/recommended.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike
from scipy import sparse

from psconrl.agents.hierarchy import LEARNED
from psconrl.agents.psconrl import PSConRL
from psconrl.problem import Problem


@dataclass(frozen=True, eq=False)
class Recommended(PSConRL):
    """PSConRL with a learned prior, its limits kept by steering."""

    prior: ArrayLike | sparse.csr_array = LEARNED


def recommended(problem: Problem) -> Recommended:
    """The agent to start with; it has nothing to tune."""
    return Recommended(problem)
