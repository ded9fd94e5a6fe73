"""The one way in which files from outside are read: with limits, before anything is made of them.

A file must be a regular one, so that a pipe blocks nothing, and not too large. What it unpacks to may exceed its size
by no more than `allowance` says. No file can run code: arrays are never pickled. Errors are of the type that the caller
names, and say which file, and where in it.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import stat
import tokenize
import tomllib
import zipfile
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from psconrl._core.checks import short_repr
from psconrl.errors import PsconrlError

ErrorType = type[PsconrlError]

MEBIBYTE = 2**20
MAX_TEXT = 128 * MEBIBYTE
MAX_ARCHIVE = 4096 * MEBIBYTE
MAX_SETTINGS = MEBIBYTE // 2
"""Bytes of a file that people write by hand."""
MAX_DEPTH = 32
"""Levels of lists and tables in each other."""
MAX_DIGITS = 40
"""Digits of a whole number; a longer one is read as a float."""
MODEL_SUFFIXES = (".npz", ".json", ".drn", ".drn.gz", ".umb")
"""What the names of model files end in."""


GZIP = b"\x1f\x8b"
"""What gzip files begin with."""


def is_model_file(name: str) -> bool:
    """Whether a name is that of a model file, by its ending; a folder is none."""
    return name.lower().endswith(MODEL_SUFFIXES) and not os.path.isdir(name)


def allowance(size: int) -> int:
    """Bytes that the content of a file of a size may take in memory, unpacked."""
    return 128 * MEBIBYTE + 32 * size


def read_bytes(path: str | Path, error: ErrorType, most: int = MAX_ARCHIVE) -> bytes:
    """The content of a regular file that is not too large."""
    with opened(path, error, most) as file:
        content = file.read(min(most, os.fstat(file.fileno()).st_size) + 1)
    if len(content) > most:
        raise error(f"{path}: is larger than {_size(most)}, the most that is read")
    return content


@contextmanager
def opened(path: str | Path, error: ErrorType, most: int = MAX_ARCHIVE) -> Iterator[io.BufferedReader]:
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
def reraise_as(error: ErrorType, path: str | Path) -> Iterator[None]:
    """While something is made of what a file holds: whatever is wrong with it is raised with the name of the file."""
    try:
        yield
    except PsconrlError as problem:
        if isinstance(problem, error) and str(path) in str(problem):
            raise
        raise error(f"{path}: {problem}") from problem
    except MemoryError:
        raise error(f"{path}: needs more memory than there is") from None
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as problem:
        raise error(f"{path}: a field has the wrong form: {str(problem)[:200]}") from problem


def read_text(path: str | Path, error: ErrorType, most: int = MAX_TEXT) -> str:
    """The text in a file, UTF-8."""
    content = read_bytes(path, error, most)
    if content.startswith(GZIP):
        content = _unzipped(content, path, error, most)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as problem:
        raise error(f"{path}: not a text file in UTF-8 (byte {problem.start})") from None


def _unzipped(content: bytes, path: str | Path, error: ErrorType, most: int) -> bytes:
    try:
        with gzip.open(io.BytesIO(content)) as file:
            text = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as problem:
        raise error(f"{path}: truncated or not a gzip file ({problem}); write it again") from None
    if len(text) > most:
        raise error(f"{path}: unpacks to more than {_size(most)}, the most that is read")
    return text


def read_json(path: str | Path, error: ErrorType, most: int = MAX_TEXT) -> Any:
    """The value in a JSON file."""
    return parse_json(read_text(path, error, most), error, f"{path}: ")


def parse_json(text: str, error: ErrorType, where: str) -> Any:
    """The value that a JSON text stands for; where: what error messages begin with."""

    def table(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        for name, value in pairs:
            if name in fields:
                raise error(f"{where}{short_repr(name)} stands twice in one table")
            fields[name] = value
        return fields

    try:
        value = json.loads(text, parse_int=whole_or_float, object_pairs_hook=table)
    except json.JSONDecodeError as problem:
        place = f"{problem.msg} at line {problem.lineno}, column {problem.colno}"
        raise error(f"{where}no complete JSON: {place}") from None
    except RecursionError:
        raise error(f"{where}nested too deeply to be read") from None
    except MemoryError:
        raise error(f"{where}needs more memory than there is") from None
    if _is_deeper(value, MAX_DEPTH):
        raise error(f"{where}nested too deeply: more than {MAX_DEPTH} levels")
    return value


def whole_or_float(digits: str) -> int | float:
    """A whole number of JSON; one with too many digits becomes a float, infinite if it must be."""
    return int(digits) if len(digits) <= MAX_DIGITS else float(digits)


MAX_TOML_DEPTH = 1000
"""Dots, or brackets, in a line."""


def read_toml(path: str | Path, error: ErrorType) -> dict[str, Any]:
    """The tables in a TOML file."""
    text = read_text(path, error, MAX_SETTINGS)
    # The parser needs quadratic time and memory for keys of many parts.
    for number, line in enumerate(text.split("\n"), start=1):
        if max(line.count("."), line.count("[")) > MAX_TOML_DEPTH:
            raise error(f"{path}: line {number}: too deep to be read as TOML")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise error(f"{path}: not a TOML file: {str(problem)[:200]}") from None


def read_npz(path: str | Path, error: ErrorType, known: Collection[str]) -> dict[str, NDArray[Any]]:
    """The arrays in an .npz archive: numbers and text, never objects; only of the names that are known."""
    content = read_bytes(path, error)
    if content.startswith(b"\x93NUMPY"):
        raise error(f"{path}: not an .npz archive; write it with cmdp.save or numpy.savez")
    arrays: dict[str, NDArray[Any]] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
            unpacked = sum(member.file_size for member in members)
            if unpacked > allowance(len(content)):
                raise error(
                    f"{path}: unpacks to {_size(unpacked)}, too much for {_size(len(content))}; "
                    "write large models sparse, or without compression (numpy.savez)"
                )
            for member in members:
                name = member.filename.removesuffix(".npy")
                if name not in known or name in arrays:
                    fault = "has twice the" if name in arrays else "has an unknown"
                    raise error(f"{path}: {fault} array {short_repr(name)} (known: {', '.join(sorted(known))})")
                with archive.open(member) as file:  # no more is unpacked than the directory declares
                    arrays[name] = _array(file.read(member.file_size), f"{path}: array {name!r}", error)
    except MemoryError:
        raise error(f"{path}: needs more memory than there is") from None
    except PsconrlError:
        raise
    except (
        zipfile.BadZipFile,
        zlib.error,
        OSError,
        EOFError,
        ValueError,
        LookupError,
        RuntimeError,
        SystemError,
    ) as problem:
        raise error(f"{path}: truncated or not an .npz archive ({str(problem)[:200]}); write it again") from None
    return arrays


def _array(content: bytes, what: str, error: ErrorType) -> NDArray[Any]:
    """One array in numpy's format."""
    # The array would be made before its content is read, so the size that its header declares comes first.
    header = io.BytesIO(content)
    version = np.lib.format.read_magic(header)
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    try:
        shape, _, kind = read_header(header)
    except (SyntaxError, TypeError, tokenize.TokenError) as problem:  # numpy reads Python literals
        raise error(f"{what} has a damaged header ({str(problem)[:80]}); write it again") from None
    if kind.kind not in "biufU":
        raise error(f"{what} holds Python objects or other things; only plain numbers and text are read")
    expected, found = int(np.prod(shape, dtype=object)) * kind.itemsize, len(content) - header.tell()
    if expected != found:
        raise error(f"{what} is declared as {shape}, but has {found} bytes: truncated, or not what it says")
    array: NDArray[Any] = np.load(io.BytesIO(content), allow_pickle=False)
    if kind.kind == "U":
        array.tolist()  # ValueError for what is no text
    return array


def _is_deeper(value: Any, levels: int) -> bool:
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
