"""The registrar and one shard, without Spark, give the updates of `scan`."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from event_logs import logs
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.errors import NearcastError
from nearcast.index.memory import MappedMemory
from nearcast.model import event_from_json
from nearcast.model.log import Record
from nearcast.spark.events import table_of
from nearcast.spark.messages import messages_of
from nearcast.spark.operations import LOG
from nearcast.spark.registrar import Registrar
from nearcast.spark.shard import Shard
from nearcast.topk import Window

Pairs = set[tuple[int, str, str]]


def instant(log: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What of a log a pipeline without top-k and lasting messages is for."""
    kept = []
    for fields in log:
        if "top" in fields or (fields["op"] == "move" and "point" in fields):
            continue
        if isinstance(fields.get("ttl"), int) and fields["ttl"] > 0:
            fields = {key: value for key, value in fields.items() if key != "ttl"}
        kept.append(fields)
    return kept


def scanned(log: list[dict[str, Any]], chosen: Settings) -> tuple[Pairs, set[int]]:
    """The updates of `scan`, and the positions of the events it refused."""
    engine, pairs, refused = Scan(chosen), set(), set()
    for position, fields in enumerate(log):
        try:
            updates = engine.apply(event_from_json(fields))
        except NearcastError:
            refused.add(position)
            continue
        pairs |= {(position, update.subscription, update.message) for update in updates}
    return pairs, refused


def records(log: list[dict[str, Any]]) -> list[Record]:
    """A log as its reader gives it."""
    found = []
    for position, fields in enumerate(log):
        raw = json.dumps(fields).encode()
        try:
            found.append(Record(position, position + 1, raw, event_from_json(fields), None))
        except NearcastError as error:
            found.append(Record(position, position + 1, raw, None, error))
    return found


WINDOWS = st.sampled_from([Window(), Window(count=2), Window(seconds=1.5)])


@settings(deadline=None, max_examples=100)
@given(log=logs().map(instant), cuts=st.lists(st.integers(0, 24), max_size=4), window=WINDOWS)
def test_batches_of_any_size_give_the_updates_of_scan(
    log: list[dict[str, Any]], cuts: list[int], window: Window
) -> None:
    """Wherever a log is cut into batches, pairs and refusals are those of the definition."""
    chosen = Settings(window=window)
    expected, refused = scanned(log, chosen)
    table = table_of(records(log))
    registrar = Registrar(chosen)
    found: list[tuple[int, str, str]] = []
    found_refused = set()
    with TemporaryDirectory() as folder:
        memory = MappedMemory(Path(folder))
        described = Shard(memory).describe()
        edges = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
        for start, stop in pairwise(edges):
            events, seq = table[start:stop], np.arange(start, stop)
            reading = registrar.read(events, seq)
            found_refused |= {start + refusal.row for refusal in reading.refusals}
            shard = Shard.attach(memory, described)
            shard.apply(with_keys(reading.log))
            described = json.loads(json.dumps(shard.describe()))
            texts = messages_of(events, seq, reading.messages, chosen.analyser)
            matches = shard.match(texts.messages)
            numbers = texts.messages.number[matches.places]
            names = shard.names_of(matches.owners).to_pylist()
            ids = texts.ids.take(pa.array(numbers)).to_pylist()
            found += zip(texts.messages.seq[numbers].tolist(), names, ids, strict=True)
    assert found_refused == refused
    assert len(found) == len(set(found))
    assert set(found) == expected


def with_keys(log: pa.Table) -> pa.Table:
    """Operations of a shard that holds everything need no real keys."""
    assert log.schema == LOG
    keys = pa.array(
        [[0] * len(has or []) for has in log["required"].to_pylist()], pa.list_(pa.uint64())
    )
    zeros = pa.array(np.zeros(len(log), np.uint64))
    return log.drop_columns(["query"]).append_column("key", zeros).append_column("keys", keys)
