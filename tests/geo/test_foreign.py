"""Regions and points of other libraries and formats."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from nearcast.errors import InvalidValue, MissingField
from nearcast.geo import Box, Circle, MultiPolygon, Polygon, Region, as_point, as_region

RINGS = [[(0, 0), (8, 0), (8, 8), (0, 8), (0, 0)], [(2, 2), (6, 2), (6, 6), (2, 6), (2, 2)]]
FRAME = Polygon(RINGS)
BOTH = MultiPolygon([RINGS, [[(3, 3), (4, 3), (4, 4), (3, 3)]]])
EVERY: list[Region] = [Box(170, -5, -170, 5), Circle((1, 2), 3), FRAME, BOTH]


class Shape:
    """Anything of any library."""

    def __init__(self, interface: dict[str, Any]) -> None:
        self.__geo_interface__ = interface

    def __repr__(self) -> str:
        return "<Shape>"


def with_srid(geometry: shapely.Geometry, srid: int) -> bytes:
    data: bytes = shapely.to_wkb(shapely.set_srid(geometry, srid), include_srid=True)
    return data


def forms(region: Polygon | MultiPolygon) -> list[Any]:
    """A region in every form that is taken."""
    shape = shapely.geometry.shape(region)
    written = json.loads(json.dumps(region.__geo_interface__))
    feature = {"type": "Feature", "properties": {"name": "x"}, "geometry": written}
    high = shapely.force_3d(shape, 99.0)
    return [
        region,
        shape,
        shape.wkt,
        shape.wkb,
        bytearray(shape.wkb),
        memoryview(shape.wkb),
        shape.wkb_hex,
        f"  {shape.wkt}\n",
        with_srid(shape, 4326),
        with_srid(shape, 4326).hex().upper(),
        f"SRID=4326;{shape.wkt}",
        written,
        json.dumps(written),
        feature,
        json.dumps(feature),
        Shape(written),
        Shape(feature),
        high,
        high.wkb,
        high.wkt,
        json.loads(shapely.to_geojson(high)),
    ]


@pytest.mark.parametrize("region", [FRAME, BOTH], ids=["Polygon", "MultiPolygon"])
def test_polygons_in_every_form_are_the_same_region(region: Polygon | MultiPolygon) -> None:
    """Heights are left out."""
    for number, form in enumerate(forms(region)):
        assert as_region(form) == region, number


@pytest.mark.parametrize("region", EVERY, ids=lambda region: type(region).__name__)
def test_our_own_regions_are_taken_as_they_are(region: Region) -> None:
    """As objects they are not even copied."""
    from nearcast.geo import region_to_json

    assert as_region(region) is region
    assert as_region(region_to_json(region)) == region
    assert as_region(json.dumps(region_to_json(region))) == region


POINTS: list[Any] = [
    (151.2, -33.87),
    [151.2, -33.87],
    np.array([151.2, -33.87]),
    "[151.2, -33.87]",
    {"type": "Point", "coordinates": [151.2, -33.87]},
    {"type": "Point", "coordinates": [151.2, -33.87, 20.0]},
    {"type": "Feature", "geometry": {"type": "Point", "coordinates": [151.2, -33.87]}},
    '{"type": "Point", "coordinates": [151.2, -33.87]}',
    shapely.Point(151.2, -33.87),
    shapely.Point(151.2, -33.87, 20.0),
    shapely.Point(151.2, -33.87).wkb,
    shapely.Point(151.2, -33.87).wkb_hex,
    with_srid(shapely.Point(151.2, -33.87), 4326),
    "POINT (151.2 -33.87)",
    "point z (151.2 -33.87 20)",
    "SRID=4326;POINT(151.2 -33.87)",
    Shape({"type": "Point", "coordinates": (151.2, -33.87)}),
]


@pytest.mark.parametrize("form", POINTS, ids=str)
def test_points_in_every_form_are_the_same_point(form: Any) -> None:
    assert as_point(form) == (151.2, -33.87)
    assert all(type(axis) is float for axis in as_point(form))


OURS = (
    "a Box, a Circle, a Polygon or a MultiPolygon, of this package, as GeoJSON, as WKT or WKB, "
    "or with __geo_interface__"
)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (None, f"region: None given; expected {OURS}"),
        (5, f"region: 5 given; expected {OURS}"),
        ((0, 0, 1, 1), f"region: (0, 0, 1, 1) given; expected {OURS}"),
        (
            shapely.Point(1, 2),
            "region: 'Point' given; expected a Box, a Circle, a Polygon or a MultiPolygon; "
            "what is near a point is Circle((lon, lat), radius=metres)",
        ),
        ("LINESTRING (0 0, 1 1)", "region: 'LineString' given; expected a Box, a Circle, "),
        ("pizza", "region: 'pizza' given; expected JSON, WKT or WKB that can be read ("),
        ("9" * 400, "region: '9999"),
        (
            "POLYGON ((0 0, 1e400 0, 1 1, 0 0))",
            "region.coordinates[0][1][0]: inf given; expected a longitude in [-180, 180]",
        ),
        ("", "region: '' given; expected JSON, WKT or WKB that can be read ("),
        (b"pizza", "region: b'pizza' given; expected WKB that can be read ("),
        ("0103", "region: b'\\x01\\x03' given; expected WKB that can be read ("),
        ('{"type":', "region: '{\"type\":' given; expected JSON that can be read ("),
        ("[1, 2]", f"region: [1, 2] given; expected {OURS}"),
        (shapely.Polygon(), "region: 'Polygon EMPTY' given; expected a Box, "),
        ("MULTIPOLYGON EMPTY", "region: 'MultiPolygon EMPTY' given; expected a Box, "),
        ({}, 'region.type: missing; expected "Box", "Circle", "Polygon" or "MultiPolygon"'),
        ({"type": "Polygon"}, "region.coordinates: missing; expected the rings"),
        ({"type": "Box", "bbox": [0, 0]}, "region.bbox: [0, 0] given; expected [west, "),
        ({"type": "Feature", "geometry": None}, "region: None given; expected a geometry in the "),
        (
            {"type": "FeatureCollection", "features": [{}, {}]},
            "region: 'FeatureCollection of 2' given; expected one Feature: take them one by one",
        ),
        (shapely.box(0, 0, 400, 9), "region.coordinates[0][0][0]: 400.0 given; expected a long"),
        (
            "POLYGON ((0 0, 2 2, 2 0, 0 2, 0 0))",
            "region.coordinates: [[(0.0, 0.0), (2.0, 2.0), (2.0, 0.0), (0.0, 2.0), (0.0, 0.0)]] "
            "given; expected a valid polygon; this one has: Self-intersection[1 1]",
        ),
        (
            with_srid(shapely.box(0, 0, 9, 9), 3857),
            "region: 'SRID 3857' given; expected SRID 4326, degrees on WGS 84: project it first",
        ),
        (shapely.set_srid(shapely.box(0, 0, 9, 9), 3857), "region: 'SRID 3857' given; expected "),
        ("SRID=3857;POLYGON((0 0,9 0,9 9,0 0))", "region: 'SRID 3857' given; expected "),
    ],
    ids=str,
)
def test_what_is_no_region_is_named(form: Any, message: str) -> None:
    """With what came, and what would be right."""
    with pytest.raises(InvalidValue) as caught:
        as_region(form)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        (None, "point: None given; expected a Point, of this package, as GeoJSON, "),
        ((1, 2, 3), "point: (1, 2, 3) given; expected a position [longitude, latitude]"),
        ((1, 95), "point[1]: 95 given; expected a latitude in [-90, 90]"),
        ("[1]", "point: [1] given; expected a position [longitude, latitude]"),
        ("POINT (1 95)", "point[1]: 95.0 given; expected a latitude in [-90, 90]"),
        ("POINT EMPTY", "point: 'Point EMPTY' given; expected a Point with coordinates"),
        (
            shapely.box(0, 0, 1, 1),
            "point: 'Polygon' given; expected a Point; of a shape, take a point such as its ",
        ),
        ({"type": "Point"}, "point: None given; expected a position [longitude, latitude]"),
        (FRAME, "point: 'Polygon' given; expected a Point; "),
        (Circle((1, 2), 3), "point: Circle(center=(1.0, 2.0), radius=3.0) given; expected a Point"),
    ],
    ids=str,
)
def test_what_is_no_point_is_named(form: Any, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        as_point(form)
    assert str(caught.value).startswith(message)


def test_what_is_nested_too_deeply_is_no_place() -> None:
    deep: list[object] = [1.0, 2.0]
    for _ in range(5000):
        deep = [deep]
    for kind in ("Polygon", "MultiPolygon"):
        with pytest.raises(InvalidValue, match=r"^region\.coordinates"):
            as_region({"type": kind, "coordinates": deep})
    with pytest.raises(InvalidValue, match="^point"):
        as_point({"type": "Point", "coordinates": deep})


def test_a_missing_field_is_one_still() -> None:
    with pytest.raises(MissingField) as caught:
        as_region({"type": "Circle", "center": [0, 0]})
    assert caught.value.field == "region.radius"


@pytest.mark.parametrize("region", [FRAME, BOTH, Box(1, 2, 3, 4), Box(170, -5, -170, 5)], ids=str)
def test_shapely_takes_our_regions(region: Any) -> None:
    """As the same area, through `__geo_interface__`."""
    shape = shapely.geometry.shape(region)
    for lon in np.arange(-180, 180.5, 0.5):
        for lat in (-5.0, -4.5, 0.0, 2.0, 3.5, 5.0, 7.0):
            assert shape.intersects(shapely.Point(lon, lat)) == region.contains(float(lon), lat)


@pytest.mark.parametrize(
    ("box", "kind"),
    [
        (Box(1, 2, 1, 2), "Point"),
        (Box(1, 2, 3, 2), "LineString"),
        (Box(1, 2, 1, 4), "LineString"),
        (Box(170, 2, -170, 2), "MultiLineString"),
        (Box(180, 2, -180, 3), "MultiLineString"),
    ],
)
def test_thin_boxes_are_lines_and_points_to_others(box: Box, kind: str) -> None:
    shape = shapely.geometry.shape(box)
    assert shape.geom_type == kind
    assert shape.is_valid
    assert shape.intersects(shapely.Point(box.west, box.south))
    assert shape.intersects(shapely.Point(box.east, box.north))


def test_a_line_beside_a_box_is_left_out() -> None:
    """It is the antimeridian, which the other side has too."""
    assert as_region(Box(180, 2, -170, 3).__geo_interface__).bounds() == ((-180, 2, -170, 3),)
    assert as_region(Box(170, 2, -180, 3).__geo_interface__).bounds() == ((170, 2, 180, 3),)


def test_a_circle_is_nothing_that_geojson_knows() -> None:
    """A polygon in its place would contain other points."""
    assert not hasattr(Circle((0, 0), 1), "__geo_interface__")


sides = st.tuples(st.floats(-180, 180), st.floats(-90, 90))


@given(sides, sides)
def test_boxes_come_back_as_polygons_of_the_same_points(
    one: tuple[float, float], other: tuple[float, float]
) -> None:
    """Of any size but none."""
    south, north = sorted((one[1], other[1]))
    box = Box(one[0], south, other[0], north)
    if north - south < 1e-9 or math.isclose(box.west, box.east, abs_tol=1e-9):
        return
    if (box.west == 180.0) != (box.east == -180.0):
        return  # a line beside it is left out
    again = as_region(box.__geo_interface__)
    assert again.bounds() == box.bounds()
    for lon, lat in (one, other, (box.west, north), (0.0, 0.0), (-180.0, south), (180.0, north)):
        assert again.contains(lon, lat) == box.contains(lon, lat)
