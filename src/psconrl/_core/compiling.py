"""Noticing that kernels are being compiled, which happens once and takes its time, and telling people."""

from __future__ import annotations

import gc
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

COMPILING = "compiling, once: later starts find it on disk"
"""Said when kernels are compiled."""

_silent: list[bool] = []
"""Not empty if people know already, or are told by somebody else."""


@cache
def _listener() -> Any:
    from numba.core import event

    class First(event.Listener):
        def __init__(self, tell: Callable[[], Any]) -> None:
            self.tell, self.told = tell, False

        def on_start(self, event: Any) -> None:
            if not self.told:
                self.told = True
                self.tell()

        def on_end(self, event: Any) -> None:
            pass

    return First


@contextmanager
def told(tell: Callable[[], Any]) -> Iterator[None]:
    """Call `tell` when the first kernel is compiled that is not on disk; at most once, and only within the context."""
    from numba.core import event

    listener = _listener()(tell)
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


@contextmanager
def without_garbage(tell: Callable[[], Any]) -> Iterator[None]:
    """The same; and no garbage is looked for from then on to the end of the context: that takes a tenth of the time."""
    collecting = gc.isenabled()

    def begin() -> None:
        gc.disable()
        tell()

    try:
        with told(begin):
            yield
    finally:
        if collecting:
            gc.enable()


@contextmanager
def said() -> Iterator[None]:
    """Within this, people who wait at a terminal or a notebook are told that something compiles, once in a process."""
    waiting = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
    if _silent or not waiting or multiprocessing.parent_process() is not None:
        yield
        return
    with told(_say):
        yield


def _say() -> None:
    if not _silent:
        leave_unsaid()
        print(f"psconrl: {COMPILING}", file=sys.stderr)


def leave_unsaid() -> None:
    """Say nothing in this process any more: the command line has its own way of telling."""
    _silent.append(True)
