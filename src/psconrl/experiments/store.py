"""The folder that holds an experiment: readable by people, safe against crashes and against other processes.

    experiment.json                                          what was asked for; written once
    runs/<env>/<agent>/seed-0007.<identity>.<checksum>.parquet   one file per run
    failures/<env>-<agent>-seed-0007.<identity>.txt          why a run failed; gone when it succeeds
    timings.jsonl                                            how long runs took, one line each

A run's file appears under its name only when it is whole, so its existence means that the run is done, and the
checksum in its name shows whether it still is what was written. No file is ever changed, and equal runs have equal
names and bytes, so several processes may work in one folder; `locks` keeps them from doing the same run.

Whatever lies in the folder may come from a stranger. A file that is not what it should be is named in a warning and
left out; the rest can be used.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from psconrl.errors import PsconrlError, RunFileError, SpecError, StoreError
from psconrl.experiments import export as exporting
from psconrl.experiments import record as recording
from psconrl.experiments.record import RunRecord
from psconrl.experiments.spec import Cell, Experiment, check_document
from psconrl.io import reading, writing
from psconrl.io.text import file_name

log = logging.getLogger(__name__)

_RUN_FILE = re.compile(r"seed-(?P<seed>\d{1,18})\.(?P<identity>[0-9a-f]{20})\.(?P<checksum>[0-9a-f]{16})\.parquet")
_NOTE = re.compile(r".*\.[0-9a-f]{20}\.txt")
_SPECIFICATION = re.compile(r"experiment.*\.json")
_FINISHED = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}")
_MAX_FILE_BYTES = 1024 * reading.MEBIBYTE


@dataclass(frozen=True)
class RunFile:
    """The file of one run."""

    path: Path
    seed: int
    identity: str
    checksum: str

    @staticmethod
    def at(path: Path) -> RunFile | None:
        """The file of a run, by its name; None for other files."""
        match = _RUN_FILE.fullmatch(path.name)
        return match and RunFile(path, int(match["seed"]), match["identity"], match["checksum"])

    @property
    def key(self) -> tuple[Any, ...]:
        """Files are sorted by environment, agent, seed, identity."""
        return (*self.path.parts[-3:-1], self.seed, self.identity, self.checksum)

    def read(self) -> bytes:
        """The content; RunFileError if it is not what was written."""
        content = reading.read_bytes(self.path, RunFileError, _MAX_FILE_BYTES)
        if _checksum(content) != self.checksum:
            raise RunFileError(f"{self.path}: damaged (its checksum differs)")
        return content

    def record(self) -> RunRecord:
        """The run; RunFileError if there is anything wrong with it, or if it is another one than the name says."""
        try:
            record = recording.from_bytes(self.read())
        except RunFileError as error:
            raise RunFileError(f"{self.path}: damaged ({error})") from error
        folders = tuple(map(file_name, (record.env, record.agent)))
        if (record.seed, record.identity, folders) != (self.seed, self.identity, self.path.parts[-3:-1]):
            raise RunFileError(f"{self.path}: damaged (it holds another run than its name says)")
        return record


class Store:
    """The results in a folder; `create=True` makes it."""

    def __init__(self, path: str | Path, *, create: bool = False) -> None:
        self.path = Path(path)
        self._made: set[Path] = set()
        if create:
            self._folder("runs")
        elif not (self.path / "runs").is_dir():
            raise StoreError(f"{self.path}: there are no results here (no folder {self.path / 'runs'})")

    def __repr__(self) -> str:
        return f"Store({str(self.path)!r})"

    # What was asked for

    def register(self, experiment: Experiment) -> Path:
        """Write the specification of an experiment, unless it is there already.

        Args:
            experiment: what is to be run. One that differs from those in the folder gets a file of its own.

        Returns:
            The file with the specification.

        Raises:
            StoreError: the folder holds thousands of other experiments.
        """
        text = json.dumps(experiment.as_json(), indent=2) + "\n"
        stem = f"experiment-{file_name(experiment.name)}"
        names = ["experiment.json", f"{stem}.json", *(f"{stem}-{k}.json" for k in range(2, 10_000))]
        content = text.encode()
        for name in names:
            path = self.path / name
            with suppress(FileExistsError):
                writing.create_bytes(path, content)
                return path
            with suppress(RunFileError):
                if reading.read_bytes(path, RunFileError, len(content)) == content:
                    return path
        raise StoreError(f"{self.path}: it holds too many experiments")

    def experiments(self) -> dict[str, Mapping[str, Any]]:
        """The specifications in the folder, by file name, as JSON values; what is no specification is left out."""
        documents: dict[str, Mapping[str, Any]] = {}
        for path in sorted(self.path.glob("experiment*.json")):
            try:
                document = reading.read_json(path, SpecError)
                check_document(document, f"{path}: ")
                documents[path.name] = document
            except PsconrlError as error:
                log.warning("%s; left out", error)
        return documents

    # Writing

    def write(self, cell: Cell, seed: int, content: bytes, *, confirmed: bool = True) -> Path:
        """Put a finished run in its place.

        Args:
            cell: what was run.
            seed: of the run.
            content: the Parquet file.
            confirmed: whether to wait until the disk holds it. Without that, a file that a power failure cuts short is
                noticed by its checksum, and its run is done again.

        Returns:
            The file.

        Raises:
            WriteError: the file cannot be written.
        """
        folder = self._folder("runs", file_name(cell.env_name), file_name(cell.agent))
        path = folder / f"seed-{seed:04d}.{cell.identity(seed)}.{_checksum(content)}.parquet"
        writing.write_bytes(path, content, confirmed=confirmed)
        with suppress(OSError):
            self.failure_path(cell, seed).unlink()
        return path

    @staticmethod
    def timing(cell: Cell, seed: int, seconds: float) -> bytes:
        """A line of the timings.

        Args:
            cell: what was run.
            seed: of the run.
            seconds: how long it took.

        Returns:
            The line, for `RunLocks.note`.
        """
        line = {
            "env": cell.env_name,
            "agent": cell.agent,
            "seed": seed,
            "identity": cell.identity(seed),
            "seconds": round(seconds, 6),
            "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        return (json.dumps(line) + "\n").encode()

    def note_failure(self, cell: Cell, seed: int, text: str) -> Path:
        """Keep why a run failed.

        Args:
            cell: what was run.
            seed: of the run.
            text: the traceback.

        Returns:
            The file with the text.
        """
        path = self.failure_path(cell, seed)
        self._folder("failures")
        writing.write_text(path, text)
        return path

    def failure(self, cell: Cell, seed: int) -> tuple[int, str] | None:
        """How a run failed in this or another process.

        Args:
            cell: what was run.
            seed: of the run.

        Returns:
            When, in nanoseconds since the epoch, and the last line of the traceback; None if it did not fail.
        """
        path = self.failure_path(cell, seed)
        try:
            when = path.lstat().st_mtime_ns
            lines = reading.read_text(path, RunFileError, 16 * reading.MEBIBYTE).strip().splitlines()
        except (OSError, RunFileError):
            return None
        return when, lines[-1] if lines else "it failed"

    # Reading

    def files(self) -> list[RunFile]:
        """All files of runs, sorted, sound or not."""
        files = (RunFile.at(path) for path in (self.path / "runs").glob("*/*/seed-*.parquet"))
        return sorted((file for file in files if file is not None), key=lambda file: file.key)

    def identities(self) -> set[str]:
        """The identities of the runs that have a file, sound or not."""
        return {file.identity for file in self.files()}

    def has(self, cell: Cell, seed: int) -> bool:
        """Whether a run has a file, sound or not.

        Args:
            cell: what is to be run.
            seed: of the run.
        """
        start = f"seed-{seed:04d}.{cell.identity(seed)}."
        try:
            names = os.listdir(self.path / "runs" / file_name(cell.env_name) / file_name(cell.agent))
        except OSError:
            return False
        return any(name.startswith(start) and _RUN_FILE.fullmatch(name) for name in names)

    def verified(self, identities: Collection[str]) -> set[str]:
        """Find out which runs need not be done again.

        Damaged files are moved aside, and temporary files that dead processes left are removed.

        Args:
            identities: of the runs in question.

        Returns:
            Those of them that have a sound file.
        """
        sound = set()
        for file in self.files():
            if file.identity not in identities:
                continue
            try:
                file.record()
                sound.add(file.identity)
            except RunFileError as error:
                if file.path.is_symlink() or file.path.exists():
                    log.warning("%s; moved aside, the run is done again", error)
                    with suppress(OSError):
                        file.path.replace(file.path.with_suffix(".damaged"))
        self._tidy()
        return sound

    def _tidy(self) -> None:
        """Remove the temporary files of processes that died here, and no others."""
        writing.remove_abandoned(self.path, _SPECIFICATION)
        writing.remove_abandoned(self.path / "failures", _NOTE)
        for folder in (self.path / "runs").glob("*/*"):
            writing.remove_abandoned(folder, _RUN_FILE)

    def records(self, identities: Collection[str] | None = None) -> Iterator[RunRecord]:
        """The runs one by one, sorted by environment, agent, seed and identity.

        A file that is damaged, or does not fit the others, is named in a warning and left out.

        Args:
            identities: of the runs that are wanted; all by default.

        Returns:
            The runs, each read when it is its turn.
        """
        previous = None
        cells: dict[str, tuple[Any, ...]] = {}
        for file in self.files():
            if identities is not None and file.identity not in identities:
                continue
            try:
                record = file.record()
            except RunFileError as error:
                log.warning("%s; left out", error)
                continue
            if file.identity == previous:
                log.warning("%s: the same run gave another result before; left out", file.path)
            elif cells.setdefault(record.cell, _common(record)) != _common(record):
                log.warning("%s: differs from the other runs of its cell in what was run; left out", file.path)
            else:
                previous = file.identity
                yield record

    def load(self) -> list[RunRecord]:
        """All runs in the folder, whatever code made them."""
        return list(self.records())

    def timings(self) -> dict[str, float]:
        """Seconds by identity; the last line counts."""
        return {str(entry["identity"]): float(entry["seconds"]) for entry in self._log()}

    def _log(self) -> list[dict[str, Any]]:
        """The lines of the timings that are whole; others are left out, as they decide nothing."""
        try:
            lines = (self.path / "timings.jsonl").read_bytes().splitlines()
        except OSError:
            return []
        return [entry for line in lines if (entry := _timing(line)) is not None]

    def finished(self) -> tuple[str, str] | None:
        """When the first and the last of the timed runs were done, by the clock of the machine; None if none was."""
        times = sorted(str(entry["finished"]) for entry in self._log())
        return (times[0], times[-1]) if times else None

    def failures(self) -> list[Path]:
        """The files that say why runs failed."""
        return sorted((self.path / "failures").glob("*.txt"))

    def export(self, path: str | Path) -> set[str]:
        """Write all curves as a tidy table.

        Args:
            path: the file, .csv or .parquet.

        Returns:
            The identities of the code that made the runs.

        Raises:
            SpecError: the file has another ending.
        """
        return exporting.export(self.records(), path)

    def _folder(self, *names: str) -> Path:
        """A folder of the store, made if it is not there; a link is refused, as it may lead anywhere."""
        folder = self.path.joinpath(*names)
        if folder not in self._made:
            try:
                folder.mkdir(parents=True, exist_ok=True)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or error
                raise StoreError(f"{folder}: cannot make the folder: {reason}") from error
            self._made.add(folder)
        return folder

    def failure_path(self, cell: Cell, seed: int) -> Path:
        """The file that says why a run failed.

        Args:
            cell: what was run.
            seed: of the run.
        """
        name = f"{file_name(cell.env_name)}-{file_name(cell.agent)}-seed-{seed:04d}.{cell.identity(seed)}.txt"
        return self.path / "failures" / name


def _common(record: RunRecord) -> tuple[Any, ...]:
    """What all runs of a cell have in common."""
    settings = json.dumps(record.settings, sort_keys=True)
    what = (record.env, record.agent, settings, record.costs, record.horizon, record.cost_names)
    return (*what, record.grid.tobytes(), sorted(record.env_options))


def _timing(line: bytes) -> dict[str, Any] | None:
    """A line of the timings, if it is one."""
    try:
        entry = json.loads(line, parse_int=reading.whole_or_float)
        sound = isinstance(entry["identity"], str) and _FINISHED.fullmatch(entry["finished"])
        return entry if sound and 0 <= entry["seconds"] < math.inf else None
    except (ValueError, RecursionError, TypeError, LookupError):  # among them what is not UTF-8
        return None


def _checksum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:16]
