"""Events are read from and written to their JSON form."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast import Box, Circle, Message, MultiPolygon, Polygon, Subscription, Top
from nearcast.errors import InvalidValue, MissingField
from nearcast.events import (
    Event,
    Move,
    Publish,
    Subscribe,
    Unsubscribe,
    event_from_json,
    event_to_json,
)

BOX = {"type": "Box", "bbox": [0, 0, 1, 1]}
PUBLISH: dict[str, Any] = {"op": "publish", "id": "m1", "text": "iPad sale!", "point": [1, 2]}
SUBSCRIBE: dict[str, Any] = {"op": "subscribe", "id": "s1", "query": "ipad", "region": BOX}
RANKED: dict[str, Any] = {
    "op": "subscribe", "id": "s2", "query": "jazz", "point": [1, 2], "top": {"k": 2, "alpha": 0.5},
}  # fmt: skip


def test_each_kind_of_event_is_read() -> None:
    box = Box(0, 0, 1, 1)
    assert event_from_json(PUBLISH) == Publish(Message("m1", "iPad sale!", (1.0, 2.0)))
    assert event_from_json(SUBSCRIBE | {"at": 3}) == Subscribe(Subscription("s1", "ipad", box), 3.0)
    assert event_from_json(RANKED) == Subscribe(
        Subscription("s2", "jazz", point=(1.0, 2.0), top=Top(2, 0.5))
    )
    assert event_from_json({"op": "move", "id": "s1", "region": BOX}) == Move("s1", box)
    assert event_from_json({"op": "move", "id": "s2", "point": [3, 4]}) == Move("s2", None, (3, 4))
    assert event_from_json({"op": "unsubscribe", "id": "s1", "at": 1.5}) == Unsubscribe("s1", 1.5)
    ranged = {"op": "publish", "id": "m2", "text": "storm", "region": BOX, "at": 5, "ttl": 60}
    assert event_from_json(ranged) == Publish(Message("m2", "storm", None, box, 5.0, 60.0))


def test_null_counts_as_absent_and_unknown_keys_are_passed_over() -> None:
    noisy = PUBLISH | {"region": None, "at": None, "ttl": None, "top": None, "lang": "en"}
    assert event_from_json(noisy) == event_from_json(PUBLISH)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (
            {"op": "poke"},
            "^op: 'poke' given; expected one of move, publish, retract, subscribe, unsubscribe",
        ),
        ({"op": ["publish"]}, r"^op: \['publish'\] given"),
        ({"op": None}, "^op: missing"),
        ({"id": ""}, "^id: '' given"),
        ({"id": 7}, "^id: 7 given; expected a string"),
        ({"text": 5}, "^text: 5 given; expected a string"),
        ({"point": [1, 91]}, r"^point\[1\]: 91 given; expected a latitude in \[-90, 90\]"),
        ({"point": [181, 0]}, r"^point\[0\]: 181 given; expected a longitude"),
        ({"point": [1]}, r"^point: \[1\] given; expected a position"),
        ({"point": "1,2"}, "^point: '1,2' given"),
        ({"point": None}, "^point: missing"),
        ({"region": BOX}, "^region: .*either a point or a region"),
        ({"point": None, "region": {"type": "Circle", "center": [0, 0], "radius": 5}}, "a Box"),
        ({"point": None, "region": 5}, "^region: 5 given; expected an object"),
        ({"point": None, "region": {"type": "Blob"}}, r"^region\.type: 'Blob' given"),
        (
            {"point": None, "region": {"type": "Box", "bbox": [0, 5, 1, 4]}},
            r"^region\.bbox\[1\]: 5",
        ),
        ({"at": "now"}, "^at: 'now' given; expected a finite number of seconds"),
        ({"ttl": -1}, "^ttl: -1 given; expected 0 or more"),
    ],
)
def test_a_bad_field_is_named_with_its_value(change: dict[str, Any], expected: str) -> None:
    with pytest.raises(InvalidValue, match=expected):
        event_from_json(PUBLISH | change)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (SUBSCRIBE | {"query": None, "region": None}, "^query: missing"),
        (SUBSCRIBE | {"top": {"k": 1, "alpha": 1}}, "^point: missing"),
        (SUBSCRIBE | {"filter": "a"}, "^top: missing; expected .* beside a filter"),
        (SUBSCRIBE | {"ttl": 0}, "^ttl: 0 given; expected a number of seconds greater than 0"),
        (SUBSCRIBE | {"ops": []}, r"^ops: \[\] given; expected a list of one or more of add"),
        (SUBSCRIBE | {"ops": ["stop"]}, "^ops: 'stop' given"),
        (SUBSCRIBE | {"meta": [1]}, r"^meta: \[1\] given; expected a JSON object"),
        (SUBSCRIBE | {"meta": {"a": "x" * 4096}}, "^meta: .*at most 4,096 bytes; this has 4,104"),
        (RANKED | {"query": None}, "^query: missing"),
        (RANKED | {"top": {"k": 1, "alpha": 1, "scale": 0}}, r"^top\.scale: 0 given"),
        (RANKED | {"top": {"k": 1, "alpha": 1, "min_score": "x"}}, r"^top\.min_score: 'x' given"),
        ({"op": "retract"}, "^id: missing"),
        ({"op": "move", "id": "s1", "region": BOX, "ttl": -1}, "^ttl: -1 given"),
        (RANKED | {"top": {"k": 0, "alpha": 1}}, r"^top\.k: 0 given"),
        (RANKED | {"top": {"k": 1}}, r"^top\.alpha: missing"),
        (RANKED | {"top": 5}, "^top: 5 given"),
        ({"op": "move", "id": "s1"}, "^region: missing; expected where to move to"),
        ({"op": "unsubscribe"}, "^id: missing"),
        ([1, 2], r"^event: \[1, 2\] given; expected an object"),
    ],
)
def test_what_does_not_go_together_is_refused(fields: Any, expected: str) -> None:
    with pytest.raises(InvalidValue, match=expected):
        event_from_json(fields)


def test_a_missing_field_is_an_invalid_value() -> None:
    assert issubclass(MissingField, InvalidValue)
    assert issubclass(InvalidValue, ValueError)


lons = st.floats(-180, 180)
lats = st.floats(-90, 90)
points = st.tuples(lons, lats)
boxes = st.builds(lambda w, e, a, b: Box(w, min(a, b), e, max(a, b)), lons, lons, lats, lats)
circles = st.builds(Circle, points, st.floats(0, 3e7))
polygons = st.builds(
    lambda x, y, r: Polygon([[(x, y), (x + r, y), (x, y + r), (x, y)]]),
    st.floats(-170, 170),
    st.floats(-80, 80),
    st.floats(0.1, 9),
)
several = st.lists(polygons, min_size=1, max_size=3).map(MultiPolygon.of_polygons)
regions = boxes | circles | polygons | several
ids = st.text(min_size=1, max_size=60).filter(
    lambda t: t.isprintable() and len(t.encode(errors="replace")) <= 255
)
words = st.text("abc ", max_size=20)
times = st.none() | st.floats(-1e9, 1e9)
tops = st.builds(Top, st.integers(1, 1000), st.floats(0, 1))
subscriptions = st.builds(Subscription, ids, words, regions) | st.builds(
    lambda i, q, p, t: Subscription(i, q, point=p, top=t), ids, words, points, tops
)
messages = st.builds(
    lambda i, t, p, at, ttl: Message(i, t, p, at=at, ttl=ttl),
    ids,
    words,
    points,
    times,
    st.floats(0, 1e6),
) | st.builds(lambda i, t, b, at: Message(i, t, region=b, at=at), ids, words, boxes, times)
events: st.SearchStrategy[Event] = st.one_of(
    st.builds(Subscribe, subscriptions, times),
    st.builds(lambda i, r, at: Move(i, r, at=at), ids, regions, times),
    st.builds(lambda i, p, at: Move(i, point=p, at=at), ids, points, times),
    st.builds(Unsubscribe, ids, times),
    st.builds(Publish, messages),
)


@given(events)
def test_an_event_written_and_read_is_the_same_event(event: Event) -> None:
    assert event_from_json(event_to_json(event)) == event
