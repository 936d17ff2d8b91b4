"""Polygons: what they contain and meet, against shapely."""

from __future__ import annotations

import itertools
import math
import pickle

import pytest
import shapely
from hypothesis import assume, given
from hypothesis import strategies as st

from nearcast.errors import InvalidValue
from nearcast.geo import Box, Polygon

SQUARE = [(0, 0), (8, 0), (8, 8), (0, 8), (0, 0)]
HOLE = [(2, 2), (6, 2), (6, 6), (2, 6), (2, 2)]
FRAME = Polygon([SQUARE, HOLE])  # whole numbers and lists are taken too

steps = st.integers(0, 8)
scales = st.sampled_from([1.0, 0.1, 1 / 3, 10.0])


@st.composite
def numbers(draw: st.DrawFn, scale: float) -> float:
    """A place on a small grid, or a float beside it."""
    value = draw(steps) * scale
    return math.nextafter(value, draw(st.sampled_from([value, value, -1.0, 99.0])))


@st.composite
def cases(draw: st.DrawFn) -> tuple[Polygon, float]:
    """A polygon on a small grid: a star about its middle, sometimes with a hole."""
    scale = draw(scales)
    number = numbers(scale).filter(lambda v: v == 0.0 or v > 1e-290)
    corners = draw(st.lists(st.tuples(number, number), min_size=3, max_size=8, unique=True))
    x = sum(corner[0] for corner in corners) / len(corners)
    y = sum(corner[1] for corner in corners) / len(corners)
    corners.sort(key=lambda corner: math.atan2(corner[1] - y, corner[0] - x))
    outer = (*corners, corners[0])
    hole = draw(st.lists(st.tuples(number, number), min_size=3, max_size=4, unique=True))
    try:
        return Polygon((outer, (*hole, hole[0]))), scale
    except InvalidValue:
        pass
    try:
        return Polygon((outer,)), scale
    except InvalidValue:
        assume(False)
        raise


def as_shapely(polygon: Polygon) -> shapely.Polygon:
    return shapely.Polygon(polygon.coordinates[0], polygon.coordinates[1:])


@given(st.data())
def test_contains_agrees_with_shapely(data: st.DataObject) -> None:
    """For points of the grid, beside it, at the corners and at the middles of the edges."""
    polygon, scale = data.draw(cases())
    outline = as_shapely(polygon)
    points = [(data.draw(numbers(scale)), data.draw(numbers(scale))) for _ in range(4)]
    for ring in polygon.coordinates:
        for (ax, ay), (bx, by) in itertools.pairwise(ring):
            points += [(ax, ay), ((ax + bx) / 2, (ay + by) / 2)]
    for x, y in points:
        assert polygon.contains(x, y) == outline.intersects(shapely.Point(x, y)), (x, y)


@given(st.data())
def test_meets_agrees_with_shapely(data: st.DataObject) -> None:
    """For boxes with sides on the grid or beside it, some of them lines or points."""
    polygon, scale = data.draw(cases())
    outline = as_shapely(polygon)
    number = numbers(scale)
    for _ in range(4):
        (west, east), (south, north) = (
            sorted((data.draw(number), data.draw(number))) for _ in range(2)
        )
        corners = sorted({(x, y) for x in (west, east) for y in (south, north)})
        area = {
            1: lambda c: shapely.Point(*c),
            2: shapely.LineString,
            4: lambda c: shapely.box(*c[0], *c[-1]),
        }[len(corners)](corners)
        assert polygon.meets(Box(west, south, east, north)) == outline.intersects(area)


@given(cases())
def test_bounds_are_the_outermost_coordinates(case: tuple[Polygon, float]) -> None:
    """The bounds are those of shapely, to the last bit."""
    polygon, _ = case
    assert polygon.bounds() == (as_shapely(polygon).bounds,)


@pytest.mark.parametrize("at", [0.0, 1.0, 4.0, 8.0])
def test_the_outer_border_belongs(at: float) -> None:
    """Every side and corner of the outer ring is in the polygon, the next float outside is not."""
    for x, y in ((at, 0.0), (at, 8.0), (0.0, at), (8.0, at)):
        assert FRAME.contains(x, y)
    assert not FRAME.contains(at, math.nextafter(8.0, 9.0))
    assert not FRAME.contains(math.nextafter(0.0, -1.0), at)


@pytest.mark.parametrize("at", [2.0, 3.0, 6.0])
def test_the_border_of_a_hole_belongs(at: float) -> None:
    """Every side and corner of the hole is in the polygon, what is within the hole is not."""
    for x, y in ((at, 2.0), (at, 6.0), (2.0, at), (6.0, at)):
        assert FRAME.contains(x, y)
    assert not FRAME.contains(4.0, math.nextafter(2.0, 3.0))
    assert not FRAME.contains(4.0, 4.0)


def test_a_box_within_the_hole_is_missed_until_it_touches() -> None:
    """The hole is no part of the polygon, its border is."""
    assert not FRAME.meets(Box(3, 3, 5, 5))
    assert FRAME.meets(Box(3, 3, 6, 5))
    assert FRAME.meets(Box(6, 6, 6, 6))
    assert FRAME.meets(Box(6.5, 6.5, 7, 7))  # in the area, away from all borders
    assert FRAME.meets(Box(-5, -5, 20, 20))  # around everything
    assert not FRAME.meets(Box(9, 9, 10, 10))


def test_a_corner_of_the_bounds_is_not_enough() -> None:
    """A box in the empty half of a triangle's bounds is missed, one on the long side is met."""
    triangle = Polygon((((0, 0), (8, 0), (0, 8), (0, 0)),))
    assert not triangle.meets(Box(5, 5, 8, 8))
    assert triangle.meets(Box(4, 4, 8, 8))


def test_boxes_across_the_antimeridian() -> None:
    """Such a box meets a polygon on either end of the longitudes, and -180 is not 180."""
    east_end = Polygon((((170, 0), (180, 0), (180, 10), (170, 0)),))
    assert east_end.meets(Box(175, 0, -175, 10))
    assert not east_end.meets(Box(-180, 0, -175, 10))
    assert not east_end.contains(-180.0, 5.0)
    west_end = Polygon((((-180, 0), (-170, 0), (-180, 10), (-180, 0)),))
    assert west_end.meets(Box(175, 0, -175, 10))
    assert not west_end.meets(Box(175, 20, -175, 30))


def test_a_polygon_is_a_value() -> None:
    """Stored as tuples of floats; equal polygons are equal, hash alike, pickle, and stay put."""
    assert FRAME.coordinates[1][1] == (6.0, 2.0)
    assert type(FRAME.coordinates[1][1][0]) is float
    same = Polygon((tuple(SQUARE), tuple(HOLE)))
    assert same == FRAME
    assert hash(FRAME) == hash(same)
    copy = pickle.loads(pickle.dumps(FRAME))  # noqa: S301 - our own bytes
    assert copy == FRAME
    assert copy.contains(1.0, 1.0)
    with pytest.raises(AttributeError):
        FRAME.coordinates = ()  # type: ignore[misc] # the mistake that is tested
