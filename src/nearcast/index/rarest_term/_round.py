"""Circles by the boxes of their records, so that few are looked up in the table."""

from __future__ import annotations

import math

import numpy as np

from nearcast._jit import inlined
from nearcast.arrays.types import Float32s

OUTSIDE, INSIDE, UNSURE = range(3)

_LARGEST = 0.5  # degrees, of the radius
_WIDEST = 0.05  # radians between the meridians of a point and a centre
# By how much a circle is taken for smaller or larger than its box says. Records have 32 bits: the
# middle of a box is off by up to 9e-6 degrees, its height by 8e-6. The rest is for the series.
_MARGIN = math.radians(3e-5)
_SHARE = 1e-5


@inlined
def compare_round(
    memory: Float32s, at: int, step: int, lon: float, lat: float, sine: float, cosine: float
) -> int:
    """Say whether a point, whose latitude has this sine and cosine, is in the circle of a record.

    Its box is at `at`, with its sides `step` apart. The circle is in the middle of the box, unless
    the box ends at a pole or at the antimeridian. Angles are small: two terms of each series do.
    """
    x0, y0 = np.float64(memory[at]), np.float64(memory[at + step])
    x1, y1 = np.float64(memory[at + 2 * step]), np.float64(memory[at + 3 * step])
    reach = (y1 - y0) / 2.0
    if not (x0 > -180.0 and x1 < 180.0 and y0 > -90.0 and y1 < 90.0 and reach < _LARGEST):
        return UNSURE
    up, across = math.radians(lat - (y0 + y1) / 2.0), math.radians(lon - (x0 + x1) / 2.0)
    if abs(across) > _WIDEST:
        return UNSURE
    up_2, across_2 = up * up, across * across
    other_cosine = cosine * (1.0 - up_2 / 2.0) + sine * up
    # Four times the haversine, which is nearly the square of the angle.
    square = up_2 * (1.0 - up_2 / 12.0)
    square += cosine * other_cosine * across_2 * (1.0 - across_2 / 12.0)
    angle = math.radians(reach)
    far, near = angle * (1.0 + _SHARE) + _MARGIN, angle * (1.0 - _SHARE) - _MARGIN
    if square > far * far:
        return OUTSIDE
    return INSIDE if near > 0.0 and square < near * near else UNSURE
