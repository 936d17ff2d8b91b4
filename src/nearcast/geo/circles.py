"""Many circles at once: their limits, and the boxes around them."""

from __future__ import annotations

import math

import numpy as np

from nearcast._jit import callable_in_kernels, kernel
from nearcast.arrays.types import Floats
from nearcast.geo import predicates
from nearcast.geo.kernels import Truths
from nearcast.geo.shapes import ANGLE_SLACK, DEGREES_SLACK, SINE_SLACK

_circle_limit = kernel(predicates.circle_limit)
_latitude_cosine = callable_in_kernels(predicates.latitude_cosine)


@kernel
def circle_columns(points: Floats, radii: Floats) -> tuple[Floats, Floats, Truths]:
    """Return for circles the boxes around them, their limits, and whether that is all of each.

    What `Circle` computes for one. A circle that touches the antimeridian has two boxes; of that
    one only the limit is given.
    """
    count = len(radii)
    boxes, limits = np.empty((count, 4)), np.empty(count)
    whole = np.ones(count, np.bool_)
    for row in range(count):
        lon, lat = points[row, 0], points[row, 1]
        limit = limits[row] = _circle_limit(radii[row])
        west, south, east, north = -180.0, -90.0, 180.0, 90.0
        if limit != predicates.EVERYWHERE:
            if limit >= 0.0:
                angle = 2.0 * math.asin(math.sqrt(limit))
            else:
                angle = 2.0 * math.acos(math.sqrt(-limit))
            angle = angle * (1.0 + ANGLE_SLACK) + ANGLE_SLACK
            reach = math.degrees(angle) + DEGREES_SLACK
            south, north = max(lat - reach, -90.0), min(lat + reach, 90.0)
            if south > -90.0 and north < 90.0:
                sine = math.sin(angle) / _latitude_cosine(lat) * (1.0 + SINE_SLACK)
                reach = math.degrees(math.asin(min(sine, 1.0))) + DEGREES_SLACK
                west, east = lon - reach, lon + reach
                whole[row] = west > -180.0 and east < 180.0
        boxes[row, 0], boxes[row, 1], boxes[row, 2], boxes[row, 3] = west, south, east, north
    return boxes, limits, whole
