"""Noticing that kernels are being compiled, which happens once and takes its time."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from numba.core import event


class _First(event.Listener):
    def __init__(self, tell: Callable[[], Any]) -> None:
        self.tell, self.told = tell, False

    def on_start(self, event: Any) -> None:
        if not self.told:
            self.told = True
            self.tell()

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def told(tell: Callable[[], Any]) -> Iterator[None]:
    """Call `tell` when the first kernel is compiled that is not on disk; at most once, and only within the context."""
    listener = _First(tell)
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
