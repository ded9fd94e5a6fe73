"""The environments by Gymnasium id: `gymnasium.make("psconrl/Box-v0")` works once psconrl has been imported.

Importing psconrl must not load Gymnasium, which takes a third of a second. So the ids are registered at once where
Gymnasium is loaded already, and as soon as it is loaded otherwise. Only the standard library is used here.
"""

from __future__ import annotations

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

NAMESPACE = "psconrl"
ENTRY_POINT = "psconrl.environments.gymnasium_env:CMDPEnv"

IDS = {
    f"{NAMESPACE}/{title}-v0": name
    for title, name in {
        "Marsrover4x4": "marsrover-4x4",
        "Marsrover8x8": "marsrover-8x8",
        "Box": "box",
        "Gridworld": "gridworld",
        "Grid": "grid",
        "Toy": "toy",
        "Queue": "queue",
        "RiverSwim": "riverswim",
        "MediaStreaming": "media-streaming",
        "Inventory": "inventory",
        "AccessControl": "access-control",
        "Hospital": "hospital",
        "Garnet": "garnet",
        "Dirichlet": "dirichlet",
    }.items()
}
"""Gymnasium's id of each environment of `psconrl.make`."""


def register_envs() -> tuple[str, ...]:
    """Register the environments with Gymnasium, unless that has been done; returns their ids.

    There is no need to call this after `import psconrl`.
    """
    import gymnasium

    for identifier, name in IDS.items():
        if identifier not in gymnasium.registry:
            gymnasium.register(identifier, entry_point=ENTRY_POINT, kwargs={"model": name})
    return tuple(IDS)


def register_when_loaded() -> None:
    """Register now if Gymnasium is loaded, else when it will be."""
    if hasattr(sys.modules.get("gymnasium"), "register"):
        register_envs()
    elif not any(isinstance(finder, _AfterGymnasium) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterGymnasium())


class _AfterGymnasium(MetaPathFinder):
    """Finds Gymnasium where the other finders do, and has the environments registered once it is loaded."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and spec.loader is not None:
            self._follow(spec.loader)
        return spec

    def _follow(self, loader: Any) -> None:
        load = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            loader.exec_module = load
            load(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
            register_envs()

        loader.exec_module = exec_module
