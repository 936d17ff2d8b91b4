"""Regions and points as other libraries and formats have them.

Taken are the classes of this package, the JSON of the event log, GeoJSON (a Feature too), anything
with `__geo_interface__` such as shapely's geometries, WKT and WKB, also as PostGIS writes them.
Heights are left out. Nothing is projected: coordinates are degrees, longitude first.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from nearcast.errors import InvalidValue
from nearcast.geo import checks
from nearcast.geo.codec import ANY_REGION, SHAPES, region_from_json
from nearcast.geo.polygons import Region

WGS_84 = (0, 4326)  # how a geometry says that its coordinates are degrees, or nothing

_LEVELS = 4  # of lists: polygons, rings, positions, numbers
HEX = re.compile(r"0[01]([0-9A-Fa-f]{2})+")
_SRID = re.compile(r"SRID=(\d+);", re.IGNORECASE)


class Wanted(NamedTuple):
    """What is asked for: the name of the field, and what is right for it."""

    field: str
    types: str
    hint: str

    @property
    def expected(self) -> str:
        """What would be right, for errors."""
        return (
            f"{self.types}, of this package, as GeoJSON, as WKT or WKB, or with __geo_interface__"
        )

    def wrong(self, value: object, expected: str | None = None) -> InvalidValue:
        """Make the error about a value."""
        return InvalidValue(self.field, value, expected or self.expected)

    def wrong_type(self, kind: object) -> InvalidValue:
        """Make the error about a geometry of another type."""
        return InvalidValue(self.field, kind, f"{self.types}{self.hint}")


REGION = Wanted(
    "region",
    ANY_REGION,
    "; what is near a point is Circle((lon, lat), radius=metres)",
)
POINT = Wanted("point", "a Point", "; of a shape, take a point such as its centroid")


def as_region(value: object) -> Region:
    """Make a region of whatever has one: see the module.

    >>> as_region("POLYGON ((0 0, 4 0, 0 4, 0 0))").contains(1.0, 1.0)
    True
    """
    if isinstance(value, Region):
        return value
    found = geometry_of(value, REGION)
    kind, coordinates = found.get("type"), found.get("coordinates")
    if kind not in (*SHAPES, None):
        raise REGION.wrong_type(kind)
    try:
        if coordinates is not None:
            found = {**found, "coordinates": _flat(coordinates)}
        return region_from_json(found)
    except InvalidValue as error:
        raise error.inside("region") from None


def as_point(value: object) -> tuple[float, float]:
    """Make a point, longitude and latitude, of whatever has one: see the module.

    >>> as_point({"type": "Point", "coordinates": [151.2, -33.87]})
    (151.2, -33.87)
    """
    if checks.sequence(value) is not None:
        return checks.point(value)
    found = geometry_of(value, POINT)
    if found.get("type") != "Point":
        raise POINT.wrong_type(found.get("type"))
    return checks.point(_flat(found.get("coordinates")))


def geometry_of(value: object, wanted: Wanted) -> Mapping[str, Any]:
    """The geometry of a value, as GeoJSON or as the JSON of a region."""
    if isinstance(value, str):
        value = _of_text(value, wanted)
    elif isinstance(value, bytes | bytearray | memoryview):
        value = _of_wkb(bytes(value), wanted)
    elif type(value).__module__.startswith("shapely."):
        import shapely  # which is imported already, as there is something of it

        if isinstance(value, shapely.Geometry):
            value = _of_shapely(value, int(shapely.get_srid(value)), wanted)
    elif not isinstance(value, Mapping):
        value = getattr(value, "__geo_interface__", value)
    if isinstance(value, list) and wanted is POINT:  # the JSON of a point
        return {"type": "Point", "coordinates": value}
    if not isinstance(value, Mapping):
        raise wanted.wrong(value)
    if value.get("type") == "Feature":
        inner = value.get("geometry")
        if not isinstance(inner, Mapping):
            raise wanted.wrong(inner, "a geometry in the Feature")
        return inner
    if value.get("type") == "FeatureCollection":
        features = value.get("features")
        count = len(features) if isinstance(features, list | tuple) else "?"
        raise wanted.wrong(f"FeatureCollection of {count}", "one Feature: take them one by one")
    return value


def _of_text(text: str, wanted: Wanted) -> object:
    """What a text stands for: JSON, WKB in hexadecimal, or WKT."""
    stripped = text.strip()
    if stripped.startswith(("{", "[")):
        try:
            return msgspec.json.decode(stripped)
        except (msgspec.DecodeError, RecursionError) as error:
            raise wanted.wrong(text, f"JSON that can be read ({error})") from None
    if HEX.fullmatch(stripped):
        return _of_wkb(bytes.fromhex(stripped), wanted)
    import numpy as np
    import shapely  # here, because both are slow to import

    srid = _SRID.match(stripped)
    try:
        with np.errstate(all="ignore"):  # of numbers that are no floats
            found = shapely.from_wkt(stripped[srid.end() :] if srid else stripped)
    except shapely.errors.ShapelyError as error:
        raise wanted.wrong(text, f"JSON, WKT or WKB that can be read ({error})") from None
    return _of_shapely(found, int(srid[1]) if srid else 0, wanted)


def _of_wkb(data: bytes, wanted: Wanted) -> object:
    import shapely  # here, because it is slow to import

    try:
        found = shapely.from_wkb(data)
    except shapely.errors.ShapelyError as error:
        raise wanted.wrong(data, f"WKB that can be read ({error})") from None
    return _of_shapely(found, shapely.get_srid(found), wanted)


def _of_shapely(found: Any, srid: int, wanted: Wanted) -> object:
    """The geometry of one that shapely has read, whose coordinates must be degrees."""
    if srid not in WGS_84:
        raise wanted.wrong(f"SRID {srid}", "SRID 4326, degrees on WGS 84: project it first")
    if found.is_empty:
        raise wanted.wrong(f"{found.geom_type} EMPTY", f"{wanted.types} with coordinates")
    return found.__geo_interface__


def _flat(coordinates: object, levels: int = _LEVELS) -> object:
    """Coordinates without heights; what is nested more deeply than coordinates stays as it is."""
    values = checks.sequence(coordinates)
    if not values or not levels:
        return coordinates
    if checks.sequence(values[0]) is None:
        return values[:2] if len(values) in (3, 4) else values
    return [_flat(each, levels - 1) for each in values]
