"""Where runs are executed: in this process, in processes of this machine, or on a Dask cluster.

A pool takes runs and gives back what became of them. What happens to a process is told of the one run that it was
executing: that it died, or that its time was up. The runs that were waiting for that process go to another one.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing import connection, forkserver
from multiprocessing.connection import Connection
from typing import Any, Protocol

from psconrl._core.interrupts import interrupted
from psconrl.errors import RunTimeoutError, WorkerCrashedError, WorkerError
from psconrl.experiments.run_one import CODE, Done, execute, execute_apart, too_long, warm_up
from psconrl.experiments.spec import Cell

Run = tuple[Cell, int]
Result = Done | BaseException


class Pool(Protocol):
    """Something that executes runs."""

    def window(self) -> int:
        """How many runs to have submitted at a time."""

    def submit(self, run: Run) -> None:
        """Take a run."""

    def collect(self, timeout: float) -> list[tuple[Run, Result]]:
        """What became of runs; waits for the first of them, no longer than `timeout` seconds."""

    def close(self) -> None:
        """End at once; what is being executed is given up."""


class SerialPool:
    """This process."""

    def __init__(self) -> None:
        self._waiting: deque[Run] = deque()

    def window(self) -> int:
        """One at a time."""
        return 1

    def submit(self, run: Run) -> None:
        """Keep it until it is collected."""
        self._waiting.append(run)

    def collect(self, timeout: float) -> list[tuple[Run, Result]]:
        """Execute a run; an interrupt is raised, not collected."""
        run = self._waiting.popleft()
        try:
            return [(run, execute(*run, CODE))]
        except Exception as error:
            if interrupted():  # some libraries turn an interrupt into an error of their own
                raise KeyboardInterrupt from error
            return [(run, error)]

    def close(self) -> None:
        """Nothing to end."""


@dataclass(eq=False)
class _Worker:
    """A process, our end of the pipe to it, and the runs that it was given; the first is being executed."""

    process: Any
    pipe: Connection
    runs: deque[Run] = field(default_factory=deque)
    begun: bool = False
    since: float | None = None  # when it began with its first run


class ProcessPool:
    """Worker processes on this machine; each run may take `limit` seconds."""

    def __init__(
        self,
        workers: int,
        limit: float | None = None,
        warm: frozenset[str] = frozenset(),
        compiling: Callable[[], None] = lambda: None,
    ) -> None:
        self.workers, self.limit, self._warm, self._compiling = workers, limit, warm, compiling
        # Never "fork": linear algebra and compiled code may hold threads and locks that a fork would break.
        kind = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self._context: Any = multiprocessing.get_context(kind)
        if kind == "forkserver":
            self._context.set_forkserver_preload(_HEAVY)
            forkserver.ensure_running()  # it imports while this process goes on
        self._pool: list[_Worker] = []
        self._waiting: deque[Run] = deque()
        self._stillborn = 0

    def window(self) -> int:
        """Enough that no worker waits."""
        return 2 * self.workers + 1

    def submit(self, run: Run) -> None:
        """Take a run, and hand runs out to workers."""
        self._waiting.append(run)
        self._hand_out()

    def collect(self, timeout: float) -> list[tuple[Run, Result]]:
        """What workers sent, and what became of the runs of those that died or took too long."""
        self._warm_up()
        self._hand_out()
        end = time.monotonic() + timeout
        found: list[tuple[Run, Result]] = []
        while not found:
            now = time.monotonic()
            found += self._overdue(now)
            left = max(0.0, min([end, *self._deadlines()]) - now)
            ready = connection.wait([worker.pipe for worker in self._pool], 0 if found else left)
            for worker in [worker for worker in self._pool if worker.pipe in ready]:
                found += self._hear(worker)
            self._hand_out()
            if time.monotonic() >= end:
                break
        return found

    def close(self) -> None:
        """Kill the processes: they hold nothing that is needed."""
        workers, self._pool = self._pool, []
        for worker in workers:
            worker.process.kill()
        for worker in workers:
            worker.process.join(1.0)
            worker.pipe.close()

    def _warm_up(self) -> None:
        """Let one worker compile what all will need before the others start; if it fails, so will runs, with a note."""
        agents, self._warm = self._warm, frozenset()
        if not agents:
            return
        worker = self._start()
        worker.pipe.send_bytes(pickle.dumps(agents))
        end = time.monotonic() + (_WARM_UP if self.limit is None else min(_WARM_UP, 60 + 10 * self.limit))
        while worker.process.is_alive() and time.monotonic() < end:
            message = self._message(worker) if worker.pipe.poll(0.5) else b""
            if message == _COMPILING:
                self._compiling()
            if message in (None, _WARM):
                break
        if not worker.begun or not worker.process.is_alive() or time.monotonic() >= end:
            self._end(worker)

    def _hand_out(self) -> None:
        while self._waiting and not self._warm:
            if len(self._pool) < self.workers and all(worker.runs for worker in self._pool):
                self._start()
            worker = min(self._pool, key=lambda worker: len(worker.runs))
            if len(worker.runs) >= 2:
                return
            message = pickle.dumps(self._waiting[0])
            if worker.runs and len(message) > _SURE_TO_FIT:
                return  # it would wait for a worker that waits for us
            try:
                worker.pipe.send_bytes(message)
            except OSError:
                if worker.runs:
                    return  # its death is told of its first run
                self._bury(worker)
                continue
            worker.runs.append(self._waiting.popleft())

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs,), daemon=True)
        attempts = 0
        while process.pid is None:
            try:
                process.start()
            except (EOFError, OSError) as error:
                # The process that starts others for us may have died; there is a new one soon.
                attempts += 1
                if attempts == _ATTEMPTS:
                    raise WorkerError(f"no worker processes can be started: {error!r}") from error
                time.sleep(0.2)
        theirs.close()
        self._pool.append(_Worker(process, ours))
        return self._pool[-1]

    def _hear(self, worker: _Worker) -> list[tuple[Run, Result]]:
        message = self._message(worker)
        if message is None:
            return self._bury(worker)
        if message == _BEGUN:
            return []
        if message == _NEXT:
            worker.since = time.monotonic()
            return []
        worker.since = None
        return [(worker.runs.popleft(), pickle.loads(message))]

    def _message(self, worker: _Worker) -> bytes | None:
        """What a worker sends; None if it is dead."""
        try:
            message = worker.pipe.recv_bytes()
        except (EOFError, OSError):
            return None
        if message == _BEGUN:
            worker.begun, self._stillborn = True, 0
        return message

    def _bury(self, worker: _Worker) -> list[tuple[Run, Result]]:
        """Tell of a death, and keep the runs that only waited; WorkerError if workers die before they begin."""
        self._end(worker)
        if not worker.begun:
            self._stillborn += 1
            if self._stillborn > _STILLBORN * self.workers:
                raise WorkerError(
                    "the worker processes die before they begin. They import the script that started them: it must "
                    "be a file (not the standard input) and call this under `if __name__ == '__main__':`; or use "
                    "workers=1"
                )
            self._waiting.extendleft(reversed(worker.runs))
            return []
        if not worker.runs:
            return []
        code = worker.process.exitcode
        how = f"by signal {-code}" if code is not None and code < 0 else f"with exit code {code}"
        return [(self._first(worker), WorkerCrashedError(f"the process died {how} during this run"))]

    def _first(self, worker: _Worker) -> Run:
        """The run that a worker was executing; those behind it wait again."""
        first = worker.runs.popleft()
        self._waiting.extendleft(reversed(worker.runs))
        return first

    def _end(self, worker: _Worker) -> None:
        self._pool.remove(worker)
        worker.process.kill()
        worker.process.join(5.0)
        worker.pipe.close()

    def _deadlines(self) -> list[float]:
        if self.limit is None:
            return []
        return [worker.since + self.limit for worker in self._pool if worker.since is not None]

    def _overdue(self, now: float) -> list[tuple[Run, Result]]:
        """End the workers whose runs take too long."""
        found: list[tuple[Run, Result]] = []
        for worker in list(self._pool):
            late = self.limit is not None and worker.since is not None and now >= worker.since + self.limit
            if late and not worker.pipe.poll():
                self._end(worker)
                found.append((self._first(worker), RunTimeoutError(too_long(self.limit))))
        return found


_HEAVY = ["psconrl.experiments.run_one", "psconrl.experiments.record", "psconrl.agents.catalogue", "psconrl.learning"]

_STILLBORN = 2
"""How many times as many workers as there are may die in a row before any has begun; some may be bad luck."""
_ATTEMPTS = 5
"""How often to try to start a process."""
_WARM_UP = 900.0
"""Seconds that compiling may take; then runs begin, and compile what they need."""
_SURE_TO_FIT = 16_384
"""Bytes that a pipe takes although nobody reads."""
_BEGUN, _NEXT, _WARM, _COMPILING = b"begun", b"next", b"warm", b"compiling"


def _work(pipe: Connection) -> None:
    """Execute what comes through the pipe, and send back what comes out."""
    # An interrupt from the keyboard reaches all processes; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()
    try:
        pipe.send_bytes(_BEGUN)
        while True:
            task = pickle.loads(pipe.recv_bytes())
            if isinstance(task, frozenset):
                with suppress(Exception):  # what fails here fails in runs again, and is noted there
                    warm_up(set(task), lambda: pipe.send_bytes(_COMPILING))
                pipe.send_bytes(_WARM)
                continue
            pipe.send_bytes(_NEXT)
            pipe.send_bytes(_executed(task))
    except (EOFError, OSError):
        os._exit(1)  # the parent is gone, or wants no more


def _executed(run: Run) -> bytes:
    """The result of a run, or the error that it raised, as a message."""
    try:
        return pickle.dumps(execute(*run, CODE))
    except Exception as error:
        import traceback

        error.__notes__ = [*getattr(error, "__notes__", []), "".join(traceback.format_exception(error))]
        try:
            message = pickle.dumps(error)
            pickle.loads(message)
        except Exception:  # errors of strangers need not survive the way
            return pickle.dumps(RuntimeError("".join(traceback.format_exception_only(error)).strip()))
        return message


def _follow_parent() -> None:
    """End this process when its parent has ended, even amid a run."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


class DaskPool:
    """The workers of a Dask cluster; with a limit, each run gets a process of its own there."""

    def __init__(self, address: str, limit: float | None = None) -> None:
        try:
            import distributed
            from distributed.comm.addressing import parse_address
            from distributed.comm.registry import get_backend
        except ImportError:
            raise WorkerError("Dask is not installed; pip install 'psconrl[cluster]'") from None
        functions: Any = distributed  # they have no types
        self._limit = limit
        self._flying: dict[Future[Done], Run] = {}
        try:
            # Asked first, as a client that fails on it takes its time to end.
            get_backend(parse_address(address)[0])
            self._client = functions.Client(address, timeout=10, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise WorkerError(f"no Dask scheduler at {address}: {error}".splitlines()[0]) from error
        self._executor = self._client.get_executor(pure=False)
        try:
            with _connected():
                self._check_code(address)
        except BaseException:
            self.close()
            raise

    def _check_code(self, address: str) -> None:
        try:
            self._client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            raise WorkerError(
                f"the Dask scheduler at {address} has no workers, after {_PATIENCE} seconds; "
                f"start some: dask worker {address} --nthreads 1"
            ) from None
        try:
            codes = self._client.run(_code)
        except OSError:
            raise  # the connection is lost
        except Exception as error:
            raise WorkerError(f"the Dask workers cannot run psconrl: {type(error).__name__}: {error}") from error
        others = {address: code for address, code in codes.items() if code != CODE}
        if others:
            address, code = sorted(others.items())[0]
            raise WorkerError(
                f"the Dask worker {address} runs other code ({code}) than this process ({CODE}), and {len(others) - 1} "
                "more do; install the same version everywhere and restart the workers"
            )

    def window(self) -> int:
        """Enough that no worker waits; workers may come and go."""
        with _connected():
            return max(8, 3 * sum(self._client.nthreads().values()))

    def submit(self, run: Run) -> None:
        """Give a run to the scheduler."""
        task = (execute, *run, CODE) if self._limit is None else (execute_apart, *run, CODE, self._limit)
        with _connected():
            self._flying[self._executor.submit(*task)] = run

    def collect(self, timeout: float) -> list[tuple[Run, Result]]:
        """What the cluster has done; the scheduler replaces dead workers by itself, when it is gone, nothing helps."""
        done, _ = wait(self._flying, timeout=timeout, return_when=FIRST_COMPLETED)
        found: list[tuple[Run, Result]] = []
        for future in done:
            error = CancelledError() if future.cancelled() else future.exception()
            if isinstance(error, CancelledError):
                raise WorkerError(_LOST)
            found.append((self._flying.pop(future), future.result() if error is None else error))
        return found

    def close(self) -> None:
        """Let go of the cluster; it goes on."""
        with suppress(OSError, RuntimeError):  # there may be nobody to say goodbye to
            self._executor.shutdown(wait=False)
            self._client.close()


@contextmanager
def _connected() -> Iterator[None]:
    """Whatever a client says when nobody answers any more is one error."""
    try:
        yield
    except WorkerError:
        raise
    except (OSError, RuntimeError) as error:
        raise WorkerError(_LOST) from error


_LOST = "the connection to the Dask scheduler is lost; runs done so far are stored"

_PATIENCE = 30
"""Seconds to wait for the first worker of a cluster."""


def _code() -> str:
    return CODE
