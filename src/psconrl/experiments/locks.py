"""Locks on runs: several commands share a folder, and no run is done by two of them.

A lock is one on a byte of the folder's timings, the byte that the run's identity names; the file need not be that long.
The system releases it when the process that holds it ends, however it ends, and nothing is left behind. Where a file
system has no locks, commands work without them: they may do the same run twice, with the same result.
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


class RunLocks:
    """The locks that this process holds in a folder of results."""

    def __init__(self, path: Path) -> None:
        # Timings are noted through it, too: on some systems a process loses its locks on a file as soon as it closes
        # that file, however often it has opened it.
        self.file = _opened(path / "timings.jsonl") if fcntl is not None else None
        self._length = self._size()

    def acquire(self, identity: str) -> bool:
        """Lock a run; False if another process has it."""
        if self.file is not None:
            try:
                _lock(self.file, identity, True)
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    return False
                log.warning("runs cannot be locked here (%s); other commands may do the same ones", error.strerror)
                self.close()
        return True

    def release(self, identity: str) -> None:
        """Unlock a run."""
        if self.file is not None:
            with suppress(OSError):
                _lock(self.file, identity, False)

    def changed(self) -> bool:
        """Whether others have noted runs as done since the last call."""
        before, self._length = self._length, self._size()
        return self.file is None or before != self._length

    def noted(self, count: int) -> None:
        """Tell that so many bytes were noted by this process."""
        self._length += count

    def _size(self) -> int:
        return -1 if self.file is None else os.fstat(self.file).st_size

    def close(self) -> None:
        """Release all locks."""
        if self.file is not None:
            os.close(self.file)
            self.file = None


def _opened(path: Path) -> int | None:
    try:
        file = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError:
        return None
    if stat.S_ISREG(os.fstat(file).st_mode):
        return file
    os.close(file)
    return None


def _lock(file: int, identity: str, acquire: bool) -> None:
    module: Any = fcntl
    place = int(identity[:15], 16)
    if sys.platform == "linux":
        # A lock of the open file, not of the process: two sweeps in one process exclude each other, too.
        kind = module.F_WRLCK if acquire else module.F_UNLCK
        module.fcntl(file, module.F_OFD_SETLK, struct.pack("hhqqi0q", kind, os.SEEK_SET, place, 1, 0))
    else:
        module.lockf(file, (module.LOCK_EX | module.LOCK_NB) if acquire else module.LOCK_UN, 1, place)
