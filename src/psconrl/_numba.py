"""The one way in which psconrl compiles: typed, without the interpreter lock, cached on disk."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba.core import event

Args = ParamSpec("Args")
Result = TypeVar("Result")


class _First(event.Listener):
    def __init__(self, action: Callable[[], Any]) -> None:
        self.action, self.done = action, False

    def on_start(self, event: Any) -> None:
        if not self.done:
            self.done = True
            gc.disable()
            self.action()

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def at_first_compilation(action: Callable[[], Any]) -> Iterator[None]:
    """Do something once if, and as soon as, a kernel is compiled and not found on disk.

    No garbage is looked for from then on to the end of the context: that would take a tenth of the time.
    """
    listener, collecting = _First(action), gc.isenabled()
    event.register("numba:compile", listener)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        event.unregister("numba:compile", listener)  # type: ignore[no-untyped-call]
        if collecting:
            gc.enable()


def njit(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """Compile a kernel; the plain twin stays reachable as `kernel.py_func`."""
    return _compiled(function)


def njit_sums(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """The same, for kernels whose sums may be taken in any order: several terms at once."""
    return _compiled(function, fastmath={"reassoc", "contract"})


def njit_inline(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """The same, for kernels that become a part of those that use them.

    Small ones, as calls count references to arrays; and large ones with one caller, which Python calls: of a tree of
    calls every level is optimised anew.
    """
    return _compiled(function, inline="always")


def _compiled(function: Callable[Args, Result], **options: Any) -> Callable[Args, Result]:
    dispatcher = numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)
    _depend_on_all_kernels(dispatcher)
    return cast(Callable[Args, Result], dispatcher)


def _depend_on_all_kernels(dispatcher: Any) -> None:
    """Let a change of any kernel's file make the compiled code stale.

    Numba looks only at the file of the function itself, and would go on using old code of those that it calls.
    """
    file: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(file, "_source_stamp"):
        file._source_stamp = (file._source_stamp, _kernel_files())


@cache
def _kernel_files() -> tuple[tuple[str, int, int], ...]:
    root = Path(__file__).parent
    files = [Path(__file__), *sorted([*root.rglob("_*kernels.py"), *root.glob("planning/compiled/*.py")])]
    return tuple((str(f.relative_to(root)), f.stat().st_mtime_ns, f.stat().st_size) for f in files)
