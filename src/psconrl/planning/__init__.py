"""Known model in, best policy out."""

from psconrl.planning.evaluate import Evaluation, evaluate
from psconrl.planning.inner import BestPolicy, best_policy
from psconrl.planning.solve import solve
from psconrl.planning.optimistic import solve_optimistic
from psconrl.planning.solution import Solution
from psconrl.planning.sweep import Sweep, threshold_sweep

__all__ = [
    "BestPolicy",
    "Evaluation",
    "Solution",
    "Sweep",
    "best_policy",
    "evaluate",
    "solve",
    "solve_optimistic",
    "threshold_sweep",
]
