"""Learning agents behind one contract: one file for each algorithm, and what an agent of your own is made of.

Agents        `recommended`, and one class for each algorithm
Contract      `Agent`, `Memory`, `Plan`; `check_agent` checks an agent of your own, `register` gives it a name
Base classes  `LimitedAgent` plans with limits, `PosteriorAgent` samples models, `EstimatingAgent` estimates one
Planning      `plan_in` finds the best policy in a `Model`, `exploit` makes a plan of it, `as_array` shows a model
Schedules     the module `schedules`: when a plan ends, as a `Stop`
"""

from typing import TYPE_CHECKING

from psconrl._core.lazy import attributes

if TYPE_CHECKING:
    from psconrl.agents import schedules as schedules
    from psconrl.agents.c_ucrl import CUCRL as CUCRL
    from psconrl.agents.catalogue import find as find
    from psconrl.agents.catalogue import register as register
    from psconrl.agents.catalogue import registry as registry
    from psconrl.agents.cmdp_psrl import CMDPPSRL as CMDPPSRL
    from psconrl.agents.conrl import ConRL as ConRL
    from psconrl.agents.contract import FOREVER as FOREVER
    from psconrl.agents.contract import Agent as Agent
    from psconrl.agents.contract import Memory as Memory
    from psconrl.agents.contract import Plan as Plan
    from psconrl.agents.fha import FHA as FHA
    from psconrl.agents.planning import EstimatingAgent as EstimatingAgent
    from psconrl.agents.planning import LimitedAgent as LimitedAgent
    from psconrl.agents.planning import Model as Model
    from psconrl.agents.planning import as_array as as_array
    from psconrl.agents.planning import exploit as exploit
    from psconrl.agents.planning import plan_in as plan_in
    from psconrl.agents.posterior import PosteriorAgent as PosteriorAgent
    from psconrl.agents.psconrl import PSConRL as PSConRL
    from psconrl.agents.reference import Optimal as Optimal
    from psconrl.agents.reference import Uniform as Uniform
    from psconrl.agents.schedules import Stop as Stop
    from psconrl.agents.tsde import TSDE as TSDE
    from psconrl.agents.ucrl_cmdp import UCRLCMDP as UCRLCMDP
    from psconrl.agents.untuned import Recommended as Recommended
    from psconrl.agents.untuned import recommended as recommended
    from psconrl.learning.check_agent import check_agent as check_agent

_HOME = {
    "Recommended": "untuned",
    "recommended": "untuned",
    "PSConRL": "psconrl",
    "ConRL": "conrl",
    "CUCRL": "c_ucrl",
    "UCRLCMDP": "ucrl_cmdp",
    "CMDPPSRL": "cmdp_psrl",
    "FHA": "fha",
    "TSDE": "tsde",
    "Uniform": "reference",
    "Optimal": "reference",
    "Agent": "contract",
    "Memory": "contract",
    "Plan": "contract",
    "FOREVER": "contract",
    "EstimatingAgent": "planning",
    "LimitedAgent": "planning",
    "Model": "planning",
    "as_array": "planning",
    "exploit": "planning",
    "plan_in": "planning",
    "PosteriorAgent": "posterior",
    "Stop": "schedules",
    "find": "catalogue",
    "register": "catalogue",
    "registry": "catalogue",
}

_ABOVE = {"check_agent": "psconrl.learning.check_agent"}
"""A name that users look for here; nothing in this package knows it."""

_MODULES = ("schedules",)

__all__ = [*_HOME, *_ABOVE, *_MODULES]

__getattr__ = attributes(__name__, {name: f"{__name__}.{home}" for name, home in _HOME.items()} | _ABOVE, _MODULES)
