"""The environments by name: `make`, and `register` for your own.

>>> make("marsrover-4x4", tau=0.15)
CMDP(S=16, A=4, m=1, dense)
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

from psconrl import gymnasium_ids
from psconrl._core.checks import short_repr
from psconrl._core.entry_points import load_entry_points
from psconrl.cmdp import CMDP, require_model
from psconrl.environments import grid, random, small, tables, worlds
from psconrl.errors import InvalidArgumentError, InvalidTypeError, UnknownNameError, did_you_mean
from psconrl.io.reading import is_model_file


@dataclass(frozen=True)
class Environment:
    """An entry of the registry.

    Attributes:
        name: by which `make` knows it.
        build: the function that builds the model.
        description: one line about it.
        libraries: installed packages that the model comes from; their versions are a part of a run's identity.
    """

    name: str
    build: Callable[..., CMDP]
    description: str
    libraries: tuple[str, ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """The options and their defaults."""
        return {name: p.default for name, p in inspect.signature(self.build).parameters.items()}

    def __call__(self, **options: Any) -> CMDP:
        """Build the model; InvalidTypeError names the accepted options."""
        unknown = options.keys() - self.options.keys()
        if unknown:
            first = min(unknown)
            raise InvalidTypeError(
                f"{self.name} has no option {first!r}{did_you_mean(first, self.options)} "
                f"(its options are {', '.join(self.options)})"
            )
        return self.build(**options)


_GYMNASIUM = ("gymnasium",)

_ENVIRONMENTS = (
    Environment("marsrover-4x4", grid.marsrover_4x4, "rover on a 4x4 map: to the goal, at little risk"),
    Environment("marsrover-8x8", grid.marsrover_8x8, "rover on an 8x8 map"),
    Environment("box", grid.box, "push a box out of the way without driving it into a corner"),
    Environment("gridworld", grid.gridworld, "your own map: map = a text, a list of lines or a .txt file"),
    Environment("grid", grid.random_grid, "Marsrover-like random map with a safe but winding way"),
    Environment("toy", small.toy, "two states, feasible iff tau >= 1 / (1 + theta)"),
    Environment("queue", small.queue, "queue with controlled service and arrivals, two constraints"),
    Environment("riverswim", worlds.riverswim, "a reward far upstream, and a limit on swimming"),
    Environment("media-streaming", worlds.media_streaming, "a buffer that must not run empty, little fast service"),
    Environment("inventory", worlds.inventory, "a shop that sells what it can within a budget"),
    Environment("access-control", worlds.access_control, "ten servers, four classes of customers, four limits"),
    Environment("hospital", worlds.hospital, "a ward with limits on overtime and on readmissions"),
    Environment("frozen-lake", tables.frozen_lake, "Gymnasium's frozen lake, with a limit on falls", _GYMNASIUM),
    Environment("cliff-walking", tables.cliff_walking, "Gymnasium's cliff, with a limit on falls", _GYMNASIUM),
    Environment("taxi", tables.taxi, "Gymnasium's taxi, with a toll", _GYMNASIUM),
    Environment("garnet", random.garnet, "random sparse model, communicating and strictly feasible"),
    Environment("dirichlet", random.dirichlet, "drawn from a Dirichlet prior after costs and limits are fixed"),
)

_REGISTRY = {environment.name: environment for environment in _ENVIRONMENTS}


def registry() -> Mapping[str, Environment]:
    """All environments by name; also those that installed packages offer by entry points."""
    _load_installed()
    return MappingProxyType(_REGISTRY)


@cache
def _load_installed() -> None:
    load_entry_points("psconrl.environments", register)


def register(name: str, build: Callable[..., CMDP], description: str = "") -> Environment:
    """Add an environment; `make`, the command line, experiments and Gymnasium then know it.

    Where the module that registers it is imported again, the new function takes the place of the old one. A package
    can offer an environment by an entry point instead: `my-env = "my_package:build"` in the group
    `psconrl.environments`.

    Args:
        name: letters and digits, with single hyphens between parts.
        build: a function that gives the model; its parameters, all with defaults, are the options.
        description: one line about it; the first of the function's docstring if left out.

    Returns:
        The entry.

    Raises:
        InvalidArgumentError: the name has another form or belongs to another environment, or an option has no default.
        InvalidTypeError: `build` is no function.
    """
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", name):
        raise InvalidArgumentError(
            f"name is {short_repr(name)}; the name of an environment must be letters and digits, with single hyphens "
            "between parts"
        )
    if not inspect.isfunction(build) or not isinstance(description, str):
        raise InvalidTypeError("an environment needs a function that builds its model, and maybe a line about it")
    for known in list(_REGISTRY.values()):
        if _plain(known.name) == _plain(name):
            if (known.build.__module__, known.build.__qualname__) != (build.__module__, build.__qualname__):
                raise InvalidArgumentError(f"there is an environment {name!r} already; choose another name")
            del _REGISTRY[known.name]
    parameters = inspect.signature(build).parameters.values()
    if any(p.default is p.empty for p in parameters):
        raise InvalidArgumentError(f"all options of {name} need defaults: make({name!r}) must work without any")
    _REGISTRY[name] = Environment(name, build, description or (inspect.getdoc(build) or "").split("\n")[0])
    gymnasium_ids.register_if_loaded()
    return _REGISTRY[name]


def find(name: str) -> Environment:
    """The environment of that name; case, hyphens and underscores do not matter."""
    if not isinstance(name, str):
        raise InvalidTypeError(
            f"{short_repr(name)} is not the name of an environment; the names are {', '.join(registry())}"
        )
    matches = [environment for environment in _REGISTRY.values() if _plain(environment.name) == _plain(name)]
    matches = matches or [
        environment for environment in registry().values() if _plain(environment.name) == _plain(name)
    ]
    if not matches:
        raise UnknownNameError("environment", name, _REGISTRY)
    return matches[0]


def make(name: str, **options: Any) -> CMDP:
    """Build an environment by name, for instance `make("marsrover-8x8", slip=0.1)`; see `registry`."""
    return find(name)(**options)


def find_model(source: CMDP | str | Path, **options: Any) -> CMDP:
    """A model given as itself, as the name of an environment with its options, or as a file."""
    if isinstance(source, str) and not is_model_file(source):
        return make(source, **options)
    if options:
        raise InvalidArgumentError(f"{source} has no option {next(iter(options))!r}; only environments have options")
    if isinstance(source, (str, Path)):
        return CMDP.load(source)
    require_model(source)
    return source


def _plain(name: str) -> str:
    return name.lower().replace("-", "").replace("_", "")
