"""A pipeline whose events, state and updates are in an object store, over the protocol of S3."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs

from boolean_logs import records, scanned
from nearcast.engine.settings import Settings
from nearcast.errors import SourceError
from nearcast.server.archive.restore import restore_archive
from nearcast.spark.events import table_of
from nearcast.spark.io.files import Files
from nearcast.spark.io.paths import open_file, resolve
from nearcast.spark.readers.landing import land_file
from patience import wait_until
from served import IPAD, SALE, serving
from small_pipeline import Small, churn

BUCKET = "s3a://events"


@pytest.fixture(scope="module")
def store() -> Iterator[fs.FileSystem]:
    """A store on this machine, found as the tools of Amazon find it."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "test")
        patch.setenv("AWS_REGION", "us-east-1")
        found = fs.S3FileSystem(
            endpoint_override=f"{host}:{port}", scheme="http", allow_bucket_creation=True
        )
        found.create_dir("events")
        yield found
    server.stop()


def test_files_are_there_whole_or_not_at_all(store: fs.FileSystem) -> None:
    files = Files(f"{BUCKET}/some").below("folder")
    files.write("deep/a", b"one")
    files.write("deep/a", b"two")
    files.write("deep/b", b"")
    assert (files.read("deep/a"), files.names("deep")) == (b"two", ["a", "b"])
    assert bytes(files.map("deep/a")) == b"two"
    assert store.get_file_info("events/some/folder/deep/a").size == 3
    files.remove("deep/a")
    assert (files.names("deep"), files.exists("deep/a")) == (["b"], False)
    assert files.names("elsewhere") == []
    with pytest.raises(SourceError, match=r"s3a://events/some/folder/deep/a: cannot be read"):
        files.read("deep/a")


@pytest.mark.usefixtures("store")
def test_a_log_is_landed_from_and_to_the_store(tmp_path: Path) -> None:
    log = churn(20)
    lines = "".join(json.dumps(fields) + "\n" for fields in log)
    Files(BUCKET).write("in/1.jsonl", lines.encode())
    land_file(f"{BUCKET}/in/1.jsonl", f"{BUCKET}/inbox/1.parquet")
    with open_file(f"{BUCKET}/inbox/1.parquet") as file:
        assert pq.read_table(file).equals(table_of(records(log)))
    land_file(f"{BUCKET}/in/1.jsonl", f"{tmp_path}/1.parquet")
    assert pq.read_table(tmp_path / "1.parquet").num_rows == len(log)


@pytest.mark.usefixtures("store")
def test_the_archive_of_a_server_is_restored_from_the_store(tmp_path: Path) -> None:
    root = f"{BUCKET}/archive"
    with serving(tmp_path / "data", archive=root, archive_s=0.001) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        server.post("/v1/messages", SALE | {"id": "m1"})
        kept = server.updates()
        wait_until(lambda: server.state.archive.lag()[0] == 0, "the archive")
        assert server.state.archive.failures == 0
    restore_archive(root, tmp_path / "restored", float("inf"))
    with serving(tmp_path / "restored") as server:
        assert server.updates() == kept


class Stored(Small):
    """A small pipeline with everything but the cache of its node in the store."""

    def found(self) -> list[tuple[int, str, str, str]]:
        files, root = resolve(f"{self.place}/out")
        infos = files.get_file_info(fs.FileSelector(root, recursive=True))
        paths = [info.path for info in infos if info.path.endswith(".parquet")]
        assert not any("staging" in path for path in paths)
        rows = [row for path in paths for row in pq.read_table(path, filesystem=files).to_pylist()]
        return [(row["event"], row["op"], row["subscription"], row["message"]) for row in rows]


@pytest.mark.usefixtures("store")
def test_a_pipeline_finds_itself_again_in_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON Lines and Parquet, another plan in between, and a node that lost its cache."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("NEARCAST_CACHE", str(cache))
    log = churn(90, seed=3)
    expected, refused = scanned(log, Settings())
    files = Files(BUCKET)
    small = Stored(tmp_path)
    small.place = f"{BUCKET}/pipeline"
    for number, (partitioner, workers) in enumerate([("space-kd", 2), ("hash", 3), ("shared", 1)]):
        small.partitioner, small.workers = partitioner, workers
        some = log[number * 30 : (number + 1) * 30]
        feed = small.open(replan=bool(number))
        if number % 2:
            files.fill(
                f"in/{number}",
                lambda stream, some=some: pq.write_table(  # type: ignore[misc]
                    table_of(records(some)), stream, row_group_size=10
                ),
            )
        else:
            files.write(f"in/{number}", "".join(json.dumps(one) + "\n" for one in some).encode())
        small.take(feed, number, [f"{BUCKET}/in/{number}"])
        shutil.rmtree(cache)
    small.check(expected)
    assert files.names("pipeline/quarantine")
    assert refused
