"""The agent for those who do not want to choose: PSConRL with what was found to help everywhere, and nothing to tune.

    prior = "learned"          how random the moves are, and which states there are, is learned (`hierarchy`)
    execution = "steered"      the excess of the limits so far decides what to do next (`psconrl.planning.steered`)
    margin = 0                 so limits need not be tightened

All others, infeasible, floor, episodes and elsewhere, are PSConRL's, with its defaults.

What is proved, and what is only measured, says docs/algorithms/recommended.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from numpy.typing import ArrayLike
from scipy import sparse

from psconrl.agents.hierarchy import LEARNED
from psconrl.agents.planning import Execution
from psconrl.agents.psconrl import PSConRL
from psconrl.problem import Problem


@dataclass(frozen=True, eq=False)
class Recommended(PSConRL):
    """PSConRL with a learned prior, its limits kept by steering."""

    prior: ArrayLike | sparse.csr_array = LEARNED
    execution: Execution = field(default="steered", kw_only=True)


def recommended(problem: Problem) -> Recommended:
    """The agent to start with; it has nothing to tune."""
    return Recommended(problem)
