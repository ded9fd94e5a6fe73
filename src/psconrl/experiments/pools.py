"""Where runs are executed: in this process, in a pool of processes, or on a Dask cluster.

All are seen through `concurrent.futures.Executor`; a `Pool` adds how much to submit at a time, what to do when
processes die, and a quick end.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from typing import Any, Protocol

from psconrl.errors import PsconrlError


class PoolError(PsconrlError, RuntimeError):
    """Workers that cannot be used: not reachable, or running other code."""


class Pool(Protocol):
    """An executor and its upkeep."""

    executor: Executor

    def window(self) -> int:
        """How many runs to have submitted at a time."""

    def rebuild(self) -> None:
        """Start again after the executor broke."""

    def close(self) -> None:
        """End at once; what is being executed is given up."""


class SerialExecutor(Executor):
    """Executes in the calling thread, at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """The finished future of a call; an interrupt is not kept in it, but raised."""
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class SerialPool:
    """This process."""

    def __init__(self) -> None:
        self.executor: Executor = SerialExecutor()

    def window(self) -> int:
        """One at a time."""
        return 1

    def rebuild(self) -> None:
        """It never breaks."""

    def close(self) -> None:
        """Nothing to end."""


class ProcessPool:
    """Worker processes on this machine."""

    def __init__(self, workers: int) -> None:
        self.workers, self._stillborn = workers, 0
        # Never "fork": linear algebra and compiled code may hold threads and locks that a fork would break.
        kind = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        self._context = multiprocessing.get_context(kind)
        if kind == "forkserver":
            self._context.set_forkserver_preload(_HEAVY)
            forkserver.ensure_running()  # it imports while this process goes on
        self._start()

    def _start(self) -> None:
        # Workers say that they have begun, and end when our end is closed, by `close` or by this process's death.
        self._ours, self._lifeline = self._context.Pipe()
        self.executor: Executor = ProcessPoolExecutor(
            self.workers, mp_context=self._context, initializer=_begin, initargs=(self._lifeline,)
        )

    def window(self) -> int:
        """Enough that no worker waits."""
        return 2 * self.workers + 1

    def rebuild(self) -> None:
        """New processes; PoolError if they keep dying before they can do anything."""
        self._stillborn = 0 if self._ours.poll() else self._stillborn + 1
        self.close()
        if self._stillborn == _STILLBORN:
            raise PoolError(
                "the worker processes die before they begin. They import the script that started them: it must be a "
                "file (not the standard input) and call this under `if __name__ == '__main__':`; or use workers=1"
            )
        self._start()

    def close(self) -> None:
        """End the processes."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        self._ours.close()
        self._lifeline.close()


_HEAVY = ["psconrl.experiments.run_one", "psconrl.experiments.record", "psconrl.agents.catalogue", "psconrl.simulation"]


_STILLBORN = 2
"""How many pools in a row may break without any worker having begun; one may be bad luck."""


def _begin(lifeline: Connection) -> None:
    # An interrupt from the keyboard reaches all processes; the parent alone decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    lifeline.send_bytes(b"begun")

    def watch() -> None:
        try:
            lifeline.recv_bytes()
        except (EOFError, OSError):
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


class DaskPool:
    """The workers of a Dask cluster."""

    def __init__(self, address: str) -> None:
        try:
            import distributed
            from distributed.comm.addressing import parse_address
            from distributed.comm.registry import get_backend
        except ImportError:
            raise PoolError("Dask is not installed; pip install 'psconrl[cluster]'") from None
        functions: Any = distributed  # they have no types
        try:
            # Asked first, as a client that fails on it takes its time to end.
            get_backend(parse_address(address)[0])
            self._client = functions.Client(address, timeout=10, set_as_default=False)
        except (OSError, ValueError, TypeError) as error:
            raise PoolError(f"no Dask scheduler at {address}: {error}".splitlines()[0]) from error
        try:
            self._check_code()
        except BaseException:
            self._client.close()
            raise
        self.executor: Executor = self._client.get_executor(pure=False)

    def _check_code(self) -> None:
        from psconrl.experiments.run_one import CODE

        self._client.wait_for_workers(1, timeout=30)
        try:
            codes = self._client.run(_code)
        except Exception as error:
            raise PoolError(f"the Dask workers cannot run psconrl: {type(error).__name__}: {error}") from error
        others = {address: code for address, code in codes.items() if code != CODE}
        if others:
            address, code = sorted(others.items())[0]
            raise PoolError(
                f"the Dask worker {address} runs other code ({code}) than this process ({CODE}), and {len(others) - 1} "
                "more do; install the same version everywhere and restart the workers"
            )

    def window(self) -> int:
        """Enough that no worker waits; workers may come and go."""
        return max(8, 3 * sum(self._client.nthreads().values()))

    def rebuild(self) -> None:
        """The scheduler replaces dead workers by itself; when it is gone, nothing helps."""
        raise PoolError("the connection to the Dask scheduler is lost; runs done so far are stored")

    def close(self) -> None:
        """Let go of the cluster; it goes on."""
        self.executor.shutdown(wait=False)
        self._client.close()


def _code() -> str:
    from psconrl.experiments.run_one import CODE

    return CODE
