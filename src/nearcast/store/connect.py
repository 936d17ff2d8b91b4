"""Connections to the file, and its error messages."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock

from nearcast.errors import DamagedStoreError, StateError, StoreError
from nearcast.store.migrations import MIGRATIONS, Migration, migrate
from nearcast.store.schema import APPLICATION, TABLES, VERSION

_LARGEST_IDLE_WAL = 64 << 20
_IDLE_READERS = 2
_CACHE_KIB = 64 << 10
_WORDS = {
    sqlite3.SQLITE_FULL: "the disk is full; make room and try again",
    sqlite3.SQLITE_READONLY: "may not be written; choose a place that this user may write to",
    sqlite3.SQLITE_CANTOPEN: "cannot be opened; check that the folder exists and may be written",
    sqlite3.SQLITE_PERM: "may not be written; choose a place that this user may write to",
    sqlite3.SQLITE_BUSY: "is in use by another program; close it there and try again",
    sqlite3.SQLITE_LOCKED: "is in use by another program; close it there and try again",
    sqlite3.SQLITE_CORRUPT: "is damaged; restore it from a backup",
    sqlite3.SQLITE_NOTADB: "is not an engine's file, or is damaged; choose another path",
    sqlite3.SQLITE_IOERR: "could not be read or written (input/output error); check the disk",
}


_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def store_error(path: Path, error: sqlite3.Error) -> StoreError:
    """Turn an error of SQLite into one that names the file and says what to do."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is not None and code & 0xFF in _WORDS:
        kind = DamagedStoreError if code & 0xFF in _DAMAGE else StoreError
        return kind(f"{path}: {_WORDS[code & 0xFF]}")
    return StoreError(f"{path}: {error}; if it happens again, restore the file from a backup")


@contextmanager
def naming_file(path: Path) -> Iterator[None]:
    """Raise errors of SQLite, and of the contents of the file, with its path."""
    try:
        yield
    except sqlite3.Error as error:
        raise store_error(path, error) from None
    except StoreError as error:
        if str(error).startswith(str(path)):
            raise
        raise type(error)(f"{path}: {error}") from None


@contextmanager
def reading_file(path: Path) -> Iterator[None]:
    """The same, where values of the file are read: what cannot be understood is damage."""
    with naming_file(path):
        try:
            yield
        except (ArithmeticError, LookupError, TypeError, ValueError) as error:
            if isinstance(error, StoreError):
                raise
            raise DamagedStoreError(
                f"is damaged ({type(error).__name__}: {error}); restore it from a backup"
            ) from error


def open_writer(
    path: Path,
    version: int = VERSION,
    migrations: Mapping[int, Migration] = MIGRATIONS,
) -> sqlite3.Connection:
    """Open the file for writing; create it if it is new, and upgrade it if it is older.

    The caller holds the lock.
    """
    with naming_file(path):
        if not path.exists():
            _create(path, version)
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        try:
            _prepare(path, connection, version, migrations)
        except BaseException:
            connection.close()
            raise
        return connection


def _prepare(
    path: Path, connection: sqlite3.Connection, version: int, migrations: Mapping[int, Migration]
) -> None:
    def pragma(name: str) -> int:
        return int(connection.execute(f"PRAGMA {name}").fetchone()[0])

    empty = pragma("schema_version") == 0
    if not empty and pragma("application_id") != APPLICATION:
        raise StoreError(f"{path}: holds something else, not an engine; choose another path")
    found = pragma("user_version")
    if found > version:
        raise StoreError(
            f"{path}: is of version {found}, this release reads up to {version}; "
            "open it with the release that wrote it, or a later one"
        )
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute(f"PRAGMA journal_size_limit = {_LARGEST_IDLE_WAL}")
    if empty or found < version:
        with transaction(connection):
            if empty:
                _make_tables(connection, version)
            else:
                migrate(connection, found, version, migrations)


def _make_tables(connection: sqlite3.Connection, version: int) -> None:
    for statement in TABLES:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    connection.execute(f"PRAGMA user_version = {version:d}")


def _create(path: Path, version: int) -> None:
    """Make a new file, for this user alone; it appears when it is complete."""
    path = path.resolve()
    unfinished = path.with_name(path.name + ".unfinished")
    try:
        unfinished.unlink(missing_ok=True)
        os.close(os.open(unfinished, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        connection = sqlite3.connect(unfinished, isolation_level=None)
        try:
            with transaction(connection):
                _make_tables(connection, version)
        finally:
            connection.close()
        for beside in ("-wal", "-shm"):  # of a file that is gone: not of this one
            path.with_name(path.name + beside).unlink(missing_ok=True)
        unfinished.replace(path)
        to_disk(path.parent)
    except OSError as error:
        raise StoreError(
            f"{path}: cannot be written ({error.strerror}); choose a place that may be written"
        ) from None
    finally:
        unfinished.unlink(missing_ok=True)


def to_disk(path: Path) -> None:
    """Have the disk confirm a file, or the names in a folder."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def open_reader(path: Path) -> sqlite3.Connection:
    """Open the file for reading, while another connection may write it."""
    with naming_file(path):
        connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA query_only = ON")
        return connection


class Reader:
    """Reads committed data from any thread, each with a connection of its own."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._idle: list[sqlite3.Connection] = []
        self._lock = Lock()
        self._closed = False

    @contextmanager
    def rows(self, query: str, *values: object) -> Iterator[sqlite3.Cursor]:
        """The rows of a query, as they were committed when it began."""
        with naming_file(self._path):
            with self._lock:
                if self._closed:
                    raise StateError(f"{self._path}: the engine is closed; make another one")
                connection = self._idle.pop() if self._idle else open_reader(self._path)
            try:
                with closing(connection.execute(query, values)) as cursor:
                    yield cursor
            finally:
                self._put_back(connection)

    def _put_back(self, connection: sqlite3.Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < _IDLE_READERS:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._closed = True
            while self._idle:
                self._idle.pop().close()


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """A transaction: commits the whole block, or rolls it back."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
