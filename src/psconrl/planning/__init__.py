"""Known model in, best policy out."""

from psconrl.planning.evaluation import Evaluation, evaluate
from psconrl.planning.solution import Solution
from psconrl.planning.known import solve

__all__ = ["Evaluation", "Solution", "evaluate", "solve"]
