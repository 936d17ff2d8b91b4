"""What no region and no point may be: each mistake named by place and value."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest

from nearcast.errors import InvalidValue, show
from nearcast.geo import Box, Circle, Polygon, point

NOT_NUMBERS = [None, "1", b"1", True, False, [1], 1j, Decimal(1), np.True_, object]
NOT_FINITE = [math.nan, math.inf, -math.inf, np.float64("nan"), np.float32("inf"), 10**400]
BAD_LONGITUDES = [*NOT_NUMBERS, *NOT_FINITE, 180.00000000000003, -181, 1e308, -(10**400)]
BAD_LATITUDES = [*NOT_NUMBERS, *NOT_FINITE, 90.00000000000001, -91, 180]
BAD_RADII = [*NOT_NUMBERS, *NOT_FINITE, -1, -5e-324, -(10**400)]
NOT_PAIRS: list[object] = [
    None,
    5,
    "12",
    b"12",
    (),
    (1.0,),
    (1.0, 2.0, 3.0),
    {1.0, 2.0},
    {0: 1.0, 1: 2.0},
]
NOT_PAIRS += [np.array(1.0), np.array([1.0, 2.0, 3.0]), np.float64(1.0)]

OUTER = [(0, 0), (8, 0), (8, 8), (0, 8), (0, 0)]


def rejected(field: str, value: object, make: Any, *args: Any) -> None:
    """`make(*args)` is refused because of `value`, which stands in `field`."""
    with pytest.raises(InvalidValue) as caught:
        make(*args)
    assert caught.value.field == field
    assert str(caught.value).startswith(f"{field}: {show(value)} given; expected ")


@pytest.mark.parametrize("value", BAD_LONGITUDES)
def test_bad_longitudes(value: object) -> None:
    """Wherever a longitude stands."""
    rejected("bbox[0]", value, Box, value, 0, 1, 1)
    rejected("bbox[2]", value, Box, 0, 0, value, 1)
    rejected("center[0]", value, Circle, (value, 0), 1)
    rejected("point[0]", value, point, (value, 0.0))
    ring = [(0, 0), (8, 0), (value, 8), (0, 8), (0, 0)]
    rejected("coordinates[0][2][0]", value, Polygon, [ring])


@pytest.mark.parametrize("value", BAD_LATITUDES)
def test_bad_latitudes(value: object) -> None:
    """Wherever a latitude stands."""
    rejected("bbox[1]", value, Box, 0, value, 1, 1)
    rejected("bbox[3]", value, Box, 0, 0, 1, value)
    rejected("center[1]", value, Circle, (0, value), 1)
    rejected("here[1]", value, point, [0.0, value], "here")
    ring = [(1, 1), (2, 1), (2, value), (1, 1)]
    rejected("coordinates[1][2][1]", value, Polygon, [OUTER, ring])


@pytest.mark.parametrize("value", BAD_RADII)
def test_bad_radii(value: object) -> None:
    """Negative, not finite, or no number."""
    rejected("radius", value, Circle, (0, 0), value)


@pytest.mark.parametrize("value", NOT_PAIRS, ids=repr)
def test_positions_that_are_not_two_numbers(value: object) -> None:
    """Wherever a position stands."""
    rejected("point", value, point, value)
    rejected("center", value, Circle, value, 1)
    rejected("coordinates[0][3]", value, Polygon, [[(0, 0), (8, 0), (8, 8), value, (0, 0)]])


def test_south_above_north() -> None:
    """The message names both."""
    rejected("bbox[1]", 5.0, Box, 0, 5, 1, 4)
    with pytest.raises(InvalidValue, match=r"not above the north, which is 4\.0"):
        Box(0.0, 5.0, 1.0, 4.0)


@pytest.mark.parametrize("value", [None, 5, "rings", [], (), {}, np.array([])], ids=repr)
def test_coordinates_that_are_no_rings(value: object) -> None:
    """A polygon needs an outer ring."""
    rejected("coordinates", value, Polygon, value)


@pytest.mark.parametrize("value", [None, 5, "ring", [], [(0, 0), (1, 0), (0, 0)]], ids=repr)
def test_rings_that_are_too_short(value: object) -> None:
    """A ring has four positions or more, a hole too."""
    rejected("coordinates[0]", value, Polygon, [value])
    rejected("coordinates[1]", value, Polygon, [OUTER, value])


def test_rings_that_are_not_closed() -> None:
    """The message shows the last position and the one it should be."""
    rejected("coordinates[0][3]", (0, 1), Polygon, [[(0, 0), (1, 0), (1, 1), (0, 1)]])
    with pytest.raises(InvalidValue, match=r"which is \[0\.0, 0\.0\]"):
        Polygon([[(0, 0), (1, 0), (1, 1), (0, 1)]])  # lists are taken


@pytest.mark.parametrize(
    ("rings", "reason"),
    [
        ([[(0, 0), (2, 2), (2, 0), (0, 2), (0, 0)]], "Self-intersection"),
        ([[(0, 0), (1, 1), (2, 2), (0, 0)]], "Self-intersection"),  # no area
        ([[(1, 1), (1, 1), (1, 1), (1, 1)]], "Too few points"),
        ([OUTER, [(9, 9), (10, 9), (10, 10), (9, 9)]], "outside shell"),
        ([OUTER, [(7, 7), (10, 7), (10, 10), (7, 7)]], "Self-intersection"),
        ([OUTER, OUTER], "Self-intersection"),
    ],
)
def test_invalid_polygons(rings: list[list[tuple[float, float]]], reason: str) -> None:
    """Rings that cross, enclose nothing or lie outside are refused, with the reason."""
    rejected("coordinates", rings, Polygon, rings)
    with pytest.raises(InvalidValue, match=reason):
        Polygon(rings)  # lists are taken too
