"""A batch is there whole or not at all, and once, whatever happened to tasks and drivers."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from nearcast.errors import SourceError
from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.spark.io.paths import resolve
from nearcast.spark.io.sink import RefusedEvent, Sink
from nearcast.spark.outputs import FolderOutput


def updates(*events: int) -> pa.Table:
    rows = [{"event": event, "op": "add", "subscription": "s", "message": "m"} for event in events]
    return pa.Table.from_pylist(rows, schema=UPDATE_SCHEMA)


def write(sink: Sink, batch: int, slice_: int, attempt: int, table: pa.Table) -> str:
    name, stream = sink.open(batch, slice_, attempt)
    with stream:
        pq.write_table(table, stream)
    return name


@pytest.fixture(params=[True, False], ids=["renames", "moves"])
def sink(tmp_path: Path, request: pytest.FixtureRequest) -> Sink:
    return Sink(str(tmp_path / "out"), renames=request.param)


def events(sink: Sink) -> list[int]:
    table = ds.dataset(sink.output, format="parquet", partitioning="hive").to_table()
    return sorted(table["event"].to_pylist())


def staged(sink: Sink) -> list[str]:
    return sorted(path.name for path in (Path(sink.output) / ".staging").iterdir())


def test_exactly_the_named_files_are_committed(sink: Sink) -> None:
    first, second = write(sink, 0, 0, 1, updates(1)), write(sink, 0, 1, 2, updates(2, 3))
    write(sink, 0, 1, 7, updates(2, 3))  # another attempt at the same slice
    assert not sink.committed(0)
    assert sink.commit(0, [first, second])
    assert sink.committed(0)
    assert events(sink) == [1, 2, 3]
    assert sorted(path.name for path in Path(sink.output, "batch=0").glob("*.parquet")) == [
        "part-00000.parquet",
        "part-00001.parquet",
    ]


def test_a_batch_that_is_there_is_not_written_again(sink: Sink) -> None:
    sink.commit(4, [write(sink, 4, 0, 0, updates(1))])
    again = write(sink, 4, 0, 1, updates(99))
    assert not sink.commit(4, [again])
    assert events(sink) == [1]
    assert staged(sink) == []


def test_a_commit_removes_what_was_staged_for_it_and_before_and_nothing_later(sink: Sink) -> None:
    for batch in (1, 2, 10):
        write(sink, batch, 0, 0, updates(batch))
    sink.commit(2, [write(sink, 2, 1, 0, updates(5))])
    assert staged(sink) == ["10"]
    assert events(sink) == [5]


def test_a_batch_without_updates_is_there_too(sink: Sink) -> None:
    sink.commit(0, [])
    assert sink.committed(0)
    assert not sink.committed(1)
    assert sink.batches() == [0]


def test_a_file_that_is_missing_or_doubled_stops_the_commit(sink: Sink) -> None:
    name = write(sink, 0, 3, 0, updates(1))
    with pytest.raises(SourceError, match="0-9-00000000.parquet: is missing"):
        sink.commit(0, [name, "0-9-00000000.parquet"])
    other = write(sink, 0, 3, 1, updates(1))
    with pytest.raises(SourceError, match="two files of one slice"):
        sink.commit(0, [name, other])
    assert not sink.committed(0)
    assert sink.commit(0, [name])


def test_two_tasks_never_write_to_one_file(sink: Sink) -> None:
    names = {write(sink, 0, 0, 0, updates(1)) for _ in range(3)}
    assert len(names) == 3


@pytest.mark.parametrize("renames", [True, False])
@pytest.mark.parametrize("at", range(8))
def test_after_a_crash_within_a_commit_the_batch_is_made_again_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: bool, at: int
) -> None:
    """Whichever step of the commit is the last one, the second driver gives the same batch."""
    sink = Sink(str(tmp_path / "out"), renames)
    sink.commit(0, [write(sink, 0, 0, 0, updates(0))])
    names = [write(sink, 1, slice_, 0, updates(slice_ + 1)) for slice_ in range(2)]
    crash = Crash(monkeypatch, at)
    with suppress(KeyboardInterrupt):
        sink.commit(1, names)  # with fewer steps than `at`, the crash comes after it
    crash.undo()
    if renames and not sink.committed(1):
        assert events(sink) == [0]
    # another driver, with another number of slices
    if not sink.committed(1):
        again = [
            write(sink, 1, slice_, 0, updates(1, 2) if slice_ == 0 else updates())
            for slice_ in (0,)
        ]
        assert sink.commit(1, again)
    assert events(sink) == [0, 1, 2]


class Crash:
    """Let the n-th step on the file system be the last one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int) -> None:
        self._left = at
        self._patch = monkeypatch
        monkeypatch.setattr("nearcast.spark.io.sink.resolve", self._resolve)

    def undo(self) -> None:
        self._patch.undo()

    def _resolve(self, path: str) -> tuple[Any, str]:
        files, root = resolve(path)
        return Dying(files, self), root

    def step(self) -> None:
        if self._left == 0:
            raise KeyboardInterrupt
        self._left -= 1


class Dying:
    def __init__(self, files: Any, crash: Crash) -> None:
        self._files = files
        self._crash = crash

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._files, name)
        if name in ("create_dir", "move", "copy_file", "delete_dir", "open_output_stream"):
            self._crash.step()
        return found


def test_spark_and_pyarrow_read_what_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    sink = Sink(f"file://{tmp_path}/out")
    for batch in range(3):
        sink.commit(batch, [write(sink, batch, 0, 0, updates(batch * 10, batch * 10 + 1))])
    sink.commit(3, [])
    write(sink, 4, 0, 0, updates(99))
    frame = spark.read.parquet(f"{tmp_path}/out")
    assert sorted((row.batch, row.event) for row in frame.collect()) == [
        (0, 0), (0, 1), (1, 10), (1, 11), (2, 20), (2, 21),
    ]  # fmt: skip
    assert sink.batches() == [0, 1, 2, 3]


def test_refused_events_are_committed_with_the_updates(spark: SparkSession, tmp_path: Path) -> None:
    output = FolderOutput(str(tmp_path / "out"), str(tmp_path / "bad"), "state")
    refused = [
        RefusedEvent(3, "op: missing", {"id": "é"}),
        RefusedEvent(4, "no JSON", b"\xff{"),
        RefusedEvent(5, "e", b'{"a": 1}'),
    ]
    output.commit(0, [write(Sink(output.folder), 0, 0, 0, updates(1))], refused)
    assert Sink(output.folder).committed(0)
    lines = (tmp_path / "bad" / "batch=0" / "part-00000.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"seq": 3, "error": "op: missing", "event": {"id": "é"}},
        {"seq": 4, "error": "no JSON", "event": "�{"},
        {"seq": 5, "error": "e", "event": {"a": 1}},
    ]
    assert [row.seq for row in spark.read.json(f"{tmp_path}/bad").collect()] == [3, 4, 5]


def test_a_crash_between_the_two_keeps_the_refused_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output = FolderOutput(str(tmp_path / "out"), str(tmp_path / "bad"), "state")
    sink, refused = Sink(output.folder), [RefusedEvent(1, "e", {})]
    with monkeypatch.context() as patch:
        patch.setattr(Sink, "_rename", stop_at_updates(Sink._rename, output.folder))
        with pytest.raises(KeyboardInterrupt):
            output.commit(0, [write(sink, 0, 0, 0, updates(1))], refused)
    assert not sink.committed(0)
    assert Sink(str(tmp_path / "bad")).batches() == [0]
    output.commit(0, [write(sink, 0, 0, 1, updates(1))], refused)
    assert sink.committed(0)
    assert len((tmp_path / "bad" / "batch=0" / "part-00000.jsonl").read_text().splitlines()) == 1


def stop_at_updates(rename: Any, output: str) -> Any:
    def stopped(self: Sink, *arguments: Any) -> None:
        if self.output == output:
            raise KeyboardInterrupt
        rename(self, *arguments)

    return stopped


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), max_size=3), min_size=1, max_size=5))
def test_whatever_is_tried_however_often_each_batch_is_there_once(
    tmp_path_factory: pytest.TempPathFactory, tries: list[list[int]]
) -> None:
    """Drivers that repeat batches, in any order, add nothing to what is there."""
    sink = Sink(str(tmp_path_factory.mktemp("sink") / "out"))
    done: set[int] = set()
    for batches in tries:
        for batch in batches:
            committed = sink.commit(batch, [write(sink, batch, 0, 0, updates(batch))])
            assert committed == (batch not in done)
            done.add(batch)
    assert sink.batches() == sorted(done)
    if done:
        assert events(sink) == sorted(done)
