"""GI2: in each cell of a grid, inverted lists by the least frequent term.

The worker index of PS2Stream (ICDE 2017), section IV-D. A row is in every cell that its box
touches, in the list of its least frequent required term. A message looks into the lists of its
terms in its cell; a range message into those of all its cells, and a row is reported in the first
cell that they share. Deletion is lazy.

It is quick to build and to change, and fast where regions are about as large as cells. It is the
wrong choice where regions cover many cells, since every cell costs memory, and where they are much
smaller than a cell, since space then rejects little.

Departures: matching runs in several threads and so does not change lists; it notes those in which
it met deleted rows, and the next insertion or deletion cleans them. All lists are swept once a
quarter of the entries belongs to deleted rows, so that memory stays bounded without messages.
With `inline`, which the paper does not have, entries carry box and terms (see `lists`).
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from nearcast.arrays.storage import load_arrays, save_arrays
from nearcast.arrays.types import Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.index.base import Batch, Pairs, collect
from nearcast.index.gi2.build import build_lists
from nearcast.index.gi2.grid import Gi2Grid, grid_over, spans_for
from nearcast.index.gi2.lists import (
    ENTRIES,
    LISTS,
    NO_SLOT,
    TOP,
    WIDTH,
    CellLists,
    fresh_lists,
    with_arena,
    with_slots,
)
from nearcast.index.gi2.scan import scan
from nearcast.index.gi2.update import (
    DONE,
    clean_lists,
    delete_rows,
    insert_rows,
    sweep,
    withdraw_rows,
)
from nearcast.index.table import NO_OWNER, Table
from nearcast.index.verify import Bitmap, bitmap_for

_VERSION = 1
_MOST_CELLS = 4096
_MET = 256
_WORLD = (-180.0, -90.0, 180.0, 90.0)


class Gi2:
    """A grid of `grid` x `grid` cells over all regions that were there when it was built."""

    name: ClassVar[str] = "gi2"

    def __init__(self, table: Table, grid: int = 16, inline: bool = False) -> None:
        if isinstance(grid, bool) or not 1 <= grid <= _MOST_CELLS:
            raise InvalidValue("grid", grid, f"1 to {_MOST_CELLS} cells a side")
        self.table = table
        self._side = int(grid)
        self._width = WIDTH if inline else 1
        self._extent = _WORLD
        self._lists = fresh_lists(0, 0, self._width, spans_for(len(table), self._side))
        self._dead = 0  # entries of deleted rows
        self._dead_rows = 0
        self._freed: list[Int32s] = []
        self._met: list[Int64s] = []
        self._bitmaps: list[Bitmap] = []

    @property
    def _grid(self) -> Gi2Grid:
        return grid_over(self._extent, self._side)

    def build(self) -> None:
        """Take in all live rows of the table, in place of what the index had."""
        spans, owner = self._lists.spans[: len(self.table)], self.table.rows.owner
        dead = np.flatnonzero((owner[: len(spans)] == NO_OWNER) & (spans > 0))
        self._freed.append(dead.astype(np.int32))
        self._dead = self._dead_rows = 0
        self._met.clear()
        boxes = self.table.rows.box[self.table.live_rows()]
        if len(boxes):
            west, south = boxes[:, :2].min(axis=0).tolist()
            east, north = boxes[:, 2:].max(axis=0).tolist()
            self._extent = (west, south, east, north)
        self._lists = build_lists(self.table, self._grid, self._width)

    def insert(self, rows: Int32s) -> None:
        """Take in rows just added to the table."""
        self._clean_met()
        self._reserve_spans()
        progress = np.zeros(2, np.int64)
        while True:
            lists = self._lists
            lacking = insert_rows(
                lists, lists.arena.view(np.float32), self._grid, self.table.rows,
                self.table.frequency, rows, progress,
            )  # fmt: skip
            if lacking == DONE:
                return
            if lacking == NO_SLOT:
                self._lists = with_slots(lists, int(1.5 * lists.counts[LISTS]) + 64)
            else:
                self._lists = with_arena(lists, int(1.5 * len(lists.arena)) + 64)

    def delete(self, rows: Int32s) -> Int32s:
        """Forget rows, and give those that no list holds any more, of these or earlier ones."""
        self._clean_met()
        self._dead += delete_rows(self._lists, self._grid, rows)
        self._dead_rows += len(rows)
        if 4 * self._dead > self._lists.counts[ENTRIES]:
            self._sweep(rows)
        if not self._freed:
            return np.empty(0, np.int32)
        freed = np.concatenate(self._freed)
        self._freed.clear()
        return freed

    def move(self, rows: Int32s) -> None:
        """Put rows whose boxes have changed in the table where they belong now."""
        lists, moved = self._lists, rows.copy()
        away = withdraw_rows(
            lists, lists.arena.view(np.float32), self._grid, self.table.rows, moved
        )
        self.insert(moved[:away])

    def candidates(self, batch: Batch) -> Pairs:
        """Find the rows that match each message."""
        lists, rows, grid = self._lists, self.table.rows, self._grid
        longest = int(np.diff(batch.starts).max(initial=0))
        hits = np.empty(longest + 1, np.int32)
        met = np.zeros(_MET if self._dead else 1, np.int64)
        bitmap = self._borrow_bitmap()
        bounds = lists.arena.view(np.float32)
        pairs = collect(
            len(batch),
            lambda start, messages, found: scan(
                lists, bounds, grid, rows, batch.starts, batch.terms, batch.boxes, bitmap, hits,
                met, start, messages, found,
            ),
        )  # fmt: skip
        self._bitmaps.append(bitmap)
        if met[0] and len(self._met) < _MET:
            self._met.append(met[1 : met[0] + 1])
        return pairs

    def stats(self) -> Mapping[str, float]:
        """Count lists, entries and bytes; entries per row say how often rows are repeated."""
        lists = self._lists
        counts = lists.counts
        entry = lists.arena.itemsize * self._width
        return {
            "bytes": lists.slots.nbytes + int(counts[TOP]) * entry + lists.spans.nbytes,
            "cells": self._side * self._side,
            "lists": int(counts[LISTS]),
            "entries": int(counts[ENTRIES]),
            "dead_entries": self._dead,
        }

    def save(self, folder: Path) -> None:
        """Write the index to files that can be memory-mapped."""
        lists = self._lists
        about = {
            "grid": self._side,
            "inline": self._width > 1,
            "extent": list(self._extent),
            "dead": self._dead,
            "dead_rows": self._dead_rows,
        }
        arrays = lists._asdict() | {"arena": lists.arena[: lists.counts[TOP]]}
        arrays["freed"] = np.concatenate([*self._freed, np.empty(0, np.int32)])
        save_arrays(folder, self.name, _VERSION, about, arrays)

    @classmethod
    def load(cls, folder: Path, table: Table) -> Self:
        """Read what `save` wrote, over the same table."""
        about, arrays = load_arrays(folder, cls.name, _VERSION)
        index = cls(table, about["grid"], about["inline"])
        west, south, east, north = about["extent"]
        index._extent = (west, south, east, north)
        index._dead, index._dead_rows = about["dead"], about["dead_rows"]
        index._freed.append(np.array(arrays.pop("freed")))
        index._lists = CellLists(**{name: np.asarray(array) for name, array in arrays.items()})
        return index

    def _borrow_bitmap(self) -> Bitmap:
        """Take an empty bitmap that no other thread uses; a large one is expensive to make."""
        terms = len(self.table.frequency)
        while self._bitmaps:
            try:
                bitmap = self._bitmaps.pop()
            except IndexError:  # another thread took the last one
                break
            if 64 * len(bitmap) > terms:
                return bitmap
        return bitmap_for(terms)

    def _reserve_spans(self) -> None:
        spans = self._lists.spans
        if len(spans) < len(self.table):
            grown = spans_for(max(len(self.table), len(spans) * 3 // 2), self._side)
            grown[: len(spans)] = spans
            self._lists = self._lists._replace(spans=grown)

    def _clean_met(self) -> None:
        """Clean the lists in which matching met deleted rows."""
        if not self._met:
            return
        keys = np.unique(np.concatenate(self._met))
        self._met.clear()
        freed = np.empty(self._dead_rows, np.int32)
        entries = int(self._lists.counts[ENTRIES])
        count = clean_lists(self._lists, keys, self.table.rows.owner, freed)
        self._note_freed(freed[:count], entries)

    def _sweep(self, rows: Int32s) -> None:
        """Clean all lists of the rows deleted earlier and of these, which the table still has."""
        owner = self.table.rows.owner.copy()
        owner[rows] = NO_OWNER
        freed = np.empty(self._dead_rows, np.int32)
        entries = int(self._lists.counts[ENTRIES])
        count = sweep(self._lists, owner, freed)
        self._note_freed(freed[:count], entries)
        lists = int(self._lists.counts[LISTS])
        if 8 * lists + 64 < len(self._lists.slots):
            self._lists = with_slots(self._lists, lists)

    def _note_freed(self, freed: Int32s, entries_before: int) -> None:
        self._dead -= entries_before - int(self._lists.counts[ENTRIES])
        self._dead_rows -= len(freed)
        self._freed.append(freed)
