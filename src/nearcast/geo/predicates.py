"""The predicates of geometry on plain numbers: which shapes contain or meet each other.

Written once, as plain Python that is also valid numba. The shapes call these functions as they
are, `kernels.py` compiles the same ones, so both give the same answers bit for bit.

Arguments are valid already: longitudes in [-180, 180], latitudes in [-90, 90], south <= north.
A box is `west, south, east, north` and crosses the antimeridian when west > east; a *plain* box
does not. A circle is `lon, lat` of its centre and the `limit` made by `circle_limit`.
Polygons are columns: the positions of all rings in `lons` and `lats`, ring r in the places
`starts[r]` to `starts[r + 1]`, its last position equal to its first. A polygon is the rings
`first` to `last - 1`, the outer one and the holes in any order.
"""

from __future__ import annotations

import math
from typing import Protocol

from nearcast.geo.orient import orientation

EARTH_RADIUS_M = 6371008.8

_RADIAN = math.pi / 180.0
_HALF_RADIAN = math.pi / 360.0

# The limit of a circle that covers the sphere: above every haversine.
EVERYWHERE = 2.0

# By how much a circle is larger than its radius says, so that points on its border belong to it
# whichever way their distance was rounded.
_TOLERANCE = 1e-12
_TOLERANCE_M = 1e-9

# What rounding may add to a haversine, relative, and to the root of one near the antipode.
_ROUNDING = 1e-14
_ROUNDING_FAR = 1e-15


class Floats(Protocol):
    """A column of numbers: a tuple in Python, a float64 array in a kernel."""

    def __getitem__(self, index: int, /) -> float: ...


class Ints(Protocol):
    """A column of whole numbers: a tuple in Python, an int64 array in a kernel."""

    def __getitem__(self, index: int, /) -> int: ...


def planar_distance(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """Return the straight distance between two points, in degrees, as if the map were flat."""
    dx = lon1 - lon2
    dy = lat1 - lat2
    return math.sqrt(dx * dx + dy * dy)


def point_in_box(
    lon: float, lat: float, west: float, south: float, east: float, north: float
) -> bool:
    """Whether a box contains a point."""
    if lat < south or lat > north:
        return False
    if west <= east:
        return west <= lon and lon <= east
    return lon >= west or lon <= east


def box_meets_box(
    west: float,
    south: float,
    east: float,
    north: float,
    other_west: float,
    other_south: float,
    other_east: float,
    other_north: float,
) -> bool:
    """Whether two boxes share a point."""
    if north < other_south or other_north < south:
        return False
    if west <= east:
        if other_west <= other_east:
            return west <= other_east and other_west <= east
        return west <= other_east or other_west <= east
    if other_west <= other_east:
        return west <= other_east or other_west <= east
    return True


def circle_limit(radius_m: float) -> float:
    """Turn a radius into the number that points are compared with.

    Up to a quarter of the way round it is the largest haversine, sin^2(angle / 2), of a point
    inside. Beyond, it is the smallest haversine of the way to the antipode of the centre,
    cos^2(angle / 2), with a minus sign: there the first of the two can no longer distinguish
    distances. Once the radius reaches half the circumference it is `EVERYWHERE`.

    The angle is that of `radius * (1 + 1e-12) + 1e-9` metres: see `point_in_circle`.
    """
    half = (radius_m * (1.0 + _TOLERANCE) + _TOLERANCE_M) / (2.0 * EARTH_RADIUS_M)
    if half >= math.pi / 2.0:
        return EVERYWHERE
    if half <= math.pi / 4.0:
        sine = math.sin(half)
        return sine * sine
    cosine = math.cos(half)
    return -(cosine * cosine)


def longitude_difference(lon1: float, lon2: float) -> float:
    """Return the angle between two meridians, from 0 to 180; -180 and 180 are the same one."""
    difference = abs(lon1 - lon2)
    if difference > 180.0:
        # Not 360 - difference: near the antimeridian these two subtractions are exact.
        return (180.0 - abs(lon1)) + (180.0 - abs(lon2))
    return difference


def latitude_cosine(lat: float) -> float:
    """Return cos(lat), with all its digits near the poles and 0 at them."""
    return math.sin((90.0 - abs(lat)) * _RADIAN)


def haversine(lat1: float, lat2: float, lat_difference: float, lon_difference: float) -> float:
    """Return sin^2(angle / 2) for two points at these latitudes, so far apart in degrees."""
    by_lat = math.sin(lat_difference * _HALF_RADIAN)
    by_lon = math.sin(lon_difference * _HALF_RADIAN)
    return by_lat * by_lat + latitude_cosine(lat1) * latitude_cosine(lat2) * (by_lon * by_lon)


def point_in_circle(
    lon: float, lat: float, center_lon: float, center_lat: float, limit: float
) -> bool:
    """Whether a circle contains a point.

    The border belongs to the circle, and counts as 1e-9 m plus 1e-12 of the radius wide, which
    covers every rounding on the way: a point that is on the border by construction is inside.
    That holds at every distance, the antipode included.
    """
    apart = longitude_difference(lon, center_lon)
    if limit < 0.0:
        return haversine(lat, center_lat, lat + center_lat, 180.0 - apart) >= -limit
    return haversine(lat, center_lat, lat - center_lat, apart) <= limit


def widened_limit(limit: float) -> float:
    """Return the limit of a circle larger by no more than rounding can account for."""
    if limit >= 0.0:
        return limit * (1.0 + _ROUNDING)
    root = math.sqrt(-limit) * (1.0 - _ROUNDING) - _ROUNDING_FAR
    return -(root * root) if root > 0.0 else EVERYWHERE


def box_meets_circle(
    west: float,
    south: float,
    east: float,
    north: float,
    center_lon: float,
    center_lat: float,
    limit: float,
) -> bool:
    """Whether a box and a circle share a point.

    True whenever some point is in both by `point_in_box` and `point_in_circle`; for a box of one
    point the same as `point_in_circle`.
    """
    if west == east and south == north:
        return point_in_circle(west, south, center_lon, center_lat, limit)
    wide = widened_limit(limit)
    if west <= east:
        return plain_box_meets_circle(west, south, east, north, center_lon, center_lat, wide)
    return plain_box_meets_circle(
        west, south, 180.0, north, center_lon, center_lat, wide
    ) or plain_box_meets_circle(-180.0, south, east, north, center_lon, center_lat, wide)


def plain_box_meets_circle(
    west: float,
    south: float,
    east: float,
    north: float,
    lon: float,
    lat: float,
    limit: float,
) -> bool:
    """Whether the point of a plain box that is nearest to a centre lies in its circle."""
    if west <= lon and lon <= east:
        # On one parallel, distance grows with the angle between the meridians.
        return point_in_circle(lon, min(max(lat, south), north), lon, lat, limit)
    to_west = longitude_difference(west, lon)
    to_east = longitude_difference(east, lon)
    # For the same reason the nearest point lies on the side whose meridian is nearer.
    edge = west if to_west <= to_east else east
    if point_in_circle(edge, south, lon, lat, limit):
        return True
    if point_in_circle(edge, north, lon, lat, limit):
        return True
    # Of a small circle the parallel of the centre gives the nearest point without rounding.
    if south < lat and lat < north and point_in_circle(edge, lat, lon, lat, limit):
        return True
    turn = math.cos(min(to_west, to_east) * _RADIAN)
    best = math.atan2(math.sin(lat * _RADIAN), latitude_cosine(lat) * turn) / _RADIAN
    return south < best and best < north and point_in_circle(edge, best, lon, lat, limit)


def point_in_polygon(
    lon: float, lat: float, lons: Floats, lats: Floats, starts: Ints, first: int, last: int
) -> bool:
    """Whether a polygon contains a point: exact, and every border belongs, also of holes.

    Counts the edges that a ray to the east crosses, over all rings.
    """
    inside = False
    for ring in range(first, last):
        for index in range(starts[ring], starts[ring + 1] - 1):
            ax = lons[index]
            ay = lats[index]
            bx = lons[index + 1]
            by = lats[index + 1]
            if (ay > lat) != (by > lat):
                if lon < ax and lon < bx:
                    inside = not inside
                elif lon <= ax or lon <= bx:
                    side = orientation(ax, ay, bx, by, lon, lat)
                    if side == 0:
                        return True
                    if (side > 0) == (by > ay):
                        inside = not inside
            elif ay == lat:
                # The edge lies along the ray or only touches it with an end.
                if ax == lon:
                    return True
                if by == lat and (ax < lon) != (bx < lon):
                    return True
    return inside


def edge_meets_box(
    ax: float,
    ay: float,
    bx: float,
    by: float,
    west: float,
    south: float,
    east: float,
    north: float,
) -> bool:
    """Whether the straight line from a to b shares a point with a plain box: exact."""
    if (ax < west and bx < west) or (ax > east and bx > east):
        return False
    if (ay < south and by < south) or (ay > north and by > north):
        return False
    # Seen across the edge, two opposite corners are the outermost: the edge misses the box when
    # both lie strictly on one side of its line.
    if (ax < bx) == (ay < by):
        side = orientation(ax, ay, bx, by, west, north)
        return side == 0 or side != orientation(ax, ay, bx, by, east, south)
    side = orientation(ax, ay, bx, by, west, south)
    return side == 0 or side != orientation(ax, ay, bx, by, east, north)


def plain_box_meets_polygon(
    west: float,
    south: float,
    east: float,
    north: float,
    lons: Floats,
    lats: Floats,
    starts: Ints,
    first: int,
    last: int,
) -> bool:
    """Whether a plain box and a polygon share a point: exact."""
    for ring in range(first, last):
        for index in range(starts[ring], starts[ring + 1] - 1):
            ax = lons[index]
            ay = lats[index]
            bx = lons[index + 1]
            by = lats[index + 1]
            if edge_meets_box(ax, ay, bx, by, west, south, east, north):
                return True
    # No border runs through the box, so it is wholly inside or wholly outside.
    return point_in_polygon(west, south, lons, lats, starts, first, last)


def box_meets_polygon(
    west: float,
    south: float,
    east: float,
    north: float,
    lons: Floats,
    lats: Floats,
    starts: Ints,
    first: int,
    last: int,
) -> bool:
    """Whether a box and a polygon share a point: exact."""
    if west <= east:
        return plain_box_meets_polygon(west, south, east, north, lons, lats, starts, first, last)
    return plain_box_meets_polygon(
        west, south, 180.0, north, lons, lats, starts, first, last
    ) or plain_box_meets_polygon(-180.0, south, east, north, lons, lats, starts, first, last)
