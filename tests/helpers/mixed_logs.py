"""Seeded event logs in which everything happens that a pipeline without top-k is for."""

from __future__ import annotations

from random import Random
from typing import Any

from event_logs import BAD_POINTS, BAD_QUERIES, BAD_REGIONS, RINGS

Fields = dict[str, Any]

_WORDS = ["a", "b", "c", "d", "É", "ﬁ", "ß", "x1", "x2", "x3"]
_JOINS = [" ", " AND ", " OR ", " NOT "]
_BAD: list[Any] = [
    {"op": "unsubscribe", "id": "nobody"},
    {"op": "move", "id": "nobody", "region": {"type": "Box", "bbox": [0, 0, 1, 1]}},
    {"op": "publish", "id": "m-1", "point": [0, 0]},
    {"op": "dance", "id": "s1"},
    {"op": "unsubscribe"},
]


_SQUARE = [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]
_BOX = {"type": "Box", "bbox": [-9, -9, 9, 9]}
_SUBSCRIBE = {"op": "subscribe", "id": "s1"}
_RANK = _SUBSCRIBE | {"id": "t1", "query": "a", "point": [0, 0]}
_PUBLISH = {"op": "publish", "text": "a b", "point": [0, 0]}
NEWS: dict[str, Fields] = {
    "op: retract": {"op": "retract", "id": "m1"},
    "properties: a message with properties": _PUBLISH | {"id": "n1", "properties": {"a": 1}},
    "region: a message over a Polygon": {
        "op": "publish", "id": "n2", "region": {"type": "Polygon", "coordinates": _SQUARE}
    },
    "region: a message over a MultiPolygon": {
        "op": "publish", "id": "n3", "region": {"type": "MultiPolygon", "coordinates": [_SQUARE]}
    },
    "meta: a subscription with meta": _SUBSCRIBE | {"query": "a", "region": _BOX, "meta": {"b": 1}},
    "ttl: a subscription with ttl": _SUBSCRIBE | {"query": "a", "region": _BOX, "ttl": 5},
    "ops: a subscription with ops": _SUBSCRIBE | {"query": "a", "region": _BOX, "ops": ["add"]},
    "query: a subscription without a query": _SUBSCRIBE | {"region": _BOX},
    "region: a subscription without a region": _SUBSCRIBE | {"query": "a"},
    "region: a MultiPolygon": _SUBSCRIBE | {
        "query": "a", "region": {"type": "MultiPolygon", "coordinates": [_SQUARE]}
    },
    'query: the operand "a b"': _SUBSCRIBE | {"id": "s2", "query": '"a b"', "region": _BOX},
    "query: the operand ab*": _SUBSCRIBE | {"id": "s3", "query": "x1 OR ab*", "region": _BOX},
    "query: the operand a:1": _SUBSCRIBE | {"id": "s4", "query": "b NOT a:1", "region": _BOX},
    "query: the operand *": _SUBSCRIBE | {"id": "s5", "query": "* NOT a", "region": _BOX},
    "filter: a subscription with filter": _RANK | {"top": {"k": 1, "alpha": 0.5}, "filter": "b"},
    "top.scale: a top-k subscription with scale": _RANK | {
        "top": {"k": 1, "alpha": 0.5, "scale": 9}
    },
    "top.min_score: a top-k subscription with min_score": _RANK | {
        "top": {"k": 1, "alpha": 0.5, "min_score": 0.5}
    },
    "region: a top-k subscription in a region": _RANK | {
        "top": {"k": 1, "alpha": 0.5}, "region": _BOX
    },
    "ttl: a subscription with ttl ": {"op": "move", "id": "s1", "region": _BOX, "ttl": 5},
    "region: a top-k subscription in a region ": {
        "op": "move", "id": "t1", "region": _BOX, "point": [0, 0]
    },
}  # fmt: skip
"""Events with one of the newer features each."""


def with_news(log: list[Fields], seed: int) -> list[Fields]:
    """Put some of them into a log, one in every eight events or so."""
    draw = Random(seed)
    found: list[Fields] = []
    for fields in log:
        found.append(fields)
        if draw.random() < 0.14:
            found.append(draw.choice(list(NEWS.values())).copy())
    return found


def mixed_log(seed: int, count: int, names: int = 40) -> list[Fields]:
    """Make a log: subscriptions made, replaced, moved and ended, messages at points and in
    boxes, some of which last.

    One event in twelve or so is bad.
    """
    draw = Random(seed)
    log: list[Fields] = []
    now = 0.0
    for number in range(count):
        fields = _event(draw, number, names)
        if draw.random() < 0.5:
            now += draw.choice([0, 0, 0.5, 1])
            fields["at"] = now - (9 if draw.random() < 0.02 and now > 9 else 0)
        log.append(fields)
    return log


def _event(draw: Random, number: int, names: int) -> Fields:
    name = f"s{draw.randrange(names)}"
    chance = draw.random()
    if chance < 0.05:
        bad_event: Fields = draw.choice(_BAD)
        return bad_event.copy()
    if chance < 0.35 or number < 5:
        bad = draw.random()
        return {
            "op": "subscribe",
            "id": name,
            "query": draw.choice(BAD_QUERIES) if bad < 0.04 else _query(draw),
            "region": draw.choice(BAD_REGIONS) if bad > 0.96 else _region(draw),
        }
    if chance < 0.42:
        return {"op": "move", "id": name, "region": _region(draw)}
    if chance < 0.48:
        return {"op": "unsubscribe", "id": name}
    fields: Fields = {
        "op": "publish",
        "id": f"m{number if draw.random() < 0.95 else draw.randrange(number)}",
        "text": ", ".join(draw.choices(_WORDS, k=draw.randint(1, 6))),
    }
    if draw.random() < 0.4:
        fields["ttl"] = draw.choice([0, 0.5, 1, 5, 30, 200, -1 if draw.random() < 0.1 else 3])
    if draw.random() < 0.2:
        return fields | {"region": _box(draw)}
    return fields | {"point": draw.choice(BAD_POINTS) if draw.random() < 0.02 else _point(draw)}


def _query(draw: Random) -> str:
    words = draw.sample(_WORDS, draw.randint(1, 3))
    query = words[0]
    for word in words[1:]:
        query += draw.choice(_JOINS) + word
    return query if draw.random() < 0.8 else f"({query}) OR {draw.choice(_WORDS)}"


def _point(draw: Random) -> list[float]:
    if draw.random() < 0.1:
        return [draw.choice([-180, 180, -179.5, 179.5]), draw.choice([-90, 90, 0, 45])]
    return [draw.choice([draw.uniform(-3, 4), draw.randint(-2, 3)]), draw.uniform(-3, 4)]


def _box(draw: Random) -> Fields:
    west, south = _point(draw)
    east = west + draw.choice([0, 0.5, 2])
    east, north = (east if east <= 180 else east - 360), min(90, south + draw.choice([0, 1, 3]))
    return {"type": "Box", "bbox": [west, south, east, north]}


def _region(draw: Random) -> Fields:
    chance = draw.random()
    if chance < 0.2:
        radius = draw.choice([0, 50_000, 200_000, 1e7])
        return {"type": "Circle", "center": _point(draw), "radius": radius}
    if chance < 0.35:
        return {"type": "Polygon", "coordinates": draw.choice(RINGS)}
    if chance < 0.4:
        return {"type": "Box", "bbox": [-180, -90, 180, 90]}
    return _box(draw)
