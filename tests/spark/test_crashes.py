"""A pipeline that dies between any two changes it makes to files gives every update once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from crashes import Crash, Crashes, install
from instant_logs import scanned
from nearcast.spark.feed import Feed
from small_pipeline import Small, churn, write_events

PLANS = [("shared", 1), ("space-kd", 3), ("hash", 2)]
BATCHES, ROWS = 36, 20


@pytest.fixture
def crashes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Crashes]:
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    return install(monkeypatch)


def test_a_crash_at_any_point_loses_nothing_and_repeats_nothing(
    tmp_path: Path, crashes: Crashes
) -> None:
    """It dies between any two changes of files, also while it recovers, and is cut otherwise."""
    log = churn(BATCHES * ROWS)
    small = Small(tmp_path)
    expected, refused = scanned(log, small.settings)
    feed: Feed | None = None
    deaths = 0
    for batch, path in enumerate(write_events(tmp_path / "in", log, BATCHES, 5)):
        replan = batch % 6 == 0
        if replan:
            small.partitioner, small.workers = PLANS[batch // 6 % len(PLANS)]
            feed = None
        taken = False
        while not taken:
            try:
                with crashes.anywhere_new(tmp_path):
                    feed = feed or small.open(replan)
                    small.take(feed, batch, [path])
                    taken = True
            except Crash:
                feed = None
                deaths += 1
                small.step_rows = 5 if deaths % 3 else 10
    small.check(expected)
    assert small.refused() == refused
    assert deaths == len(crashes.known) > 200
