"""Known model in, best policy out."""

from psconrl.planning.evaluation import Evaluation, evaluate
from psconrl.planning.known import solve
from psconrl.planning.optimistic import solve_optimistic
from psconrl.planning.solution import Solution

__all__ = ["Evaluation", "Solution", "evaluate", "solve", "solve_optimistic"]
