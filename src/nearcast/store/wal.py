"""The end of what was acknowledged in SQLite's write-ahead log, and the removal of the rest.

SQLite writes the pages of a commit to the log (`PATH-wal`) and then asks the disk to keep them. If
the disk fails at that, the commit is refused, but its pages are in the log: the next process that
opens the file would take them for a commit. So after every refused transaction the log is cut off
where it ended before.

The log has a head of 32 bytes and frames of 24 bytes and a page. The head has two random numbers
(salts), and so has each frame that belongs to it; other frames are left over from earlier rounds.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from nearcast.errors import StoreError
from nearcast.store.connect import transaction

_HEAD, _FRAME = 32, 24


class WriteAheadLog:
    """The write-ahead log of the connection that writes a file; all its transactions begin here."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        path = path.resolve()
        self._path = path
        self._log = path.with_name(path.name + "-wal")
        self._connection = connection
        self._file: BinaryIO | None = None
        self._salts, self._frames = b"", 0
        self._cut_is_due = False
        (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
        connection.execute("PRAGMA busy_timeout = 0")
        with suppress(sqlite3.Error):  # on a full disk, or while others read, it stays as it is
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        connection.execute(f"PRAGMA busy_timeout = {patience:d}")

    def close(self) -> None:
        """Close the log."""
        if self._file is not None:
            self._file.close()
            self._file = None

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """A transaction: commits the whole block, or leaves no trace of it."""
        try:
            if self._cut_is_due:
                self._cut()
            self._follow()
        except OSError as error:
            raise StoreError(
                f"{self._path}: could not be read or written ({error.strerror}); check the disk"
            ) from None
        try:
            with transaction(self._connection):
                yield
        except BaseException:
            self._cut_is_due = True
            with suppress(OSError):  # otherwise before the next transaction
                self._cut()
            raise

    def _follow(self) -> None:
        """Find the end: every frame of this round belongs to a commit that was acknowledged."""
        salts, size = self._head()
        if salts != self._salts:
            self._salts, self._frames = salts, 0
        if salts:
            while self._read(_HEAD + self._frames * size + 8, 8) == salts:
                self._frames += 1

    def _cut(self) -> None:
        """Remove the frames after the end, and have the disk confirm it."""
        salts, size = self._head()
        if salts and self._file is not None:
            kept = self._frames if salts == self._salts else 0  # else a new round began with it
            self._file.truncate(_HEAD + kept * size if kept else 0)
            os.fsync(self._file.fileno())
        self._cut_is_due = False

    def _head(self) -> tuple[bytes, int]:
        """The salts, and the size of a frame; no salts if there is no log yet."""
        if self._file is None and self._log.exists():
            self._file = self._log.open("r+b", buffering=0)
        head = self._read(0, _HEAD)
        if len(head) < _HEAD:
            return b"", 0
        return head[16:24], _FRAME + int.from_bytes(head[8:12], "big")

    def _read(self, place: int, size: int) -> bytes:
        if self._file is None:
            return b""
        self._file.seek(place)
        return self._file.read(size)
