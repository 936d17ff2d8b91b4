"""Polygons, alone and several as one region.

Planar in degrees, longitude first. They are checked when they are made, never change, and can be
compared, hashed and pickled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any, TypeAlias

from nearcast.errors import InvalidValue
from nearcast.geo import checks, predicates
from nearcast.geo.nearness import border_meets_circle
from nearcast.geo.shapes import Bounds, Box, Circle

Ring: TypeAlias = tuple[tuple[float, float], ...]
"""Positions (longitude, latitude), the last equal to the first."""

_RINGS = "a list of rings, the outer one first"
_RING = "a ring of at least 4 positions, the last equal to the first"
_PARTS = "a list of polygons, each a list of rings"


@dataclass(frozen=True, slots=True)
class Polygon:
    """The area inside an outer ring and outside its holes, planar in degrees.

    `coordinates` are those of GeoJSON: rings of [longitude, latitude], each closed, the outer one
    first. Rings must not cross themselves or each other, and the antimeridian is not crossed.
    The borders of the holes belong to the polygon. Answers about points and boxes are exact (see
    `orient`), also in the rare places where shapely, which computes with pairs of floats, takes a
    point for one on the border that is 1e-32 degrees away. Two polygons meet as shapely has it.
    `lons`, `lats` and `starts` are the rings as columns, as `predicates` reads them.

        >>> Polygon([[(0, 0), (4, 0), (0, 4), (0, 0)]]).contains(2.0, 2.0)
        True
    """

    coordinates: Sequence[Sequence[tuple[float, float]]]
    lons: tuple[float, ...] = field(init=False, repr=False, compare=False)
    lats: tuple[float, ...] = field(init=False, repr=False, compare=False)
    starts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    box: Bounds = field(init=False, repr=False, compare=False)
    _outline: Any = field(init=False, repr=False, compare=False)  # for shapely; made when needed

    def __post_init__(self) -> None:
        given = self.coordinates
        rings = _rings(given)
        trouble = _trouble(rings)
        if trouble is not None:
            raise InvalidValue("coordinates", given, f"a valid polygon; this one has: {trouble}")
        self._fill(rings)

    @classmethod
    def of_rings(cls, rings: tuple[Ring, ...]) -> Polygon:
        """Make a polygon of rings that are known to be valid."""
        polygon = object.__new__(cls)
        polygon._fill(rings)
        return polygon

    def _fill(self, rings: tuple[Ring, ...]) -> None:
        outer_lons, outer_lats = zip(*rings[0], strict=True)
        put = object.__setattr__  # the way to normalise a field of a frozen dataclass
        put(self, "coordinates", rings)
        put(self, "lons", tuple(lon for ring in rings for lon, _ in ring))
        put(self, "lats", tuple(lat for ring in rings for _, lat in ring))
        put(self, "starts", tuple(accumulate(map(len, rings), initial=0)))
        put(self, "box", (min(outer_lons), min(outer_lats), max(outer_lons), max(outer_lats)))
        put(self, "_outline", None)

    def contains(self, lon: float, lat: float) -> bool:
        """Whether a valid point lies in the polygon."""
        return predicates.point_in_box(lon, lat, *self.box) and predicates.point_in_polygon(
            lon, lat, self.lons, self.lats, self.starts, 0, len(self.starts) - 1
        )

    def meets(self, area: Area) -> bool:
        """Whether a box, a polygon or several polygons share at least one point with this one.

        What it shares a point with has bounds that it shares a point with.
        """
        if isinstance(area, Box):
            return self._meets_box(area.west, area.south, area.east, area.north)
        if isinstance(area, MultiPolygon):
            return area.meets(self)
        # These are exact. What shapely alone takes for a meeting is not one by the bounds either.
        if not (self._meets_box(*area.box) and area._meets_box(*self.box)):
            return False
        import shapely  # both polygons have imported it already

        outline = area._shapely()
        shapely.prepare(outline)  # most often it is a message, asked about by many
        return bool(shapely.intersects(outline, self._shapely()))

    def meets_circle(self, circle: Circle) -> bool:
        """Whether a circle shares at least one point with the polygon, to within 1 mm.

        True only if some point is in both by their `contains`, or is a pole or a place on the
        antimeridian by another name.
        """
        if not circle.meets(Box(*self.box)):
            return False
        lon, lat = circle.center
        if self.contains(lon, lat) or self._has_by_another_name(lon, lat):
            return True
        last = len(self.starts) - 1
        return border_meets_circle(
            self.lons, self.lats, self.starts, 0, last, lon, lat, circle.limit
        )

    def bounds(self) -> tuple[Bounds, ...]:
        """Return the smallest plain box around the polygon."""
        return (self.box,)

    @property
    def __geo_interface__(self) -> dict[str, Any]:
        """The polygon as GeoJSON, for shapely and others."""
        return {"type": "Polygon", "coordinates": self.coordinates}

    def _meets_box(self, west: float, south: float, east: float, north: float) -> bool:
        if not predicates.box_meets_box(west, south, east, north, *self.box):
            return False
        last = len(self.starts) - 1
        return predicates.box_meets_polygon(
            west, south, east, north, self.lons, self.lats, self.starts, 0, last
        )

    def _has_by_another_name(self, lon: float, lat: float) -> bool:
        """Whether a pole, or a place on the antimeridian, is in the polygon at other longitudes."""
        if abs(lat) == 90.0:
            return lat in (self.box[1], self.box[3])
        return abs(lon) == 180.0 and self.contains(-lon, lat)

    def _shapely(self) -> Any:
        """The polygon as shapely has it."""
        if self._outline is None:
            import shapely

            outline = shapely.Polygon(self.coordinates[0], self.coordinates[1:])
            object.__setattr__(self, "_outline", outline)
        return self._outline


@dataclass(frozen=True, slots=True)
class MultiPolygon:
    """All points of one or more polygons, which may touch and overlap.

    `coordinates` are those of GeoJSON: a list of polygons, each a list of rings as of `Polygon`.
    `polygons` are the same as objects, and `box` is around all of them.

        >>> triangle, other = [(0, 0), (4, 0), (0, 4), (0, 0)], [(9, 9), (8, 9), (9, 8), (9, 9)]
        >>> MultiPolygon([[triangle], [other]]).contains(8.7, 8.7)
        True
    """

    coordinates: Sequence[Sequence[Sequence[tuple[float, float]]]]
    polygons: tuple[Polygon, ...] = field(init=False, repr=False, compare=False)
    box: Bounds = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = checks.sequence(self.coordinates)
        if not given:
            raise InvalidValue("coordinates", self.coordinates, _PARTS)
        self._fill(tuple(_part(number, each) for number, each in enumerate(given)))

    @classmethod
    def of_polygons(cls, polygons: Sequence[Polygon]) -> MultiPolygon:
        """Make a region of polygons, at least one."""
        if not polygons:
            raise InvalidValue("polygons", polygons, "at least one Polygon")
        region = object.__new__(cls)
        region._fill(tuple(polygons))
        return region

    def _fill(self, polygons: tuple[Polygon, ...]) -> None:
        wests, souths, easts, norths = zip(*(each.box for each in polygons), strict=True)
        put = object.__setattr__  # the way to normalise a field of a frozen dataclass
        put(self, "coordinates", tuple(each.coordinates for each in polygons))
        put(self, "polygons", polygons)
        put(self, "box", (min(wests), min(souths), max(easts), max(norths)))

    def contains(self, lon: float, lat: float) -> bool:
        """Whether a valid point lies in one of the polygons."""
        return predicates.point_in_box(lon, lat, *self.box) and any(
            each.contains(lon, lat) for each in self.polygons
        )

    def meets(self, area: Area) -> bool:
        """Whether a box, a polygon or several polygons share at least one point with these."""
        if isinstance(area, MultiPolygon):
            return any(self.meets(each) for each in area.polygons)
        return any(predicates.box_meets_box(*side, *self.box) for side in area.bounds()) and any(
            each.meets(area) for each in self.polygons
        )

    def meets_circle(self, circle: Circle) -> bool:
        """Whether a circle shares at least one point with the polygons, to within 1 mm."""
        return circle.meets(Box(*self.box)) and any(
            each.meets_circle(circle) for each in self.polygons
        )

    def bounds(self) -> tuple[Bounds, ...]:
        """Return the smallest plain box around each of the polygons."""
        return tuple(each.box for each in self.polygons)

    @property
    def __geo_interface__(self) -> dict[str, Any]:
        """The polygons as GeoJSON, for shapely and others."""
        return {"type": "MultiPolygon", "coordinates": self.coordinates}


Area: TypeAlias = Box | Polygon | MultiPolygon
"""What a range message covers."""

Region: TypeAlias = Box | Circle | Polygon | MultiPolygon
"""Any of the four."""


def _part(number: int, given: object) -> Polygon:
    """Make one of several polygons; an error names its place among them."""
    try:
        return Polygon(given)  # type: ignore[arg-type]  # the constructor checks its value
    except InvalidValue as error:
        inner = error.field.removeprefix("coordinates")
        raise InvalidValue(f"coordinates[{number}]{inner}", error.given, error.expected) from None


def _rings(given: object) -> tuple[Ring, ...]:
    """Return the rings as tuples of floats, each of them closed."""
    values = checks.sequence(given)
    if not values:
        raise InvalidValue("coordinates", given, _RINGS)
    rings = []
    for number, value in enumerate(values):
        name = f"coordinates[{number}]"
        positions = checks.sequence(value)
        if positions is None or len(positions) < 4:
            raise InvalidValue(name, value, _RING)
        ring = tuple(checks.point(each, f"{name}[{at}]") for at, each in enumerate(positions))
        if ring[0] != ring[-1]:
            raise InvalidValue(
                f"{name}[{len(ring) - 1}]",
                positions[-1],
                f"the first position of the ring again, which is {list(ring[0])!r}",
            )
        rings.append(ring)
    return tuple(rings)


def _trouble(rings: tuple[Ring, ...]) -> str | None:
    """Say why the rings make no valid polygon, None if they do."""
    try:
        import shapely  # here, because it is slow to import and boxes and circles do without it
    except ModuleNotFoundError:  # in `nearcast-client`, where the server is the one to decide
        return None
    outline = shapely.Polygon(rings[0], rings[1:])
    return None if outline.is_valid else shapely.is_valid_reason(outline)
