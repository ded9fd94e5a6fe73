"""Compiled code that an interrupt cannot break.

At two moments numba runs code in Python and does not look whether that raised an error: when it makes named tuples of
a kernel's results, and when a kernel comes from the disk. An interrupt from the keyboard just then would be a
segmentation fault, and take the user's session with it. So kernels with such results let an interrupt wait until the
call is over, as it would have to wait for the kernel itself, and all kernels until they are loaded.
"""

import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any, get_args, get_type_hints

from numba.core.registry import CPUDispatcher
from numba.core.types import unliteral

# Those of `signal` turn numbers into names and back, which takes longer than some kernels.
_set: Callable[[int, Any], Any] = _signal.signal
_get: Callable[[int], Any] = _signal.getsignal

_SIGINT = int(signal.SIGINT)
_MAIN = threading.main_thread().ident


_plain: Callable[[Any], Any] = unliteral


class Kernel(CPUDispatcher):
    """A kernel that is compiled once for all numbers of a kind: to numba a constant is of a kind of its own."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What numba asks for where a kernel calls another."""
        plain = [_plain(kind) for kind in args], {name: _plain(kind) for name, kind in kws.items()}
        return super().get_call_template(*plain)


class Unbroken(Kernel):
    """A kernel that is never left half-way when Python calls it."""

    def __call__(self, *arguments: Any) -> Any:
        """Call it; interrupts are handled afterwards."""
        return _whole(_call, self, *arguments)


_call: Callable[..., Any] = CPUDispatcher.__call__


def _whole(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a function returns; interrupts are handled afterwards."""
    handler = _get(_SIGINT)
    if not callable(handler) or threading.get_ident() != _MAIN:  # only the main thread handles signals
        return function(*arguments)
    heard: list[FrameType | None] = []
    _set(_SIGINT, lambda number, frame: heard.append(frame))
    try:
        return function(*arguments)
    finally:
        _set(_SIGINT, handler)
        if heard:
            handler(_SIGINT, heard[0])


def unbroken(kernel: Any) -> Any:
    """The same kernel, protected, if it is compiled."""
    if isinstance(kernel, CPUDispatcher):
        kernel._cache.load_overload = partial(_whole, kernel._cache.load_overload)  # type: ignore[attr-defined]
        kernel.__class__ = Unbroken if _has_named_tuples(_result(kernel.py_func)) else Kernel
    return kernel


def _result(function: Callable[..., Any]) -> Any:
    result = function.__annotations__.get("return")
    return get_type_hints(function)["return"] if isinstance(result, str) else result


def _has_named_tuples(result: Any) -> bool:
    return hasattr(result, "_fields") or any(map(_has_named_tuples, get_args(result)))
