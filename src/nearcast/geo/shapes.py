"""Boxes and circles.

Coordinates are degrees, longitude first. Borders belong to the region. A region is checked when it
is made, never changes, and can be compared, hashed and pickled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from nearcast.errors import InvalidValue
from nearcast.geo import checks, predicates

if TYPE_CHECKING:
    from nearcast.geo.polygons import Area

Bounds: TypeAlias = tuple[float, float, float, float]
"""A plain bounding box: west, south, east, north, with west <= east."""

_RADIUS = "a radius in metres, finite and not negative"

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

    def meets(self, area: Area) -> bool:
        """Whether a box, a polygon or several polygons share at least one point with the box."""
        if not isinstance(area, Box):
            return area.meets(self)
        return predicates.box_meets_box(
            area.west, area.south, area.east, area.north,
            self.west, self.south, self.east, self.north,
        )  # fmt: skip

    def bounds(self) -> tuple[Bounds, ...]:
        """Return the box as plain boxes: itself, or its two sides of the antimeridian."""
        if self.west <= self.east:
            return ((self.west, self.south, self.east, self.north),)
        return (
            (self.west, self.south, 180.0, self.north),
            (-180.0, self.south, self.east, self.north),
        )

    @property
    def __geo_interface__(self) -> dict[str, Any]:
        """The box as GeoJSON: a Polygon, or a MultiPolygon across the antimeridian.

        Without a width or a height it is a line or a point, and is written as one. A side that is
        nothing but the antimeridian is left out beside one that is more.
        """
        wide = [each for each in self.bounds() if each[0] < each[2]]
        if not wide or self.south == self.north:
            return _thin(self.bounds())
        sides = tuple((_around(each),) for each in wide)
        if len(sides) == 1:
            return {"type": "Polygon", "coordinates": sides[0]}
        return {"type": "MultiPolygon", "coordinates": sides}


def _around(box: Bounds) -> tuple[tuple[float, float], ...]:
    """The ring around a plain box, counter-clockwise."""
    west, south, east, north = box
    return (west, south), (east, south), (east, north), (west, north), (west, south)


def _thin(sides: tuple[Bounds, ...]) -> dict[str, Any]:
    """GeoJSON of boxes that are lines or points."""
    lines = tuple(((west, south), (east, north)) for west, south, east, north in sides)
    if len(lines) > 1:
        return {"type": "MultiLineString", "coordinates": lines}
    if lines[0][0] == lines[0][1]:
        return {"type": "Point", "coordinates": lines[0][0]}
    return {"type": "LineString", "coordinates": lines[0]}


WORLD = Box(-180.0, -90.0, 180.0, 90.0)
"""The box of all points."""


@dataclass(frozen=True, slots=True)
class Circle:
    """All points within `radius` metres of `center`, on a sphere of radius 6371008.8 m.

    The border counts as 1e-9 m plus 1e-12 of the radius wide, so that a point on it belongs
    whichever way its distance was rounded. 180 and -180 are the same meridian, and every longitude
    at a pole is the same point. Once the radius reaches half the circumference the circle is the
    whole sphere. `limit` is the radius as `predicates.circle_limit` gives it.

    A circle has no `__geo_interface__`: GeoJSON knows no circles, and a polygon in its place would
    contain other points.

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

    def meets(self, area: Area) -> bool:
        """Whether a box, a polygon or several polygons share at least one point with the circle."""
        if not isinstance(area, Box):
            return area.meets_circle(self)
        center_lon, center_lat = self.center
        return predicates.box_meets_circle(
            area.west, area.south, area.east, area.north, center_lon, center_lat, self.limit
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
