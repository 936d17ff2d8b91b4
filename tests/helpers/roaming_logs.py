"""Seeded event logs of subscribers that roam the whole world, among messages that last."""

from __future__ import annotations

from random import Random
from typing import Any

Fields = dict[str, Any]

SITES = [(-100.0, 40.0), (10.0, 50.0), (140.0, -30.0), (179.0, 0.0), (-30.0, -20.0)]
"""So far apart that most plans give them to different workers; one at the antimeridian."""
_WORDS = ["tea", "jazz", "sale", "rain", "news", "taxi"]
_QUERIES = ["{0}", "{0}", "{0} {1}", "{0} OR {1}", "{0} NOT {1}", "({0} {1}) OR {2}"]


def roaming_log(seed: int, count: int, subscribers: int = 12) -> list[Fields]:
    """Make a log in which whoever moves or is replaced mostly turns up at another site."""
    draw = Random(seed)
    log: list[Fields] = []
    known: list[str] = []
    now = 0.0
    for number in range(count):
        now += draw.choice([0, 0, 1])
        chance = draw.random()
        if chance < 0.45:
            fields = _message(draw, f"m{number}")
        elif chance < 0.75 and known:
            fields = {"op": "move", "id": draw.choice(known), "region": _region(draw)}
        elif chance < 0.78 and known:
            fields = {"op": "unsubscribe", "id": known.pop(draw.randrange(len(known)))}
        else:
            name = f"s{draw.randrange(subscribers)}"
            query = draw.choice(_QUERIES).format(*draw.sample(_WORDS, 3))
            fields = {"op": "subscribe", "id": name, "query": query, "region": _region(draw)}
            known = sorted({*known, name})
        log.append(fields | {"at": now})
    return log


def _message(draw: Random, name: str) -> Fields:
    text = " ".join(draw.sample(_WORDS, draw.randint(1, 4)))
    fields: Fields = {"op": "publish", "id": name, "text": text, "ttl": draw.choice([0, 20, 60])}
    lon, lat = draw.choice(SITES)
    if draw.random() < 0.3:
        return fields | {"region": _box(draw, lon, lat)}
    return fields | {"point": [min(180.0, lon + draw.uniform(-2, 2)), lat + draw.uniform(-2, 2)]}


def _box(draw: Random, lon: float, lat: float) -> Fields:
    west, east = lon - draw.uniform(0, 3), lon + draw.uniform(0, 3)
    if draw.random() < 0.3:
        east += draw.choice([20, 100])  # to another site, and across several cells
    east = east if east <= 180 else east - 360
    return {"type": "Box", "bbox": [west, lat - draw.uniform(0, 3), east, lat + draw.uniform(0, 3)]}


def _region(draw: Random) -> Fields:
    lon, lat = draw.choice(SITES)
    chance = draw.random()
    if chance < 0.4:
        return {"type": "Circle", "center": [lon, lat], "radius": draw.choice([150_000, 400_000])}
    if chance < 0.5:
        ring = [[lon - 2, lat - 2], [lon + 1, lat - 2], [lon + 1, lat + 2], [lon - 2, lat - 2]]
        return {"type": "Polygon", "coordinates": [ring]}
    return _box(draw, lon, lat)
