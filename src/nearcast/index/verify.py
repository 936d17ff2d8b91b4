"""Whether a row really matches a message: the one exact check that all indexes share.

Kernels call `accepts` on the rows they propose. The terms of the message are in a bitmap over
term ids, in words of 64 bits: set before its rows are checked, cleared after, so that only the
words of its own terms are ever touched.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, inner_counting
from nearcast.arrays.types import Floats, Int32s
from nearcast.geo.kernels import box_meets_circle
from nearcast.geo.predicates import plain_box_meets_polygon, point_in_polygon
from nearcast.index.table import CIRCLE, EXCLUDES, POLYGON, Parts, Rows

Bitmap = npt.NDArray[np.uint64]


def bitmap_for(terms: int) -> Bitmap:
    """Make an empty bitmap over the terms 0 to terms - 1."""
    return np.zeros((terms + 63) // 64 + 1, np.uint64)


@inner
def set_terms(bitmap: Bitmap, terms: Int32s, start: int, stop: int) -> None:
    """Mark the terms of a message."""
    for at in range(start, stop):
        term = terms[at]
        bitmap[term >> 6] |= np.uint64(1) << np.uint64(term & 63)


@inner
def clear_terms(bitmap: Bitmap, terms: Int32s, start: int, stop: int) -> None:
    """Forget the terms of a message."""
    for at in range(start, stop):
        bitmap[terms[at] >> 6] = np.uint64(0)


@inner
def has_term(bitmap: Bitmap, term: int) -> bool:
    """Return whether the message has a term."""
    return bool((bitmap[term >> 6] >> np.uint64(term & 63)) & np.uint64(1))


@inner
def accepts_text(rows: Rows | Parts, row: int, bitmap: Bitmap) -> bool:
    """Return whether the message has all required and no excluded terms of a row."""
    at = rows.first[row]
    stop = at + rows.required[row]
    while at < stop:
        if not has_term(bitmap, rows.terms[at]):
            return False
        at += 1
    if rows.flags[row] & EXCLUDES:
        stop = at + 1 + rows.terms[at]
        at += 1
        while at < stop:
            if has_term(bitmap, rows.terms[at]):
                return False
            at += 1
    return True


@inner_counting
def _meets_shape(
    flags: int, shape: int, circles: Floats, rings: Int32s, starts: Int32s, lons: Floats,
    lats: Floats, west: float, south: float, east: float, north: float,
) -> bool:  # fmt: skip
    """Return whether a circle or polygon of the table meets a plain box."""
    if flags & CIRCLE:
        lon, lat, limit = circles[shape, 0], circles[shape, 1], circles[shape, 2]
        return bool(box_meets_circle(west, south, east, north, lon, lat, limit))
    first, last = rings[shape], rings[shape + 1]
    if west == east and south == north:
        return bool(point_in_polygon(west, south, lons, lats, starts, first, last))
    return bool(plain_box_meets_polygon(west, south, east, north, lons, lats, starts, first, last))


@inner
def accepts_box(
    box: Floats, row: int, west: float, south: float, east: float, north: float
) -> bool:
    """Return whether the plain box of a message, of size zero for a point, meets a row's box."""
    return bool(
        (box[row, 0] <= east)
        & (box[row, 2] >= west)
        & (box[row, 1] <= north)
        & (box[row, 3] >= south)
    )


@inner
def accepts_place(
    rows: Rows, row: int, west: float, south: float, east: float, north: float
) -> bool:
    """Return whether the plain box of a message, of size zero for a point, meets a row's region."""
    if not accepts_box(rows.box, row, west, south, east, north):
        return False
    flags = rows.flags[row]
    if flags & (CIRCLE | POLYGON) == 0:
        return True
    shape = rows.terms[rows.first[row] - 1]
    return _meets_shape(
        flags, shape, rows.circles, rows.rings, rows.starts, rows.lons, rows.lats,
        west, south, east, north,
    )  # fmt: skip


@inner
def accepts(
    rows: Rows, row: int, west: float, south: float, east: float, north: float, bitmap: Bitmap
) -> bool:
    """Return whether a row that is in use matches a message."""
    return (
        rows.owner[row] >= 0
        and accepts_place(rows, row, west, south, east, north)
        and accepts_text(rows, row, bitmap)
    )
