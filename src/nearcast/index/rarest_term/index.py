"""Rarest term first, place second.

A row can only match a message that has the rarest of its required terms, so it is looked for
under that term alone. The rows of one term, its *run*, lie in a tree of boxes with sixteen entries
a node (`_layout.py`). A message visits the runs of its terms, and in them what its place meets.
What is left is decided by two more terms kept in the record, and by the table where 32 bits do not
suffice. A point message is a box of size zero: there is one way for both.

Nothing here depends on right frequencies but speed. When the table's frequencies have changed
much, calls to `insert` go over some rows each and hang them on terms that are rare now.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from nearcast.arrays.lanes import LANES
from nearcast.arrays.storage import load_arrays, save_arrays
from nearcast.arrays.types import Int32s
from nearcast.index.base import Batch, Pairs
from nearcast.index.rarest_term._build import (
    fill,
    key_rows,
    order_rows,
    plan,
    rearrange,
    reserve_records,
)
from nearcast.index.rarest_term._change import (
    AHEAD,
    LONELY,
    MOST_UNITS,
    SCRATCH,
    delete_rows,
    insert_rows,
    move_rows,
    stale_rows,
)
from nearcast.index.rarest_term._layout import (
    FREE,
    LEAVES,
    LIVE,
    NODES,
    NOWHERE,
    RECORD,
    RECORDS,
    RUNS,
    USED,
    RarestTermArrays,
    empty_state,
    grown,
    make_state,
)
from nearcast.index.rarest_term._match import match_batch
from nearcast.index.rarest_term._work import ScratchPool
from nearcast.index.table import Table

_VERSION = 2
_SPARE = 2 * AHEAD * MOST_UNITS  # units kept free, more than a round of insertions takes
_FOR_FAR, _FOR_LARGER = 1, 4  # rows rearranged for each that changed leaf, or made one larger
_WORTH_ARRANGING = 1 << 12
_FOR_A_MESSAGE = 4  # rows that are rebuilt in less time than it takes to match a message
_LOOK = 8192  # rows inserted, at least, between two looks at the frequencies
_LOOK_SHARE = 8  # and one for this many terms, since a look adds all of them up


class RarestTerm:
    """Finds rows by their rarest term, then by place."""

    name: ClassVar[str] = "rarest-term"

    def __init__(self, table: Table) -> None:
        self.table = table
        self._work = ScratchPool()
        self._scratch = np.zeros(SCRATCH, np.int32)
        self._state = empty_state(table.memory, 16, 16, _SPARE)
        self._started_over()

    def _started_over(self) -> None:
        self._weight = int(self.table.frequency.sum())  # of all frequencies when last looked at
        self._since = 0  # rows inserted since
        self._swept = self._sweep_end = 0  # the rows from one to the other want a fresh key
        self._begin_arranging()

    def _begin_arranging(self) -> None:
        self._stack = np.empty(1024, np.int64)
        self._still = True  # whether no row has moved yet
        self._owed = self._arranged = 0  # rows to be rearranged, and the key to go on with
        self._later = 0  # rows to be rearranged by `tidy`

    def build(self) -> None:
        """Take in all live rows of the table, in place of what the index had."""
        rows, parts, live = self.table.rows, self.table.parts, self.table.live_rows()
        frequency = self.table.frequency
        terms = max(len(frequency), int(rows.terms.max(initial=0)) + 1)
        if not len(live):
            self._state = empty_state(self.table.memory, terms, len(rows.owner), _SPARE)
            self._started_over()
            return
        keys = np.empty(len(live), np.int32)
        ends = np.zeros(terms + 1, np.int64)
        key_rows(parts, live, frequency, keys, ends)
        np.cumsum(ends, out=ends)
        ordered = np.empty(len(live), np.int32)
        order_rows(live, keys, ends, ordered)
        del keys, live
        ends = ends[:-1]
        records, blocks, longest = plan(ends)
        units = records + LANES * (blocks + 1)
        # As much again is set aside, which takes no memory until it is used.
        self._state = empty_state(self.table.memory, terms, len(rows.owner), 2 * units + _SPARE)
        reserve_records(self._state, records)
        fill(self._state, parts, frequency, ordered, ends, np.empty(longest * RECORD, np.int32))
        self._started_over()

    def insert(self, rows: Int32s) -> None:
        """Take in rows just added to the table."""
        rows = np.asarray(rows, np.int32)
        self._make_room()
        self._insert(rows)
        self._refresh(len(rows))

    def _insert(self, rows: Int32s) -> None:
        table, start = self.table, 0
        while True:
            runs, places, counts, memory, _ = self._state
            start = insert_rows(
                runs, places, counts, memory, *table.parts, table.frequency, rows, start,
                self._scratch,
            )  # fmt: skip
            if start == len(rows):
                return
            self._grow()

    def delete(self, rows: Int32s) -> Int32s:
        """Forget rows; all of them may be released at once."""
        self._make_room()
        lonely = self._take_out(np.asarray(rows, np.int32))
        if len(lonely):
            self._insert_again(lonely[self._state.places[lonely] != NOWHERE])
        return rows

    def _take_out(self, rows: Int32s) -> Int32s:
        lonely = np.empty(LONELY * len(rows), np.int32)
        return lonely[: delete_rows(self._state, rows, lonely)]

    def move(self, rows: Int32s) -> None:
        """Take note that the boxes of rows have changed in the table."""
        rows = np.asarray(rows, np.int32)
        self._make_room()
        if self._still:
            self._still = False
            self._arrange()  # of nothing: what it needs is compiled with what moves need
        far, loose = np.empty(len(rows), np.int32), np.empty(len(rows), np.int32)
        count, larger = move_rows(
            self._state, self.table.parts, rows, far, loose, np.empty(4, np.float32)
        )
        self._insert_again(far[:count])
        self._owed += _FOR_FAR * count + _FOR_LARGER * larger
        # What is arranged now is loose again when the others have moved: as much is due after it.
        # A quarter more goes round all trees, with rows that did not have to change leaf.
        self._later = min(self._later + count + count // 4, int(self._state.counts[LIVE]))
        if self._owed >= _WORTH_ARRANGING:
            self._arrange()

    def tidy(self, messages: int) -> None:
        """Make up for far moves that have left trees loose, before `messages` are matched.

        A row is rearranged for each message, which costs it little; all is rebuilt where
        that takes less time than the messages do.
        """
        if not self._later:
            return
        live = int(self._state.counts[LIVE])
        if 8 * self._later >= live and live <= max(_FOR_A_MESSAGE * messages, _WORTH_ARRANGING):
            self.merge()
            return
        paid = min(messages, self._later)
        self._later -= paid
        self._owed += paid
        if self._owed >= _WORTH_ARRANGING or not self._later:
            self._arrange()

    def merge(self) -> None:
        """Rearrange everything at once, so that neighbours in a tree are neighbours in memory.

        All rows of the table must have been inserted.
        """
        self.build()

    def _arrange(self) -> None:
        """Rearrange as many rows as are owed: trees that many have moved in become loose."""
        rows = _WORTH_ARRANGING
        while True:
            scratch, units = np.empty(RECORD * rows, np.int32), np.empty(rows // 4, np.int64)
            self._arranged, done = rearrange(
                self._state, self._arranged, self._owed, scratch, self._stack, units
            )
            if done >= 0:
                break
            rows *= 4
        self._owed = max(0, self._owed - done)
        if 2 * self._arranged >= len(self._state.runs):
            self._arranged = 0

    def _insert_again(self, rows: Int32s) -> None:
        if len(rows):
            self._take_out(rows)
            self._insert(rows)

    def candidates(self, batch: Batch) -> Pairs:
        """Find the rows that match each message."""
        terms = max(len(self.table.frequency), len(self._state.runs) // 2)
        table = self.table
        shapes = table.rows if table.has_shapes else None
        with self._work.borrow(terms) as scratch:
            return scratch.collect(match_batch, self._state, table.parts, shapes, batch)

    def match_point(self, terms: Int32s, lon: float, lat: float) -> tuple[Int32s, int]:
        """Find the rows that match one message at a point, and say how many were looked at.

        The same as `candidates`, without what only pays for many messages.
        """
        table = self.table
        shapes = table.rows if table.has_shapes else None
        known = max(len(table.frequency), len(self._state.runs) // 2)
        scratch = self._work.take(known)
        found = scratch.match_point(match_batch, self._state, table.parts, shapes, terms, lon, lat)
        self._work.give_back(scratch)
        return found

    @property
    def arrays(self) -> RarestTermArrays:
        """The arrays as they are now; another object once one of them was replaced."""
        return self._state

    def stats(self) -> Mapping[str, float]:
        """Figures about the index; `bytes` is without the table and without free room."""
        state, counts = self._state, self._state.counts
        used = 4 * RECORD * int(counts[USED])
        return {
            "bytes": used + state.runs.nbytes + state.places.nbytes + counts.nbytes,
            "rows": int(counts[LIVE]),
            "runs": int(counts[RUNS]),
            "records": int(counts[RECORDS]),
            "blocks": int(counts[LEAVES]),
            "directories": int(counts[NODES]),
        }

    def save(self, folder: Path) -> None:
        """Write the index to files that can be memory-mapped."""
        state, counts = self._state, self._state.counts
        arrays = {
            "runs": state.runs,
            "places": state.places,
            "counts": counts,
            "memory": state.memory[: counts[USED] * RECORD],
        }
        about = {"weight": self._weight}
        save_arrays(folder, self.name, _VERSION, about, arrays)

    @classmethod
    def load(cls, folder: Path, table: Table) -> Self:
        """Read what `save` wrote, over the same table."""
        about, arrays = load_arrays(folder, cls.name, _VERSION)
        index = cls(table)
        # A plain view: kernels compiled for ordinary arrays serve mapped ones as well.
        index._state = make_state(**{name: np.asarray(array) for name, array in arrays.items()})
        index._weight = about["weight"]
        return index

    def describe(self) -> dict[str, int]:
        """Say what `attach` needs to find the index again in the memory of its table."""
        return {
            "version": _VERSION,
            "runs": len(self._state.runs),
            "places": len(self._state.places),
            "units": len(self._state.memory) // RECORD,
            "weight": self._weight,
            "since": self._since,
            "swept": self._swept,
            "sweep_end": self._sweep_end,
        }

    @classmethod
    def attach(cls, table: Table, described: Mapping[str, int]) -> Self:
        """Find an index again in the memory of a table that is kept in files.

        A KeyError if it was laid out in another way.
        """
        if described["version"] != _VERSION:
            raise KeyError("version")
        index, memory = cls.__new__(cls), table.memory
        index.table, index._work = table, ScratchPool()
        index._scratch = np.zeros(SCRATCH, np.int32)
        index._state = make_state(
            memory.array("index-runs", described["runs"], np.int32),
            memory.array("index-places", described["places"], np.int32),
            memory.array("index-counts", FREE + LANES + 1, np.int64),
            memory.array("index", described["units"] * RECORD, np.float32),
        )
        index._weight, index._since = described["weight"], described["since"]
        index._swept, index._sweep_end = described["swept"], described["sweep_end"]
        index._begin_arranging()
        return index

    def _make_room(self) -> None:
        """Follow the table: room for all of its rows and terms."""
        state, table = self._state, self.table
        if len(table) > len(state.places) or 2 * len(table.frequency) > len(state.runs):
            self._state = make_state(
                grown(table.memory, "index-runs", state.runs, 2 * len(table.frequency), 0),
                grown(table.memory, "index-places", state.places, len(table), NOWHERE),
                state.counts,
                state.memory,
            )

    def _grow(self) -> None:
        """Make what keeps a kernel from going on larger: the arena, or else the runs."""
        runs, places, counts, memory, _ = self._state
        used = int(counts[USED])
        if used + _SPARE // 2 > len(memory) // RECORD:
            memory = self.table.memory.array("index", (2 * used + _SPARE) * RECORD, np.float32)
            memory[: used * RECORD] = self._state.memory[: used * RECORD]
        else:
            # Terms of the table beyond the number that it was given.
            needed = 2 * (int(self.table.rows.terms.max()) + 1)
            runs = grown(self.table.memory, "index-runs", runs, needed, 0)
        self._state = make_state(runs, places, counts, memory)

    def _refresh(self, inserted: int) -> None:
        """Look at as many old rows as new ones came, when frequencies have doubled since."""
        self._since += inserted
        if self._swept >= self._sweep_end:
            if self._since < max(_LOOK, len(self.table.frequency) // _LOOK_SHARE):
                return
            self._since = 0
            weight = int(self.table.frequency.sum())
            if weight < 2 * self._weight + 1:
                return
            self._weight, self._swept, self._sweep_end = weight, 0, len(self._state.places)
        stop = min(self._swept + inserted, self._sweep_end)
        stale = np.empty(stop - self._swept, np.int32)
        count = stale_rows(
            self._state, self.table.parts, self.table.frequency, self._swept, stop, stale
        )
        self._insert_again(stale[:count])
        self._swept = stop
