"""The one way in which psconrl compiles: typed, without the interpreter lock, cached on disk, and only when needed.

A kernel is compiled, and numba imported, when it is first called. Small problems do not wait for that: within
`interpreted` the same functions run as plain Python, with the same bits, until a process has spent some seconds so.
"""

from __future__ import annotations

import functools
import hashlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

import numpy as np

from psconrl._core.compiling import listen
from psconrl._core.lazy import lazy_import

if TYPE_CHECKING:
    from psconrl._core import signal_safe
else:
    signal_safe = lazy_import("psconrl._core.signal_safe")  # which imports numba

Args = ParamSpec("Args")
Result = TypeVar("Result")
Answer = TypeVar("Answer")

ROOT = Path(__file__).parent.parent
FOR_TYPES_ONLY = ("_core.checks", "errors")

MAX_INTERPRETED_SECONDS = 4.0
"""What a process spends in kernels that are not compiled, before it compiles them: a fraction of what that takes."""
MAX_INTERPRETED_WORK = 2**17
"""S K (m + 1)^2 of the largest model, with S states, K pairs and m limits, that is solved without compiling."""


class _Mode(threading.local):
    """Whether this thread runs kernels as plain Python just now; on the class, for how long the process did."""

    plain = False
    seconds = 0.0


_mode = _Mode()


class Kernel(Generic[Args, Result]):
    """A function that is compiled when it is first called; the plain twin stays reachable as `py_func`."""

    def __init__(self, function: Callable[Args, Result], **options: Any) -> None:
        functools.update_wrapper(self, function)
        self.py_func = function
        self.targetoptions = options
        """Where numba looks for what is to be inlined."""

    def __call__(self, *args: Args.args, **kwargs: Args.kwargs) -> Result:
        """Call the function: compiled, or as it is."""
        if _mode.plain:
            return self.py_func(*args, **kwargs)
        return self.compiled(*args, **kwargs)

    @functools.cached_property
    def compiled(self) -> Callable[Args, Result]:
        """The dispatcher of numba."""
        import numba

        listen()
        dispatcher = numba.njit(nogil=True, cache=True, error_model="numpy", **self.targetoptions)(self.py_func)
        _stamp(dispatcher, Path(self.py_func.__code__.co_filename))
        return cast(Callable[Args, Result], signal_safe.signal_safe(dispatcher))

    @property
    def is_loaded(self) -> bool:
        """Whether it was called compiled, by Python or by another kernel."""
        return "compiled" in self.__dict__

    @property
    def _numba_type_(self) -> Any:
        """What numba takes a kernel for where another one calls it."""
        return self.compiled._numba_type_  # type: ignore[attr-defined]


def njit(function: Callable[Args, Result]) -> Kernel[Args, Result]:
    """Compile a kernel when it is first called; the plain twin stays reachable as `kernel.py_func`."""
    return Kernel(function)


def njit_inline(function: Callable[Args, Result]) -> Kernel[Args, Result]:
    """The same, for kernels that become a part of those that use them.

    Small ones, as calls count references to arrays; and large ones with one caller, which Python calls: of a tree of
    calls every level is optimised anew.
    """
    return Kernel(function, inline="always")


@contextmanager
def interpreted(small: bool, kernel: Kernel[..., Any]) -> Iterator[None]:
    """Run kernels as plain Python within the context.

    Args:
        small: whether the problem is small enough.
        kernel: the one that does most of the work; once it is loaded there is nothing to wait for.
    """
    if _mode.plain or not small or kernel.is_loaded or _Mode.seconds > MAX_INTERPRETED_SECONDS:
        yield
        return
    start = time.thread_time()
    try:
        with as_python(), np.errstate(all="ignore"):  # as compiled code does
            yield
    finally:
        _Mode.seconds += time.thread_time() - start


@contextmanager
def as_python() -> Iterator[None]:
    """Run kernels as plain Python within the context; they may get arrays of numbers that numba does not know."""
    before, _mode.plain = _mode.plain, True
    try:
        yield
    finally:
        _mode.plain = before


def solved_at_once(work: float, kernel: Kernel[..., Any], compute: Callable[[], Answer]) -> Answer:
    """The answer of a pure function: interpreted if there is so little work, else compiled.

    Args:
        work: S K (m + 1)^2. kernel: see `interpreted`. compute: the function.
    """
    with suppress(ZeroDivisionError), interpreted(work <= MAX_INTERPRETED_WORK, kernel):
        return compute()
    return compute()


def _stamp(dispatcher: Any, file: Path) -> None:
    """Let compiled code be stale where the text of its file, or of one that this imports, has changed, and only there.

    Numba looks at the time and size of the function's own file, and would go on using old code of what that calls.
    """
    cached: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(cached, "_version"):
        digests = (_digest(source) for source in sorted(_sources(file)))
        # Numba compares the version before it reads the rest, whose types a later version of psconrl may not have.
        cached._version += hashlib.blake2b("".join(digests).encode()).hexdigest()


@functools.cache
def _sources(file: Path) -> frozenset[Path]:
    """This file, the one that compiles, and all of the package's that it imports directly or through others."""
    found, waiting = {Path(__file__)}, [file]
    while waiting:
        source = waiting.pop()
        if source not in found:
            found.add(source)
            waiting.extend(_imported(source))
    return frozenset(found)


@functools.cache
def _imported(source: Path) -> tuple[Path, ...]:
    names = re.findall(r"^from psconrl\.([\w.]+) import", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
    files = (ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in names if name not in FOR_TYPES_ONLY)
    return tuple(file for file in files if file.is_file())


@functools.cache
def _digest(source: Path) -> str:
    return hashlib.blake2b(source.read_bytes()).hexdigest()
