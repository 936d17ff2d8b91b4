"""A registrar takes every event of the contract, however the events are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from boolean_logs import records
from mixed_logs import NEWS
from nearcast.engine.settings import Settings
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.events.fields import STRUCTURED
from nearcast.spark.events import NORMAL, completed, is_normal, table_of
from nearcast.spark.operations import EVERYONE
from nearcast.spark.readers.landing import land_file
from nearcast.spark.readers.slices import EventFile
from nearcast.spark.registrar import Registrar
from nearcast.text.columns import hash_terms

BOX = {"type": "Box", "bbox": [-9, -9, 9, 9]}
TOP = {"k": 1, "alpha": 0.5}
KNOWN: list[dict[str, Any]] = [
    {"op": "subscribe", "id": "s1", "query": "a", "region": BOX},
    {"op": "subscribe", "id": "t1", "query": "a", "point": [0, 0], "top": TOP},
    {"op": "publish", "id": "m1", "text": "a", "point": [0, 0]},
]
LOG = [*KNOWN, *NEWS.values()]


def refused(table: pa.Table) -> dict[int, str]:
    reading = Registrar(Settings()).read(table, np.arange(len(table)))
    return {each.row: each.error for each in reading.refusals}


def test_events_of_a_log() -> None:
    assert refused(table_of(records(LOG))) == {}


def test_events_with_the_columns_of_the_log() -> None:
    assert refused(completed(given_as_columns(EVENT_SCHEMA))) == {}


def given_as_columns(schema: pa.Schema) -> pa.Table:
    rows = []
    for fields in LOG:
        row = {name: value for name, value in fields.items() if name in schema.names}
        for name in ("properties", "meta"):
            if name in row:
                row[name] = json.dumps(row[name])
        region = row.get("region", {})
        if region.get("type") == "MultiPolygon":
            row["region"] = {"type": "MultiPolygon", "polygons": region["coordinates"]}
        rows.append(row)
    return pa.Table.from_pylist(rows, schema=schema)


def test_a_file_with_json_in_its_columns_is_brought_into_the_normal_form(tmp_path: Path) -> None:
    kinds = [(field.name, field.type) for field in EVENT_SCHEMA]
    schema = pa.schema([(n, pa.string() if n in STRUCTURED else kind) for n, kind in kinds])
    rows = [
        {n: json.dumps(v) if n in STRUCTURED else v for n, v in fields.items()} for fields in LOG
    ]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), tmp_path / "in.parquet")
    land_file(str(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"))
    file = EventFile.look(str(tmp_path / "out.parquet"))
    assert file is not None
    assert file.normal
    assert refused(pq.read_table(tmp_path / "out.parquet")) == {}


def test_files_of_the_last_release_are_read_as_they_are() -> None:
    """They have no columns for what came since, and less in `region` and `top`."""
    earlier = {"region": ["polygons"], "top": ["scale", "min_score"]}
    fields = []
    for field in EVENT_SCHEMA:
        if field.name in ("properties", "filter", "meta", "ops"):
            continue
        if field.name in earlier:
            parts = [part for part in field.type if part.name not in earlier[field.name]]
            field = field.with_type(pa.struct(parts))
        fields.append(field)
    schema = pa.schema(fields)
    assert is_normal(schema)
    table = pa.Table.from_pylist(KNOWN, schema=schema)
    for some in (table, table[1:], table[:0], pa.concat_tables([table[2:], table[:2]])):
        whole = completed(some)
        assert whole.schema == NORMAL
        for name in schema.names:
            known = [_without_nulls(value) for value in some[name].to_pylist()]
            assert [_without_nulls(value) for value in whole[name].to_pylist()] == known
    assert refused(completed(table)) == {}


def _without_nulls(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {name: each for name, each in value.items() if each is not None}


def test_other_columns_are_not_read_as_they_are() -> None:
    top = pa.struct([("k", pa.int32()), ("alpha", pa.float64())])
    twice = pa.struct([("k", pa.int64()), ("k", pa.int64())])
    more = pa.struct([("k", pa.int64()), ("beta", pa.float64())])
    for kind in (top, twice, more, pa.string()):
        assert not is_normal(pa.schema([("op", pa.string()), ("id", pa.string()), ("top", kind)]))


def test_a_message_without_a_text_has_no_terms() -> None:
    log: list[dict[str, Any]] = [KNOWN[0], {"op": "publish", "id": "m", "point": [0, 0], "ttl": 9}]
    reading = Registrar(Settings()).read(table_of(records(log)), np.arange(2))
    assert reading.refusals == []
    assert reading.log["terms"].to_pylist()[1] == [int(EVERYONE)]


def test_the_term_of_every_message() -> None:
    """No text has it, as it begins with a character that ends terms."""
    assert hash_terms(["\0*"])[0] == EVERYONE
    assert Settings().analyser.terms("\0*") == frozenset()
