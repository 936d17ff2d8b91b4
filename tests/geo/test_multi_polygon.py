"""Several polygons as one region: a point or an area is in it if it is in one of them."""

from __future__ import annotations

import pickle
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.errors import InvalidValue
from nearcast.geo import Box, Circle, MultiPolygon, Polygon

Ring = list[tuple[float, float]]


def square(lon: float, lat: float, size: float) -> Ring:
    return [(lon, lat), (lon + size, lat), (lon + size, lat + size), (lon, lat + size), (lon, lat)]


FRAME = [square(0, 0, 8), square(2, 2, 4)]
ISLAND = [square(3, 3, 2)]
BOTH = MultiPolygon([FRAME, ISLAND])
BOW_TIE = [(0, 0), (2, 2), (2, 0), (0, 2), (0, 0)]

rings = st.builds(square, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 5))


@st.composite
def several(draw: st.DrawFn) -> MultiPolygon:
    """Squares on a grid, so that many touch and overlap, some with a square hole."""
    parts = []
    for ring in draw(st.lists(rings, min_size=1, max_size=4)):
        (west, south), _, (east, _), *_ = ring
        hole = square(west + 1, south + 1, east - west - 2)
        parts.append([ring, hole] if east - west > 2 and draw(st.booleans()) else [ring])
    return MultiPolygon(parts)


@given(several(), st.integers(-20, 30), st.integers(-20, 30))
def test_a_point_in_one_of_them_is_in_all(region: MultiPolygon, x: int, y: int) -> None:
    """On whole numbers, which are borders, and between them."""
    for lon, lat in ((x / 2, y / 2), (x / 2 + 0.25, y / 2)):
        parts = [Polygon(each) for each in region.coordinates]
        assert region.contains(lon, lat) == any(part.contains(lon, lat) for part in parts)


@given(several(), several(), rings, st.tuples(st.integers(-12, 12), st.integers(-12, 12)))
def test_what_meets_one_of_them_meets_all(
    region: MultiPolygon, area: MultiPolygon, ring: Ring, center: tuple[int, int]
) -> None:
    """Boxes, polygons, several polygons and circles; whoever of the two is asked."""
    box, polygon, circle = Box(*ring[0], *ring[2]), Polygon([ring]), Circle(center, 150_000)
    expected = any(each.meets(box) for each in region.polygons)
    assert region.meets(box) == box.meets(region) == expected
    expected = any(each.meets(polygon) for each in region.polygons)
    assert region.meets(polygon) == polygon.meets(region) == expected
    expected = any(one.meets(other) for one in region.polygons for other in area.polygons)
    assert region.meets(area) == area.meets(region) == expected
    assert circle.meets(region) == any(circle.meets(each) for each in region.polygons)


def test_holes_are_those_of_each_polygon() -> None:
    """A hole of one is no part of the region, unless another polygon lies in it."""
    assert BOTH.contains(1, 1)
    assert not BOTH.contains(2.5, 2.5)
    assert BOTH.contains(4, 4)
    assert not BOTH.meets(Box(2.1, 2.1, 2.9, 2.9))
    assert BOTH.meets(Box(2.1, 2.1, 3, 3))
    assert not BOTH.meets(Polygon([square(2.1, 2.1, 0.5)]))
    assert BOTH.meets(Polygon([square(2.5, 2.5, 0.5)]))  # touches the island
    assert BOTH.meets(Polygon([square(-9, -9, 40), square(-1, -1, 10)])) is False
    assert BOTH.meets(Polygon([square(-9, -9, 40)]))


def test_polygons_that_touch_and_overlap_are_taken() -> None:
    """GeoJSON readers may call it invalid; here their union is meant."""
    touching = MultiPolygon([[square(0, 0, 2)], [square(2, 0, 2)], [square(1, 1, 2)]])
    assert all(touching.contains(lon, 1.5) for lon in (0.0, 1.0, 1.5, 2.0, 3.0, 4.0))
    assert not touching.contains(0.5, 2.5)


def test_both_sides_of_the_antimeridian() -> None:
    """It is not crossed, but there may be a polygon on each side; -180 and 180 are two numbers."""
    region = MultiPolygon([[square(175, 0, 5)], [square(-180, 0, 5)]])
    assert region.contains(180, 1)
    assert region.contains(-180, 1)
    assert not region.contains(170, 1)
    assert region.meets(Box(179, 1, -179, 2))
    assert not MultiPolygon([[square(175, 0, 5)]]).meets(Box(-180, 1, -179, 2))
    assert Circle((-180, 1), 0).meets(MultiPolygon([[square(175, 0, 5)]]))
    assert region.bounds() == ((175, 0, 180, 5), (-180, 0, -175, 5))


@pytest.mark.parametrize("given", [[], (), None, 5, "MultiPolygon", {"0": [square(0, 0, 1)]}])
def test_what_is_no_list_of_polygons(given: Any) -> None:
    with pytest.raises(InvalidValue, match="coordinates: .* expected a list of polygons") as caught:
        MultiPolygon(given)
    assert caught.value.given is given


@pytest.mark.parametrize(
    ("part", "field", "expected"),
    [
        ([], "coordinates[2]", "a list of rings"),
        ([square(0, 0, 1)[:3]], "coordinates[2][0]", "at least 4 positions"),
        ([square(0, 0, 1)[:4]], "coordinates[2][0][3]", "the first position"),
        ([[(0, 0), (200, 0), (1, 1), (0, 0)]], "coordinates[2][0][1][0]", "a longitude"),
        ([square(0, 0, 9), BOW_TIE], "coordinates[2]", "a valid polygon; this one has:"),
        ([BOW_TIE], "coordinates[2]", "a valid polygon; this one has: Self-intersection[1 1]"),
    ],
)
def test_the_place_of_a_bad_polygon_is_named(part: Any, field: str, expected: str) -> None:
    with pytest.raises(InvalidValue, match=re.escape(expected)) as caught:
        MultiPolygon([FRAME, ISLAND, part])
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: ")


def test_several_polygons_are_a_value() -> None:
    """Stored as tuples of floats; equal ones are equal, hash alike, pickle, and stay put."""
    assert BOTH.coordinates[1][0][0] == (3.0, 3.0)
    assert type(BOTH.coordinates[1][0][0][0]) is float
    same = MultiPolygon.of_polygons([Polygon(FRAME), Polygon(ISLAND)])
    assert same == BOTH
    assert hash(same) == hash(BOTH)
    assert MultiPolygon([ISLAND, FRAME]) != BOTH  # the order of the polygons is kept
    assert BOTH.meets(same)
    copy = pickle.loads(pickle.dumps(BOTH))  # noqa: S301 - our own bytes
    assert copy == BOTH
    assert copy.contains(4, 4)
    assert copy.meets(same)
    assert eval(repr(BOTH)) == BOTH  # noqa: S307 - our own text
    with pytest.raises(AttributeError):
        BOTH.coordinates = ()  # type: ignore[misc] # the mistake that is tested
    with pytest.raises(InvalidValue, match="at least one Polygon"):
        MultiPolygon.of_polygons([])
