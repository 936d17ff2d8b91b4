"""Rarest term first, place second.

A row can only match a message that has the rarest of its required terms, so it is looked for
under that term alone. The rows of one term, its *run*, lie in a tree of boxes with sixteen entries
a node (`_layout.py`). A message visits the runs of its terms, and in them what its place meets.
What is left is decided by two more terms kept in the record, and by the table where 32 bits cannot
tell. A point message is a box of size zero: there is one way for both.

Nothing here depends on right frequencies but speed. When the table's frequencies have changed
much, calls to `insert` go over some rows each and hang them on terms that are rare now.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from nearcast.index.base import Batch, Pairs
from nearcast.index.rarest_term._build import fill, key_rows, order_rows, plan
from nearcast.index.rarest_term._change import delete_rows, insert_rows, move_rows, refresh_rows
from nearcast.index.rarest_term._layout import (
    LEAF,
    LIVE,
    LIVE_LEAVES,
    LIVE_NODES,
    LIVE_RECORDS,
    NODE,
    NOWHERE,
    RECORD,
    RUNS,
    USED_LEAVES,
    USED_NODES,
    USED_RECORDS,
    State,
    empty_state,
    grown,
    grown_arena,
    make_state,
)
from nearcast.index.rarest_term._match import match_batch
from nearcast.index.rarest_term._work import Workshop
from nearcast.index.storage import load_arrays, save_arrays
from nearcast.index.table import Int32s, Table

_VERSION = 1
_SPARE = 64  # leaves and nodes kept ready, more than one insertion takes
_LOOK = 8192  # rows inserted between two looks at the frequencies


class RarestTerm:
    """Finds rows by their rarest term, then by place."""

    name: ClassVar[str] = "rarest-term"

    def __init__(self, table: Table) -> None:
        self.table = table
        self._work = Workshop()
        self._record = np.zeros(RECORD, np.int32)
        self._state = empty_state(16, 16, _SPARE, _SPARE, _SPARE)
        self._started_over()

    def _started_over(self) -> None:
        self._weight = int(self.table.frequency.sum())  # of all frequencies when last looked at
        self._since = 0  # rows inserted since
        self._swept = len(self._state.places)  # rows before this one have a fresh key

    def build(self) -> None:
        """Take in all live rows of the table, in place of what the index had."""
        rows, live = self.table.rows, self.table.live_rows()
        frequency = self.table.frequency
        terms = max(len(frequency), int(rows.terms.max(initial=0)) + 1)
        keys = np.empty(len(live), np.int32)
        ends = np.zeros(terms + 1, np.int64)
        key_rows(rows, live, frequency, keys, ends)
        np.cumsum(ends, out=ends)
        ordered = np.empty(len(live), np.int32)
        order_rows(live, keys, ends, ordered)
        del keys, live
        ends = ends[:-1]
        records, leaves, nodes, longest = plan(ends)
        spare = _SPARE + len(ordered) // 64
        self._state = empty_state(
            terms, len(rows.owner), records + spare, leaves + spare, nodes + _SPARE
        )
        fill(self._state, rows, frequency, ordered, ends, np.empty(longest * RECORD, np.int32))
        self._started_over()

    def insert(self, rows: Int32s) -> None:
        """Take in rows just added to the table."""
        rows = np.asarray(rows, np.int32)
        self._make_room()
        table, start = self.table.rows, 0
        while True:
            start = insert_rows(self._state, table, self.table.frequency, rows, start, self._record)
            if start == len(rows):
                break
            self._grow_arenas()
        self._refresh(len(rows))

    def delete(self, rows: Int32s) -> Int32s:
        """Forget rows; all of them may be released at once."""
        delete_rows(self._state, np.asarray(rows, np.int32))
        return rows

    def move(self, rows: Int32s) -> None:
        """Take note that the boxes of rows have changed in the table."""
        rows = np.asarray(rows, np.int32)
        table, start = self.table.rows, 0
        while True:
            start = move_rows(self._state, table, rows, start, self._record)
            if start == len(rows):
                return
            self._grow_arenas()

    def candidates(self, batch: Batch) -> Pairs:
        """Find the rows that match each message."""
        terms = max(len(self.table.frequency), len(self._state.runs) // 2)
        with self._work.tools(terms) as tools:
            return tools.collect(match_batch, self._state, self.table.rows, batch)

    def stats(self) -> Mapping[str, float]:
        """Figures about the index; `bytes` is without the table and without free room."""
        state, counts = self._state, self._state.counts
        used = 4 * (
            counts[USED_RECORDS] * RECORD + counts[USED_LEAVES] * LEAF + counts[USED_NODES] * NODE
        )
        return {
            "bytes": int(used + state.runs.nbytes + state.places.nbytes + counts.nbytes),
            "rows": int(counts[LIVE]),
            "runs": int(counts[RUNS]),
            "records": int(counts[LIVE_RECORDS]),
            "blocks": int(counts[LIVE_LEAVES]),
            "directories": int(counts[LIVE_NODES]),
        }

    def save(self, folder: Path) -> None:
        """Write the index to files that can be memory-mapped."""
        state, counts = self._state, self._state.counts
        arrays = {
            "runs": state.runs,
            "places": state.places,
            "counts": counts,
            "records": state.records[: counts[USED_RECORDS] * RECORD],
            "leaves": state.leaves[: counts[USED_LEAVES] * LEAF],
            "nodes": state.nodes[: counts[USED_NODES] * NODE],
        }
        about = {"weight": self._weight, "since": self._since, "swept": self._swept}
        save_arrays(folder, self.name, _VERSION, about, arrays)

    @classmethod
    def load(cls, folder: Path, table: Table) -> Self:
        """Read what `save` wrote, over the same table."""
        about, arrays = load_arrays(folder, cls.name, _VERSION)
        index = cls(table)
        # A plain view: kernels compiled for ordinary arrays serve mapped ones as well.
        index._state = make_state(**{name: np.asarray(array) for name, array in arrays.items()})
        index._weight, index._since = about["weight"], about["since"]
        index._swept = about["swept"]
        return index

    def _make_room(self) -> None:
        """Follow the table: room for all of its rows and terms."""
        state, table = self._state, self.table
        if len(table) > len(state.places) or 2 * len(table.frequency) > len(state.runs):
            self._state = make_state(
                grown(state.runs, 2 * len(table.frequency)),
                grown(state.places, len(table), NOWHERE),
                *state[2:6],
            )

    def _grow_arenas(self) -> None:
        state, used = self._state, self._state.counts
        arenas = []
        for array, number, width in (
            (state.records, USED_RECORDS, RECORD),
            (state.leaves, USED_LEAVES, LEAF),
            (state.nodes, USED_NODES, NODE),
        ):
            filled = int(used[number])
            arenas.append(grown_arena(array, filled * width, (filled + _SPARE) * width))
        self._state = make_state(state.runs, state.places, state.counts, *arenas)

    def _refresh(self, inserted: int) -> None:
        """Look at as many old rows as new ones came, when frequencies have doubled since."""
        self._since += inserted
        if self._swept >= len(self._state.places):
            if self._since < _LOOK:
                return
            self._since = 0
            weight = int(self.table.frequency.sum())
            if weight < 2 * self._weight + 1:
                return
            self._weight, self._swept = weight, 0
        stop = self._swept + inserted
        rows = self.table.rows
        while True:
            self._swept = refresh_rows(
                self._state, rows, self.table.frequency, self._swept, stop, self._record
            )
            if self._swept >= stop:
                return
            self._grow_arenas()
