"""What a durable engine keeps of messages that left early, and of subscriptions that end."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import nearcast.store.messages as messages_module
from nearcast import Box, Engine, Message, MultiPolygon, Polygon, Result, Subscription, Top
from nearcast.engine import Scan
from nearcast.events import Event, Move, Publish, Retract, Subscribe, Update
from nearcast.store.export import export_events
from nearcast.store.migrations import words_only
from nearcast.store.webhooks import Webhook
from nearcast.text import parse_query

AREA = Box(0, 0, 1, 1)
RING = [(0.0, 0.0), (1.0, 0.0), (0.0, 1.0), (0.0, 0.0)]
BEST = Subscribe(Subscription("best", "a", point=(0, 0), top=Top(5, 0.5)))
GOLDEN = Path(__file__).parents[1] / "golden"

Open = Callable[..., Engine]


@pytest.fixture(params=["scan", "rarest-term"])
def reopened(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Open]:
    """The engine of a file, which is closed first if it is open."""
    engines: list[Engine] = []

    def opened(**given: Any) -> Engine:
        for engine in engines:
            engine.close()
        engines.append(Engine(path=tmp_path / "e.nearcast", index=request.param, **given))
        return engines[-1]

    yield opened
    for engine in engines:
        engine.close()


def message(id: str, ttl: float = 0.0, at: float | None = None, **given: Any) -> Publish:
    return Publish(Message(id, "a", (0.5, 0.5), at=at, ttl=ttl, **given))


def found(engine: Engine, id: str = "best") -> set[str]:
    return {result.message for result in engine.results(id)}


def count(engine: Engine, table: str) -> int:
    store: Any = engine._journal
    rows = store._connection.execute(f"SELECT count(*) FROM {table}")  # noqa: S608 - a name of ours
    return int(rows.fetchone()[0])


def test_what_was_displaced_does_not_return(reopened: Open) -> None:
    """Neither when the window has room again, nor although the message is still active."""
    engine = reopened(window_count=2)
    engine.apply_all([BEST, message("m1", ttl=100), message("m2"), message("m3")])
    engine.apply(Retract("m2"))
    assert found(engine) == {"m3"}
    engine = reopened()
    assert found(engine) == {"m3"}
    assert engine.message("m1") is not None
    assert engine.message("m2") is None
    engine.apply(message("m4"))
    assert found(engine) == {"m3", "m4"}


def test_what_was_displaced_does_not_return_from_an_export(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    with Engine(path=path, index="scan", window_count=3) as engine:
        sent = [message("filler-1"), message("m1", ttl=100), *map(message, ["m2", "m3", "m4"])]
        engine.apply_all([BEST, *sent, Retract("m2"), Retract("m3")])
        copy = Scan(engine.settings)
        for event in export_events(path):
            copy.apply(event)
        assert copy.results("best") == engine.results("best")
        assert copy.message("m1") == engine.message("m1")
        for each in (message("m5"), message("m6"), message("m7")):
            assert copy.apply(each) == engine.apply(each)


def test_events_of_one_commit_take_effect_in_their_order(reopened: Open) -> None:
    engine = reopened()
    point, area = message("m1", ttl=9), Publish(Message("m1", "a", region=AREA, ttl=9))
    again: list[Event] = [point, Retract("m1"), point, message("m2"), area, Retract("m2")]
    engine.apply_all([BEST, message("stays"), *again])
    engine = reopened()
    assert found(engine) == {"stays"}
    assert engine.message("m2") is None
    kept = engine.message("m1")
    assert kept is not None
    assert kept.region == AREA
    engine.apply_all([point, message("m2"), Retract("m2"), message("m2")])
    engine = reopened()
    assert found(engine) == {"stays", "m1", "m2"}
    assert engine.apply(Retract("m1")) == [Update("remove", "best", "m1")]
    assert reopened().message("m1") is None


def test_an_ended_message_takes_no_place(reopened: Open) -> None:
    engine = reopened(window_count=2)
    engine.apply_all([BEST, message("m1", at=0), message("m2", ttl=5, at=1), message("m3", at=9)])
    assert found(engine) == {"m1", "m3"}
    assert found(reopened()) == {"m1", "m3"}


def test_a_table_with_messages_that_end_meanwhile_keeps_who_was_before_them(
    reopened: Open,
) -> None:
    import pyarrow as pa

    engine = reopened(window_count=2)
    times, lives = [0.0, 1.0, 2.0, 3.0], [0.0, 0.0, 0.5, 0.5]
    table = pa.table(
        {
            "id": ["m1", "m2", "m3", "m4"],
            "text": ["a"] * 4,
            "point": [[0.5, 0.5]] * 4,
            "at": times,
            "ttl": lives,
        }
    )
    engine.publish_table(table)
    engine.apply_all([message("m5", at=9), BEST])
    assert found(engine) == {"m2", "m5"}
    assert found(reopened()) == {"m2", "m5"}


def test_one_id_again_and_again_does_not_fill_the_file(
    reopened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its window is never full, and the oldest message of it stays for ever."""
    monkeypatch.setattr(messages_module, "_WORTH_TIDYING", 20)
    engine = reopened()
    engine.apply_all([BEST, message("stays", properties={"p": 1})])
    for turn in range(100):
        engine.apply_all([message("m"), message("r"), Retract("r")])
        store: Any = engine._journal
        assert store._messages._chunks.rows + count(engine, "withdrawn") <= 2 * 2 + 20 + 3
        if turn % 40 == 0:
            engine = reopened()
    engine = reopened()
    assert found(engine) == {"stays", "m"}
    stays = engine.message("stays")
    assert stays is not None
    assert stays.properties == {"p": 1}


def test_areas_again_and_again_do_not_fill_the_file(reopened: Open) -> None:
    engine = reopened(window_count=1)
    area = Publish(Message("m", "a", region=AREA, ttl=9))
    engine.apply_all([area] * 10)
    assert (count(engine, "lasting"), count(engine, "withdrawn")) == (1, 0)
    engine.apply_all([message("w1"), Retract("w1"), message("w2")])
    engine.apply(message("w3"))
    assert count(engine, "withdrawn") == 0


def test_everything_about_messages_is_kept(reopened: Open) -> None:
    engine = reopened()
    deep = {"a": [1, {"b": None}], "big": 2**60, "x": 0.1, "s": "\u00e9\U0001f600"}
    sent = [
        Message("m1", "\ud800 a", (0.5, 0.5), at=1.0, properties=deep),
        Message("m2", "", (0.5, 0.5), at=1.0, ttl=7.0, properties=deep),
        Message("m3", "a", region=Polygon([RING]), at=2.0, ttl=7.0, properties={}),
        Message("m4", "a", region=MultiPolygon([[RING]]), at=2.0, ttl=7.0),
        Message("m5", "a", region=Box(179, 0, -179, 1), at=2.0, ttl=7.0, properties=deep),
    ]
    engine.apply_all(map(Publish, sent))
    for _ in range(2):
        assert [engine.message(each.id) for each in sent] == sent
        engine = reopened()


EVERY_KIND = [
    Subscription("geofence", region=AREA),
    Subscription("anywhere", 'price:<5 "red wine" ca*'),
    Subscription("both", "* NOT a", Polygon([RING]), ops=("add", "change")),
    Subscription("parts", "a", MultiPolygon([[RING]]), meta={"who": ["x", 1.5]}),
    Subscription("over", "a OR bc*", Box(179, 0, -179, 1)),
    Subscription("t1", "a b", point=(0, 0), top=Top(2, 0.5, scale=1e5, min_score=0.25)),
    Subscription("t2", "a", AREA, (0, 0), Top(2, 0.5), "price:* x\ud800", {"a": 1}, 50.0, ("add",)),
    Subscription("t3", "a", Polygon([RING]), (0, 0), Top(2, 0.5), ttl=5.0),
]


def by_id(subscriptions: list[Subscription]) -> list[Subscription]:
    return sorted(subscriptions, key=lambda each: each.id)


def test_everything_about_subscriptions_is_kept(reopened: Open) -> None:
    engine = reopened()
    for each in EVERY_KIND:
        engine.apply(Subscribe(each, 1.0))
    for turn in range(4):
        assert engine.page() == by_id(EVERY_KIND)
        if turn == 2:
            store: Any = engine._journal
            store._save_snapshot(engine._ready())
        engine = reopened()
    wine = Message("m", "Red wine, cake", (0.5, 0.25), properties={"price": 3})
    heard = {update.subscription for update in engine.publish(wine)}
    assert heard == {"geofence", "anywhere", "both"}


def test_snapshots_know_what_queries_ask_for(reopened: Open) -> None:
    engine = reopened()
    texts = ["p:<5", "p:<7 OR q:x", "ab* NOT b", '"a b"', "*", "p:1 NOT q:*"]
    for number, query in enumerate(texts):
        engine.subscribe(f"s{number}", query, AREA)
    engine.unsubscribe("s0")
    store: Any = engine._journal
    store._save_snapshot(engine._ready())
    engine.subscribe("s1", "p:<9", AREA)
    engine.unsubscribe("s4")
    engine = reopened()
    engine.subscribe("s6", "p:>8", AREA)

    def heard(text: str, **properties: Any) -> list[str]:
        sent = Message("m", text, (0.5, 0.5), properties=properties)
        return [update.subscription for update in engine.publish(sent)]

    assert heard("ab", p=8) == ["s1", "s2"]
    assert heard("a b", p=1) == ["s1", "s3", "s5"]
    assert heard("b", p=1, q="x") == ["s1"]
    assert heard("b", p=10, q="x") == ["s6"]
    for id in ("s1", "s2", "s3", "s5", "s6"):
        engine.unsubscribe(id)
    assert heard("a b", p=1) == []


def test_a_subscription_ends_when_it_would_have(reopened: Open) -> None:
    engine = reopened()
    engine.apply(Subscribe(Subscription("s", "a", AREA, ttl=10), 5.0))
    engine.apply(Subscribe(Subscription("t", "a", AREA, ttl=10), 5.0))
    engine.apply(Move("t", Box(0, 0, 2, 2), at=12.0, ttl=20))
    engine = reopened()
    assert [u.subscription for u in engine.apply(message("m1", at=14.5))] == ["s", "t"]
    engine = reopened()
    assert [u.subscription for u in engine.apply(message("m2", at=15.0))] == ["t"]
    assert engine.page() == [Subscription("t", "a", Box(0, 0, 2, 2), ttl=20.0)]
    engine = reopened()
    assert engine.count == 1
    assert [u.subscription for u in engine.apply(message("m3", at=32.0))] == []
    assert engine.page() == []
    assert count(engine, "subscription") == 0


def test_what_ends_by_itself_ends_everywhere(reopened: Open) -> None:
    """Its webhook, its place in the order of ids, and in the snapshot."""
    engine = reopened()
    engine.apply(Subscribe(Subscription("s", "a", AREA, ttl=10), 0.0))
    engine.apply(Subscribe(Subscription("t", "a", AREA), 0.0))
    engine.webhooks.put(Webhook("s", "https://example.org", "secret", 0))
    engine.webhooks.put(Webhook("t", "https://example.org", "secret", 0))
    store: Any = engine._journal
    store._save_snapshot(engine._ready())
    assert [each.id for each in engine.page()] == ["s", "t"]
    engine.apply(Subscribe(Subscription("s", "a", AREA), 10.0))  # it ended before that
    assert [hook.subscription for hook in engine.webhooks.all()] == ["t"]
    engine.apply(Subscribe(Subscription("s", "a", AREA, ttl=10), 10.0))
    engine.publish("m", "a", (0.5, 0.5), at=25.0)
    assert [each.id for each in engine.page()] == ["t"]
    assert [each.id for each in reopened().page()] == ["t"]


def test_changes_are_in_the_log(reopened: Open) -> None:
    engine = reopened(window_count=5)
    engine.subscribe("s", "a", AREA)
    engine.apply(message("m", ttl=9))
    engine.apply(message("m", ttl=9))
    engine.apply(Retract("m"))
    ops = ["add", "change", "remove"]
    assert [entry.op for entry in engine.log.read(0, 10)] == ops
    assert [entry.op for entry in reopened().log.read(0, 10)] == ops


def test_an_exported_subscription_ends_at_the_same_instant(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    with Engine(path=path, index="scan") as engine:
        for number in range(200):
            ttl = 0.1 + number * 17.3
            engine.apply(Subscribe(Subscription(f"s{number}", "a", AREA, ttl=ttl), 0.1))
        engine.publish("m", "b", (0, 0), at=0.17)
        copy = Scan(engine.settings)
        for event in export_events(path):
            copy.apply(event)
        ends = engine._ready().attributes
        for subscription in engine.subscriptions():
            assert copy.attributes.end_of(subscription.id) == ends.end_of(subscription.id)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("ipad sale", "ipad sale"),
        ("price:5 NOT x:y", "( price 5 ) NOT ( x y )"),
        ('"red wine" OR blue', "red wine OR blue"),
        ("(-- AND a) b NOT (!! ((?)))", "( a ) b"),
        ("\U0001f642 AND a* OR AND:x", "a OR ( and x )"),
    ],
)
def test_queries_of_old_files_mean_what_they_meant(before: str, after: str, tmp_path: Path) -> None:
    assert words_only(before) == after
    path = tmp_path / "store-2.nearcast"
    shutil.copy(GOLDEN / path.name, path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE subscription SET query = ? WHERE id = 'box'", (before,))
        connection.execute("UPDATE subscription SET query = 'a:b \u2122' WHERE id = 'best'")
        connection.commit()
    with Engine(path=path, index="scan") as engine:
        query = engine.page()[1].query
        assert query == after
        assert all(each.is_plain for each in parse_query(query).conjuncts)
        assert engine.page()[0].query == "a b \u2122"
        assert engine.results("best") == []


def test_results_of_lasting_messages_stay_in_order(reopened: Open) -> None:
    engine = reopened(window_count=1)
    engine.subscribe("s", "a", AREA)
    for number in range(12):
        region = AREA if number % 5 == 0 else None
        point = None if region else (0.5, 0.5)
        engine.publish(f"m{number}", "a", point, region=region, ttl=50)
    expected = [Result(f"m{number}") for number in range(12)]
    for _ in range(2):
        assert engine.results("s") == expected
        engine = reopened()


def test_an_update_in_memory_has_its_body_also_for_who_resumes_from_the_file(
    tmp_path: Path,
) -> None:
    """All between the place to resume after and the first update in memory is of others."""
    path = tmp_path / "e.nearcast"
    with Engine(index="scan", path=path) as engine:
        engine.subscribe("s", "a", AREA)
        engine.subscribe("t", "b", AREA, meta={"owner": "ada"})
        engine.publish("m1", "a", (0.5, 0.5))
    with Engine(index="scan", path=path) as engine:
        engine.publish("m2", "b", (0.5, 0.5), at=7.0)
        for names in ("t", None):
            entry = engine.log.complete(engine.log.read(0, 10, names))[-1]
            assert entry.body == {"text": "b", "point": [0.5, 0.5], "at": 7.0}
            assert entry.meta == {"owner": "ada"}
        assert [entry.id for entry in engine.log.read(0, 1)] == [1]
