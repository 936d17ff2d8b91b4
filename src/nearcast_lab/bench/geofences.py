"""Geofences in other ways: an R-tree of shapely, and looking at all of them."""

from __future__ import annotations

from typing import TypedDict

import msgspec
import numpy as np
import shapely

from nearcast.arrays.types import Floats, Int64s
from nearcast.geo.circles import circle_columns
from nearcast_lab.bench.agreement import DisagreementError
from nearcast_lab.timing import cpu_of
from nearcast_lab.workloads.interests import Interests

_LOOKED_AT_ALL = 20  # messages


class PeerReport(TypedDict):
    """What another way to match circles costs; times are CPU."""

    system: str
    us_per_message: float
    matches_per_message: float


def measure_peers(interests: Interests, points: Floats) -> list[PeerReport]:
    """Match points with an STRtree of boxes and exact distances, and with all circles."""
    given = [msgspec.json.decode(region) for region in interests.regions]
    centers = np.array([each["center"] for each in given])
    radii = np.array([each["radius"] for each in given])
    boxes, limits, _ = circle_columns(centers, radii)
    tree = shapely.STRtree(shapely.box(*boxes.T))

    def by_tree() -> Int64s:
        found, which = tree.query(shapely.points(points))
        matched: Int64s = found[_inside(points[found], centers[which], limits[which])]
        return matched

    def by_all() -> list[Int64s]:
        return [_inside(np.broadcast_to(one, centers.shape), centers, limits) for one in few]

    few = points[:_LOOKED_AT_ALL]
    matched, taken = cpu_of(by_tree)
    everyone, all_taken = cpu_of(by_all)
    counts = np.bincount(matched, minlength=len(points))
    if [int(each.sum()) for each in everyone] != counts[: len(few)].tolist():
        raise DisagreementError("an STRtree and looking at all geofences find different ones")
    return [
        PeerReport(
            system="shapely STRtree, then distances",
            us_per_message=taken / len(points) * 1e6,
            matches_per_message=float(counts.mean()),
        ),
        PeerReport(
            system="distances to all",
            us_per_message=all_taken / len(few) * 1e6,
            matches_per_message=float(counts[: len(few)].mean()),
        ),
    ]


def _inside(points: Floats, centers: Floats, limits: Floats) -> Int64s:
    """Which of some points are in the circle beside each; by rows."""
    half = np.pi / 360.0
    up = np.sin((points[:, 1] - centers[:, 1]) * half)
    across = np.sin((points[:, 0] - centers[:, 0]) * half)
    cosines = np.cos(points[:, 1] * 2 * half) * np.cos(centers[:, 1] * 2 * half)
    inside: Int64s = up * up + cosines * across * across <= limits
    return inside
