"""A process that dies in the middle: between any two changes that it makes to files."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.fs as pafs
import pyarrow.parquet as pq
import pytest

from nearcast.index.rarest_term.index import RarestTerm
from nearcast.spark.topk.updates import UpdateSpool
from nearcast.spark.workers import task
from nearcast.spark.workers.router import Router
from nearcast.spark.workers.shard import Shard
from nearcast.topk.core import TopK


class Crash(BaseException):
    """The end of a process; nothing catches it."""


class Crashes:
    """Dies between two changes to files below a folder that it has not yet died between.

    Changes are told apart by what they do to which kind of file. A folder that is removed whole is
    emptied in any order: there only the file that is next counts. Once all are known, it lives.
    With `every` above 1 it dies at each such place among so many, and lives on at the others.
    """

    def __init__(self) -> None:
        self.every = 1
        self.deaths = 0
        self._below = ""
        self._dead = False
        self._before = "start"
        self.known: set[tuple[str, str]] = set()

    @contextmanager
    def anywhere_new(self, below: Path) -> Iterator[None]:
        """Run as a process that may die."""
        self._below, self._dead, self._before = str(below), False, "start"
        try:
            yield
        finally:
            self._below = ""
            task.node_cache.cache_clear()  # nothing that was in memory is there in the next process

    def point(self, name: str, emptying: bool = False) -> None:
        """Something is about to be changed, perhaps within a folder that is removed whole."""
        if not self._below:
            return
        if not self._dead:
            kind = _EMPTYING if emptying else _VARIES.sub("*", name)
            same = emptying and self._before == _EMPTYING
            step = (self._before, _VARIES.sub("*", name) if same else kind)
            self._before = kind
            if step in self.known:
                return
            self.known.add(step)
            if len(self.known) % self.every:
                return
            self._dead = True
            self.deaths += 1
        raise Crash(name)  # nor does the dead change anything later

    def _audit(self, event: str, given: tuple[Any, ...]) -> None:
        if not self._below or event not in _CHANGES:
            return
        path = given[0]
        if event == "open" and not given[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            return
        if isinstance(path, bytes):
            path = os.fsdecode(path)
        if isinstance(path, os.PathLike):
            path = os.fspath(path)
        if isinstance(path, int) or not path.startswith("/") or path.startswith(self._below):
            emptying = event in _REMOVALS and given[1] != -1  # relative to an open folder
            self.point(f"{event} {Path(str(path)).name}", emptying)


# Names are told apart only by what kind of file they are.
_VARIES = re.compile(r"[0-9a-f]{8,}|[0-9]+|[a-z_-]+(?=\.bin)")
_REMOVALS = {"os.remove", "os.rmdir"}
_CHANGES = {"open", "os.rename", "os.mkdir", "os.truncate", *_REMOVALS}
_EMPTYING = "emptying a folder"
_crashes = Crashes()
sys.addaudithook(_crashes._audit)


class _Files(pafs.LocalFileSystem):  # type: ignore[misc] # pyarrow has no types
    """Local files that Python does not see being changed, as they are in pyarrow."""

    def create_dir(self, path: str, *, recursive: bool = True) -> None:
        _crashes.point("create_dir")
        super().create_dir(path, recursive=recursive)

    def move(self, source: str, target: str) -> None:
        _crashes.point("move")
        super().move(source, target)

    def delete_dir(self, path: str) -> None:
        _crashes.point("delete_dir")
        super().delete_dir(path)

    def delete_file(self, path: str) -> None:
        _crashes.point("delete_file")
        super().delete_file(path)

    def open_output_stream(self, path: str, **options: Any) -> Any:
        _crashes.point("open_output_stream")
        stream = super().open_output_stream(path, **options)
        try:
            _crashes.point("write to output stream")
        except Crash:
            stream.close()  # and nothing is in the file
            raise
        return stream


def _before(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*given: Any, **named: Any) -> Any:
        _crashes.point(name)
        return function(*given, **named)

    return run


def install(patch: pytest.MonkeyPatch, every: int = 1) -> Crashes:
    """Make every change to a file a place to die at; flushes take no time."""
    _crashes.every, _crashes.deaths = every, 0
    _crashes.known.clear()
    patch.setattr(os, "fsync", lambda _: _crashes.point("fsync"))
    patch.setattr(pafs, "LocalFileSystem", _Files)
    for kind, names in {
        pq.ParquetWriter: ["write_table", "close"],
        Shard: ["_withdraw", "_begin_plain", "_begin_others", "match"],
        RarestTerm: ["insert", "delete"],
        Router: ["apply"],
        TopK: ["publish", "advance", "subscribe", "unsubscribe"],
        UpdateSpool: ["_write", "__exit__"],
    }.items():
        for name in names:
            patch.setattr(kind, name, _before(name, getattr(kind, name)))
    return _crashes
