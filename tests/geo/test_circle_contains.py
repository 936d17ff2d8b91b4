"""Circles: which points they contain, against great circles of fifty digits."""

from __future__ import annotations

import math
import pickle

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.geo import EARTH_RADIUS_M, Circle

DIGITS = 50
HALFWAY_M = math.pi * EARTH_RADIUS_M

lons = st.sampled_from([-180.0, -90.0, 0.0, 90.0, 180.0]) | st.floats(-180, 180)
lats = st.sampled_from([-90.0, -45.0, 0.0, 45.0, 90.0]) | st.floats(-90, 90)
nudges = st.sampled_from([0.0, 1e-14, -1e-13, 1e-9, 1e-6, -1e-4, 0.01, -1.0])


@st.composite
def pairs(draw: st.DrawFn) -> tuple[float, float, float, float]:
    """Two points: anywhere, close together, or nearly opposite."""
    lon, lat = draw(lons), draw(lats)
    kind = draw(st.sampled_from(["anywhere", "close", "opposite"]))
    if kind == "anywhere":
        return lon, lat, draw(lons), draw(lats)
    if kind == "opposite":
        other_lon, other_lat = (lon - 180.0 if lon > 0.0 else lon + 180.0), -lat
    else:
        other_lon, other_lat = lon, lat
    other_lon = min(max(other_lon + draw(nudges), -180.0), 180.0)
    other_lat = min(max(other_lat + draw(nudges), -90.0), 90.0)
    return lon, lat, other_lon, other_lat


def great_circle_m(lon1: float, lat1: float, lon2: float, lat2: float) -> mpmath.mpf:
    """The angle between the two directions in space, to fifty digits, as metres."""
    with mpmath.workdps(DIGITS):

        def direction(lon: float, lat: float) -> tuple[mpmath.mpf, ...]:
            x, y = mpmath.mpf(lon) * mpmath.pi / 180, mpmath.mpf(lat) * mpmath.pi / 180
            return mpmath.cos(y) * mpmath.cos(x), mpmath.cos(y) * mpmath.sin(x), mpmath.sin(y)

        a, b = direction(lon1, lat1), direction(lon2, lat2)
        cross = (
            a[1] * b[2] - a[2] * b[1],
            a[2] * b[0] - a[0] * b[2],
            a[0] * b[1] - a[1] * b[0],
        )
        dot = mpmath.fsum(p * q for p, q in zip(a, b, strict=True))
        sine = mpmath.sqrt(mpmath.fsum(c * c for c in cross))
        return mpmath.atan2(sine, dot) * mpmath.mpf(EARTH_RADIUS_M)


@given(pairs(), st.floats(0, 1.1 * HALFWAY_M))
def test_contains_what_is_within_the_radius(
    pair: tuple[float, float, float, float], radius: float
) -> None:
    """For any radius, except where the distance is the radius to a micrometre."""
    lon, lat, other_lon, other_lat = pair
    distance = great_circle_m(*pair)
    if abs(distance - radius) > 1e-6 + 1e-12 * radius:
        assert Circle((lon, lat), radius).contains(other_lon, other_lat) == (distance < radius)


@given(pairs())
def test_the_border_belongs_and_is_thin(pair: tuple[float, float, float, float]) -> None:
    """The radius that is the distance contains the point, one a little smaller does not.

    Holds for all distances from nothing to the antipode. "A little" is a micrometre, and two
    parts in 10^12 for large circles, whose border is that wide.
    """
    lon, lat, other_lon, other_lat = pair
    distance = great_circle_m(*pair)
    assert Circle((lon, lat), float(distance)).contains(other_lon, other_lat)
    smaller = float(distance * (1 - mpmath.mpf("2e-12")) - mpmath.mpf("1e-6"))
    if smaller >= 0.0:
        assert not Circle((lon, lat), smaller).contains(other_lon, other_lat)


@given(pairs())
def test_distance_has_no_direction(pair: tuple[float, float, float, float]) -> None:
    """A point is in a circle about another when that one is in the same circle about the first."""
    lon, lat, other_lon, other_lat = pair
    radius = float(great_circle_m(*pair))
    assert Circle((other_lon, other_lat), radius).contains(lon, lat)


@given(lons, lats)
def test_radius_0_holds_its_centre(lon: float, lat: float) -> None:
    """A circle of no size contains the one point it is about."""
    assert Circle((lon, lat), 0).contains(lon, lat)


def test_180_and_minus_180_are_the_same_meridian() -> None:
    """Even a circle of no size on the antimeridian contains both names of its centre."""
    assert Circle((180, 12.5), 0).contains(-180.0, 12.5)
    assert Circle((-180, 12.5), 0).contains(180.0, 12.5)
    assert not Circle((180, 12.5), 0).contains(-179.9999999, 12.5)


@pytest.mark.parametrize("pole", [-90.0, 90.0])
@pytest.mark.parametrize("lon", [-180.0, -77.7, 0.0, 33.3, 90.0, 180.0])
def test_a_pole_has_every_longitude(pole: float, lon: float) -> None:
    """A circle of no size at a pole contains the pole under any longitude, and only the pole."""
    assert Circle((12.3, pole), 0).contains(lon, pole)
    assert not Circle((12.3, pole), 0).contains(lon, math.copysign(89.9999999999, pole))


def test_a_quarter_of_the_way_round_is_border() -> None:
    """The pole is on the border of the circle about a point of the equator, and so on."""
    quarter = HALFWAY_M / 2
    assert Circle((0, 0), quarter).contains(0.0, 90.0)
    assert Circle((0, 0), quarter).contains(-90.0, 0.0)
    assert Circle((45, -90), quarter).contains(120.0, 0.0)
    assert not Circle((45, -90), quarter).contains(120.0, 1e-9)


def test_crosses_the_antimeridian_and_the_pole() -> None:
    """Distances go the short way: 2 degrees across the antimeridian, 2 degrees over the pole."""
    two_degrees = math.radians(2.0) * EARTH_RADIUS_M
    assert Circle((179, 0), two_degrees).contains(-179.0, 0.0)
    assert not Circle((179, 0), two_degrees).contains(-178.99, 0.0)
    assert Circle((10, 89), two_degrees).contains(-170.0, 89.0)
    assert not Circle((10, 89), two_degrees).contains(-170.0, 88.99)


def test_half_the_circumference_is_everything() -> None:
    """From that radius on, also a very large one, the antipode belongs; a millimetre less: not."""
    for radius in (HALFWAY_M, 1e8, 1e308, 10**300, 1.7976931348623157e308):
        assert Circle((30, 40), radius).contains(-150.0, -40.0)
    assert not Circle((30, 40), HALFWAY_M - 1e-3).contains(-150.0, -40.0)


def test_a_circle_is_a_value() -> None:
    """Whole numbers become floats; equal circles are equal, hash alike, pickle, and stay put."""
    circle = Circle([1, 2], 3)  # type: ignore[arg-type] # a list is taken too
    assert circle.center == (1.0, 2.0)
    assert [type(part) for part in (*circle.center, circle.radius)] == [float] * 3
    assert hash(circle) == hash(Circle((1.0, 2.0), 3.0))
    copy = pickle.loads(pickle.dumps(circle))  # noqa: S301 - our own bytes
    assert copy == circle
    assert copy.limit == circle.limit
    assert repr(circle) == "Circle(center=(1.0, 2.0), radius=3.0)"
    with pytest.raises(AttributeError):
        circle.radius = 0.0  # type: ignore[misc] # the mistake that is tested
