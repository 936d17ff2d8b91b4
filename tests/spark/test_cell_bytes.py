"""What each cell has is counted as events come, and found again after a stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearcast.engine.matching import ScannedMessages
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.errors import NearcastError
from nearcast.events import Message, Publish, event_from_json
from nearcast.partition.grid import Grid, cells_of
from nearcast.spark.driver import census
from nearcast.spark.driver.census import Census, read_census
from small_pipeline import Small, churn, write_events


def counted(grid: Grid, boxes: list[Any]) -> Any:
    _, cells = cells_of(grid, np.array(boxes, np.float64).reshape(-1, 4))
    return np.bincount(cells, minlength=grid.cells).tolist()


def boxes_of(message: Message) -> list[Any]:
    if message.region is not None:
        return list(message.region.bounds())
    assert message.point is not None
    return [(*message.point, *message.point)]


@pytest.mark.parametrize("partitioner", ["space-kd", "hybrid", "text-frequency"])
def test_counts_are_those_of_what_there_is(
    tmp_path: Path, partitioner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages since the plan; one row for each conjunct and box of what stands."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(census, "_EVERY_S", 0.0)
    log = churn(120, seed=7)
    paths = write_events(tmp_path / "in", log, files=4, group=10)
    small = Small(tmp_path)
    small.partitioner, small.workers = partitioner, 3
    lasting = ScannedMessages()
    scan = Scan(Settings(), active=lasting)
    points: list[Any] = []
    for fields in log:
        event = event_from_json(fields)
        try:
            scan.apply(event)
        except NearcastError:
            continue
        if isinstance(event, Publish):
            points += boxes_of(event.message)
    for batch, path in enumerate(paths):
        feed = small.open()  # as a new process would, each time
        small.take(feed, batch, [path])
    # What ended in the last step stands until the next one says that it is gone.
    idle = tmp_path / "in" / "idle.jsonl"
    idle.write_text(json.dumps({"op": "publish", "id": "idle", "text": "x", "point": [0, 0]}))
    feed = small.open()
    small.take(feed, len(paths), [str(idle)])
    points.append((0, 0, 0, 0))
    found = feed.pipeline.history.census
    assert isinstance(found, Census)
    rows = [
        tuple(bounds)
        for each in scan.subscriptions()
        if each.region is not None
        for bounds in each.region.bounds()
        for _ in range(1 + (each.query or "").count(" OR "))
    ]
    assert found.rows.tolist() == counted(found.grid, rows)
    assert found.messages.tolist() == counted(found.grid, points)
    active = [box for each in lasting._messages.values() for box in boxes_of(each.message)]
    assert found.active.tolist() == counted(found.grid, active)
    assert sum(found.active) > 0
    assert ((found.bytes > 64 * found.rows) == (found.rows > 0)).all()
    written = read_census(feed.pipeline.state)
    assert written is not None
    assert written["rows"] == found.rows[written["cells"]].tolist()
    assert sum(written["messages"]) == found.messages.sum()
