"""Columns of events as plain arrays, each with a mask of the entries that are valid beyond doubt.

An entry that is not in the mask may still be valid, as one that is given as JSON text: the caller
looks at it on its own (`nearcast.events.reader`).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from nearcast.arrays.lists import starts_of
from nearcast.arrays.types import Floats, Int64s
from nearcast.events.values import LARGEST_K, LONGEST_ID
from nearcast.geo.polygon_columns import PolygonColumn, checked
from nearcast.geo.region_columns import RegionArrays, with_polygons

Mask = npt.NDArray[np.bool_]

_MOST_BYTES = 2**31 - 1
_LISTS = (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list)


def column_of(table: pa.Table | pa.RecordBatch, name: str) -> pa.Array:
    """A column as one array; nulls if there is none of this name."""
    if name not in table.schema.names:
        return pa.nulls(len(table))
    column = table.column(name)
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_string(column.type) and column.nbytes > _MOST_BYTES:
        column = column.cast(pa.large_string())  # together they exceed what 32 bits count
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def present(column: pa.Array) -> Mask:
    """Which entries are not null."""
    if column.null_count in (0, len(column)):
        return np.full(len(column), column.null_count == 0)
    return mask_of(pc.is_valid(column))


def mask_of(column: pa.Array) -> Mask:
    """A column of truth values, null counting as false, as a mask."""
    if column.null_count:
        column = pc.fill_null(column, False)
    mask: Mask = column.to_numpy(zero_copy_only=False)
    return mask


def floats_of(column: pa.Array) -> tuple[Floats, Mask]:
    """Numbers, and NaN for null."""
    kind = column.type
    if not (pa.types.is_floating(kind) or pa.types.is_integer(kind)):
        return np.full(len(column), np.nan), np.zeros(len(column), np.bool_)
    return _numbers(column), present(column)


def _numbers(column: pa.Array) -> Floats:
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def strings_of(column: pa.Array) -> tuple[pa.StringArray, Mask]:
    """Strings, and which are there and are UTF-8 as they say; all null if they are no strings."""
    kind = column.type
    if pa.types.is_null(kind):
        return pa.nulls(len(column), pa.string()), np.zeros(len(column), np.bool_)
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        try:
            value = kind.value_type if pa.types.is_dictionary(kind) else kind
            text = pa.types.is_string(value) or pa.types.is_string_view(value)
            column = column.cast(pa.string()) if text else pa.nulls(len(column), pa.string())
        except pa.ArrowInvalid:
            column = pa.nulls(len(column), pa.string())
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        return column, np.array([_decodes(value) for value in column.cast(pa.binary()).to_pylist()])
    return column, present(column)


def _decodes(value: bytes | None) -> bool:
    try:
        return value is not None and value.decode() is not None
    except UnicodeDecodeError:
        return False


def ids_of(column: pa.Array) -> tuple[pa.StringArray, Mask]:
    """Identifiers of subscriptions or messages."""
    ids, good = strings_of(column)
    sizes = pc.fill_null(pc.binary_length(ids), 0).to_numpy(zero_copy_only=False)
    return ids, good & (sizes >= 1) & (sizes <= LONGEST_ID)


def _fixed(column: Any, width: int) -> tuple[Floats, Mask]:
    """Lists of `width` numbers as rows; rows of anything else are NaN and not in the mask."""
    kind, count = column.type, len(column)
    if not any(is_list(kind) for is_list in _LISTS):
        return np.full((count, width), np.nan), np.zeros(count, np.bool_)
    value = kind.value_type
    if not (pa.types.is_floating(value) or pa.types.is_integer(value)):
        return np.full((count, width), np.nan), np.zeros(count, np.bool_)
    if pa.types.is_fixed_size_list(kind):
        column = column.cast(pa.list_(value))
    offsets: Int64s = column.offsets.to_numpy().astype(np.int64)
    values = _numbers(column.values)  # null becomes NaN, which fails every check
    good = np.diff(offsets) == width
    if column.null_count:
        good &= present(column)
    if good.all():
        return values[offsets[0] : offsets[0] + count * width].reshape(-1, width).copy(), good
    rows = np.full((count, width), np.nan)
    rows[good] = values[offsets[:-1][good][:, None] + np.arange(width)]
    return rows, good


def _within(rows: Floats, low: tuple[float, ...], high: tuple[float, ...]) -> Mask:
    """Which rows have all their numbers between two others; column by column, which is faster."""
    good = np.ones(len(rows), np.bool_)
    for place, (least, most) in enumerate(zip(low, high, strict=True)):
        good &= (rows[:, place] >= least) & (rows[:, place] <= most)
    return good


def points_of(column: pa.Array) -> tuple[Floats, Mask]:
    """Points as (n, 2), and which of them are points on earth."""
    points, good = _fixed(column, 2)
    return points, good & _within(points, (-180.0, -90.0), (180.0, 90.0))


def _member(column: pa.Array, name: str) -> pa.Array:
    """A field of a column of structs; nulls if it is not there, or there twice."""
    kind = column.type
    if not pa.types.is_struct(kind) or [field.name for field in kind].count(name) != 1:
        return pa.nulls(len(column))
    return column.field(name)


def _is_named(column: pa.Array, name: str) -> Mask:
    """Which entries are regions of one type."""
    return present(column) & mask_of(pc.equal(strings_of(_member(column, "type"))[0], name))


def boxes_of(column: pa.Array) -> tuple[Floats, Mask]:
    """Boxes as (n, 4), and which of the regions are boxes; west may be east of east."""
    boxes, good = _fixed(_member(column, "bbox"), 4)
    good &= _is_named(column, "Box") & (boxes[:, 1] <= boxes[:, 3])
    return boxes, good & _within(boxes, (-180.0, -90.0, -180.0, -90.0), (180.0, 90.0, 180.0, 90.0))


def circles_of(column: pa.Array) -> tuple[Floats, Mask]:
    """Circles as (n, 3), the radius last, and which of the regions are circles."""
    named = _is_named(column, "Circle")
    if not named.any():
        return np.broadcast_to(np.nan, (len(column), 3)), named
    points, good = points_of(_member(column, "center"))
    radii, known = floats_of(_member(column, "radius"))
    good &= named & known & np.isfinite(radii) & (radii >= 0)
    return np.column_stack([points, radii]), good


def polygons_of(column: pa.Array, found: RegionArrays) -> RegionArrays:
    """Add the polygons of a column of structs, as far as they are valid beyond doubt."""
    rows = np.flatnonzero(_is_named(column, "Polygon"))
    rings = _member(column, "coordinates")
    if not len(rows) or _depth(rings.type) != 3:
        return found
    rings = rings.take(pa.array(rows))
    positions = rings.flatten()
    axes = positions.flatten()
    points, good = _fixed(axes, 2)
    if rings.null_count or positions.null_count or axes.null_count or not good.all():
        return found
    single, several = np.arange(len(rows) + 1), np.zeros(len(rows), np.bool_)
    flat = PolygonColumn(several, single, _offsets(rings), _offsets(positions), points)
    return with_polygons(found, rows, *checked(flat))


def _depth(kind: pa.DataType) -> int:
    """How many lists are in each other."""
    return 1 + _depth(kind.value_type) if any(is_list(kind) for is_list in _LISTS) else 0


def _offsets(column: pa.Array) -> Int64s:
    sizes = pc.list_value_length(column).to_numpy(zero_copy_only=False)
    return starts_of(sizes.astype(np.int64))


def tops_of(column: pa.Array) -> tuple[Floats, Mask]:
    """The k and alpha of top-k subscriptions as (n, 2); the mask is of those with nothing else."""
    k, alpha = _member(column, "k"), _member(column, "alpha")
    more = present(_member(column, "scale")) | present(_member(column, "min_score"))
    tops = np.column_stack([floats_of(k)[0], floats_of(alpha)[0]])
    good = _within(tops, (1.0, 0.0), (LARGEST_K, 1.0)) & present(column)
    return tops, good & pa.types.is_integer(k.type) & ~more
