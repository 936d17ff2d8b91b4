"""What is wanted where: the maps H2 of PS2Stream (section IV-C), reference-counted.

A message with no term that is wanted in its cells concerns nobody, and goes nowhere. The paper
keeps a map for each cell and never says how a key leaves it; here one table serves all cells, and
a key is wanted in a cell for as long as some row with that key meets the cell. Blocks of 4 x 4
cells share an entry (`_wanted`), so that a row of many cells needs few, and a row that spans the
world 512 in a grid of 128 x 64 instead of 8,192.
"""

from __future__ import annotations

from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.errors import InvalidValue, SourceError, StateError
from nearcast.index.storage import load_arrays, save_arrays
from nearcast.partition import _wanted
from nearcast.partition._tables import Terms
from nearcast.partition._wanted import CELLS, LIVE, ROWS, TAKEN, Words
from nearcast.partition.grid import Floats, Grid, Int32s, Int64s, checked

FORMAT_VERSION = 1
"""The version of the arrays that `Wanted.save` writes."""

_KIND = "wanted keys"
_FEWEST_SLOTS = 1 << 10
_STATE = 4


class WantedArrays(NamedTuple):
    """The table as arrays, which may be mapped files; `slots` is all that routing reads."""

    slots: Words
    uses: Int32s
    counters: Int32s
    state: Int64s


class Wanted:
    """A set of (cell, key) pairs, each of which counts how often it was added.

    Not safe for a writer and readers at the same time.
    """

    def __init__(self, grid: Grid, arrays: WantedArrays | None = None) -> None:
        self.grid = checked(grid)
        self.arrays = _empty() if arrays is None else arrays

    @property
    def slots(self) -> Words:
        """The part of the table that `routing` reads. It changes place when the table grows."""
        return self.arrays.slots

    def __len__(self) -> int:
        """Count the entries: pairs of a key and a block in which it is wanted."""
        return int(self.arrays.state[LIVE])

    @property
    def nbytes(self) -> int:
        """The size of the table; a dispatcher that only routes needs `slots.nbytes` of it."""
        return sum(array.nbytes for array in self.arrays)

    def add_rows(self, boxes: Floats, keys: Terms) -> None:
        """Want each key in all cells that its box meets."""
        self._change(_wanted.change_boxes, boxes, keys, 1)

    def remove_rows(self, boxes: Floats, keys: Terms) -> None:
        """Undo `add_rows` for the same boxes and keys."""
        self._change(_wanted.change_boxes, boxes, keys, -1)

    def add(self, cells: npt.NDArray[np.integer], keys: Terms) -> None:
        """Want each key in one cell."""
        self._change(_wanted.change_cells, self._cells(cells), keys, 1)

    def remove(self, cells: npt.NDArray[np.integer], keys: Terms) -> None:
        """Undo `add` for the same cells and keys."""
        self._change(_wanted.change_cells, self._cells(cells), keys, -1)

    def counts(self, cells: npt.NDArray[np.integer], keys: Terms) -> Int32s:
        """Give how often each pair was added and not removed."""
        slots, uses, counters, _ = self.arrays
        return _wanted.counts_of(self.grid, slots, uses, counters, self._cells(cells), keys)

    def save(self, folder: str | PathLike[str]) -> None:
        """Write the arrays as files that can be mapped."""
        about = {"grid": list(self.grid)}
        save_arrays(Path(folder), _KIND, FORMAT_VERSION, about, self.arrays._asdict())

    @classmethod
    def load(cls, folder: str | PathLike[str]) -> Wanted:
        """Map what `save` wrote; changes stay in this process."""
        about, arrays = load_arrays(Path(folder), _KIND, FORMAT_VERSION)
        try:
            return cls(Grid(*about["grid"]), _checked_arrays(WantedArrays(**arrays)))
        except (TypeError, KeyError, ValueError) as error:
            raise SourceError(f"{folder}: damaged ({error}); build it anew") from None

    def _cells(self, cells: npt.NDArray[np.integer]) -> Int64s:
        given = np.ascontiguousarray(cells, np.int64)
        if len(given) and (given.min() < 0 or given.max() >= self.grid.cells):
            expected = f"cells from 0 to {self.grid.cells - 1}"
            raise InvalidValue("cells", [int(given.min()), int(given.max())], expected)
        return given

    def _change(self, kernel: Callable[..., Any], places: Any, keys: Terms, delta: int) -> None:
        if len(places) != len(keys):
            raise InvalidValue(
                "keys", len(keys), f"as many keys as places, which are {len(places)}"
            )
        done, missing = 0, 0
        while True:
            done, entries, short = kernel(self.grid, *self.arrays, places, keys, done, delta)
            missing += short
            if done == len(places):
                break
            self._make_room(entries)
        if missing:
            raise StateError(
                f"{missing} wanted keys were removed more often than added; "
                "build the table anew from the rows"
            )

    def _make_room(self, entries: int) -> None:
        slots, uses, counters, state = self.arrays
        if 2 * (state[TAKEN] + entries) > len(slots):
            size = max(1 << int(3 * (state[LIVE] + entries)).bit_length(), _FEWEST_SLOTS)
            new_slots, new_uses = np.zeros(size, np.uint64), np.zeros(size, np.int32)
            _wanted.move_entries(slots, uses, new_slots, new_uses)
            slots, uses = new_slots, new_uses
            state[TAKEN] = state[LIVE]
        if state[ROWS] + entries > len(counters):
            more = np.zeros((max(len(counters) // 2, entries, _FEWEST_SLOTS), CELLS), np.int32)
            counters = np.concatenate((counters, more))
        self.arrays = WantedArrays(slots, uses, counters, state)


def _empty() -> WantedArrays:
    return WantedArrays(
        np.zeros(_FEWEST_SLOTS, np.uint64),
        np.zeros(_FEWEST_SLOTS, np.int32),
        np.zeros((_FEWEST_SLOTS // 4, CELLS), np.int32),
        np.zeros(_STATE, np.int64),
    )


def _checked_arrays(arrays: WantedArrays) -> WantedArrays:
    size = len(arrays.slots)
    if size & (size - 1) or size == 0 or 2 * int(arrays.state[TAKEN]) > size:
        raise ValueError(f"{size} slots")
    if len(arrays.uses) != size or arrays.counters.shape[1:] != (CELLS,):
        raise ValueError("its arrays do not belong together")
    return arrays
