from . import schedules as schedules
from .c_ucrl import CUCRL as CUCRL
from .catalogue import find as find
from .catalogue import register as register
from .catalogue import registry as registry
from .check_agent import check_agent as check_agent
from .check_agent import preset as preset
from .cmdp_psrl import CMDPPSRL as CMDPPSRL
from .conrl import ConRL as ConRL
from .contract import Agent as Agent
from .contract import Memory as Memory
from .contract import Plan as Plan
from .fha import FHA as FHA
from .psconrl import PSConRL as PSConRL
from .recommended import Recommended as Recommended
from .recommended import recommended as recommended
from .reference import Optimal as Optimal
from .reference import Uniform as Uniform
from .tsde import TSDE as TSDE
from .ucrl_cmdp import UCRLCMDP as UCRLCMDP

__all__: list[str]
