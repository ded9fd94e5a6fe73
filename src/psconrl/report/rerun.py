"""Commands that run a stored experiment again: checked, in that they ask for exactly its cells."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from psconrl.errors import PsconrlError
from psconrl.experiments.spec import Cell, Experiment
from psconrl.io.files import is_model_file

_USUAL = {field.name: field.default for field in fields(Cell)}
_FILE_ONLY = ("checkpoints", "evaluate_policies", "seed_option")
"""What can be set in a file alone."""
_PYTHON = """\
import json

from psconrl.experiments import Experiment, run_experiment

if __name__ == "__main__":
    with open({source!r}, encoding="utf-8") as file:
        run_experiment(Experiment.from_json(json.load(file)), "results")
"""


MAX_COMMANDS = 12
"""Experiments that need more commands than this are run again by a script."""


@dataclass(frozen=True)
class Recipe:
    """What to type, and the name and the text of the file that it needs, if any."""

    command: str
    name: str = ""
    file: str = ""


def recipes(document: Mapping[str, Any], source: str = "experiment.json") -> list[Recipe]:
    """The way to run an experiment again, given as the store holds it in the file `source`."""
    commands: list[Recipe | None] = []
    for shared, cells in _alike(document["cells"]):
        together = _grid(shared, cells)
        commands += [together] if together else [_grid(shared, [cell]) for cell in cells]
    if None in commands or len(commands) > MAX_COMMANDS:
        return [Recipe("python again.py", "again.py", _PYTHON.format(source=source))]
    return [recipe for recipe in commands if recipe]


_SHARED = ("horizon", "seeds", "costs", "checkpoints", "evaluate_policies", "seed_option")


def _alike(cells: Iterable[Mapping[str, Any]]) -> list[tuple[dict[str, Any], list[Mapping[str, Any]]]]:
    """Cells together with what one command sets for all of them."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for cell in cells:
        groups.setdefault(json.dumps({key: cell[key] for key in _SHARED}), []).append(cell)
    return [(json.loads(shared), found) for shared, found in groups.items()]


def _grid(shared: dict[str, Any], cells: Sequence[Mapping[str, Any]]) -> Recipe | None:
    """One command for all of these cells; None if no grid of environments and agents has exactly them."""
    envs, agents = (list(dict.fromkeys(cell[key] for cell in cells)) for key in ("env", "agent"))
    options = {cell["env"]: cell["env_options"] for cell in cells if cell["env_options"]}
    asked = {"settings": _given(cells), "env_options": options, **shared}
    try:
        cells_asked = {cell.id for cell in Experiment.grid("", envs, agents, **asked).cells}
    except (PsconrlError, OSError):  # a model file that is no longer there: then nothing can be checked
        cells_asked = {cell["id"] for cell in cells} if any(map(is_model_file, envs)) else set()
    if cells_asked != {cell["id"] for cell in cells}:
        return None
    if any(shared[key] != _USUAL[key] for key in _FILE_ONLY):
        return Recipe("psconrl run experiment.toml", "experiment.toml", _toml(envs, agents, asked))
    return Recipe(_command(envs, agents, asked))


def _given(cells: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The settings by agent."""
    return {cell["agent"]: cell["settings"] for cell in cells if cell["settings"]}


def _command(envs: Sequence[str], agents: Sequence[str], asked: Mapping[str, Any]) -> str:
    words = ["psconrl", "run"]
    for option, values in (("--env", envs), ("--agent", agents)):
        for value in values:
            words += [option, value]
    words += ["--horizon", str(asked["horizon"]), "--seeds", str(asked["seeds"])]
    if asked["costs"] != "estimated":
        words += ["--costs", asked["costs"]]
    for kind in ("settings", "env_options"):
        for name, values in asked[kind].items():
            for key, value in values.items():
                text = value if isinstance(value, str) else json.dumps(value)
                words += ["--set", f"{name.lower()}.{key}={text}"]
    return shlex.join(words)


def _toml(envs: Sequence[str], agents: Sequence[str], asked: Mapping[str, Any]) -> str:
    lines = [f"envs = {json.dumps(envs)}", f"agents = {json.dumps(agents)}"]
    lines += [f"{key} = {json.dumps(asked[key])}" for key in _SHARED if asked[key] != _USUAL.get(key)]
    for kind in ("settings", "env_options"):
        for name, values in asked[kind].items():
            lines += ["", f"[{kind}.{_key(name)}]"]
            lines += [f"{_key(key)} = {json.dumps(value)}" for key, value in values.items() if value is not None]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    """A key of TOML, quoted where it must be."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else json.dumps(name)
