"""The interaction of an agent with an environment."""

from psconrl.learning.gymnasium_loop import learn
from psconrl.learning.learner import Learner
from psconrl.learning.run import Run, Snapshot
from psconrl.learning.steering import Steering
from psconrl.learning.tabular import simulate

__all__ = ["Learner", "Run", "Snapshot", "Steering", "learn", "simulate"]
