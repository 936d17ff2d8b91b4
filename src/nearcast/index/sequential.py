"""No structure at all: every live row is verified for every message.

The slow, obvious index that the others are compared with where `scan` itself would be too slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from nearcast._jit import lean_kernel
from nearcast.arrays.storage import load_arrays, save_arrays
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.base import Batch, Pairs, collect
from nearcast.index.table import Rows, Table
from nearcast.index.verify import Bitmap, accepts, bitmap_for, clear_terms, set_terms


@lean_kernel
def _scan(
    rows: Rows,
    starts: Int64s,
    terms: Int32s,
    boxes: Floats,
    bitmap: Bitmap,
    start: int,
    messages: Int32s,
    found: Int32s,
) -> tuple[int, int, int]:
    written = candidates = 0
    for message in range(start, len(boxes)):
        mark, seen = written, candidates
        set_terms(bitmap, terms, starts[message], starts[message + 1])
        fits = True
        for row in range(len(rows.owner)):
            candidates += 1
            if accepts(
                rows, row, boxes[message, 0], boxes[message, 1], boxes[message, 2],
                boxes[message, 3], bitmap,
            ):  # fmt: skip
                if written == len(found):
                    fits = False
                    break
                messages[written] = message
                found[written] = row
                written += 1
        clear_terms(bitmap, terms, starts[message], starts[message + 1])
        if not fits:
            return message, mark, seen
    return len(boxes), written, candidates


class Sequential:
    """Looks at every row."""

    name: ClassVar[str] = "sequential"

    def __init__(self, table: Table) -> None:
        self.table = table

    def build(self) -> None:
        """Nothing to build."""

    def insert(self, rows: Int32s) -> None:
        """Nothing to note: the table knows its rows."""

    def delete(self, rows: Int32s) -> Int32s:
        """Nothing refers to them."""
        return rows

    def move(self, rows: Int32s) -> None:
        """Nothing to note."""

    def candidates(self, batch: Batch) -> Pairs:
        """Verify every row for every message."""
        rows, bitmap = self.table.rows, bitmap_for(len(self.table.frequency))
        return collect(
            len(batch),
            lambda start, messages, found: _scan(
                rows, batch.starts, batch.terms, batch.boxes, bitmap, start, messages, found
            ),
        )

    def stats(self) -> Mapping[str, float]:
        """It has nothing of its own."""
        return {"bytes": 0}

    def save(self, folder: Path) -> None:
        """Write the name alone."""
        save_arrays(folder, self.name, 1, {}, {"none": np.empty(0, np.int8)})

    @classmethod
    def load(cls, folder: Path, table: Table) -> Self:
        """Make it over the table."""
        load_arrays(folder, cls.name, 1)
        return cls(table)
