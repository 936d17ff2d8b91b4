"""The three regions: boxes, circles and polygons.

Coordinates are degrees, longitude first. Borders belong to the region. A region is checked when it
is made, never changes, and can be compared, hashed and pickled.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from nearcast.errors import InvalidValue
from nearcast.geo import checks, predicates

Bounds: TypeAlias = tuple[float, float, float, float]
"""A plain bounding box: west, south, east, north, with west <= east."""

Ring: TypeAlias = tuple[tuple[float, float], ...]
"""Positions (longitude, latitude), the last equal to the first."""

_RADIUS = "a radius in metres, finite and not negative"
_RINGS = "a list of rings, the outer one first"
_RING = "a ring of at least 4 positions, the last equal to the first"

# Rounding in the bounds of a circle stays below these: an angle in radians (and relative), the
# sine of one (relative), and a longitude or latitude in degrees.
ANGLE_SLACK = 2e-14
SINE_SLACK = 4e-15
DEGREES_SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class Box:
    """All points between two meridians and two parallels; west > east crosses the antimeridian.

    A box may be as thin as a line or a point. Longitudes are plain numbers here: 180 and -180
    are two different ones.

        >>> Box(170, -20, -170, -10).contains(-175.0, -15.0)
        True
    """

    west: float
    south: float
    east: float
    north: float

    def __post_init__(self) -> None:
        west, south, east, north = self.west, self.south, self.east, self.north
        if (
            type(west) is type(south) is type(east) is type(north) is float
            and -180.0 <= west <= 180.0
            and -180.0 <= east <= 180.0
            and -90.0 <= south <= north <= 90.0
        ):
            return  # the short way: millions of boxes are made
        put = object.__setattr__  # the way to normalise a field of a frozen dataclass
        put(self, "west", checks.longitude(self.west, "bbox[0]"))
        put(self, "south", checks.latitude(self.south, "bbox[1]"))
        put(self, "east", checks.longitude(self.east, "bbox[2]"))
        put(self, "north", checks.latitude(self.north, "bbox[3]"))
        if self.south > self.north:
            raise InvalidValue(
                "bbox[1]", self.south, f"a south not above the north, which is {self.north!r}"
            )

    def contains(self, lon: float, lat: float) -> bool:
        """Whether a valid point lies in the box."""
        return predicates.point_in_box(lon, lat, self.west, self.south, self.east, self.north)

    def meets(self, box: Box) -> bool:
        """Whether another box shares at least one point with this one."""
        return predicates.box_meets_box(
            box.west, box.south, box.east, box.north, self.west, self.south, self.east, self.north
        )

    def bounds(self) -> tuple[Bounds, ...]:
        """Return the box as plain boxes: itself, or its two sides of the antimeridian."""
        if self.west <= self.east:
            return ((self.west, self.south, self.east, self.north),)
        return (
            (self.west, self.south, 180.0, self.north),
            (-180.0, self.south, self.east, self.north),
        )


WORLD = Box(-180.0, -90.0, 180.0, 90.0)
"""The box of all points."""


@dataclass(frozen=True, slots=True)
class Circle:
    """All points within `radius` metres of `center`, on a sphere of radius 6371008.8 m.

    The border counts as 1e-9 m plus 1e-12 of the radius wide, so that a point on it belongs
    whichever way its distance was rounded. 180 and -180 are the same meridian, and every longitude
    at a pole is the same point. Once the radius reaches half the circumference the circle is the
    whole sphere. `limit` is the radius as `predicates.circle_limit` gives it.

        >>> Circle((151.2, -33.87), radius=2000).contains(151.21, -33.87)
        True
    """

    center: tuple[float, float]
    radius: float
    limit: float = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        put = object.__setattr__  # the way to normalise a field of a frozen dataclass
        put(self, "center", checks.point(self.center, "center"))
        radius = checks.finite(self.radius)
        if radius is None or radius < 0.0:
            raise InvalidValue("radius", self.radius, _RADIUS)
        put(self, "radius", radius)
        put(self, "limit", predicates.circle_limit(radius))

    def contains(self, lon: float, lat: float) -> bool:
        """Whether a valid point lies in the circle."""
        center_lon, center_lat = self.center
        return predicates.point_in_circle(lon, lat, center_lon, center_lat, self.limit)

    def meets(self, box: Box) -> bool:
        """Whether a box shares at least one point with the circle."""
        center_lon, center_lat = self.center
        return predicates.box_meets_circle(
            box.west, box.south, box.east, box.north, center_lon, center_lat, self.limit
        )

    def bounds(self) -> tuple[Bounds, ...]:
        """Return one or two plain boxes that contain every point of the circle.

        They are the smallest such boxes, rounded outward; a circle that holds a pole has all
        longitudes, and one that touches the antimeridian has a box on both sides of it.
        """
        if self.limit == predicates.EVERYWHERE:
            return (WORLD.bounds()[0],)
        lon, lat = self.center
        # The limit, not the radius: it holds the tolerance at the border.
        if self.limit >= 0.0:
            angle = 2.0 * math.asin(math.sqrt(self.limit))
        else:
            angle = 2.0 * math.acos(math.sqrt(-self.limit))
        angle = angle * (1.0 + ANGLE_SLACK) + ANGLE_SLACK
        reach = math.degrees(angle) + DEGREES_SLACK
        south = max(lat - reach, -90.0)
        north = min(lat + reach, 90.0)
        if south == -90.0 or north == 90.0:
            return ((-180.0, south, 180.0, north),)
        sine = math.sin(angle) / predicates.latitude_cosine(lat) * (1.0 + SINE_SLACK)
        reach = math.degrees(math.asin(min(sine, 1.0))) + DEGREES_SLACK
        west = lon - reach
        east = lon + reach
        if west <= -180.0:
            return (-180.0, south, east, north), (min(west + 360.0, 180.0), south, 180.0, north)
        if east >= 180.0:
            return (west, south, 180.0, north), (-180.0, south, max(east - 360.0, -180.0), north)
        return ((west, south, east, north),)


@dataclass(frozen=True, slots=True)
class Polygon:
    """The area inside an outer ring and outside its holes, planar in degrees.

    `coordinates` are those of GeoJSON: rings of [longitude, latitude], each closed, the outer one
    first. Rings must not cross themselves or each other, and the antimeridian is not crossed.
    The borders of the holes belong to the polygon. Answers are exact (see `orient`), also in the
    rare places where shapely, which computes with pairs of floats, takes a point for one on the
    border that is 1e-32 degrees away.
    `lons`, `lats` and `starts` are the rings as columns, as `predicates` reads them.

        >>> Polygon([[(0, 0), (4, 0), (0, 4), (0, 0)]]).contains(2.0, 2.0)
        True
    """

    coordinates: Sequence[Sequence[tuple[float, float]]]
    lons: tuple[float, ...] = field(init=False, repr=False, compare=False)
    lats: tuple[float, ...] = field(init=False, repr=False, compare=False)
    starts: tuple[int, ...] = field(init=False, repr=False, compare=False)
    box: Bounds = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        given = self.coordinates
        rings = _rings(given)
        trouble = _trouble(rings)
        if trouble is not None:
            raise InvalidValue("coordinates", given, f"a valid polygon; this one has: {trouble}")
        starts = [0]
        for ring in rings:
            starts.append(starts[-1] + len(ring))
        outer_lons, outer_lats = zip(*rings[0], strict=True)
        put = object.__setattr__  # the way to normalise a field of a frozen dataclass
        put(self, "coordinates", rings)
        put(self, "lons", tuple(lon for ring in rings for lon, _ in ring))
        put(self, "lats", tuple(lat for ring in rings for _, lat in ring))
        put(self, "starts", tuple(starts))
        put(self, "box", (min(outer_lons), min(outer_lats), max(outer_lons), max(outer_lats)))

    def contains(self, lon: float, lat: float) -> bool:
        """Whether a valid point lies in the polygon."""
        return predicates.point_in_box(lon, lat, *self.box) and predicates.point_in_polygon(
            lon, lat, self.lons, self.lats, self.starts, 0, len(self.starts) - 1
        )

    def meets(self, box: Box) -> bool:
        """Whether a box shares at least one point with the polygon."""
        west, south, east, north = box.west, box.south, box.east, box.north
        if not predicates.box_meets_box(west, south, east, north, *self.box):
            return False
        last = len(self.starts) - 1
        return predicates.box_meets_polygon(
            west, south, east, north, self.lons, self.lats, self.starts, 0, last
        )

    def bounds(self) -> tuple[Bounds, ...]:
        """Return the smallest plain box around the polygon."""
        return (self.box,)


Region: TypeAlias = Box | Circle | Polygon
"""Any of the three."""


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
    import shapely  # here, because it is slow to import and boxes and circles do without it

    outline = shapely.Polygon(rings[0], rings[1:])
    return None if outline.is_valid else shapely.is_valid_reason(outline)
