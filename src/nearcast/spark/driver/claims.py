"""Locks by which only one process at a time works on a folder."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from nearcast.errors import StateError

_LOCK = "lock"
_held: dict[Path, int] = {}  # descriptors of the locks that this process has


def claim(folder: Path) -> None:
    """Claim a folder for this process until it ends, even if it is killed."""
    path = folder / _LOCK
    held = _held.get(path)
    if held is not None:
        if _is_at(held, path):
            return
        os.close(_held.pop(path))  # the folder was removed and made again
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(descriptor, 20).decode(errors="replace").strip()
        os.close(descriptor)
        raise StateError(
            f"{folder}: process {owner or 'of another machine'} works on it; stop that one first, "
            "or give another folder"
        ) from None
    except OSError:  # a file system without locks
        os.close(descriptor)
        return
    _held[path] = descriptor
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)


def is_claimed(folder: Path) -> bool:
    """Whether some process works on a folder now."""
    try:
        descriptor = os.open(folder / _LOCK, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    finally:
        os.close(descriptor)
    return False


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except OSError:
        return False
