"""A second reading of the contract, which shares no code with the package.

`Naive` keeps the raw events it accepted and, at every event, works out the whole world before and
after from that list alone.
"""

import math
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import groupby, pairwise
from typing import Any

import shapely
from hypothesis import event, reject

Fields = dict[str, Any]
Pair = tuple[str, str, str]  # op, subscription, message
EARTH_M = 6371008.8


class Refused(Exception):  # noqa: N818 - a signal within this module
    """The contract does not allow the event."""


def need(truth: object) -> None:
    if not truth:
        raise Refused


# --- text ------------------------------------------------------------------------------------


def words_of(text: str) -> list[str]:
    folded = unicodedata.normalize("NFKC", text).casefold()
    return ["".join(run) for kept, run in groupby(folded, str.isalnum) if kept]


def tokens_of(query: str) -> list[str]:
    return query.replace("(", " ( ").replace(")", " ) ").split()


class Reading:
    """One reading of a query, from left to right, against one set of terms."""

    def __init__(self, query: str, terms: set[str]) -> None:
        self.left = tokens_of(query)
        self.terms = terms

    def answer(self) -> bool:
        value = self.either()
        need(not self.left)
        return value

    def either(self) -> bool:
        value = self.both()
        while self.left[:1] == ["OR"]:
            self.left.pop(0)
            other = self.both()
            value = value or other
        return value

    def both(self) -> bool:
        value = self.one()
        while self.left and self.left[0] not in ("OR", ")"):
            if self.left[0] == "AND":
                self.left.pop(0)
            other = self.one()
            value = value and other
        return value

    def one(self) -> bool:
        need(self.left)
        found = self.left.pop(0)
        need(found not in ("AND", "OR", ")"))
        if found == "NOT":
            return not self.one()
        if found == "(":
            value = self.either()
            need(self.left[:1] == [")"])
            self.left.pop(0)
            return value
        return all(word in self.terms for word in words_of(found))


def check_query(query: object, ranked: bool) -> None:
    need(isinstance(query, str))
    assert isinstance(query, str)
    if ranked:
        need(not {"AND", "OR", "NOT", "(", ")"} & set(tokens_of(query)))
        need(words_of(query))
    else:
        # A conjunct without a positive term is exactly what a text without terms satisfies.
        need(not Reading(query, set()).answer())


# --- space -----------------------------------------------------------------------------------


def number(value: object, low: float = -math.inf, high: float = math.inf) -> float:
    need(isinstance(value, int | float) and not isinstance(value, bool))
    assert isinstance(value, int | float)
    need(math.isfinite(value) and low <= value <= high)
    return float(value)


def check_point(value: object) -> None:
    need(isinstance(value, list) and len(value) == 2)
    assert isinstance(value, list)
    number(value[0], -180, 180)
    number(value[1], -90, 90)


def check_region(region: object, only_box: bool = False) -> None:
    need(isinstance(region, dict))
    assert isinstance(region, dict)
    match region.get("type"):
        case "Box":
            box = region["bbox"]
            need(isinstance(box, list) and len(box) == 4)
            check_point(box[:2])
            check_point(box[2:])
            need(box[1] <= box[3])
        case "Circle" if not only_box:
            check_point(region["center"])
            number(region["radius"], 0)
        case "Polygon" if not only_box:
            rings = region["coordinates"]
            for ring in rings:
                need(len(ring) >= 4 and ring[0] == ring[-1])
                for position in ring:
                    check_point(position)
            need(shapely.Polygon(rings[0], rings[1:]).is_valid)
        case _:
            raise Refused


def metres(lon1: float, lat1: float, lon2: float, lat2: float) -> float:
    """The way along the sphere, by the angle between two vectors from its centre."""

    def vector(lon: float, lat: float) -> tuple[float, float, float]:
        a, b = math.radians(lon), math.radians(lat)
        return math.cos(b) * math.cos(a), math.cos(b) * math.sin(a), math.sin(b)

    x, y, z = vector(lon1, lat1)
    u, v, w = vector(lon2, lat2)
    cross = math.hypot(y * w - z * v, z * u - x * w, x * v - y * u)
    return EARTH_M * math.atan2(cross, x * u + y * v + z * w)


def within(distance: float, radius: float) -> bool:
    return distance <= radius * (1 + 1e-12) + 1e-7  # no two places differ by so little


def halves(box: Sequence[float]) -> Iterator[tuple[float, float, float, float]]:
    west, south, east, north = box
    if west <= east:
        yield west, south, east, north
    else:
        yield west, south, 180, north
        yield -180, south, east, north


def nearest(lon: float, lat: float, box: tuple[float, float, float, float]) -> float:
    """The way from a place to a box that does not cross the antimeridian."""
    west, south, east, north = box
    found = math.inf
    if any(west <= turned <= east for turned in (lon - 360, lon, lon + 360)):
        found = metres(lon, lat, lon, min(max(lat, south), north))
    for edge in (west, east):
        # Along a meridian the cosine of the angle is A sin(lat) + B cos(lat): one peak.
        a = math.sin(math.radians(lat))
        b = math.cos(math.radians(lat)) * math.cos(math.radians(edge - lon))
        peak = math.degrees(math.atan2(a, b))
        for candidate in (south, north, min(max(peak, south), north)):
            found = min(found, metres(lon, lat, edge, candidate))
    return found


def outline(box: tuple[float, float, float, float]) -> Any:
    west, south, east, north = box
    if west == east and south == north:
        return shapely.Point(west, south)
    if west == east or south == north:
        return shapely.LineString([(west, south), (east, north)])
    return shapely.box(west, south, east, north)


def lies_in(message: Fields, region: Fields) -> bool:
    """Whether the place of a message and a region share a point."""
    point = message.get("point")
    place = [*point, *point] if point is not None else message["region"]["bbox"]
    match region["type"]:
        case "Box":
            return any(
                w <= e2 and w2 <= e and s <= n2 and s2 <= n
                for w, s, e, n in halves(place)
                for w2, s2, e2, n2 in halves(region["bbox"])
            )
        case "Circle":
            lon, lat = region["center"]
            return any(within(nearest(lon, lat, half), region["radius"]) for half in halves(place))
        case _:
            rings = region["coordinates"]
            shape = shapely.Polygon(rings[0], rings[1:])
            return any(shape.intersects(outline(half)) for half in halves(place))


# --- the whole -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Given:
    """What the command line would say once, for a whole log."""

    count: int | None = None
    seconds: float | None = None
    space: tuple[float, float, float, float] | None = None
    history: tuple[str, ...] | None = None


class Naive:
    """The contract, from scratch at every event."""

    def __init__(self, world: Given) -> None:
        self.world = world
        self.log: list[Fields] = []  # the events accepted, each with its time

    def apply(self, fields: Fields) -> dict[Pair, float | None] | None:
        """The updates of an event; None if it is refused."""
        try:
            accepted = self.check(fields)
        except Refused:
            return None
        before, self.log = self.log, [*self.log, accepted]
        return dict(self.changes(before, accepted))

    def check(self, fields: Fields) -> Fields:
        fields = {key: value for key, value in fields.items() if value is not None}
        op, id = fields.get("op"), fields.get("id")
        need(op in ("subscribe", "move", "unsubscribe", "publish"))
        need(isinstance(id, str) and 1 <= len(id.encode()) <= 255)
        earlier = self.log[-1]["at"] if self.log else None
        now = number(fields.get("at", earlier or 0.0))
        need(earlier is None or now >= earlier)
        ranked, known = "top" in fields, self.subscriptions(self.log).get(str(id))
        if op == "publish":
            need(isinstance(fields.get("text"), str))
            number(fields.get("ttl", 0), 0)
            need(("point" in fields) != ("region" in fields))
            if "region" in fields:
                check_region(fields["region"], only_box=True)
            in_use = self.active(self.log, now) + self.window(self.log, now)
            need(id not in [message["id"] for message in in_use])
        else:
            need(op == "subscribe" or known is not None)
            if op == "subscribe":
                check_query(fields.get("query"), ranked)
                need(known is None or ("top" in known) == ranked)
            if op == "move" and known is not None:
                ranked = "top" in known
            if op != "unsubscribe":
                need(("point" in fields) == ranked)
                need(("region" in fields) != ranked)
            if op == "subscribe" and ranked:
                number(fields["top"].get("alpha"), 0, 1)
                k = fields["top"].get("k")
                need(isinstance(k, int) and 1 <= k <= 1000)
            if "region" in fields and op != "unsubscribe":
                check_region(fields["region"])
        if "point" in fields and op != "unsubscribe":
            check_point(fields["point"])
            west, south, east, north = self.world.space or (-180, -90, 180, 90)
            lon, lat = fields["point"]
            need(west <= lon <= east and south <= lat <= north)
        return fields | {"at": now, "ttl": fields.get("ttl", 0)}

    def subscriptions(self, log: list[Fields]) -> dict[str, Fields]:
        standing: dict[str, Fields] = {}
        for fields in log:
            if fields["op"] == "subscribe":
                standing[fields["id"]] = fields
            elif fields["op"] == "move":
                place = {key: fields[key] for key in ("region", "point") if key in fields}
                standing[fields["id"]] = standing[fields["id"]] | place
            elif fields["op"] == "unsubscribe":
                del standing[fields["id"]]
        return standing

    def active(self, log: list[Fields], now: float) -> list[Fields]:
        published = [fields for fields in log if fields["op"] == "publish"]
        return [m for m in published if m["at"] <= now < m["at"] + m["ttl"]]

    def window(self, log: list[Fields], now: float) -> list[Fields]:
        ranked = [f for f in log if f["op"] == "publish" and "point" in f]
        if self.world.seconds is not None:
            return [m for m in ranked if m["at"] > now - self.world.seconds]
        return ranked[-(self.world.count or 100_000) :]

    def wants(self, subscription: Fields, message: Fields) -> bool:
        terms = set(words_of(message["text"]))
        return Reading(subscription["query"], terms).answer() and lies_in(
            message, subscription["region"]
        )

    def idf(self, term: str) -> float:
        if self.world.history is None:
            return 1.0
        holding = sum(term in words_of(text) for text in self.world.history)
        return math.log(1 + len(self.world.history) / (1 + holding))

    def score(self, subscription: Fields, message: Fields) -> tuple[float, object] | None:
        """The score, and what it depends on: messages equal in that have equal scores."""
        asked, counts = set(words_of(subscription["query"])), Counter(words_of(message["text"]))
        common = asked & set(counts)
        if not common:
            return None
        weight = {term: self.idf(term) for term in asked | set(counts)}
        dot = math.fsum(counts[term] * weight[term] ** 2 for term in common)
        norms = math.hypot(*(weight[t] for t in asked)) * math.hypot(
            *(counts[t] * weight[t] for t in counts)
        )
        west, south, east, north = self.world.space or (-180, -90, 180, 90)
        (x, y), (u, v), alpha = (
            subscription["point"],
            message["point"],
            subscription["top"]["alpha"],
        )
        near = 1 - math.hypot(x - u, y - v) / math.hypot(east - west, north - south)
        likeness: object = None
        if alpha < 1:
            likeness = frozenset(counts.items())
            if self.world.history is None:
                squares = sum(n * n for n in counts.values())
                likeness = Fraction(sum(counts[t] for t in common) ** 2, squares)
        distance = Fraction(x - u) ** 2 + Fraction(y - v) ** 2 if alpha > 0 else None
        return alpha * near + (1 - alpha) * dot / norms, (distance, likeness)

    def best(self, subscription: Fields, log: list[Fields], now: float) -> dict[str, float]:
        found = []
        for place, message in enumerate(self.window(log, now)):
            scored = self.score(subscription, message)
            if scored is not None:
                found.append((*scored, place, message["id"]))
        found.sort(key=lambda row: (-row[0], -row[2]))
        for (score, key, *_), (other, other_key, *_) in pairwise(found):
            if abs(score - other) < 1e-10 and key != other_key:
                event("scores equal but for rounding: passed over")
                reject()
        return {id: score for score, _, _, id in found[: subscription["top"]["k"]]}

    def results(self, subscription: Fields, log: list[Fields], now: float) -> dict[str, Any]:
        if "top" in subscription:
            return self.best(subscription, log, now)
        return {m["id"]: None for m in self.active(log, now) if self.wants(subscription, m)}

    def changes(self, log: list[Fields], cause: Fields) -> Iterator[tuple[Pair, float | None]]:
        """Compare the results before an event with those after it."""
        now, old = cause["at"], self.subscriptions(log)
        for id, subscription in self.subscriptions([*log, cause]).items():
            if "top" in subscription:
                then = log[-1]["at"] if log else now
                was = self.results(old[id], log, then) if id in old else {}
                now_is = self.results(subscription, [*log, cause], now)
            elif cause["op"] == "publish":
                was, now_is = {}, {cause["id"]: None} if self.wants(subscription, cause) else {}
            else:  # what expires does so silently: both sides are taken at the new time
                was = self.results(old[id], log, now) if id in old else {}
                now_is = self.results(subscription, log, now)
            for message in set(was) - set(now_is):
                yield ("remove", id, message), None
            for message in set(now_is) - set(was):
                yield ("add", id, message), now_is[message]
