"""Readers give the same, however events are divided among them, and in whatever order they lie."""

from __future__ import annotations

import gc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from boolean_logs import records
from mixed_logs import mixed_log, with_news
from nearcast.engine.settings import Settings
from nearcast.events import Publish, event_from_json
from nearcast.events.bodies import body_of, to_json
from nearcast.events.columns import EVENT_SCHEMA
from nearcast.geo import Box
from nearcast.spark.driver.history import Upkeep
from nearcast.spark.driver.state import packed
from nearcast.spark.events import completed, table_of
from nearcast.spark.io.files import Files
from nearcast.spark.operations import LASTING, LOG
from nearcast.spark.packed import PackedEvents, ReadingOptions, ReadInput, StepEvents
from nearcast.spark.readers.slices import EventFile
from nearcast.spark.reading import dealt_slices, pack_events
from nearcast.spark.registrar import Reading, Registrar
from nearcast.spark.runner import SparkRunner
from nearcast.topk import Window
from small_pipeline import Small, write_events

SETTINGS = Settings(Window(count=9), Box(-170.0, -80.0, 170.0, 80.0))
STEP = 150


def described(reading: Reading) -> dict[str, Any]:
    """All that follows from a reading; the log in the bytes in which it is written."""
    arrived = np.flatnonzero(reading.number >= 0)
    return {
        "log": packed([reading.log], LOG).to_pybytes(),
        "refused": [(each.row, each.error) for each in reading.refusals],
        "changes": [column.tolist() for column in reading.changes],
        "arrived": reading.texts(arrived).to_pylist(),
        "matched": reading.matched.tolist(),
        "places": reading.events.places[reading.messages].tolist(),
    }


def steps_of(seed: int) -> list[pa.Table]:
    log = with_news(mixed_log(seed, 900), seed)
    table = table_of(records(log))
    return [table[start : start + STEP] for start in range(0, len(table), STEP)]


OPTIONS = ReadingOptions(places=True, sample=20)


@pytest.mark.parametrize("seed", range(3))
def test_the_log_does_not_depend_on_how_events_are_divided(seed: int, tmp_path: Path) -> None:
    """Not in a single byte: a log that was lost is made again, and compared by its checksum."""
    whole, divided, files = Registrar(SETTINGS), Registrar(SETTINGS), Files(str(tmp_path))
    few = ReadingOptions(places=True, texts=2)
    for number, events in enumerate(steps_of(seed)):
        seq = np.arange(len(events)) + number * STEP
        edges = sorted({0, len(events), *(7 * seed + 11 * n * n for n in range(4))})
        parts = []
        for start, stop in pairwise(edges):
            pack_events(events[start:stop], seq[start:stop], SETTINGS, few).write(files, "part")
            parts.append(PackedEvents.read(files, "part"))

        def given(rows: Any, events: pa.Table = events) -> pa.Table:
            return events.take(pa.array(rows))

        once = StepEvents([pack_events(events, seq, SETTINGS, OPTIONS)])
        expected = described(whole.decide(once, given))
        assert described(divided.decide(StepEvents(parts), given)) == expected
        assert expected["refused"]
        assert 0 < len(once.sample) <= 2 * 20  # one across the antimeridian has two places


def test_events_that_lie_in_another_order() -> None:
    """They are put in the order of their numbers, and what came twice, or late, is passed over."""
    in_order, in_disorder = Registrar(SETTINGS), Registrar(SETTINGS)
    draw = np.random.default_rng(1)
    for number, events in enumerate(steps_of(4)):
        seq = np.arange(len(events)) + number * STEP
        order = draw.permutation(np.concatenate([seq, seq[::3]]) - number * STEP)
        lying, numbers = events.take(pa.array(order)), order + number * STEP
        lying = pa.concat_tables([lying, events[:2]])
        numbers = np.append(numbers, [number * STEP - 2, number * STEP - 1])  # taken before
        parts = [
            pack_events(lying[start:stop], numbers[start:stop], SETTINGS, OPTIONS)
            for start, stop in pairwise([0, 50, 51, len(lying)])
        ]

        def given(rows: Any, events: pa.Table = events) -> pa.Table:
            return events.take(pa.array(rows))

        found = StepEvents(parts, number * STEP)
        assert found.seq.tolist() == seq.tolist()
        assert found.late == len(lying) - len(events)
        sorted_events = StepEvents([pack_events(events, seq, SETTINGS, OPTIONS)])
        expected = described(in_order.decide(sorted_events, given))
        assert described(in_disorder.decide(found, given)) == expected


def test_a_part_without_events() -> None:
    """Nothing of it matters to the others."""
    none = completed(EVENT_SCHEMA.empty_table())
    empty = pack_events(none, np.empty(0, np.int64), SETTINGS, OPTIONS)
    events = steps_of(5)[0]
    seq = np.arange(len(events))
    some = pack_events(events, seq, SETTINGS, OPTIONS)

    def given(rows: Any) -> pa.Table:
        return events.take(pa.array(rows))

    expected = described(Registrar(SETTINGS).decide(StepEvents([some]), given))
    for parts in ([empty, some], [some, empty]):
        assert described(Registrar(SETTINGS).decide(StepEvents(parts), given)) == expected
    assert len(Registrar(SETTINGS).decide(StepEvents([empty]), given).seq) == 0


PROPERTIES: list[Any] = [
    None, {}, {"a": 1}, {"a": 2**70, "b": -0.0, "c": 1e300}, {"a": {"b": [1, {"c": None}]}},
    {"ß": "\"é\\😀", "t": True, "n": None}, {"a": [1, "x", 2.5, []]},
]  # fmt: skip


def test_active_messages_are_kept_as_they_were_given() -> None:
    """With their properties, whatever these are, and with the time that they turn out to have."""
    places: list[dict[str, Any]] = [
        {"point": [1, 2.5]},
        {"region": {"type": "Box", "bbox": [0, 0, 1, 1]}},
        {"region": {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [0, 1], [0, 0]]]}},
    ]
    log: list[dict[str, Any]] = [
        {"op": "publish", "id": "m", "text": "x", "point": [0, 0], "at": 7.5}
    ]
    for given in PROPERTIES:
        for number, place in enumerate(places):
            some = {} if given is None else {"properties": given}
            time = {"at": 8.0} if number == 2 else {}
            log.append(
                {"op": "publish", "id": f"m{len(log)}", "text": "a b", "ttl": 5}
                | place
                | some
                | time
            )
    table = table_of(records(log))
    found = Registrar(SETTINGS).read(table, np.arange(len(table))).log
    found = found.filter(pc.equal(found["kind"], LASTING))
    expected, now = [], 7.5
    for fields in log[1:]:
        event = event_from_json(fields)
        assert isinstance(event, Publish)
        now = fields.get("at", now)
        expected.append(to_json(body_of(event.message, now)).decode())
    assert found["body"].to_pylist() == expected


def test_definitions_stay_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The driver of a pipeline does not keep queries in memory, before a base and after it."""
    monkeypatch.setenv("NEARCAST_CACHE", str(tmp_path / "cache"))
    count, query = 1000, " ".join(f"word{number}" for number in range(40))
    region = {"type": "Box", "bbox": [0, 0, 1, 1]}
    log: list[dict[str, Any]] = [
        {"op": "subscribe", "id": f"s{number}", "query": query, "region": region}
        for number in range(3 * count)
    ]
    for most_steps in (9, 1):
        small = Small(tmp_path / str(most_steps))
        small.step_rows, small.upkeep = count, Upkeep(most_steps=most_steps)
        paths = write_events(small.folder / "in", log, 3, count // 2)
        gc.collect()
        before = pa.total_allocated_bytes()
        feed = small.open()
        for batch, path in enumerate(paths):
            small.take(feed, batch, [path])
        gc.collect()
        history = feed.pipeline.history
        assert pa.total_allocated_bytes() - before < count * len(query)
        assert (history.steps[0].number > 0) == (most_steps == 1)
        known = history.registrar.definitions(history.live)
        assert known["query"].to_pylist() == [query] * len(log)


def test_a_job_reads_what_would_be_read_here(spark: SparkSession, tmp_path: Path) -> None:
    """A step that takes longer to read than a job takes to start is read by tasks of Spark."""
    events = steps_of(6)[0]
    pq.write_table(events, tmp_path / "events.parquet", row_group_size=40)
    file = EventFile.look(str(tmp_path / "events.parquet"))
    assert file is not None
    runner, files = SparkRunner(spark), Files(str(tmp_path))
    parts, found = dealt_slices(file.slices(7), runner.tasks), []
    assert len(parts) == 2
    for name, job_s in (("here", 1e9), ("job", 0.0)):
        runner.job_s = job_s
        work = ReadInput(str(tmp_path), name, SETTINGS, parts, OPTIONS)
        runner.read(work)
        found.append([files.read(work.name(number)) for number in range(len(parts))])
    assert found[0] == found[1]
    assert len(StepEvents(work.packed(files))) == len(events)
