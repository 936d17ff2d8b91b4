"""Checksums of a whole file while no engine has it open, so that damage at rest is noticed.

SQLite does not notice a bit that changes within a value. When an engine closes its file, it
writes a random mark into it, and then the checksums of all its bytes into `PATH-sums`. The next
engine compares them and removes them, because from then on the file changes. Where the file does
not have the mark, the checksums belong to another file, or to another state of it.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import zlib
from contextlib import suppress
from pathlib import Path

from nearcast.errors import DamagedStoreError, StoreError
from nearcast.store.connect import to_disk

_BLOCK = 1 << 20
_FORGET = "DELETE FROM about WHERE key = 'closed'"
_MARK = "INSERT INTO about VALUES ('closed', ?)"


def sums_of(path: Path) -> Path:
    """Where the checksums of a file are kept."""
    return path.with_name(path.name + "-sums")


def check_sums(path: Path) -> None:
    """Raise an error if a file is not as it was when it was closed; then forget its checksums."""
    place = sums_of(path.resolve())
    try:
        kept = place.read_bytes()
    except FileNotFoundError:
        return
    except OSError as error:
        raise StoreError(f"{place}: cannot be read ({error.strerror})") from None
    try:
        described = _read(kept)
        logged = path.with_name(path.name + "-wal")
        if described is not None and path.exists() and not logged.exists():
            mark, sums = described
            found, is_marked = _sum(path, mark)
            if found != sums and is_marked:
                raise DamagedStoreError(
                    f"{path}: is damaged: it is not as it was when it was closed; restore it from "
                    f"a backup, or remove {place.name} if you changed it on purpose"
                )
        place.unlink()
        to_disk(place.parent)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read ({error.strerror}); check the disk") from None


def mark_file(connection: sqlite3.Connection) -> str:
    """Write a mark into a file that is about to be closed, in the open transaction."""
    mark = secrets.token_hex(16)
    connection.execute("PRAGMA secure_delete = ON")  # no earlier mark is left in its pages
    connection.execute(_FORGET)
    connection.execute(_MARK, (mark,))
    return mark


def write_sums(path: Path, mark: str) -> None:
    """Write the checksums of a file that was closed; without them it is not checked."""
    path = path.resolve()
    with suppress(OSError):
        if path.with_name(path.name + "-wal").exists():
            return  # others have it open
        sums, _ = _sum(path, mark)
        place = sums_of(path)
        made = place.with_name(f"{place.name}.unfinished")
        made.unlink(missing_ok=True)
        made.touch(mode=0o600)
        described = json.dumps({"mark": mark, "sums": sums}).encode()
        made.write_bytes(b"%08x\n%b\n" % (zlib.crc32(described), described))
        to_disk(made)
        made.replace(place)


def _read(kept: bytes) -> tuple[str, list[int]] | None:
    """The mark and the checksums; None if they are damaged themselves."""
    head, _, described = kept.partition(b"\n")
    described = described.removesuffix(b"\n")
    if head != b"%08x" % zlib.crc32(described):
        return None
    fields = json.loads(described)
    return str(fields["mark"]), list(fields["sums"])


def _sum(path: Path, mark: str) -> tuple[list[int], bool]:
    """The checksums of the blocks of a file, and whether it has a mark."""
    sums, is_marked, wanted, before = [], False, mark.encode(), b""
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            sums.append(zlib.crc32(block))
            is_marked = is_marked or wanted in before + block
            before = block[-len(wanted) :]
    return sums, is_marked
