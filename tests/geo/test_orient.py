"""The side of a line, against fractions, which never round."""

from __future__ import annotations

import math
from fractions import Fraction

from hypothesis import example, given
from hypothesis import strategies as st

from nearcast.geo.orient import exact_orientation, orientation

Six = tuple[float, float, float, float, float, float]


@st.composite
def coordinates(draw: st.DrawFn) -> float:
    """A float of any size, or one of few values or next to one of them."""
    few = st.integers(-8, 8).map(lambda n: n * 0.1) | st.integers(-4, 4).map(float)
    small = st.floats(1e-290, 1e-100) | st.floats(-1e-100, -1e-290)
    value = draw(few | small | st.floats(-180, 180).filter(lambda v: v == 0 or abs(v) > 1e-290))
    towards = draw(st.sampled_from([0.0, -180.0, 180.0]))
    if towards and value:
        return math.nextafter(value, towards)
    return value


sixes = st.tuples(*[coordinates()] * 6)


def by_fractions(six: Six) -> int:
    ax, ay, bx, by, px, py = map(Fraction, six)
    determinant = (ax - px) * (by - py) - (ay - py) * (bx - px)
    return (determinant > 0) - (determinant < 0)


@given(sixes)
@example((0.0, 0.0, 0.3, 0.3, 0.1, 0.1))
@example((0.1, 0.1, 0.7, 0.7, 0.30000000000000004, 0.30000000000000004))
@example((0.5, 0.5, 12.0, 12.0, 24.0, 24.000000000000004))
@example((1e-290, 1e-290, 2e-290, 2e-290, 3e-290, 3.0000000000000003e-290))
@example((180.0, 90.0, -180.0, -90.0, 1e-290, 5e-291 + 5e-291))
def test_sign_is_exact(six: Six) -> None:
    """Both the quick way and the exact way give the sign of the true determinant."""
    assert orientation(*six) == by_fractions(six)
    assert exact_orientation(*six) == by_fractions(six)


@given(st.floats(0.1, 1), st.floats(0.1, 1), st.integers(-60, 60), st.integers(-60, 60))
def test_sign_is_exact_next_to_a_diagonal(x: float, y: float, right: int, up: int) -> None:
    """All floats around a point of a long line are told apart, where rounding could not."""
    for _ in range(abs(right)):
        x = math.nextafter(x, math.copysign(2.0, right))
    for _ in range(abs(up)):
        y = math.nextafter(y, math.copysign(2.0, up))
    six = (x, x, 12.0, 12.0, 24.0, 24.0)
    assert orientation(*six) == by_fractions(six)
    six = (12.0, 12.0, 24.0, 24.0, x, y)
    assert orientation(*six) == by_fractions(six)


def test_the_quick_way_gives_up_in_time() -> None:
    """On the floats around a diagonal the rounded determinant alone is often wrong."""
    wrong = 0
    y = 0.5
    for _ in range(64):
        y = math.nextafter(y, 1.0)
        x = 0.5
        for _ in range(64):
            x = math.nextafter(x, 1.0)
            six = (x, y, 12.0, 12.0, 24.0, 24.0)
            true = by_fractions(six)
            assert orientation(*six) == true
            rounded = (x - 24.0) * (12.0 - 24.0) - (y - 24.0) * (12.0 - 24.0)
            wrong += ((rounded > 0) - (rounded < 0)) != true
    assert wrong > 1000


def test_left_is_positive() -> None:
    """Seen from a to b, the left is 1 and the right -1."""
    assert orientation(0.0, 0.0, 1.0, 0.0, 0.5, 1.0) == 1
    assert orientation(0.0, 0.0, 1.0, 0.0, 0.5, -1.0) == -1
    assert orientation(0.0, 0.0, 1.0, 0.0, 7.0, 0.0) == 0
