"""Events that are not Parquet in the columns of the log are brought into that form first.

Tasks read each file or row once, check it, and write normal Parquet files to the state's inbox;
what is no event goes along with what is wrong with it. From there on all sources are the same.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.errors import NearcastError
from nearcast.model import event_from_json
from nearcast.model.log import Record, open_log
from nearcast.model.parquet import table_rows
from nearcast.spark.events import NORMAL, table_of
from nearcast.spark.slices import SEQ, local_path, open_file

GROUP = 1 << 16
"""Rows of a row group, which is what one task reads."""


def land_file(path: str, target: Path) -> None:
    """Bring one event log, JSON Lines or Parquet in other columns, into the normal form."""
    place = local_path(path)
    with tempfile.TemporaryDirectory() as folder:
        if place is None:
            place = str(Path(folder) / "log")
            with open_file(path) as remote, Path(place).open("wb") as copy:
                shutil.copyfileobj(remote, copy)
        with open_log(place) as log:
            _write(target, _tables(log), NORMAL)


def _tables(records: Iterable[Record]) -> Iterator[pa.Table]:
    some: list[Record] = []
    for record in records:
        some.append(record)
        if len(some) == GROUP:
            yield table_of(some)
            some = []
    yield table_of(some)


def land_rows(batches: Iterable[pa.RecordBatch], target: Path, first: int | None) -> int:
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


def _write(target: Path, tables: Iterable[pa.Table], schema: pa.Schema) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f".{target.name}.{os.getpid()}")
    with pq.ParquetWriter(fresh, schema, compression="zstd") as writer:
        for table in tables:
            if len(table):
                writer.write_table(table, row_group_size=GROUP)
    with fresh.open("rb") as file:
        os.fsync(file.fileno())  # a step may have to be taken again from it
    fresh.replace(target)
