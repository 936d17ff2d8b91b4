"""Tables of messages with properties, and of objects that move, give the updates of `Scan`."""

import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nearcast import Box, Circle, Engine, NearcastError, Polygon, Subscription
from nearcast.engine import Scan
from nearcast.events import Message, Publish, Retract, Subscribe, Unsubscribe, Update

EXAMPLES = settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))

OPERANDS = [
    "red", "wine", "bar", '"red wine"', '"wine bar"', '"red wine bar"', '"a red wine bar open"',
    "re*", "win*", "bar*", "kind:food", 'kind:"5"', "kind:true", 'kind:"true"', "price:5",
    "price:5.0",
    "price:<5", "price:>=2.5", "price:[1 TO 5]", "price:*", "tags:a", "a.b:1", "a.b:<3", "kind:*",
    "price:<9007199254740993", "price:-0", "price:0.5",
]  # fmt: skip
REGIONS = [
    None, Box(0, 0, 2, 2), Circle((1, 1), 90_000), Circle((1, 1), 3), Circle((0, 0), 200_000),
    Box(179, -1, -179, 1), Circle((180, 0), 50_000), Circle((0, 90), 120_000),
    Polygon((((0, 0), (2, 0), (0, 2), (0, 0)),)),
]  # fmt: skip
VALUES = [
    None, True, False, 0, -0.0, 5, 5.0, 2.5, 4.999, 0.00001, -3, 1e30, 9007199254740992,
    9007199254740993, "food", "Food", "5", "5.0", "true", "", "é", 'a "b"', [], [1, "a"], [None],
    {"b": 1}, {"b": [2, 5]}, [[1], 7], 0.5, 100,
]  # fmt: skip
ODD_JSON = [
    '{"price":5,"price":1}', ' { "kind" : "food" , "price":2.50 } ', '{"price":5e0}', "{}", "null",
    '{"kind":"fo\\u006fd"}', '{"a.b":1}', '{"price":5.10,"tags":[ ]}', '{"tags":["a" ,"b"]}',
    '{"price":0.000100}', '{"price":-0}', '{"kind":"FOOD","a":{"b":1}}',
    '{"price":123456789012345678}',
]  # fmt: skip

conjuncts = st.lists(
    st.tuples(st.booleans(), st.sampled_from(OPERANDS)), min_size=1, max_size=3
).map(lambda some: " ".join(("NOT " if no and n else "") + one for n, (no, one) in enumerate(some)))
queries = st.one_of(
    st.none(), st.just("*"), st.lists(conjuncts, min_size=1, max_size=2).map(" OR ".join)
)
objects = st.dictionaries(st.sampled_from(["price", "kind", "tags", "a"]), st.sampled_from(VALUES))
properties = st.one_of(st.none(), objects.map(json.dumps), st.sampled_from(ODD_JSON))
known = st.sampled_from(["red", "wine", "bar", "a", "open", "Wine,", "RED", "rede", "é", "winery"])
many = st.integers(0, 400).map("wi{}".format)  # more than an engine has room for at first
words = st.one_of(known, known, many)
points = st.tuples(
    st.sampled_from([0.0, 0.5, 1.0, 1.00002, 1.5, 180.0, -180.0, 179.7]),
    st.sampled_from([0.0, 0.4, 1.0, 1.9, 89.5]),
)
rows = st.tuples(
    st.sampled_from(["m1", "m2", "m3", "m4", "m5", "m6"]),
    st.lists(words, max_size=6).map(" ".join),
    points,
    properties,
    st.sampled_from([0.0, 0.0, 5.0, 50.0]),
    st.sampled_from([0.0, 0.0, 1.0, 10.0]),
)


def subscription(id: str, query: str | None, region: Any) -> Subscription:
    return Subscription(id, "*" if query is None and region is None else query, region)


def table_of(sent: list[tuple[Any, ...]], now: float) -> tuple[pa.Table, list[Message], float]:
    messages, at = [], []
    for id, text, point, written, ttl, later in sent:
        now += later
        at.append(now)
        decoded = None if written is None else json.loads(written)
        messages.append(Message(id, text, point, None, now, ttl, decoded))
    columns = {
        "id": pa.array([row[0] for row in sent], pa.string()),
        "text": pa.array([row[1] for row in sent], pa.string()),
        "point": pa.array([list(row[2]) for row in sent], pa.list_(pa.float64())),
        "properties": pa.array([row[3] for row in sent], pa.string()),
        "ttl": pa.array([row[4] for row in sent], pa.float64()),
        "at": pa.array(at, pa.float64()),
    }
    return pa.table(columns), messages, now


def rows_of(scan: Scan, messages: list[Message]) -> list[tuple[int, str, str, str]]:
    return [
        (row, update.op, update.subscription, update.message)
        for row, message in enumerate(messages)
        for update in scan.apply(Publish(message))
    ]


@EXAMPLES
@given(
    st.lists(st.tuples(queries, st.sampled_from(REGIONS)), min_size=1, max_size=8),
    st.lists(st.lists(rows, min_size=1, max_size=12), min_size=1, max_size=4),
    st.sampled_from([3, 1000]),
    st.integers(0, 3),
)
@example(
    [('red NOT "wine bar"', None)], [[("m1", "red wine bar", (0.0, 0.0), None, 0.0, 0.0)]], 3, 0
)
def test_tables_give_the_updates_of_scan(
    people: list[tuple[str | None, Any]],
    tables: list[list[tuple[Any, ...]]],
    window: int,
    leaving: int,
) -> None:
    """Properties, phrases, prefixes, geofences, and messages that replace others."""
    engine = Engine(index="rarest-term", window_count=window)
    scan = Scan(engine.settings)
    for number, (query, region) in enumerate(people):
        one = subscription(f"s{number}", query, region)
        expected = _answer(partial(scan.apply, Subscribe(one)))
        assert _answer(partial(engine.subscribe, one)) == expected
    now = 0.0
    for number, sent in enumerate(tables):
        table, messages, now = table_of(sent, now)
        found = engine.publish_table(table)
        columns = (found[name].to_pylist() for name in ("event", "op", "subscription", "message"))
        assert list(zip(*columns, strict=True)) == rows_of(scan, messages)
        for id in ("m1", "m2", "m3"):
            assert engine.message(id) == scan.message(id)
        if number == leaving and "s0" in scan.ids():
            assert engine.unsubscribe("s0") == scan.apply(Unsubscribe("s0"))
            if scan.active.has("m1", now):
                assert engine.retract("m1") == scan.apply(Retract("m1"))
    late = subscription("late", 'red OR price:* OR "wine bar"', Circle((1, 1), 90_000))
    assert engine.subscribe(late) == scan.apply(Subscribe(late))
    for id in scan.ids():
        assert engine.results(id) == scan.results(id)


def _answer(ask: Callable[[], list[Update]]) -> list[Update] | str:
    try:
        return ask()
    except NearcastError as error:
        return str(error)
