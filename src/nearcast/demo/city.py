"""The city of the demo: the suburbs of Sydney, and points in them."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.resources import files
from itertools import accumulate
from random import Random

import shapely

Point = tuple[float, float]

CENTRE: Point = (151.185, -33.872)
ZOOM = 11.4
SPACE = (149.5, -35.0, 152.5, -32.8)
"""How far top-k subscriptions look: west, south, east, north."""

SUBURBS: dict[str, Point] = {
    "the city centre": (151.207, -33.868),
    "Bondi Beach": (151.279, -33.891),
    "Bondi Junction": (151.247, -33.893),
    "Coogee": (151.255, -33.920),
    "Maroubra": (151.233, -33.950),
    "Randwick": (151.249, -33.914),
    "Paddington": (151.232, -33.884),
    "Surry Hills": (151.213, -33.884),
    "Redfern": (151.204, -33.893),
    "Newtown": (151.178, -33.898),
    "Glebe": (151.184, -33.879),
    "Balmain": (151.183, -33.855),
    "Leichhardt": (151.156, -33.883),
    "Marrickville": (151.155, -33.907),
    "Ashfield": (151.123, -33.888),
    "Burwood": (151.100, -33.883),
    "Strathfield": (151.080, -33.881),
    "Campsie": (151.103, -33.913),
    "Bankstown": (151.033, -33.917),
    "Lakemba": (151.076, -33.920),
    "Hurstville": (151.101, -33.968),
    "Kogarah": (151.136, -33.968),
    "Rockdale": (151.133, -33.950),
    "Mascot": (151.194, -33.926),
    "Kingsford": (151.227, -33.924),
    "Pyrmont": (151.194, -33.870),
    "Potts Point": (151.226, -33.867),
    "North Sydney": (151.207, -33.839),
    "Neutral Bay": (151.218, -33.838),
    "Mosman": (151.240, -33.839),
    "Manly": (151.288, -33.798),
    "Dee Why": (151.289, -33.751),
    "Chatswood": (151.183, -33.800),
    "Lane Cove": (151.167, -33.816),
    "Ryde": (151.106, -33.819),
    "Epping": (151.082, -33.773),
    "Parramatta": (151.004, -33.818),
    "Auburn": (151.033, -33.850),
    "Rhodes": (151.088, -33.827),
    "Drummoyne": (151.155, -33.852),
    "Alexandria": (151.200, -33.900),
    "Eastwood": (151.081, -33.792),
    "Hornsby": (151.099, -33.702),
    "Macquarie Park": (151.128, -33.781),
    "Lidcombe": (151.040, -33.864),
}
"""Where things happen, after GeoNames; the nearer to the centre, the more of them."""

_SPREAD = 0.011  # degrees around the middle of a suburb
_TRIES = 20


def shore() -> Callable[[Point], bool]:
    """Return a function that says whether a point is on land, by the shoreline of the map."""
    data = json.loads(
        files("nearcast.server").joinpath("web", "basemap", "sydney.json").read_text("utf-8")
    )
    polygons = []
    for rings in data["polygons"]:
        shell, *holes = (_unfold(ring, data["scale"]) for ring in rings)
        polygons.append(shapely.Polygon(shell, holes))
    land = shapely.union_all(polygons)
    shapely.prepare(land)
    return lambda point: bool(shapely.contains_xy(land, *point))


def _unfold(steps: list[int], scale: int) -> list[Point]:
    """Whole numbers, each pair relative to the one before, as points."""
    lons, lats = accumulate(steps[0::2]), accumulate(steps[1::2])
    return [(lon / scale, lat / scale) for lon, lat in zip(lons, lats, strict=True)]


class City:
    """Draws suburbs and points in them; the same seed draws the same."""

    def __init__(self, random: Random, on_land: Callable[[Point], bool]) -> None:
        self.random = random
        self.on_land = on_land
        self._names = list(SUBURBS)
        lon, lat = CENTRE
        self._weights = [1.0 / (0.1 + abs(x - lon) + abs(y - lat)) for x, y in SUBURBS.values()]

    def suburb(self) -> str:
        """One of the suburbs."""
        return self.random.choices(self._names, self._weights)[0]

    def point(self, suburb: str) -> Point:
        """A point in a suburb, on dry land."""
        lon, lat = SUBURBS[suburb]
        for _ in range(_TRIES):
            point = (
                round(lon + self.random.gauss(0, _SPREAD), 5),
                round(lat + self.random.gauss(0, _SPREAD * 0.8), 5),
            )
            if self.on_land(point):
                return point
        return lon, lat

    def neighbour(self, suburb: str) -> str:
        """One of the four suburbs that are nearest."""
        lon, lat = SUBURBS[suburb]
        near = sorted(
            self._names,
            key=lambda name: (SUBURBS[name][0] - lon) ** 2 + (SUBURBS[name][1] - lat) ** 2,
        )
        return self.random.choice(near[1:5])
