"""A table that compacts at every removal, and matching in threads, give the updates of `scan`."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast import Circle, Engine, Polygon
from nearcast.arrays.types import Int32s
from nearcast.engine import INDEX_NAMES
from nearcast.events import event_from_json
from nearcast.index import Table

INDEXES = [name for name in INDEX_NAMES if name not in ("auto", "scan")]
ids = st.sampled_from([f"s{n}" for n in range(8)])
lons = st.sampled_from([-180.0, -179.5, -170.0, -1.0, 0.0, 1.0, 3.0, 170.0, 179.5, 180.0])
lats = st.sampled_from([-90.0, -89.0, -1.0, 0.0, 1.0, 3.0, 89.0, 90.0])
boxes = st.builds(
    lambda w, e, a, b: {"type": "Box", "bbox": [w, min(a, b), e, max(a, b)]}, lons, lons, lats, lats
)
circles = st.builds(
    lambda lon, lat, r: {"type": "Circle", "center": [lon, lat], "radius": r},
    lons, lats, st.sampled_from([0.0, 5e4, 3e5, 2e6]),
)  # fmt: skip
polygons = st.sampled_from(
    [
        [[[0, 0], [3, 0], [0, 3], [0, 0]]],
        [[[-1, -1], [4, -1], [4, 4], [-1, 4], [-1, -1]], [[0, 0], [2, 0], [2, 2], [0, 2], [0, 0]]],
        [[[170, -1], [180, -1], [180, 1], [170, 1], [170, -1]]],
        [[[-180, -1], [-170, 0], [-180, 1], [-180, -1]]],
    ]
).map(lambda rings: {"type": "Polygon", "coordinates": rings})
regions = boxes | circles | polygons
queries = st.sampled_from(
    ["a", "b c", "a OR b", "a NOT b", "(a OR b) NOT (c d)", "b NOT a NOT c OR d", "é", "a NOT a"]
)
texts = st.lists(st.sampled_from("abcdé"), max_size=4).map(" ".join)
points = st.tuples(lons, lats).map(list)


_remove = Table.remove


def remove_and_compact(table: Table, rows: Int32s) -> None:
    _remove(table, rows)
    table._compact()


def event(op: str, **fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"op": st.just(op), **fields})


joins = event("subscribe", id=ids, query=queries, region=regions)
steps = st.one_of(
    joins,
    joins,
    joins,
    event("subscribe", id=ids, query=st.just("a"), region=circles | polygons),
    event("move", id=ids, region=regions),
    event("unsubscribe", id=ids),
    event("publish", text=texts, region=boxes),
    event("publish", text=texts, point=points),
    event("table", sent=st.lists(st.tuples(texts, points), min_size=1, max_size=9)),
    event("plain", queries=st.lists(st.sampled_from(["a", "b a", "é"]), min_size=1, max_size=4)),
)


@pytest.mark.parametrize("index", INDEXES)
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(log=st.lists(steps, min_size=5, max_size=40))
def test_any_log_gives_the_updates_of_scan_while_the_table_compacts(
    index: str, monkeypatch: pytest.MonkeyPatch, log: list[dict[str, Any]]
) -> None:
    monkeypatch.setattr(Table, "remove", remove_and_compact)
    monkeypatch.setattr("nearcast.engine.bulk.FEW", 1)
    monkeypatch.setattr("nearcast.engine.replacing.FEW", 1)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    engine, scan = Engine(index=index), Engine(index="scan")
    known: set[str] = set()
    for number, fields in enumerate(log):
        if fields["op"] == "table":
            sent = fields["sent"]
            table = pa.table(
                {
                    "id": [f"m{number}.{n}" for n in range(len(sent))],
                    "text": [text for text, _ in sent],
                    "point": pa.array([point for _, point in sent], pa.list_(pa.float64())),
                }
            )
            found = engine.publish_table(table).to_pylist()
            assert found == scan.publish_table(table).to_pylist()
        elif fields["op"] == "plain":
            words = fields["queries"]
            box = {"type": "Box", "bbox": [-180.0, 0.0, 3.0, 1.0]}
            names = [f"p{number}.{n}" for n in range(len(words))]
            table = pa.table({"id": names, "query": words, "region": [box] * len(words)})
            engine.subscribe_table(table)
            scan.subscribe_table(table)
            for name in names[1:]:
                engine.unsubscribe(name)
                scan.unsubscribe(name)
        elif fields["op"] in ("subscribe", "publish") or fields["id"] in known:
            if fields["op"] != "publish":
                known = known - {fields["id"]}
                known |= set() if fields["op"] == "unsubscribe" else {fields["id"]}
            made = event_from_json({"id": f"m{number}"} | fields)
            assert engine.apply(made) == scan.apply(made)
    assert sorted(map(str, engine.subscriptions())) == sorted(map(str, scan.subscriptions()))
    for number, point in enumerate(
        [(0, 1), (0.2, 0.2), (3, 3), (179.6, 0.1), (-179.7, 0), (170, 3)]
    ):
        for text in ("a", "a b", "b c é"):
            sent = f"after{number}{text}", text, point
            assert engine.publish(*sent) == scan.publish(*sent)


@pytest.mark.parametrize("index", INDEXES)
def test_each_shape_is_still_where_it_was_after_others_went(
    index: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Table, "remove", remove_and_compact)
    engine = Engine(index=index)
    for n in range(30):
        lon = 10.0 * n - 150
        engine.subscribe(f"c{n:02}", "a NOT b OR c NOT d NOT e", Circle((lon, 0), 1e5 + n))
        ring = [(lon, 20), (lon + 2, 20), (lon, 22 + n / 100), (lon, 20)]
        engine.subscribe(f"p{n:02}", "a NOT b", Polygon([ring]))
    for n in range(0, 30, 3):
        engine.unsubscribe(f"c{n:02}")
        engine.unsubscribe(f"p{n:02}")
    for n in range(30):
        lon, there = 10.0 * n - 150, n % 3 > 0
        for kind, lat in (("c", 0.0), ("p", 20.5)):
            found = engine.publish(f"{kind}{n}", "a", (lon + 0.1, lat))
            assert [u.subscription for u in found] == ([f"{kind}{n:02}"] if there else [])
            assert engine.publish(f"{kind}{n}.", "a b", (lon + 0.1, lat)) == []
