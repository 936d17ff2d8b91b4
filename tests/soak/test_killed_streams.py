"""A million events through a stream that is killed again and again: every update once."""

from __future__ import annotations

import random
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kills import Log, Moving, Stream
from nearcast.engine.replay import replay
from nearcast.engine.scan import Scan
from nearcast.events.log import open_log
from nearcast.spark.outputs import read_updates
from nearcast_lab.workloads.stream import EventStream
from patience import PATIENCE_S

pytestmark = pytest.mark.soak

EVENTS, FILES, SUBSCRIPTIONS = 1_000_000, 100, 5_000
KILLS = 14
PLANS = [("shared", "2"), ("hybrid", "2"), ("space-kd", "8"), ("hybrid", "4")]


@pytest.fixture(scope="module", params=["tweets", "moving"])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Log:
    """Messages that are matched once, or subscribers that travel among lasting ones."""
    folder = tmp_path_factory.mktemp("events") / "log"
    if request.param == "moving":
        moving = Moving(2000, 5000)
        return Log(folder, len(moving), FILES, moving)
    events = EventStream(seed=3, subscriptions=SUBSCRIPTIONS, kind="tweets")
    return Log(folder, EVENTS, FILES, events)


@pytest.fixture(scope="module")
def expected(log: Log) -> pa.Table:
    return log.expected()


def test_the_embedded_engine_agrees_with_scan_here(log: Log, expected: pa.Table) -> None:
    """What streams are compared with below is right, as far as that can be seen in a while."""
    engine, found = Scan(), []
    with open_log(str(log.paths[0])) as some:
        for position, updates in replay(some, engine, lambda *_: None):
            found += [(position, each.op, each.subscription, each.message) for each in updates]
    first = expected.filter(
        pc.less(expected["event"], pq.read_metadata(log.paths[0]).num_rows)
    ).to_pylist()
    assert sorted(found) == sorted(
        (row["event"], row["op"], row["subscription"], row["message"]) for row in first
    )


@pytest.mark.parametrize("seed", [1])
def test_kills_at_random_points(tmp_path: Path, log: Log, expected: pa.Table, seed: int) -> None:
    """Driver, JVM and Python workers are killed while the folder fills and the plan changes."""
    some = random.Random(seed)
    kinds = ["driver", "jvm", "worker"] * (KILLS // 3 + 1)
    some.shuffle(kinds)
    stream = Stream(tmp_path, "--files-per-batch", "2")
    killed: list[str] = []
    log.rewind()
    with stream.watched():
        stream.start()
        while len(killed) < KILLS:
            log.give(stream, some.randint(4, 8))
            if not stream.lives:
                name, workers = PLANS[len(killed) % len(PLANS)]
                stream.start("--partitioner", name, "--workers", workers)
            stream.wait_for_commits(some.randint(0, 2))
            time.sleep(some.random() * some.choice([0.1, 1.0]))  # anywhere in a step
            kind = kinds[len(killed)]
            if stream.lives and stream.kill(kind):
                killed.append(kind)
                if kind != "worker":
                    stream.run.wait(PATIENCE_S)
                    _damage(stream, len(killed))
        log.give(stream, FILES)
        if stream.lives:
            stream.kill("driver")
            stream.run.wait()
        stream.finish()
    assert min(killed.count(kind) for kind in ("driver", "jvm", "worker")) >= 3
    found = read_updates(stream.output)
    assert len(found) > log.rows // 20
    assert found.equals(expected)


def _damage(stream: Stream, number: int) -> None:
    """Cut off the end of the newest log, or of files that nodes keep, now and then."""
    if number % 3 == 0:
        logs = sorted((stream.state / "log").glob("0*.arrow"))
        for path in logs[-1:]:
            path.write_bytes(path.read_bytes()[:-100])
    if number % 3 == 1:
        kept = [*stream.cache.rglob("*.bin"), *stream.state.glob("snapshots/*/*/*.bin")]
        for path in kept:
            with path.open("r+b") as file:
                file.truncate(path.stat().st_size // 2)
