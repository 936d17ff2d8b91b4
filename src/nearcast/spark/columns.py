"""Columns of events as plain arrays, each with a mask of the valid rows.

The caller looks at the other rows one by one, and finds what is wrong with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.types import Floats, Int64s
from nearcast.events.values import LONGEST_ID

Mask = npt.NDArray[np.bool_]


def present(column: pa.Array) -> Mask:
    """Which entries are not null."""
    return mask_of(pc.is_valid(column))


def mask_of(column: pa.Array) -> Mask:
    """A column of truth values, null counting as false, as a mask."""
    if column.null_count:
        column = pc.fill_null(column, False)
    mask: Mask = column.to_numpy(zero_copy_only=False)
    return mask


def floats_of(column: pa.Array) -> Floats:
    """Numbers as they are, and NaN for null."""
    return np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def is_text(column: pa.StringArray) -> Mask:
    """Which entries are valid UTF-8; null counts as valid."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return np.array([_decodes(value) for value in column.cast(pa.binary()).to_pylist()])
    return np.ones(len(column), np.bool_)


def _decodes(value: bytes | None) -> bool:
    try:
        return value is None or value.decode() is not None
    except UnicodeDecodeError:
        return False


def good_ids(column: pa.StringArray) -> Mask:
    """Which entries are identifiers."""
    sizes = pc.fill_null(pc.binary_length(column), 0).to_numpy(zero_copy_only=False)
    good: Mask = (sizes >= 1) & (sizes <= LONGEST_ID)
    return good


def _fixed(column: Any, width: int) -> tuple[Floats, Mask]:
    """Lists of `width` numbers as rows; rows of anything else are NaN and not in the mask."""
    count = len(column)
    rows = np.full((count, width), np.nan)
    sizes = np.diff(column.offsets.to_numpy().astype(np.int64))
    good = (sizes == width) & present(column)
    if good.any():
        starts: Int64s = column.offsets.to_numpy()[:-1][good].astype(np.int64)
        values = floats_of(column.values)  # null becomes NaN, which fails every check
        rows[good] = values[starts[:, None] + np.arange(width)]
    return rows, good


def points_of(column: pa.Array) -> tuple[Floats, Mask]:
    """Points as (n, 2), and which of them are points on earth."""
    points, good = _fixed(column, 2)
    return points, good & (np.abs(points) <= (180.0, 90.0)).all(axis=1)


def boxes_of(column: pa.StructArray) -> tuple[Floats, Mask]:
    """Boxes as (n, 4), and which of the regions are boxes; west may be east of east."""
    boxes, good = _fixed(column.field("bbox"), 4)
    good &= present(column) & mask_of(pc.equal(column.field("type"), "Box"))
    with np.errstate(invalid="ignore"):
        good &= (np.abs(boxes) <= (180.0, 90.0, 180.0, 90.0)).all(axis=1)
        good &= boxes[:, 1] <= boxes[:, 3]
    return boxes, good


def circles_of(column: pa.StructArray) -> tuple[Floats, Mask]:
    """Circles as (n, 3), the radius last, and which of the regions are circles."""
    named = present(column) & mask_of(pc.equal(column.field("type"), "Circle"))
    if not named.any():
        return np.full((len(column), 3), np.nan), named
    points, good = points_of(column.field("center"))
    circles = np.column_stack([points, floats_of(column.field("radius"))])
    good &= named
    with np.errstate(invalid="ignore"):
        good &= np.isfinite(circles[:, 2]) & (circles[:, 2] >= 0)
    return circles, good
