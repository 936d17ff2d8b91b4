"""Many rows of the table at once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.table import RESIDUAL, SHARED, Table, check_size

SHAPE_WORDS = 6  # that a circle takes, and a small part of what most polygons do


class NewRows(NamedTuple):
    """Rows to be added: what `Rows` has of each, with `first` as a place in `entries`."""

    owner: Int32s
    box: Floats
    flags: npt.NDArray[np.uint8]
    first: Int32s
    required: Int32s
    entries: Int32s


def reserve_rows(table: Table, count: int) -> None:
    """Make room for rows, of which `add_rows` is going to add some at a time."""
    for column in (table._box, table._owner, table._flags, table._first, table._required):
        column.reserve(count)
    table._rows = None


def check_entries(table: Table, count: int) -> None:
    """Refuse rows whose entries would no longer fit into the table."""
    check_size(table._terms.size + count)


def add_rows(table: Table, new: NewRows) -> Int32s:
    """Add rows, and return their numbers: those of removed rows first, then more at the end."""
    check_size(table._terms.size + len(new.entries))
    table._rows = None
    start, some_again = len(table), bool(table._free)
    rows = table._numbers(len(new.owner))
    # New numbers follow each other, and writing to a slice is several times faster.
    where = rows if some_again else slice(start, None)
    table._first.array[where] = new.first + table._terms.extend(new.entries)
    table._required.array[where] = new.required
    table._owner.array[where] = new.owner
    table._box.array[where] = new.box
    table._flags.array[where] = new.flags
    table.live += len(rows)
    flags = int(np.bitwise_or.reduce(new.flags)) if len(rows) else 0
    table.shared |= flags & SHARED > 0
    table.residual |= flags & RESIDUAL > 0
    table.own_rows = table.own_rows and bool((new.owner == rows).all())
    return rows


def add_circles(table: Table, circles: Floats) -> int:
    """Add circles (longitude, latitude, limit), and return the number of the first."""
    table._rows = None
    return table._circles.extend(circles)


def add_polygons(table: Table, positions: Floats, starts: Int64s, rings: Int64s) -> int:
    """Add polygons, and return the number of the first.

    Polygon j has the rings `rings[j]` to `rings[j + 1]`, ring k the positions `starts[k]` to
    `starts[k + 1]`.
    """
    check_size(table._lons.size + len(positions))
    table._rows = None
    base = table._lons.extend(positions[:, 0])
    table._lats.extend(positions[:, 1])
    before = table._starts.extend(starts[1:] + base) - 1
    return table._rings.extend(rings[1:] + before) - 1


def leave_shapes(table: Table, count: int) -> None:
    """Note how many of the added shapes no row refers to, so that they are compacted."""
    table._dead += SHAPE_WORDS * count
