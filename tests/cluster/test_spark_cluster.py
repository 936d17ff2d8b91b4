"""A stream on a cluster whose nodes have nothing installed, and die."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from boolean_logs import records, scanned
from mixed_logs import mixed_log
from nearcast.engine.settings import Settings
from nearcast.errors import SetupError
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.spark import match_stream
from nearcast.spark.events import table_of
from nearcast.spark.outputs import read_updates
from nearcast.spark.placement import executor_hosts
from nearcast.spark.readers.schema import NUMBERED_EVENTS
from nearcast.spark.reports.report import WorkerReport, read_reports
from nearcast.spark.session import prepare
from patience import wait_until
from spark_cluster import ENVIRONMENT, Cluster, node_archive

pytestmark = pytest.mark.cluster

NODES = (2, 3, 4, 5)
WORKERS = 8
BATCHES = 50


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Four nodes with one core each; nothing of it is left afterwards."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as started:
        for number in NODES:
            started.add(number)
        yield started
    assert started.left() == []


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return node_archive(tmp_path_factory.mktemp("archive"))


Connect = Callable[[str | None], SparkSession]


@pytest.fixture
def connect(cluster: Cluster, archive: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    """Sessions on the cluster, by what PYSPARK_PYTHON says."""
    sessions = []

    def start(program: str | None) -> SparkSession:
        monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
        if program is None:
            monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
        else:
            monkeypatch.setenv("PYSPARK_PYTHON", program)
        builder = prepare(SparkSession.builder.appName("cluster test"))
        for key, value in cluster.settings(archive).items():
            builder = builder.config(key, value)
        sessions.append(builder.getOrCreate())
        return sessions[-1]

    yield start
    for session in sessions:
        session.stop()


LOG = mixed_log(seed=11, count=30 * BATCHES)
GOOD = [at for at, record in enumerate(records(LOG)) if record.event is not None]


class Source:
    """Feeds a stream batch by batch with parts of the log, and knows what must have come of it."""

    def __init__(self, folder: Path, parts: int) -> None:
        folder.mkdir()
        self.folder, self._parts, self._fed = folder, parts, 0

    def feed(self, query: StreamingQuery, count: int) -> None:
        for _ in range(count):
            edges = [len(GOOD) * part // self._parts for part in (self._fed, self._fed + 1)]
            numbers = GOOD[slice(*edges)]
            every = records(LOG)
            table = table_of([every[at] for at in numbers]).select(EVENT_SCHEMA.names)
            table = table.append_column("seq", pa.array(numbers, pa.int64()))
            unfinished = self.folder / f".{self._fed}"
            pq.write_table(table, unfinished)
            unfinished.rename(self.folder / f"{self._fed:03}.parquet")
            self._fed += 1
            query.processAllAvailable()


def places(reports: Iterable[list[WorkerReport]]) -> dict[int, set[str]]:
    """The nodes on which each shard was, over some batches."""
    found: dict[int, set[str]] = {}
    for workers in reports:
        for one in workers:
            found.setdefault(one.worker, set()).add(one.where)
    return found


def test_nodes_without_a_suitable_python_are_reported_at_once(
    connect: Connect, tmp_path: Path
) -> None:
    spark = connect(None)
    frame = spark.createDataFrame([], NUMBERED_EVENTS)
    with pytest.raises(SetupError, match="the node 127.0.0.. runs tasks with 'python3'") as caught:
        match_stream(frame, state=tmp_path / "state")
    assert "set PYSPARK_PYTHON" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_stream_on_nodes_that_die_and_come(
    connect: Connect, cluster: Cluster, tmp_path: Path
) -> None:
    """Every update once, each shard on one node, and on another one once that has failed."""
    spark = connect(f"./{ENVIRONMENT}/bin/python")
    seen_here = spark.range(0, 8, 1, 8).mapInArrow(packages(), "path string, at string").collect()
    assert all(row.path.startswith(f"{row.at}/{ENVIRONMENT}/") for row in seen_here), seen_here
    source = Source(tmp_path / "events", BATCHES)
    events = spark.readStream.schema(NUMBERED_EVENTS).parquet(str(source.folder))
    state, out = tmp_path / "state", tmp_path / "out"
    query = match_stream(
        events, workers=WORKERS, partitioner="space-kd", state=state, output=out,
    )  # fmt: skip

    def seen(since: int) -> dict[int, set[str]]:
        return places(report.workers for report in read_reports(str(state))[since:])

    quiet = BATCHES - 12
    source.feed(query, quiet)
    before = seen(0)
    assert {len(nodes) for nodes in before.values()} == {1}, before
    assert sorted(before) == list(range(WORKERS))
    held = [next(iter(nodes)) for nodes in before.values()]
    assert {host: held.count(host) for host in held} == dict.fromkeys(_hosts(NODES), 2)

    cluster.kill(3)
    source.feed(query, 6)
    cluster.add(6)
    wait_until(lambda: "127.0.0.6" in executor_hosts(spark), lambda: cluster.log(6))
    source.feed(query, 6)
    query.stop()
    assert query.exception() is None

    after = seen(quiet + 1)
    for worker, nodes in before.items():
        if nodes == {"127.0.0.3"}:
            assert "127.0.0.3" not in after[worker]
    final = seen(BATCHES - 1)
    assert "127.0.0.6" in set().union(*final.values())

    expected, _ = scanned(LOG, Settings())
    found: list[dict[str, Any]] = read_updates(out).to_pylist()
    rows = sorted((row["event"], row["op"], row["subscription"], row["message"]) for row in found)
    assert rows == sorted(expected)


def _hosts(numbers: Iterable[int]) -> list[str]:
    return [f"127.0.0.{number}" for number in numbers]


def packages() -> Any:
    """What says where tasks have this package from, and in which folder they run."""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import nearcast

        for _ in batches:
            yield pa.RecordBatch.from_pydict({"path": [nearcast.__file__], "at": [str(Path.cwd())]})

    return look
