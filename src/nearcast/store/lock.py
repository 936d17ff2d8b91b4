"""The lock of an engine's file: one process writes it, and the lock ends with the process."""

from __future__ import annotations

import os
from pathlib import Path

from nearcast.errors import StoreError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # what is asked below
    import msvcrt


class FileLock:
    """A lock that is held from its creation until `release`, or until the process ends.

    `is_new` says that no engine had the file open before.
    """

    def __init__(self, given: Path) -> None:
        path = given.resolve()  # one lock, whatever path leads to the file
        place = path.with_name(path.name + "-lock")
        self.is_new = not place.exists()
        try:
            self._descriptor = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
        except FileNotFoundError as error:
            raise StoreError(
                f"{given}: cannot be opened for writing ({error.strerror}: {given.parent}); "
                "make that folder first"
            ) from None
        except OSError as error:
            raise StoreError(
                f"{given}: cannot be opened for writing ({error.strerror}: {place.name}); "
                "choose a folder that this user may write to"
            ) from None
        try:
            _take(self._descriptor)
        except OSError:
            holder = os.pread(self._descriptor, 20, 0) if fcntl else b""
            os.close(self._descriptor)
            by = f" by process {holder.decode().strip()}" if holder.strip().isdigit() else ""
            raise StoreError(
                f"{given}: is open already{by}; close it there, or open a copy (backup)"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.write(self._descriptor, f"{os.getpid()}\n".encode())

    def release(self) -> None:
        """Release the lock."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def _take(descriptor: int) -> None:
    if fcntl is not None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    else:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
