"""Polygons that meet polygons, against shapely and against fractions."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import shapely
from hypothesis import assume, given
from hypothesis import strategies as st

from nearcast.errors import InvalidValue
from nearcast.geo import Box, Polygon

Position = tuple[float, float]
Edge = tuple[Position, Position]

# All floats from 16 to 32 are equally far apart, so their differences are floats again: there the
# pairs of floats that shapely computes with are exact.
STEPS = [1.0, 0.1, 1 / 3]


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Polygon, Polygon]:
    """Two polygons on one grid: they touch, cross, contain each other, or lie in a hole."""
    step = draw(st.sampled_from(STEPS))
    numbers = st.integers(0, 12).map(lambda n: 17.0 + n * step)
    return draw(polygons(numbers)), draw(polygons(numbers))


@st.composite
def polygons(draw: st.DrawFn, numbers: st.SearchStrategy[float]) -> Polygon:
    """A star about its middle, sometimes with a hole."""
    corners = draw(st.lists(st.tuples(numbers, numbers), min_size=3, max_size=7, unique=True))
    x, y = (sum(axis) / len(corners) for axis in zip(*corners, strict=True))
    corners.sort(key=lambda corner: math.atan2(corner[1] - y, corner[0] - x))
    hole = draw(st.lists(st.tuples(numbers, numbers), min_size=3, max_size=4, unique=True))
    for rings in ([corners, hole], [corners]):
        try:
            return Polygon([[*ring, ring[0]] for ring in rings])
        except InvalidValue:
            pass
    assume(False)
    raise AssertionError


def edges(polygon: Polygon) -> list[Edge]:
    return [edge for ring in polygon.coordinates for edge in itertools.pairwise(ring)]


def side(a: Position, b: Position, p: Position) -> int:
    """By fractions: on which side of a line a point lies."""
    (ax, ay), (bx, by), (px, py) = ((Fraction(x), Fraction(y)) for x, y in (a, b, p))
    turn = (bx - ax) * (py - ay) - (by - ay) * (px - ax)
    return (turn > 0) - (turn < 0)


def on_edge(edge: Edge, p: Position) -> bool:
    (ax, ay), (bx, by) = edge
    within = min(ax, bx) <= p[0] <= max(ax, bx) and min(ay, by) <= p[1] <= max(ay, by)
    return within and side(*edge, p) == 0


def cross(one: Edge, other: Edge) -> bool:
    if any(on_edge(one, p) for p in other) or any(on_edge(other, p) for p in one):
        return True
    ways = [side(*one, p) for p in other], [side(*other, p) for p in one]
    return all(first * second < 0 for first, second in ways)


def truly_meet(one: Polygon, other: Polygon) -> bool:
    """Borders that cross or touch, or one of them within the other."""
    if any(cross(*both) for both in itertools.product(edges(one), edges(other))):
        return True
    return one.contains(*other.coordinates[0][0]) or other.contains(*one.coordinates[0][0])


@given(pairs())
def test_polygons_meet_as_fractions_have_it(both: tuple[Polygon, Polygon]) -> None:
    """Whoever is asked; and shapely says the same."""
    one, other = both
    expected = truly_meet(one, other)
    assert one.meets(other) == other.meets(one) == expected
    shapes = [shapely.Polygon(each.coordinates[0], each.coordinates[1:]) for each in both]
    assert shapes[0].intersects(shapes[1]) == expected


@given(pairs())
def test_a_polygon_that_is_a_box_meets_what_the_box_meets(both: tuple[Polygon, Polygon]) -> None:
    """And what is met has bounds that are met."""
    one, other = both
    west, south, east, north = other.box
    ring = [(west, south), (east, south), (east, north), (west, north), (west, south)]
    assert one.meets(Polygon([ring])) == one.meets(Box(*other.box)) == Box(*other.box).meets(one)
    if one.meets(other):
        assert one.meets(Box(*other.box))
        assert other.meets(Box(*one.box))


def test_polygons_across_the_antimeridian_are_apart() -> None:
    """180 and -180 are different numbers for polygons."""
    east = Polygon([[(170, 0), (180, 0), (180, 10), (170, 0)]])
    west = Polygon([[(-180, 0), (-170, 0), (-180, 10), (-180, 0)]])
    assert not east.meets(west)
    across = Box(175, 0, -175, 10)
    assert across.meets(east)
    assert across.meets(west)


def test_what_shapely_alone_takes_for_a_meeting_is_none() -> None:
    """A corner off an edge by 2e-33 degrees, at which its polygon's bounds end too."""
    sliver = Polygon(
        [
            [
                (0.19999999999999998, 0.1),
                (0.1, 0.0),
                (0.7999999999999999, 0.7000000000000001),
                (0.19999999999999998, 0.1),
            ]
        ]
    )
    x, y = 0.49999999999999994, 0.4
    beside = Polygon([[(x, y), (x - 0.1, y), (x - 0.1, y + 0.1), (x, y)]])
    assert not sliver.contains(x, y)
    assert not sliver.meets(Box(*beside.box))
    assert not sliver.meets(beside)
    assert not beside.meets(sliver)
