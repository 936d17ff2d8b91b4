"""A stream of the command line, killed on real Spark: every update once."""

from pathlib import Path
from random import Random

import pytest

from any_targets import any_target
from kills import Log, Stream
from nearcast.spark.driver.snapshot import standing
from nearcast.spark.driver.state import open_state
from nearcast.spark.outputs import read_updates
from nearcast.spark.reports.report import read_reports
from nearcast_lab.workloads.stream import EventStream


@pytest.mark.parametrize("victim", ["driver", pytest.param("jvm", marks=pytest.mark.soak)])
def test_a_killed_stream_goes_on_where_it_was(tmp_path: Path, victim: str) -> None:
    """A Python worker is replaced; after the JVM or the driver the command is started again.

    Meanwhile it comes to another plan, with one worker more.
    """
    events = EventStream(seed=3, subscriptions=300, kind="tweets", vocabulary=300)
    log = Log(tmp_path / "log", 8_400, 12, events)
    stream = Stream(tmp_path, "--files-per-batch", "1", "--partitioner", "hybrid", "--workers", "2")
    with stream.watched():
        log.give(stream, 5)
        stream.start()
        stream.wait_for_commits(2)
        wish(stream, Random(2), workers=3)
        assert stream.kill("worker")
        log.give(stream, 3)
        stream.wait_for_commits(3)
        assert stream.kill(victim)
        log.give(stream, 4)
        if victim == "jvm":
            assert stream.run.wait() == 1
            assert "Spark has ended" in stream.log.read_text()
        stream.finish()
    found = read_updates(stream.output)
    assert len(found) > 3_000
    assert found["op"].to_pylist().count("remove") > 20
    assert found.equals(log.expected())
    assert not [path for path in stream.cache.rglob("*") if path.is_file()]
    moves = [report.moved for report in read_reports(str(stream.state)) if report.moved is not None]
    assert sum(move.subscriptions for move in moves) > 100


def wish(stream: Stream, some: Random, workers: int | None = None) -> None:
    """Tell a running stream to come to another plan, as `nearcast spark adjust --apply` does."""
    state = open_state(str(stream.state))
    plan = standing(state).plan
    words = [f"w{number}" for number in range(20)]
    state.write_target(any_target(plan, some, words, workers))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
def test_cells_change_hands_while_everything_is_killed(tmp_path: Path, seed: int) -> None:
    """Plans are wished for all the time, and go on over several batches, while processes die."""
    some = Random(seed)
    events = EventStream(seed=seed, subscriptions=3000, kind="tweets", vocabulary=2000)
    log = Log(tmp_path / "log", 60_000, 60, events)
    options = ("--files-per-batch", "1", "--partitioner", "space-kd", "--workers", "3")
    stream = Stream(tmp_path, *options, "--adjust", "auto", "--adjust-bytes", "2M")
    with stream.watched():
        log.give(stream, 6)
        stream.start()
        stream.wait_for_commits(3)
        for kind in ("worker", "driver", "jvm", "driver", "worker", "driver"):
            wish(stream, some)
            log.give(stream, 8)
            stream.wait_for_commits(some.randint(1, 4))
            wish(stream, some)
            stream.kill(kind)
            if kind != "worker":
                stream.start()
                stream.wait_for_commits(1)
        log.give(stream, 60)
        stream.wait_for_commits(1)
        stream.kill("driver")
        stream.finish()
    found = read_updates(stream.output)
    assert found.equals(log.expected())
    reports = read_reports(str(stream.state))
    assert sum(report.moved is not None for report in reports) > 6
