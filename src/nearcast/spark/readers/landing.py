"""Converts events in other formats to Parquet with the columns of the log.

Tasks read each file or row once, check it, and write normal Parquet files to the state's inbox;
what is not an event is written with what is wrong with it. From there on all sources are the same.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.errors import NearcastError, SourceError
from nearcast.events import event_from_json
from nearcast.events.log import Record, open_log
from nearcast.events.parquet import table_rows
from nearcast.spark.events import NORMAL, table_of
from nearcast.spark.io.files import Files
from nearcast.spark.io.paths import is_local, local_path, open_file
from nearcast.spark.readers.slices import SEQ

GROUP = 1 << 16
"""Rows of a row group, which is what one task reads."""


def land_file(path: str, target: str) -> None:
    """Bring one event log, JSON Lines or Parquet in other columns, into the normal form."""
    with tempfile.TemporaryDirectory() as folder:
        if is_local(path):
            place = local_path(path)
        else:
            place = Path(folder) / "log"
            with open_file(path) as remote, place.open("wb") as copy:
                shutil.copyfileobj(remote, copy)
        with open_log(str(place)) as log:
            _write(target, _tables(log), NORMAL)


def _tables(records: Iterable[Record]) -> Iterator[pa.Table]:
    some: list[Record] = []
    for record in records:
        some.append(record)
        if len(some) == GROUP:
            yield table_of(some)
            some = []
    yield table_of(some)


def land_rows(batches: Iterable[pa.RecordBatch], target: str, first: int | None) -> int:
    """Bring rows of a frame into the normal form; give how many there were.

    Rows carry their own `seq`, or else all of them come here and are numbered from `first` on, by
    their times and then as they arrived.
    """
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    landed = [_landed(table, first is None) for table in tables]
    schema = NORMAL.append(pa.field(SEQ, pa.int64()))
    whole = pa.concat_tables([schema.empty_table(), *landed])
    if first is not None and len(whole):
        whole = _numbered(whole, first)
    _write(target, [whole], schema)
    return len(whole)


def _landed(table: pa.Table, own_seq: bool) -> pa.Table:
    landed = table_of(_records(table, 0))
    if own_seq:
        seq = table[SEQ].combine_chunks().cast(pa.int64())
        if seq.null_count:
            raise SourceError("seq: null in a row; number every row, or leave the column out")
    else:
        seq = pa.nulls(len(table), pa.int64())
    return landed.append_column(SEQ, seq)


def _numbered(table: pa.Table, first: int) -> pa.Table:
    """Put rows in the order of their times, those without one after the row they came after."""
    at = table["at"].to_numpy(zero_copy_only=False)
    known = np.maximum.accumulate(np.where(np.isnan(at), -1, np.arange(len(at))))
    times = np.where(known < 0, -np.inf, at[known])
    table = table.take(pa.array(np.argsort(times, kind="stable")))
    seq = pa.array(np.arange(first, first + len(table)))
    return table.set_column(table.column_names.index(SEQ), SEQ, seq)


def _records(table: pa.Table, first: int) -> Iterator[Record]:
    errors = table["error"].to_pylist() if "error" in table.column_names else [None] * len(table)
    raws = table["raw"].to_pylist() if "raw" in table.column_names else [None] * len(table)
    rows = zip(table_rows(table), errors, raws, strict=True)
    for position, (fields, error, raw) in enumerate(rows, first):
        given: Any = raw.encode() if raw is not None else fields
        if error is not None:
            yield Record(position, position + 1, given, None, NearcastError(error))
            continue
        try:
            yield Record(position, position + 1, given, event_from_json(fields), None)
        except NearcastError as problem:
            yield Record(position, position + 1, given, None, problem)


def _write(target: str, tables: Iterable[pa.Table], schema: pa.Schema) -> None:
    """Write a file from which a step may have to be taken again."""

    def fill(stream: Any) -> None:
        with pq.ParquetWriter(stream, schema, compression="zstd") as writer:
            for table in tables:
                if len(table):
                    writer.write_table(table, row_group_size=GROUP)

    folder, _, name = target.rpartition("/")
    Files(folder).fill(name, fill)
