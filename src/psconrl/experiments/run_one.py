"""One run of a cell, as a process of any kind executes it."""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from psconrl._core.lazy import lazy_import
from psconrl.errors import CodeMismatchError, RunTimeoutError, WorkerCrashedError
from psconrl.experiments.machine import peak_memory
from psconrl.experiments.spec import Cell, code_identity

if TYPE_CHECKING:
    import pyarrow as pa

    from psconrl import environments, learning, planning
    from psconrl._core import compiling
    from psconrl.agents import catalogue
    from psconrl.agents.contract import Agent
    from psconrl.cmdp import CMDP
    from psconrl.experiments import build, record, world
    from psconrl.learning import simulation
    from psconrl.planning import averages
    from psconrl.planning.compiled import warm_up as planner_kernels
    from psconrl.planning.solution import Solution
else:
    compiling, environments, planning = (
        lazy_import("psconrl._core.compiling"),
        lazy_import("psconrl.environments"),
        lazy_import("psconrl.planning"),
    )
    learning, catalogue = lazy_import("psconrl.learning"), lazy_import("psconrl.agents.catalogue")
    build, record, world = (lazy_import(f"psconrl.experiments.{name}") for name in ("build", "record", "world"))
    averages, planner_kernels = (
        lazy_import("psconrl.planning.averages"),
        lazy_import("psconrl.planning.compiled.warm_up"),
    )
    simulation = lazy_import("psconrl.learning.simulation")

CODE = code_identity()
"""The code that this process runs: taken when it starts, as the source may change afterwards."""


def too_long(limit: float | None) -> str:
    """What is said of a run that took too long."""
    return f"the run was ended after {limit:g} seconds, the limit for one run"


@dataclass(frozen=True)
class Done:
    """A finished run: its Parquet file, how long it took, and the most memory, in MiB, that its process has held."""

    content: bytes
    seconds: float
    memory: int | None = None


def run_cell(cell: Cell, seed: int) -> pa.Table:
    """Seed `seed` of a cell, as a table of one row."""
    with simulation.one_thread():  # two change bits, and steal each other's core
        return _run_cell(cell, seed)


def _run_cell(cell: Cell, seed: int) -> pa.Table:
    cmdp, solution, agent = _prepared(cell, seed if cell.seed_option else None)
    run = learning.simulate(
        agent,
        cmdp,
        cell.horizon,
        seed,
        checkpoints=cell.checkpoints,
        optimum=solution,
        evaluate_policies=cell.evaluate_policies or cmdp.S <= averages.LARGEST,
    )
    return record.to_table(
        record.RunRecord(
            env=cell.env_name,
            env_options=_options(cell, seed if cell.seed_option else None),
            agent=cell.agent,
            settings=dict(cell.settings),
            costs=cell.costs,
            cell=cell.id,
            identity=cell.identity(seed),
            code=CODE,
            states=cmdp.S,
            actions=cmdp.A,
            cost_names=tuple(cmdp.cost_names),
            margin=solution.margin,
            multipliers=solution.multipliers,
            world=world.describe(cmdp, solution, run.snapshots) if seed == 0 else None,
            **run.data(),
        )
    )


def execute(cell: Cell, seed: int, code: str) -> Done:
    """Do a run for a process with the given code."""
    if code != CODE:
        raise CodeMismatchError(
            f"a worker runs other code ({CODE}) than this process ({code}); install the same version on all machines "
            "and restart the workers"
        )
    start = time.perf_counter()
    content = record.to_bytes(run_cell(cell, seed))
    return Done(content, time.perf_counter() - start, peak_memory())


def execute_apart(cell: Cell, seed: int, code: str, limit: float) -> Done:
    """The same in a process of its own, which is ended when it has run for `limit` seconds."""
    command = [sys.executable, "-c", "from psconrl.experiments.run_one import answer; answer()"]
    start = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            task = pickle.dumps((os.getpid(), limit + _STARTING, (cell, seed, code)))
            content, _ = process.communicate(task, timeout=limit + _STARTING)
        except subprocess.TimeoutExpired:
            process.kill()
            content = b""
    if process.returncode == 0:
        result = pickle.loads(content)
        if isinstance(result, Done):
            return result
        raise result
    if time.monotonic() - start >= limit:
        raise RunTimeoutError(too_long(limit))
    raise WorkerCrashedError(f"the process of this run died with code {process.returncode}")


_STARTING = 20.0
"""Seconds that a process may take to start and to import what it needs."""


def answer() -> None:
    """What the process of `execute_apart` does: read a run, execute it, write what came out."""
    result: Done | Exception
    try:
        parent, seconds, run = pickle.loads(sys.stdin.buffer.read())
        threading.Thread(target=_end_with_parent, args=(parent, seconds), daemon=True).start()
        result = execute(*run)
    except Exception as error:
        result = RuntimeError(f"{type(error).__name__}: {error}")
    sys.stdout.buffer.write(pickle.dumps(result))
    sys.stdout.flush()


def _end_with_parent(parent: int, seconds: float) -> None:
    """End this process when its parent has died, or, where that cannot be seen, when nobody waits for it any longer."""
    end = time.monotonic() + seconds
    while os.getppid() == parent and time.monotonic() < end:
        time.sleep(0.5)
    os._exit(1)


def warm_up(agents: set[str], told: Callable[[], None]) -> None:
    """Compile the kernels that these agents need, so that worker processes find them on disk.

    As soon as something has to be compiled, this is told, and a second process begins with other kernels.
    """
    apart = sorted(agent for agent in agents if catalogue.find(agent).own_kernels)
    planner = any(catalogue.find(agent).uses_planner for agent in agents)
    here, there = apart[::2], apart[1::2]
    second: list[subprocess.Popen[bytes]] = []
    command = [
        sys.executable,
        "-c",
        f"from psconrl.experiments.run_one import compile_others as go; go({planner}, {there})",
    ]
    # The second process ends when our end of its input is closed: when we are done, or dead.
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}

    def begin() -> None:
        second.append(subprocess.Popen(command, **pipes))
        told()

    with compiling.on_compile_without_gc(begin):
        for agent in sorted(agents.difference(apart)):
            _tried(agent)
        if planner:
            _join_classes()
        for agent in here:
            _tried(agent)
        for process in second:
            process.wait()
            if process.stdin is not None:
                process.stdin.close()
        for agent in there:  # on disk by now, unless the second process was not needed, or has died
            _tried(agent)


def _tried(agent: str) -> None:
    with suppress(Exception):  # what fails here fails in runs again, and is noted there
        run_cell(Cell("toy", agent, 30), 0)
    if not gc.isenabled():
        gc.collect()  # what compiling leaves behind is hundreds of MiB


def compile_others(planner: bool, agents: Sequence[str]) -> None:
    """What the second process of `warm_up` compiles: what follows a plan, second opinions, some agents' own kernels."""
    import numpy as np

    threading.Thread(target=_end_with_input, daemon=True).start()
    if planner:
        planner_kernels.compile_execution()
    toy = environments.make("toy")
    planning.best_policy(toy.to_dense().transitions, toy.costs, toy.thresholds, join=0.1, method="highs")
    # States that are hardly ever left: laws are made anew.
    leave = np.array([1e-12, 1e-13])
    p = np.stack([1.0 - leave, leave], axis=1)
    planning.best_policy(np.stack([p, p[:, ::-1]]), [[[0.0, 0.5], [1.0, 0.5]]], (), join=0.1)
    # States that cannot be left, and a limit that only both can keep.
    stay, costs = np.eye(2)[:, np.newaxis], np.eye(2)[:, :, np.newaxis]
    planning.best_policy(stay, costs, [0.5], join=0.1)
    for agent in agents:
        _tried(agent)


def _end_with_input() -> None:
    os.read(0, 1)  # not through sys.stdin, whose lock would be held when this process ends by itself
    os._exit(1)


def _join_classes() -> None:
    """Plan where two states may be left or not, and the optimum stays in both: no run in `toy` needs that."""
    import numpy as np

    p, costs = np.zeros((2, 2, 2)), np.ones((2, 2, 2))
    for s in range(2):
        p[s, 0, s] = p[s, 1, 1 - s] = 1.0
        costs[s, s, 0] = 0.0
    planning.best_policy(p, costs, np.array([0.5]), join=0.1)


@lru_cache(maxsize=16)
def _prepared(cell: Cell, seed: int | None) -> tuple[CMDP, Solution, Agent]:
    """Model, its solution and the agent: values, the same for all runs of a cell."""
    cmdp, solution = _solved(cell.env, _frozen(_options(cell, seed)), cell.model)
    return cmdp, solution, build.build_agent(cell, cmdp)


@lru_cache(maxsize=16)
def _solved(env: str, options: str, checksum: str | None) -> tuple[CMDP, Solution]:
    import json

    cmdp = build.build_model(env, json.loads(options), checksum)
    return cmdp, planning.solve(cmdp)


def _options(cell: Cell, seed: int | None) -> dict[str, Any]:
    return dict(cell.env_options) | ({} if cell.seed_option is None else {cell.seed_option: seed})


def _frozen(options: dict[str, Any]) -> str:
    import json

    return json.dumps(options, sort_keys=True)
