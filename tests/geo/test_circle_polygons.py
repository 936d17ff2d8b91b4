"""Circles and polygons that meet: great-circle distance from a centre to edges straight in degrees.

The independent formulation: points of the sphere as vectors in three dimensions, the angle between
two of them by atan2 of cross and dot product, and edges sampled densely, then searched near all
samples that are nearer than those beside them.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from nearcast.errors import InvalidValue
from nearcast.geo import EARTH_RADIUS_M, Box, Circle, MultiPolygon, Polygon
from nearcast.geo.nearness import border_meets_circle, edge_meets_circle, limit_slack
from nearcast.geo.predicates import circle_limit

Position = tuple[float, float]
Floats = npt.NDArray[np.float64]
MILLIMETRE = 1e-3
HALF_WAY_ROUND = math.pi * EARTH_RADIUS_M
DEGREE_M = HALF_WAY_ROUND / 180


def vectors(lons: Floats, lats: Floats) -> Floats:
    lon, lat = np.radians(lons), np.radians(lats)
    return np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)


def distances(center: Position, lons: Floats, lats: Floats) -> Floats:
    """In metres, by cross and dot product."""
    one, others = vectors(np.array(center[0]), np.array(center[1])), vectors(lons, lats)
    across = np.linalg.norm(np.cross(one, others), axis=-1)
    found: Floats = EARTH_RADIUS_M * np.arctan2(across, others @ one)
    return found


def edge_distance(center: Position, a: Position, b: Position) -> float:
    """The least distance from a centre to a line that is straight in degrees."""

    def sampled(low: float, high: float) -> tuple[Floats, Floats]:
        shares = np.linspace(low, high, 1001)
        lons, lats = a[0] + shares * (b[0] - a[0]), a[1] + shares * (b[1] - a[1])
        return shares, distances(center, lons, lats)

    shares, found = sampled(0.0, 1.0)
    around = np.pad(found, 1, constant_values=np.inf)
    least = float(found.min())
    for place in np.flatnonzero((found <= around[:-2]) & (found <= around[2:]))[:20].tolist():
        low, high = shares[max(place - 1, 0)], shares[min(place + 1, 1000)]
        for _ in range(4):
            some, apart = sampled(low, high)
            best = int(apart.argmin())
            low, high = some[max(best - 1, 0)], some[min(best + 1, 1000)]
        least = min(least, float(apart.min()))
    return least


def distance(center: Position, polygon: Polygon) -> float:
    """The least distance from a centre to a polygon, 0 inside."""
    names = {center, (-center[0], center[1])} if abs(center[0]) == 180 else {center}
    if any(polygon.contains(*name) for name in names):
        return 0.0
    edges = [edge for ring in polygon.coordinates for edge in itertools.pairwise(ring)]
    return min(edge_distance(center, *edge) for edge in edges)


LONS = [-180.0, -179.99, -90.0, -1.0, 0.0, 0.5, 45.0, 179.0, 180.0]
LATS = [-90.0, -89.99, -45.0, -0.5, 0.0, 1.0, 60.0, 89.0, 89.9999, 90.0]
positions = st.tuples(
    st.sampled_from(LONS) | st.floats(-180, 180), st.sampled_from(LATS) | st.floats(-90, 90)
)


@st.composite
def polygons(draw: st.DrawFn) -> Polygon:
    """A triangle or a quadrangle, large or small, sometimes with the same in small as a hole."""
    corners = draw(st.lists(positions, min_size=3, max_size=4, unique=True))
    shrink = draw(st.sampled_from([1.0, 1.0, 0.1, 1e-4]))
    lon, lat = corners[0]
    corners = [(lon + shrink * (x - lon), lat + shrink * (y - lat)) for x, y in corners]
    middle = [sum(each) / len(corners) for each in zip(*corners, strict=True)]
    corners.sort(key=lambda corner: math.atan2(corner[1] - middle[1], corner[0] - middle[0]))
    outer = [*corners, corners[0]]
    hole = [(middle[0] + (x - middle[0]) / 2, middle[1] + (y - middle[1]) / 2) for x, y in outer]
    try:
        return Polygon([outer, hole] if draw(st.booleans()) else [outer])
    except InvalidValue:
        assume(False)
        raise


BAND = Polygon([[(-180, 80), (180, 80), (180, 85), (-180, 85), (-180, 80)]])
CAP = Polygon([[(-180, 80), (180, 80), (180, 90), (-180, 90), (-180, 80)]])
EAST_END = Polygon([[(170, 0), (180, 0), (180, 10), (170, 10), (170, 0)]])


@given(positions, polygons())
@example((0.0, 90.0), BAND)
@example((10.0, -90.0), BAND)
@example((77.0, 90.0), CAP)
@example((-180.0, 5.0), EAST_END)
@example((-179.5, 5.0), EAST_END)
@example((0.0, 90.0), EAST_END)
@example((-5.0, -5.0), EAST_END)  # nearly opposite
def test_the_distance_decides_to_within_a_millimetre(center: Position, polygon: Polygon) -> None:
    """A circle that reaches a millimetre further meets it; one a millimetre short does not."""
    apart = distance(center, polygon)
    assert Circle(center, apart + MILLIMETRE).meets(polygon)
    if apart > MILLIMETRE:
        assert not Circle(center, apart - MILLIMETRE).meets(polygon)


@given(positions, polygons(), st.floats(0, 2e7))
def test_what_meets_shares_a_point_with_the_bounds(
    center: Position, polygon: Polygon, radius: float
) -> None:
    """So an index that asks about bounds first overlooks nothing."""
    circle = Circle(center, radius)
    if circle.meets(polygon):
        assert circle.meets(Box(*polygon.box))


@given(positions, polygons(), st.floats(0, 2e7), st.floats(0, 1), st.integers(0, 3))
def test_a_shared_point_is_a_meeting(
    center: Position, polygon: Polygon, radius: float, share: float, edge: int
) -> None:
    """Wherever a point of an edge lies in the circle by a millimetre, they meet."""
    ring = polygon.coordinates[0]
    (ax, ay), (bx, by) = list(itertools.pairwise(ring))[edge % (len(ring) - 1)]
    x, y = ax + share * (bx - ax), ay + share * (by - ay)
    if radius > MILLIMETRE and Circle(center, radius - MILLIMETRE).contains(x, y):
        assert Circle(center, radius).meets(polygon)


@pytest.mark.parametrize("lat", [90.0, -90.0])
@pytest.mark.parametrize("lon", [-180.0, -77.0, 0.0, 180.0])
def test_a_pole_is_one_point(lon: float, lat: float) -> None:
    """A polygon that touches a pole anywhere has it, whatever longitude the circle says."""
    side = math.copysign(1.0, lat)
    touching = Polygon([[(10, 80 * side), (20, 80 * side), (15, 90 * side), (10, 80 * side)]])
    assert Circle((lon, lat), 0).meets(touching)
    near = Polygon([[(10, 80 * side), (20, 80 * side), (15, 89 * side), (10, 80 * side)]])
    assert not Circle((lon, lat), DEGREE_M - MILLIMETRE).meets(near)
    assert Circle((lon, lat), DEGREE_M + MILLIMETRE).meets(near)


@pytest.mark.parametrize("lat", [0.0, 3.7, 10.0])
def test_both_names_of_the_antimeridian_are_one_for_circles(lat: float) -> None:
    """Without a radius it must be the very place."""
    assert Circle((180, lat), 0).meets(EAST_END)
    assert Circle((-180, lat), 0).meets(EAST_END)
    assert not Circle((-179.999, lat), 100).meets(EAST_END)
    assert Circle((-179.999, lat), 112).meets(EAST_END)
    assert Circle((180, lat), 0).meets(MultiPolygon([BAND.coordinates, EAST_END.coordinates]))


def test_an_edge_that_bulges_towards_the_circle() -> None:
    """On a parallel of the north the great circle between two ends runs far north of the edge."""
    shelf = Polygon([[(-60, 50), (60, 50), (60, 40), (-60, 40), (-60, 50)]])
    assert not Circle((0, 60), 10 * DEGREE_M - MILLIMETRE).meets(shelf)
    assert Circle((0, 60), 10 * DEGREE_M + MILLIMETRE).meets(shelf)


def test_a_circle_amid_a_hole() -> None:
    """It meets the polygon once it reaches the border of the hole."""
    square = [(-9, -9), (9, -9), (9, 9), (-9, 9), (-9, -9)]
    hole = [(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)]
    frame = Polygon([square, hole])
    reach = edge_distance((0, 0), (1, -1), (1, 1))
    assert not Circle((0, 0), reach - MILLIMETRE).meets(frame)
    assert Circle((0, 0), reach + MILLIMETRE).meets(frame)
    assert Circle((5, 5), 0).meets(frame)
    assert Circle((0, 0), 3e6).meets(frame)  # around all of it


def test_circles_beyond_a_quarter_of_the_way_round() -> None:
    """Up to the whole sphere."""
    dot = Polygon([[(179, 0), (180, 0), (180, 1), (179, 0)]])
    apart = distance((0.0, 0.0), dot)
    assert apart > 0.99 * HALF_WAY_ROUND
    assert not Circle((0, 0), apart - MILLIMETRE).meets(dot)
    assert Circle((0, 0), apart + MILLIMETRE).meets(dot)
    assert Circle((0, 0), 1e9).meets(dot)


def test_an_edge_along_the_border_takes_few_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where every piece is as near as every other, or nearly so, halving soon comes to an end."""
    from nearcast.geo import nearness

    asked = itertools.count()
    plain = nearness.circle_excess

    def counted(lon: float, lat: float, center_lon: float, center_lat: float, far: bool) -> float:
        next(asked)
        return plain(lon, lat, center_lon, center_lat, far)

    monkeypatch.setattr(nearness, "circle_excess", counted)
    for center_lat, lat in ((90.0, 80.0), (89.0, 88.9), (10.0, 10.0), (-40.0, 5.0)):
        circle = (0.0, center_lat)
        apart = edge_distance(circle, (-80.0, lat), (80.0, lat))
        for radius in (apart - 2e-4, apart, apart + 2e-4):
            limit = circle_limit(max(radius, 0.0))
            edge_meets_circle(-80.0, lat, 80.0, lat, *circle, limit, limit_slack(limit))
    assert next(asked) < 3000


def test_the_same_functions_compile() -> None:
    """What is Python here is numba in a kernel, with the same answers."""
    import nearcast.geo.kernels  # noqa: F401 - it makes known what these functions call
    from nearcast._jit import callable_in_kernels, kernel
    from nearcast.geo import nearness

    for helper in (nearness.circle_excess, nearness.limit_slack, nearness.edge_meets_circle):
        callable_in_kernels(helper)
    compiled = kernel(nearness.border_meets_circle)
    random = np.random.default_rng(3)
    seen = set()
    for _ in range(300):
        lon, lat, size = random.uniform(-150, 150), random.uniform(-70, 70), random.uniform(0.1, 9)
        each = Polygon([[(lon, lat), (lon + size, lat), (lon, lat + size), (lon, lat)]])
        center = (random.uniform(-180, 180), random.uniform(-90, 90))
        limit = circle_limit(random.uniform(0, 1.5e7))
        last = len(each.starts) - 1
        plain = border_meets_circle(each.lons, each.lats, each.starts, 0, last, *center, limit)
        columns = np.array(each.lons), np.array(each.lats), np.array(each.starts)
        assert compiled(*columns, 0, last, *center, limit) == plain
        seen.add(plain)
    assert seen == {True, False}
