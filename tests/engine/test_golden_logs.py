"""Logs whose updates were frozen: no engine and no index may ever give others for them.

`scan` is the definition of right, so all else is compared with it; this is what `scan` itself is
compared with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nearcast.engine import INDEX_NAMES, Engine, Settings, replay, stop_at, update_line
from nearcast.errors import NearcastError
from nearcast.events import Record, open_log
from nearcast.spark.inline import InlineRunner
from nearcast.spark.replay import replay_steps
from nearcast.topk import Window

GOLDEN = Path(__file__).parents[1] / "golden" / "logs"
LOGS: dict[str, dict[str, Any]] = {
    "boolean": {},
    "ranked": {"window_count": 30},
    "ranked-seconds": {"window_seconds": 9.0},
}


def pass_over(record: Record, error: NearcastError) -> None:
    """Leave a bad event out, as a quarantine does."""
    del record, error


def frozen(name: str) -> list[bytes]:
    return (GOLDEN / f"{name}.updates.jsonl").read_bytes().splitlines(keepends=True)


@pytest.mark.parametrize(
    ("name", "index"),
    [("boolean", index) for index in INDEX_NAMES]
    + [(name, index) for name in ("ranked", "ranked-seconds") for index in ("scan", "rarest-term")],
)
def test_an_engine_gives_the_frozen_updates(name: str, index: str) -> None:
    engine = Engine(index=index, **LOGS[name])
    with open_log(GOLDEN / f"{name}.events.jsonl") as log:
        found = [
            update_line(position, update)
            for position, updates in replay(log, engine, pass_over)
            for update in updates
        ]
    assert found == frozen(name)


@pytest.mark.parametrize("partitioner", ["shared", "hybrid"])
@pytest.mark.parametrize("name", ["boolean", "ranked"])
def test_a_pipeline_gives_the_same_updates_for_what_it_takes(
    name: str, partitioner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    window = LOGS[name]
    settings = Settings(window=Window(window.get("window_count"), window.get("window_seconds")))
    refused: set[int] = set()

    def note(record: Record, error: NearcastError) -> None:
        del error
        refused.add(record.position)

    path = GOLDEN / f"{name}.events.jsonl"
    with open_log(path) as log:
        steps = replay_steps(
            log, note, runner=InlineRunner(), settings=settings, workers=3,
            partitioner=partitioner, folder=tmp_path / "state", step_records=60,
        )  # fmt: skip
        found = [update_line(position, update) for position, updates in steps for update in updates]
    with open_log(path) as log:
        taken = [record for record in log if record.position not in refused]
    engine = Engine(index="scan", **window)
    expected = [
        update_line(position, update)
        for position, updates in replay(taken, engine, stop_at(name))
        for update in updates
    ]
    assert found == expected
    assert len(found) > 100
