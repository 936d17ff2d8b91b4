"""Polygons: what they contain and meet, against shapely and against fractions."""

from __future__ import annotations

import itertools
import math
import pickle
from collections.abc import Iterator
from fractions import Fraction

import pytest
import shapely
from hypothesis import assume, given
from hypothesis import strategies as st

from nearcast.errors import InvalidValue
from nearcast.geo import Box, Polygon

SQUARE = [(0, 0), (8, 0), (8, 8), (0, 8), (0, 0)]
HOLE = [(2, 2), (6, 2), (6, 6), (2, 6), (2, 2)]
FRAME = Polygon([SQUARE, HOLE])  # whole numbers and lists are taken too

Position = tuple[float, float]
Grid = tuple[float, float]
"""Where a grid of nine by nine places begins, and how wide its steps are."""

# All floats from 16 to 32 are equally far apart, so their differences are floats again: there the
# pairs of floats that shapely computes with are exact. Elsewhere they are only nearly so.
EVEN_GRIDS = st.sampled_from([(17.0, 1.0), (17.0, 0.1), (17.0, 1 / 3), (16.7, 1.1)])
UNEVEN_GRIDS = st.sampled_from([(0.0, 0.1), (0.0, 1 / 3), (-0.4, 0.1), (-1.0, 7.7)])


@st.composite
def numbers(draw: st.DrawFn, grid: Grid) -> float:
    """A place on a grid, or a float beside it."""
    origin, step = grid
    value = origin + draw(st.integers(0, 8)) * step
    towards = draw(st.sampled_from([value, value, -99.0, 99.0]))
    return math.nextafter(value, towards) if value else value  # not the smallest of all floats


@st.composite
def polygons(draw: st.DrawFn, grid: Grid) -> Polygon:
    """A polygon on a grid: a star about its middle, sometimes with a hole."""
    number = numbers(grid)
    corners = draw(st.lists(st.tuples(number, number), min_size=3, max_size=8, unique=True))
    x = sum(corner[0] for corner in corners) / len(corners)
    y = sum(corner[1] for corner in corners) / len(corners)
    corners.sort(key=lambda corner: math.atan2(corner[1] - y, corner[0] - x))
    outer = (*corners, corners[0])
    hole = draw(st.lists(st.tuples(number, number), min_size=3, max_size=4, unique=True))
    try:
        return Polygon((outer, (*hole, hole[0])))
    except InvalidValue:
        pass
    try:
        return Polygon((outer,))
    except InvalidValue:
        assume(False)
        raise


@st.composite
def points_asked(draw: st.DrawFn, grids: st.SearchStrategy[Grid]) -> tuple[Polygon, list[Position]]:
    """A polygon and points on its grid, beside it, at its corners and amid its edges."""
    grid = draw(grids)
    polygon = draw(polygons(grid))
    points = draw(st.lists(st.tuples(numbers(grid), numbers(grid)), min_size=4, max_size=4))
    for (ax, ay), (bx, by) in edges(polygon):
        points += [(ax, ay), ((ax + bx) / 2, (ay + by) / 2)]
    return polygon, points


@st.composite
def boxes_asked(draw: st.DrawFn, grids: st.SearchStrategy[Grid]) -> tuple[Polygon, list[Box]]:
    """A polygon and boxes with sides on its grid or beside it, some of them lines or points."""
    grid = draw(grids)
    pairs = st.tuples(numbers(grid), numbers(grid)).map(sorted)
    sides = draw(st.lists(st.tuples(pairs, pairs), min_size=4, max_size=4))
    boxes = [Box(west, south, east, north) for (west, east), (south, north) in sides]
    return draw(polygons(grid)), boxes


def edges(polygon: Polygon) -> Iterator[tuple[Position, Position]]:
    for ring in polygon.coordinates:
        yield from itertools.pairwise(ring)


def truly_contains(polygon: Polygon, x: float, y: float) -> bool:
    """By fractions: where each edge crosses the parallel of the point, east of it or on it."""
    east = 0
    for (ax, ay), (bx, by) in edges(polygon):
        if ay == by:
            if y == ay and min(ax, bx) <= x <= max(ax, bx):
                return True
        elif min(ay, by) <= y <= max(ay, by):
            share = (Fraction(y) - Fraction(ay)) / (Fraction(by) - Fraction(ay))
            crossing = Fraction(ax) + share * (Fraction(bx) - Fraction(ax))
            if crossing == Fraction(x):
                return True
            east += crossing > Fraction(x) and y < max(ay, by)
    return east % 2 == 1


def truly_meets(polygon: Polygon, box: Box) -> bool:
    """By fractions: clip every edge to the box; if nothing is left, ask for a corner."""
    for (ax, ay), (bx, by) in edges(polygon):
        start, stop = Fraction(0), Fraction(1)
        for a, b, low, high in ((ax, bx, box.west, box.east), (ay, by, box.south, box.north)):
            if a == b:
                if not low <= a <= high:
                    stop = Fraction(-1)
                continue
            ends = [
                (Fraction(end) - Fraction(a)) / (Fraction(b) - Fraction(a)) for end in (low, high)
            ]
            start, stop = max(start, min(ends)), min(stop, max(ends))
        if start <= stop:
            return True
    return truly_contains(polygon, box.east, box.north)


def as_shapely(polygon: Polygon) -> shapely.Polygon:
    return shapely.Polygon(polygon.coordinates[0], polygon.coordinates[1:])


def box_as_shapely(box: Box) -> shapely.Geometry:
    corners = sorted({(x, y) for x in (box.west, box.east) for y in (box.south, box.north)})
    if len(corners) == 4:
        return shapely.box(box.west, box.south, box.east, box.north)
    return shapely.LineString(corners) if len(corners) == 2 else shapely.Point(*corners)


@given(points_asked(EVEN_GRIDS))
def test_contains_agrees_with_shapely(asked: tuple[Polygon, list[Position]]) -> None:
    """`contains` is shapely's intersection with the point, wherever shapely is exact."""
    polygon, points = asked
    outline = as_shapely(polygon)
    for x, y in points:
        assert polygon.contains(x, y) == outline.intersects(shapely.Point(x, y)), (x, y)


@given(points_asked(EVEN_GRIDS | UNEVEN_GRIDS))
def test_contains_is_exact(asked: tuple[Polygon, list[Position]]) -> None:
    """`contains` is what fractions say, for all coordinates."""
    polygon, points = asked
    for x, y in points:
        assert polygon.contains(x, y) == truly_contains(polygon, x, y), (x, y)


@given(boxes_asked(EVEN_GRIDS))
def test_meets_agrees_with_shapely(asked: tuple[Polygon, list[Box]]) -> None:
    """`meets` is shapely's intersection with the box, wherever shapely is exact."""
    polygon, boxes = asked
    outline = as_shapely(polygon)
    for box in boxes:
        assert polygon.meets(box) == outline.intersects(box_as_shapely(box)), box


@given(boxes_asked(EVEN_GRIDS | UNEVEN_GRIDS))
def test_meets_is_exact(asked: tuple[Polygon, list[Box]]) -> None:
    """`meets` is what fractions say, for all coordinates."""
    polygon, boxes = asked
    for box in boxes:
        assert polygon.meets(box) == truly_meets(polygon, box), box


def test_exact_where_pairs_of_floats_are_not() -> None:
    """This point is off the long edge by 2e-33 degrees, which shapely does not see."""
    sliver = Polygon(
        (
            (
                (0.19999999999999998, 0.1),
                (0.1, 0.0),
                (0.7999999999999999, 0.7000000000000001),
                (0.19999999999999998, 0.1),
            ),
        )
    )
    assert not sliver.contains(0.49999999999999994, 0.4)
    assert not truly_contains(sliver, 0.49999999999999994, 0.4)


@given(UNEVEN_GRIDS.flatmap(polygons))
def test_bounds_are_the_outermost_coordinates(polygon: Polygon) -> None:
    """The bounds are those of shapely, to the last bit."""
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
