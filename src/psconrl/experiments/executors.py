"""Where runs are executed: in this process, in processes of this machine, or on a Dask cluster.

All are executors as in `concurrent.futures`; any other one will do, too.
"""

from __future__ import annotations

import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from typing import Any

from psconrl._core import compiling
from psconrl.errors import RunTimeoutError, WorkerCrashedError, WorkerError

_COMPILING, _RESULT = "compiling", "result"


class SerialExecutor(Executor):
    """This process: what is submitted is executed at once."""

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Execute a function; an interrupt is raised, any other error belongs to the result."""
        future: Future[Any] = Future()
        try:
            future.set_result(function(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class ProcessExecutor(Executor):
    """Processes of this machine that are started when they are needed.

    If one dies, only the run that it was executing fails, and a new process takes its place.

    Args:
        workers: how many.
        limit: seconds that a call may take; the process of one that takes longer is ended.
        on_compile: called, in some thread, when a process begins to compile.
    """

    def __init__(self, workers: int, limit: float | None = None, on_compile: Callable[[], None] = lambda: None) -> None:
        self.workers, self.limit, self._on_compile = workers, limit, on_compile
        self._threads = ThreadPoolExecutor(workers)  # each waits for one process
        self._all: list[WorkerProcess] = []
        self._idle: list[WorkerProcess] = []
        self._closed = False

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call a function, found by its name, in one of the processes."""
        return self._threads.submit(self.call, function, *args, limit=self.limit)

    def call(self, function: Callable[..., Any], *args: Any, limit: float | None) -> Any:
        """The same, waiting for the result.

        Args:
            function: found by its name.
            args: what it is called with.
            limit: seconds that it may take.

        Raises:
            WorkerCrashedError: the process has died.
            RunTimeoutError: it took longer than the limit.
        """
        worker = self._idle.pop() if self._idle else self._start()
        result = worker.call(function, *args, limit=limit, on_compile=self._on_compile)
        self._idle.append(worker)  # one that has died is not used again
        if isinstance(result, BaseException):
            raise result
        return result

    def _start(self) -> WorkerProcess:
        worker = WorkerProcess()
        self._all.append(worker)
        if self._closed:
            worker.kill()
        return worker

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Kill the processes: they hold nothing that is needed."""
        self._closed = True
        for worker in self._all:
            worker.kill()
        self._threads.shutdown(wait, cancel_futures=True)
        for worker in self._all:
            worker.close()


class WorkerProcess:
    """A process that executes calls, one at a time. It ends with this one, however that ends."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # an interrupt from the keyboard is for the parent alone
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        self._ready = False

    def call(
        self,
        function: Callable[..., Any],
        *args: Any,
        limit: float | None = None,
        on_compile: Callable[[], None] = lambda: None,
    ) -> Any:
        """What the call returns, or the exception that it raises; see `ProcessExecutor.call`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        over = threading.Event()
        timer = None if limit is None else threading.Timer(limit, self._end, [over])
        try:
            pickle.dump(pickle.dumps((function, args)), self._process.stdin)
            self._process.stdin.flush()
            if not self._ready:
                pickle.load(self._process.stdout)
                self._ready = True
            if timer is not None:
                timer.start()
            while True:
                kind, value = pickle.load(self._process.stdout)
                if kind != _COMPILING:
                    return value
                on_compile()
        except (EOFError, OSError, pickle.UnpicklingError):
            code = self._process.wait()
        finally:
            if timer is not None:
                timer.cancel()
        if over.is_set():
            raise RunTimeoutError(f"the run was ended after {limit:g} seconds, the limit for one run")
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        if not self._ready:
            raise WorkerError(f"a worker process died {how} before it was ready; what it printed says why")
        raise WorkerCrashedError(f"the process died {how} during this run")

    def _end(self, over: threading.Event) -> None:
        over.set()
        self.kill()

    def kill(self) -> None:
        """End the process."""
        with suppress(OSError):
            self._process.kill()

    def close(self) -> None:
        """End the process, and let go of it."""
        self.kill()
        for pipe in (self._process.stdin, self._process.stdout):
            with suppress(OSError):  # nobody reads what is left
                assert pipe is not None
                pipe.close()
        self._process.wait()


def serve() -> None:
    """What a worker process does: execute the calls that come in, and send back their results."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    questions, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # what agents read and print must not come between
    os.dup2(2, 1)
    calls: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def send(kind: str, value: object = None) -> None:
        try:
            pickle.dump((kind, value), answers)
            answers.flush()
        except OSError:
            os._exit(1)  # the parent has ended

    def receive() -> None:
        try:
            while True:
                calls.put(pickle.load(questions))
        finally:
            os._exit(1)  # the parent has ended, or wants no more, even amid a run

    threading.Thread(target=receive, daemon=True).start()
    import_module("psconrl.experiments.run_one")  # the first call is not to wait for it

    send("ready")
    while True:
        function, args = pickle.loads(calls.get())
        try:
            with compiling.on_compile(lambda: send(_COMPILING)):
                result = function(*args)
            send(_RESULT, result)
        except Exception as error:
            send(_RESULT, _portable(error))


def _portable(error: Exception) -> Exception:
    """An exception that another process can read, with its traceback as a note."""
    error.add_note("".join(traceback.format_exception(error)))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # those of other packages need not survive the way
        return RuntimeError("".join(traceback.format_exception_only(error)).strip())
    return error


class DaskExecutor(Executor):
    """The workers of a Dask cluster.

    Args:
        address: of the scheduler.

    Raises:
        WorkerError: there is no such scheduler, or it has no workers.
    """

    def __init__(self, address: str) -> None:
        try:
            import distributed
            from distributed.comm.addressing import parse_address
            from distributed.comm.registry import get_backend
        except ImportError:
            raise WorkerError("Dask is not installed; pip install 'psconrl[cluster]'") from None
        functions: Any = distributed  # they have no types
        try:
            get_backend(parse_address(address)[0])  # asked first, as a client that fails on it takes its time to end
            self._client = functions.Client(address, timeout=10, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise WorkerError(f"no Dask scheduler at {address}: {error}".splitlines()[0]) from error
        self._executor = self._client.get_executor(pure=False)
        try:
            self._client.wait_for_workers(1, timeout=_PATIENCE)
        except TimeoutError:
            self.shutdown()
            raise WorkerError(
                f"the Dask scheduler at {address} has no workers, after {_PATIENCE} seconds; "
                f"start some: dask worker {address} --nthreads 1"
            ) from None

    @property
    def workers(self) -> int:
        """How many threads the cluster has now; workers may come and go."""
        return self._connected(lambda: sum(self._client.nthreads().values()))

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Give a call to the scheduler."""
        return self._connected(lambda: self._executor.submit(function, *args))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Let go of the cluster; it goes on."""
        with suppress(OSError, RuntimeError):  # there may be nobody to say goodbye to
            self._executor.shutdown(wait=False)
            self._client.close()

    def _connected(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except (OSError, RuntimeError) as error:
            raise WorkerError(CONNECTION_LOST) from error


CONNECTION_LOST = "the connection to the Dask scheduler is lost; runs done so far are stored"

_PATIENCE = 30
"""Seconds to wait for the first worker of a cluster."""
