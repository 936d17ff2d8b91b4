"""Gathers the updates of a step, and writes them to a file beside the shard."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.spark.topk.steps import RankedUpdates

_WORTH_WRITING = 1 << 19  # updates that are held in memory before they are written


class UpdateSpool:
    """Gathers updates, and writes them to a file; `name` gives them their ids."""

    def __init__(self, path: Path, name: Callable[[RankedUpdates], pa.Table]) -> None:
        self._path, self._name = path, name
        self._parts: list[RankedUpdates] = []
        self._held = 0
        self._file: Any = None
        self._writer: Any = None
        self.rows = 0

    def __enter__(self) -> UpdateSpool:
        return self

    def __exit__(self, *failure: object) -> None:
        if failure[0] is None and self._parts:
            self._write()
        if self._writer is not None:
            self._writer.close()
            self._file.close()

    def add(self, updates: RankedUpdates) -> None:
        """Add some updates."""
        if len(updates.seq):
            self._parts.append(updates)
            self._held += len(updates.seq)
            if self._held > _WORTH_WRITING:
                self._write()

    def _write(self) -> None:
        updates = RankedUpdates(*map(np.concatenate, zip(*self._parts, strict=True)))
        if self._writer is None:
            self._file = pa.OSFile(str(self._path), "wb")
            self._writer = pa.ipc.new_file(self._file, UPDATE_SCHEMA)
        self._writer.write_table(self._name(updates))
        self.rows += len(updates.seq)
        self._parts, self._held = [], 0
