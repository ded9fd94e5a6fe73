"""Claims on runs: several commands share a folder, and no run is done by two of them.

A claim is a lock on one byte of the folder's timings, the byte that the run's identity names; the file need not be that
long. The system gives a lock back when the process that holds it ends, however it ends, so the claims of a dead process
are free at once, and nothing is left behind. Where a file system knows no locks, or links and the like stand in the
file's place, commands work without claims: they may do the same run twice, with the same result.
"""

from __future__ import annotations

import errno
import logging
import os
import stat
import struct
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # not on this system
    fcntl = None

log = logging.getLogger(__name__)

_TAKEN = (errno.EACCES, errno.EAGAIN)


class Claims:
    """The claims that this process holds in a folder of results."""

    def __init__(self, path: Path) -> None:
        # Timings are noted through it, too: on some systems a process loses its locks on a file as soon as it closes
        # that file, however often it has opened it.
        self.file = _opened(path / "timings.jsonl") if fcntl is not None else None
        self._length = self._now()

    def take(self, identity: str) -> bool:
        """Claim a run; False if another process has it."""
        if self.file is None:
            return True
        try:
            _lock(self.file, _place(identity), True)
        except OSError as error:
            if error.errno in _TAKEN:
                return False
            log.warning("claims on runs cannot be kept here (%s); other commands may do the same runs", error.strerror)
            self.close()
        return True

    def release(self, identity: str) -> None:
        """Give a claim back."""
        if self.file is not None:
            with suppress(OSError):
                _lock(self.file, _place(identity), False)

    def news(self) -> bool:
        """Whether others have noted runs as done since the last call."""
        before, self._length = self._length, self._now()
        return self.file is None or before != self._length

    def noted(self, count: int) -> None:
        """Say that so many bytes were noted by ourselves."""
        self._length += count

    def _now(self) -> int:
        return -1 if self.file is None else os.fstat(self.file).st_size

    def close(self) -> None:
        """Give all claims back."""
        if self.file is not None:
            os.close(self.file)
            self.file = None


def _opened(path: Path) -> int | None:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        file = os.open(path, flags, 0o666)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def _place(identity: str) -> int:
    return int(identity[:15], 16)


def _lock(file: int, place: int, take: bool) -> None:
    module: Any = fcntl
    if sys.platform == "linux":
        # A lock of the open file, not of the process: two sweeps in one process exclude each other, too.
        kind = module.F_WRLCK if take else module.F_UNLCK
        module.fcntl(file, module.F_OFD_SETLK, struct.pack("hhqqi0q", kind, os.SEEK_SET, place, 1, 0))
    else:
        module.lockf(file, (module.LOCK_EX | module.LOCK_NB) if take else module.LOCK_UN, 1, place)
