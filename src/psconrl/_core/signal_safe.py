"""Compiled code that Ctrl-C cannot crash.

At two moments numba runs Python code without checking whether it raised: when it builds named tuples from a kernel's
results, and when it loads a kernel from the cache. A KeyboardInterrupt just then is a segmentation fault, and takes the
user's session with it. So kernels that return named tuples defer SIGINT until the call is over, as it would have to
wait for the kernel itself, and all kernels defer it while they are loaded.
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

# The functions of `signal` convert numbers to enums and back, which takes longer than some kernels.
_set_handler: Callable[[int, Any], Any] = _signal.signal
_get_handler: Callable[[int], Any] = _signal.getsignal
_SIGINT = int(signal.SIGINT)
_MAIN_THREAD = threading.main_thread().ident
_unliteral: Callable[[Any], Any] = unliteral
_call: Callable[..., Any] = CPUDispatcher.__call__


class OneTypeDispatcher(CPUDispatcher):
    """A kernel that is compiled once for all values of a type: numba has a type of its own for each constant."""

    def get_call_template(self, args: Any, kws: Any) -> Any:
        """What numba asks for where one kernel calls another."""
        types = [_unliteral(kind) for kind in args], {name: _unliteral(kind) for name, kind in kws.items()}
        return super().get_call_template(*types)


class SignalSafeDispatcher(OneTypeDispatcher):
    """A kernel whose calls from Python defer SIGINT."""

    def __call__(self, *arguments: Any) -> Any:
        """Call the kernel; interrupts are handled afterwards."""
        return _deferring_sigint(_call, self, *arguments)


def signal_safe(kernel: Any) -> Any:
    """The same kernel, protected from interrupts if it is compiled."""
    if isinstance(kernel, CPUDispatcher):
        kernel._cache.load_overload = partial(_deferring_sigint, kernel._cache.load_overload)  # type: ignore[attr-defined]
        result = get_type_hints(kernel.py_func).get("return")
        kernel.__class__ = SignalSafeDispatcher if _has_named_tuples(result) else OneTypeDispatcher
    return kernel


def _deferring_sigint(function: Callable[..., Any], *arguments: Any) -> Any:
    handler = _get_handler(_SIGINT)
    if not callable(handler) or threading.get_ident() != _MAIN_THREAD:  # only the main thread handles signals
        return function(*arguments)
    pending: list[FrameType | None] = []
    _set_handler(_SIGINT, lambda number, frame: pending.append(frame))
    try:
        return function(*arguments)
    finally:
        _set_handler(_SIGINT, handler)
        if pending:
            handler(_SIGINT, pending[0])


def _has_named_tuples(result: Any) -> bool:
    return hasattr(result, "_fields") or any(map(_has_named_tuples, get_args(result)))
