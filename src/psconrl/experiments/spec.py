"""What to run: an experiment is a frozen value, and a run's identity is a hash of all that its result depends on.

A cell is one agent in one environment over one horizon; an experiment is cells x seeds. Seed i of a cell is
`simulate(..., seed=i)`.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

from psconrl.errors import PsconrlError

Costs = Literal["known", "estimated"]

_NUMERICAL = ("cmdp.py", "_checks.py", "_numba.py", "graph.py", "problem.py")
_PACKAGES = ("planning", "agents", "environments", "simulation")
_LIBRARIES = ("numpy", "scipy", "highspy", "numba")


class SpecError(PsconrlError, ValueError):
    """An experiment that makes no sense; the message says which field, and what is allowed."""


@dataclass(frozen=True)
class Cell:
    """One agent in one environment.

    env, agent: registered names. env_options, settings: their parameters, JSON values. costs: whether the agent knows
    them. checkpoints: how many times are recorded. evaluate_policies: keep exact averages of each executed policy.
    seed_option: an option of the environment that is set to the seed of each run, so that every run has its own model.
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

    def __post_init__(self) -> None:
        from psconrl.agents import canonical
        from psconrl.environments import find

        object.__setattr__(self, "env", find(self.env).name)
        object.__setattr__(self, "agent", canonical(self.agent))
        if self.horizon < 1:
            raise SpecError(f"horizon is {self.horizon}; it must be at least 1")
        if self.costs not in ("known", "estimated"):
            raise SpecError(f'costs is {self.costs!r}; it must be "known" or "estimated"')
        for name in ("env_options", "settings"):
            object.__setattr__(self, name, dict(_plain(getattr(self, name))))

    def as_json(self) -> dict[str, Any]:
        """The cell as JSON values, sorted."""
        return {
            "env": self.env,
            "env_options": dict(sorted(self.env_options.items())),
            "agent": self.agent,
            "settings": dict(sorted(self.settings.items())),
            "horizon": self.horizon,
            "costs": self.costs,
            "checkpoints": self.checkpoints,
            "evaluate_policies": self.evaluate_policies,
            "seed_option": self.seed_option,
        }

    def __hash__(self) -> int:
        return hash(json.dumps(self.as_json(), sort_keys=True))

    @property
    def label(self) -> str:
        """A short name for people: environment and agent, with options that differ from none."""
        options = "".join(f" {key}={value}" for key, value in sorted(self.env_options.items()))
        return f"{self.env}{options} / {self.agent}"

    def identity(self, seed: int) -> str:
        """The hash that names the run of this cell with a seed."""
        document = {"cell": self.as_json(), "seed": seed, "code": code_identity()}
        return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()[:20]


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
            raise SpecError("an experiment needs at least one cell")
        if min(self.seeds) < 1:
            raise SpecError(f"seeds is {min(self.seeds)}; it must be at least 1")

    @staticmethod
    def grid(
        name: str,
        envs: Sequence[str],
        agents: Sequence[str],
        *,
        horizon: int,
        seeds: int,
        costs: Costs = "estimated",
        settings: Mapping[str, Mapping[str, Any]] | None = None,
        env_options: Mapping[str, Any] | None = None,
    ) -> Experiment:
        """Every agent in every environment, with the presets of the paper; settings[agent] overrides them."""
        from psconrl.agents import canonical, preset

        given = {canonical(agent): dict(values) for agent, values in (settings or {}).items()}
        cells = tuple(
            Cell(
                env,
                agent,
                horizon,
                env_options=env_options or {},
                settings=preset(agent, env) | given.get(canonical(agent), {}),
                costs=costs,
            )
            for env in envs
            for agent in agents
        )
        return Experiment(name, cells, (seeds,) * len(cells))

    def as_json(self) -> dict[str, Any]:
        """The experiment as JSON values."""
        cells = [cell.as_json() | {"seeds": n} for cell, n in zip(self.cells, self.seeds, strict=True)]
        return {"name": self.name, "cells": cells}

    @staticmethod
    def from_json(document: Mapping[str, Any]) -> Experiment:
        """The inverse of `as_json`."""
        cells = [dict(cell) for cell in document["cells"]]
        seeds = tuple(int(cell.pop("seeds")) for cell in cells)
        return Experiment(str(document["name"]), tuple(Cell(**cell) for cell in cells), seeds)

    @property
    def runs(self) -> Iterable[tuple[Cell, int]]:
        """All (cell, seed), seeds of a cell together."""
        return ((cell, seed) for cell, n in zip(self.cells, self.seeds, strict=True) for seed in range(n))


def read_toml(path: str | Path) -> Experiment:
    """An experiment from a TOML file; `psconrl init` writes one to start from."""
    path = Path(path)
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SpecError(f"{path}: there is no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: not a TOML file: {error}") from error
    known = {"name", "envs", "agents", "horizon", "seeds", "costs", "env_options", "settings"}
    unknown = sorted(document.keys() - known)
    if unknown:
        raise SpecError(f"{path}: unknown field {unknown[0]!r} (known: {', '.join(sorted(known))})")
    missing = [key for key in ("envs", "agents", "horizon", "seeds") if key not in document]
    if missing:
        raise SpecError(f"{path}: the field {missing[0]!r} is missing")
    return Experiment.grid(
        document.get("name", path.stem),
        document["envs"],
        document["agents"],
        horizon=int(document["horizon"]),
        seeds=int(document["seeds"]),
        costs=document.get("costs", "estimated"),
        settings=document.get("settings"),
        env_options=document.get("env_options"),
    )


@cache
def code_identity() -> str:
    """A hash of the source of all numerical parts and of the versions of the libraries they use."""
    root = Path(__file__).resolve().parent.parent
    files = [root / name for name in _NUMERICAL]
    for package in _PACKAGES:
        files += sorted((root / package).rglob("*.py")) + sorted((root / package).rglob("*.txt"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(str(file.relative_to(root)).encode() + b"\0" + file.read_bytes() + b"\0")
    for library in _LIBRARIES:
        digest.update(f"{library} {version(library)}\n".encode())
    return digest.hexdigest()[:16]


def _plain(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """The same values after a trip through JSON, so that equal settings have equal identities."""
    try:
        return dict(json.loads(json.dumps(values, sort_keys=True)))
    except TypeError as error:
        raise SpecError(f"settings must be numbers, strings, lists or tables: {error}") from error
