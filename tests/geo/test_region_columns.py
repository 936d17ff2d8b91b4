"""Columns of regions as arrays: each entry is what `as_region` makes of it, or is left."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from nearcast.errors import InvalidValue
from nearcast.geo import Box, Circle, Region, as_region
from nearcast.geo._region_kernels import surely_valid
from nearcast.geo.polygon_columns import checked, of_lists
from nearcast.geo.region_columns import (
    ABSENT,
    BOX,
    CIRCLE,
    POLYGON,
    UNREAD,
    RegionArrays,
    regions_of_texts,
)

SQUARE = [[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [0.0, 0.0]]
HOLE = [[1.0, 1.0], [2.0, 1.0], [2.0, 2.0], [1.0, 1.0]]
BOW_TIE = [[0.0, 0.0], [4.0, 4.0], [4.0, 0.0], [0.0, 4.0], [0.0, 0.0]]
FAR = [[170.0, 0.0], [190.0, 0.0], [190.0, 5.0], [170.0, 0.0]]


def polygon(*rings: Any) -> str:
    return json.dumps({"type": "Polygon", "coordinates": rings})


READ = [
    '{"type":"Circle","center":[151.2,-33.87],"radius":2000}',
    ' { "radius" : 0.5 , "center" : [ 1 , 2.25 ] , "type" : "Circle" } ',
    '{"type":"Box","bbox":[1.5,-2,3,4]}',
    '{"bbox":[170,-20,-170,-10],"type":"Box"}',
    polygon(SQUARE),
    polygon(SQUARE, HOLE),
    "POLYGON ((0 0, 4 0, 4 4, 0 4, 0 0))",
    "Polygon((0 0,4 0,4 4,0 4,0 0),(1 1,2 1,2 2,1 1))",
    " POLYGON((30.123456789012345 10.5, 40 40, 20 41, 30.123456789012345 10.5))\n",
    "polygon ((0 0, 4 0, 0 4, 0 0))",
    "POLYGON Z ((0 0 1, 4 0 1, 0 4 1, 0 0 1))",
    "POLYGON ((1e1 0, 4 0, 0 4, 1e1 0))",
    "MULTIPOLYGON (((0 0, 4 0, 0 4, 0 0)))",
    '{"type":"MultiPolygon","coordinates":[[[[0,0],[4,0],[0,4],[0,0]]]]}',
    '{"type":"Circle","center":[1e0,2],"radius":5e2}',
    '{"type":"Circle","center":[-0,2],"radius":5,"note":{"a":[1]}}',
    shapely.to_wkb(shapely.box(0, 0, 1, 1), hex=True),
]
LEFT = [
    "", "{}", "null", "x", '{"type":"Circle"}', '{"type":"Circle","center":[1,2],"radius":-1}',
    '{"type":"Circle","center":[1,2,3],"radius":1}', '{"type":"Box","bbox":[0,5,1,4]}',
    '{"type":"Box","bbox":[0,0,1,91]}', '{"type":"Box","bbox":[0,0,1,true]}', polygon(BOW_TIE),
    polygon(SQUARE[:-1]), polygon(FAR), polygon(), polygon(SQUARE[:3]), "POLYGON EMPTY",
    "POLYGON ((0 0, 4 4, 4 0, 0 4, 0 0))", "POLYGON ((0 0, 4 0, 0 4))", "POINT (1 2)",
    "SRID=4326;POLYGON ((0 0, 4 0, 0 4, 0 0))", polygon(SQUARE) + "x", '{"type":"Line"}',
    '{"type":"Feature","geometry":{"type":"Polygon","coordinates":[]}}',
    "POLYGON ((0 0, 4 0, 0 4, 0 0)) x", "POLYGON ((0 0, 4 0, 0 4, 0 0)", '{"type":"Box"',
]  # fmt: skip


def region(found: RegionArrays, row: int) -> Region | None:
    kind = found.kinds[row]
    if kind == BOX:
        return Box(*found.boxes[row].tolist())
    if kind == CIRCLE:
        lon, lat, radius = found.circles[row].tolist()
        return Circle((lon, lat), radius)
    return found.polygons.region(int(found.polygon[row])) if kind == POLYGON else None


def check(column: pa.Array) -> RegionArrays:
    found = regions_of_texts(column)
    for row, value in enumerate(column.to_pylist()):
        assert bool(found.kinds[row] == ABSENT) is (value is None)
        if found.kinds[row] > UNREAD:
            assert region(found, row) == as_region(value)
            assert repr(region(found, row)) == repr(as_region(value)).replace("-0.0", "0.0")
    return found


def test_usual_texts_are_read() -> None:
    """All forms are read, in a column with others and with nulls."""
    found = check(pa.array([*READ, None, *reversed(READ)]))
    assert (found.kinds != UNREAD).all()


def test_what_is_wrong_is_left() -> None:
    """What is not valid beyond doubt is left, and does not disturb what stands beside it."""
    found = check(pa.array([each for pair in zip(LEFT, READ * 2, strict=False) for each in pair]))
    assert (found.kinds[::2] == UNREAD).all()
    assert (found.kinds[1::2] > UNREAD).all()


def test_wkb_is_read() -> None:
    """Polygons in WKB are read in both orders of bytes, several as one, and with heights."""
    shapes = [shapely.from_wkt(text) for text in READ if "OLYGON" in text]
    values: list[bytes | None] = [None, b"", b"\1\3\0\0\0\1\0\0\0\xff\0\0\0"]
    for shape in shapes:
        values += [shapely.to_wkb(shape), shapely.to_wkb(shape, byte_order=0)]
    values.append(shapely.to_wkb(shapely.from_wkt(LEFT[16])))
    found = check(pa.array(values, pa.binary()))
    wrong = [1, 2, len(values) - 1]
    assert np.flatnonzero(found.kinds == UNREAD).tolist() == wrong


corners = st.lists(
    st.tuples(st.integers(-8, 8).map(float), st.integers(-8, 8).map(float)), min_size=3, max_size=7
)


@given(st.lists(corners, min_size=1, max_size=6), st.floats(0.001, 7.0), st.sampled_from([0, 1e-9]))
def test_validity(rings: list[Any], scale: float, off: float) -> None:
    """What is surely valid is valid by shapely; and all that is valid is found in the end."""
    closed = [[(x * scale, y * scale + off * x) for x, y in [*ring, ring[0]]] for ring in rings]
    column, good = of_lists(np.zeros(len(closed), np.bool_), [[[ring]] for ring in closed])
    expected = [shapely.Polygon(ring).is_valid for ring in closed]
    assert good.tolist() == expected
    everything = np.concatenate([np.array(ring) for ring in closed])
    starts = np.concatenate([[0], np.cumsum([len(ring) for ring in closed])])
    sure = surely_valid(np.arange(len(closed) + 1), starts, everything)
    assert all(valid for is_sure, valid in zip(sure.tolist(), expected, strict=True) if is_sure)
    again, all_good = checked(column)
    assert all_good.all()
    assert len(again) == sum(expected)


def test_a_convex_polygon_is_surely_valid() -> None:
    """Polygons far from doubt need no other check."""
    ring = np.array(SQUARE)
    assert surely_valid(np.array([0, 1]), np.array([0, 5]), ring).all()
    assert not surely_valid(np.array([0, 1]), np.array([0, 5]), np.array(BOW_TIE)).any()


@given(
    st.sampled_from(READ), st.integers(0, 80), st.sampled_from('[]{}()," 0-.eE\\x'), st.booleans()
)
def test_mutated_texts(text: str, at: int, letter: str, instead: bool) -> None:
    """A letter more, or another one, anywhere: read as `as_region` reads it, or left."""
    mutated = text[:at] + letter + text[at + instead :]
    found = regions_of_texts(pa.array([mutated]))
    try:
        expected = as_region(mutated)
    except InvalidValue:
        assert found.kinds[0] == UNREAD
        return
    assert found.kinds[0] == UNREAD or region(found, 0) == expected


@pytest.mark.parametrize("rows", [0, 1, 3])
def test_slices(rows: int) -> None:
    """A part of a column is read like the whole."""
    whole = pa.array(READ)
    found = check(whole.slice(2, rows))
    assert len(found.kinds) == rows
