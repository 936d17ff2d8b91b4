"""Where updates go: Parquet files, a folder a batch, each batch there whole or not at all.

Tasks write to `OUTPUT/.staging/<batch>/`, each attempt under a name of its own, and report to the
driver what they wrote. The driver gathers exactly those files in one folder and renames it to
`OUTPUT/batch=<batch>`: that is the commit. A batch that is there is never written again. What a
task wrote that was tried again, or whose driver died, stays in the staging folder until a later
commit removes it; readers pass over it, since its name starts with a dot.

On local files and HDFS a rename is atomic; local files are flushed to disk before it. On object
stores there is none: files are moved one by one and a `_SUCCESS` is written at the end, so a reader
may see a part of the newest batch for a moment; what a crash left there is removed before the batch
is committed again.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from secrets import token_hex
from typing import Any, NamedTuple

import msgspec
from pyarrow import fs

from nearcast.engine.replay import as_given
from nearcast.errors import SourceError
from nearcast.spark.io.paths import RENAMES, resolve

_STAGING = ".staging"
_MARK = "_SUCCESS"
_JSON_LINES = ".jsonl"
_PARQUET = ".parquet"


class RefusedEvent(NamedTuple):
    """An event that could not be taken: its place in the log, the reason, and itself as given."""

    seq: int
    error: str
    event: bytes | dict[str, Any]


@dataclass(frozen=True)
class Sink:
    """One folder of batches; tasks and driver each make their own from its path.

    `renames` says whether a folder can be renamed at once; None asks the file system.
    """

    output: str
    renames: bool | None = None

    @cached_property
    def _place(self) -> tuple[Any, str]:
        files, root = resolve(self.output)
        return files, root.rstrip("/")

    # what tasks do

    def write_refused(
        self, batch: int, slice_: int, attempt: int, refused: Iterable[RefusedEvent]
    ) -> str:
        """Write the refused events of one task as JSON Lines: `seq`, `error`, `event`."""
        name, file = self._open(batch, slice_, attempt, _JSON_LINES)
        with file:
            file.write(b"".join(_line(one) + b"\n" for one in refused))
        return name

    def open(self, batch: int, slice_: int, attempt: int) -> tuple[str, Any]:
        """Open a file for the updates of one task: its name, for the commit, and the stream."""
        return self._open(batch, slice_, attempt, _PARQUET)

    def _open(self, batch: int, slice_: int, attempt: int, kind: str) -> tuple[str, Any]:
        files, root = self._place
        folder = f"{root}/{_STAGING}/{batch}"
        files.create_dir(folder, recursive=True)
        name = _staged_name(attempt, slice_, kind)
        return name, files.open_output_stream(f"{folder}/{name}")

    # what the driver does

    def committed(self, batch: int) -> bool:
        """Whether a batch is there."""
        final = self._final(batch)
        return _exists(self._place[0], final if self._renames else f"{final}/{_MARK}")

    def commit(self, batch: int, names: Iterable[str]) -> bool:
        """Make exactly these files of the staging folder the batch; False if it was there before.

        A batch without files is an empty folder.
        """
        files, root = self._place
        if self.committed(batch):
            self.discard(batch)
            return False
        staged = f"{root}/{_STAGING}/{batch}"
        chosen = {f"{staged}/{name}": _final_name(name) for name in names}
        if len(set(chosen.values())) < len(chosen):
            raise SourceError(f"{staged}: two files of one slice; name the one whose task ended")
        for path in chosen:
            if not _exists(files, path):
                raise SourceError(f"{path}: is missing; a task said that it had written it")
        if self._renames:
            self._rename(batch, chosen)
        else:
            self._move_each(batch, chosen)
        self.discard(batch)
        return True

    def staged(self, batch: int, name: str) -> str:
        """The path of a file that a task wrote."""
        return f"{self.output.rstrip('/')}/{_STAGING}/{batch}/{name}"

    def discard(self, batch: int) -> None:
        """Remove what is staged for this batch and those before it."""
        files, root = self._place
        selector = fs.FileSelector(f"{root}/{_STAGING}", allow_not_found=True)
        for info in files.get_file_info(selector):
            number = info.base_name.partition(".")[0]
            if number.isdigit() and int(number) <= batch:
                _remove(files, info.path)

    def batches(self) -> list[int]:
        """Give the numbers of the batches that are there, in order."""
        files, root = self._place
        selector = fs.FileSelector(root, allow_not_found=True)
        found = [
            int(number)
            for info in files.get_file_info(selector)
            if info.base_name.startswith("batch=")
            and (number := info.base_name.removeprefix("batch=")).isdigit()
        ]
        return sorted(batch for batch in found if self._renames or self.committed(batch))

    @cached_property
    def _renames(self) -> bool:
        return self._place[0].type_name in RENAMES if self.renames is None else self.renames

    def _final(self, batch: int) -> str:
        return f"{self._place[1]}/batch={batch}"

    def _rename(self, batch: int, chosen: dict[str, str]) -> None:
        files, root = self._place
        ready = f"{root}/{_STAGING}/{batch}.ready"
        _remove(files, ready)
        files.create_dir(ready, recursive=True)
        for path, name in chosen.items():
            _flush(files, path)
            files.move(path, f"{ready}/{name}")
        _flush(files, ready)
        files.move(ready, self._final(batch))
        _flush(files, root)

    def _move_each(self, batch: int, chosen: dict[str, str]) -> None:
        files, final = self._place[0], self._final(batch)
        _remove(files, final)
        files.create_dir(final, recursive=True)
        for path, name in chosen.items():
            files.copy_file(path, f"{final}/{name}")
        with files.open_output_stream(f"{final}/{_MARK}"):
            pass


def _staged_name(attempt: int, slice_: int, kind: str) -> str:
    """A file name that no other task uses, not even one whose driver is long gone."""
    return f"{attempt}-{slice_}-{token_hex(4)}{kind}"


def _final_name(staged: str) -> str:
    """Name a file by its slice alone: `part-00003.parquet` for `7-3-1f00ab2c.parquet`."""
    stem, dot, kind = staged.partition(".")
    return f"part-{int(stem.split('-')[1]):05}{dot}{kind}"


def _line(refused: RefusedEvent) -> bytes:
    return msgspec.json.encode(
        {"seq": refused.seq, "error": refused.error, "event": as_given(refused.event)}, enc_hook=str
    )


def _flush(files: Any, path: str) -> None:
    """See to it that a local file or folder outlives a power failure."""
    if files.type_name == "local":
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _exists(files: Any, path: str) -> bool:
    return bool(files.get_file_info(path).type != fs.FileType.NotFound)


def _remove(files: Any, folder: str) -> None:
    if _exists(files, folder):
        files.delete_dir(folder)
