"""What is wanted where: the maps H2 of PS2Stream (section IV-C), reference-counted.

A message with no term that is wanted in its cells matches nothing, and goes nowhere. The paper
keeps a map for each cell and never says how a key leaves it; here one table serves all cells, and a
key is wanted in a cell for as long as some row with that key meets the cell. Blocks of 4 x 4 cells
share an entry, and rows of many blocks are entered coarsely (`wanted_kernels`), so that a row needs
16 entries at most; one that spans the world would need 8,192 in a grid of 128 x 64. So a key may
count as wanted in cells around the box of a row that meets more than 16 blocks, never the other way
round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np

from nearcast._jit import read_only
from nearcast.arrays.memory import Memory
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue, StateError
from nearcast.partition import wanted_kernels
from nearcast.partition.grid import Grid, checked
from nearcast.partition.tables import Terms
from nearcast.partition.wanted_kernels import CELLS, LIVE, ROWS, TAKEN, Words

_FEWEST_SLOTS = 1 << 10
_STATE = 4


class WantedArrays(NamedTuple):
    """The table as arrays, which may be mapped files; `slots` is all that routing reads."""

    slots: Words
    uses: Int32s
    counters: Int32s
    state: Int64s


class WantedKeys:
    """A set of (cell, key) pairs, each of which counts how often it was added.

    Not safe for a writer and readers at the same time.
    """

    def __init__(
        self, grid: Grid, arrays: WantedArrays | None = None, memory: Memory | None = None
    ) -> None:
        self.grid = checked(grid)
        self._memory = memory or Memory()
        self.arrays = self._empty() if arrays is None else arrays

    @property
    def slots(self) -> Words:
        """The part of the table that `routing` reads. It changes place when the table grows."""
        return self.arrays.slots

    def __len__(self) -> int:
        """Count the entries: a key and a block in which it is wanted, or a level in use."""
        return int(self.arrays.state[LIVE])

    @property
    def nbytes(self) -> int:
        """The size of the table; a dispatcher that only routes needs `slots.nbytes` of it."""
        return sum(array.nbytes for array in self.arrays)

    def add_rows(self, boxes: Floats, keys: Terms) -> None:
        """Want each key in all cells that its box meets, if large also in some around it."""
        self._change(boxes, keys, 1)

    def remove_rows(self, boxes: Floats, keys: Terms) -> None:
        """Undo `add_rows` for the same boxes and keys."""
        self._change(boxes, keys, -1)

    def counts(self, cells: Int64s, keys: Terms) -> Int32s:
        """How often each key is wanted in each cell; large boxes count around them too."""
        slots, uses, counters, _ = self.arrays
        return wanted_kernels.counts_of(self.grid, slots, uses, counters, cells, keys)

    def _change(self, boxes: Floats, keys: Terms, delta: int) -> None:
        if len(boxes) != len(keys):
            raise InvalidValue("keys", len(keys), f"as many keys as boxes, which are {len(boxes)}")
        done, missing, boxes, keys = 0, 0, read_only(boxes), read_only(keys)
        while True:
            done, entries, short = wanted_kernels.change_boxes(
                self.grid, *self.arrays, boxes, keys, done, delta
            )
            missing += short
            if done == len(boxes):
                break
            self._make_room(entries)
        if missing:
            raise StateError(
                f"{missing} wanted keys were removed more often than added; "
                "rebuild the table from the rows"
            )

    def _make_room(self, entries: int) -> None:
        slots, uses, counters, state = self.arrays
        if 2 * (state[TAKEN] + entries) > len(slots):
            size = max(1 << int(3 * (state[LIVE] + entries)).bit_length(), _FEWEST_SLOTS)
            # Copies, as in mapped memory the larger arrays begin where the smaller ones do.
            old_slots, old_uses = slots.copy(), uses.copy()
            slots, uses = self._zeros("slots", size), self._zeros("uses", size)
            wanted_kernels.move_entries(old_slots, old_uses, slots, uses)
            state[TAKEN] = state[LIVE]
        if state[ROWS] + entries > len(counters):
            more = max(len(counters) // 2, entries, _FEWEST_SLOTS)
            counters = self._zeros("counters", len(counters) + more, counters)
        self.arrays = WantedArrays(slots, uses, counters, state)

    def _empty(self) -> WantedArrays:
        return WantedArrays(
            self._zeros("slots", _FEWEST_SLOTS),
            self._zeros("uses", _FEWEST_SLOTS),
            self._zeros("counters", _FEWEST_SLOTS // 4),
            self._zeros("state", _STATE),
        )

    def _zeros(self, name: str, count: int, kept: Any = None) -> Any:
        """Give an array of that many entries: those of `kept`, and then zeros."""
        array = self._memory.array(f"wanted-{name}", _shape(name, count), _DTYPES[name])
        known = 0 if kept is None else len(kept)
        if known:
            array[:known] = kept
        array[known:] = 0
        return array

    def describe(self) -> dict[str, Any]:
        """Say what `attach` needs to find the table again in its memory."""
        sizes = {name: len(array) for name, array in self.arrays._asdict().items()}
        return {"grid": list(self.grid), "sizes": sizes}

    @classmethod
    def attach(cls, memory: Memory, described: Mapping[str, Any]) -> Self:
        """Find a table again in memory that is kept in files."""
        arrays = {
            name: memory.array(f"wanted-{name}", _shape(name, size), _DTYPES[name])
            for name, size in described["sizes"].items()
        }
        return cls(Grid(*described["grid"]), WantedArrays(**arrays), memory)


_DTYPES: dict[str, Any] = {
    "slots": np.uint64,
    "uses": np.int32,
    "counters": np.int32,
    "state": np.int64,
}


def _shape(name: str, count: int) -> int | tuple[int, int]:
    return (count, CELLS) if name == "counters" else count
