"""Locks on runs: several commands share a folder, and no run is done by two of them.

A lock is one on a byte of the folder's timings, the byte that the run's identity names; the file need not be that long.
The system releases it when the process that holds it ends, however it ends, and nothing is left behind. Where a file
system has no locks, commands work without them: they may do the same run twice, with the same result.
"""

from __future__ import annotations

import errno
import logging
import os
import struct
import sys
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

from psconrl.errors import StoreError

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
        self._path = path / "timings.jsonl"
        try:
            self._file = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as error:
            raise StoreError(f"{self._path}: cannot be written: {error.strerror}") from error
        self._locking, self._length = fcntl is not None, self._size()

    def acquire(self, identity: str) -> bool:
        """Lock a run; False if another process has it."""
        if self._locking:
            try:
                _lock(self._file, identity, True)
            except OSError as error:
                if error.errno in (errno.EACCES, errno.EAGAIN):
                    return False
                log.warning("runs cannot be locked here (%s); other commands may do the same ones", error.strerror)
                self._locking = False
        return True

    def release(self, identity: str) -> None:
        """Unlock a run."""
        if self._locking:
            with suppress(OSError):
                _lock(self._file, identity, False)

    def changed(self) -> bool:
        """Whether others have noted runs as done since the last call."""
        before, self._length = self._length, self._size()
        return not self._locking or before != self._length

    def note(self, line: bytes) -> None:
        """Append a line to the timings; one write to a file opened for appending is not torn apart by other processes.

        Raises:
            StoreError: the disk is full.
        """
        try:
            self._length += os.write(self._file, line)
        except OSError as error:
            raise StoreError(f"{self._path}: cannot be written: {error.strerror}") from error

    def _size(self) -> int:
        return os.fstat(self._file).st_size

    def close(self) -> None:
        """Release all locks."""
        os.close(self._file)


def _lock(file: int, identity: str, acquire: bool) -> None:
    module: Any = fcntl
    place = int(identity[:15], 16)
    if sys.platform == "linux":
        # A lock of the open file, not of the process: two sweeps in one process exclude each other, too.
        kind = module.F_WRLCK if acquire else module.F_UNLCK
        module.fcntl(file, module.F_OFD_SETLK, struct.pack("hhqqi0q", kind, os.SEEK_SET, place, 1, 0))
    else:
        module.lockf(file, (module.LOCK_EX | module.LOCK_NB) if acquire else module.LOCK_UN, 1, place)
