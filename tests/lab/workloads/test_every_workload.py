"""What holds for every kind of workload."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import msgspec
import pytest

from nearcast.errors import InvalidValue
from nearcast_lab.workloads import WORKLOADS, generate

Event = dict[str, Any]
KINDS = list(WORKLOADS)
SMALL = {"vocabulary": 20_000, "corpus": 5_000}

FIELDS = {
    "subscribe": {"op", "id", "query", "region", "point", "top", "at"},
    "move": {"op", "id", "region", "at"},
    "unsubscribe": {"op", "id", "at"},
    "publish": {"op", "id", "text", "point", "region", "at", "ttl"},
}


def log(kind: str, seed: int = 3, **options: Any) -> list[Event]:
    return list(generate(kind, subscriptions=150, messages=200, seed=seed, **SMALL | options))


def check_point(point: Any) -> None:
    lon, lat = point
    assert type(lon) is float
    assert type(lat) is float
    assert -180 <= lon <= 180
    assert -90 <= lat <= 90


def check_region(region: Any) -> None:
    if region["type"] == "Circle":
        assert set(region) == {"type", "center", "radius"}
        check_point(region["center"])
        assert type(region["radius"]) is float
        assert region["radius"] >= 0
    else:
        assert region["type"] == "Box"
        assert set(region) == {"type", "bbox"}
        west, south, east, north = region["bbox"]
        check_point([west, south])
        check_point([east, north])
        assert west <= east
        assert south <= north


def check_event(event: Event) -> None:
    """Hold one event against the event-log format, written down here on its own."""
    op = event["op"]
    assert set(event) <= FIELDS[op]
    assert re.fullmatch("m[0-9]+" if op == "publish" else "s[0-9]+", event["id"])
    if "region" in event:
        check_region(event["region"])
    if "point" in event:
        check_point(event["point"])
    if op in ("subscribe", "publish"):
        assert ("region" in event) != ("point" in event)
    if op == "move":
        assert "region" in event
    if op == "subscribe":
        assert re.fullmatch(r"\(?[a-z]+\)?( (AND |OR )?\(?[a-z]+\)?)*", event["query"])
        assert ("top" in event) == ("point" in event)
    if "top" in event:
        assert set(event["top"]) == {"k", "alpha"}
        assert 1 <= event["top"]["k"] <= 1000
        assert 0 <= event["top"]["alpha"] <= 1
    if op == "publish":
        assert re.fullmatch("[a-z]+( [a-z]+)*", event["text"])
        assert type(event["at"]) is float
    if "ttl" in event:
        assert event["ttl"] > 0


def plain(value: Any) -> bool:
    """Say whether a value is made of the types of JSON only, and of no subclass of them."""
    if type(value) is dict:
        return all(type(key) is str and plain(part) for key, part in value.items())
    if type(value) is list:
        return all(map(plain, value))
    return type(value) in (str, int, float)


@pytest.mark.parametrize("kind", KINDS)
def test_events_obey_the_log_format(kind: str) -> None:
    """Every event has the fields of its kind, with allowed values of plain types."""
    events = log(kind)
    for event in events:
        check_event(event)
        assert plain(event)
    assert msgspec.json.decode(msgspec.json.encode(events)) == events


@pytest.mark.parametrize("kind", KINDS)
def test_counts_are_those_asked_for(kind: str) -> None:
    """All messages appear once in order, and the log opens with the subscriptions asked for."""
    events = log(kind)
    assert [e["id"] for e in events[:150]] == [f"s{number}" for number in range(1, 151)]
    assert {e["op"] for e in events[:150]} == {"subscribe"}
    published = [e["id"] for e in events if e["op"] == "publish"]
    assert published == [f"m{number}" for number in range(1, 201)]


@pytest.mark.parametrize("kind", KINDS)
def test_only_the_living_move_or_leave(kind: str) -> None:
    """Moves and unsubscribes name subscriptions that exist, and no id is subscribed twice."""
    alive: set[str] = set()
    for event in log(kind):
        if event["op"] == "subscribe":
            assert event["id"] not in alive
            alive.add(event["id"])
        elif event["op"] != "publish":
            assert event["id"] in alive
        if event["op"] == "unsubscribe":
            alive.remove(event["id"])


@pytest.mark.parametrize("kind", KINDS)
def test_time_never_goes_back(kind: str) -> None:
    """`at` never decreases along the log, and it does increase."""
    times = [event["at"] for event in log(kind) if "at" in event]
    assert times == sorted(times)
    assert times[0] < times[-1]


@pytest.mark.parametrize("kind", KINDS)
def test_same_seed_same_log_for_every_chunk(kind: str) -> None:
    """The seed decides the log; the size of the chunks does not."""
    whole = log(kind)
    assert log(kind) == whole
    assert log(kind, chunk=7) == whole
    assert log(kind, chunk=64) == whole


@pytest.mark.parametrize("kind", KINDS)
def test_another_seed_another_log(kind: str) -> None:
    """Another seed changes texts, queries and places."""
    first, second = log(kind, seed=3), log(kind, seed=4)
    for op, field in (("subscribe", "query"), ("publish", "text")):
        one = [event[field] for event in first if event["op"] == op]
        other = [event[field] for event in second if event["op"] == op]
        same = sum(a == b for a, b in zip(one, other, strict=False))
        assert same < len(one) / 4
    places = [[e.get("region") or e["point"] for e in events[:150]] for events in (first, second)]
    assert not any(a == b for a, b in zip(*places, strict=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_longer_log_starts_like_a_shorter_one(kind: str) -> None:
    """Subscriptions do not depend on how many messages follow them."""
    longer = generate(kind, subscriptions=150, messages=900, seed=3, **SMALL)
    assert list(islice(longer, 150)) == log(kind)[:150]


@pytest.mark.parametrize("kind", KINDS)
def test_empty_requests_are_fine(kind: str) -> None:
    """No subscriptions, no messages, or neither, still give a log."""
    assert list(generate(kind, subscriptions=0, messages=0, seed=1, **SMALL)) == []
    for subscriptions, messages in ((0, 30), (30, 0)):
        counts = {"subscriptions": subscriptions, "messages": messages}
        events = list(generate(kind, **counts, seed=1, **SMALL))
        assert sum(e["op"] == "publish" for e in events) == messages
        for event in events:
            check_event(event)


@pytest.mark.parametrize("kind", KINDS)
def test_workloads_describe_themselves(kind: str) -> None:
    """Each workload has a description of one line, a paper with its section, documented options."""
    workload = WORKLOADS[kind]
    assert workload.name == kind
    assert workload.description.strip()
    assert "\n" not in workload.description
    assert "section" in workload.paper
    assert workload.options.__doc__


def refused(kind: str = "tweets", **given: Any) -> str:
    arguments: dict[str, Any] = {"subscriptions": 1, "messages": 1, "seed": 1} | given
    with pytest.raises(InvalidValue) as caught:
        _: Iterator[Event] = generate(kind, **arguments)
    return str(caught.value)


def test_mistakes_are_told_before_the_first_event() -> None:
    """Wrong arguments are refused at once, with what would be right."""
    assert "one of tweets, small, sts-q1" in refused(kind="tweet")
    assert "0 or more" in refused(messages=-1)
    assert "max_area" in refused(colour="red")
    assert refused(terms="many") == "terms: 'many' given; expected int"
    assert ">= 1" in refused(vocabulary=0)
    assert "> 0" in refused(rate="nan")
    assert "finite" in refused(rate="inf")
    assert "at most max_area" in refused(min_area=0.5)
    assert "at least 13" in refused(vocabulary=5)
    assert "one of world" in refused(space="mars")
    assert "W < E" in refused(space="10,0,5,5")
    assert "one of circle, box" in refused(kind="moving", shape="hexagon")
