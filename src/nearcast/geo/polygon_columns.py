"""Many polygons as flat arrays, checked all at once.

Each entry is one region, of one polygon or several: entry i has the polygons `parts[i]` to
`parts[i + 1]`, polygon j the rings `rings[j]` to `rings[j + 1]`, the outer one first, and ring k
the positions `starts[k]` to `starts[k + 1]`, closed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import shapely

from nearcast.arrays.lists import picked, starts_of
from nearcast.arrays.types import Bools, Floats, Int64s
from nearcast.geo.foreign import WGS_84
from nearcast.geo.polygons import MultiPolygon, Polygon

Geometries = npt.NDArray[np.object_]

_POLYGON, _MULTI_POLYGON = 3, 6  # types of shapely


class PolygonColumn(NamedTuple):
    """Regions that are polygons; see the module. All of them are valid."""

    several: Bools  # which entries are MultiPolygons, perhaps of one
    parts: Int64s
    rings: Int64s
    starts: Int64s
    positions: Floats  # (n, 2)

    def __len__(self) -> int:
        return len(self.several)

    def boxes(self) -> Floats:
        """The smallest box around each polygon, as (n, 4)."""
        if not len(self.positions):
            return np.empty((0, 4))
        firsts = self.starts[:-1]
        low = np.minimum.reduceat(self.positions, firsts)[self.rings[:-1]]
        high = np.maximum.reduceat(self.positions, firsts)[self.rings[:-1]]
        return np.hstack([low, high])

    def region(self, entry: int) -> Polygon | MultiPolygon:
        """One of the regions."""
        first, last = self.parts[entry : entry + 2].tolist()
        polygons = [self.polygon(place) for place in range(first, last)]
        return MultiPolygon.of_polygons(polygons) if self.several[entry] else polygons[0]

    def polygon(self, place: int) -> Polygon:
        """One of the polygons."""
        edges = self.starts[self.rings[place] : self.rings[place + 1] + 1].tolist()
        pairs = list(map(tuple, self.positions[edges[0] : edges[-1]].tolist()))
        return polygon_of(pairs, edges)

    def take(self, entries: Int64s) -> PolygonColumn:
        """Some of the regions."""
        if len(entries) == len(self) and (entries == np.arange(len(self))).all():
            return self
        parts, polygons = picked(self.parts, entries)
        rings, some = picked(self.rings, polygons)
        starts, positions = picked(self.starts, some)
        return PolygonColumn(self.several[entries], parts, rings, starts, self.positions[positions])


def polygon_of(pairs: list[Any], edges: list[int]) -> Polygon:
    """Make a valid polygon of its positions, and where its rings begin and the last one ends."""
    first = edges[0]
    cuts = [edge - first for edge in edges]
    return Polygon.of_rings(tuple(tuple(pairs[start:stop]) for start, stop in pairwise(cuts)))


NO_POLYGONS = PolygonColumn(
    np.zeros(0, np.bool_), np.zeros(1, np.int64), np.zeros(1, np.int64), np.zeros(1, np.int64),
    np.empty((0, 2)),
)  # fmt: skip


def joined(columns: Sequence[PolygonColumn]) -> PolygonColumn:
    """Put columns one after the other."""
    some = [column for column in columns if len(column)]
    if len(some) < 2:
        return some[0] if some else NO_POLYGONS
    several, parts, rings, starts, positions = zip(*some, strict=True)
    return PolygonColumn(
        np.concatenate(several), _behind(parts), _behind(rings), _behind(starts),
        np.concatenate(positions),
    )  # fmt: skip


def _behind(starts: Sequence[Int64s]) -> Int64s:
    return starts_of(np.concatenate([np.diff(each) for each in starts]))


def of_geometries(found: Geometries) -> tuple[PolygonColumn, Bools]:
    """Those of some geometries, or of None, that are valid polygons in degrees; and which."""
    kinds = shapely.get_type_id(found)
    good = np.isin(kinds, (_POLYGON, _MULTI_POLYGON)) & np.isin(shapely.get_srid(found), WGS_84)
    entries = np.flatnonzero(good)
    polygons, whose = shapely.get_parts(found[entries], return_index=True)
    sound = shapely.is_valid(polygons) & ~shapely.is_empty(polygons)
    count = np.bincount(whose, minlength=len(entries))
    whole = (np.bincount(whose, ~sound, len(entries)) == 0) & (count > 0)
    rings, owner = shapely.get_rings(polygons, return_index=True)
    positions, ring = shapely.get_coordinates(rings, return_index=True)
    column = PolygonColumn(
        kinds[entries] == _MULTI_POLYGON,
        starts_of(count),
        starts_of(np.bincount(owner, minlength=len(polygons))),
        starts_of(np.bincount(ring, minlength=len(rings))),
        positions,
    )
    whole &= _on_earth(column)
    good[entries[~whole]] = False
    return column.take(np.flatnonzero(whole)), good


def of_lists(several: Bools, entries: list[Any]) -> tuple[PolygonColumn, Bools]:
    """Those of some coordinates that are valid; and which.

    An entry is a list of polygons, each a list of rings, each a list of positions of two floats.
    """
    polygons = list(chain.from_iterable(entries))
    rings = list(chain.from_iterable(polygons))
    flat = list(chain.from_iterable(chain.from_iterable(rings)))
    return checked(
        PolygonColumn(
            several,
            starts_of(map(len, entries)),
            starts_of(map(len, polygons)),
            starts_of(map(len, rings)),
            np.array(flat, np.float64).reshape(-1, 2),
        )
    )


def checked(column: PolygonColumn) -> tuple[PolygonColumn, Bools]:
    """Those entries that are valid beyond doubt; and which."""
    _, parts, rings, starts, positions = column
    sizes = np.diff(starts)
    closed = sizes >= 4
    whole = np.flatnonzero(closed)
    first, last = positions[starts[:-1][whole]], positions[starts[1:][whole] - 1]
    closed[whole] = (first == last).all(axis=1)
    good = (np.diff(parts) > 0) & _all_of(_all_of(closed, rings), parts)
    good &= _all_of(np.diff(rings) > 0, parts) & _on_earth(column)
    some = column.take(np.flatnonzero(good))
    lines = shapely.linearrings(
        some.positions, indices=np.repeat(np.arange(len(some.starts) - 1), np.diff(some.starts))
    )
    owner = np.repeat(np.arange(len(some.rings) - 1), np.diff(some.rings))
    valid = shapely.is_valid(shapely.polygons(lines, indices=owner)) if len(lines) else good[:0]
    kept = _all_of(valid, some.parts)
    good[np.flatnonzero(good)[~kept]] = False
    return some.take(np.flatnonzero(kept)), good


def _on_earth(column: PolygonColumn) -> Bools:
    """Which entries have all their positions on earth."""
    lons, lats = column.positions[:, 0], column.positions[:, 1]
    inside = (lons >= -180.0) & (lons <= 180.0) & (lats >= -90.0) & (lats <= 90.0)
    return _all_of(_all_of(_all_of(inside, column.starts), column.rings), column.parts)


def _all_of(true: Bools, starts: Int64s) -> Bools:
    """Whether all of each list are true."""
    wrong = np.concatenate([[0], np.cumsum(~true)])
    found: Bools = wrong[starts[1:]] == wrong[starts[:-1]]
    return found
