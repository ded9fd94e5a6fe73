"""Run what is missing of an experiment and store each run when it is done.

Results depend neither on the pool nor on how often the work was broken off: a run is a pure function of its cell and
seed, and only this process writes.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter, deque
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psconrl.experiments.build import check_cells
from psconrl.experiments.machine import cores
from psconrl.experiments.pools import DaskPool, Pool, PoolError, ProcessPool, SerialPool
from psconrl.experiments.progress import Progress, Silent
from psconrl.experiments.run_one import CODE, CodeMismatchError, Done, execute, warm_up
from psconrl.experiments.spec import Cell, Experiment, SpecError
from psconrl.experiments.store import Store, StoreError

Run = tuple[Cell, int]

_DEATHS = 3
"""How often a process may die during a run before the run is given up."""
_REFRESH = 5.0
"""Seconds after which to look what other processes have done in the same folder."""
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
    progress: Progress | None = None,
) -> Outcome:
    """Do the runs that the folder `out` does not hold yet.

    Args:
        experiment: what to run. out: the folder of results; it may hold other experiments.
        workers: processes; all cores by default, 1 stays in this process. dask: address of a scheduler, instead.
        progress: where to show it.
    """
    if workers is not None and workers < 1:
        raise SpecError(f"workers is {workers}; it must be at least 1")
    check_cells(experiment.cells)
    store = Store(out, create=True)
    store.register(experiment)
    present, progress = store.verified(), progress or Silent()
    runs = list(experiment.runs)
    missing = [(cell, seed) for cell, seed in runs if cell.identity(seed) not in present]
    before = len(runs) - len(missing)
    if not missing:
        return Outcome(len(runs), before, 0, ())
    pool = _pool(missing, workers, dask)
    left = Counter(cell for cell, _ in missing)
    sweep = _Sweep(store, pool, missing, progress)
    start = [(cell, n, n - left[cell]) for cell, n in zip(experiment.cells, experiment.seeds, strict=True)]
    with progress.showing(start):
        sweep.run()
    return Outcome(len(runs), before + sweep.found, sweep.executed, tuple(sweep.failures))


def _pool(missing: list[Run], workers: int | None, dask: str | None) -> Pool:
    if dask is not None:
        return DaskPool(dask)
    count = min(workers or cores(), len(missing))
    if count == 1:
        return SerialPool()
    pool = ProcessPool(count)
    warm_up({cell.agent for cell, _ in missing})
    return pool


class _Sweep:
    """The loop: submit, collect, write."""

    def __init__(self, store: Store, pool: Pool, runs: list[Run], progress: Progress) -> None:
        self.store, self.pool, self.progress = store, pool, progress
        self.waiting = deque(runs)
        self.suspects: deque[Run] = deque()  # were under way when a process died
        self.deaths: Counter[Run] = Counter()
        self.flying: dict[Future[Done], Run] = {}
        self.executed = self.found = 0
        self.failures: list[Failure] = []
        self.refreshed, self.pause = time.monotonic(), _REFRESH

    def run(self) -> None:
        try:
            while self.waiting or self.suspects or self.flying:
                self._skip_done_elsewhere()
                self._submit()
                self._collect()
        finally:
            self.pool.close()

    def _submit(self) -> None:
        # Suspects go one at a time, so that the one that kills its process is known by it.
        queue, window = (self.suspects, 1) if self.suspects else (self.waiting, self.pool.window())
        while queue and len(self.flying) < window:
            run = queue.popleft()
            try:
                future = self.pool.executor.submit(execute, *run, CODE)
            except BrokenExecutor:
                queue.appendleft(run)
                self._recover()
                return
            self.flying[future] = run

    def _collect(self) -> None:
        done, _ = wait(self.flying, timeout=_REFRESH, return_when=FIRST_COMPLETED)
        broken = False
        for future in done:
            if not isinstance(_error(future), BrokenExecutor):
                self._finished(future, self.flying.pop(future))
            else:
                broken = True
        if broken:
            self._recover()

    def _finished(self, future: Future[Done], run: Run) -> None:
        error = _error(future)
        if error is None:
            self._write(run, future.result())
        elif isinstance(error, CodeMismatchError):
            raise PoolError(str(error))
        elif isinstance(error, CancelledError):
            self.pool.rebuild()
            self.waiting.appendleft(run)
        else:
            self._failed(run, error)

    def _write(self, run: Run, done: Done) -> None:
        try:
            # A shorter run is sooner done again than the disk confirms that it holds it.
            self.store.write(*run, done.content, confirmed=done.seconds > _WORTH_CONFIRMING)
            self.store.note_time(*run, done.seconds)
        except OSError as error:
            raise StoreError(f"{self.store.path}: cannot write: {error.strerror}") from error
        self.executed += 1
        self.progress.advance(run[0])

    def _failed(self, run: Run, error: BaseException) -> None:
        path = self.store.note_failure(*run, "".join(traceback.format_exception(error)))
        last = traceback.format_exception_only(error)[-1].strip()
        self.failures.append(Failure(*run, last, path))
        self.progress.advance(run[0], failed=True)

    def _recover(self) -> None:
        """Start new processes and take up again what was under way when one died."""
        flying, self.flying = self.flying, {}
        alone = len(flying) == 1
        for future, run in flying.items():
            if future.done() and _error(future) is None:
                self._finished(future, run)
                continue
            self.deaths[run] += alone
            if self.deaths[run] < _DEATHS:
                self.suspects.append(run)
            else:
                why = f"the process died {_DEATHS} times during this run; perhaps the memory was not enough"
                self._failed(run, PoolError(why))
        self.pool.rebuild()

    def _skip_done_elsewhere(self) -> None:
        """Leave out what another process in the same folder has done meanwhile."""
        begin = time.monotonic()
        if begin - self.refreshed < self.pause or not self.waiting:
            return
        present = self.store.identities()
        waiting: deque[Run] = deque()
        for cell, seed in self.waiting:
            if cell.identity(seed) in present:
                self.found += 1
                self.progress.advance(cell)
            else:
                waiting.append((cell, seed))
        self.waiting, self.refreshed = waiting, time.monotonic()
        # In a folder of many thousand runs a look takes long; it may take a hundredth of the time.
        self.pause = max(_REFRESH, 100 * (self.refreshed - begin))


def _error(future: Future[Any]) -> BaseException | None:
    return CancelledError() if future.cancelled() else future.exception()
