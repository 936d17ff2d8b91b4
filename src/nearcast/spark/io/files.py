"""Files under a path that every node can reach: written whole or not at all.

Local paths are handled by the operating system: a file is flushed to disk and takes its name by a
rename. Any other scheme (hdfs://, s3a://, gs://, abfss://) goes through pyarrow: an object appears
whole when it is closed; where files can be renamed, one takes its name by that.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable
from copy import copy
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs

from nearcast.errors import SourceError
from nearcast.spark.io.paths import RENAMES, is_local, local_path, resolve

_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}")


class Files:
    """A folder and what is in it, by names relative to it."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/") or "/"
        self.local = local_path(root).absolute() if is_local(root) else None
        if self.local is None:
            self._system, self._base = resolve(self.root)

    def below(self, name: str) -> Files:
        """A folder in this one."""
        folder = copy(self)
        folder.root = f"{self.root}/{name}"
        if self.local is not None:
            folder.local = self.local / name
        else:
            folder._base = f"{self._base}/{name}"
        return folder

    def exists(self, name: str) -> bool:
        """Whether a file or folder is there."""
        if self.local is not None:
            return (self.local / name).exists()
        found: pafs.FileInfo = self._system.get_file_info(f"{self._base}/{name}")
        return bool(found.type != pafs.FileType.NotFound)

    def names(self, folder: str = "") -> list[str]:
        """What a folder holds, in order; nothing if it is not there."""
        if self.local is not None:
            try:  # a recovery lists hundreds of folders: as paths they took five times as long
                return sorted(os.listdir(self.local / folder))  # noqa: PTH208
            except (FileNotFoundError, NotADirectoryError):
                return []
        selector = pafs.FileSelector(f"{self._base}/{folder}", allow_not_found=True)
        return sorted(info.base_name for info in self._system.get_file_info(selector))

    def read(self, name: str) -> bytes:
        """All of a file."""
        try:
            if self.local is not None:
                return (self.local / name).read_bytes()
            with self._system.open_input_stream(f"{self._base}/{name}") as stream:
                return bytes(stream.read())
        except OSError as error:
            reason = error.strerror or str(error)
            raise SourceError(f"{self.root}/{name}: cannot be read ({reason})") from None

    def map(self, name: str) -> pa.Buffer:
        """A file's bytes, without reading them before they are looked at where it is local."""
        try:
            if self.local is not None:
                return pa.memory_map(str(self.local / name)).read_buffer()
            with self._system.open_input_file(f"{self._base}/{name}") as file:
                return file.read_buffer()
        except OSError as error:
            raise SourceError(f"{self.root}/{name}: cannot be read ({error})") from None

    def write(self, name: str, data: Any, *, durable: bool = True) -> None:
        """Write a file; a reader sees the old one, none, or all of the new one.

        One that is not `durable` may be lost or torn if the power fails: it is checked when it is
        read, and can be rebuilt.
        """
        self.fill(name, lambda stream: stream.write(data), durable=durable)

    def fill(self, name: str, fill: Callable[[Any], object], *, durable: bool = True) -> None:
        """Write a file as `write` does, by a function that is given a stream for its bytes."""
        try:
            if self.local is None:
                self._fill_remote(f"{self._base}/{name}", fill)
            else:
                _fill_local(self.local / name, fill, durable)
        except OSError as error:  # such as a disk that is full
            reason = error.strerror or str(error)
            raise SourceError(f"{self.root}/{name}: cannot be written ({reason})") from None

    def _fill_remote(self, path: str, fill: Callable[[Any], object]) -> None:
        folder, _, name = path.rpartition("/")
        if self._system.type_name not in RENAMES:  # an object appears when it is whole
            with self._system.open_output_stream(path) as stream:
                fill(stream)
            return
        self._system.create_dir(folder, recursive=True)
        fresh = f"{folder}/.{name}.{uuid4().hex[:8]}"
        with self._system.open_output_stream(fresh) as stream:
            fill(stream)
        self._system.move(fresh, path)

    def sweep(self, folder: str = "") -> None:
        """Remove what a crash has left of files that were being written in a folder."""
        for name in self.names(folder):
            if _UNFINISHED.fullmatch(name):
                self.remove(f"{folder}/{name}" if folder else name)

    def remove(self, name: str) -> None:
        """Remove a file or a folder, if it is there."""
        if self.local is not None:
            place = self.local / name
            if place.is_dir():
                shutil.rmtree(place, ignore_errors=True)
            else:
                place.unlink(missing_ok=True)
            return
        path = f"{self._base}/{name}"
        kind = self._system.get_file_info(path).type
        if kind == pafs.FileType.Directory:
            self._system.delete_dir(path)
        elif kind == pafs.FileType.File:
            self._system.delete_file(path)


def _fill_local(place: Path, fill: Callable[[Any], object], durable: bool) -> None:
    fresh = place.with_name(f".{place.name}.{uuid4().hex[:8]}")
    try:
        with _opened(fresh) as file:
            fill(file)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        fresh.replace(place)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise
    if durable:
        _settle(place.parent)


def _opened(fresh: Path) -> BinaryIO:
    """A new file; its folder is nearly always there."""
    try:
        return fresh.open("wb")
    except FileNotFoundError:
        fresh.parent.mkdir(parents=True, exist_ok=True)
        return fresh.open("wb")


def _settle(folder: Path) -> None:
    """See to it that a name survives a power failure, where folders can be flushed."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        pass
    finally:
        os.close(descriptor)
