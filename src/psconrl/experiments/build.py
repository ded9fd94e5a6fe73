"""The model and the agent of a cell, built; and all of an experiment's, before any work starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from psconrl.agents.catalogue import find
from psconrl.agents.contract import Agent
from psconrl.cmdp import CMDP
from psconrl.environments import make
from psconrl.errors import PsconrlError, SpecError
from psconrl.experiments.spec import Cell, file_checksum


def build_model(env: str, options: Mapping[str, Any], checksum: str | None) -> CMDP:
    """The model of an environment with options, or of a file that still has its checksum."""
    if checksum is None:
        return make(env, **options)
    if file_checksum(env) != checksum:
        raise SpecError(f"{env}: the model file has changed since the experiment was specified")
    return CMDP.load(env)


def build_agent(cell: Cell, cmdp: CMDP) -> Agent:
    """The agent of a cell for its model."""
    agent = find(cell.agent)
    given = {"model": cmdp} if agent.sees_model else {}
    return agent(cmdp.problem(cell.costs), **cell.settings, **given)


def check_cells(cells: Iterable[Cell]) -> None:
    """Build every model and every agent once; SpecError names the first that cannot be built."""
    for cell in cells:
        options = dict(cell.env_options) | ({} if cell.seed_option is None else {cell.seed_option: 0})
        try:
            build_agent(cell, build_model(cell.env, options, cell.model))
        except PsconrlError as error:
            raise SpecError(f"{cell.label}: {error}") from error
