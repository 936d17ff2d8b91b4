"""Boxes, circles and polygons on the map; the only place that knows the order of the axes."""

from nearcast.geo.checks import point
from nearcast.geo.codec import point_from_json, region_from_json, region_to_json
from nearcast.geo.foreign import as_point, as_region
from nearcast.geo.polygons import Area, MultiPolygon, Polygon, Region
from nearcast.geo.predicates import EARTH_RADIUS_M, planar_distance
from nearcast.geo.shapes import WORLD, Bounds, Box, Circle

__all__ = [
    "EARTH_RADIUS_M",
    "WORLD",
    "Area",
    "Bounds",
    "Box",
    "Circle",
    "MultiPolygon",
    "Polygon",
    "Region",
    "as_point",
    "as_region",
    "planar_distance",
    "point",
    "point_from_json",
    "region_from_json",
    "region_to_json",
]
