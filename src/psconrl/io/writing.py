"""The one way in which files are written: whole, or not at all.

The content goes to a temporary file beside the target, to the disk, and then takes the target's name in one step.
Whatever happens on the way, the old file stays as it was, and whoever fails removes the temporary one. A link is
replaced, never followed. The temporary file's name tells which process writes it, so that what a killed process
left can be told from what another one is writing.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from psconrl.errors import PsconrlError, WriteError

_TEMPORARY = re.compile(r"\.(?P<name>.+)\.(?P<home>[0-9a-f]{8})-(?P<pid>\d{1,10})-[0-9a-f]{8}\.tmp", re.DOTALL)
_LONGEST_NAME = 215
"""Bytes of a target's name to which the signs of a temporary file can still be added."""
_ABANDONED = 3600.0
"""Seconds after which a temporary file of another machine must come from a process that died."""


def write_bytes(path: str | Path, content: bytes, *, confirmed: bool = True) -> None:
    """Put the content in the place of a file; confirmed: wait until the disk holds it."""
    with replacing(path, confirmed=confirmed) as file:
        file.write(content)


def write_text(path: str | Path, text: str) -> None:
    """The same for text, in UTF-8; halves of characters are written out as \\udXXX, which JSON reads as the same."""
    write_bytes(path, text.encode("utf-8", "backslashreplace"))


@contextmanager
def replacing(path: str | Path, *, confirmed: bool = True) -> Iterator[BinaryIO]:
    """A file to write to that takes the place of `path` if the block ends well."""
    path = Path(path)
    with _told(path):
        temporary, descriptor = _begin(path)
    try:
        with _told(path), os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            if confirmed:
                os.fsync(file.fileno())
        with _told(path):
            os.replace(temporary, path)
            if confirmed:
                _confirm_name(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def create_bytes(path: Path, content: bytes) -> None:
    """A new file that is whole from the start; FileExistsError if the name is taken."""
    with _told(path):
        temporary, descriptor = _begin(path)
    try:
        with _told(path):
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
    if match["home"] == _home():
        return not _lives(int(match["pid"]))
    return time.time() - entry.stat(follow_symlinks=False).st_mtime > _ABANDONED


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except OSError:
        return True
    return True


def _begin(path: Path) -> tuple[Path, int]:
    """A new temporary file beside the target, open for writing."""
    with suppress(FileNotFoundError):
        kind = path.lstat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISLNK(kind)):
            raise WriteError(f"{path}: is there already, and is not a file")
    if not path.parent.is_dir():
        raise WriteError(f"{path}: there is no folder {path.parent}; make it first")
    # The longest names leave no room for more.
    short = len(os.fsencode(path.name)) <= _LONGEST_NAME
    stem = path.name if short else hashlib.sha256(os.fsencode(path.name)).hexdigest()
    name = f".{stem}.{_home()}-{os.getpid()}-{os.urandom(4).hex()}.tmp"
    temporary = path.with_name(name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
    return temporary, os.open(temporary, flags, 0o666)


@contextmanager
def _told(path: Path) -> Iterator[None]:
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


def _confirm_name(folder: Path) -> None:
    """Wait until the disk holds the names in a folder, where the system can do that."""
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


@cache
def _home() -> str:
    """A hash of this machine, since it started, and of the processes that we see: there a number is one process."""
    known = []
    for source in ("/proc/sys/kernel/random/boot_id", "/etc/machine-id"):
        with suppress(OSError):
            known.append(Path(source).read_text(encoding="utf-8"))
    with suppress(OSError):
        known.append(str(os.stat("/proc/self/ns/pid").st_ino))
    if not known:
        import platform

        known.append(platform.node())
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:8]
