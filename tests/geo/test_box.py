"""Boxes: what they contain, what they meet, and their bounds."""

from __future__ import annotations

import itertools
import pickle

import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from nearcast.geo import WORLD, Box


def grid(limit: float) -> st.SearchStrategy[float]:
    """Numbers that are often equal to each other, so that borders are hit."""
    few = st.sampled_from([-limit, -limit / 2, -1.0, 0.0, 1.0, limit / 2, limit])
    return few | st.floats(-limit, limit)


lons, lats = grid(180.0), grid(90.0)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    south, north = sorted((draw(lats), draw(lats)))
    return Box(draw(lons), south, draw(lons), north)


def as_shapely(box: Box) -> shapely.Geometry:
    """The box as plain areas, lines or points: independent of its own methods."""
    sides = (
        [(box.west, box.east)] if box.west <= box.east else [(box.west, 180.0), (-180.0, box.east)]
    )
    parts = []
    for west, east in sides:
        corners = {(x, y) for x in (west, east) for y in (box.south, box.north)}
        if len(corners) == 4:
            parts.append(shapely.box(west, box.south, east, box.north))
        elif len(corners) == 2:
            parts.append(shapely.LineString(sorted(corners)))
        else:
            parts.append(shapely.Point(*corners))
    return shapely.GeometryCollection(parts)


def test_borders_and_corners_belong() -> None:
    """Every point of the border is in the box, the next float outside is not."""
    box = Box(1, 2, 3, 4)
    assert all(box.contains(x, y) for x in (1.0, 2.0, 3.0) for y in (2.0, 3.0, 4.0))
    assert not box.contains(0.9999999999999999, 3.0)
    assert not box.contains(3.0000000000000004, 3.0)
    assert not box.contains(2.0, 1.9999999999999998)
    assert not box.contains(2.0, 4.000000000000001)


def test_a_box_may_be_a_point() -> None:
    """A box of no size contains its one point and meets what touches it."""
    dot = Box(5, 5, 5, 5)
    assert dot.contains(5.0, 5.0)
    assert not dot.contains(5.0, 5.000000000000001)
    assert dot.meets(dot)
    assert dot.meets(Box(5, 5, 6, 6))
    assert not dot.meets(Box(5.1, 5, 6, 6))


def test_west_above_east_crosses_the_antimeridian() -> None:
    """Such a box holds both ends of the longitudes and nothing between its sides."""
    box = Box(170, -10, -170, 10)
    assert [box.contains(lon, 0.0) for lon in (170.0, 180.0, -180.0, -170.0)] == [True] * 4
    assert [box.contains(lon, 0.0) for lon in (169.9, 0.0, -169.9)] == [False] * 3
    assert box.bounds() == ((170.0, -10.0, 180.0, 10.0), (-180.0, -10.0, -170.0, 10.0))
    assert box.meets(Box(175, 0, -175, 0))
    assert box.meets(Box(-180, 0, -180, 0))
    assert not box.meets(Box(-169, -10, 169, 10))


def test_180_and_minus_180_are_different_numbers() -> None:
    """A box that ends at 180 does not hold -180."""
    box = Box(170, 0, 180, 10)
    assert box.contains(180.0, 5.0)
    assert not box.contains(-180.0, 5.0)
    assert not box.meets(Box(-180, 0, -170, 10))


def test_world_holds_every_corner() -> None:
    """WORLD contains the extreme points."""
    assert all(WORLD.contains(x, y) for x in (-180.0, 180.0) for y in (-90.0, 90.0))


def test_a_box_is_a_value() -> None:
    """Whole numbers become floats; equal boxes are equal, hash alike, pickle, and stay put."""
    box = Box(1, 2, 3, 4)
    assert [type(edge) for edge in (box.west, box.south, box.east, box.north)] == [float] * 4
    assert box == Box(1.0, 2.0, 3.0, 4.0)
    assert hash(box) == hash(Box(1.0, 2.0, 3.0, 4.0))
    assert pickle.loads(pickle.dumps(box)) == box  # noqa: S301 - our own bytes
    with pytest.raises(AttributeError):
        box.west = 0.0  # type: ignore[misc] # the mistake that is tested


@given(boxes(), lons, lats)
def test_contains_agrees_with_shapely(box: Box, lon: float, lat: float) -> None:
    """`contains` is shapely's intersection with the point, borders included."""
    for x, y in itertools.product((lon, box.west, box.east), (lat, box.south, box.north)):
        assert box.contains(x, y) == as_shapely(box).intersects(shapely.Point(x, y))


@given(boxes(), boxes())
def test_meets_agrees_with_shapely(one: Box, other: Box) -> None:
    """`meets` is shapely's intersection of the two areas, either way round."""
    expected = as_shapely(one).intersects(as_shapely(other))
    assert one.meets(other) == expected
    assert other.meets(one) == expected


@given(boxes(), lons, lats)
def test_bounds_hold_the_box_and_nothing_else(box: Box, lon: float, lat: float) -> None:
    """A point is in the bounds exactly when it is in the box."""
    inside = any(w <= lon <= e and s <= lat <= n for w, s, e, n in box.bounds())
    assert inside == box.contains(lon, lat)
