"""Where a durable learner keeps what it was told: SQLite, or PostgreSQL by URL, through one small layer.

Every change is one transaction that begins by taking the only write lock there is: `BEGIN IMMEDIATE`, or an advisory
lock in PostgreSQL. So changes happen one after the other however many processes share a store, the number of an
observation is also its place in the order of commits, and whoever follows the numbers misses nothing.

    learner        one row: the agent's description and the counters of decisions, observations, plans
    checkpoint     one row: the learner as it was after some observation, packed, with a checksum
    states         the names of discovered states, by number
    decisions      what was asked: the action, when, and the observation that answered it
    observations   what was seen, numbered without gaps

A store has a schema version; one of another version is refused.
"""

from __future__ import annotations

import json
import os
import sqlite3
import zlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from psconrl.errors import InvalidArgumentError, LearnerFileError, StoreError

SCHEMA_VERSION = 1
BUSY_SECONDS = 5.0
"""How long a process waits for the lock of a SQLite store before it says that somebody else has it."""

_TABLES = """
CREATE TABLE learner (version INTEGER, description TEXT, seed TEXT, decisions BIGINT, observations BIGINT,
    plans BIGINT, states BIGINT, forgotten BIGINT);
CREATE TABLE checkpoint (document {bytes}, data {bytes}, crc BIGINT);
CREATE TABLE states (number BIGINT PRIMARY KEY, name TEXT);
CREATE TABLE decisions (id BIGINT PRIMARY KEY, stream TEXT, state BIGINT, action BIGINT, probability {real},
    plan BIGINT, asked {real}, expires {real}, observation BIGINT, request TEXT UNIQUE);
CREATE INDEX unanswered ON decisions (id) WHERE observation IS NULL;
CREATE TABLE observations (number BIGINT PRIMARY KEY, decision BIGINT, stream TEXT, state BIGINT, action BIGINT,
    costs TEXT, next_state BIGINT, seen {real}, crc BIGINT);
"""

Row = tuple[Any, ...]


def open_store(url: str | Path, *, read_only: bool = False) -> Store:
    """The store at a path (SQLite) or a URL (`postgresql://...`).

    Args:
        url: where it is.
        read_only: only look into one that is there.

    Raises:
        StoreError: if it cannot be reached, or another process has it.
        LearnerFileError: if it is damaged, or is something else.
    """
    text = str(url)
    if text.startswith(("postgresql://", "postgres://")):
        return PostgresStore(text)
    if "://" in text:
        raise InvalidArgumentError(f"store is {text!r}; give the path of a file, or postgresql://USER@HOST/DATABASE")
    return SqliteStore(Path(text), read_only=read_only)


def checksum(row: Sequence[Any]) -> int:
    """CRC-32 of the values of a row: disks flip bits, and a database does not always notice."""
    return zlib.crc32(json.dumps(list(row), separators=(",", ":")).encode())


class Store(ABC):
    """One connection to a database that holds one learner. Not safe for threads: its owner locks."""

    shared = False
    """Whether other processes may write to it at the same time."""
    _placeholder = "?"
    _begin: tuple[str, ...] = ("BEGIN IMMEDIATE",)
    _types = {"bytes": "BLOB", "real": "REAL"}  # noqa: RUF012  never changed
    _errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, where: str) -> None:
        self.where = where
        self._connection: Any = None
        self._closed = False
        self._connect()

    @abstractmethod
    def _connect(self) -> None: ...

    def run(self, sql: str, *values: Any) -> list[Row]:
        """Run one statement, and give its rows."""
        with self._in_own_words():
            if self._closed:
                raise StoreError(f"{self.where}: the store was closed; open it again")
            if self._connection is None:
                self._connect()
            cursor = self._connection.execute(sql.replace("?", self._placeholder), values)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []

    @contextmanager
    def change(self) -> Iterator[None]:
        """One transaction that holds the write lock: durable when it ends well, undone when it does not."""
        try:
            for statement in self._begin:
                self.run(statement)
            yield
            self.run("COMMIT")
        except BaseException:
            with suppress(StoreError, LearnerFileError):
                self.run("ROLLBACK")
            raise

    @property
    def usable(self) -> bool:
        """Whether it was not closed."""
        return not self._closed

    @abstractmethod
    def is_new(self) -> bool:
        """Whether nothing was ever stored here."""

    def create(self, description: str, seed: int) -> None:
        """Make the tables and the row of a new learner."""
        for statement in _TABLES.format(**self._types).split(";"):
            if statement.strip():
                self.run(statement)
        self.run("INSERT INTO learner VALUES (?, ?, ?, 0, 0, 0, 0, 0)", SCHEMA_VERSION, description, str(seed))

    def described(self) -> tuple[str, int]:
        """The description of the learner's agent, and its seed."""
        rows = self.run("SELECT version, description, seed FROM learner")
        if len(rows) != 1:
            raise LearnerFileError(f"{self.where}: holds no learner, or more than one; restore it from a backup")
        version, description, seed = rows[0]
        if version != SCHEMA_VERSION:
            raise LearnerFileError(f"{self.where}: has schema version {version}; this psconrl reads {SCHEMA_VERSION}")
        return str(description), int(seed)

    def counters(self) -> tuple[int, int, int, int]:
        """How many decisions, observations, plans and discovered states there are."""
        decisions, observations, plans, states = self.run("SELECT decisions, observations, plans, states FROM learner")[
            0
        ]
        return decisions, observations, plans, states

    def close(self) -> None:
        """Give the connection back."""
        self._closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*self._errors):
                connection.close()

    @contextmanager
    def _in_own_words(self) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> Exception:
        return StoreError(f"{self.where}: {_one_line(error)}")


class SqliteStore(Store):
    """A file, written by one process at a time; others may read it."""

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self.path, self.read_only = path, read_only
        self._lock: int | None = None
        super().__init__(str(path))
        try:
            self._check()
        except BaseException:
            self.close()
            raise

    def _connect(self) -> None:
        with self._in_own_words():
            if self.read_only:
                if not self.path.exists():
                    raise StoreError(f"{self.path}: there is no such learner")
                uri = self.path.resolve().as_uri() + "?mode=ro"
                self._connection = sqlite3.connect(
                    uri, BUSY_SECONDS, uri=True, isolation_level=None, check_same_thread=False
                )
                return
            if not self.path.parent.is_dir():
                raise StoreError(f"{self.path}: there is no folder {self.path.parent}")
            self._take_file_lock()
            self._connection = sqlite3.connect(self.path, BUSY_SECONDS, isolation_level=None, check_same_thread=False)
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = FULL")

    def _take_file_lock(self) -> None:
        """A lock that the system gives back when this process ends, however it ends."""
        try:
            import fcntl
        except ImportError:  # not on this system: SQLite's own locks keep the file whole
            return
        lock = self.path.with_name(self.path.name + ".lock")
        try:
            file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise StoreError(f"{lock}: {error.strerror}; a learner needs a folder that can be written to") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            raise StoreError(
                f"{self.path}: another process has this learner open; ask that one, or share a PostgreSQL store"
            ) from None
        self._lock = file

    def _check(self) -> None:
        """Refuse what is damaged or is something else before anything is read from it."""
        found = self.run("PRAGMA quick_check(1)")
        if found != [("ok",)]:
            raise LearnerFileError(f"{self.path}: damaged: {_one_line(found[0][0])}; restore it from a backup")

    def is_new(self) -> bool:
        """Whether nothing was ever stored here."""
        tables = self.run("SELECT name FROM sqlite_master WHERE type = 'table'")
        if tables and ("learner",) not in tables:
            raise LearnerFileError(f"{self.path}: is a database, but not a learner's")
        return not tables

    def close(self) -> None:
        """Give the connection and the file's lock back."""
        super().close()
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    def _translated(self, error: Exception) -> Exception:
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            return LearnerFileError(f"{self.path}: damaged, or not a learner: {_one_line(error)}; restore a backup")
        return StoreError(f"{self.path}: {_one_line(error)}; nothing was changed")


class PostgresStore(Store):
    """A PostgreSQL database, or schema (`?options=-csearch_path%3Dward`), that several processes share."""

    shared = True
    _placeholder = "%s"
    _begin = "BEGIN", "SELECT pg_advisory_xact_lock(hashtext('psconrl ' || current_schema()))"
    _types = {"bytes": "BYTEA", "real": "DOUBLE PRECISION"}  # noqa: RUF012  never changed

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError as error:
            raise StoreError("a PostgreSQL store needs psycopg; pip install 'psconrl[service]'") from error
        self._psycopg: Any = psycopg
        self._errors = (psycopg.Error,)
        self._url = url
        super().__init__(url.rpartition("@")[2] or url)

    def _connect(self) -> None:
        with self._in_own_words():
            self._connection = self._psycopg.connect(self._url, autocommit=True, connect_timeout=10)

    def run(self, sql: str, *values: Any) -> list[Row]:
        """Run one statement, and give its rows; a connection that was lost is made anew."""
        if self._connection is not None and self._connection.closed:
            self._connection = None
        return [
            tuple(bytes(value) if isinstance(value, memoryview) else value for value in row)
            for row in super().run(sql, *values)
        ]

    def is_new(self) -> bool:
        """Whether nothing was ever stored here."""
        return self.run("SELECT to_regclass('learner') IS NULL") == [(True,)]

    def _translated(self, error: Exception) -> Exception:
        return StoreError(f"{self.where}: {_one_line(error)}; nothing was changed")


def _one_line(error: object) -> str:
    return " ".join(str(error).split()) or type(error).__name__
