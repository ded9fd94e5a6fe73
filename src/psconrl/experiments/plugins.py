"""Agents and environments from modules outside of psconrl, in this process and in those that execute runs."""

from __future__ import annotations

import importlib
import inspect
import runpy
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from psconrl import agents, environments
from psconrl.errors import CodeMismatchError, SpecError, UnknownNameError
from psconrl.experiments import identity

if TYPE_CHECKING:
    from psconrl.experiments.spec import Cell


class Definition(NamedTuple):
    """Where a process finds an agent or environment from outside.

    Attributes:
        kind: "agent" or "environment".
        name: under which it is registered.
        module, qualname: where it is defined.
        path: the folder from which its module can be imported; of a main script, its file.
        identity: hash of its source.
    """

    kind: str
    name: str
    module: str
    qualname: str
    path: str
    identity: str


def import_module(name: str) -> ModuleType:
    """Import a module that registers agents or environments.

    Agent classes that the module defines and does not register itself are registered under their own names.

    Args:
        name: of a module, which may lie in the current folder; or the path of a file, `mine.py`.

    Returns:
        The module.

    Raises:
        SpecError: there is no such module, or importing it fails.
    """
    path = Path(name)
    if path.suffix == ".py":
        sys.path.insert(0, str(path.resolve().parent))
        name = path.stem
    elif str(Path.cwd()) not in sys.path:
        sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            raise SpecError(f"there is no module {name!r} in {Path.cwd()} or where Python looks for modules") from None
        raise SpecError(f"importing {name} fails: {error}") from error
    except Exception as error:
        raise SpecError(f"importing {name} fails: {type(error).__name__}: {error}") from error
    registered = set(agents.registry().values())
    for value in list(vars(module).values()):
        own = inspect.isclass(value) and issubclass(value, agents.Agent) and value.__module__ == module.__name__
        if own and value not in registered and not inspect.isabstract(value) and not value.__name__.startswith("_"):
            agents.register(value)
    return module


def definitions(cell: Cell) -> tuple[Definition, ...]:
    """What a cell uses from outside."""
    found: list[tuple[str, str, Any]] = [("agent", cell.agent, agents.find(cell.agent))]
    if cell.model is None:
        found.append(("environment", cell.env, environments.find(cell.env).build))
    return tuple(_definition(*item) for item in found if identity.is_outside(item[2]))


@cache
def _definition(kind: str, name: str, definition: type | FunctionType) -> Definition:
    module = _MAIN if definition.__module__ == _MAIN_AGAIN else definition.__module__
    file = getattr(sys.modules.get(definition.__module__), "__file__", None)
    path = "" if file is None else str(Path(file).resolve())
    if file is not None and module != _MAIN:
        path = str(Path(path).parents[module.count(".") + (Path(file).name == "__init__.py")])
    return Definition(kind, name, module, definition.__qualname__, path, identity.source_identity(definition))


_MAIN, _MAIN_AGAIN = "__main__", "__mp_main__"
"""The main script, and what it is called in processes that it starts; as for multiprocessing."""


def ensure(needed: Iterable[Definition]) -> None:
    """Import and register definitions in a process that is to execute runs with them.

    Args:
        needed: as another process knows them.

    Raises:
        CodeMismatchError: a definition cannot be imported here, or has another source here.
    """
    for definition in needed:
        if _have(definition):
            continue
        try:
            if definition.module in sys.modules and definition.module != _MAIN:  # an earlier version of it
                for name in identity.own_modules(_found(definition)):
                    sys.modules.pop(name, None)
            value = _found(definition)
        except (ImportError, AttributeError) as error:
            raise CodeMismatchError(
                f"a worker process cannot import the {definition.kind} {definition.name} from {definition.module} "
                f"({error}); put it in a module that workers find, or use workers=1"
            ) from error
        _register(definition, value)
        if not _have(definition):
            raise CodeMismatchError(
                f"the {definition.kind} {definition.name} has another source in a worker process than here: "
                f"{definition.module} has changed since it was imported; import it again"
            )


def _found(definition: Definition) -> Any:
    """The class or function, imported."""
    if definition.module == _MAIN:
        if not definition.path:
            raise CodeMismatchError(
                f"the {definition.kind} {definition.name} was defined at a prompt or in a notebook, where worker "
                "processes do not find it; put it in a module, or use workers=1"
            )
        value: Any = _main_script(definition.path)
    else:
        if definition.path not in sys.path and Path(definition.path).is_dir():
            sys.path.append(definition.path)
            importlib.invalidate_caches()
        value = importlib.import_module(definition.module)
    for name in definition.qualname.split("."):
        value = getattr(value, name)
    return value


@cache
def _main_script(path: str) -> ModuleType:
    module = ModuleType(_MAIN_AGAIN)
    module.__file__ = path
    sys.modules[_MAIN_AGAIN] = module
    vars(module).update(runpy.run_path(path, run_name=_MAIN_AGAIN))
    return module


def _register(definition: Definition, value: type | FunctionType) -> None:
    if definition.kind == "agent":
        agents.register(value, definition.name)  # type: ignore[arg-type]
    else:
        environments.register(definition.name, value)


def _have(definition: Definition) -> bool:
    """Whether this process has a definition under its name, with the same source."""
    try:
        here: Any = agents.find(definition.name) if definition.kind == "agent" else None
        here = here or environments.find(definition.name).build
    except UnknownNameError:
        return False
    return identity.is_outside(here) and _definition(definition.kind, definition.name, here)[-1] == definition.identity
