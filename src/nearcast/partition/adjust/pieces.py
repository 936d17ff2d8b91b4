"""A plan in pieces: what of each cell each worker has, with its load and its bytes.

A piece is a whole cell, or those terms of a cell split by text that one worker has. It is the
least that is moved (PS2Stream, section V-A, "in the unit of one cell").
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.arrays.lists import starts_of
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.partition.adjust.recent import RecentWork
from nearcast.partition.digest import sums
from nearcast.partition.grid import cells_of
from nearcast.partition.owners import owners_of
from nearcast.partition.plan import Plan


class Pieces(NamedTuple):
    """All pieces with rows or hits, ordered by cell and worker, and which rows each has."""

    cell: Int32s
    worker: Int32s
    load: Floats  # ns of its hits and messages
    messages: Floats
    size: Floats  # bytes of its rows
    rows: Floats  # how many those are
    row_starts: Int64s  # the pieces of row i are `row_pieces[row_starts[i] : row_starts[i + 1]]`
    row_pieces: Int32s
    piece_starts: Int64s  # and the rows of piece i in the same way
    piece_rows: Int32s

    @property
    def number(self) -> int:
        """How many pieces there are."""
        return len(self.cell)

    @property
    def by_definition(self) -> Floats:
        """The load of definition 3: messages times rows."""
        return self.messages * self.rows


def pieces_of(plan: Plan, recent: RecentWork) -> Pieces:
    """Cut what there is to do into the pieces that a plan deals out."""
    number, cells = cells_of(plan.grid, recent.boxes)
    workers = plan.workers
    code = cells.astype(np.int64) * workers + owners_of(plan, cells, recent.keys[number])
    at = recent.hit_cell.astype(np.int64) * workers
    hit_code = at + owners_of(plan, recent.hit_cell, recent.hit_key)
    known = np.zeros(plan.grid.cells * workers, np.bool_)
    known[code] = True
    known[hit_code] = True
    codes = np.flatnonzero(known)
    place = np.cumsum(known, dtype=np.int32) - 1
    row_pieces: Int32s = place[code].astype(np.int32)
    hit_piece = place[hit_code]
    count = len(codes)
    row_starts = starts_of(np.bincount(number, minlength=len(recent.boxes)))
    piece_starts, piece_rows = _turned(row_starts, row_pieces, count)
    messages = _distinct(hit_piece, recent.hit_message, count)
    hits = sums(hit_piece, recent.hit_cost, count)
    return Pieces(
        cell=(codes // workers).astype(np.int32),
        worker=(codes % workers).astype(np.int32),
        load=hits + recent.message_ns * messages,
        messages=messages,
        size=sums(row_pieces, recent.bytes[number], count),
        rows=np.asarray(recent.scale * np.bincount(row_pieces, minlength=count)),
        row_starts=row_starts,
        row_pieces=row_pieces,
        piece_starts=piece_starts,
        piece_rows=piece_rows,
    )


def _distinct(pieces: npt.NDArray[np.integer], messages: Int32s, count: int) -> Floats:
    """Count the different messages of each piece; a message may have several hits there."""
    pairs = np.unique(pieces.astype(np.int64) << 32 | messages)
    return np.bincount(pairs >> 32, minlength=count).astype(np.float64)


@kernel
def _turned(row_starts: Int64s, row_pieces: Int32s, count: int) -> tuple[Int64s, Int32s]:
    """From the pieces of each row to the rows of each piece."""
    starts = np.zeros(count + 1, np.int64)
    for piece in row_pieces:
        starts[piece + 1] += 1
    for piece in range(count):
        starts[piece + 1] += starts[piece]
    filled = starts[:-1].copy()
    rows = np.empty(len(row_pieces), np.int32)
    for row in range(len(row_starts) - 1):
        for place in range(row_starts[row], row_starts[row + 1]):
            piece = row_pieces[place]
            rows[filled[piece]] = row
            filled[piece] += 1
    return starts, rows
