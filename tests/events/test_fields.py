"""One table of fields: whatever lists the fields of events and updates agrees with it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from nearcast.events import Event, event_to_json
from nearcast.events.columns import EVENT_SCHEMA, UPDATE_SCHEMA
from nearcast.events.events import Move, Publish, Retract, Subscribe, Unsubscribe, event_from_json
from nearcast.events.fields import EVENT_FIELDS, UPDATE_FIELDS, fields_of
from nearcast.events.values import Message, Subscription, Top
from nearcast.geo import Box
from nearcast.spark.readers import schema

BOX = Box(0, 0, 1, 1)
EVENTS: dict[str, list[Event]] = {
    "subscribe": [
        Subscribe(Subscription("s", "a", BOX), at=1.0),
        Subscribe(Subscription("s", "a", point=(0.0, 0.0), top=Top(2, 0.5)), at=1.0),
        Subscribe(
            Subscription(
                "s", "a", BOX, (0.0, 0.0), Top(2, 0.5, 100.0, 0.1), "b", {"m": 1}, 5.0, ("add",)
            )
        ),
    ],
    "move": [Move("s", BOX, at=1.0), Move("s", point=(0.0, 0.0), at=1.0, ttl=2.0)],
    "retract": [Retract("m", at=1.0)],
    "unsubscribe": [Unsubscribe("s", at=1.0)],
    "publish": [
        Publish(Message("m", "a", (0.0, 0.0), at=1.0, ttl=2.0)),
        Publish(Message("m", "a", region=BOX, at=1.0, ttl=2.0, properties={"p": 1})),
    ],
}


@pytest.mark.parametrize("op", EVENTS)
def test_events_write_exactly_the_fields_that_are_declared_for_them(op: str) -> None:
    """In the order of the table; and what is written is read back."""
    order = [field.name for field in EVENT_FIELDS]
    written = [event_to_json(event) for event in EVENTS[op]]
    assert set().union(*written) == {"op", *(field.name for field in fields_of(op))}
    for fields, event in zip(written, EVENTS[op], strict=True):
        assert fields["op"] == op
        assert list(fields) == [name for name in order if name in fields]
        assert event_from_json(fields) == event


def test_columns_of_arrow_and_spark_are_those_of_the_table() -> None:
    """A Spark type is the Arrow type in other words."""
    words = {pa.string(): "string", pa.float64(): "double", pa.int64(): "bigint"}

    def in_words(kind: pa.DataType) -> str:
        if pa.types.is_list(kind):
            return f"array<{in_words(kind.value_type)}>"
        if pa.types.is_struct(kind):
            parts = [f"{field.name}: {in_words(field.type)}" for field in kind]
            return f"struct<{', '.join(parts)}>"
        return words[kind]

    for fields, arrow, spark in (
        (EVENT_FIELDS, EVENT_SCHEMA, schema.EVENTS),
        (UPDATE_FIELDS, UPDATE_SCHEMA, schema.UPDATES),
    ):
        assert arrow.names == [field.name for field in fields]
        assert spark == ", ".join(f"{field.name} {in_words(field.type)}" for field in arrow)
    assert [field.name for field in EVENT_SCHEMA if not field.nullable] == ["op", "id"]
