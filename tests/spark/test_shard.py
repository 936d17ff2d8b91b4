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

from boolean_logs import boolean, records, scanned
from event_logs import logs
from nearcast.arrays.memory import MappedMemory
from nearcast.engine.settings import Settings
from nearcast.events.fields import UPDATE_OPS
from nearcast.partition.grid import Grid
from nearcast.partition.plan import Plan
from nearcast.spark.asking import ExactMatching
from nearcast.spark.driver.actives import Actives
from nearcast.spark.driver.placing import past_messages, place_whole
from nearcast.spark.events import table_of
from nearcast.spark.registrar import Registrar
from nearcast.spark.workers.messages import WantedOfMessages, messages_of
from nearcast.spark.workers.shard import Shard
from nearcast.spark.workers.tasks import ShardMatching
from nearcast.topk import Window

PLAN = Plan("shared", 1, "shared", Grid(-180.0, -90.0, 180.0, 90.0, 1, 1), np.zeros(1, np.int32))
WINDOWS = st.sampled_from([Window(), Window(count=2), Window(seconds=1.5)])


class ListedUpdates:
    """Takes the updates that a task would write to a file."""

    includes = False

    def __init__(self) -> None:
        self.found: list[tuple[int, str, str, str]] = []

    def write(self, seq: Any, names: pa.Array, ids: pa.Array, ops: Any) -> None:
        ops = [UPDATE_OPS[op] for op in ops.tolist()]
        self.found += zip(seq.tolist(), ops, names.to_pylist(), ids.to_pylist(), strict=True)


@settings(deadline=None, max_examples=60)
@given(
    log=st.booleans().flatmap(lambda rich: logs(rich=rich)).map(boolean),
    cuts=st.lists(st.integers(0, 24), max_size=4),
    window=WINDOWS,
)
def test_batches_of_any_size_give_the_updates_of_scan(
    log: list[dict[str, Any]], cuts: list[int], window: Window
) -> None:
    """Wherever a log is cut into batches, updates and refusals are those of the definition."""
    chosen = Settings(window=window)
    expected, refused = scanned(log, chosen)
    table = table_of(records(log))
    registrar = Registrar(chosen)
    file: Any = ListedUpdates()
    actives, found_refused = Actives(), set()
    with TemporaryDirectory() as folder:
        memory = MappedMemory(Path(folder))
        described = Shard(memory).describe()
        edges = sorted({0, len(log), *(cut for cut in cuts if cut < len(log))})
        for start, stop in pairwise(edges):
            events, seq = table[start:stop], np.arange(start, stop)
            reading = registrar.read(events, seq)
            found_refused |= {start + refusal.row for refusal in reading.refusals}
            shard = Shard(memory, described)
            past = past_messages(reading.log, actives.of)
            operations = place_whole(PLAN, reading.log, reading.changes, past).shards[0]
            actives.follow(reading.log)
            shard.apply(operations)
            described = json.loads(json.dumps(shard.describe()))
            more = WantedOfMessages(everyone=True, bodies=True)
            texts = messages_of(events, seq, reading.matched, chosen, more)
            matching = ShardMatching(file, shard, PLAN, None, ExactMatching(chosen.analyser))
            matching.match(texts)
            matching.change(slice(None))
            matching.replace(operations, slice(None))
    found = file.found
    assert found_refused == refused
    assert len(found) == len(set(found))
    assert set(found) == expected


def test_rows_are_counted_from_the_first_of_each_subscription() -> None:
    """However many come at once: of several ways to match, all shards must take the same first."""
    region = {"type": "Box", "bbox": [170, 0, -170, 9]}  # of two boxes
    queries = ["a OR b", "c NOT c", "d OR e OR f", "g NOT h"]
    log = [
        {"op": "subscribe", "id": f"s{number}", "query": query, "region": region}
        for number, query in enumerate(queries)
    ]
    reading = Registrar(Settings()).read(table_of(records(log)), np.arange(len(log)))
    shard = Shard()
    shard.apply(place_whole(PLAN, reading.log, reading.changes).shards[0])
    rows, places = shard._rows_of(np.arange(len(log), dtype=np.int32))
    assert places.tolist() == [0] * 4 + [2] * 6 + [3] * 2
    assert shard._ordinal.array[rows].tolist() == [*range(4), *range(6), *range(2)]
