"""The agents by name."""

from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from types import MappingProxyType
from typing import Any

from psconrl._core.checks import short_repr
from psconrl._core.entry_points import load_entry_points
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
    """All agents, by the names of their papers; also those that installed packages offer by entry points."""
    _load_installed()
    return MappingProxyType(_AGENTS)


@cache
def _load_installed() -> None:
    load_entry_points("psconrl.agents", lambda name, agent: register(agent, name))


def register(agent: type[Agent], name: str | None = None) -> type[Agent]:
    """Add an agent under a name; the command line, experiments and reports then know it.

    Where the module that registers it is imported again, the new definition takes the place of the old one. A package
    can offer an agent by an entry point instead: `mine = "my_package:Mine"` in the group `psconrl.agents`.

    Args:
        agent: a class derived from `psconrl.agents.Agent`.
        name: that of the class if left out.

    Returns:
        The class, so that this can be used as a decorator.

    Raises:
        InvalidTypeError: `agent` is no such class.
        InvalidArgumentError: the name is no word, or belongs to another agent.
    """
    if not (isinstance(agent, type) and issubclass(agent, Agent)):
        raise InvalidTypeError(f"agent is {short_repr(agent)}; it must be a class derived from psconrl.agents.Agent")
    name = agent.__name__ if name is None else name
    if not isinstance(name, str) or not _plain(name):
        raise InvalidArgumentError(f"name is {short_repr(name)}; it must be a word")
    for known, present in list(_AGENTS.items()):
        if _plain(known) == _plain(name):
            if (present.__module__, present.__qualname__) != (agent.__module__, agent.__qualname__):
                raise InvalidArgumentError(
                    f"the agent {name!r} of {present.__module__} has this name already; "
                    'register the other one under a name of its own: agents.register(Mine, "my-name")'
                )
            del _AGENTS[known]
    _AGENTS[name] = agent
    return agent


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "").replace(" ", "")


def canonical(name: str) -> str:
    """The name as `registry` has it; case and hyphens do not matter."""
    if not isinstance(name, str):
        raise InvalidTypeError(f"{short_repr(name)} is not the name of an agent; the names are {', '.join(_AGENTS)}")
    matches = [known for known in _AGENTS if _plain(known) == _plain(name)]
    matches = matches or [known for known in registry() if _plain(known) == _plain(name)]
    if not matches:
        raise UnknownNameError("agent", name, _AGENTS)
    return matches[0]


def find(name: str) -> type[Agent]:
    """The agent of that name."""
    return _AGENTS[canonical(name)]


def parameters(agent: type[Agent]) -> dict[str, Any]:
    """The parameters of an agent and their defaults."""
    if not (isinstance(agent, type) and issubclass(agent, Agent)):
        raise InvalidTypeError(f"agent is {short_repr(agent)}; it must be a class of agents")
    return {field.name: field.default for field in fields(agent) if field.name != "problem"}
