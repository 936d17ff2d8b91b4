"""Boxes, circles and polygons on the map; the only place that knows the order of the axes."""

from nearcast.geo.checks import point
from nearcast.geo.codec import point_from_json, region_from_json, region_to_json
from nearcast.geo.predicates import EARTH_RADIUS_M, planar_distance
from nearcast.geo.shapes import WORLD, Bounds, Box, Circle, Polygon, Region

__all__ = [
    "EARTH_RADIUS_M",
    "WORLD",
    "Bounds",
    "Box",
    "Circle",
    "Polygon",
    "Region",
    "planar_distance",
    "point",
    "point_from_json",
    "region_from_json",
    "region_to_json",
]
