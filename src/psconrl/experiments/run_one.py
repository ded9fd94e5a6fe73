"""One run of a cell, as a process of any kind executes it."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from psconrl import agents, environments, learning, planning
from psconrl._core import compiling
from psconrl.cmdp import CMDP
from psconrl.errors import CodeMismatchError, PsconrlError, SpecError
from psconrl.experiments import identity, plugins, record, world
from psconrl.experiments.spec import Cell, file_checksum
from psconrl.learning.simulation import one_thread

if TYPE_CHECKING:
    import pyarrow as pa

    from psconrl.agents import Agent
    from psconrl.planning import Solution

SOURCE = identity.source_checksum()
"""The code that this process runs: taken when it starts, as the source may change afterwards."""

EVALUATED_STATES = 512
"""In models with at most this many states, the exact averages of all plans are kept: they cost little there."""


class Task(NamedTuple):
    """A run that a process is to execute.

    Attributes:
        cell, seed: the run.
        source: what the process must run, too.
        outside: the agent and the environment, if they are not psconrl's own.
    """

    cell: Cell
    seed: int
    source: str
    outside: tuple[plugins.Definition, ...]

    @staticmethod
    def of(cell: Cell, seed: int) -> Task:
        """The task of a run, in the code of this process."""
        return Task(cell, seed, SOURCE, plugins.definitions(cell))


class Done(NamedTuple):
    """A finished run: its Parquet file, and how long it took."""

    content: bytes
    seconds: float


def execute(task: Task) -> Done:
    """Do a run.

    Args:
        task: from any process.

    Raises:
        CodeMismatchError: this process runs other code than that one.
    """
    if task.source != SOURCE:
        raise CodeMismatchError(
            f"a worker runs other code ({SOURCE[:16]}) than this process ({task.source[:16]}); install the same "
            "version on all machines and restart the workers"
        )
    plugins.ensure(task.outside)
    start = time.perf_counter()
    content = record.to_bytes(run_cell(task.cell, task.seed))
    return Done(content, time.perf_counter() - start)


def run_cell(cell: Cell, seed: int) -> pa.Table:
    """Execute a run.

    Args:
        cell: what to run.
        seed: chooses all random numbers.

    Returns:
        The run as a table of one row.
    """
    with one_thread():  # two change bits, and steal each other's core
        return _run_cell(cell, seed)


def _run_cell(cell: Cell, seed: int) -> pa.Table:
    cmdp, solution, agent = _prepared(cell, seed if cell.seed_option else None)
    ranges = agent.problem.cost_ranges
    run = learning.simulate(
        agent,
        cmdp,
        cell.horizon,
        seed,
        checkpoints=cell.checkpoints,
        optimum=solution,
        evaluate_policies=cell.evaluate_policies or cmdp.S <= EVALUATED_STATES,
    )
    return record.to_table(
        record.RunRecord(
            env=cell.env_name,
            env_options=cell.options_of(seed),
            agent=cell.agent,
            settings=dict(cell.settings),
            costs=cell.costs,
            cell=cell.id,
            identity=cell.identity(seed),
            code=cell.code,
            states=cmdp.S,
            actions=cmdp.A,
            cost_names=tuple(cmdp.cost_names),
            cost_ranges=np.tile([0.0, 1.0], (cmdp.m + 1, 1)) if ranges is None else ranges,
            margin=solution.margin,
            multipliers=solution.multipliers,
            world=world.describe(cmdp, solution, run.snapshots) if seed == 0 else None,
            **run.data(),
        )
    )


def check_cells(cells: Iterable[Cell]) -> None:
    """Build every model and every agent once.

    Raises:
        SpecError: names the first cell that cannot be built.
    """
    for cell in cells:
        try:
            _agent(cell, _model(cell.env, cell.options_of(0), cell.model))
        except PsconrlError as error:
            raise SpecError(f"{cell.label}: {error}") from error


def _model(env: str, options: Mapping[str, Any], checksum: str | None) -> CMDP:
    """The model of an environment with options, or of a file that still has its checksum."""
    if checksum is None:
        return environments.make(env, **options)
    if file_checksum(env) != checksum:
        raise SpecError(f"{env}: the model file has changed since the experiment was specified")
    return CMDP.load(env)


def _agent(cell: Cell, cmdp: CMDP) -> Agent:
    """The agent of a cell. It is told the ranges of costs in units of the user's own, which may leave [0, 1]."""
    agent = agents.find(cell.agent)
    costs = cmdp.costs if cmdp.move_costs is None else cmdp.move_costs
    normalized = costs.min() >= 0 and costs.max() <= 1
    problem = cmdp.problem(cell.costs, cost_ranges=None if normalized else cmdp.cost_ranges)
    model = {"model": cmdp} if agent.sees_model else {}
    return agent(problem, **cell.settings, **model)


@lru_cache(maxsize=16)
def _prepared(cell: Cell, seed: int | None) -> tuple[CMDP, Solution, Agent]:
    """Model, its solution and the agent: values, the same for all runs of a cell."""
    cmdp, solution = _solved(cell.env, json.dumps(cell.options_of(seed), sort_keys=True), cell.model)
    return cmdp, solution, _agent(cell, cmdp)


@lru_cache(maxsize=16)
def _solved(env: str, options: str, checksum: str | None) -> tuple[CMDP, Solution]:
    cmdp = _model(env, json.loads(options), checksum)
    return cmdp, planning.solve(cmdp)


def warm_up(names: Iterable[str], outside: tuple[plugins.Definition, ...]) -> None:
    """Compile the kernels that agents need, so that the processes of all others find them on disk.

    Args:
        names: of the agents.
        outside: those of them that are not psconrl's own.
    """
    plugins.ensure(outside)
    with compiling.on_compile(gc.disable):  # collecting takes a tenth of the time of compiling
        for name in names:
            with suppress(Exception):  # what fails here fails in runs again, and is noted there
                run_cell(Cell("toy", name, 30), 0)
    gc.enable()
    gc.collect()  # what compiling leaves behind is hundreds of MiB
