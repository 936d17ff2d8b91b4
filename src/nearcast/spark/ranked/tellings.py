"""What a step told, gathered and written beside the holder that took it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.spark.ranked.steps import Told

_WORTH_WRITING = 1 << 19  # updates that are held in memory before they are written


class Tellings:
    """Gathers updates, and writes them beside a holder."""

    def __init__(self, path: Path, name: Callable[[Told], pa.Table]) -> None:
        self._path, self._name = path, name
        self._parts: list[Told] = []
        self._held = 0
        self._file: Any = None
        self._writer: Any = None
        self.rows = 0

    def __enter__(self) -> Tellings:
        return self

    def __exit__(self, *failure: object) -> None:
        if failure[0] is None and self._parts:
            self._write()
        if self._writer is not None:
            self._writer.close()
            self._file.close()

    def add(self, told: Told) -> None:
        """Take some more."""
        if len(told.seq):
            self._parts.append(told)
            self._held += len(told.seq)
            if self._held > _WORTH_WRITING:
                self._write()

    def _write(self) -> None:
        told = Told(*map(np.concatenate, zip(*self._parts, strict=True)))
        if self._writer is None:
            self._file = pa.OSFile(str(self._path), "wb")
            self._writer = pa.ipc.new_file(self._file, UPDATE_SCHEMA)
        self._writer.write_table(self._name(told))
        self.rows += len(told.seq)
        self._parts, self._held = [], 0
