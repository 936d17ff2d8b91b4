"""A second reading of the contract, which shares no code with the package.

`Naive` keeps the raw events it accepted and, at every event, works out the whole world before and
after from that list alone.
"""

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
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
    words, word = [], ""
    for letter in folded + " ":
        if letter.isalnum() or (word and unicodedata.category(letter).startswith("M")):
            word += letter
        elif word:
            words.append(word)
            word = ""
    return words


PIECE = re.compile(
    r"""\s+|(?P<piece>[()] | [^\s()":]*:?"(?:\\.|[^"\\])*" | [^\s():"]+:\[[^\]]*\] | [^\s()"]+)""",
    re.VERBOSE,
)
NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
NAME = re.compile(r"[^\W\d][\w-]*(\.[\w-]+)*")


def tokens_of(query: str) -> list[str]:
    found, at = [], 0
    while at < len(query):
        match = PIECE.match(query, at)
        if match is None:
            raise Refused
        if match["piece"]:
            found.append(match["piece"])
            after = query[match.end() : match.end() + 1]
            need(match["piece"][-1] not in '"]' or not after or after.isspace() or after == ")")
        at = match.end()
    return found


def values_at(value: Any, path: list[str]) -> list[Any]:
    """What is at the end of a path, in all elements of all arrays on it."""
    if isinstance(value, list):
        return [found for each in value for found in values_at(each, path)]
    if not path:
        return [value]
    if not isinstance(value, dict) or path[0] not in value:
        return []
    return values_at(value[path[0]], path[1:])


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def folded(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold()


def property_holds(name: str, asked: str, properties: Any) -> bool:
    need(NAME.fullmatch(name))
    values = values_at(properties, name.split("."))
    if asked == "*":
        return any(value is not None for value in values)
    if asked.startswith('"'):
        text = re.sub(r'\\(["\\])', r"\1", asked[1:-1])
        return any(isinstance(value, str) and folded(value) == folded(text) for value in values)
    numbers = [value for value in values if is_number(value)]
    if asked.startswith("["):
        low, to, high = asked[1:-1].split()
        need(to == "TO" and NUMBER.fullmatch(low) and NUMBER.fullmatch(high))
        return any(float(low) <= value <= float(high) for value in numbers)
    if asked[:1] in "<>":
        sign = asked[: 1 + asked.startswith(("<=", ">="))]
        need(NUMBER.fullmatch(asked[len(sign) :]))
        bound = float(asked[len(sign) :])
        compare = {"<": lambda v: v < bound, "<=": lambda v: v <= bound}
        compare |= {">": lambda v: v > bound, ">=": lambda v: v >= bound}
        return any(compare[sign](value) for value in numbers)
    need(asked and not set(asked) & set('*[]<>"'))
    found = any(isinstance(value, str) and folded(value) == folded(asked) for value in values)
    if NUMBER.fullmatch(asked):
        found = found or any(value == float(asked) for value in numbers)
    if asked.lower() in ("true", "false"):
        found = found or any(value is (asked.lower() == "true") for value in values)
    return found


class Reading:
    """One reading of a query, from left to right, against one message.

    Without a message all operands are false, whatever they ask for.
    """

    def __init__(self, query: str, message: Fields | None) -> None:
        self.left = tokens_of(query)
        self.message = message
        self.words = [] if message is None else words_of(message.get("text") or "")

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
        return self.operand(found) and self.message is not None

    def operand(self, found: str) -> bool:
        need(found[0] not in "-!")
        if found == "*":
            return True
        if found.startswith('"'):
            asked = words_of(found)
            need(asked)
            size = len(asked)
            return any(self.words[at : at + size] == asked for at in range(len(self.words)))
        if ":" in found and not found[0].isdigit():
            name, _, asked_value = found.partition(":")
            return property_holds(name, asked_value, (self.message or {}).get("properties"))
        if "*" in found:
            need(found.endswith("*") and words_of(found) == [folded(found[:-1])])
            need(len(found) > 2)
            return any(word.startswith(folded(found[:-1])) for word in self.words)
        need(words_of(found))
        return all(word in self.words for word in words_of(found))


def check_query(query: object, ranked: bool) -> None:
    need(isinstance(query, str))
    assert isinstance(query, str)
    if ranked:
        tokens = tokens_of(query)
        need(not {"AND", "OR", "NOT", "(", ")"} & set(tokens))
        need(tokens and all(words_of(token) for token in tokens))
        need(not any(set('"*') & set(t) or t[0] in "-!" for t in tokens))
        need(not any(":" in token and not token[0].isdigit() for token in tokens))
    else:
        # A conjunct without a positive operand is what holds when all operands are false.
        need(not Reading(query, None).answer())


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


def check_polygon(rings: Any) -> None:
    for ring in rings:
        need(len(ring) >= 4 and ring[0] == ring[-1])
        for position in ring:
            check_point(position)
    need(shapely.Polygon(rings[0], rings[1:]).is_valid)


def check_region(region: object, area: bool = False) -> None:
    need(isinstance(region, dict))
    assert isinstance(region, dict)
    match region.get("type"):
        case "Box":
            box = region["bbox"]
            need(isinstance(box, list) and len(box) == 4)
            check_point(box[:2])
            check_point(box[2:])
            need(box[1] <= box[3])
        case "Circle" if not area:
            check_point(region["center"])
            number(region["radius"], 0)
        case "Polygon":
            check_polygon(region["coordinates"])
        case "MultiPolygon":
            need(isinstance(region["coordinates"], list) and region["coordinates"])
            for polygon in region["coordinates"]:
                check_polygon(polygon)
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


def shape_of(region: Fields) -> Any:
    """A region that is no circle, planar in degrees."""
    if region["type"] == "Box":
        return shapely.union_all([outline(half) for half in halves(region["bbox"])])
    parts = [region["coordinates"]] if region["type"] == "Polygon" else region["coordinates"]
    return shapely.union_all([shapely.Polygon(rings[0], rings[1:]) for rings in parts])


def lies_in(message: Fields, region: Fields | None) -> bool:
    """Whether the place of a message and a region share a point."""
    if region is None:
        return True
    point = message.get("point")
    if point is None and message["region"]["type"] != "Box":
        return area_lies_in(message["region"], region)
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
            shape = shape_of(region)
            return any(shape.intersects(outline(half)) for half in halves(place))


def area_lies_in(area: Fields, region: Fields) -> bool:
    """Whether polygons and a region share a point."""
    shape = shape_of(area)
    if region["type"] != "Circle":
        return bool(shape.intersects(shape_of(region)))
    lon, lat = region["center"]
    if shape.intersects(shapely.Point(lon, lat)):
        return True
    distance = min(way_to(lon, lat, ring) for ring in shapely.get_rings(shape))
    if abs(distance - region["radius"]) < 2:
        reject()  # too near to tell by points along the border
    return bool(distance < region["radius"])


def way_to(lon: float, lat: float, ring: Any) -> float:
    """The way from a place to a ring, by points on it, closer and closer around the nearest."""
    low, high, best = 0.0, 1.0, math.inf
    for _ in range(12):
        steps = [low + (high - low) * n / 400 for n in range(401)]
        ways = []
        for step in steps:
            place = ring.interpolate(step, normalized=True)
            ways.append(metres(lon, lat, place.x, place.y))
        nearest_step = min(range(401), key=ways.__getitem__)
        best = min(best, ways[nearest_step])
        low, high = steps[max(0, nearest_step - 1)], steps[min(400, nearest_step + 1)]
    return best


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
        need(op in ("subscribe", "move", "unsubscribe", "publish", "retract"))
        need(isinstance(id, str) and 1 <= len(id.encode()) <= 255)
        earlier = self.log[-1]["at"] if self.log else None
        now = number(fields.get("at", earlier or 0.0))
        need(earlier is None or now >= earlier)
        known = self.subscriptions(self.log, now).get(str(id))
        if op == "publish":
            self.check_message(fields)
        elif op == "retract":
            in_use = self.active(self.log, now) + self.window(self.log, now)
            need(id in [message["id"] for message in in_use])
        else:
            need(op == "subscribe" or known is not None)
            if op == "subscribe":
                self.check_subscription(fields, known)
            if op == "move":
                need("point" in fields or "region" in fields)
                need("point" not in fields or (known is not None and "top" in known))
            if op != "unsubscribe" and "ttl" in fields:
                need(number(fields["ttl"]) > 0)
            if "region" in fields and op != "unsubscribe":
                check_region(fields["region"])
        if "point" in fields and op not in ("unsubscribe", "retract"):
            check_point(fields["point"])
            west, south, east, north = self.world.space or (-180, -90, 180, 90)
            lon, lat = fields["point"]
            need(west <= lon <= east and south <= lat <= north)
        return fields | {"at": now}

    def check_message(self, fields: Fields) -> None:
        need(isinstance(fields.get("text", ""), str))
        number(fields.get("ttl", 0), 0)
        need(("point" in fields) != ("region" in fields))
        need(isinstance(fields.get("properties", {}), dict))
        if "region" in fields:
            check_region(fields["region"], area=True)

    def check_subscription(self, fields: Fields, known: Fields | None) -> None:
        ranked = "top" in fields
        need(known is None or ("top" in known) == ranked)
        need("query" in fields or ("region" in fields and not ranked))
        need(ranked == ("point" in fields))
        need(ranked or "filter" not in fields)
        if "query" in fields:
            check_query(fields["query"], ranked)
        if "filter" in fields:
            check_query(fields["filter"], ranked=False)
        if "ops" in fields:
            need(isinstance(fields["ops"], list) and fields["ops"])
            need(all(op in ("add", "remove", "change") for op in fields["ops"]))
        need(isinstance(fields.get("meta", {}), dict))
        if ranked:
            top = fields["top"]
            number(top.get("alpha"), 0, 1)
            k = top.get("k")
            need(isinstance(k, int) and 1 <= k <= 1000)
            need(top.get("scale") is None or number(top["scale"]) > 0)
            number(top.get("min_score") or 0.0)

    def subscriptions(self, log: list[Fields], now: float) -> dict[str, Fields]:
        """Those that stand at a time, each with the instant of its end."""
        standing: dict[str, Fields] = {}
        for fields in [*log, {"op": "end", "at": now}]:
            at, id = fields["at"], fields.get("id", "")
            for name in [name for name, one in standing.items() if one["end"] <= at]:
                del standing[name]
            end = {"end": at + fields["ttl"]} if "ttl" in fields else {}
            if fields["op"] == "subscribe":
                standing[id] = {"end": math.inf} | fields | end
            elif fields["op"] == "move":
                place = {key: fields[key] for key in ("region", "point") if key in fields}
                standing[id] = standing[id] | place | end
            elif fields["op"] == "unsubscribe":
                del standing[id]
        return standing

    def active(self, log: list[Fields], now: float) -> list[Fields]:
        latest: dict[str, Fields] = {}
        for fields in log:
            if fields["op"] in ("publish", "retract"):
                latest.pop(fields["id"], None)
            if fields["op"] == "publish":
                latest[fields["id"]] = fields
        return [m for m in latest.values() if m["at"] <= now < m["at"] + m.get("ttl", 0)]

    def window(self, log: list[Fields], now: float) -> list[Fields]:
        held: list[Fields] = []
        for fields in [*log, {"op": "end", "at": now}]:
            at = fields["at"]
            held = [m for m in held if not m.get("ttl") or at < m["at"] + m["ttl"]]
            if self.world.seconds is not None:
                held = [m for m in held if m["at"] > at - self.world.seconds]
            if fields["op"] in ("publish", "retract"):
                held = [m for m in held if m["id"] != fields["id"]]
            if fields["op"] == "publish" and "point" in fields:
                held.append(fields)
            if self.world.seconds is None:
                held = held[-(self.world.count or 100_000) :]
        return held

    def wants(self, subscription: Fields, message: Fields) -> bool:
        asked = subscription.get("filter" if "top" in subscription else "query")
        fits = asked is None or Reading(asked, message).answer()
        return fits and lies_in(message, subscription.get("region"))

    def idf(self, term: str) -> float:
        if self.world.history is None:
            return 1.0
        holding = sum(term in words_of(text) for text in self.world.history)
        return math.log(1 + len(self.world.history) / (1 + holding))

    def score(self, subscription: Fields, message: Fields) -> tuple[float, object] | None:
        """The score, and what it depends on: messages equal in that have equal scores."""
        asked = set(words_of(subscription["query"]))
        counts = Counter(words_of(message.get("text", "")))
        common = asked & set(counts)
        if not common or not self.wants(subscription, message):
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
        distance: object = Fraction(x - u) ** 2 + Fraction(y - v) ** 2
        if subscription["top"].get("scale") is not None:
            near = max(0.0, 1 - metres(x, y, u, v) / subscription["top"]["scale"])
            distance = (near, u, v) if near else 0
        likeness: object = None
        if alpha < 1:
            likeness = frozenset(counts.items())
            if self.world.history is None:
                squares = sum(n * n for n in counts.values())
                likeness = Fraction(sum(counts[t] for t in common) ** 2, squares)
        score = alpha * near + (1 - alpha) * dot / norms
        least = subscription["top"].get("min_score")
        if least is not None and abs(score - least) < 1e-10:
            event("a score equal to the least but for rounding: passed over")
            reject()
        if least is not None and score < least:
            return None
        return score, (distance if alpha > 0 else None, likeness)

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
        for id, subscription in self.subscriptions([*log, cause], cause["at"]).items():
            for pair, score in self.changes_of(id, subscription, log, cause):
                if pair[0] in subscription.get("ops", pair):
                    yield pair, score

    def changes_of(
        self, id: str, subscription: Fields, log: list[Fields], cause: Fields
    ) -> Iterator[tuple[Pair, float | None]]:
        now, op, ranked = cause["at"], cause["op"], "top" in subscription
        old = self.subscriptions(log, now).get(id)
        # What expires from the window is reported; of active messages it is silent, and both sides
        # are taken at the new time.
        then = log[-1]["at"] if log and ranked else now
        was = {} if old is None else self.results(old, log, then)
        now_is = self.results(subscription, [*log, cause], now)
        if op == "publish" and not ranked and self.wants(subscription, cause):
            now_is[cause["id"]] = None
        held = self.window(log, now) if ranked else self.active(log, now)
        replaced = op == "publish" and cause["id"] in [message["id"] for message in held]
        for message in set(was) - set(now_is):
            yield ("remove", id, message), None
        for message in set(now_is) - set(was):
            yield ("add", id, message), now_is[message]
        for message in set(now_is) & set(was):
            rescored = cause["id"] == id and op in ("subscribe", "move") and ranked
            rescored = rescored and abs(was[message] - now_is[message]) > 1e-13
            if rescored or (replaced and message == cause["id"]):
                yield ("change", id, message), now_is[message]
