"""Subscribers that go from worker to worker among lasting messages, without Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from boolean_logs import records, scanned
from nearcast.partition.registry import PARTITIONERS
from nearcast.spark.events import table_of
from nearcast.spark.operations import CHANGE, END, NEVER
from roaming_logs import roaming_log
from small_pipeline import Small, write_events

FILES, ROWS = 5, 60


@pytest.mark.parametrize("partitioner", sorted(PARTITIONERS))
def test_whoever_moves_gains_and_loses_what_other_workers_hold(
    tmp_path: Path, partitioner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opened again for every file, with 4 workers, then 2, then 4 again; steps of 30 events."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("os.fsync", lambda _: None)  # which takes most of the time
    small = Small(tmp_path)
    small.partitioner, small.step_rows = partitioner, 30
    log = roaming_log(sorted(PARTITIONERS).index(partitioner), FILES * ROWS)
    expected, refused = scanned(log, small.settings)
    for batch, path in enumerate(write_events(tmp_path / "in", log, FILES, 5)):
        small.workers = [4, 4, 2, 4, 4][batch]
        feed = small.open(replan=batch in (1, 2, 3))
        small.take(feed, batch, [path])
    small.check(expected)
    assert small.refused() == refused
    ops = [op for _, op, _, _ in expected]
    assert min(ops.count("add"), ops.count("remove")) > 20


def test_a_change_is_asked_of_both_sides_which_each_know_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two workers one holds what was, the other what is; each has the other one as a guest."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    small = Small(tmp_path)
    small.partitioner, small.workers = "space-kd", 2
    sites = [[-100, 40], [140, -30]]
    log: list[dict[str, Any]] = [
        {"op": "publish", "id": f"m{n}", "text": "tea", "point": sites[n % 2], "ttl": 9}
        for n in range(40)
    ]
    there, here = ({"type": "Circle", "center": site, "radius": 1000} for site in sites)
    log.append({"op": "subscribe", "id": "s", "query": "tea", "region": there})
    feed = small.open()
    small.take(feed, 0, write_events(tmp_path / "in", log, 1, 100))
    move = table_of(records([{"op": "move", "id": "s", "region": here}]))
    history = feed.pipeline.history
    reading = history.registrar.read(move, np.array([feed.pipeline.next_seq]))
    shards = history.placed(reading.log, reading.changes).shards
    assert [shard["kind"].to_pylist().count(CHANGE) for shard in shards] == [1, 1]
    assert [shard["seq"].to_pylist().count(NEVER) for shard in shards] == [1, 1]
    assert [shard["kind"].to_pylist().count(END) for shard in shards] in ([0, 1], [1, 0])
