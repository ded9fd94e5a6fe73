"""The agents by name."""

from collections.abc import Mapping
from dataclasses import fields
from types import MappingProxyType
from typing import Any

from psconrl._core.checks import short_repr
from psconrl.agents.c_ucrl import CUCRL
from psconrl.agents.cmdp_psrl import CMDPPSRL
from psconrl.agents.conrl import ConRL
from psconrl.agents.continuing_psrl import ContinuingPSRL
from psconrl.agents.contract import Agent
from psconrl.agents.dope import DOPE
from psconrl.agents.fha import FHA
from psconrl.agents.primal_dual_q import PrimalDualQ
from psconrl.agents.psconrl import PSConRL
from psconrl.agents.recommended import Recommended
from psconrl.agents.reference import Optimal, Uniform
from psconrl.agents.safe_psrl import SafePSRL
from psconrl.agents.tsde import TSDE
from psconrl.agents.uc_curl import UCCURL
from psconrl.agents.ucrl_cmdp import UCRLCMDP
from psconrl.errors import InvalidArgumentError, InvalidTypeError, UnknownNameError

_AGENTS: dict[str, type[Agent]] = {
    "Recommended": Recommended,
    "PSConRL": PSConRL,
    "ConRL": ConRL,
    "C-UCRL": CUCRL,
    "UCRL-CMDP": UCRLCMDP,
    "CMDP-PSRL": CMDPPSRL,
    "FHA": FHA,
    "TSDE": TSDE,
    "UC-CURL": UCCURL,
    "DOPE": DOPE,
    "Safe-PSRL": SafePSRL,
    "Continuing-PSRL": ContinuingPSRL,
    "Primal-dual-Q": PrimalDualQ,
    "Uniform": Uniform,
    "Optimal": Optimal,
}


def registry() -> Mapping[str, type[Agent]]:
    """All agents, by the names of their papers."""
    return MappingProxyType(_AGENTS)


def register(agent: type[Agent], name: str | None = None) -> type[Agent]:
    """Add an agent under a name, by default that of its class; experiments then know it.

    Nothing else is to be done: listings, experiments, warm-up and the report's colours find it here. Processes that
    run experiments must import the module that registers it, too.
    """
    if not (isinstance(agent, type) and issubclass(agent, Agent)):
        raise InvalidTypeError(f"agent is {short_repr(agent)}; it must be a class derived from psconrl.agents.Agent")
    name = agent.__name__ if name is None else name
    if not isinstance(name, str) or not _plain(name):
        raise InvalidArgumentError(f"name is {short_repr(name)}; it must be a word")
    if any(_plain(known) == _plain(name) for known in _AGENTS):
        raise InvalidArgumentError(f"there is an agent {name!r} already; choose another name")
    _AGENTS[name] = agent
    return agent


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def canonical(name: str) -> str:
    """The name as `registry` has it; case and hyphens do not matter."""
    if not isinstance(name, str):
        raise InvalidTypeError(f"{short_repr(name)} is not the name of an agent; the names are {', '.join(_AGENTS)}")
    for known in _AGENTS:
        if _plain(known) == _plain(name):
            return known
    raise UnknownNameError("agent", name, _AGENTS)


def find(name: str) -> type[Agent]:
    """The agent of that name."""
    return _AGENTS[canonical(name)]


def parameters(agent: type[Agent]) -> dict[str, Any]:
    """The parameters of an agent and their defaults."""
    return {field.name: field.default for field in fields(agent) if field.name != "problem"}
