"""What a node caches of a pipeline: shards as mapped files, one copy for all its processes.

A holder (a shard, or a routing table) is brought from one step to the next by the first process
that needs it, under a lock, from the log of the steps; the other processes map the files. A holder
that is being changed has no head: a process that finds it so, or finds it torn, rebuilds it from
the last snapshot and the log. Nothing here is needed for correct results; it may be deleted at any
time. A run of a pipeline trusts only what it made itself: what an earlier run left is removed.
"""

from __future__ import annotations

import fcntl
import json
import logging
import os
import time
import weakref
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from nearcast.arrays.memory import MappedMemory, Memory
from nearcast.errors import SourceError
from nearcast.spark.io.files import Files
from nearcast.spark.sealed import seal, unseal
from nearcast.spark.workers.node_folders import (
    cache_root,
    make_sure_of_room,
    occupy,
    remove,
    remove_forgotten,
    still_occupy,
)

_HEAD = "head.json"
_BLOCK = 1 << 20


class Holder(Protocol):
    """State in memory-mapped files that follows a log."""

    def describe(self) -> dict[str, Any]:
        """Return what is needed to attach to it in its memory."""
        ...

    def apply(self, changes: Any) -> None:
        """Take one step."""
        ...


H = TypeVar("H", bound=Holder)
Made = TypeVar("Made", bound=Holder, covariant=True)


class Kind(Protocol[Made]):
    """Makes holders: their class, perhaps with further arguments bound to it."""

    def __call__(self, memory: Memory, described: Mapping[str, Any] | None = None) -> Made:
        """Make an empty holder, or attach to the one in the memory that is described."""
        ...


class LogStep(NamedTuple):
    """One step of a log; another step that might have had its number has another key."""

    number: int
    key: str


class Recipe(NamedTuple):
    """How a holder is made: a snapshot to start from, and the steps after it, oldest first.

    Without a snapshot it starts empty, or is built by `start`, which returns how many of the steps
    it includes. `snapshot` names a folder under `files`.
    """

    files: Files
    name: str
    snapshot: str | None
    steps: Sequence[LogStep]
    start: Callable[[Any], int] | None = None


class NodeCache:
    """The holders of one run of a pipeline on this node; those of all its runs without `run`."""

    def __init__(self, pipeline: str, run: str = "", root: Path | None = None) -> None:
        self.folder = (root or cache_root()) / pipeline / run
        self._occupied = False
        self._attached: dict[str, tuple[str, Any]] = {}
        self._memories: dict[str, MappedMemory] = {}
        self.waited = 0.0
        """Seconds spent on bringing holders up to date, or waiting for other processes to do it."""

    def occupy(self) -> None:
        """Mark the folder as used by this process until it ends, and remove unused folders."""
        weakref.finalize(self, os.close, occupy(self.folder))
        self._occupied = True
        remove_forgotten(self.folder)

    def get(self, kind: Kind[H], recipe: Recipe, changes: Callable[[LogStep], Any]) -> H:
        """The holder as of the last step of its recipe; `changes` gives the input of a step."""
        wanted = recipe.steps[-1].key
        known = self._attached.get(recipe.name)
        if known is not None and known[0] == wanted:
            holder: H = known[1]
            return holder
        place = self.folder / recipe.name
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._occupied:
            still_occupy(self.folder)
        began = time.perf_counter()
        with _locked(place):
            holder = self._up_to_date(kind, place, recipe, changes)
        self.waited += time.perf_counter() - began
        self._attached[recipe.name] = (wanted, holder)
        return holder

    def _up_to_date(
        self, kind: Kind[H], place: Path, recipe: Recipe, changes: Callable[[LogStep], Any]
    ) -> H:
        keys = [step.key for step in recipe.steps]
        holder, done = self._found(kind, place, keys) or self._rebuilt(kind, place, recipe)
        if done == len(keys):
            return holder
        (place / _HEAD).unlink(missing_ok=True)  # written again when all steps are applied
        files = _files(place)
        for step in recipe.steps[done:]:
            some = changes(step)
            make_sure_of_room(place, 4 * some.nbytes)
            holder.apply(some)
        now = _files(place)
        if any(now.get(name) != file for name, file in files.items()):
            raise SourceError(f"{place}: files were removed from it while they were used")
        _write_head(place, keys[-1], holder.describe())
        return holder

    def _found(self, kind: Kind[H], place: Path, keys: list[str]) -> tuple[H, int] | None:
        """The holder in the files, and how many steps it has taken, if it is whole."""
        head = _read_head(place)
        if head is None or head["key"] not in keys:
            return None
        memory = self._memory(place)
        memory.complete = True
        try:
            holder = kind(memory, head["holder"])
        except (OSError, KeyError, TypeError):
            return None
        finally:
            memory.complete = False
        return holder, keys.index(head["key"]) + 1

    def _rebuilt(self, kind: Kind[H], place: Path, recipe: Recipe) -> tuple[H, int]:
        """The holder rebuilt from its snapshot, or else from nothing, and how many steps it has."""
        (place / _HEAD).unlink(missing_ok=True)
        for file in place.glob("*.bin"):
            file.unlink()
        if recipe.snapshot is not None:
            try:
                head = load_snapshot(recipe.files.below(recipe.snapshot), place)
                done = [step.key for step in recipe.steps].index(head["key"]) + 1
                holder = kind(self._memory(place), head["holder"])
                _write_head(place, head["key"], head["holder"])
                return holder, done
            except (SourceError, OSError, ValueError, KeyError, TypeError) as error:
                logging.getLogger("nearcast.spark").warning("%s: %s", recipe.name, error)
                for file in place.glob("*.bin"):
                    file.unlink()
        holder = kind(self._memory(place))
        return holder, 0 if recipe.start is None else recipe.start(holder)

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
            files.write(_HEAD, seal(head | {"sums": sums}))

    def clear(self) -> None:
        """Remove all holders."""
        self._attached.clear()
        remove(self.folder)


def load_snapshot(files: Files, place: Path) -> dict[str, Any]:
    """Copy a snapshot to a folder of this node, and return its head; refuse a damaged one."""
    head = unseal(files.read(_HEAD))
    for file, size in head["files"].items():
        data = files.read(file)
        if len(data) != size or zlib.crc32(data) != head["sums"][file]:
            raise SourceError(f"{files.root}/{file}: damaged; it is rebuilt from the log")
        _write_sparse(place / file, data)
    return head


def _write_sparse(path: Path, data: bytes) -> None:
    """Write a file in which blocks of zeros, room that was never used, take no memory."""
    make_sure_of_room(path.parent, len(data))
    with path.open("wb") as file:
        for start in range(0, len(data), _BLOCK):
            block = memoryview(data)[start : start + _BLOCK]
            if block.tobytes().strip(b"\0"):
                file.seek(start)
                file.write(block)
        file.truncate(len(data))


def _read_head(place: Path) -> dict[str, Any] | None:
    """The head of a holder that is whole, or None."""
    try:
        head: dict[str, Any] = json.loads((place / _HEAD).read_bytes())
        whole = all((place / file).stat().st_size >= size for file, size in head["files"].items())
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return head if whole else None


def _files(place: Path) -> dict[str, int]:
    """The files of a holder: inodes by name."""
    return {file.name: file.stat().st_ino for file in place.glob("*.bin")}


def _write_head(place: Path, key: str, described: dict[str, Any]) -> None:
    files = {file.name: file.stat().st_size for file in place.glob("*.bin")}
    head = {"key": key, "holder": described, "files": files}
    fresh = place / f".{_HEAD}.{os.getpid()}"
    fresh.write_text(json.dumps(head))
    fresh.replace(place / _HEAD)


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    path = place / "lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
        with suppress(OSError):
            if os.path.samestat(os.fstat(file.fileno()), path.stat()):
                return
        raise SourceError(f"{place}: was removed while it was used")
