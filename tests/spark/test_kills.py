"""A stream of the command line, killed on real Spark: every update once."""

from pathlib import Path

from kills import Log, Stream
from nearcast.spark.outputs import read_updates
from nearcast.workloads.stream import EventStream


def test_a_killed_stream_goes_on_where_it_was(tmp_path: Path) -> None:
    """A Python worker is replaced; after the JVM and the driver the command is started again."""
    events = EventStream(seed=3, subscriptions=2000, kind="tweets", vocabulary=2000)
    log = Log(tmp_path / "log", 20_000, 20, events)
    stream = Stream(tmp_path, "--files-per-batch", "1", "--partitioner", "hybrid", "--workers", "2")
    with stream.watched():
        log.give(stream, 6)
        stream.start()
        stream.wait_for_commits(2)
        assert stream.kill("worker")
        log.give(stream, 3)
        stream.wait_for_commits(3)
        assert stream.kill("jvm")
        assert stream.run.wait() == 1
        assert "Spark has ended" in stream.log.read_text()
        log.give(stream, 7)
        stream.start()
        stream.wait_for_commits(2)
        assert stream.kill("driver")
        log.give(stream, 4)
        stream.finish()
    found = read_updates(stream.output)
    assert len(found) > 10_000
    assert found["op"].to_pylist().count("remove") > 20
    assert found.equals(log.expected())
    assert not [path for path in stream.cache.rglob("*") if path.is_file()]
