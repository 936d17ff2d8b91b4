"""The engine on an index gives exactly the updates of `scan`, by rows and by columns."""

import tracemalloc
from collections.abc import Iterator
from functools import cache
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nearcast import Box, Engine, NearcastError, Top, Update, index
from nearcast.arrays.slots import term_hash
from nearcast.engine import INDEX_NAMES
from nearcast.engine.changes import EngineChanges
from nearcast.engine.indexed import Indexed
from nearcast.engine.terms import TermIds
from nearcast.events import Event, event_from_json
from nearcast.events.parquet import as_row
from nearcast.events.reader import CheckedEvents
from nearcast.index import Table
from nearcast.text import DEFAULT, Analyser
from nearcast_lab.workloads import WORKLOADS, generate

INDEXES = [name for name in INDEX_NAMES if name not in ("auto", "scan")]

coordinates = st.sampled_from([-180.0, -1.0, 0.0, 0.1, 1.0, 2.0, 179.9, 180.0])
latitudes = st.sampled_from([-90.0, -1.0, 0.0, 0.1, 1.0, 2.0, 89.9, 90.0])
points = st.tuples(coordinates, latitudes)
boxes = st.builds(
    lambda w, e, a, b: {"type": "Box", "bbox": [w, min(a, b), e, max(a, b)]},
    coordinates, coordinates, latitudes, latitudes,
)  # fmt: skip
circles = st.builds(
    lambda c, r: {"type": "Circle", "center": list(c), "radius": r},
    points, st.sampled_from([0.0, 1e5, 5e6, 3e7]),
)  # fmt: skip
triangle = {"type": "Polygon", "coordinates": [[[0, 0], [2, 0], [0, 2], [0, 0]]]}
several = {
    "type": "MultiPolygon",
    "coordinates": [
        triangle["coordinates"],
        [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]],
        [[[179, -2], [180, -2], [180, 2], [179, 2], [179, -2]]],
        [[[-180, -2], [-179, -2], [-179, 2], [-180, 2], [-180, -2]]],
    ],
}
regions = boxes | circles | st.sampled_from([triangle, several])
queries = st.sampled_from(
    ["a", "b", "a b", "a OR b", "a NOT b", "(a OR b) NOT c", "c", "a b c", "é", "a NOT a", "z"]
)
ids = st.sampled_from(["s1", "s2", "s3", "s4"])
texts = st.lists(st.sampled_from(["a", "b", "c", "É", "x", "A!"]), max_size=4).map(" ".join)
subscribes = st.builds(
    lambda i, q, r: {"op": "subscribe", "id": i, "query": q, "region": r}, ids, queries, regions
)
rankings = st.builds(
    lambda i, p: {
        "op": "subscribe", "id": i, "query": "a b", "point": list(p), "top": {"k": 2, "alpha": 0.5},
    },
    ids, points,
)  # fmt: skip
moves = st.builds(lambda i, r: {"op": "move", "id": i, "region": r}, ids, regions)
leaves = st.builds(lambda i: {"op": "unsubscribe", "id": i}, ids)
publishes = st.builds(
    lambda t, p, ttl: {"op": "publish", "text": t, "point": list(p), "ttl": ttl},
    texts, points, st.sampled_from([0, 0, 5]),
)  # fmt: skip
ranges = st.builds(lambda t, r: {"op": "publish", "text": t, "region": r}, texts, boxes)
steps = st.one_of(subscribes, subscribes, rankings, moves, leaves, publishes, publishes, ranges)


def test_every_index_can_be_asked_for_by_name() -> None:
    assert set(INDEX_NAMES) == {"auto", "scan", *index.INDEXES}


def outcome(engine: Engine, event: Event) -> Any:
    try:
        return engine.apply(event)
    except NearcastError as error:
        return str(error)


@pytest.mark.parametrize("index", INDEXES)
@settings(max_examples=60, deadline=None)
@given(log=st.lists(steps, max_size=30))
def test_any_log_gives_the_updates_of_scan(index: str, log: list[dict[str, Any]]) -> None:
    engine, scan = Engine(index=index, window_count=3), Engine(index="scan", window_count=3)
    for number, fields in enumerate(log):
        event = event_from_json({"id": f"m{number}"} | fields | {"at": number})
        assert outcome(engine, event) == outcome(scan, event)
    assert sorted(map(str, engine.subscriptions())) == sorted(map(str, scan.subscriptions()))
    for subscription in scan.subscriptions():
        assert engine.results(subscription.id) == scan.results(subscription.id)


@cache
def scanned(kind: str) -> list[tuple[Event, list[Update]]]:
    """The events of a workload, and what each does by definition."""
    scan = Engine(index="scan")
    log = generate(kind, subscriptions=150, messages=150, seed=4)
    return [(event, scan.apply(event)) for event in map(event_from_json, log)]


@pytest.mark.parametrize("value", ["5", "⁵", "５", 5, 5.0, [4, "⁵"]])
def test_what_equals_a_number_as_text_is_found_too(value: object) -> None:
    """Strings are compared by NFKC and casefold, also those that read as numbers only then."""
    for chosen in ("scan", "rarest-term"):
        engine = Engine(index=chosen)
        engine.subscribe("s", "p:5")
        assert len(engine.publish("m", point=(0, 0), properties={"p": value})) == 1, chosen


@pytest.mark.parametrize("parts", [1, 2, 499, 500, 8_000])
def test_a_property_at_the_end_of_a_long_path_takes_memory_for_the_path_once(parts: int) -> None:
    """No message has one that is more than 500 objects deep, but a query may ask for it."""
    engine, scan = Engine(index="rarest-term"), Engine(index="scan")
    path = ".".join(["é"] * parts)
    tracemalloc.start()
    for each in (engine, scan):
        each.subscribe("s", f"{path}:<5 OR {path}:x")
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < 3_000_000
    for value in (4, "x", "y", [6, {"é": 4}]):
        nested: Any = value
        for _ in range(min(parts, 498)):
            nested = {"é": nested}
        expected = scan.publish("m", point=(0, 0), properties=nested)
        assert engine.publish("m", point=(0, 0), properties=nested) == expected
        assert bool(expected) or value not in (4, "x") or parts >= 499
    engine.unsubscribe("s")
    assert engine.publish("m", point=(0, 0), properties={"é": 4}) == []


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("kind", sorted(WORKLOADS))
def test_every_workload_gives_the_updates_of_scan(index: str, kind: str) -> None:
    engine = Engine(index=index)
    for event, expected in scanned(kind):
        assert engine.apply(event) == expected
    assert any(expected for _, expected in scanned(kind)) or kind in ("small", "moving")


def batches(messages: list[tuple[str, str, tuple[float, float]]], size: int) -> Iterator[pa.Table]:
    for start in range(0, len(messages), size):
        part = messages[start : start + size]
        yield pa.table(
            {
                "id": [m[0] for m in part],
                "text": [m[1] for m in part],
                "point": pa.array([m[2] for m in part], pa.list_(pa.float64())),
            }
        )


@settings(max_examples=40, deadline=None)
@given(
    people=st.lists(st.tuples(queries, regions), max_size=12),
    sent=st.lists(st.tuples(texts, points), max_size=20),
    size=st.integers(1, 7),
)
def test_columns_give_what_single_calls_give(
    people: list[tuple[str, dict[str, Any]]],
    sent: list[tuple[str, tuple[float, float]]],
    size: int,
) -> None:
    fast, slow = Engine(index="rarest-term", window_count=4), Engine(index="scan", window_count=4)
    table = pa.table(
        {
            "id": pa.array([f"s{n}" for n in range(len(people))], pa.string()),
            "query": pa.array([q for q, _ in people], pa.string()),
            "region": [as_row({"region": r})["region"] for _, r in people],
        }
    )
    fast.subscribe_table(table)
    slow.subscribe_table(table)
    messages = [(f"m{n}", text, point) for n, (text, point) in enumerate(sent)]
    for batch in batches(messages, size):
        assert fast.publish_table(batch).to_pylist() == slow.publish_table(batch).to_pylist()
    late = (Top(3, 0.25), (0.0, 0.0))
    assert fast.subscribe("late", "a c", point=late[1], top=late[0]) == slow.subscribe(
        "late", "a c", point=late[1], top=late[0]
    )


def test_plain_subscriptions_and_messages_take_the_fast_path() -> None:
    engine = Engine(index="rarest-term")
    core = engine._core
    assert isinstance(core, Indexed)
    from nearcast.engine.bulk import subscribe_columns
    from nearcast.engine.publishing import publish_columns

    region = {"type": "Box", "bbox": [0.0, 0.0, 1.0, 1.0]}
    people = pa.table({"id": ["s1", "s2"], "query": ["a b", "É"], "region": [region, region]})
    changes = EngineChanges(0, 0)
    assert subscribe_columns(core, CheckedEvents(people, "subscribe"), changes) is not None
    sent = next(batches([("m1", "B a", (0.5, 0.5)), ("m2", "é", (0.0, 1.0))], 2))
    found = publish_columns(core, CheckedEvents(sent, "publish"), changes)
    assert found is not None
    assert found["subscription"].to_pylist() == ["s1", "s2"]
    # The same ids again replace messages that were matched once, and are no results any more.
    again = publish_columns(core, CheckedEvents(sent, "publish"), changes)
    assert again is not None
    assert again["op"].to_pylist() == ["add", "add"]
    odd = people.set_column(0, "id", pa.array(["s3", "s4"]))
    odd = odd.set_column(1, "query", pa.array(["a OR b", "c"]))
    assert subscribe_columns(core, CheckedEvents(odd, "subscribe"), changes) is not None
    assert changes.seq == 8


def test_the_window_remembers_messages_that_came_as_columns() -> None:
    engine = Engine(index="rarest-term", window_count=2)
    engine.publish_table(next(batches([(f"m{n}", "a", (float(n), 0.0)) for n in range(5)], 5)))
    updates = engine.subscribe("s", "a", point=(0, 0), top=Top(5, 1))
    assert [u.message for u in updates] == ["m3", "m4"]
    assert engine.publish("m4", "a", (0, 0)) == [Update("change", "s", "m4", 1.0)]
    assert [u.op for u in engine.publish("m2", "a", (0, 0))] == ["add", "remove"]


def test_points_outside_the_space_are_refused_in_columns_too() -> None:
    engine = Engine(index="rarest-term", space=Box(0, 0, 3, 4))
    with pytest.raises(NearcastError, match=r"row 1: point: \(9\.0, 9\.0\) given"):
        engine.publish_table(next(batches([("m1", "a", (0.0, 0.0)), ("m2", "a", (9.0, 9.0))], 2)))


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.text(st.sampled_from("aBcß ÉéＡ1_-é日"), max_size=12), max_size=8),
    st.booleans(),
)
def test_term_numbers_are_those_of_the_analyser(texts: list[str], stop: bool) -> None:
    analyser = Analyser(stop_words=["a"]) if stop else DEFAULT
    table = Table()
    terms = TermIds(table, analyser)
    known = pa.array(texts[::2], pa.string())
    terms.read(known, intern=True)
    names = {number: term for term, number in terms._ids.items()}
    vocabulary = {term for text in texts[::2] for term in analyser.terms(text)}
    assert set(names.values()) == vocabulary
    assert sorted(names) == list(range(len(vocabulary)))
    batch = terms.read(pa.array(texts, pa.string()))
    for number, text in enumerate(texts):
        found = batch.terms[batch.starts[number] : batch.starts[number + 1]].tolist()
        assert len(found) == len(set(found))
        assert {names[id] for id in found} == analyser.terms(text) & vocabulary


def test_many_new_terms_are_numbered_in_several_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.engine.terms._FRESH_TERMS", 8)
    table = Table()
    terms = TermIds(table, DEFAULT)
    texts = [" ".join(f"t{n}x{k}" for k in range(n % 5)) for n in range(200)]
    batch = terms.read(pa.array(texts), intern=True)
    names = {number: term for term, number in terms._ids.items()}
    for number, text in enumerate(texts):
        found = batch.terms[batch.starts[number] : batch.starts[number + 1]].tolist()
        assert [names[id] for id in found] == text.split()
    assert len(table.frequency) >= len(terms)


def test_terms_of_ended_subscriptions_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fresh terms come for ever, few subscriptions are alive: nothing grows with the former."""
    worth = 512
    monkeypatch.setattr("nearcast.engine.terms._WORTH_SWEEPING", worth)
    engine = Engine(index="rarest-term", window_count=10)
    sizes = []
    for turn in range(12):
        for number in range(400):
            n = 400 * turn + number
            query = f"new{n} both{n} NOT not{n}" if n % 3 else f"fresh{n}"
            engine.subscribe(f"s{number % 50}", query, Box(0, 0, 1, 1))
            if n % 10 == 0:
                engine.publish(f"m{n}", f"new{n + 1} old{n}", (0.5, 0.5), at=float(n), ttl=5.0)
        engine.unsubscribe("s7")
        population = cast("Indexed", engine._core).boolean
        terms = population.terms
        arrays = (terms._seen, terms._hashes, terms._slots, population.table.frequency)
        sizes.append((len(terms._kept), *(len(array) for array in arrays)))
        assert len(terms) <= 3 * worth
        assert len(terms._ids) <= 2 * worth
    assert sizes[3] == sizes[-1]
    last = 400 * 12 - 1
    found = engine.publish("last", f"new{last} both{last} fresh{last}", (0.5, 0.5))
    assert [update.subscription for update in found] == [f"s{399 % 50}"]
    assert len(terms.kept().numbers) <= 3 * 50  # what a snapshot has


def test_terms_of_ended_top_k_subscriptions_are_freed() -> None:
    engine = Engine(index="rarest-term", window_count=10)
    sizes = []
    for turn in range(8):
        for number in range(1000):
            query = f"new{1000 * turn + number} both{number}"
            engine.subscribe(f"s{number % 20}", query, point=(0.5, 0.5), top=Top(2, 0.5))
        terms = cast("Indexed", engine._core).ranked._terms
        sizes.append((len(terms._slots), terms._next <= len(terms._slots)))
    assert sizes[2] == sizes[-1]


def test_a_swept_term_stays_while_an_active_message_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nearcast.engine.terms._WORTH_SWEEPING", 1)
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "jazz blues", Box(0, 0, 1, 1), at=0.0)
    engine.publish("m", "jazz", (0.5, 0.5), ttl=10.0)
    for number in range(5):
        engine.subscribe("s", f"other{number}", Box(0, 0, 1, 1))
    terms = cast("Indexed", engine._core).boolean.terms
    assert "jazz" not in terms._ids
    assert "blues" not in terms._ids
    assert [update.message for update in engine.subscribe("t", "jazz", Box(0, 0, 1, 1))] == ["m"]
    engine.unsubscribe("t")
    engine.unsubscribe("s")
    engine.subscribe("u", "late", Box(0, 0, 1, 1), at=20.0)
    engine.publish("n", "late", (0.5, 0.5), at=21.0)
    assert len(terms) <= 2
    assert terms._lent == len(terms) - len(terms._ids)


def test_strings_that_were_chosen_to_crowd_tables_do_not_do_so() -> None:
    """Their plain hashes all begin at the same place; here they are hashed with a secret."""
    chosen = [word for n in range(60_000) if term_hash(word := f"w{n}") & 0xFF == 0]
    assert len(chosen) > 100
    engine = Engine(index="rarest-term", window_count=1000)
    engine.subscribe("top", "w0", point=(0.5, 0.5), top=Top(1, 0.5))
    for word in chosen:
        engine.subscribe(word, word, Box(0, 0, 1, 1))
        engine.publish(word, word, (0.5, 0.5))
    core = cast("Indexed", engine._core)
    tables = (
        core.boolean.terms._slots,
        core.ranked._terms._slots,
        core.ranked._messages.ids._slots,
    )
    for slots in tables:
        firsts = slots[slots[:, 1] != np.uint64(2**64 - 1), 0]
        assert len(firsts) >= len(chosen)
        assert len(np.unique(firsts & np.uint64(0xFF))) > len(chosen) // 4
