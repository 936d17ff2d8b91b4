"""The functions of `predicates`, compiled: for single calls by other kernels, and over columns.

These are the same functions that the shapes call, so a kernel and a shape agree bit for bit.
(Numba must not swap the sines of a loop for Intel's SVML, which rounds differently: where that
library is installed, set `NUMBA_DISABLE_INTEL_SVML=1`.)

Columns are float64 arrays of one length, offsets are int64 arrays; the answer is one array, with an
element for each row. Many polygons are columns of columns: polygon i is the rings `rings[i]` to
`rings[i + 1]`, and ring r the positions `starts[r]` to `starts[r + 1]`.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nearcast._jit import callable_in_kernels, inlined, kernel
from nearcast.arrays.types import Floats
from nearcast.geo import orient, predicates

Ints: TypeAlias = NDArray[np.int64]
Truths: TypeAlias = NDArray[np.bool_]

# What the predicates call among themselves must be known to numba under its own name.
for _helper in (
    orient.halves,
    orient.add_float,
    orient.add_product,
    orient.exact_orientation,
    orient.orientation,
    predicates.longitude_difference,
    predicates.latitude_cosine,
    predicates.haversine,
    predicates.widened_limit,
    predicates.point_in_circle,
    predicates.plain_box_meets_circle,
    predicates.point_in_polygon,
    predicates.edge_meets_box,
    predicates.plain_box_meets_polygon,
):
    callable_in_kernels(_helper)

orientation = kernel(orient.orientation)
planar_distance = inlined(predicates.planar_distance)
point_in_box = kernel(predicates.point_in_box)
point_in_circle = kernel(predicates.point_in_circle)
point_in_polygon = kernel(predicates.point_in_polygon)
box_meets_box = kernel(predicates.box_meets_box)
box_meets_circle = kernel(predicates.box_meets_circle)
box_meets_polygon = kernel(predicates.box_meets_polygon)


@kernel
def points_in_box(
    lons: Floats, lats: Floats, west: float, south: float, east: float, north: float
) -> Truths:
    """Which points a box contains."""
    answer = np.empty(lons.size, np.bool_)
    for row in range(lons.size):
        answer[row] = point_in_box(lons[row], lats[row], west, south, east, north)
    return answer


@kernel
def points_in_circle(
    lons: Floats, lats: Floats, center_lon: float, center_lat: float, limit: float
) -> Truths:
    """Which points a circle contains."""
    answer = np.empty(lons.size, np.bool_)
    for row in range(lons.size):
        answer[row] = point_in_circle(lons[row], lats[row], center_lon, center_lat, limit)
    return answer


@kernel
def points_in_polygon(
    lons: Floats, lats: Floats, ring_lons: Floats, ring_lats: Floats, starts: Ints
) -> Truths:
    """Which points a polygon contains."""
    answer = np.empty(lons.size, np.bool_)
    last = starts.size - 1
    for row in range(lons.size):
        answer[row] = point_in_polygon(lons[row], lats[row], ring_lons, ring_lats, starts, 0, last)
    return answer


@kernel
def boxes_meet_box(
    wests: Floats,
    souths: Floats,
    easts: Floats,
    norths: Floats,
    west: float,
    south: float,
    east: float,
    north: float,
) -> Truths:
    """Which boxes share a point with one box."""
    answer = np.empty(wests.size, np.bool_)
    for row in range(wests.size):
        answer[row] = box_meets_box(
            wests[row], souths[row], easts[row], norths[row], west, south, east, north
        )
    return answer


@kernel
def boxes_meet_circle(
    wests: Floats,
    souths: Floats,
    easts: Floats,
    norths: Floats,
    center_lon: float,
    center_lat: float,
    limit: float,
) -> Truths:
    """Which boxes share a point with a circle."""
    answer = np.empty(wests.size, np.bool_)
    for row in range(wests.size):
        answer[row] = box_meets_circle(
            wests[row], souths[row], easts[row], norths[row], center_lon, center_lat, limit
        )
    return answer


@kernel
def boxes_meet_polygon(
    wests: Floats,
    souths: Floats,
    easts: Floats,
    norths: Floats,
    ring_lons: Floats,
    ring_lats: Floats,
    starts: Ints,
) -> Truths:
    """Which boxes share a point with a polygon."""
    answer = np.empty(wests.size, np.bool_)
    last = starts.size - 1
    for row in range(wests.size):
        west, south, east, north = wests[row], souths[row], easts[row], norths[row]
        answer[row] = box_meets_polygon(
            west, south, east, north, ring_lons, ring_lats, starts, 0, last
        )
    return answer


@kernel
def point_in_boxes(
    lon: float, lat: float, wests: Floats, souths: Floats, easts: Floats, norths: Floats
) -> Truths:
    """Which boxes contain a point."""
    answer = np.empty(wests.size, np.bool_)
    for row in range(wests.size):
        answer[row] = point_in_box(lon, lat, wests[row], souths[row], easts[row], norths[row])
    return answer


@kernel
def point_in_circles(
    lon: float, lat: float, center_lons: Floats, center_lats: Floats, limits: Floats
) -> Truths:
    """Which circles contain a point."""
    answer = np.empty(limits.size, np.bool_)
    for row in range(limits.size):
        answer[row] = point_in_circle(lon, lat, center_lons[row], center_lats[row], limits[row])
    return answer


@kernel
def point_in_polygons(
    lon: float, lat: float, ring_lons: Floats, ring_lats: Floats, starts: Ints, rings: Ints
) -> Truths:
    """Which polygons contain a point."""
    answer = np.empty(rings.size - 1, np.bool_)
    for row in range(rings.size - 1):
        answer[row] = point_in_polygon(
            lon, lat, ring_lons, ring_lats, starts, rings[row], rings[row + 1]
        )
    return answer


@kernel
def box_meets_boxes(
    west: float,
    south: float,
    east: float,
    north: float,
    wests: Floats,
    souths: Floats,
    easts: Floats,
    norths: Floats,
) -> Truths:
    """Which of many boxes share a point with one box."""
    return boxes_meet_box(wests, souths, easts, norths, west, south, east, north)


@kernel
def box_meets_circles(
    west: float,
    south: float,
    east: float,
    north: float,
    center_lons: Floats,
    center_lats: Floats,
    limits: Floats,
) -> Truths:
    """Which circles share a point with a box."""
    answer = np.empty(limits.size, np.bool_)
    for row in range(limits.size):
        answer[row] = box_meets_circle(
            west, south, east, north, center_lons[row], center_lats[row], limits[row]
        )
    return answer


@kernel
def box_meets_polygons(
    west: float,
    south: float,
    east: float,
    north: float,
    ring_lons: Floats,
    ring_lats: Floats,
    starts: Ints,
    rings: Ints,
) -> Truths:
    """Which polygons share a point with a box."""
    answer = np.empty(rings.size - 1, np.bool_)
    for row in range(rings.size - 1):
        first, last = rings[row], rings[row + 1]
        answer[row] = box_meets_polygon(
            west, south, east, north, ring_lons, ring_lats, starts, first, last
        )
    return answer


@kernel
def planar_distances(lon: float, lat: float, lons: Floats, lats: Floats) -> Floats:
    """Return the planar distance in degrees from one point to each of many."""
    answer = np.empty(lons.size, np.float64)
    for row in range(lons.size):
        answer[row] = planar_distance(lon, lat, lons[row], lats[row])
    return answer
