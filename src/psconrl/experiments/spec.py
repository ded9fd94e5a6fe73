"""What to run: an experiment is a frozen value, and a run's identity is a hash of all that its result depends on.

A cell is one agent in one environment over one horizon; an experiment is cells x seeds. Seed i of a cell is
`simulate(..., seed=i)`.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal, NoReturn, get_origin, get_type_hints

from psconrl import environments
from psconrl._core import checks
from psconrl._core.checks import short_repr
from psconrl.agents import catalogue
from psconrl.errors import InvalidArgumentError, PsconrlError, SpecError, UnknownNameError, did_you_mean
from psconrl.experiments import plugins
from psconrl.experiments.identity import code_identity
from psconrl.io import reading
from psconrl.io.reading import is_model_file

Costs = Literal["known", "estimated"]

MAX_RUNS = 1_000_000
"""Runs of one experiment; they are listed in memory."""
MAX_STEPS = 10**15
MAX_CHECKPOINTS = 1_000_000


@dataclass(frozen=True)
class Cell:
    """One agent in one environment.

    Attributes:
        env: a registered name, or a model file (.npz, .json, .drn or .umb).
        agent: a registered name.
        horizon: T, the number of steps.
        env_options, settings: the parameters of the environment and of the agent, JSON values.
        costs: whether the agent knows them.
        checkpoints: how many times are recorded.
        evaluate_policies: keep the exact averages of each executed policy, however large the model is; where it has at
            most 512 states this costs little, and they are always kept.
        seed_option: an option of the environment that is set to the seed of each run, so that every run has its
            own model.
        model: checksum of the model file, found by itself; None for registered environments.
    """

    env: str
    agent: str
    horizon: int
    env_options: Mapping[str, Any] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    costs: Costs = "estimated"
    checkpoints: int = 500
    evaluate_policies: bool = False
    seed_option: str | None = None
    model: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "agent", catalogue.canonical(self.agent))
        for name, most in (("horizon", MAX_STEPS), ("checkpoints", MAX_CHECKPOINTS)):
            object.__setattr__(self, name, _whole(getattr(self, name), name, most))
        if not isinstance(self.evaluate_policies, bool):
            raise SpecError(f"evaluate_policies is {short_repr(self.evaluate_policies)}; it must be true or false")
        if not (isinstance(self.env, str) and isinstance(self.seed_option, (str, type(None)))):
            raise SpecError("env and seed_option must be names")
        if self.costs not in ("known", "estimated"):
            raise SpecError(f'costs is {self.costs!r}; it must be "known" or "estimated"')
        for name in ("env_options", "settings"):
            object.__setattr__(self, name, _plain(getattr(self, name), name))
        # The model of "Optimal" is the environment itself; it cannot be set.
        known = [name for name in catalogue.parameters(catalogue.find(self.agent)) if name != "model"]
        for name in self.settings:
            if name not in known:
                _unknown("setting", name, known, self.agent)
        self._check_environment()

    def _check_environment(self) -> None:
        if is_model_file(self.env):
            if self.env_options or self.seed_option:
                raise SpecError(f"{self.env}: a model file has no options")
            if self.model is None:
                object.__setattr__(self, "model", file_checksum(self.env))
            return
        environment = environments.find(self.env)
        object.__setattr__(self, "env", environment.name)
        wanted = [*self.env_options, *([self.seed_option] if self.seed_option else [])]
        for name in wanted:
            if name not in environment.options:
                _unknown("option", name, list(environment.options), environment.name)

    def as_json(self) -> dict[str, Any]:
        """The cell as JSON values, sorted."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return {name: dict(sorted(v.items())) if isinstance(v, Mapping) else v for name, v in values.items()}

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def env_name(self) -> str:
        """The environment's name in tables and folders: that of the registry, or the file's without its ending."""
        return self.env if self.model is None else Path(self.env).stem

    @property
    def label(self) -> str:
        """A short name for people: environment and agent, with options that differ from none."""
        options = "".join(f" {key}={value}" for key, value in sorted(self.env_options.items()))
        return f"{self.env_name}{options} / {self.agent}"

    @cached_property
    def id(self) -> str:
        """A short hash of the settings, without the code and the seed."""
        # Where a model file lies does not matter, only what is in it.
        return _digest(self.as_json() | {"env": self.env_name}, 12)

    @cached_property
    def code(self) -> str:
        """A hash of all code that the results depend on: psconrl's, and that of an own agent or environment."""
        own = {d.kind: d.identity for d in plugins.definitions(self)}
        if self.model is None:
            own |= {name: version(name) for name in environments.find(self.env).libraries}
        return _digest({"psconrl": code_identity()} | own, 16) if own else code_identity()

    def identity(self, seed: int) -> str:
        """The hash that names the run of this cell with a seed."""
        return _digest({"cell": self.id, "seed": seed, "code": self.code}, 20)

    def options_of(self, seed: int | None) -> dict[str, Any]:
        """The options of the environment in the run with a seed."""
        return dict(self.env_options) | ({} if self.seed_option is None else {self.seed_option: seed})


@dataclass(frozen=True)
class Experiment:
    """Cells, and how many seeds 0, 1, ... each is run with."""

    name: str
    cells: tuple[Cell, ...]
    seeds: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.seeds) != len(self.cells):
            raise SpecError("seeds must give one number for each cell")
        if not self.cells:
            raise SpecError("an experiment needs at least one environment and one agent")
        if len({cell.id for cell in self.cells}) < len(self.cells):
            raise SpecError("two cells of the experiment are the same")
        if not isinstance(self.name, str):
            raise SpecError(f"name is {short_repr(self.name)}; it must be a text")
        if sum(_whole(n, "seeds") for n in self.seeds) > MAX_RUNS:
            raise SpecError(f"the experiment has more than {MAX_RUNS:,} runs; make several of it, or fewer seeds")

    @staticmethod
    def grid(
        name: str,
        envs: Sequence[str],
        agents: Sequence[str],
        *,
        horizon: int,
        seeds: int,
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        env_options: Mapping[str, Mapping[str, Any]] | None = None,
        **fields: Any,
    ) -> Experiment:
        """Every agent in every environment.

        Args:
            name: of the experiment.
            envs: environments, by name or as model files.
            agents: agents, by name.
            horizon: steps of each run.
            seeds: runs of each cell.
            settings: parameters by the name of an agent; the agent's defaults where there are none.
            env_options: options by the name of an environment.
            fields: further fields of each cell, see `Cell`.

        Raises:
            SpecError: a name, setting or number makes no sense.
        """
        canonical = catalogue.canonical
        agents = list(dict.fromkeys(map(canonical, agents)))
        envs = list(dict.fromkeys(map(_canonical_env, envs)))
        given = _by_name("settings", settings, canonical, agents)
        options = _by_name("env_options", env_options, _canonical_env, envs)
        cells = tuple(
            Cell(
                env,
                agent,
                horizon,
                env_options=options.get(env, {}),
                settings=given.get(agent, {}),
                **fields,
            )
            for env in envs
            for agent in agents
        )
        return Experiment(name, cells, (seeds,) * len(cells))

    def as_json(self) -> dict[str, Any]:
        """The experiment as JSON values; each cell with its id, by which exported tables name it."""
        cells = [
            {"id": cell.id} | cell.as_json() | {"seeds": n} for cell, n in zip(self.cells, self.seeds, strict=True)
        ]
        return {"name": self.name, "cells": cells}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Experiment:
        """The inverse of `as_json`."""
        check_document(document, "")
        cells = [{key: value for key, value in cell.items() if key != "id"} for cell in document["cells"]]
        seeds = tuple(int(cell.pop("seeds")) for cell in cells)
        return Experiment(str(document["name"]), tuple(Cell(**cell) for cell in cells), seeds)

    @property
    def runs(self) -> Iterator[tuple[Cell, int]]:
        """All (cell, seed), seed by seed: what is stopped half way has nearly as many runs of each cell."""
        cells = list(zip(self.cells, self.seeds, strict=True))
        return ((cell, seed) for seed in range(max(self.seeds)) for cell, n in cells if seed < n)


_FIELDS = [
    f.name for f in fields(Cell) if f.name not in ("env", "env_options", "agent", "settings", "horizon", "model")
]
"""Fields that are the same for all cells of a grid."""
_KNOWN = ("name", "import", "envs", "agents", "horizon", "seeds", "settings", "env_options", *_FIELDS)


def read_experiment(path: str | Path) -> Experiment:
    """An experiment from a TOML file, or from the experiment.json of a store."""
    path = Path(path)
    if path.suffix == ".json":
        return Experiment.from_json(reading.read_json(path, SpecError))
    return read_toml(path)


def read_toml(path: str | Path) -> Experiment:
    """An experiment from a TOML file; names of model files in it are relative to its folder."""
    path = Path(path)
    document = reading.read_toml(path, SpecError)
    try:
        return _from_toml(document, path)
    except PsconrlError as error:
        raise SpecError(f"{path}: {error}") from error


def _from_toml(document: dict[str, Any], path: Path) -> Experiment:
    for name in document:
        if name not in _KNOWN:
            _unknown("field", name, _KNOWN)
    for name in ("envs", "agents", "horizon", "seeds"):
        if name not in document:
            raise SpecError(f"the field {name!r} is missing")
    for name in ("envs", "agents"):
        values = document[name]
        if not isinstance(values, list) or not values or not all(isinstance(value, str) for value in values):
            raise SpecError(f'{name} must be a list of names, for instance {name} = ["{_EXAMPLE[name]}"]')
    modules = document.get("import", [])
    if not isinstance(modules, list) or not all(isinstance(name, str) for name in modules):
        raise SpecError('import must be a list of modules, for instance import = ["my_agents"]')
    for name in modules:
        plugins.import_module(str(path.parent / name) if name.endswith(".py") else name)
    envs = [str(path.parent / env) if is_model_file(env) else env for env in document["envs"]]
    return Experiment.grid(
        str(document.get("name", path.stem)),
        envs,
        document["agents"],
        horizon=document["horizon"],
        seeds=_whole(document["seeds"], "seeds"),
        settings=document.get("settings"),
        env_options=document.get("env_options"),
        **{name: document[name] for name in _FIELDS if name in document},
    )


_EXAMPLE = {"envs": "marsrover-4x4", "agents": "psconrl"}


def file_checksum(path: str | Path) -> str:
    """The checksum by which a cell knows its model file."""
    return hashlib.sha256(reading.read_bytes(path, SpecError)).hexdigest()[:20]


def check_document(document: Any, where: str) -> None:
    """Refuse what is not the specification of an experiment.

    Args:
        document: as read from a file.
        where: what the message begins with.

    Raises:
        SpecError: says what is missing.
    """

    def refuse(what: str) -> None:
        raise SpecError(f"{where}not the specification of an experiment: {what}")

    if not isinstance(document, dict) or not isinstance(document.get("name"), str):
        refuse("it has no name")
    cells = document.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        refuse("it has no list of cells")
    kinds = {"id": str, "seeds": int} | {name: _json_kind(hint) for name, hint in get_type_hints(Cell).items()}
    for k, cell in enumerate(cells):
        for name in cell.keys() | kinds.keys():
            if name not in kinds:
                refuse(f"cells[{k}] has an unknown field {short_repr(name)}")
            if name not in cell or not isinstance(cell[name], kinds[name]):
                refuse(f"cells[{k}] has no proper field {name!r}")


def _json_kind(hint: Any) -> Any:
    """What `isinstance` asks of a JSON value of a field with this type."""
    if get_origin(hint) is Literal:
        return str
    return dict if get_origin(hint) is Mapping else hint


def _canonical_env(name: str) -> str:
    if is_model_file(name):
        return name
    try:
        return environments.find(name).name
    except UnknownNameError as error:
        if os.path.exists(name):  # unlike a path, refuses no name
            raise SpecError(
                f"{name}: experiments take a model from one file; write it: psconrl convert {name} model.json"
            ) from error
        raise


def _by_name(what: str, given: object, canonical: Any, selected: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Tables of values by canonical name; each must belong to something that is run."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(values, Mapping) for values in given.values()):
        raise SpecError(f"{what} must be tables by name, for instance [{what}.{selected[0].lower()}]")
    tables = {canonical(name): dict(values) for name, values in given.items()}
    for name in tables:
        if name not in selected:
            raise SpecError(f"{what} for {name}, which is not run (there are: {', '.join(selected)})")
    return tables


def _whole(value: object, name: str, most: int = MAX_RUNS) -> int:
    try:
        return checks.whole(value, name, 1, most)
    except InvalidArgumentError as error:
        raise SpecError(str(error)) from None


def _plain(values: object, name: str) -> dict[str, Any]:
    """The same values after a trip through JSON, so that equal settings have equal identities."""
    if not isinstance(values, Mapping):
        raise SpecError(f"{name} must be a table of values")
    try:
        text = json.dumps(dict(values), sort_keys=True)
    except (TypeError, ValueError, RecursionError) as error:
        raise SpecError(f"{name} must be numbers, strings, lists or tables: {short_repr(str(error))}") from error
    if len(text) > reading.MAX_SETTINGS:
        raise SpecError(f"{name} are {len(text):,} characters long; the most is {reading.MAX_SETTINGS:,}")
    return dict(json.loads(text))


def _digest(document: Mapping[str, Any], length: int) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:length]


def _unknown(kind: str, name: str, known: Iterable[str], owner: str = "") -> NoReturn:
    known = sorted(known)
    of = f" of {owner}" if owner else ""
    raise SpecError(f"unknown {kind} {name!r}{of}{did_you_mean(name, known)} (known: {', '.join(known) or 'none'})")


def notes(experiment: Experiment) -> list[str]:
    """Remarks to print with the results of an experiment."""
    defaults = {cell.agent: catalogue.parameters(catalogue.find(cell.agent)) for cell in experiment.cells}
    original = {
        cell.agent
        for cell in experiment.cells
        if cell.settings.get("bonus", defaults[cell.agent].get("bonus")) == "original"
    }
    return [
        f"{agent} ran with its original bonus, which is larger than the costs themselves for most runs of a usual "
        f"length; try --set {agent.lower()}.bonus=simple --set {agent.lower()}.scale=0.1"
        for agent in sorted(original)
    ]
