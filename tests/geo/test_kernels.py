"""Kernels: the same answers as the shapes, for every row, bit for bit."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from inside import from_python
from nearcast.geo import EARTH_RADIUS_M, Box, Circle, Polygon, kernels, planar_distance
from nearcast.geo.orient import orientation
from nearcast.geo.predicates import haversine, longitude_difference

Columns = tuple[Any, ...]  # arrays of one length


def some(random: np.random.Generator, limit: float, rows: int) -> NDArray[np.float64]:
    """Numbers of which many are equal, and many next to each other."""
    few = random.choice([-limit, -45.0, 0.0, 0.1, 0.3, 1.0, 45.0, limit], rows)
    near = np.clip(np.nextafter(few, random.choice([-200.0, 200.0], rows)), -limit, limit)
    kind = random.integers(0, 3, rows)
    return np.select([kind == 0, kind == 1], [few, near], random.uniform(-limit, limit, rows))


@pytest.fixture(scope="module")
def random() -> np.random.Generator:
    return np.random.default_rng(20240229)


@pytest.fixture(scope="module")
def points(random: np.random.Generator) -> Columns:
    return some(random, 180.0, 400), some(random, 90.0, 400)


@pytest.fixture(scope="module")
def boxes(random: np.random.Generator) -> list[Box]:
    made = []
    for _ in range(150):
        west, east = some(random, 180.0, 2)
        south, north = sorted(some(random, 90.0, 2))
        made.append(Box(west, south, east, north))
        made.append(Box(west, south, west, south))
    return made


@pytest.fixture(scope="module")
def circles(random: np.random.Generator) -> list[Circle]:
    """Among them circles of no size, and some whose border goes through a point of the rest."""
    quarter = math.pi / 2 * EARTH_RADIUS_M
    return [
        Circle((float(lon), float(lat)), float(radius))
        for lon, lat, radius in zip(
            some(random, 180.0, 60),
            some(random, 90.0, 60),
            random.choice([0.0, 1.0, 1e5, quarter / 2, quarter, 1.9 * quarter, 3e7], 60),
            strict=True,
        )
    ]


@pytest.fixture(scope="module")
def polygons() -> list[Polygon]:
    def ring(*corners: tuple[float, float]) -> tuple[tuple[float, float], ...]:
        return (*corners, corners[0])

    return [
        Polygon((ring((0, 0), (45, 45), (0, 45)),)),
        Polygon((ring((0.1, 0.1), (0.3, 0.3), (0.1, 0.7)),)),
        Polygon(
            (
                ring((-180, -90), (180, -90), (180, 90), (-180, 90)),
                ring((0, 0), (45, 0), (45, 45), (0, 45)),
                ring((-45, -45), (-0.1, -45), (-45, -0.1)),
            )
        ),
        Polygon((ring((-180, 0), (0, -45), (180, 0), (0, -90)),)),
    ]


def box_columns(boxes: list[Box]) -> Columns:
    return tuple(np.array([(b.west, b.south, b.east, b.north) for b in boxes]).T.copy())


def circle_columns(circles: list[Circle]) -> Columns:
    return tuple(np.array([(*c.center, c.limit) for c in circles]).T.copy())


def polygon_columns(polygon: Polygon) -> Columns:
    return np.array(polygon.lons), np.array(polygon.lats), np.array(polygon.starts)


def all_polygon_columns(polygons: list[Polygon]) -> Columns:
    """The columns of all polygons, one after the other, and where the rings of each begin."""
    lengths = [len(ring) for polygon in polygons for ring in polygon.coordinates]
    return (
        np.concatenate([polygon.lons for polygon in polygons]),
        np.concatenate([polygon.lats for polygon in polygons]),
        np.cumsum([0, *lengths]),
        np.cumsum([0, *(len(polygon.coordinates) for polygon in polygons)]),
    )


def differs(answers: list[bool]) -> bool:
    """Whether the question was worth asking."""
    return True in answers and False in answers


def test_boxes(points: Columns, boxes: list[Box]) -> None:
    """Points in boxes and boxes that meet, each way round."""
    columns = box_columns(boxes)
    seen = []
    for box, row in zip(boxes[:40], zip(*columns, strict=True), strict=False):
        expected = [box.contains(x, y) for x, y in zip(*points, strict=True)]
        assert kernels.points_in_box(*points, *row).tolist() == expected
        seen += expected
        expected = [box.meets(other) for other in boxes]
        assert kernels.boxes_meet_box(*columns, *row).tolist() == expected
        assert kernels.box_meets_boxes(*row, *columns).tolist() == expected
        seen += expected
    assert differs(seen)
    for x, y in zip(points[0][:50], points[1][:50], strict=True):
        expected = [box.contains(x, y) for box in boxes]
        assert kernels.point_in_boxes(x, y, *columns).tolist() == expected


def test_circles(points: Columns, boxes: list[Box], circles: list[Circle]) -> None:
    """Points in circles and boxes that meet circles, each way round."""
    columns, box_rows = circle_columns(circles), box_columns(boxes)
    seen = []
    for circle, row in zip(circles, zip(*columns, strict=True), strict=True):
        expected = [circle.contains(float(x), float(y)) for x, y in zip(*points, strict=True)]
        assert kernels.points_in_circle(*points, *row).tolist() == expected
        seen += expected
        expected = [circle.meets(box) for box in boxes]
        assert kernels.boxes_meet_circle(*box_rows, *row).tolist() == expected
        seen += expected
    assert differs(seen)
    for x, y in zip(points[0][:50], points[1][:50], strict=True):
        expected = [circle.contains(float(x), float(y)) for circle in circles]
        assert kernels.point_in_circles(x, y, *columns).tolist() == expected
    for box in boxes[:50]:
        expected = [circle.meets(box) for circle in circles]
        sides = (box.west, box.south, box.east, box.north)
        assert kernels.box_meets_circles(*sides, *columns).tolist() == expected


def test_circles_on_the_border(points: Columns) -> None:
    """Where the radius is the distance, give or take its last bits, the two still agree."""
    rows = np.stack(points, axis=1).tolist()
    seen = []
    for (x, y), (lon, lat) in zip(rows[:200], rows[200:], strict=True):
        apart = haversine(y, lat, y - lat, longitude_difference(x, lon))
        distance = 2 * EARTH_RADIUS_M * math.asin(min(1.0, math.sqrt(apart)))
        # The width of the border is taken off again, so that the very edge is under test.
        edge = max(0.0, distance - 1e-9) / (1 + 1e-12)
        for nudge in np.linspace(-4e-16, 4e-16, 9).tolist():
            circle = Circle((lon, lat), edge * (1 + nudge))
            expected = circle.contains(x, y)
            assert kernels.point_in_circle(x, y, lon, lat, circle.limit) == expected
            seen.append(expected)
    assert differs(seen)


def test_polygons(points: Columns, boxes: list[Box], polygons: list[Polygon]) -> None:
    """Points in polygons and boxes that meet polygons, each way round."""
    columns, box_rows = all_polygon_columns(polygons), box_columns(boxes)
    for polygon in polygons:
        expected = [polygon.contains(float(x), float(y)) for x, y in zip(*points, strict=True)]
        own = polygon_columns(polygon)
        assert kernels.points_in_polygon(*points, *own).tolist() == expected
        assert differs(expected)
        expected = [polygon.meets(box) for box in boxes]
        assert kernels.boxes_meet_polygon(*box_rows, *own).tolist() == expected
        assert differs(expected)
    for x, y in zip(*points, strict=True):
        expected = [polygon.contains(float(x), float(y)) for polygon in polygons]
        assert kernels.point_in_polygons(x, y, *columns).tolist() == expected
    for box in boxes:
        expected = [polygon.meets(box) for polygon in polygons]
        sides = (box.west, box.south, box.east, box.north)
        assert kernels.box_meets_polygons(*sides, *columns).tolist() == expected


def test_orientation(random: np.random.Generator) -> None:
    """The exact sums come out the same when compiled."""
    rows = some(random, 90.0, 12000).reshape(-1, 6).tolist()
    along = [(a, a, b, b, c, d) for a, _, b, _, c, d in rows]
    answers = [orientation(*row) for row in rows + along]
    assert [kernels.orientation(*row) for row in rows + along] == answers
    assert set(answers) == {-1, 0, 1}


def test_planar_distances(points: Columns) -> None:
    """Distances are equal to the last bit, and those of the plane."""
    expected = [planar_distance(7.7, -3.3, x, y) for x, y in zip(*points, strict=True)]
    assert kernels.planar_distances(7.7, -3.3, *points).tolist() == expected
    assert expected == pytest.approx(np.hypot(points[0] - 7.7, points[1] + 3.3))
    assert from_python(kernels.planar_distance)(0.0, 0.0, 3.0, 4.0) == 5.0


def test_no_rows_no_answers(polygons: list[Polygon]) -> None:
    """Empty columns are fine."""
    none = np.empty(0)
    assert kernels.points_in_box(none, none, 0.0, 0.0, 1.0, 1.0).size == 0
    assert kernels.point_in_circles(0.0, 0.0, none, none, none).size == 0
    assert kernels.points_in_polygon(none, none, *polygon_columns(polygons[0])).size == 0
    starts = np.zeros(1, np.int64)
    assert kernels.point_in_polygons(0.0, 0.0, none, none, starts, starts).size == 0
