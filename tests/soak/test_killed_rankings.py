"""Top-k by every mechanism while processes are killed: no update lost, none twice."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from boolean_logs import records
from kills import Stream
from nearcast import Engine
from nearcast.engine.replay import replay
from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.events.log import open_log
from nearcast.partition.topk.mechanisms import MECHANISMS
from nearcast.spark.events import table_of
from nearcast.spark.outputs import read_updates
from patience import PATIENCE_S
from ranked_logs import ranked_log

pytestmark = pytest.mark.soak

FILES, EVENTS = 30, 200
WINDOWS = {"count": 500, "seconds": 60.0}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("scheme", [*MECHANISMS, "shared"])
def test_kills_at_random_points(tmp_path: Path, scheme: str, window: str) -> None:
    """Driver, JVM and Python workers are killed; workers are 1, 2, 4 and 8."""
    some = random.Random(f"{scheme} {window}")
    log = ranked_log(FILES * EVENTS, seed=some.randrange(100), names=300)
    paths = []
    for number in range(FILES):
        path = tmp_path / f"{number:05}.parquet"
        part = log[number * EVENTS : (number + 1) * EVENTS]
        pq.write_table(table_of(records(part)), path, row_group_size=100)
        paths.append(path)
    options = ("--files-per-batch", "1", f"--window-{window}", str(WINDOWS[window]))
    stream = Stream(tmp_path, *options)
    kinds = ["driver", "jvm", "worker", "worker", some.choice(["driver", "jvm"])]
    some.shuffle(kinds)
    workers, given = [1, 2, 4, 8, 2, 4], 0
    with stream.watched():
        for turn, kind in enumerate(kinds):
            given = _give(stream, paths, given, 5)
            if turn == 0 or not stream.lives:
                stream.start("--partitioner", scheme_of(scheme), "--workers", str(workers[turn]))
            stream.wait_for_commits(some.randint(1, 3))
            time.sleep(some.random() * some.choice([0.1, 1.0]))  # anywhere in a step
            assert stream.kill(kind)
            if kind != "worker":
                stream.run.wait(PATIENCE_S)
        _give(stream, paths, given, FILES)
        if stream.lives:
            stream.kill("driver")
            stream.run.wait()
        stream.finish("--partitioner", scheme_of(scheme))
    found = read_updates(stream.output)
    assert found.equals(_expected(paths, window))
    assert len(found) - found["score"].null_count > 5_000


def scheme_of(name: str) -> str:
    """A name that both kinds of subscriptions have is meant for top-k."""
    return f"auto,{name}"


def _give(stream: Stream, paths: list[Path], first: int, count: int) -> int:
    for path in paths[first : first + count]:
        path.rename(stream.input / path.name)
    return first + count


def _expected(paths: list[Path], window: str) -> pa.Table:
    count = int(WINDOWS["count"]) if window == "count" else None
    seconds = WINDOWS["seconds"] if window == "seconds" else None
    engine, rows, first = (
        Engine(index="rarest-term", window_count=count, window_seconds=seconds),
        [],
        0,
    )
    for path in paths:
        moved = path.parent / "in" / path.name
        with open_log(str(moved)) as log:
            for position, updates in replay(log, engine, lambda *_: None):
                at = first + position
                rows += [(at, u.op, u.subscription, u.message, u.score) for u in updates]
        first += pq.ParquetFile(moved).metadata.num_rows
    columns = [pa.array(column) for column in zip(*rows, strict=True)]
    table = pa.table(columns, UPDATE_SCHEMA.names).cast(UPDATE_SCHEMA)
    names = ("event", "subscription", "message", "op")
    return table.sort_by([(name, "ascending") for name in names])
