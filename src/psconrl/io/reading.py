"""The one way in which files from outside are read: with limits, before anything is made of them.

A file must be a regular one, so that a pipe blocks nothing, and its size is looked at first. What it unfolds to may
exceed its size by no more than `allowance` says: archives declare sizes, and these are compared with the limit before
memory is asked for, and with what really comes. JSON may be so deep and its numbers so long. Errors are of the type
that the caller names, and say which file, and where in it.
"""

from __future__ import annotations

import ast
import io
import json
import math
import os
import re
import stat
import struct
import tomllib
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psconrl.errors import PsconrlError

Failure = type[PsconrlError]

MEBIBYTE = 2**20
LARGEST_TEXT = 128 * MEBIBYTE
LARGEST_ARCHIVE = 4096 * MEBIBYTE
LARGEST_SETTINGS = MEBIBYTE // 2
"""Bytes of a file that people write by hand."""
DEEPEST = 32
"""Levels of lists and tables in each other."""
LONGEST_WHOLE = 40
"""Digits of a number that stays whole; a longer one is read as a float."""
MOST_ARRAYS = 64
LONGEST_HEADER = 1000


def allowance(size: int) -> int:
    """Bytes that the content of a file of a size may take in memory, unpacked."""
    return 128 * MEBIBYTE + 32 * size


def read_bytes(path: str | Path, error: Failure, most: int = LARGEST_ARCHIVE) -> bytes:
    """The content of a regular file that is not too large."""
    with opened(path, error, most) as file:
        content = file.read(min(most, os.fstat(file.fileno()).st_size) + 1)
    if len(content) > most:
        raise error(f"{path}: is larger than {_size(most)}, the most that is read")
    return content


@contextmanager
def opened(path: str | Path, error: Failure, most: int = LARGEST_ARCHIVE) -> Iterator[io.BufferedReader]:
    """A regular file that is not too large, open for reading."""
    try:
        # Without O_NONBLOCK the opening of a pipe would wait for someone to write to it.
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except FileNotFoundError:
        raise error(f"{path}: there is no such file") from None
    except OSError as problem:
        raise error(f"{path}: cannot be read: {problem.strerror}") from None
    except ValueError:
        raise error(f"{str(path)!r} is not the name of a file") from None
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        os.close(descriptor)
        raise error(f"{path}: is not a regular file")
    with os.fdopen(descriptor, "rb") as file:
        if status.st_size > most:
            raise error(f"{path}: has {_size(status.st_size)}; the most that is read is {_size(most)}")
        try:
            yield file
        except OSError as problem:
            if isinstance(problem, PsconrlError):
                raise
            raise error(f"{path}: cannot be read: {problem.strerror}") from None


@contextmanager
def refusing(path: str | Path, error: Failure) -> Iterator[None]:
    """While a model is made of what a file holds: whatever is wrong with it is said with the name of the file."""
    try:
        yield
    except error:
        raise
    except PsconrlError as problem:
        raise error(f"{path}: {problem}") from problem
    except MemoryError:
        raise error(f"{path}: needs more memory than there is") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as problem:
        raise error(f"{path}: a field has the wrong form: {_cut(str(problem), 200)}") from problem


def read_text(path: str | Path, error: Failure, most: int = LARGEST_TEXT) -> str:
    """The text in a file, UTF-8."""
    try:
        return read_bytes(path, error, most).decode("utf-8")
    except UnicodeDecodeError as problem:
        raise error(f"{path}: not a text file in UTF-8 (byte {problem.start})") from None


def read_json(path: str | Path, error: Failure, most: int = LARGEST_TEXT) -> Any:
    """The value in a JSON file."""
    return parse_json(read_text(path, error, most), error, f"{path}: ")


def parse_json(text: str, error: Failure, where: str) -> Any:
    """The value that a JSON text stands for; where: what error messages begin with."""

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            again = next(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
            raise error(f"{where}{shown(again)} stands twice in one table")
        return found

    try:
        value = json.loads(text, parse_int=whole_or_float, object_pairs_hook=table)
    except json.JSONDecodeError as problem:
        place = f"{problem.msg} at line {problem.lineno}, column {problem.colno}"
        raise error(f"{where}no complete JSON: {place}") from None
    except RecursionError:
        raise error(f"{where}nested too deeply to be read") from None
    except MemoryError:
        raise error(f"{where}needs more memory than there is") from None
    if _deeper(value, DEEPEST):
        raise error(f"{where}nested too deeply: more than {DEEPEST} levels")
    return value


def whole_or_float(digits: str) -> int | float:
    """A whole number of JSON; one with too many digits becomes a float, infinite if it must be."""
    return int(digits) if len(digits) <= LONGEST_WHOLE else float(digits)


def read_toml(path: str | Path, error: Failure) -> dict[str, Any]:
    """The tables in a TOML file."""
    text = read_text(path, error, LARGEST_SETTINGS)
    # The parser takes quadratic time for keys of many parts.
    for number, line in enumerate(text.split("\n"), start=1):
        if line.count(".") > 1000 or line.count("[") > 1000:
            raise error(f"{path}: line {number}: too long to be read as TOML")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise error(f"{path}: not a TOML file: {_cut(str(problem), 200)}") from None


def read_arrays(path: str | Path, error: Failure, known: Collection[str]) -> dict[str, NDArray[Any]]:
    """The arrays in an .npz archive: numbers and text, never objects; only of the names that are known."""
    content = read_bytes(path, error)
    if content.startswith(b"\x93NUMPY"):
        raise error(f"{path}: not an .npz archive; write it with cmdp.save or numpy.savez")
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            return _arrays(archive, len(content), f"{path}: ", error, known)
    except MemoryError:
        raise error(f"{path}: needs more memory than there is") from None
    except (zipfile.BadZipFile, zlib.error, OSError, EOFError, ValueError, LookupError, RuntimeError) as problem:
        if isinstance(problem, PsconrlError):
            raise
        reason = _cut(str(problem), 200)
        raise error(f"{path}: truncated or not an .npz archive ({reason}); write it again") from None


def _arrays(
    archive: zipfile.ZipFile, size: int, where: str, error: Failure, known: Collection[str]
) -> dict[str, NDArray[Any]]:
    members = archive.infolist()
    if len(members) > MOST_ARRAYS:
        raise error(f"{where}has {len(members)} arrays; no model has more than {MOST_ARRAYS}")
    unpacked = sum(member.file_size for member in members)
    if unpacked > allowance(size):
        raise error(
            f"{where}unpacks to {_size(unpacked)}, too much for {_size(size)}; "
            "write large models sparse, or without compression (numpy.savez)"
        )
    arrays: dict[str, NDArray[Any]] = {}
    for member in members:
        name = member.filename.removesuffix(".npy")
        if name not in known or name in arrays:
            twice = "has twice" if name in arrays else "has an unknown"
            raise error(f"{where}{twice} array {shown(name)} (known: {', '.join(sorted(known))})")
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise error(f"{where}array {name!r} is compressed in a way that is not read; write it with numpy.savez")
        with archive.open(member) as file:
            arrays[name] = _array(file, member.file_size, f"{where}array {name!r} ", error)
    return arrays


def _array(file: Any, size: int, where: str, error: Failure) -> NDArray[Any]:
    """One array in numpy's format, whose size is that of its file."""
    start = file.read(8)
    major = start[6] if len(start) == 8 else 0
    if not start.startswith(b"\x93NUMPY") or major not in (1, 2, 3):
        raise error(f"{where}is not in numpy's format")
    width = 2 if major == 1 else 4
    (length,) = struct.unpack("<H" if major == 1 else "<I", file.read(width).ljust(width, b"\0"))
    if length > LONGEST_HEADER:
        raise error(f"{where}has a header of {length} bytes; no plain array has that")
    kind, shape, fortran = _header(file.read(length).decode("latin-1"), where, error)
    expected = math.prod(shape) * kind.itemsize
    if expected != size - 8 - width - length:
        raise error(f"{where}is declared as {shape}, but has {size} bytes: truncated, or not what it says")
    content = file.read(expected)
    if len(content) != expected or file.read(1):
        raise error(f"{where}is truncated")
    if kind.kind == "U" and np.any(np.frombuffer(content, dtype=kind.byteorder + "u4") > 0x10FFFF):
        raise error(f"{where}holds what is not text")
    array: NDArray[Any] = np.frombuffer(content, dtype=kind)
    return array.reshape(shape, order="F" if fortran else "C")


_PLAIN = re.compile(r"(?:[<>=]?[iuf][248]|[<>=]?f16|\|?[iu]1|\|b1|\?|[<>=]?U[0-9]{1,6})")


def _header(text: str, where: str, error: Failure) -> tuple[np.dtype[Any], tuple[int, ...], bool]:
    """Kind of the entries, shape and order of an array, from the text of a dictionary that numpy writes."""
    try:
        said = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        said = None
    if not isinstance(said, dict) or said.keys() != {"descr", "fortran_order", "shape"}:
        raise error(f"{where}has a header that cannot be read")
    kind, fortran, shape = said["descr"], said["fortran_order"], said["shape"]
    if not isinstance(kind, str) or not _PLAIN.fullmatch(kind):
        raise error(f"{where}holds Python objects or other things; only plain numbers and text are read")
    whole = isinstance(shape, tuple) and all(type(n) is int and 0 <= n < 2**48 for n in shape)
    if not whole or len(shape) > 8 or type(fortran) is not bool:
        raise error(f"{where}has no proper shape")
    return np.dtype(kind), shape, fortran


def _deeper(value: Any, levels: int) -> bool:
    """Whether there are more than so many levels of lists and tables in each other."""
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(levels):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def _size(count: int) -> str:
    return f"{count:,} bytes" if count < 10 * MEBIBYTE else f"{count / MEBIBYTE:,.0f} MiB"


def shown(value: object) -> str:
    """A value from a file in a message: not longer than a line."""
    return _cut(repr(value), 60)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
