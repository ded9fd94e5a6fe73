"""The one way in which psconrl compiles: typed, without the interpreter lock, cached on disk."""

import hashlib
import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba

from psconrl._core.signal_safe import signal_safe

Args = ParamSpec("Args")
Result = TypeVar("Result")

ROOT = Path(__file__).parent.parent
FOR_TYPES_ONLY = ("_core.checks", "errors")


def njit(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """Compile a kernel; the plain twin stays reachable as `kernel.py_func`."""
    return _compiled(function)


def njit_inline(function: Callable[Args, Result]) -> Callable[Args, Result]:
    """The same, for kernels that become a part of those that use them.

    Small ones, as calls count references to arrays; and large ones with one caller, which Python calls: of a tree of
    calls every level is optimised anew.
    """
    return _compiled(function, inline="always")


def _compiled(function: Callable[Args, Result], **options: Any) -> Callable[Args, Result]:
    dispatcher = numba.njit(nogil=True, cache=True, error_model="numpy", **options)(function)
    _stamp(dispatcher, Path(function.__code__.co_filename))
    return cast(Callable[Args, Result], signal_safe(dispatcher))


def _stamp(dispatcher: Any, file: Path) -> None:
    """Let compiled code be stale where the text of its file, or of one that this imports, has changed, and only there.

    Numba looks at the time and size of the function's own file, and would go on using old code of what that calls.
    """
    cached: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(cached, "_source_stamp"):
        digests = (_digest(source) for source in sorted(_sources(file)))
        cached._source_stamp = hashlib.blake2b("".join(digests).encode()).hexdigest()


@cache
def _sources(file: Path) -> frozenset[Path]:
    """This file, the one that compiles, and all of the package's that it imports directly or through others."""
    found, waiting = {Path(__file__)}, [file]
    while waiting:
        source = waiting.pop()
        if source not in found:
            found.add(source)
            waiting.extend(_imported(source))
    return frozenset(found)


@cache
def _imported(source: Path) -> tuple[Path, ...]:
    names = re.findall(r"^from psconrl\.([\w.]+) import", source.read_text(encoding="utf-8"), flags=re.MULTILINE)
    files = (ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in names if name not in FOR_TYPES_ONLY)
    return tuple(file for file in files if file.is_file())


@cache
def _digest(source: Path) -> str:
    return hashlib.blake2b(source.read_bytes()).hexdigest()
