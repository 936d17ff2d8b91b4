"""Where updates go: a folder of Parquet files that grows by whole steps, or a function.

A step of a folder output is prepared beside it and appears by one rename as `batch=S`, so a reader
sees all of its updates or none. What tasks wrote that no commit named is never moved there.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from nearcast.errors import StateError

_STAGING = ".staging"  # hidden from those that read the folder


class ParquetOutput:
    """Keeps updates in `FOLDER/batch=S/`; refused events go to `QUARANTINE/batch=S.jsonl`."""

    def __init__(self, folder: str, quarantine: str | None, state_id: str) -> None:
        self.folder = _local(folder)
        self.quarantine = _local(quarantine) if quarantine is not None else None
        self.folder.mkdir(parents=True, exist_ok=True)
        self._claim(state_id)

    def _claim(self, state_id: str) -> None:
        """Refuse a folder that another pipeline writes to: steps would be taken for its own."""
        mark = self.folder / "_nearcast.json"
        if mark.exists():
            try:
                owner = json.loads(mark.read_bytes())["state"]
            except (ValueError, KeyError):
                owner = "damaged"
            if owner != state_id:
                raise StateError(
                    f"{self.folder}: holds the updates of another pipeline; give a folder of its "
                    "own as output, or the state that belongs to it"
                )
            return
        mark.write_text(json.dumps({"state": state_id}))

    def staging(self, step: int) -> str:
        """The folder that tasks write files to."""
        return str(self.folder / _STAGING / str(step))

    def commit(self, step: int, paths: list[str], refused: pa.Table) -> None:
        """Make the files of a step part of the output."""
        target = self.folder / f"batch={step}"
        staging = Path(self.staging(step))
        if not target.exists() and paths:
            ready = staging / "ready"
            shutil.rmtree(ready, ignore_errors=True)
            ready.mkdir(parents=True)
            for number, path in enumerate(sorted(paths)):
                _flush(Path(path))
                Path(path).rename(ready / f"{number:05}.parquet")
            _flush(ready)
            ready.rename(target)
            _flush(self.folder)
        shutil.rmtree(staging, ignore_errors=True)
        if self.quarantine is not None and len(refused):
            self._keep(step, refused)

    def _keep(self, step: int, refused: pa.Table) -> None:
        assert self.quarantine is not None  # noqa: S101 - asked before
        self.quarantine.mkdir(parents=True, exist_ok=True)
        fresh = self.quarantine / f".batch={step}.jsonl"
        with fresh.open("w") as file:
            for row in refused.to_pylist():
                file.write(json.dumps(row, ensure_ascii=False) + "\n")
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(self.quarantine / f"batch={step}.jsonl")


class FunctionOutput:
    """Hands the updates of each step to a function, as a table of Parquet files.

    The function may be called again with the same step after a crash: by the number it can tell.
    """

    def __init__(
        self, folder: str, call: Callable[[list[str], pa.Table, int], None], quarantine: str | None
    ) -> None:
        self._folder = _local(folder)
        self._call = call
        self._quarantine = _local(quarantine) if quarantine is not None else None

    def staging(self, step: int) -> str:
        """The folder that tasks write files to."""
        return str(self._folder / str(step))

    def commit(self, step: int, paths: list[str], refused: pa.Table) -> None:
        """Call the function."""
        self._call(sorted(paths), refused, step)
        if self._quarantine is not None and len(refused):
            self._quarantine.mkdir(parents=True, exist_ok=True)
            text = "".join(json.dumps(r, ensure_ascii=False) + "\n" for r in refused.to_pylist())
            (self._quarantine / f"batch={step}.jsonl").write_text(text)
        shutil.rmtree(self.staging(step), ignore_errors=True)


def _local(path: str) -> Path:
    if "://" in path and not path.startswith("file:"):
        system, _ = pafs.FileSystem.from_uri(path)
        raise StateError(
            f"{path}: output to {system.type_name} is not atomic; write to a local or mounted "
            "folder, or give match_stream a function with foreach_batch"
        )
    return Path(path.removeprefix("file://").removeprefix("file:")).absolute()


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_updates(folder: str | Path) -> pa.Table:
    """All updates of a folder output, in the order in which engines report them."""
    return sorted_updates([str(path) for path in sorted(Path(folder).glob("batch=*/*.parquet"))])


def sorted_updates(paths: list[str]) -> pa.Table:
    """The updates of some files, in the order in which engines report them."""
    schema = pa.schema(
        [("event", pa.int64()), ("op", pa.string()), ("subscription", pa.string()),
         ("message", pa.string())]
    )  # fmt: skip
    table = pa.concat_tables(
        [schema.empty_table(), *(pq.read_table(path, partitioning=None) for path in paths)]
    )
    return table.sort_by(
        [(name, "ascending") for name in ("event", "subscription", "message", "op")]
    )
