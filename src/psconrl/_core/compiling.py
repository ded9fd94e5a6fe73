"""Noticing that kernels are being compiled, which takes half a minute once, and telling people who wait."""

from __future__ import annotations

import multiprocessing
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

COMPILING = "compiling (first run only, about half a minute)"
"""The message when kernels are compiled."""

_silent: list[bool] = []
"""Not empty after the message was printed, or where the command line prints its own."""


_waiting: list[Callable[[], Any]] = []
"""What is called when the next kernel is compiled; the last one is the innermost context's."""
_listeners: list[Any] = []
"""The one that numba knows, once somebody wanted to know."""


@contextmanager
def on_compile(callback: Callable[[], Any]) -> Iterator[None]:
    """Call `callback` when the first kernel that is not cached is compiled: at most once, within the context only."""
    depth = len(_waiting)
    _waiting.append(callback)
    if "numba" in sys.modules:
        listen()
    try:
        yield
    finally:
        del _waiting[depth:]


def listen() -> None:
    """Hear of what numba compiles, if anybody wants to know; called when numba is imported."""
    if not _waiting or _listeners:
        return
    from numba.core import event

    class Listener(event.Listener):
        def on_start(self, event: Any) -> None:
            for k, callback in enumerate(_waiting):
                _waiting[k] = _nothing
                callback()

        def on_end(self, event: Any) -> None:
            pass

    _listeners.append(Listener())
    event.register("numba:compile", _listeners[0])  # type: ignore[no-untyped-call]


def _nothing() -> None:
    pass


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
