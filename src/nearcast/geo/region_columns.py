"""Columns of regions as flat arrays: boxes, circles and polygons.

What is valid beyond doubt is read all at once; the rest is for the caller to look at one by one
with `as_region`, which reads everything and makes all error messages.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import shapely

from nearcast.arrays.decimals import POWERS
from nearcast.arrays.strings import buffers
from nearcast.arrays.types import Bools, Floats
from nearcast.geo._region_kernels import read_texts, read_wkb, surely_valid
from nearcast.geo.polygon_columns import (
    NO_POLYGONS,
    PolygonColumn,
    checked,
    joined,
    of_geometries,
    of_lists,
)

ABSENT, UNREAD, BOX, CIRCLE, POLYGON = range(5)
"""What a region is; UNREAD is not valid beyond doubt."""

Kinds = npt.NDArray[np.int8]

_AT_A_TIME = 1 << 15
_HEX = r"^\s*0[01](?:[0-9A-Fa-f]{2})+\s*$"
_Position = tuple[float, float]


class RegionArrays(NamedTuple):
    """Regions by row; `polygon` has the place of a row's polygons among all, or -1."""

    kinds: Kinds
    boxes: Floats  # (n, 4), NaN for others; west may be east of east
    circles: Floats  # (n, 3), the radius last; NaN for others
    polygon: npt.NDArray[np.int64]
    polygons: PolygonColumn


class _Box(msgspec.Struct, tag_field="type", tag="Box"):
    bbox: tuple[float, float, float, float]


class _Circle(msgspec.Struct, tag_field="type", tag="Circle"):
    center: _Position
    radius: float


class _Polygon(msgspec.Struct, tag_field="type", tag="Polygon"):
    coordinates: list[list[_Position]]


class _MultiPolygon(msgspec.Struct, tag_field="type", tag="MultiPolygon"):
    coordinates: list[list[list[_Position]]]


_decoder = msgspec.json.Decoder(_Box | _Circle | _Polygon | _MultiPolygon)


def no_regions(count: int) -> RegionArrays:
    """As many rows without a region, to be filled."""
    return RegionArrays(
        np.zeros(count, np.int8), np.full((count, 4), np.nan), np.full((count, 3), np.nan),
        np.full(count, -1, np.int64), NO_POLYGONS,
    )  # fmt: skip


def regions_of_texts(column: pa.Array) -> RegionArrays:
    """Read a column of strings or of bytes: JSON of the event log, GeoJSON, WKT or WKB."""
    found = no_regions(len(column))
    found.kinds[np.asarray(pc.is_valid(column))] = UNREAD
    polygons: list[PolygonColumn] = []
    for start in range(0, len(column), _AT_A_TIME):
        polygons += _by_kernel(
            column.slice(start, _AT_A_TIME), found, start, sum(map(len, polygons))
        )
    found = found._replace(polygons=joined(polygons))
    rest = np.flatnonzero(found.kinds == UNREAD)
    return _by_libraries(found, column, rest) if len(rest) else found


def _by_kernel(
    column: pa.Array, found: RegionArrays, start: int, before: int
) -> list[PolygonColumn]:
    """Read what is usual in some rows, from row `start` on, with `before` polygons so far."""
    if column.null_count:
        column = pc.fill_null(column, b"" if pa.types.is_binary(column.type) else "")
    texts = pa.types.is_string(column.type)
    data, offsets = buffers(column if texts else column.cast(pa.large_binary()))
    size, count = int(offsets[-1] - offsets[0]), len(column)
    kinds = found.kinds[start : start + count]
    rows, rings = np.empty(count, np.int64), np.zeros(count + 1, np.int64)
    room = size // 4 + 4
    starts, positions = np.zeros(room, np.int64), np.empty(2 * room, np.uint64)
    if texts:
        values = np.empty((count, 4), np.uint64)
        polygons = read_texts(POWERS, data, offsets, kinds, values, rows, rings, starts, positions)
        numbers = values.view(np.float64)
        for kind, put in ((BOX, put_boxes), (CIRCLE, put_circles)):
            some = np.flatnonzero(kinds == kind)
            kinds[some] = UNREAD  # until they are checked
            put(found, start + some, numbers[some, : 4 if kind == BOX else 3])
    else:
        polygons = read_wkb(data, offsets, kinds, rows, rings, starts, positions)
    if not polygons:
        return []
    rows, rings = rows[:polygons], rings[: polygons + 1]
    starts = starts[: rings[-1] + 1]
    places = positions[: 2 * starts[-1]].view(np.float64).reshape(-1, 2)
    flat = PolygonColumn(
        np.zeros(polygons, np.bool_), np.arange(polygons + 1), rings, starts, places
    )
    sure = surely_valid(rings, starts, places)
    kinds[rows] = UNREAD
    parts, unsure = [flat.take(np.flatnonzero(sure))], np.flatnonzero(~sure)
    done = rows[sure]
    if len(unsure):
        others, good = checked(flat.take(unsure))
        parts.append(others)
        done = np.concatenate([done, rows[unsure[good]]])
    kinds[done] = POLYGON
    found.polygon[start + done] = before + np.arange(len(done))
    return parts


def _by_libraries(found: RegionArrays, column: pa.Array, rows: Any) -> RegionArrays:
    """Read rows that are unusual, as far as they are valid beyond doubt."""
    if not pa.types.is_string(column.type):
        return _of_geometries(found, column, rows, shapely.from_wkb)
    some = column.take(pa.array(rows))
    is_json = _mask(pc.starts_with(pc.utf8_ltrim_whitespace(some), "{"))
    found = _of_json(found, column, rows[is_json])
    hexadecimal = ~is_json & _mask(pc.match_substring_regex(some, _HEX))
    found = _of_geometries(found, column, rows[hexadecimal], shapely.from_wkb)
    return _of_geometries(found, column, rows[~is_json & ~hexadecimal], shapely.from_wkt)


def _mask(column: Any) -> Bools:
    mask: Bools = pc.fill_null(column, False).to_numpy(zero_copy_only=False)
    return mask


def _of_geometries(found: RegionArrays, column: pa.Array, rows: Any, read: Any) -> RegionArrays:
    if not len(rows):
        return found
    values = column.take(pa.array(rows)).to_numpy(zero_copy_only=False)
    with np.errstate(all="ignore"):  # of numbers that are no floats
        geometries = read(values, on_invalid="ignore")
    return with_polygons(found, rows, *of_geometries(geometries))


def with_polygons(
    found: RegionArrays, rows: Any, polygons: PolygonColumn, good: Bools
) -> RegionArrays:
    """Add polygons, which are those of the rows that are good."""
    some = rows[good]
    found.kinds[some] = POLYGON
    found.polygon[some] = len(found.polygons) + np.arange(len(some))
    return found._replace(polygons=joined([found.polygons, polygons]))


def _of_json(found: RegionArrays, column: pa.Array, rows: Any) -> RegionArrays:
    if not len(rows):
        return found
    texts = column.take(pa.array(rows))
    decoded = _decoded(texts)
    places: dict[type, list[int]] = {kind: [] for kind in (_Box, _Circle, _Polygon, _MultiPolygon)}
    for place, one in enumerate(decoded):
        if one is not None:
            places[type(one)].append(place)
    boxes = [decoded[place].bbox for place in places[_Box]]
    put_boxes(found, rows[places[_Box]], np.array(boxes, np.float64).reshape(-1, 4))
    circles = [(*(one := decoded[place]).center, one.radius) for place in places[_Circle]]
    put_circles(found, rows[places[_Circle]], np.array(circles, np.float64).reshape(-1, 3))
    for kind, several in ((_Polygon, False), (_MultiPolygon, True)):
        if places[kind]:
            coordinates = [decoded[place].coordinates for place in places[kind]]
            entries = coordinates if several else [[rings] for rings in coordinates]
            flags = np.full(len(entries), several)
            found = with_polygons(found, rows[places[kind]], *of_lists(flags, entries))
    return found


def _decoded(texts: pa.Array) -> list[Any]:
    """The regions of JSON texts, one for each; None where a text is none of ours."""
    with _uncollected():
        try:
            lines = "\n".join(texts.to_pylist()).encode()
            found: list[Any] = _decoder.decode_lines(lines)
            if len(found) == len(texts):
                return found
        except (msgspec.DecodeError, UnicodeEncodeError):
            pass
        return [_one(text) for text in texts.to_pylist()]


@contextmanager
def _uncollected() -> Iterator[None]:
    """Make many small lists without looking for cycles, of which they have none.

    Python would look through all that was made so far again and again: most of the time.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _one(text: str) -> Any:
    try:
        return _decoder.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None


def put_boxes(found: RegionArrays, rows: Any, boxes: Floats) -> None:
    """Add boxes that are on earth, with the south not above the north."""
    good = (np.abs(boxes[:, 0]) <= 180.0) & (np.abs(boxes[:, 2]) <= 180.0)
    good &= (boxes[:, 1] >= -90.0) & (boxes[:, 1] <= boxes[:, 3]) & (boxes[:, 3] <= 90.0)
    found.kinds[rows[good]], found.boxes[rows[good]] = BOX, boxes[good]


def put_circles(found: RegionArrays, rows: Any, circles: Floats) -> None:
    """Add circles whose centers are on earth, with a radius that is not negative."""
    good = (np.abs(circles[:, 0]) <= 180.0) & (np.abs(circles[:, 1]) <= 90.0)
    good &= np.isfinite(circles[:, 2]) & (circles[:, 2] >= 0.0)
    found.kinds[rows[good]], found.circles[rows[good]] = CIRCLE, circles[good]
