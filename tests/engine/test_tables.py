"""Arrow tables in, Arrow tables of updates out."""

import pyarrow as pa
import pytest

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


def test_an_empty_table_gives_an_empty_table() -> None:
    assert (
        Engine(index="rarest-term")
        .publish_table(pa.table({"id": [], "text": [], "point": []}))
        .num_rows
        == 0
    )
