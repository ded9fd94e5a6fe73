"""Every algorithm of the paper behind one contract; one file each, named as its paper names it."""

from typing import TYPE_CHECKING

from psconrl._core.lazy import attributes

if TYPE_CHECKING:
    from psconrl.agents.c_ucrl import CUCRL as CUCRL
    from psconrl.agents.catalogue import find as find
    from psconrl.agents.catalogue import register as register
    from psconrl.agents.catalogue import registry as registry
    from psconrl.agents.cmdp_psrl import CMDPPSRL as CMDPPSRL
    from psconrl.agents.conrl import ConRL as ConRL
    from psconrl.agents.contract import Agent as Agent
    from psconrl.agents.contract import Memory as Memory
    from psconrl.agents.contract import Plan as Plan
    from psconrl.agents.fha import FHA as FHA
    from psconrl.agents.psconrl import PSConRL as PSConRL
    from psconrl.agents.reference import Optimal as Optimal
    from psconrl.agents.reference import Uniform as Uniform
    from psconrl.agents.tsde import TSDE as TSDE
    from psconrl.agents.ucrl_cmdp import UCRLCMDP as UCRLCMDP
    from psconrl.agents.untuned import Recommended as Recommended
    from psconrl.agents.untuned import recommended as recommended
    from psconrl.experiments.paper_settings import preset as preset
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
    "find": "catalogue",
    "register": "catalogue",
    "registry": "catalogue",
}

_ABOVE = {"check_agent": "psconrl.learning.check_agent", "preset": "psconrl.experiments.paper_settings"}
"""Names that users look for here; nothing in this package knows them."""

__all__ = [*_HOME, *_ABOVE]

__getattr__ = attributes(__name__, {name: f"{__name__}.{home}" for name, home in _HOME.items()} | _ABOVE)
