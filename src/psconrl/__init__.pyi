from . import agents as agents
from . import environments as environments
from . import errors as errors
from . import experiments as experiments
from . import learning as learning
from . import planning as planning
from . import report as report
from . import structure as structure
from .cmdp import CMDP as CMDP
from .environments import make as make
from .environments.gymnasium_env import AddCosts as AddCosts
from .environments.gymnasium_env import CMDPEnv as CMDPEnv
from .errors import InvalidArgumentError as InvalidArgumentError
from .errors import InvalidModelError as InvalidModelError
from .errors import InvalidTypeError as InvalidTypeError
from .errors import LearnerFileError as LearnerFileError
from .errors import MapError as MapError
from .errors import ModelFileError as ModelFileError
from .errors import OutOfTurnError as OutOfTurnError
from .errors import PsconrlError as PsconrlError
from .errors import SolverError as SolverError
from .errors import UnknownNameError as UnknownNameError
from .gymnasium_ids import register_envs as register_envs
from .learning import Learner as Learner
from .learning import Run as Run
from .learning import Steering as Steering
from .learning import learn as learn
from .learning import simulate as simulate
from .planning import Evaluation as Evaluation
from .planning import Solution as Solution
from .planning import evaluate as evaluate
from .planning import solve as solve
from .planning import threshold_sweep as threshold_sweep
from .planning.nearest import nearest_limits as nearest_limits
from .problem import Problem as Problem

__version__: str
__all__: list[str]
