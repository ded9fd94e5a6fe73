"""The one way in which psconrl compiles: typed, without the interpreter lock, cached on disk."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

Args = ParamSpec("Args")
Result = TypeVar("Result")


def njit(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """Compile a kernel; the plain twin stays reachable as `kernel.py_func`."""
    return cast(Callable[Args, Result], numba.njit(nogil=True, cache=True, error_model="numpy")(function))
