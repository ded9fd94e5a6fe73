"""The environments by Gymnasium id: `gymnasium.make("psconrl:psconrl/Box-v0")`, which imports psconrl itself.

After `import gymnasium, psconrl` the id is enough, "psconrl/Box-v0": importing psconrl registers the environments where
Gymnasium is loaded already. It must not load Gymnasium, which takes a third of a second, and changes nothing in how
modules are imported; so after `import psconrl, gymnasium`, in that order, either something of psconrl that needs
Gymnasium must have been used (`CMDPEnv`, `AddCosts`), or `psconrl.register_envs()` be called. An id follows from the
name of an environment: "marsrover-4x4" is psconrl/Marsrover4x4-v0.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

NAMESPACE = "psconrl"
ENTRY_POINT = "psconrl.environments.gymnasium_env:CMDPEnv"


def identifiers() -> dict[str, str]:
    """The name of each environment by its Gymnasium id, in the order of `psconrl.environments.registry`."""
    return {
        f"{NAMESPACE}/{''.join(part[:1].upper() + part[1:] for part in name.split('-'))}-v0": name for name in _names()
    }


def _names() -> list[str]:
    module = sys.modules.get("psconrl.environments.catalogue")
    if module is not None and hasattr(module, "registry"):
        return list(module.registry())
    # Importing the module takes as long as Gymnasium itself, so its table is read as text.
    table = Path(__file__).with_name("environments").joinpath("catalogue.py").read_text(encoding="utf-8")
    return re.findall(r'^    Environment\("([^"]+)"', table, flags=re.MULTILINE)


def register_envs() -> tuple[str, ...]:
    """Register the environments with Gymnasium, unless that has been done; returns their ids.

    There is no need to call this if psconrl is imported after Gymnasium.
    """
    import gymnasium

    found = identifiers()
    for identifier, name in found.items():
        if identifier not in gymnasium.registry:
            gymnasium.register(identifier, entry_point=ENTRY_POINT, kwargs={"model": name})
    return tuple(found)


def register_if_loaded() -> None:
    """Register if Gymnasium is loaded."""
    if hasattr(sys.modules.get("gymnasium"), "register"):
        register_envs()
