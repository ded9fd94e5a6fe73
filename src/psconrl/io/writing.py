"""The one way in which files are written: atomically, so that a file is whole or not there.

The content goes to a temporary file beside the target, to the disk, and then takes the target's name in one step. If
anything fails, the old file stays as it was, and the temporary one is removed. A link is replaced, never followed. The
temporary file's name tells which process writes it, so that what a killed process left behind can be removed.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from psconrl.errors import PsconrlError, WriteError
from psconrl.io import reading

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<host>[0-9a-f]{8})-(?P<pid>\d{1,10})-[0-9a-f]{8}\.tmp", re.DOTALL)
_MAX_NAME = 215
"""Bytes of a target's name to which the parts of a temporary file's name can still be added."""
_ABANDONED_SECONDS = 3600.0
"""Age from which on a temporary file of another machine must come from a process that died."""


def write_bytes(path: str | Path, content: bytes, *, confirmed: bool = True) -> None:
    """Replace a file by the content; confirmed: wait until the disk holds it."""
    with replacing(path, confirmed=confirmed) as file:
        file.write(content)


def write_text(path: str | Path, text: str) -> None:
    """Replace a file by the text, in UTF-8; lone surrogates are written as \\udXXX, which JSON reads as the same."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


def write_npz(path: str | Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Replace a file by an .npz archive of the arrays."""
    # What unpacks to too much for its size is refused when it is read, so large archives are not compressed.
    large = sum(array.nbytes for array in arrays.values()) > reading.allowance(0)
    with replacing(path) as file:
        (np.savez if large else np.savez_compressed)(file, **arrays)  # type: ignore[arg-type]


@contextmanager
def replacing(path: str | Path, *, confirmed: bool = True) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` if the block ends well."""
    path = Path(path)
    with _write_errors(path):
        temporary, descriptor = _create_temporary(path)
    try:
        with _write_errors(path), os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if confirmed:
                os.fsync(file.fileno())
        with _write_errors(path):
            os.replace(temporary, path)
            if confirmed:
                _sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def create_bytes(path: Path, content: bytes) -> None:
    """A new file that is whole from the start; FileExistsError if the name is taken."""
    with _write_errors(path):
        temporary, descriptor = _create_temporary(path)
    try:
        with _write_errors(path):
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            try:
                os.link(temporary, path)
            except FileExistsError:
                raise
            except OSError:  # a file system without links
                with path.open("xb") as file:
                    file.write(content)
    finally:
        with suppress(OSError):
            temporary.unlink()


def remove_abandoned(folder: Path, wanted: re.Pattern[str]) -> None:
    """Remove temporary files of dead processes whose target's name matches; nothing else is touched."""
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _TEMPORARY.fullmatch(entry.name)
            if match and wanted.fullmatch(match["name"]):
                with suppress(OSError):
                    if entry.is_file(follow_symlinks=False) and _is_abandoned(entry, match):
                        os.unlink(entry.path)


def _is_abandoned(entry: os.DirEntry[str], match: re.Match[str]) -> bool:
    if match["host"] != _host():
        return time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED_SECONDS
    try:
        os.kill(int(match["pid"]), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:  # it lives, but belongs to somebody else
        return False
    return False


def _create_temporary(path: Path) -> tuple[Path, int]:
    """A new temporary file beside the target, open for writing."""
    with suppress(FileNotFoundError):
        kind = path.lstat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
            raise WriteError(f"{path}: already exists, and is not a file")
    if not path.parent.is_dir():
        raise WriteError(f"{path}: there is no folder {path.parent}; make it first")
    short = len(os.fsencode(path.name)) <= _MAX_NAME
    stem = path.name if short else hashlib.sha256(os.fsencode(path.name)).hexdigest()
    temporary = path.with_name(f".{stem}.{_host()}-{os.getpid()}-{os.urandom(4).hex()}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    return temporary, os.open(temporary, flags, 0o666)


@contextmanager
def _write_errors(path: Path) -> Iterator[None]:
    """Errors of the system name the file that was asked for, not the temporary one."""
    try:
        yield
    except (FileExistsError, PsconrlError):
        raise
    except OSError as error:
        raise WriteError(error.errno, error.strerror or str(error), str(path)) from error
    except ValueError as error:
        if "null" not in str(error) and not isinstance(error, UnicodeError):
            raise
        raise WriteError(f"{str(path)!r} is not the name of a file") from error


def _sync_folder(folder: Path) -> None:
    """Wait until the disk holds the names in a folder, where the system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@cache
def _host() -> str:
    """A hash of this machine's name, and of the processes that we see: there a number is one process."""
    namespace = Path("/proc/self/ns/pid")
    processes = str(namespace.stat().st_ino) if namespace.exists() else ""
    return hashlib.sha256(f"{platform.node()} {processes}".encode()).hexdigest()[:8]
