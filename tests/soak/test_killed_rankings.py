"""Top-k on Spark, killed five times at random points: no update lost, none twice."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pytest

from kills import PATIENCE_S, Log, Ranked, Stream
from nearcast import Engine
from nearcast.spark.outputs import read_updates

pytestmark = pytest.mark.soak

EVENTS, FILES = 60_000, 60
WINDOWS = {"count": ("--window-count", "3000"), "seconds": ("--window-seconds", "500")}


@pytest.mark.parametrize("window", sorted(WINDOWS))
def test_five_kills_at_random_points(tmp_path: Path, window: str) -> None:
    """Driver, JVM and Python workers, while the number of workers changes."""
    some = random.Random(len(window))
    log = Log(tmp_path / "log", EVENTS, FILES, Ranked(EVENTS, names=800))
    engine = Engine(window_count=3000) if window == "count" else Engine(window_seconds=500)
    stream = Stream(tmp_path, "--files-per-batch", "2", *WINDOWS[window])
    kinds = ["driver", "jvm", "worker", "worker", "driver"]
    some.shuffle(kinds)
    with stream.watched():
        stream.start()
        for number, kind in enumerate(kinds):
            log.give(stream, 8)
            if not stream.lives:
                stream.start("--workers", str([2, 4, 1, 8, 3][number]))
            stream.wait_for_commits(some.randint(1, 2))
            time.sleep(some.random())  # anywhere in a step
            assert stream.kill(kind)
            if kind != "worker":
                stream.run.wait(PATIENCE_S)
        log.give(stream, FILES)
        if stream.lives:
            stream.kill("driver")
            stream.run.wait()
        stream.finish()
    found = read_updates(stream.output)
    assert len(found) > EVENTS
    assert found.equals(log.expected(engine))
