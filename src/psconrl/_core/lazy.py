"""Modules that are imported when they are first used."""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def lazy_import(module: str) -> Any:
    """A module that is imported when something of it is first used.

    The one way in which the project imports late: for kernels, which bring numba with them, for what a command line
    that only prints its help does not need, and where two modules know each other. Type checkers see the module:

        if TYPE_CHECKING:
            from psconrl.agents import _counts_kernels as kernels
        else:
            kernels = lazy_import("psconrl.agents._counts_kernels")
    """
    return _LazyModule(module)


class _LazyModule(ModuleType):
    def __getattr__(self, name: str) -> Any:
        path = self.__dict__["__name__"]
        value = getattr(sys.modules.get(path) or import_module(path), name)
        if "kernels" in path or ".compiled." in path:  # called for every plan: the next time without this detour
            self.__dict__[name] = value
        return value
