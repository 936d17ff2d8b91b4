"""Columns of Arrow as regions and points: an entry is what it would be alone."""

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
from nearcast.geo import (
    Box,
    Circle,
    MultiPolygon,
    Polygon,
    Region,
    as_point,
    as_region,
    region_to_json,
)
from nearcast.geo.columns import points_in, regions_in

RINGS = [
    [(0.0, 0.0), (8.0, 0.0), (8.0, 8.0), (0.0, 0.0)],
    [(4.0, 1.0), (5.0, 1.0), (5.0, 2.0), (4.0, 1.0)],
]
OTHER = [[(8.0, 8.0), (9.0, 8.0), (9.0, 9.0), (8.0, 8.0)]]
FRAME, BOTH = Polygon(RINGS), MultiPolygon([RINGS, OTHER])
TWICE = MultiPolygon([OTHER, OTHER])  # overlapping, which shapely calls invalid
SHAPES = [shapely.geometry.shape(each) for each in (FRAME, BOTH, TWICE)]
BOW_TIE = shapely.Polygon([(0, 0), (2, 2), (2, 0), (0, 2), (0, 0)])
BAD: list[shapely.Geometry] = [
    BOW_TIE,
    shapely.MultiPolygon([SHAPES[0], BOW_TIE]),
    shapely.box(0, 0, 200, 1),
    shapely.Polygon(),
    shapely.MultiPolygon(),
    shapely.Point(1, 2),
    shapely.Point(),
    shapely.LineString([(0, 0), (1, 1)]),
    shapely.GeometryCollection([SHAPES[0]]),
    shapely.set_srid(shapely.box(0, 0, 1, 1), 3857),
]
ALL = [*SHAPES, *BAD, shapely.force_3d(SHAPES[0], 5.0), shapely.set_srid(SHAPES[1], 4326)]


def alone(read: Any, value: Any) -> Any:
    """What one entry is, or its error."""
    try:
        return None if value is None else read(value)
    except InvalidValue as error:
        return str(error)


def check_regions(column: pa.Array | pa.ChunkedArray, values: list[Any]) -> None:
    found = regions_in(column)
    expected = [alone(as_region, value) for value in values]
    errors = {row: each for row, each in enumerate(expected) if isinstance(each, str)}
    assert {row: str(error) for row, error in found.errors.items()} == errors
    assert found.regions == [None if isinstance(each, str) else each for each in expected]
    for one, other in zip(found.regions, expected, strict=True):
        if isinstance(one, Polygon | MultiPolygon):
            assert (one.box, one.bounds()) == (other.box, other.bounds())
            assert one.contains(4.5, 1.2) == other.contains(4.5, 1.2)


def check_points(column: Any, values: list[Any], lats: Any = None) -> None:
    found = points_in(column, lats)
    expected = [alone(as_point, value) for value in values]
    errors = {row: each for row, each in enumerate(expected) if isinstance(each, str)}
    assert {row: str(error) for row, error in found.errors.items()} == errors
    nothing = (np.nan, np.nan)
    plain = [nothing if each is None or isinstance(each, str) else each for each in expected]
    assert np.array_equal(found.points, np.array(plain).reshape(-1, 2), equal_nan=True)


TEXTS = [
    *(shape.wkt for shape in ALL),
    *(shapely.to_geojson(shape) for shape in ALL if not shape.is_empty),
    *(shape.wkb_hex for shape in SHAPES),
    f"SRID=4326;{SHAPES[0].wkt}",
    json.dumps({"type": "Feature", "properties": {}, "geometry": region_to_json(FRAME)}),
    json.dumps({"type": "FeatureCollection", "features": []}),
    json.dumps(region_to_json(Circle((1, 2), 3))),
    json.dumps(region_to_json(Box(170, 1, -170, 2))),
    json.dumps({"type": "Polygon", "coordinates": [RINGS[0][:-1]]}),
    '{"type": "Polygon"',
    "",
    "pizza",
    None,
]
WKBS = [*(shapely.to_wkb(shape, include_srid=True) for shape in ALL), b"pizza", b"", None]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()], ids=str)
def test_wkb(kind: pa.DataType) -> None:
    """Good and bad ones, nulls among them."""
    check_regions(pa.array(WKBS, kind), WKBS)
    assert len(regions_in(pa.array(WKBS, kind)).errors) == len(BAD) + 2


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_text(kind: pa.DataType) -> None:
    """WKT, GeoJSON, hexadecimal WKB and the JSON of the event log, in one column."""
    check_regions(pa.array(TEXTS, kind), TEXTS)


@given(st.lists(st.sampled_from(TEXTS), max_size=6), st.integers(0, 6))
def test_any_entries_in_any_order(values: list[str | None], cut: int) -> None:
    """In a slice and in chunks."""
    check_regions(pa.array(["pizza", *values], pa.string()).slice(1), values)
    parts = [pa.array(some, pa.string()) for some in (values[:cut], [], values[cut:])]
    check_regions(pa.chunked_array(parts, pa.string()), values)
    check_regions(pa.array(values, pa.string()).dictionary_encode(), values)


def test_no_entries() -> None:
    for kind in (pa.binary(), pa.string(), pa.list_(pa.list_(pa.list_(pa.float64())))):
        assert regions_in(pa.array([], kind)) == ([], {})
        assert regions_in(pa.chunked_array([], kind)) == ([], {})
    assert points_in(pa.array([], pa.binary())).points.shape == (0, 2)
    assert points_in(pa.chunked_array([], pa.string())).points.shape == (0, 2)


STRUCT = pa.struct([("x", pa.float64()), ("y", pa.float64())])
PAIR = pa.list_(pa.float64(), 2)


@pytest.mark.parametrize("point", [STRUCT, PAIR, pa.list_(pa.float64())], ids=str)
def test_polygons_of_geoarrow(point: pa.DataType) -> None:
    """Interleaved or separated, and the nested lists of GeoJSON."""

    def shaped(position: tuple[float, float]) -> Any:
        return dict(zip("xy", position, strict=True)) if point == STRUCT else list(position)

    rings = [[[shaped(each) for each in ring] for ring in part] for part in (RINGS, OTHER)]
    open_ring = [[shaped(each) for each in RINGS[0][:-1]]]
    polygons = pa.array([*rings, None, open_ring, []], pa.list_(pa.list_(point)))
    found = regions_in(polygons)
    assert found.regions == [FRAME, Polygon(OTHER), None, None, None]
    assert [error.field for error in found.errors.values()] == [
        "region.coordinates[0]", "region.coordinates",
    ]  # fmt: skip
    several = pa.array([rings, None], pa.list_(pa.list_(pa.list_(point))))
    assert regions_in(several).regions == [BOTH, None]


def test_boxes_of_geoarrow() -> None:
    """West above east crosses the antimeridian here too."""
    edges = [(0.0, 1.0, 2.0, 3.0), (170.0, 0.0, -170.0, 1.0), (0.0, 3.0, 2.0, 1.0), None]
    names = ("xmin", "ymin", "xmax", "ymax")
    kind = pa.struct([(name, pa.float64()) for name in names])
    rows = [each and dict(zip(names, each, strict=True)) for each in edges]
    found = regions_in(pa.array(rows, kind))
    assert found.regions == [Box(0, 1, 2, 3), Box(170, 0, -170, 1), None, None]
    assert [(row, error.field) for row, error in found.errors.items()] == [(2, "region.bbox[1]")]


def test_structs_of_the_event_log() -> None:
    """Those of our own Parquet files."""
    from nearcast.events.columns import EVENT_SCHEMA
    from nearcast.events.parquet import as_row

    regions: list[Region] = [Box(0, 0, 1, 1), Circle((1, 2), 3), FRAME, BOTH]
    rows = [as_row({"region": region_to_json(each)})["region"] for each in regions]
    column = pa.array([*rows, None, {"type": "Point"}], EVENT_SCHEMA.field("region").type)
    found = regions_in(column)
    assert found.regions == [*regions, None, None]
    assert list(found.errors) == [5]


POINTS: list[Any] = [
    "POINT (151.2 -33.87)", "POINT Z (1 2 3)", "POINT (1 95)", "POINT EMPTY", "[1, 2]", None,
    '{"type": "Point", "coordinates": [1, 2]}', "POLYGON ((0 0, 1 0, 1 1, 0 0))", "pizza",
    shapely.Point(3, 4).wkb_hex, "SRID=3857;POINT(1 2)",
]  # fmt: skip


def test_points_as_text_and_wkb() -> None:
    """With errors of their own."""
    check_points(pa.array(POINTS, pa.string()), POINTS)
    wkbs = [shapely.to_wkb(shape, include_srid=True) for shape in (*ALL, shapely.Point(5, 6, 7))]
    check_points(pa.array([*wkbs, None, b"x"], pa.binary()), [*wkbs, None, b"x"])


NUMBERS = [(151.2, -33.87), (180.0, 90.0), (181.0, 0.0), (0.0, float("nan")), (float("inf"), 0.0)]


@pytest.mark.parametrize("axes", ["xy", ("lon", "lat"), ("longitude", "latitude"), "xyz"], ids=str)
def test_points_of_geoarrow_that_are_separated(axes: Any) -> None:
    kind = pa.struct([(name, pa.float64()) for name in axes])
    rows = [dict(zip(axes, (*pair, 9.0), strict=False)) for pair in NUMBERS]
    column = pa.array([*rows, None, dict.fromkeys(axes)], kind)
    check_points(column, [*NUMBERS, None, None])
    check_points(column.slice(1), [*NUMBERS[1:], None, None])


@pytest.mark.parametrize("size", [2, 3, 4])
def test_points_of_geoarrow_that_are_interleaved(size: int) -> None:
    """Further numbers are heights and measures."""
    rows = [[*pair, 9.0, 9.0][:size] for pair in NUMBERS]
    column = pa.array([*rows, None, rows[0]], pa.list_(pa.float64(), size))
    values = [*NUMBERS, None, NUMBERS[0]]
    check_points(column, values)
    check_points(column.slice(2), values[2:])


def test_points_as_lists() -> None:
    values = [[1.0, 2.0], [1.0], None, [1.0, 2.0, 3.0], [200.0, 0.0]]
    check_points(pa.array(values, pa.list_(pa.float64())), values)


def test_points_of_two_columns() -> None:
    """An entry without both is null, one with only one of them is wrong."""
    lons = pa.array([1.5, None, 1.0, 200.0, None], pa.float64())
    lats = pa.chunked_array([pa.array([2, None, None], pa.int64()), pa.array([3, 4], pa.int64())])
    check_points(lons, [(1.5, 2), None, (1.0, None), (200.0, 3), (None, 4)], lats)


def test_columns_of_other_types_are_refused() -> None:
    """With what the type was, and what would be right."""
    for kind in (pa.int64(), pa.list_(pa.float64()), pa.struct([("a", pa.int64())])):
        with pytest.raises(InvalidValue, match="column of .* expected regions as WKB, WKT, GeoJ"):
            regions_in(pa.nulls(2, kind))
    for kind in (pa.int64(), pa.struct([("y", pa.float64()), ("x", pa.float64())])):
        with pytest.raises(InvalidValue, match="column of .* expected points as WKB, WKT, GeoJ"):
            points_in(pa.nulls(2, kind))
    with pytest.raises(InvalidValue, match="column of string.* expected longitudes and latitudes"):
        points_in(pa.array(["1"]), pa.array(["2"]))
    with pytest.raises(InvalidValue, match="2 longitudes and 1 latitudes"):
        points_in(pa.array([1.0, 2.0]), pa.array([2.0]))


class WkbType(pa.ExtensionType):  # type: ignore[misc] # pyarrow has no types
    """What a library that registers the types of GeoArrow gives."""

    def __init__(self) -> None:
        super().__init__(pa.binary(), "nearcast.tests.wkb")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: Any, serialized: Any) -> WkbType:
        del storage_type, serialized
        return cls()


def test_extension_types_are_what_they_store() -> None:
    stored = pa.array([SHAPES[0].wkb, None], pa.binary())
    column = pa.ExtensionArray.from_storage(WkbType(), stored)
    assert regions_in(column).regions == [FRAME, None]
    assert regions_in(pa.chunked_array([column, column])).regions == [FRAME, None, FRAME, None]
