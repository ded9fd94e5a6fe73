"""Telling people that kernels are being compiled, which happens once and takes its time."""

from __future__ import annotations

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
