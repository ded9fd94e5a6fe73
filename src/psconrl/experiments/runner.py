"""Run what is missing of an experiment and store each run when it is done.

Results depend neither on where runs are executed nor on how often the work was broken off: a run is a pure function of
its cell and seed, and only this process writes. Several of these processes may share a folder: a run is locked before
it is begun.
"""

from __future__ import annotations

import time
import traceback
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Executor, Future, wait
from contextlib import closing, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from psconrl._core import compiling
from psconrl.errors import RunTimeoutError, SpecError, WorkerCrashedError, WorkerError
from psconrl.experiments import plugins, run_one
from psconrl.experiments.executors import CONNECTION_LOST, DaskExecutor, ProcessExecutor, SerialExecutor
from psconrl.experiments.locks import RunLocks
from psconrl.experiments.machine import cores
from psconrl.experiments.progress import Progress
from psconrl.experiments.spec import Cell, Experiment
from psconrl.experiments.store import Store

MAX_CRASHES = 3
"""Crashes of its process after which a run is given up."""
WAIT_SECONDS = 5.0
"""Longest wait for results before new runs are submitted."""
LOCKED_SECONDS = 0.3
"""Between retries of runs that other commands have locked, when no others are left."""
CONFIRMED_SECONDS = 0.05
"""Files of runs that took longer are forced to the disk."""
WARM_UP_SECONDS = 900.0
"""Timeout of compiling in advance; then runs begin, and compile what they need."""

Run = tuple[Cell, int]


@dataclass(frozen=True)
class Failure:
    """A run that failed: the last line of its error, and the file with the whole of it."""

    cell: Cell
    seed: int
    error: str
    path: Path


@dataclass(frozen=True)
class Outcome:
    """The outcome of an experiment.

    Attributes:
        total: runs in it.
        before: runs that were there already, or were done by other commands meanwhile.
        executed: runs done now.
        failures: runs that failed.
    """

    total: int
    before: int
    executed: int
    failures: tuple[Failure, ...]

    @property
    def ok(self) -> bool:
        """Whether every run is there."""
        return not self.failures


def run_experiment(
    experiment: Experiment | Sequence[Experiment],
    out: str | Path,
    *,
    workers: int | None = None,
    dask: str | None = None,
    executor: Executor | None = None,
    limit_seconds: float | None = None,
    progress: Progress | None = None,
) -> Outcome:
    """Execute the runs that a folder does not hold yet.

    Args:
        experiment: what to run. Several experiments are run one after the other; what they share is run once.
        out: the folder of results; it may hold other experiments.
        workers: processes; all cores by default. A single one is this process, unless there is a time limit.
        dask: address of a Dask scheduler, instead.
        executor: any executor as in `concurrent.futures`, instead; it is not shut down.
        limit_seconds: how long one run may take in the processes; one that takes longer is ended and counts as failed.
        progress: where to show it.

    Returns:
        How many runs were there, were done, and failed.

    Raises:
        SpecError: a model or an agent cannot be built, or an argument makes no sense.
        WorkerError: there is nothing to execute runs with.
        StoreError: the folder cannot be written to.
    """
    experiments = [experiment] if isinstance(experiment, Experiment) else list(experiment)
    if limit_seconds is not None and not (isinstance(limit_seconds, (int, float)) and 0 < limit_seconds < 1e9):
        raise SpecError(f"limit_seconds is {limit_seconds!r}; it must be a number of seconds above 0")
    if workers is not None and workers < 1:
        raise SpecError(f"workers is {workers}; it must be at least 1")
    if sum(given is not None for given in (executor, dask, limit_seconds)) > 1:
        raise SpecError(
            "only one of executor, dask and limit_seconds can be given: processes of this machine alone have a limit"
        )
    run_one.check_cells(dict.fromkeys(cell for each in experiments for cell in each.cells))
    store = Store(out, create=True)
    for each in experiments:
        store.register(each)
    identities = {run: run[0].identity(run[1]) for each in experiments for run in each.runs}
    # Opened before anything is looked at: what others have done since then is not done again.
    with closing(RunLocks(store.path)) as locks:
        present = store.verified(set(identities.values()))
        missing = [run for run, identity in identities.items() if identity not in present]
        if not missing:
            return Outcome(len(identities), len(identities), 0, ())
        sweep = _Sweep(store, locks, missing, progress or Progress())
        left, total = Counter(cell for cell, _ in missing), Counter(cell for cell, _ in identities)
        with sweep.progress.showing([(cell, n, n - left[cell]) for cell, n in total.items()]):
            if executor is not None:
                sweep.run(executor, workers or cores())
            else:
                with _executor(len(missing), workers, dask, limit_seconds, sweep.progress) as own:
                    sweep.run(own, None)
    before = len(identities) - len(missing) + sweep.done_by_others
    return Outcome(len(identities), before, sweep.executed, tuple(sweep.failures))


def _executor(runs: int, workers: int | None, dask: str | None, limit: float | None, progress: Progress) -> Executor:
    if dask is not None:
        return DaskExecutor(dask)
    count = min(workers or cores(), runs)
    if count == 1 and limit is None:
        return SerialExecutor()
    return ProcessExecutor(count, limit, progress.compiling)


class _Sweep:
    """The loop: lock, submit, collect, write."""

    def __init__(self, store: Store, locks: RunLocks, runs: list[Run], progress: Progress) -> None:
        self.store, self.locks, self.progress = store, locks, progress
        self.waiting = deque(runs)
        self.locked: deque[Run] = deque()  # by other commands, when last looked at
        self.submitted: dict[Future[run_one.Done], Run] = {}
        self.crashes: Counter[Run] = Counter()
        self.executed = self.done_by_others = 0
        self.failures: list[Failure] = []
        self.started = time.time_ns()
        self.shared = False  # whether others have noted a run as done since this sweep began

    def run(self, executor: Executor, workers: int | None) -> None:
        serial = isinstance(executor, SerialExecutor)
        # Other processes tell of what they compile themselves.
        with compiling.on_compile(self.progress.compiling) if serial else nullcontext():
            if isinstance(executor, ProcessExecutor):
                self._warm_up(executor)
            while self.waiting or self.locked or self.submitted:
                # Enough that no worker waits, and not more, as what is submitted is locked.
                size: int = getattr(executor, "workers", 1) if workers is None else workers
                self._submit(executor, 1 if serial else 2 * size + 1)
                if self.submitted:
                    seconds = LOCKED_SECONDS if self.locked and not self.waiting else WAIT_SECONDS
                    for future in wait(self.submitted, seconds, FIRST_COMPLETED)[0]:
                        self._finished(self.submitted.pop(future), future)
                elif self.locked:
                    time.sleep(LOCKED_SECONDS)
                if self.locked and not self.waiting:
                    # What others have not done when they end is free again.
                    self.waiting, self.locked = self.locked, self.waiting

    def _warm_up(self, executor: ProcessExecutor) -> None:
        """Let one process compile what all will need; if it fails, so will runs, with a note."""
        cells = {cell.agent: cell for cell, _ in self.waiting}
        outside = {d for cell in cells.values() for d in plugins.definitions(cell) if d.kind == "agent"}
        limit = WARM_UP_SECONDS if executor.limit is None else min(WARM_UP_SECONDS, 60 + 10 * executor.limit)
        call = (run_one.warm_up, sorted(cells), tuple(outside))
        with suppress(WorkerCrashedError, RunTimeoutError):
            executor.call(*call, limit=limit)

    def _submit(self, executor: Executor, window: int) -> None:
        for _ in range(len(self.waiting)):
            if len(self.submitted) >= window:
                return
            run = self.waiting.popleft()
            if not self.locks.acquire(run[0].identity(run[1])):
                self.locked.append(run)
            elif not self._is_done_by_others(run):
                self.submitted[executor.submit(run_one.execute, run_one.Task.of(*run))] = run

    def _is_done_by_others(self, run: Run) -> bool:
        """Whether another command in the same folder has done a run, or failed at it, since this one began."""
        self.shared = self.locks.changed() or self.shared
        if self.shared and self.store.has(*run):
            self.done_by_others += 1
            self.progress.advance(run[0])
        elif (failure := self.store.failure(*run)) is not None and failure[0] > self.started:
            self._give_up(run, failure[1])
        else:
            return False
        self.locks.release(run[0].identity(run[1]))
        return True

    def _finished(self, run: Run, future: Future[run_one.Done]) -> None:
        error = CancelledError() if future.cancelled() else future.exception()
        if isinstance(error, CancelledError):
            raise WorkerError(CONNECTION_LOST)
        if isinstance(error, WorkerCrashedError):
            self.crashes[run] += 1
            if self.crashes[run] < MAX_CRASHES:
                self.waiting.appendleft(run)
                return  # and keep the lock
            error = WorkerCrashedError(f"{error}, {MAX_CRASHES} times; perhaps there was not enough memory")
        elif isinstance(error, WorkerError) and not isinstance(error, RunTimeoutError):
            raise error  # no run would fare better
        if error is None:
            self._write(run, future.result())
        else:
            self.store.note_failure(*run, "".join(traceback.format_exception(error)))
            self._give_up(run, traceback.format_exception_only(error)[0].strip())
        self.locks.release(run[0].identity(run[1]))

    def _write(self, run: Run, done: run_one.Done) -> None:
        # A shorter run is sooner done again than the disk confirms that it holds it.
        self.store.write(*run, done.content, confirmed=done.seconds > CONFIRMED_SECONDS)
        self.locks.note(self.store.timing(*run, done.seconds))
        self.executed += 1
        self.progress.advance(run[0])

    def _give_up(self, run: Run, why: str) -> None:
        self.failures.append(Failure(*run, why, self.store.failure_path(*run)))
        self.progress.advance(run[0], failed=True)
