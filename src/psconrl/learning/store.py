"""Where a durable learner keeps what it was told: SQLite, or PostgreSQL by URL, through one small layer.

Every call is one transaction that begins by taking the only write lock there is: `BEGIN IMMEDIATE`, or an advisory lock
in PostgreSQL. So changes happen one after the other however many processes share a store, the number of an observation
is also its place in the order of commits, and whoever follows the numbers misses nothing.

    learner        one row: the agent's description and the counters of decisions, observations, plans, states
    checkpoint     one row: the learner as it was after some observation, packed, with a checksum
    states         the names of discovered states, by number
    decisions      what was asked: the action, when, and the observation that answered it
    observations   what was seen, numbered without gaps, with checksums

A store has a schema version; one of another version is refused.
"""

from __future__ import annotations

import json
import os
import sqlite3
import weakref
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from psconrl._core import checks
from psconrl.errors import CallOrderError, InvalidArgumentError, LearnerFileError, StoreError

SCHEMA_VERSION = 1
BUSY_SECONDS = 5.0
"""How long a SQLite store waits for another program that holds its lock."""
LOCK_SECONDS = 60
"""How long a PostgreSQL store waits for another process, which may be planning."""
LOST_SECONDS = 600
"""How long a PostgreSQL server waits for a process that has the lock and does nothing; longer than any plan takes."""
BATCH = 10_000
"""Observations that are read at a time."""

_TABLES = """
CREATE TABLE learner (version INTEGER, description TEXT, seed TEXT, decisions BIGINT, observations BIGINT,
    plans BIGINT, states BIGINT, forgotten BIGINT, crc BIGINT);
CREATE TABLE checkpoint (document {bytes}, data {bytes}, crc BIGINT);
CREATE TABLE states (number BIGINT PRIMARY KEY, name TEXT, crc BIGINT);
CREATE TABLE decisions (id BIGINT PRIMARY KEY, stream TEXT, state BIGINT, action BIGINT, probability {real},
    plan BIGINT, asked {real}, expires {real}, request TEXT UNIQUE, observation BIGINT, crc BIGINT);
CREATE INDEX unanswered ON decisions (id) WHERE observation IS NULL;
CREATE TABLE observations (number BIGINT PRIMARY KEY, decision BIGINT, stream TEXT, state BIGINT, action BIGINT,
    costs TEXT, next_state BIGINT, seen {real}, request TEXT UNIQUE, crc BIGINT)
"""

Row = tuple[Any, ...]


class Counters(NamedTuple):
    """How many there are, deleted ones included."""

    decisions: int
    observations: int
    plans: int
    states: int


class DecisionRow(NamedTuple):
    """A decision as it is stored: state and action by number, times in seconds since 1970."""

    id: int
    stream: str
    state: int
    action: int
    probability: float
    plan: int
    asked: float
    expires: float
    request: str | None
    observation: int | None


class ObservationRow(NamedTuple):
    """An observation as it is stored; decision: the one that it answers, if any."""

    number: int
    decision: int | None
    stream: str
    state: int
    action: int
    costs: list[float]
    next_state: int
    seen: float
    request: str | None


def open_store(url: str | Path, *, read_only: bool = False) -> Store:
    """The store at a path (SQLite) or a URL (`postgresql://...`).

    Args:
        url: where it is.
        read_only: only look into one that is there.

    Raises:
        StoreError: if it cannot be reached, or another process has it.
        LearnerFileError: if it is damaged, or is something else.
    """
    text = str(checks.path(url)) if not isinstance(url, str) else url
    if text.startswith(("postgresql://", "postgres://")):
        return PostgresStore(text, read_only=read_only)
    if "://" in text or "\0" in text:
        raise InvalidArgumentError(f"store is {text!r}; give the path of a file, or postgresql://USER@HOST/DATABASE")
    return SqliteStore(Path(text), read_only=read_only)


def _checksum(row: Sequence[Any]) -> int:
    """CRC-32 of the values of a row: disks flip bits, and a database does not always notice."""
    return zlib.crc32(json.dumps(list(row), separators=(",", ":"), default=str).encode())


class Store(ABC):
    """One connection to a database that holds one learner. Not safe for threads: its owner locks.

    Attributes:
        url: where it is. where: the same without a password, for messages.
        changed: whether the transaction that was begun last wrote anything.
    """

    _placeholder = "?"
    _types: dict[str, str]
    _errors: tuple[type[Exception], ...]
    _begin: tuple[str, ...]

    def __init__(self, url: str, where: str) -> None:
        self.url, self.where = url, where
        self.changed = False
        self._process = os.getpid()
        self._connection: Any = None
        try:
            with self._in_own_words():
                self._connection = self._connect()
        except BaseException:
            self.close()
            raise

    @abstractmethod
    def _connect(self) -> Any: ...

    def run(self, sql: str, *values: Any) -> list[Row]:
        """Run one statement, and give its rows."""
        if self._connection is None:
            raise CallOrderError(f"{self.where}: the learner was closed; open it again")
        if self._process != os.getpid():
            raise CallOrderError(f"{self.where}: was opened before this process was forked; open it in this one")
        with self._in_own_words():
            cursor = self._connection.execute(sql.replace("?", self._placeholder), values)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    def write(self, sql: str, *values: Any) -> None:
        """Run one statement that changes the store."""
        self.changed = True
        self.run(sql, *values)

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One transaction that holds the write lock: durable when it ends well, undone when it does not."""
        self.changed = False
        try:
            for statement in self._begin:
                self.run(statement)
            yield
            self.run("COMMIT")
        except BaseException:
            with suppress(StoreError, LearnerFileError, CallOrderError):
                self.run("ROLLBACK")
            raise

    def close(self) -> None:
        """Give the connection back."""
        connection, self._connection = self._connection, None
        if connection is not None and self._process == os.getpid():
            with suppress(*self._errors):
                connection.close()

    @contextmanager
    def _in_own_words(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise self._translated(error) from error
        except UnicodeDecodeError as error:  # of SQLite's message about a damaged table
            raise LearnerFileError(f"{self.where}: damaged: {error.object!r}; restore it from a backup") from error
        except UnicodeEncodeError as error:
            raise InvalidArgumentError(f"{error.object!r} is not text: it has half a character") from error

    def _translated(self, error: Exception) -> Exception:
        return StoreError(f"{self.where}: {_one_line(error)}; repeat the call")

    # --- what it holds ---

    @abstractmethod
    def is_new(self) -> bool:
        """Whether nothing was ever stored here."""

    def create(self, description: str, seed: int) -> None:
        """Make the tables and the row of a new learner."""
        for statement in _TABLES.format(**self._types).split(";"):
            self.write(statement)
        row = [SCHEMA_VERSION, description, str(seed)]
        self.write("INSERT INTO learner VALUES (?, ?, ?, 0, 0, 0, 0, 0, ?)", *row, _checksum(row))

    def described(self) -> tuple[Any, int]:
        """The description of the learner's agent, and its seed."""
        rows = self.run("SELECT version FROM learner")
        if len(rows) != 1:
            raise LearnerFileError(f"{self.where}: holds no learner, or more than one; restore it from a backup")
        if rows[0][0] != SCHEMA_VERSION:
            raise LearnerFileError(
                f"{self.where}: has schema version {rows[0][0]}; this psconrl reads {SCHEMA_VERSION}"
            )
        *row, crc = self.run("SELECT version, description, seed, crc FROM learner")[0]
        self._verify("the learner's row", row, crc)
        return json.loads(row[1]), int(row[2])

    def _verify(self, what: str, row: Sequence[Any], crc: int) -> None:
        """Refuse a row of which a bit has flipped."""
        if _checksum(row) != crc:
            raise LearnerFileError(f"{self.where}: {what} is damaged: checksum mismatch; restore it from a backup")

    def counters(self) -> Counters:
        """How many decisions, observations, plans and discovered states there are."""
        return Counters(*self.run("SELECT decisions, observations, plans, states FROM learner")[0])

    def count_plans(self, plans: int) -> None:
        """Note how many plans there are."""
        self.write("UPDATE learner SET plans = ?", plans)

    def add_decision(self, row: DecisionRow) -> None:
        """Store a decision."""
        self.write("INSERT INTO decisions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *row, _checksum(row))
        self.write("UPDATE learner SET decisions = ?", row.id + 1)

    def decisions(self, rule: str, *values: Any) -> list[DecisionRow]:
        """The decisions for which a rule in SQL holds."""
        sql = f"SELECT {', '.join(DecisionRow._fields)}, crc FROM decisions WHERE {rule}"  # noqa: S608  ours
        rows = []
        for *row, crc in self.run(sql, *values):
            self._verify(f"decision {row[0]}", row, crc)
            rows.append(DecisionRow(*row))
        return rows

    def answer(self, row: DecisionRow, observation: int) -> None:
        """Note which observation answers a decision."""
        crc = _checksum(row._replace(observation=observation))
        self.write("UPDATE decisions SET observation = ?, crc = ? WHERE id = ?", observation, crc, row.id)

    def pending(self, now: float) -> tuple[int, int, float | None, int]:
        """How many decisions were not answered, how many of these are late, when the oldest was asked for, and how many
        were never answered and are no longer kept."""
        row = self.run(
            "SELECT count(*), coalesce(sum(CASE WHEN expires < ? THEN 1 ELSE 0 END), 0), min(asked) "
            "FROM decisions WHERE observation IS NULL",
            now,
        )[0]
        return int(row[0]), int(row[1]), row[2], int(self.run("SELECT forgotten FROM learner")[0][0])

    def add_observation(self, row: ObservationRow) -> None:
        """Store an observation."""
        values = list(row._replace(costs=json.dumps(row.costs)))  # type: ignore[arg-type]
        self.write("INSERT INTO observations VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", *values, _checksum(values))
        self.write("UPDATE learner SET observations = ?", row.number + 1)

    def observations(self, rule: str, *values: Any) -> list[ObservationRow]:
        """The observations for which a rule in SQL holds."""
        sql = f"SELECT {', '.join(ObservationRow._fields)}, crc FROM observations WHERE {rule}"  # noqa: S608  ours
        rows = []
        for *row, crc in self.run(sql, *values):
            self._verify(f"observation {row[0]}", row, crc)
            row[5] = json.loads(row[5])
            rows.append(ObservationRow(*row))
        return rows

    def log(self, first: int = 0) -> Iterator[ObservationRow]:
        """The observations from a number on, in their order."""
        while rows := self.observations("number >= ? ORDER BY number LIMIT ?", first, BATCH):
            yield from rows
            first = rows[-1].number + 1

    def add_state(self, number: int, name: str) -> None:
        """Store the name of a state that was discovered."""
        self.write("INSERT INTO states VALUES (?, ?, ?)", number, name, _checksum([name]))
        self.write("UPDATE learner SET states = ?", number + 1)

    def states(self, first: int = 0) -> list[str]:
        """The names of discovered states, from a number on."""
        rows = self.run("SELECT name, crc FROM states WHERE number >= ? ORDER BY number", first)
        for number, (name, crc) in enumerate(rows, first):
            self._verify(f"state {number}", [name], crc)
        return [name for name, _ in rows]

    def checkpoint(self) -> tuple[bytes, bytes] | None:
        """What was stored last, None before the first."""
        rows = self.run("SELECT document, data, crc FROM checkpoint")
        if not rows:
            return None
        document, data = bytes(rows[0][0]), bytes(rows[0][1])
        if zlib.crc32(document + data) != rows[0][2]:
            raise LearnerFileError(f"{self.where}: its checkpoint is damaged: checksum mismatch; restore a backup")
        return document, data

    def write_checkpoint(self, document: bytes, data: bytes) -> None:
        """Store a checkpoint in the place of the last one."""
        self.write("DELETE FROM checkpoint")
        self.write("INSERT INTO checkpoint VALUES (?, ?, ?)", document, data, zlib.crc32(document + data))

    def delete_before(self, decision: int, observation: int) -> None:
        """Delete the decisions and observations before these, and count those that were never answered."""
        self.write("DELETE FROM observations WHERE number < ?", observation)
        lost = self.run("SELECT count(*) FROM decisions WHERE id < ? AND observation IS NULL", decision)[0][0]
        self.write("DELETE FROM decisions WHERE id < ?", decision)
        self.write("UPDATE learner SET forgotten = forgotten + ?", lost)


class SqliteStore(Store):
    """A file, written by one process at a time; others may read it."""

    _types = {"bytes": "BLOB", "real": "REAL"}  # noqa: RUF012  never changed
    _errors = (sqlite3.Error,)

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self.read_only = path.absolute(), read_only  # ":memory:" is the name of a file, too
        self._begin = ("BEGIN",) if read_only else ("BEGIN IMMEDIATE",)
        self._give_back_lock: Callable[[], object] = lambda: None
        super().__init__(str(path), str(path))

    def _connect(self) -> Any:
        if not self.read_only:
            self._take_file_lock()
        elif not os.path.exists(self.path):
            raise StoreError(f"{self.where}: there is no such learner")
        address = self.path.as_uri() + ("?mode=ro" if self.read_only else "")
        connection = sqlite3.connect(address, BUSY_SECONDS, isolation_level=None, check_same_thread=False, uri=True)
        if not self.read_only:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = FULL")
            found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
            if found != "ok":
                raise LearnerFileError(f"{self.where}: damaged: {_one_line(found)}; restore it from a backup")
        return connection

    def _take_file_lock(self) -> None:
        """A lock that the system gives back when this process ends, however it ends."""
        try:
            import fcntl
        except ImportError:  # not on this system: SQLite's own locks keep the file whole
            return
        lock = self.path.with_name(self.path.name + ".lock")
        try:
            number = os.open(lock, os.O_CREAT | os.O_WRONLY, 0o666)
            self._give_back_lock = weakref.finalize(self, os.close, number)
            fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(
                f"{self.where}: this learner is open already, in this or another process; close it there, or share a "
                "PostgreSQL store"
            ) from None
        except OSError as error:
            raise StoreError(f"{lock}: {error.strerror}; a learner needs a folder that can be written to") from error

    def is_new(self) -> bool:
        """Whether nothing was ever stored here."""
        tables = self.run("SELECT name FROM sqlite_master WHERE type = 'table'")
        if tables and ("learner",) not in tables:
            raise LearnerFileError(f"{self.where}: is a database, but not a learner's")
        return not tables

    def close(self) -> None:
        """Give the connection and the file's lock back."""
        super().close()
        self._give_back_lock()

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.OperationalError) or not isinstance(error, sqlite3.DatabaseError):
            return super()._translated(error)
        return LearnerFileError(f"{self.where}: damaged, or not a learner: {_one_line(error)}; restore a backup")


class PostgresStore(Store):
    """A PostgreSQL database, or schema (`?options=-csearch_path%3Dward`), that several processes share."""

    _placeholder = "%s"
    _types = {"bytes": "BYTEA", "real": "DOUBLE PRECISION"}  # noqa: RUF012  never changed

    def __init__(self, url: str, *, read_only: bool = False) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise StoreError("a PostgreSQL store needs psycopg; pip install 'psconrl[service]'") from error
        self._psycopg: Any = psycopg
        self._errors = (psycopg.Error,)
        lock = "SELECT pg_advisory_xact_lock(hashtext('psconrl ' || current_schema()))"
        self._begin = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",) if read_only else ("BEGIN", lock)
        super().__init__(url, url.rpartition("@")[2].partition("?")[0])

    def _connect(self) -> Any:
        connection = self._psycopg.connect(self.url, autocommit=True, connect_timeout=10)
        connection.execute(f"SET lock_timeout = '{LOCK_SECONDS * 1000:.0f}'")
        # So that a machine that vanished in mid-transaction does not hold the lock for ever.
        connection.execute(f"SET idle_in_transaction_session_timeout = '{LOST_SECONDS}s'")
        return connection

    def run(self, sql: str, *values: Any) -> list[Row]:
        """Run one statement, and give its rows; a transaction begins on a new connection if the old one was lost."""
        try:
            return super().run(sql, *values)
        except StoreError:
            if sql != self._begin[0] or not self._connection.closed:
                raise
            with self._in_own_words():
                self._connection = self._connect()
            return super().run(sql, *values)

    def is_new(self) -> bool:
        """Whether nothing was ever stored here."""
        return self.run("SELECT to_regclass('learner') IS NULL") == [(True,)]


def _one_line(error: object) -> str:
    return " ".join(str(error).split()) or type(error).__name__
