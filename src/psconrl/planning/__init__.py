"""Known model in, best policy out."""

from psconrl.planning.evaluation import Evaluation, evaluate
from psconrl.planning.for_agents import BestPolicy, best_policy
from psconrl.planning.optimistic import solve_optimistic
from psconrl.planning.solution import Member, Solution
from psconrl.planning.solving import solve
from psconrl.planning.tradeoff import Sweep, threshold_sweep

__all__ = [
    "BestPolicy",
    "Evaluation",
    "Member",
    "Solution",
    "Sweep",
    "best_policy",
    "evaluate",
    "solve",
    "solve_optimistic",
    "threshold_sweep",
]
