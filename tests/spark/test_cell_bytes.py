"""What subscriptions take in each cell is added up as they come and go, and found after a stop."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.errors import NearcastError
from nearcast.events import event_from_json
from nearcast.partition.grid import cells_of
from nearcast.spark.driver.placing import keyed
from small_pipeline import Small, churn, write_events


@pytest.mark.parametrize("partitioner", ["space-kd", "hybrid", "text-frequency"])
def test_sums_are_those_of_what_there_is(
    tmp_path: Path, partitioner: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row of a subscription counts where it meets a cell, with all bytes of its texts."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    log = churn(120, seed=7)
    paths = write_events(tmp_path / "in", log, files=4, group=10)
    small = Small(tmp_path)
    small.partitioner, small.workers = partitioner, 3
    scan = Scan(Settings())
    for fields in log:
        try:
            scan.apply(event_from_json(fields))
        except NearcastError:
            continue
    for batch, path in enumerate(paths):
        feed = small.open()  # as a new process would, each time
        small.take(feed, batch, [path])
    # What ended in the last step stands until the next one says that it is gone.
    idle = tmp_path / "in" / "idle.jsonl"
    idle.write_text(json.dumps({"op": "publish", "id": "idle", "text": "x", "point": [0, 0]}))
    feed = small.open()
    small.take(feed, len(paths), [str(idle)])
    history = feed.pipeline.history
    plan, found = history.plan, history.cell_bytes
    assert plan is not None
    assert found is not None
    _, rows = keyed(plan, history.registrar.definitions(history.booleans))
    numbers, cells = cells_of(plan.grid, rows.boxes)
    held = np.bincount(cells, rows.bytes[numbers], minlength=plan.grid.cells)
    assert found.tolist() == held.tolist()
    boxes: list[Any] = [
        tuple(bounds)
        for each in scan.subscriptions()
        if each.region is not None
        for bounds in each.region.bounds()
        for _ in range(1 + (each.query or "").count(" OR "))
    ]
    _, cells = cells_of(plan.grid, np.array(boxes, np.float64).reshape(-1, 4))
    standing = np.bincount(cells, minlength=plan.grid.cells)
    assert ((found > 64 * standing) == (standing > 0)).all()
