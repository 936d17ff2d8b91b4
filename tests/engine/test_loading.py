"""Many subscriptions loaded as columns: the same engine as subscribing one by one makes."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from nearcast import Box, Circle, Engine, MultiPolygon, Polygon, Subscription
from nearcast.engine.tables import TableError
from nearcast.errors import InvalidValue
from nearcast.geo import region_to_json

TRIANGLE = Polygon([[(0, 0), (4, 0), (0, 4), (0, 0)]])
WITH_HOLE = Polygon(
    [[(0, 0), (9, 0), (9, 9), (0, 9), (0, 0)], [(1, 1), (2, 1), (2, 2), (1, 2), (1, 1)]]
)
TWO = MultiPolygon.of_polygons([TRIANGLE, Polygon([[(9, 9), (8, 9), (9, 8), (9, 9)]])])
REGIONS = [
    None, Box(0, 0, 2, 2), Box(170, -5, -170, 5), Circle((1, 1), 90_000), Circle((180, 0), 50_000),
    TRIANGLE, WITH_HOLE, TWO, MultiPolygon.of_polygons([TRIANGLE]), Box(-180, -90, 180, 90),
]  # fmt: skip
QUERIES = [
    None, "a", "a b", "a AND (b OR c)", "a NOT b", 'a "b c"', "a NOT \"b c\"", "ab*", "x:5 a",
    "x:<5 x:>1", "y:z", "x:* OR a", "*", "é a", "a NOT x:5", "a NOT a", 'y:"true" a',
    "(a OR b) c",
    "a OR b OR c NOT a",
]  # fmt: skip
MESSAGES = [
    ("a b c", None), ("b c", {"x": 5}), ("a c b", {"x": 3, "y": ["z", True]}),
    ("abc", {"y": "true"}),
    ("é a", {"x": "5"}), ("c", None), ("", {"x": 2.5}), ("a", {"y": "z"}),
]  # fmt: skip
POINTS = [(1.0, 1.0), (0.5, 2.0), (180.0, 0.1), (8.9, 8.9), (1.5, 1.5), (-175.0, 0.0)]


def as_text(region: Any, form: int) -> str | None:
    if region is None:
        return None
    if isinstance(region, Polygon | MultiPolygon) and form:
        shape = shapely.geometry.shape(region.__geo_interface__)
        return str(shapely.to_wkt(shape, rounding_precision=-1))
    return json.dumps(region_to_json(region))


def updates_of(engine: Engine) -> list[Any]:
    found: list[Any] = []
    for number, ((text, properties), point) in enumerate(
        (message, point) for message in MESSAGES for point in POINTS
    ):
        found.append(engine.publish(f"m{number}", text, point, properties=properties))
    return found


some = st.lists(
    st.tuples(st.sampled_from(QUERIES), st.sampled_from(REGIONS), st.integers(0, 1)).filter(
        lambda one: one[0] is not None or one[1] is not None
    ),
    min_size=1,
    max_size=25,
)


@given(some, some, st.data())
def test_columns_and_single_calls_agree(first: Any, second: Any, data: st.DataObject) -> None:
    """Loading, reading back, dropping and moving are those of plain code that got them singly."""
    loaded, plain = Engine(index="rarest-term"), Engine(index="scan")
    given = [(f"s{n}", *one) for n, one in enumerate([*first, *second])]
    for part in (given[: len(first)], given[len(first) :]):
        columns = {
            "id": pa.array([one[0] for one in part]),
            "query": pa.array([one[1] for one in part], pa.string()),
            "region": pa.array([as_text(one[2], one[3]) for one in part], pa.string()),
        }
        assert len(loaded.subscribe_table(pa.table(columns))) == 0
        for id, query, region, _ in part:
            plain.subscribe(id, query, region)
    assert {one.id: one for one in loaded.subscriptions()} == {
        id: Subscription(id, query, region) for id, query, region, _ in given
    }
    assert updates_of(loaded) == updates_of(plain)
    for id, _, _, _ in given:
        what = data.draw(st.integers(0, 3))
        if what == 0:
            loaded.unsubscribe(id)
            plain.unsubscribe(id)
        elif what == 1:
            region = data.draw(st.sampled_from(REGIONS[1:]))
            assert loaded.move(id, region) == plain.move(id, region)
    assert updates_of(loaded) == updates_of(plain)


def test_forms_of_tables() -> None:
    """Structs, WKB, GeoArrow and no region at all load as the same subscriptions."""
    shapes, nested = [TRIANGLE, WITH_HOLE], pa.list_(pa.list_(pa.list_(pa.float64(), 2)))
    ids, queries = pa.array(["s0", "s1"]), pa.array(["a", "b"])
    columns = [
        pa.array([shapely.to_wkb(shapely.geometry.shape(one.__geo_interface__)) for one in shapes]),
        pa.array([region_to_json(one) for one in shapes]),
        pa.array([one.coordinates for one in shapes], nested),
    ]
    for column in columns:
        engine = Engine(index="rarest-term")
        engine.subscribe_table(pa.table({"id": ids, "query": queries, "region": column}))
        assert [one.region for one in engine.page()] == shapes
    engine.subscribe_table(pa.table({"id": ["anywhere"], "query": ["c"]}))
    assert engine.get("anywhere") == Subscription("anywhere", "c")


def test_points_of_two_columns() -> None:
    """Messages may have their points in two columns, or as WKB."""
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "a", Box(0, 0, 2, 2))
    table = pa.table({"id": ["m1", "m2"], "text": ["a", "a"], "lon": [1.0, 3.0], "lat": [1, 1]})
    assert engine.publish_table(table)["message"].to_pylist() == ["m1"]
    points = pa.array(shapely.to_wkb(shapely.points([[1.0, 1.0], [3.0, 1.0]])))
    table = pa.table({"id": ["m3", "m4"], "text": ["a", "a"], "point": points})
    assert engine.publish_table(table)["message"].to_pylist() == ["m3"]
    far = pa.table({"id": ["a", "b"], "text": ["", ""], "lon": [1, 200], "lat": [1, 1]})
    with pytest.raises(InvalidValue, match="row 1"):
        engine.publish_table(far)


def test_a_bad_region_is_named_before_any_row_takes_effect() -> None:
    """The error says which row, and what is wrong."""
    engine = Engine(index="rarest-term")
    wrong = "POLYGON ((0 0, 4 4, 4 0, 0 4, 0 0))"
    regions = ["POLYGON ((0 0, 4 0, 0 4, 0 0))", wrong]
    table = pa.table({"id": ["s0", "s1"], "query": ["a", "b"], "region": regions})
    with pytest.raises(InvalidValue, match=r"row 1.*Self-intersection"):
        engine.subscribe_table(table)
    assert len(engine) == 0


def test_a_bad_query_keeps_the_rows_before_it() -> None:
    """What is before a query that is wrong takes effect, as row by row."""
    engine = Engine(index="rarest-term")
    table = pa.table({"id": ["s0", "s1", "s2"], "query": ["a", "b AND", "c"]})
    with pytest.raises(TableError, match="row 1"):
        engine.subscribe_table(table)
    assert [one.id for one in engine.subscriptions()] == ["s0"]
    assert [one.subscription for one in engine.publish("m", "a c", (0.0, 0.0))] == ["s0"]


def test_attributes_are_loaded_too() -> None:
    """`meta`, `ttl` and `ops` come with columns, and a row where they are wrong is named."""
    loaded, plain = Engine(index="rarest-term"), Engine(index="scan")
    ids, metas = ["s0", "s1", "s2"], [{"user": 7}, None, None]
    ttls, ops = [None, 10.0, None], [None, None, ["remove"]]
    columns = {
        "id": pa.array(ids),
        "query": pa.array(["a", "a OR b", "a"]),
        "meta": pa.array([None if meta is None else json.dumps(meta) for meta in metas]),
        "ttl": pa.array(ttls),
        "ops": pa.array(ops, pa.list_(pa.string())),
    }
    loaded.subscribe_table(pa.table(columns))
    for id, query, meta, ttl, op in zip(ids, ["a", "a OR b", "a"], metas, ttls, ops, strict=True):
        plain.subscribe(id, query, meta=meta, ttl=ttl, ops=op)
    assert loaded.page() == plain.page()
    for at in (1.0, 9.0, 10.0):
        one = loaded.publish(f"m{at}", "a", (0.0, 0.0), at=at)
        assert one == plain.publish(f"m{at}", "a", (0.0, 0.0), at=at)
    assert loaded.get("s1") is None
    wrong = pa.table({"id": ["x", "y"], "query": ["a", "a"], "ttl": [1.0, -1.0]})
    with pytest.raises(InvalidValue, match="row 1.*ttl"):
        loaded.subscribe_table(wrong)
