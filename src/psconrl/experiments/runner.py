"""Run what is missing of an experiment and store each run when it is done.

Results depend neither on the pool nor on how often the work was broken off: a run is a pure function of its cell and
seed, and only this process writes. Several of these processes may share a folder: a run is claimed before it is begun.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from psconrl._core.lazy import lazy_import
from psconrl.errors import CodeMismatchError, SpecError, WorkerCrashedError, WorkerError
from psconrl.experiments.build import check_cells
from psconrl.experiments.claims import Claims
from psconrl.experiments.machine import cores
from psconrl.experiments.pools import (
    DaskPool,
    Pool,
    ProcessPool,
    Result,
    Run,
    SerialPool,
)
from psconrl.experiments.progress import Progress, Silent
from psconrl.experiments.run_one import Done
from psconrl.experiments.spec import Cell, Experiment
from psconrl.experiments.store import Store

if TYPE_CHECKING:
    from psconrl._core import compiling
else:
    compiling = lazy_import("psconrl._core.compiling")  # which imports the compiler

_DEATHS = 3
"""How often a process may die during a run before the run is given up."""
_PATIENCE = 5.0
"""Seconds after which a wait for results is broken off to look around."""
_LOOK = 0.3
"""Seconds between looks at what other processes have claimed, when nothing else is left to do."""
_WORTH_CONFIRMING = 0.05
"""Seconds that a run must have taken for its file to be forced to the disk."""


@dataclass(frozen=True)
class Failure:
    """A run that failed: the last line of its error, and the file with the whole of it."""

    cell: Cell
    seed: int
    error: str
    path: Path


@dataclass(frozen=True)
class Outcome:
    """What became of an experiment: runs in it, runs that were there before, runs done now, and those that failed."""

    total: int
    before: int
    executed: int
    failures: tuple[Failure, ...]

    @property
    def ok(self) -> bool:
        """Whether every run is there."""
        return not self.failures


def run_experiment(
    experiment: Experiment,
    out: str | Path,
    *,
    workers: int | None = None,
    dask: str | None = None,
    limit_seconds: float | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Do the runs that the folder `out` does not hold yet.

    Args:
        experiment: what to run. out: the folder of results; it may hold other experiments.
        workers: processes; all cores by default, 1 stays in this process unless there is a limit.
        dask: address of a scheduler, instead. limit_seconds: how long one run may take; one that takes longer is ended
        and counts as failed.
        progress: where to show it.
    """
    _check_limits(workers, limit_seconds)
    check_cells(experiment.cells)
    return _run([experiment], out, workers, dask, limit_seconds, progress)


def run_together(
    experiments: Sequence[Experiment],
    out: str | Path,
    *,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """The same for several experiments, one after the other: what they share is run, and compiled, once.

    Cells that draw a model for each run are not built before: that needs the solver, which is compiled in workers.
    """
    _check_limits(workers, None)
    cells = dict.fromkeys(cell for experiment in experiments for cell in experiment.cells)
    check_cells(cell for cell in cells if cell.seed_option is None)
    return _run(experiments, out, workers, None, None, progress)


def _check_limits(workers: int | None, limit_seconds: float | None) -> None:
    if limit_seconds is not None and not (isinstance(limit_seconds, (int, float)) and 0 < limit_seconds < 1e9):
        raise SpecError(f"limit_seconds is {limit_seconds!r}; it must be a number of seconds above 0")
    if workers is not None and workers < 1:
        raise SpecError(f"workers is {workers}; it must be at least 1")


def _run(
    experiments: Sequence[Experiment],
    out: str | Path,
    workers: int | None,
    dask: str | None,
    limit_seconds: float | None,
    progress: Progress | None,
) -> Outcome:
    store = Store(out, create=True)
    for experiment in experiments:
        store.register(experiment)
    names = {run: run[0].identity(run[1]) for experiment in experiments for run in experiment.runs}
    # Opened before anything is looked at: what others have done since then is not done again.
    with closing(Claims(store.path)) as claims:
        present, progress = store.verified(set(names.values())), progress or Silent()
        missing = [run for run, name in names.items() if name not in present]
        if not missing:
            return Outcome(len(names), len(names), 0, ())
        pool = _pool(missing, workers, dask, limit_seconds, progress)
        sweep = _Sweep(store, claims, pool, missing, progress)
        _show(sweep, list(names), missing)
    return Outcome(len(names), len(names) - len(missing) + sweep.found, sweep.executed, tuple(sweep.failures))


def _show(sweep: _Sweep, runs: list[Run], missing: list[Run]) -> None:
    """Run the sweep, and show how it gets on."""
    left = Counter(cell for cell, _ in missing)
    start = [(cell, n, n - left[cell]) for cell, n in Counter(cell for cell, _ in runs).items()]
    # Other processes tell of what they compile themselves.
    here = compiling.on_compile(sweep.progress.compiling) if isinstance(sweep.pool, SerialPool) else nullcontext()
    with sweep.progress.showing(start), here:
        sweep.run()


def _pool(missing: list[Run], workers: int | None, dask: str | None, limit: float | None, progress: Progress) -> Pool:
    if dask is not None:
        return DaskPool(dask, limit)
    count = min(workers or cores(), len(missing))
    if count == 1 and limit is None:
        return SerialPool()
    return ProcessPool(count, limit, frozenset(cell.agent for cell, _ in missing), progress.compiling)


class _Sweep:
    """The loop: claim, submit, collect, write."""

    def __init__(self, store: Store, claims: Claims, pool: Pool, runs: list[Run], progress: Progress) -> None:
        self.store, self.claims, self.pool, self.progress = store, claims, pool, progress
        self.waiting = deque(runs)
        self.elsewhere: deque[Run] = deque()  # claimed by other processes when last asked for
        self.looked = time.monotonic()
        self.deaths: Counter[Run] = Counter()
        self.flying = self.executed = self.found = 0
        self.failures: list[Failure] = []
        self.begun = time.time_ns()
        self.shared = False  # whether somebody else has noted a run as done since this sweep began

    def run(self) -> None:
        try:
            while self.waiting or self.elsewhere or self.flying:
                self._submit()
                if self.flying:
                    for run, result in self.pool.collect(_LOOK if self.elsewhere and not self.waiting else _PATIENCE):
                        self.flying -= 1
                        self._finished(run, result)
                elif self.elsewhere:
                    time.sleep(_LOOK)
        finally:
            self.pool.close()

    def _submit(self) -> None:
        if self.elsewhere and not self.waiting and time.monotonic() - self.looked >= _LOOK:
            # All that is left is claimed by others; what they have not done when they end is free again.
            self.waiting, self.elsewhere, self.looked = self.elsewhere, self.waiting, time.monotonic()
        while self.waiting and self.flying < self.pool.window():
            run = self.waiting.popleft()
            if not self.claims.take(run[0].identity(run[1])):
                self.elsewhere.append(run)
            elif not self._done_elsewhere(run):
                self.pool.submit(run)
                self.flying += 1

    def _done_elsewhere(self, run: Run) -> bool:
        """Whether another process in the same folder has done a run, or failed at it, since this one began."""
        self.shared = self.claims.news() or self.shared
        if self.shared and self.store.has(*run):
            self.found += 1
            self.progress.advance(run[0])
        elif (noted := self.store.failure(*run)) is not None and noted[0] > self.begun:
            self._give_up(run, noted[1])
        else:
            return False
        self.claims.release(run[0].identity(run[1]))
        return True

    def _finished(self, run: Run, result: Result) -> None:
        if isinstance(result, Done):
            self._write(run, result)
        elif isinstance(result, CodeMismatchError):
            raise WorkerError(str(result))
        elif isinstance(result, WorkerCrashedError) and self.deaths[run] < _DEATHS - 1:
            self.deaths[run] += 1
            self.waiting.appendleft(run)
            return  # and keep the claim
        else:
            self._failed(run, result)
        self.claims.release(run[0].identity(run[1]))

    def _write(self, run: Run, done: Done) -> None:
        # A shorter run is sooner done again than the disk confirms that it holds it.
        self.store.write(*run, done.content, confirmed=done.seconds > _WORTH_CONFIRMING)
        self.claims.noted(self.store.note_time(*run, done.seconds, done.memory, self.claims.file))
        self.executed += 1
        self.progress.advance(run[0])

    def _failed(self, run: Run, error: BaseException) -> None:
        if isinstance(error, WorkerCrashedError):
            error = WorkerCrashedError(f"{error}, {_DEATHS} times; perhaps the memory was not enough")
        self.store.note_failure(*run, "".join(traceback.format_exception(error)))
        self._give_up(run, traceback.format_exception_only(error)[0].strip())

    def _give_up(self, run: Run, why: str) -> None:
        self.failures.append(Failure(*run, why, self.store.failure_path(*run)))
        self.progress.advance(run[0], failed=True)
