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

from nearcast.arrays.types import Floats, Int64s
from nearcast.errors import NearcastError, SourceError
from nearcast.events import event_from_json
from nearcast.events.log import Record, open_log
from nearcast.events.parquet import table_rows
from nearcast.spark.events import NORMAL, table_of
from nearcast.spark.io.files import Files
from nearcast.spark.io.paths import is_local, local_path, open_file
from nearcast.spark.readers.slices import SEQ

_NUMBERED = NORMAL.append(pa.field(SEQ, pa.int64()))

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


def land_rows(batches: Iterable[pa.RecordBatch], target: str, *, numbered: bool) -> Floats:
    """Bring rows of a frame into the normal form; give the times by which they are ordered.

    Rows carry their own `seq`, or else are put in the order of their times, and those without one
    after the row they came after.
    """
    tables = [pa.Table.from_batches([batch]) for batch in batches]
    if numbered:
        whole = pa.concat_tables([_NUMBERED.empty_table(), *map(_with_seq, tables)])
        _write(target, [whole], _NUMBERED)
        return np.zeros(len(whole))
    whole = pa.concat_tables(
        [NORMAL.empty_table(), *(table_of(_records(table)) for table in tables)]
    )
    at = whole["at"].to_numpy()
    known = np.maximum.accumulate(np.where(np.isnan(at), -1, np.arange(len(at))))
    times = np.where(known < 0, -np.inf, at[known])
    order = np.argsort(times, kind="stable")
    _write(target, [whole.take(pa.array(order))], NORMAL)
    return times[order]


def _with_seq(table: pa.Table) -> pa.Table:
    seq = table[SEQ].combine_chunks().cast(pa.int64())
    if seq.null_count:
        raise SourceError("seq: null in a row; number every row, or leave the column out")
    return table_of(_records(table)).append_column(SEQ, seq)


def number_rows(path: str, target: str, seq: Int64s) -> None:
    """Write a file of landed rows again, with their numbers."""
    with open_file(path) as file:
        table = pq.read_table(file)
    _write(target, [table.append_column(SEQ, pa.array(seq))], _NUMBERED)


def _records(table: pa.Table) -> Iterator[Record]:
    errors = table["error"].to_pylist() if "error" in table.column_names else [None] * len(table)
    raws = table["raw"].to_pylist() if "raw" in table.column_names else [None] * len(table)
    rows = zip(table_rows(table), errors, raws, strict=True)
    for position, (fields, error, raw) in enumerate(rows):
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
