from .evaluation import Evaluation as Evaluation
from .evaluation import evaluate as evaluate
from .for_agents import BestPolicy as BestPolicy
from .for_agents import best_policy as best_policy
from .nearest import nearest_limits as nearest_limits
from .nearest import relative_margin as relative_margin
from .optimistic import solve_optimistic as solve_optimistic
from .solution import Member as Member
from .solution import Solution as Solution
from .solving import solve as solve
from .tradeoff import Sweep as Sweep
from .tradeoff import threshold_sweep as threshold_sweep

__all__: list[str]
