"""Arrow tables in, Arrow tables of updates out."""

import pyarrow as pa
import pytest
import shapely

from nearcast import Box, Engine, Subscription
from nearcast.engine.tables import TableError
from nearcast.errors import InvalidValue

BOX = {"type": "Box", "bbox": [0.0, 0.0, 10.0, 10.0]}


def messages(*rows: tuple[str, str, list[float]]) -> pa.Table:
    ids, texts, points = zip(*rows, strict=True)
    return pa.table({"id": ids, "text": texts, "point": points})


def test_a_table_of_messages_gives_a_table_of_updates() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe_table(
        pa.table({"id": ["s1", "s2"], "query": ["ipad", "sale OR rent"], "region": [BOX, BOX]})
    )
    updates = engine.publish_table(
        messages(("m1", "iPad sale", [1, 1]), ("m2", "nothing", [1, 1]), ("m3", "rent", [2, 2]))
    )
    assert updates.to_pylist() == [
        {"event": 0, "op": "add", "subscription": "s1", "message": "m1", "score": None},
        {"event": 0, "op": "add", "subscription": "s2", "message": "m1", "score": None},
        {"event": 2, "op": "add", "subscription": "s2", "message": "m3", "score": None},
    ]


def test_subscriptions_may_be_given_as_json_text_and_meet_active_messages() -> None:
    engine = Engine(index="rarest-term")
    engine.publish("m", "ipad", (1, 1), ttl=5)
    table = pa.table(
        {"id": ["s"], "query": ["ipad"], "region": ['{"type":"Box","bbox":[0,0,5,5]}']}
    )
    assert engine.subscribe_table(table)["message"].to_pylist() == ["m"]
    assert engine.subscriptions() == [Subscription("s", "ipad", Box(0, 0, 5, 5))]


def test_anything_that_exports_an_arrow_stream_will_do() -> None:
    class Stream:
        def __arrow_c_stream__(self, schema: object = None) -> object:
            return messages(("m", "x", [0, 0])).__arrow_c_stream__(schema)

    engine = Engine(index="rarest-term")
    engine.subscribe("s", "x", Box(0, 0, 1, 1))
    assert engine.publish_table(Stream()).num_rows == 1
    with pytest.raises(InvalidValue, match="__arrow_c_stream__"):
        engine.publish_table([1, 2])


POINTS = shapely.points([1.0, 99.0, 2.0], [1.0, 1.0, 2.0])
AREA = shapely.box(0.0, 0.0, 10.0, 10.0)
XY = [{"x": 1.0, "y": 1.0}, {"x": 99.0, "y": 1.0}, {"x": 2.0, "y": 2.0}]


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("point", pa.array(shapely.to_wkb(POINTS))),
        ("point", pa.array(shapely.to_wkb(POINTS), pa.large_binary())),
        ("point", pa.array(shapely.to_wkt(POINTS))),
        ("point", pa.array(["[1, 1]", "POINT (99 1)", ' {"type":"Point","coordinates":[2,2]}'])),
        ("point", pa.array(XY)),
        ("geometry", pa.array(shapely.to_wkb(POINTS))),
        ("geometry", pa.array(XY)),
        ("geometry", pa.array([shapely.to_wkb(AREA), *shapely.to_wkb(POINTS[1:])])),
        ("region", pa.array([shapely.to_wkb(each.buffer(0.5)) for each in POINTS])),
        ("region", pa.array([shapely.to_wkt(each.buffer(0.5)) for each in POINTS])),
    ],
)
def test_places_may_be_as_other_libraries_write_them(name: str, column: pa.Array) -> None:
    engine = Engine(index="scan")
    engine.subscribe("s", "x", AREA)
    updates = engine.publish_table(
        pa.table({"id": ["a", "b", "c"], "text": ["x"] * 3, name: column})
    )
    assert updates["message"].to_pylist() == ["a", "c"]


@pytest.mark.parametrize("name", ["region", "geometry"])
def test_subscriptions_may_have_such_regions_too(name: str) -> None:
    engine = Engine(index="scan")
    rings = pa.array([[[list(at) for at in AREA.exterior.coords]]] * 2)
    for places in (pa.array([shapely.to_wkb(AREA)] * 2), pa.array([AREA.wkt, None]), rings):
        table = pa.table({"id": ["s", "t"], "query": ["x", "y"], name: places})
        engine.subscribe_table(table)
        assert [each.message for each in engine.publish("m", "x", (1, 1))] == ["m"]
    for wrong in ("POINT (1 1)", "POLYGON ((0 0, 1 1"):
        table = pa.table({"id": ["s", "t"], "query": ["x", "y"], name: [AREA.wkt, wrong]})
        with pytest.raises(InvalidValue, match=r"^row 1\."):
            engine.subscribe_table(table)


def test_a_row_that_is_not_valid_is_named_before_any_takes_effect() -> None:
    engine = Engine(index="rarest-term")
    with pytest.raises(InvalidValue, match=r"^row 1\.point\[1\]: 91 given"):
        engine.publish_table(messages(("m1", "x", [0, 0]), ("m2", "x", [0, 91])))
    assert engine.publish_table(messages(("m1", "x", [0, 0]))).num_rows == 0


def test_a_row_that_does_not_fit_the_state_keeps_the_updates_before_it() -> None:
    engine = Engine(index="rarest-term")
    engine.subscribe("s", "x", Box(0, 0, 1, 1))
    table = messages(("m", "x", [0, 0]), ("m", "x", [0, 0]), ("n", "x", [0, 0]))
    late = table.append_column("at", pa.array([5.0, 4.0, 6.0]))
    with pytest.raises(TableError, match=r"^row 1: at: 4\.0 is before 5\.0") as caught:
        engine.publish_table(late)
    assert caught.value.row == 1
    assert caught.value.updates["message"].to_pylist() == ["m"]
    assert engine.publish_table(messages(("n", "x", [0, 0]))).num_rows == 1


@pytest.mark.parametrize("index", ["scan", "rarest-term"])
def test_messages_without_a_column_of_ids_get_new_ones(index: str) -> None:
    engine = Engine(index=index)
    engine.subscribe("s", "a")
    table = pa.table({"text": ["a", "b", "a"], "lon": [0.0] * 3, "lat": [0.0] * 3})
    updates = [*engine.publish_table(table).to_pylist(), *engine.publish_table(table).to_pylist()]
    assert [update["event"] for update in updates] == [0, 2, 0, 2]
    assert len({update["message"] for update in updates}) == 4
    with pytest.raises(InvalidValue, match="row 1.id: missing"):
        engine.publish_table(table.append_column("id", pa.array(["m", None, "n"])))
    with pytest.raises(InvalidValue, match="row 0.id: missing"):
        engine.subscribe_table(pa.table({"query": ["a"]}))


def test_an_empty_table_gives_an_empty_table() -> None:
    assert (
        Engine(index="rarest-term")
        .publish_table(pa.table({"id": [], "text": [], "point": []}))
        .num_rows
        == 0
    )
