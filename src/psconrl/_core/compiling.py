"""Noticing that kernels are being compiled, which takes half a minute once, and telling people who wait."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

COMPILING = "compiling (first run only, about half a minute)"
"""The message when kernels are compiled."""

_silent: list[bool] = []
"""Not empty after the message was printed, or where the command line prints its own."""


@cache
def _listener() -> Any:
    from numba.core import event

    class First(event.Listener):
        def __init__(self, callback: Callable[[], Any]) -> None:
            self.callback, self.called = callback, False

        def on_start(self, event: Any) -> None:
            if not self.called:
                self.called = True
                self.callback()

        def on_end(self, event: Any) -> None:
            pass

    return First


@contextmanager
def on_compile(callback: Callable[[], Any]) -> Iterator[None]:
    """Call `callback` when the first kernel that is not cached is compiled: at most once, within the context only."""
    from numba.core import event

    listener = _listener()(callback)
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]


@contextmanager
def notify() -> Iterator[None]:
    """Print a message when something compiles, once a process, for people at a terminal or a notebook."""
    waiting = "ipykernel" in sys.modules or (sys.stderr is not None and sys.stderr.isatty())
    if _silent or not waiting or multiprocessing.parent_process() is not None:
        yield
        return
    with on_compile(_print_once):
        yield


def _print_once() -> None:
    if not _silent:
        silence()
        print(f"psconrl: {COMPILING}", file=sys.stderr)


def silence() -> None:
    """Print no message in this process: the command line has its own."""
    _silent.append(True)
