"""The subscriptions of the demo: residents, people on the move, and the visitor's own."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from nearcast.demo.city import CENTRE, SUBURBS, City, Point
from nearcast.demo.messages import THINGS

_DEAL_QUERIES = (
    "{thing}", "{thing} sale", "{thing} AND (discount OR sale)", "{thing} OR {other}",
    "{thing} NOT last", "{thing} NOT pineapple",
)  # fmt: skip
_OTHER_QUERIES = (
    "road closed", "traffic OR accident", "delays", "storm OR flood OR hail", "power cut",
    "fire", "jazz", "blues NOT festival",
)  # fmt: skip
_RADII = (250, 400, 600, 900, 1500)
_ON_THE_WAY = (
    "closed OR delays OR accident",
    "coffee",
    "burgers OR tacos OR pizza",
    "storm OR flood",
)
_LEGS_S = (40.0, 90.0)  # how long it takes from one suburb to the next
_METRES_LAT = 111_195.0

Json = dict[str, Any]


def residents(city: City, count: int) -> Iterator[Json]:
    """Subscriptions that stay in place: circles, boxes and hexagons."""
    random = city.random
    for number in range(count):
        point = city.point(city.suburb())
        if random.random() < 0.8:
            thing, other = random.sample(THINGS, 2)
            query = random.choice(_DEAL_QUERIES).format(thing=thing, other=other)
        else:
            query = random.choice(_OTHER_QUERIES)
        radius = random.choice(_RADII)
        shape = random.random()
        if shape < 0.7:
            region = circle(point, radius)
        elif shape < 0.9:
            region = {"type": "Box", "bbox": _box(point, radius)}
        else:
            region = {"type": "Polygon", "coordinates": [_hexagon(point, radius)]}
        yield {"id": f"home-{number}", "query": query, "region": region}


def yours() -> list[Json]:
    """The subscriptions that the page shows as the visitor's own."""
    return [
        {"id": "your-lunch", "query": "(pizza OR sushi OR ramen) NOT pineapple",
         "region": circle(SUBURBS["Newtown"], 3500)},
        {"id": "your-music", "query": "jazz blues", "point": CENTRE, "top": {"k": 5, "alpha": 0.5}},
    ]  # fmt: skip


def circle(centre: Point, radius: float) -> Json:
    """A region around a point."""
    return {"type": "Circle", "center": centre, "radius": radius}


def _box(centre: Point, radius: float) -> list[float]:
    (dx, dy), (lon, lat) = _degrees(centre, radius), centre
    return [round(edge, 5) for edge in (lon - dx, lat - dy, lon + dx, lat + dy)]


def _hexagon(centre: Point, radius: float) -> list[list[float]]:
    dx, dy = _degrees(centre, radius)
    corners = [
        [
            round(centre[0] + dx * math.cos(i * math.pi / 3), 5),
            round(centre[1] + dy * math.sin(i * math.pi / 3), 5),
        ]
        for i in range(6)
    ]
    return [*corners, corners[0]]


def _degrees(centre: Point, metres: float) -> tuple[float, float]:
    lat = metres / _METRES_LAT
    return lat / math.cos(math.radians(centre[1])), lat


class Mover:
    """A subscription that moves from suburb to suburb."""

    def __init__(self, id: str, city: City) -> None:
        self.id = id
        self._city = city
        self._query = city.random.choice(_ON_THE_WAY)
        self._radius = city.random.choice((350, 500, 800))
        self._suburb = city.suburb()
        self._to = city.point(self._suburb)
        self._depart(0.0)
        self._start -= city.random.uniform(0, self._takes)  # some are under way already

    def _depart(self, now: float) -> None:
        self._from = self._to
        self._suburb = self._city.neighbour(self._suburb)
        self._to = self._city.point(self._suburb)
        self._start = now
        self._takes = self._city.random.uniform(*_LEGS_S)

    def subscription(self) -> Json:
        """The subscription, where it starts."""
        return {"id": self.id, "query": self._query, "region": self._region(0.0)}

    def move(self, now: float) -> Json:
        """The move to where it is at `now`, in seconds that never decrease, as an event."""
        if now >= self._start + self._takes:
            self._depart(now)
        return {"op": "move", "id": self.id, "region": self._region(now)}

    def _region(self, now: float) -> Json:
        part = (now - self._start) / self._takes
        (x0, y0), (x1, y1) = self._from, self._to
        place = (round(x0 + (x1 - x0) * part, 5), round(y0 + (y1 - y0) * part, 5))
        return circle(place, self._radius)
