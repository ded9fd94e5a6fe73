"""The interaction of an agent with an environment."""

from psconrl.simulation.gymnasium_loop import learn
from psconrl.simulation.learner import Learner
from psconrl.simulation.run import Run, Snapshot
from psconrl.simulation.steering import Steering
from psconrl.simulation.tabular import simulate

__all__ = ["Learner", "Run", "Snapshot", "Steering", "learn", "simulate"]
