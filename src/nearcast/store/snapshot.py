"""Snapshots of the boolean subscriptions and their index, so that opening is faster.

A snapshot is a folder in `PATH-index/`. The file records the name of the current one, and which
subscriptions changed since. Snapshots are disposable: one that is missing, torn or of another
version is ignored, and the index is built from the rows of the file.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sqlite3
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from nearcast.engine.core import EventCore
from nearcast.errors import NearcastError

if TYPE_CHECKING:
    from nearcast.engine.indexed import Indexed

FORMAT = 6
_READ = (5, FORMAT)  # of 5 what has no properties: other rows have other keys since
_HEAD = "head.json"
_WORTH_IT = 50_000  # as many changes, and a quarter of all subscriptions, make a new one due
_PIECE = 1 << 24


class Snapshots:
    """The snapshots of a file, one of which the file names as current."""

    def __init__(self, path: Path, connection: sqlite3.Connection) -> None:
        path = path.resolve()
        self._folder = path.with_name(path.name + "-index")
        self._connection = connection
        self.reload()

    def reload(self) -> None:
        """Read which snapshot is current."""
        self.name: str | None = self._connection.execute("SELECT snapshot FROM state").fetchone()[0]
        self._changed = self._connection.execute("SELECT count(*) FROM changed").fetchone()[0]
        self._not_before = 0

    def note(self, ids: Iterable[str], count: int) -> None:
        """Record, in the open transaction, that subscriptions changed."""
        self._changed += count
        if self.name is not None:
            rows = ((id,) for id in ids)
            self._connection.executemany("INSERT OR IGNORE INTO changed VALUES (?)", rows)

    def forget(self, count: int) -> None:
        """Discard the snapshot, in the open transaction: too much changed to record it."""
        self._changed += count
        self.name = None
        self._connection.execute("UPDATE state SET snapshot = NULL")
        self._connection.execute("DELETE FROM changed")

    def built(self, core: EventCore) -> None:
        """Note that the index was built from rows, which a snapshot would have saved."""
        self._changed = max(self._changed, len(core))

    def due(self, core: EventCore) -> bool:
        """Whether so much changed that a new snapshot pays."""
        enough = max(_WORTH_IT, len(core) // 4, self._not_before)
        return not core.plain and self._changed >= enough

    def worth_closing_with(self, core: EventCore) -> bool:
        """Whether a new one would make the next opening faster."""
        return not core.plain and self._changed >= max(1000, len(core) // 100)

    def save(self, core: EventCore) -> str | None:
        """Write a snapshot of the committed state, and return its name."""
        if core.plain:
            return None
        from nearcast.engine.saved import save_population

        population = cast("Indexed", core).boolean
        name = secrets.token_hex(8)
        folder = self._folder / name
        try:
            self._folder.mkdir(mode=0o700, exist_ok=True)
            folder.mkdir()
            save_population(population, folder)
            head = {
                "format": FORMAT,
                "index": population.choice.label,
                "subscriptions": len(population),
                "files": _sums(folder),
            }
            (folder / _HEAD).write_text(json.dumps(head))
        except OSError:
            shutil.rmtree(folder, ignore_errors=True)
            self._not_before = self._changed + _WORTH_IT
            return None
        return name

    def counts(self, name: str) -> None:
        """Make a snapshot current, in the open transaction."""
        self._connection.execute("UPDATE state SET snapshot = ?", (name,))
        self._connection.execute("DELETE FROM changed")

    def settled(self, name: str) -> None:
        """Remove all snapshots but the current one."""
        self.name, self._changed, self._not_before = name, 0, 0
        for other in self._folder.iterdir():
            if other.name != name:
                shutil.rmtree(other, ignore_errors=True)

    def load(self, core: EventCore) -> list[str] | None:
        """Load the snapshot and return the ids that changed since; None if there is none."""
        if self.name is None:
            return None
        from nearcast.engine.saved import load_population

        population = cast("Indexed", core).boolean
        folder = self._folder / self.name
        try:
            head = json.loads((folder / _HEAD).read_text())
            if head["format"] not in _READ or head["index"] != population.choice.label:
                return None
            if 2 * self._changed > max(1000, head["subscriptions"]):
                return None  # building it is faster than following that many changes
            if head["files"] != _sums(folder):
                return None
            load_population(population, folder)
        except (OSError, ValueError, KeyError, TypeError, NearcastError):
            return None
        return [id for (id,) in self._connection.execute("SELECT id FROM changed")]


def _sums(folder: Path) -> dict[str, int]:
    """A checksum of each file."""
    return {
        path.relative_to(folder).as_posix(): _sum(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != _HEAD
    }


def _sum(path: Path) -> int:
    total = 0
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            total = zlib.crc32(piece, total)
    return total
