"""Tables of events: every row means what it means as JSON, and its error says the same."""

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nearcast.errors import NearcastError, SourceError
from nearcast.events import Event, event_from_json
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.events.parquet import table_rows
from nearcast.events.reader import BAD, CheckedEvents

Fields = dict[str, Any]

numbers = st.sampled_from([0.0, -0.0, 1.5, 90.0, 91.0, 180.0, -181.0, float("nan"), float("inf")])
lists = st.lists(st.one_of(numbers, st.none()), max_size=5)
points = st.one_of(st.tuples(numbers, numbers).map(list), lists)
boxes = st.lists(st.sampled_from([-170.0, -10.0, 0.0, 10.0, 80.0, 95.0]), min_size=4, max_size=4)
rings = st.sampled_from([[[[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [0.0, 0.0]]], [[[0.0, 0.0]]], []])
regions = st.fixed_dictionaries(
    {"type": st.sampled_from(["Box", "Circle", "Polygon", "MultiPolygon", "Ring", None])},
    optional={
        "bbox": st.one_of(boxes, lists),
        "center": points,
        "radius": st.sampled_from([0.0, 5.0, -1.0, 3e7, float("nan"), None]),
        "coordinates": rings,
        "polygons": st.lists(rings, max_size=2),
    },
)
tops = st.fixed_dictionaries(
    {},
    optional={"k": st.sampled_from([0, 1, 1000, 1001]), "alpha": st.sampled_from([-0.1, 0.5, 1.0])},
)
seconds = st.sampled_from([0.0, 5.0, -5.0, 1e300, float("nan"), float("-inf")])
texts = st.sampled_from(["", "a", "a b", "É" * 130, "x" * 255, "x" * 256])
events = st.fixed_dictionaries(
    {},
    optional={
        "op": st.sampled_from(["publish", "subscribe", "move", "unsubscribe", "Publish", ""]),
        "id": texts,
        "query": texts,
        "text": texts,
        "region": regions,
        "point": points,
        "top": tops,
        "at": seconds,
        "ttl": seconds,
    },
)
good = st.one_of(
    st.fixed_dictionaries(
        {"op": st.just("publish"), "id": texts, "text": texts, "point": points},
        optional={"at": seconds, "ttl": seconds},
    ),
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["subscribe", "move", "publish"]),
            "id": texts,
            "query": texts,
            "text": texts,
            "region": st.one_of(
                boxes.map(lambda box: {"type": "Box", "bbox": box}),
                points.map(lambda center: {"type": "Circle", "center": center, "radius": 7.0}),
            ),
        }
    ),
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["subscribe", "move"]),
            "id": texts,
            "query": texts,
            "point": points,
        },
        optional={"top": tops},
    ),
)
nullable = pa.schema([field.with_nullable(True) for field in EVENT_SCHEMA])


def written(rows: list[Fields], *as_text: str) -> pa.Table:
    """The rows as a table, with some of its columns as JSON text."""
    for row in rows:
        row |= {name: json.dumps(row[name]) for name in as_text if row.get(name) is not None}
    types = [pa.field(f.name, pa.string()) if f.name in as_text else f for f in nullable]
    return pa.Table.from_pylist(rows, schema=pa.schema(types))


def one_by_one(table: pa.Table, op: str | None) -> list[Event | str]:
    found: list[Event | str] = []
    for fields in table_rows(table):
        try:
            found.append(event_from_json(fields if op is None else fields | {"op": op}))
        except NearcastError as error:
            found.append(f"{type(error).__name__}: {error}")
    return found


def as_columns(table: pa.Table, op: str | None) -> list[Event | str]:
    checked = CheckedEvents(table, op)
    errors = {row: f"{type(e).__name__}: {e}" for row, e in checked.errors.items()}
    valid = [row for row in range(len(table)) if row not in errors]
    assert [row for row in range(len(table)) if checked.kinds[row] == BAD] == sorted(errors)
    some = table if len(valid) == len(table) else table.take(pa.array(valid, pa.int64()))
    events = CheckedEvents(some, op).events()
    named = dict(zip(valid, events, strict=True))
    return [errors[row] if row in errors else named[row] for row in range(len(table))]


@given(
    st.lists(st.one_of(events, good), max_size=8),
    st.sampled_from([(), ("region",), ("point", "top"), ("region", "point", "top")]),
    st.sampled_from([None, None, "publish", "subscribe", "move", "unsubscribe"]),
)
def test_a_row_is_the_event_or_the_error_that_it_is_as_json(
    rows: list[Fields], as_text: tuple[str, ...], op: str | None
) -> None:
    table = written(rows, *as_text)
    assert repr(as_columns(table, op)) == repr(one_by_one(table, op))


@pytest.mark.parametrize(
    "kind", [pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
)
def test_strings_may_be_of_any_type_of_strings(kind: pa.DataType) -> None:
    table = written([{"op": "publish", "id": "é", "text": "a", "point": [1.0, 2.0]}])
    for place, name in enumerate(table.column_names):
        if name in ("op", "id", "text"):
            table = table.set_column(place, name, table[name].cast(kind))
    assert as_columns(table, None) == one_by_one(table, None)


def test_views_of_strings_are_looked_at_closely_too() -> None:
    ids = pa.array(["a", "", "b"]).cast(pa.string_view())
    assert CheckedEvents(pa.table({"id": ids}), "unsubscribe").errors.keys() == {1}


def test_what_is_no_text_is_the_error_of_its_row() -> None:
    broken = pa.array([b"a", b"\xff"], pa.binary()).view(pa.string())
    table = pa.table({"id": broken, "text": ["a", "b"], "point": [[1, 2], [3, 4]]})
    assert as_columns(table, "publish") == one_by_one(table, "publish")
    assert "b'\\xff' given" in str(as_columns(table, "publish")[1])


def test_numbers_may_be_of_any_type_of_numbers() -> None:
    table = pa.table(
        {
            "id": ["a", "b"], "text": ["", "x"], "at": pa.array([1, 2**60 + 1], pa.uint64()),
            "ttl": pa.array([None, 2.5], pa.float32()),
            "point": pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)),
        }
    )  # fmt: skip
    assert as_columns(table, "publish") == one_by_one(table, "publish")


def test_a_column_that_stands_twice_is_refused() -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["id", "id"])
    with pytest.raises(SourceError, match="more than one column 'id'"):
        CheckedEvents(table, "unsubscribe")
