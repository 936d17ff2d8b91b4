"""Whether a circle reaches the border of a polygon, whose edges are straight in degrees.

On the sphere such an edge is no great circle: nothing simple gives its nearest point. But the
haversine of the way from a centre to a point that runs along the edge is smooth, and its second
derivative has a bound. So a piece of the edge whose ends are far enough out is out as a whole;
other pieces are halved, until what could be overlooked is less than a tenth of a millimetre.

Plain Python that is also valid numba, on the columns that `predicates` describes.
"""

from __future__ import annotations

import math

from nearcast.geo.predicates import (
    EARTH_RADIUS_M,
    EVERYWHERE,
    Floats,
    Ints,
    haversine,
    latitude_cosine,
    longitude_difference,
)

_RADIAN = math.pi / 180.0
_OVERLOOKED = 1e-4 / (2.0 * EARTH_RADIUS_M)  # half the angle of a tenth of a millimetre


def circle_excess(lon: float, lat: float, center_lon: float, center_lat: float, far: bool) -> float:
    """Return what `predicates.point_in_circle` compares with the limit: at most that is inside.

    `far` says that the limit is that of a circle of more than a quarter of the way round.
    """
    apart = longitude_difference(lon, center_lon)
    if far:
        return -haversine(lat, center_lat, lat + center_lat, 180.0 - apart)
    return haversine(lat, center_lat, lat - center_lat, apart)


def limit_slack(limit: float) -> float:
    """Return by how much a limit falls when the circle shrinks by a tenth of a millimetre."""
    half = math.acos(math.sqrt(-limit)) if limit < 0.0 else math.asin(math.sqrt(limit))
    # sin^2(half) - sin^2(half - overlooked), without the difference of two near numbers
    return math.sin(_OVERLOOKED) * math.sin(max(2.0 * half - _OVERLOOKED, _OVERLOOKED))


def edge_meets_circle(
    ax: float, ay: float, bx: float, by: float, lon: float, lat: float, limit: float, slack: float
) -> bool:
    """Whether a point of the straight line from a to b lies in a circle, which is not everywhere.

    True only for a point that `predicates.point_in_circle` has in the circle; False only if every
    point is outside a circle that is smaller by `slack`, of `limit_slack`.
    """
    far = limit < 0.0
    turn, climb = (bx - ax) * _RADIAN, (by - ay) * _RADIAN
    center_cosine = latitude_cosine(lat)
    place, depth = 0, 0  # the piece from place / 2**depth on, as long as 1 / 2**depth
    while True:
        length = 0.5**depth
        start, stop = place * length, (place + 1) * length
        # Within the bounds of the edge, whichever way it was rounded.
        x0 = min(max(ax + start * (bx - ax), min(ax, bx)), max(ax, bx))
        y0 = min(max(ay + start * (by - ay), min(ay, by)), max(ay, by))
        x1 = bx if stop == 1.0 else min(max(ax + stop * (bx - ax), min(ax, bx)), max(ax, bx))
        y1 = by if stop == 1.0 else min(max(ay + stop * (by - ay), min(ay, by)), max(ay, by))
        at_start = circle_excess(x0, y0, lon, lat, far)
        at_stop = circle_excess(x1, y1, lon, lat, far)
        if at_start <= limit or at_stop <= limit:
            return True
        # The second derivative along the piece is within +-2 * bend.
        widest = 1.0 if y0 * y1 <= 0.0 else max(latitude_cosine(y0), latitude_cosine(y1))
        across = 2.0 * abs(climb * turn) + turn * turn * widest
        bend = 0.25 * length * length * (climb * climb + center_cosine * across)
        # So the haversine is nowhere below the parabola through both ends that is bent so much.
        rise = at_stop - at_start
        if abs(rise) >= bend:
            lowest = min(at_start, at_stop)
        else:
            lowest = at_start - (bend - rise) * (bend - rise) / (4.0 * bend)
        if lowest > limit or 0.25 * bend <= slack:
            # On to the next piece, of the largest size at which it is a whole one.
            place += 1
            while place % 2 == 0 and depth > 0:
                place //= 2
                depth -= 1
            if depth == 0:
                return False
        else:
            place, depth = 2 * place, depth + 1


def border_meets_circle(
    lons: Floats,
    lats: Floats,
    starts: Ints,
    first: int,
    last: int,
    lon: float,
    lat: float,
    limit: float,
) -> bool:
    """Whether the border of a polygon reaches into a circle, to within a tenth of a millimetre."""
    if limit == EVERYWHERE:
        return True
    slack = limit_slack(limit)
    for ring in range(first, last):
        for at in range(starts[ring], starts[ring + 1] - 1):
            if edge_meets_circle(
                lons[at], lats[at], lons[at + 1], lats[at + 1], lon, lat, limit, slack
            ):
                return True
    return False
