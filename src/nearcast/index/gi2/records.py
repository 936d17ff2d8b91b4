"""What an entry of a list says about its row."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner
from nearcast.arrays.types import Int32s, Int64s
from nearcast.index.table import CIRCLE, EXCLUDES, POLYGON, Rows

Bounds32 = npt.NDArray[np.float32]
BOX = 4
"""Where the box begins in a record."""
COARSENESS = 2.0**-16
"""No side of a box is moved further than this by rounding to single precision."""


@inner
def row_of(entry: int) -> int:
    """Give the row of an entry, from its first number (see `write_record`)."""
    return entry if entry >= 0 else ~entry


@inner
def rarest_term(rows: Rows, row: int, frequency: Int64s) -> int:
    """Give the required term of a row that is expected least often."""
    first = rows.first[row]
    best = rows.terms[first]
    for at in range(first + 1, first + rows.required[row]):
        if frequency[rows.terms[at]] < frequency[best]:
            best = rows.terms[at]
    return int(best)


@inner
def write_box(bounds: Bounds32, at: int, rows: Rows, row: int) -> None:
    """Write a row's box into its record, rounded outward to single precision."""
    for side in range(4):
        exact = rows.box[row, side]
        rounded = np.float32(exact)
        if side < 2 and rounded > exact:
            rounded = np.nextafter(rounded, np.float32(-np.inf))
        elif side >= 2 and rounded < exact:
            rounded = np.nextafter(rounded, np.float32(np.inf))
        bounds[at, BOX + side] = rounded


@inner
def write_record(
    arena: Int32s, bounds: Bounds32, at: int, rows: Rows, row: int, key: int, frequency: Int64s
) -> None:
    """Write the entry of a row into the list of its term `key`.

    The number of a row of which a record cannot hold everything is written as its complement.
    """
    arena[at, 0] = row
    if arena.shape[1] == 1:
        return
    if rows.required[row] > BOX or rows.flags[row] & (CIRCLE | POLYGON | EXCLUDES):
        arena[at, 0] = ~row
    write_box(bounds, at, rows, row)
    arena[at, 1] = arena[at, 2] = arena[at, 3] = key
    for found in range(rows.first[row], rows.first[row] + rows.required[row]):
        term = rows.terms[found]
        if term == key:
            continue
        # The rarest of the others first: they are the ones a message is most likely to lack.
        for place in range(1, BOX):
            other = arena[at, place]
            if other == key:
                arena[at, place] = term
                break
            if frequency[term] < frequency[other]:
                arena[at, place] = term
                term = other
