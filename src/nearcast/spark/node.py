"""What a node keeps of a pipeline: shards as mapped files, one copy for all its processes.

A holder (a shard, or the table of what is wanted where) is brought from one step to the next by the
first process that needs it, under a lock, from the log of the steps; the others map what is there.
A holder that is being changed has no head: whoever finds it so, or finds it torn, builds it anew
from the last snapshot and the log. Nothing here is needed to be right; it may be deleted at any
time.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol, Self, TypeVar

import pyarrow as pa

from nearcast.errors import SourceError
from nearcast.index.memory import MappedMemory, Memory
from nearcast.spark.files import Files

_HEAD = "head.json"
_PLACE_VARIABLE = "NEARCAST_CACHE"


class Holder(Protocol):
    """Something that is kept in memory-mapped files and follows a log."""

    def __init__(self, memory: Memory) -> None:
        """Make an empty one."""
        ...

    def describe(self) -> dict[str, Any]:
        """Say what `attach` needs."""
        ...

    @classmethod
    def attach(cls, memory: Memory, described: Mapping[str, Any]) -> Self:
        """Find one again."""
        ...

    def apply(self, changes: pa.Table) -> None:
        """Take one step."""
        ...


H = TypeVar("H", bound=Holder)


class Step(NamedTuple):
    """One step of a log: its key tells it from any other that might have had its number."""

    number: int
    key: str


class Recipe(NamedTuple):
    """How a holder is made: a snapshot to start from, and the steps after it, oldest first.

    Without a snapshot it starts empty. `snapshot` names a folder under `files`.
    """

    files: Files
    name: str
    snapshot: str | None
    steps: Sequence[Step]


def cache_root() -> Path:
    """The folder for what a node keeps: in memory where there is room, or a temporary one."""
    chosen = os.environ.get(_PLACE_VARIABLE)
    if chosen:
        return Path(chosen)
    shared = Path("/dev/shm")  # noqa: S108 - folders in it are made for this user only
    good = shared.is_dir() and os.access(shared, os.W_OK)
    if good and shutil.disk_usage(shared).free > 1 << 30:
        return shared / f"nearcast-{os.getuid()}"
    return Path(tempfile.gettempdir()) / f"nearcast-{os.getuid()}"


class NodeCache:
    """The holders of one pipeline on this node."""

    def __init__(self, pipeline: str, root: Path | None = None) -> None:
        self.folder = (root or cache_root()) / pipeline
        self._attached: dict[str, tuple[str, Any]] = {}
        self._memories: dict[str, MappedMemory] = {}
        self.waited = 0.0
        """Seconds spent in bringing holders up to date, or in waiting for others to do it."""

    def get(self, kind: type[H], recipe: Recipe, changes: Callable[[Step], pa.Table]) -> H:
        """Give a holder as it is after the last step of its recipe."""
        wanted = recipe.steps[-1].key
        known = self._attached.get(recipe.name)
        if known is not None and known[0] == wanted:
            holder: H = known[1]
            return holder
        place = self.folder / recipe.name
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        began = time.perf_counter()
        with _locked(place):
            holder = self._up_to_date(kind, place, recipe, changes)
        self.waited += time.perf_counter() - began
        self._attached[recipe.name] = (wanted, holder)
        return holder

    def _up_to_date(
        self, kind: type[H], place: Path, recipe: Recipe, changes: Callable[[Step], pa.Table]
    ) -> H:
        keys = [step.key for step in recipe.steps]
        head = _read_head(place)
        done = keys.index(head["key"]) + 1 if head and head["key"] in keys else None
        if head is None or done is None:
            holder, done = self._anew(kind, place, recipe)
        else:
            holder = kind.attach(self._memory(place), head["holder"])
            if done == len(keys):
                return holder
        (place / _HEAD).unlink(missing_ok=True)  # until it is whole again
        for step in recipe.steps[done:]:
            holder.apply(changes(step))
        _write_head(place, keys[-1], holder.describe())
        return holder

    def _anew(self, kind: type[H], place: Path, recipe: Recipe) -> tuple[H, int]:
        for file in place.glob("*.bin"):
            file.unlink()
        (place / _HEAD).unlink(missing_ok=True)
        if recipe.snapshot is not None:
            try:
                head = load_snapshot(recipe.files.below(recipe.snapshot), place)
                done = [step.key for step in recipe.steps].index(head["key"]) + 1
                return kind.attach(self._memory(place), head["holder"]), done
            except (SourceError, OSError, ValueError, KeyError) as error:
                logging.getLogger("nearcast.spark").warning("%s: %s", recipe.name, error)
                for file in place.glob("*.bin"):
                    file.unlink()
        return kind(self._memory(place)), 0

    def _memory(self, place: Path) -> MappedMemory:
        return self._memories.setdefault(place.name, MappedMemory(place))

    def save_snapshot(self, name: str, files: Files) -> None:
        """Copy a holder, as it is on this node, to a folder that all nodes can reach."""
        place = self.folder / name
        with _locked(place):
            head = _read_head(place)
            if head is None:
                return
            sums = {}
            for file, size in head["files"].items():
                with (place / file).open("rb") as stream:
                    data = stream.read(size)
                sums[file] = zlib.crc32(data)
                files.write(file, data)
            files.write(_HEAD, json.dumps(head | {"sums": sums}).encode())

    def clear(self) -> None:
        """Forget everything."""
        self._attached.clear()
        shutil.rmtree(self.folder, ignore_errors=True)


def load_snapshot(files: Files, place: Path) -> dict[str, Any]:
    """Copy a snapshot to a folder of this node, and give its head; refuse a damaged one."""
    head: dict[str, Any] = json.loads(files.read(_HEAD))
    for file, size in head["files"].items():
        data = files.read(file)
        if len(data) != size or zlib.crc32(data) != head["sums"][file]:
            raise SourceError(f"{files.root}/{file}: damaged; it is built anew from the log")
        (place / file).write_bytes(data)
    return head


def _read_head(place: Path) -> dict[str, Any] | None:
    """The head of a holder that is whole, or None."""
    try:
        head: dict[str, Any] = json.loads((place / _HEAD).read_bytes())
        whole = all((place / file).stat().st_size >= size for file, size in head["files"].items())
    except (OSError, ValueError, KeyError):
        return None
    return head if whole else None


def _write_head(place: Path, key: str, described: dict[str, Any]) -> None:
    files = {file.name: file.stat().st_size for file in place.glob("*.bin")}
    head = {"key": key, "holder": described, "files": files}
    fresh = place / f".{_HEAD}.{os.getpid()}"
    fresh.write_text(json.dumps(head))
    fresh.replace(place / _HEAD)


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    with (place / "lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
