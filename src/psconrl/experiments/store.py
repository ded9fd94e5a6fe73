"""The folder that holds an experiment: readable by people, safe against crashes and against other processes.

    experiment.json                                          what was asked for; written once
    runs/<env>/<agent>/seed-0007.<identity>.<checksum>.parquet   one file per run
    failures/<env>-<agent>-seed-0007.<identity>.txt          why a run failed; gone when it succeeds
    timings.jsonl                                            how long runs took, one line each

A run's file appears under its name only when it is whole, so its existence means that the run is done, and the
checksum in its name shows whether it still is what was written. No file is ever changed, and equal runs have equal
names and bytes, so several processes may work in one folder.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from psconrl.errors import PsconrlError
from psconrl.experiments.spec import Cell, Experiment

if TYPE_CHECKING:
    from psconrl.experiments.record import RunRecord

log = logging.getLogger(__name__)

_PART = re.compile(r"seed-(?P<seed>\d+)\.(?P<identity>[0-9a-f]{20})\.(?P<checksum>[0-9a-f]{16})\.parquet")
_ABANDONED = 3600.0
"""Seconds after which a half-written file must come from a process that died."""


class StoreError(PsconrlError, OSError):
    """A folder that holds no experiment, or cannot be written to."""


@dataclass(frozen=True)
class Part:
    """The file of one run."""

    path: Path
    seed: int
    identity: str
    checksum: str

    @staticmethod
    def at(path: Path) -> Part | None:
        """The part of that name, None for other files."""
        match = _PART.fullmatch(path.name)
        return match and Part(path, int(match["seed"]), match["identity"], match["checksum"])

    @property
    def key(self) -> tuple[Any, ...]:
        """Parts are sorted by environment, agent, seed, identity."""
        return (*self.path.parts[-3:-1], self.seed, self.identity, self.checksum)

    def read(self) -> bytes | None:
        """The content; None if it is not what was written, or has just been moved away."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return None
        return content if _checksum(content) == self.checksum else None


class Store:
    """The results in a folder; `create=True` makes it."""

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = Path(path)
        self._made: set[Path] = set()
        if create:
            try:
                self._folder("runs")
            except OSError as error:
                raise StoreError(f"{self.path}: cannot make the folder: {error.strerror}") from error
        elif not (self.path / "runs").is_dir():
            raise StoreError(f"{self.path}: there are no results here (no folder {self.path / 'runs'})")

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    # What was asked for

    def register(self, experiment: Experiment) -> Path:
        """Write the specification, unless it is there already; a different one gets a file of its own."""
        text = json.dumps(experiment.as_json(), indent=2) + "\n"
        stem = f"experiment-{_plain(experiment.name)}"
        names = ["experiment.json", f"{stem}.json", *(f"{stem}-{k}.json" for k in range(2, 10_000))]
        for name in names:
            path = self.path / name
            with suppress(FileExistsError):
                self._create(path, text.encode())
                return path
            if path.read_text(encoding="utf-8") == text:
                return path
        raise StoreError(f"{self.path}: it holds too many experiments")

    def experiments(self) -> dict[str, Mapping[str, Any]]:
        """The specifications in the folder, by file name, as JSON values."""
        paths = sorted(self.path.glob("experiment*.json"))
        return {path.name: json.loads(path.read_text(encoding="utf-8")) for path in paths}

    # Writing

    def write(self, cell: Cell, seed: int, content: bytes, *, confirmed: bool = True) -> Path:
        """Put a finished run in its place.

        confirmed: wait until the disk holds it. Without that, a file that a power failure cuts short is noticed by
        its checksum, and its run is done again.
        """
        folder = self._folder("runs", _plain(cell.env_name), _plain(cell.agent))
        path = folder / f"seed-{seed:04d}.{cell.identity(seed)}.{_checksum(content)}.parquet"
        os.replace(self._temporary(path, content, confirmed), path)
        with suppress(FileNotFoundError):
            self._failure(cell, seed).unlink()
        return path

    def note_time(self, cell: Cell, seed: int, seconds: float) -> None:
        """Append a line to the timings."""
        line = {
            "env": cell.env_name,
            "agent": cell.agent,
            "seed": seed,
            "identity": cell.identity(seed),
            "seconds": round(seconds, 6),
            "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        # One write to a file opened for appending is not torn apart by other processes.
        file = os.open(self.path / "timings.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            os.write(file, (json.dumps(line) + "\n").encode())
        finally:
            os.close(file)

    def note_failure(self, cell: Cell, seed: int, text: str) -> Path:
        """Keep why a run failed."""
        path = self._failure(cell, seed)
        self._folder("failures")
        os.replace(self._temporary(path, text.encode()), path)
        return path

    # Reading

    def parts(self) -> list[Part]:
        """All files of runs, sorted; they are not checked."""
        found = (Part.at(path) for path in (self.path / "runs").glob("*/*/seed-*.parquet"))
        return sorted((part for part in found if part is not None), key=lambda part: part.key)

    def identities(self) -> set[str]:
        """The runs that have a file; they are not checked."""
        return {part.identity for part in self.parts()}

    def verified(self) -> set[str]:
        """The runs whose file is sound; others are moved aside, and what dead processes left is removed."""
        sound = set()
        for part in self.parts():
            if part.read() is not None:
                sound.add(part.identity)
            elif part.path.exists():
                log.warning("%s: damaged (its checksum differs); moved aside, the run is done again", part.path)
                with suppress(FileNotFoundError):
                    part.path.replace(part.path.with_suffix(".damaged"))
        for path in self.path.rglob(".*.tmp"):
            with suppress(FileNotFoundError):
                if time.time() - path.stat().st_mtime > _ABANDONED:
                    path.unlink()
        return sound

    def records(self, identities: Collection[str] | None = None) -> Iterator[RunRecord]:
        """The runs one by one, sorted by environment, agent, seed and identity; all, or those asked for."""
        from psconrl.experiments.record import from_bytes

        previous = None
        for part in self.parts():
            if identities is not None and part.identity not in identities:
                continue
            content = part.read()
            if content is None:
                log.warning("%s: damaged (its checksum differs); left out", part.path)
            elif part.identity == previous:
                log.warning("%s: the same run gave another result before; left out", part.path)
            else:
                previous = part.identity
                yield from_bytes(content)

    def load(self) -> list[RunRecord]:
        """All runs in the folder, whatever code made them."""
        return list(self.records())

    def timings(self) -> dict[str, float]:
        """Seconds by identity; the last line counts."""
        return {str(entry["identity"]): float(entry["seconds"]) for entry in self._log()}

    def _log(self) -> list[dict[str, Any]]:
        """The lines of the timings that are whole."""
        try:
            lines = (self.path / "timings.jsonl").read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return []
        entries = []
        for line in lines:
            with suppress(ValueError):
                entry = json.loads(line)
                if isinstance(entry, dict) and {"identity", "seconds", "finished"} <= entry.keys():
                    entries.append(entry)
        return entries

    def finished(self) -> tuple[str, str] | None:
        """When the first and the last of the timed runs were done, by the clock of the machine; None if none was."""
        times = sorted(str(entry["finished"]) for entry in self._log())
        return (times[0], times[-1]) if times else None

    def failures(self) -> list[Path]:
        """The files that say why runs failed."""
        return sorted((self.path / "failures").glob("*.txt"))

    def export(self, path: str | Path) -> set[str]:
        """Write all curves as a tidy table, .csv or .parquet; the code identities found in it."""
        from psconrl.experiments.export import export

        return export(self.records(), path)

    def _folder(self, *names: str) -> Path:
        folder = self.path.joinpath(*names)
        if folder not in self._made:
            folder.mkdir(parents=True, exist_ok=True)
            self._made.add(folder)
        return folder

    def _failure(self, cell: Cell, seed: int) -> Path:
        name = f"{_plain(cell.env_name)}-{_plain(cell.agent)}-seed-{seed:04d}.{cell.identity(seed)}.txt"
        return self.path / "failures" / name

    def _temporary(self, path: Path, content: bytes, confirmed: bool = True) -> Path:
        """The content in a file beside `path`, safely on the disk if confirmed."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}-{os.urandom(4).hex()}.tmp")
        with temporary.open("wb") as file:
            file.write(content)
            if confirmed:
                file.flush()
                os.fsync(file.fileno())
        return temporary

    def _create(self, path: Path, content: bytes) -> None:
        """A new file that is whole from the start; FileExistsError if there is one."""
        temporary = self._temporary(path, content)
        try:
            os.link(temporary, path)
        except FileExistsError:
            raise
        except OSError:  # a file system without links
            with path.open("xb") as file:
                file.write(content)
        finally:
            temporary.unlink()


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]


def _plain(name: str) -> str:
    """The name as a file may be called everywhere."""
    return re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip(".") or "_"
