"""Files under a path that every node can reach: written whole or not at all.

Local paths are handled by the operating system: a file is flushed to disk and takes its name by a
rename. Any other scheme (hdfs://, s3://, gs://, abfs://) goes through pyarrow, where an object
appears whole when it is closed, or is moved into place where the store can move.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs

from nearcast.errors import SourceError

_UNFINISHED = re.compile(r"\..+\.[0-9a-f]{8}")


class Files:
    """A folder and what is in it, by names relative to it."""

    def __init__(self, root: str) -> None:
        self.root = root.rstrip("/") or "/"
        if "://" in root and not root.startswith("file:"):
            self._system, self._base = pafs.FileSystem.from_uri(root)
            self.local: Path | None = None
        else:
            self.local = Path(root.removeprefix("file://").removeprefix("file:")).absolute()

    def below(self, name: str) -> Files:
        """A folder in this one."""
        return Files(f"{self.root}/{name}")

    def exists(self, name: str) -> bool:
        """Whether a file or folder is there."""
        if self.local is not None:
            return (self.local / name).exists()
        found: pafs.FileInfo = self._system.get_file_info(f"{self._base}/{name}")
        return bool(found.type != pafs.FileType.NotFound)

    def names(self, folder: str = "") -> list[str]:
        """What a folder holds, in order; nothing if it is not there."""
        if self.local is not None:
            place = self.local / folder
            return sorted(path.name for path in place.iterdir()) if place.is_dir() else []
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

    def write(self, name: str, data: Any, *, lasting: bool = True) -> None:
        """Write a file; whoever looks sees the old one, none, or all of the new one.

        One that is not `lasting` may be lost or torn if the power fails: it is checked when it is
        read, and can be made again.
        """
        if self.local is None:
            if "/" in name:
                self._system.create_dir(f"{self._base}/{name.rsplit('/', 1)[0]}")
            with self._system.open_output_stream(f"{self._base}/{name}") as stream:
                stream.write(data)
            return
        place = self.local / name
        place.parent.mkdir(parents=True, exist_ok=True)
        fresh = place.with_name(f".{place.name}.{uuid4().hex[:8]}")
        try:
            with fresh.open("wb") as file:
                file.write(data)
                file.flush()
                if lasting:
                    os.fsync(file.fileno())
            fresh.replace(place)
        except OSError as error:  # such as a disk that is full
            fresh.unlink(missing_ok=True)
            raise SourceError(f"{place}: cannot be written ({error.strerror or error})") from None
        if lasting:
            _settle(place.parent)

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
