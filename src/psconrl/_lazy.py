"""Names that a package offers without importing them before they are used."""

import sys
from collections.abc import Callable, Collection, Mapping
from functools import cache
from importlib import import_module
from typing import Any


def attributes(package: str, home: Mapping[str, str], modules: Collection[str] = ()) -> Callable[[str], Any]:
    """The `__getattr__` of a package.

    Args:
        package: its name. home: for each name the module that defines it.
        modules: modules of the package that are names themselves.
    """

    def find(name: str) -> Any:
        if name in modules:
            return import_module(f"{package}.{name}")
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(home[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return find


def later(module: str) -> Callable[[], Any]:
    """What imports a module when it is first called: an import statement in a function takes longer each time."""

    @cache
    def load() -> Any:
        return import_module(module)

    return load
