"""Planning and learning under long-run constraints.

Names are imported when first used, so that `import psconrl` stays light.
"""

from typing import TYPE_CHECKING

from psconrl._core.lazy import attributes
from psconrl.gymnasium_ids import register_if_loaded

if TYPE_CHECKING:
    from psconrl.cmdp import CMDP as CMDP
    from psconrl.environments import make as make
    from psconrl.environments.gymnasium_env import AddCosts as AddCosts
    from psconrl.environments.gymnasium_env import CMDPEnv as CMDPEnv
    from psconrl.errors import InvalidArgumentError as InvalidArgumentError
    from psconrl.errors import InvalidModelError as InvalidModelError
    from psconrl.errors import InvalidTypeError as InvalidTypeError
    from psconrl.errors import LearnerFileError as LearnerFileError
    from psconrl.errors import MapError as MapError
    from psconrl.errors import ModelFileError as ModelFileError
    from psconrl.errors import OutOfTurnError as OutOfTurnError
    from psconrl.errors import PsconrlError as PsconrlError
    from psconrl.errors import SolverError as SolverError
    from psconrl.errors import UnknownNameError as UnknownNameError
    from psconrl.gymnasium_ids import register_envs as register_envs
    from psconrl.learning import Learner as Learner
    from psconrl.learning import Run as Run
    from psconrl.learning import Steering as Steering
    from psconrl.learning import learn as learn
    from psconrl.learning import simulate as simulate
    from psconrl.planning import Evaluation as Evaluation
    from psconrl.planning import Solution as Solution
    from psconrl.planning import solve as solve
    from psconrl.planning import threshold_sweep as threshold_sweep
    from psconrl.planning.evaluation import evaluate as evaluate
    from psconrl.planning.nearest import nearest_limits as nearest_limits
    from psconrl.problem import Problem as Problem

__version__ = "0.1.0"

_HOME = {
    "CMDP": "cmdp",
    "Problem": "problem",
    "simulate": "learning",
    "learn": "learning",
    "Learner": "learning",
    "Run": "learning",
    "Steering": "learning",
    "make": "environments",
    "AddCosts": "environments.gymnasium_env",
    "CMDPEnv": "environments.gymnasium_env",
    "register_envs": "gymnasium_ids",
    "nearest_limits": "planning.nearest",
    "evaluate": "planning",
    "solve": "planning",
    "threshold_sweep": "planning",
    "Evaluation": "planning",
    "Solution": "planning",
    "InvalidArgumentError": "errors",
    "InvalidModelError": "errors",
    "InvalidTypeError": "errors",
    "LearnerFileError": "errors",
    "MapError": "errors",
    "ModelFileError": "errors",
    "OutOfTurnError": "errors",
    "PsconrlError": "errors",
    "SolverError": "errors",
    "UnknownNameError": "errors",
}
_MODULES = ("agents", "environments", "planning", "structure")

__all__ = [*_HOME, *_MODULES]

__getattr__ = attributes(__name__, {name: f"{__name__}.{home}" for name, home in _HOME.items()}, _MODULES)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])


register_if_loaded()
