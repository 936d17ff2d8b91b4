"""Circles and boxes: which boxes a circle meets, and the bounds of a circle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nearcast.geo import EARTH_RADIUS_M, WORLD, Box, Circle

HALFWAY_M = math.pi * EARTH_RADIUS_M
DEGREE_M = HALFWAY_M / 180.0

lons = st.sampled_from([-180.0, -90.0, 0.0, 90.0, 180.0]) | st.floats(-180, 180)
lats = st.sampled_from([-90.0, -45.0, 0.0, 45.0, 90.0]) | st.floats(-90, 90)
radii = st.floats(0, 10) | st.floats(0, 1e6) | st.floats(0, 1.01 * HALFWAY_M)
shares = st.floats(0, 1)


@st.composite
def boxes(draw: st.DrawFn) -> Box:
    south, north = sorted((draw(lats), draw(lats)))
    west = draw(lons)
    east = draw(st.just(west) | lons)
    return Box(west, south, east, north)


def distances_m(
    lon: float, lat: float, lons: NDArray[np.float64], lats: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Great-circle distances by the angle between directions: good to about a nanometre."""
    x, y, x0, y0 = np.radians(lons), np.radians(lats), math.radians(lon), math.radians(lat)
    there = np.stack([np.cos(y) * np.cos(x), np.cos(y) * np.sin(x), np.sin(y)], axis=-1)
    here = np.array([math.cos(y0) * math.cos(x0), math.cos(y0) * math.sin(x0), math.sin(y0)])
    apart = np.linalg.norm(there - here, axis=-1)
    together = np.linalg.norm(there + here, axis=-1)
    angle: NDArray[np.float64] = 2.0 * np.arctan2(apart, together)
    return angle * EARTH_RADIUS_M


def sides(box: Box) -> list[tuple[float, float]]:
    """The longitudes of the box as plain intervals."""
    if box.west <= box.east:
        return [(box.west, box.east)]
    return [(box.west, 180.0), (-180.0, box.east)]


def search_m(lon: float, lat: float, box: Box) -> float:
    """The distance to a box, found by looking: a grid over it, made finer around its best point."""
    best = math.inf
    for west, east in sides(box):
        w, s, e, n = west, box.south, east, box.north
        for _ in range(16):
            # The centre's own coordinates, as near as the box has them, are always on the grid:
            # from afar a thin box looks flat, and the search would close in on any part of it.
            across = np.append(np.linspace(w, e, 33), min(max(lon, west), east))
            up = np.append(np.linspace(s, n, 33), min(max(lat, box.south), box.north))
            xs, ys = np.meshgrid(across, up)
            found = distances_m(lon, lat, xs, ys)
            at = np.unravel_index(np.argmin(found), found.shape)
            best = min(best, float(found[at]))
            dx, dy = (e - w) / 12.0, (n - s) / 12.0
            w, e = max(west, float(xs[at]) - dx), min(east, float(xs[at]) + dx)
            s, n = max(box.south, float(ys[at]) - dy), min(box.north, float(ys[at]) + dy)
    return best


@given(boxes(), lons, lats)
def test_meets_from_the_smallest_distance_on(box: Box, lon: float, lat: float) -> None:
    """A circle meets a box when its radius is the distance to the nearest point of the box.

    With a margin of 10 micrometres each way: the search works with rounded numbers. Inside the
    box the search may end a little off the centre, with a distance of next to nothing.
    """
    distance = search_m(lon, lat, box)
    margin = 1e-5 + 1e-11 * distance
    assert Circle((lon, lat), distance + margin).meets(box)
    if distance > 2 * margin:
        assert not Circle((lon, lat), distance - margin).meets(box)


@given(boxes(), lons, lats, radii, shares, shares)
def test_meets_whenever_a_point_is_shared(
    box: Box, lon: float, lat: float, radius: float, across: float, up: float
) -> None:
    """If some point is in the box and in the circle, they meet; also if only on the border."""
    circle = Circle((lon, lat), radius)
    for west, east in sides(box):
        x = min(max(west + across * (east - west), west), east)
        y = min(max(box.south + up * (box.north - box.south), box.south), box.north)
        assert box.contains(x, y)
        if circle.contains(x, y):
            assert circle.meets(box)
        touching = float(distances_m(lon, lat, np.array(x), np.array(y)))
        if Circle((lon, lat), touching).contains(x, y):
            assert Circle((lon, lat), touching).meets(box)


@given(lons, lats, lons, lats, radii)
def test_meets_a_point_when_it_contains_it(
    lon: float, lat: float, x: float, y: float, radius: float
) -> None:
    """A box of one point is that point."""
    circle = Circle((lon, lat), radius)
    assert circle.meets(Box(x, y, x, y)) == circle.contains(x, y)


@pytest.mark.parametrize(
    ("center", "degrees", "box", "meets"),
    [
        ((0, 0), 1, Box(-5, -5, 5, 5), True),  # the centre is in the box
        ((0, 0), 1, Box(-5, 1, 5, 5), True),  # touches the south side
        ((0, 0), 1, Box(-5, 1.0001, 5, 5), False),
        ((0, 0), 1, Box(1, -5, 5, 5), True),  # touches the west side
        ((0, 0), 1, Box(1.0001, -5, 5, 5), False),
        ((0, 0), 1, Box(0.8, 0.8, 5, 5), False),  # the corner is more than one degree away
        ((179.5, 0), 1, Box(-180, -1, -179.5, 1), True),  # across the antimeridian
        ((179.5, 0), 1, Box(-179.4, -1, -170, 1), False),
        ((-179.5, 0), 1, Box(170, -1, 179.5, 1), True),
        ((180, 0), 0, Box(-180, -1, -170, 1), True),  # one meridian, two names
        ((0, 0), 1, Box(0.5, -1, -0.5, 1), True),  # the box goes the long way round
        ((0, 0), 1, Box(1.5, -1, -1.5, 1), False),
        ((0, 89), 2, Box(170, 89.5, -170, 90), True),  # over the pole
        ((0, 89), 2, Box(170, 80, -170, 88.9), False),
        ((0, 90), 0, Box(50, 80, 60, 90), True),  # every box that reaches the pole holds it
        ((0, 60), 40, Box(90, -90, 100, 50), False),  # nearest in the middle of the side: 60 away
        ((0, 60), 60, Box(90, -10, 100, 90), True),  # the pole is nearest
        ((0, 45), 35.3, Box(60, 0, 70, 90), False),  # nearest is inside the side, not its ends
        ((0, 45), 37.8, Box(60, 0, 70, 90), True),
        ((0, 0), 179, Box(179.9, 0, -179.9, 0), False),  # the hole about the antipode
        ((0, 0), 179, Box(178.9, 0, -179.9, 0), True),
        ((0, 0), 180, Box(180, 0, 180, 0), True),
    ],
)
def test_meets_by_example(
    center: tuple[float, float], degrees: float, box: Box, meets: bool
) -> None:
    """Sides, corners, antimeridian, poles and antipode, with distances known by heart."""
    assert Circle(center, degrees * DEGREE_M).meets(box) is meets


@given(lons, lats, radii, st.floats(0, 360), shares)
def test_bounds_hold_every_point(
    lon: float, lat: float, radius: float, bearing: float, share: float
) -> None:
    """A point at any bearing and distance that the circle contains is in its bounds."""
    circle = Circle((lon, lat), radius)
    bounds = circle.bounds()
    assert 1 <= len(bounds) <= 2
    for west, south, east, north in bounds:
        assert -180.0 <= west <= east <= 180.0
        assert -90.0 <= south <= north <= 90.0
    for angle in (radius / EARTH_RADIUS_M, share * radius / EARTH_RADIUS_M):
        for x, y in travel(lon, lat, math.radians(bearing), angle):
            if circle.contains(x, y):
                assert any(w <= x <= e and s <= y <= n for w, s, e, n in bounds)


def travel(lon: float, lat: float, bearing: float, angle: float) -> list[tuple[float, float]]:
    """Where one arrives, under all names of that point; also its neighbours among the floats."""
    y0 = math.radians(lat)
    sine = math.sin(y0) * math.cos(angle) + math.cos(y0) * math.sin(angle) * math.cos(bearing)
    y = math.degrees(math.asin(min(max(sine, -1.0), 1.0)))
    turn = math.atan2(
        math.sin(bearing) * math.sin(angle) * math.cos(y0),
        math.cos(angle) - math.sin(y0) * sine,
    )
    x = (lon + math.degrees(turn) + 540.0) % 360.0 - 180.0
    places = [(x, y)]
    if abs(x) > 179.999999:
        places += [(180.0, y), (-180.0, y)]
    if abs(y) > 89.999999:
        places += [(other, math.copysign(90.0, y)) for other in (-180.0, 0.0, 180.0)]
    for towards in (-180.0, 180.0):
        places.append((math.nextafter(x, towards), y))
        places.append((x, math.nextafter(y, towards / 2.0)))
    return places


@given(lons, lats, st.floats(0, 89))
def test_bounds_are_tight(lon: float, lat: float, degrees: float) -> None:
    """A circle larger by a metre reaches each outer side of the bounds."""
    bounds = sorted(Circle((lon, lat), degrees * DEGREE_M).bounds())
    grown = Circle((lon, lat), degrees * DEGREE_M + 1.0)
    west, south, east, north = bounds[0]
    if len(bounds) == 2:  # the two sides of the antimeridian
        assert (west, bounds[1][2]) == (-180.0, 180.0)
        west = bounds[1][0]
    for side in (
        Box(west, south, west, north),
        Box(east, south, east, north),
        Box(west, south, east, south),
        Box(west, north, east, north),
    ):
        assert grown.meets(side)


def test_bounds_over_a_pole() -> None:
    """A circle that holds a pole has all longitudes up to the pole."""
    ((west, south, east, north),) = Circle((20, 85), 10 * DEGREE_M).bounds()
    assert (west, east, north) == (-180.0, 180.0, 90.0)
    assert south == pytest.approx(75.0)
    ((west, south, east, north),) = Circle((20, -90), 0).bounds()
    assert (west, south, east) == (-180.0, -90.0, 180.0)
    assert north == pytest.approx(-90.0)
    assert Circle((20, 0), 91 * DEGREE_M).bounds() == WORLD.bounds()
    assert Circle((20, 0), HALFWAY_M).bounds() == WORLD.bounds()


def test_bounds_across_the_antimeridian() -> None:
    """A circle that crosses or only touches the antimeridian has bounds on both sides of it."""
    first, second = Circle((179, 0), 3 * DEGREE_M).bounds()
    assert first == pytest.approx((176.0, -3.0, 180.0, 3.0))
    assert second == pytest.approx((-180.0, -3.0, -178.0, 3.0))
    first, second = Circle((-179, 0), 3 * DEGREE_M).bounds()
    assert first == pytest.approx((-180.0, -3.0, -176.0, 3.0))
    assert second == pytest.approx((178.0, -3.0, 180.0, 3.0))
    for lon in (180, -180):
        west_and_east = {edge for w, _, e, _ in Circle((lon, 0), 0).bounds() for edge in (w, e)}
        assert {180.0, -180.0} <= west_and_east


def test_bounds_widen_towards_the_poles() -> None:
    """At 60 degrees north, asin(sin 10 / cos 60) degrees of longitude: 20.32 and not 10."""
    ((west, south, east, north),) = Circle((0, 60), 10 * DEGREE_M).bounds()
    assert (west, south, east, north) == pytest.approx((-20.3220, 50.0, 20.3220, 70.0), abs=1e-4)
