"""A pipeline without Spark: dispatcher, workers and recovery give the updates of `scan`."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from boolean_logs import Updates, boolean, records, scanned
from event_logs import logs
from nearcast.engine.settings import Settings
from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.partition.registry import PARTITIONERS
from nearcast.spark.driver.pipeline import Pipeline, planner
from nearcast.spark.driver.state import PipelineState
from nearcast.spark.events import table_of
from nearcast.spark.inline import InlineRunner
from nearcast.spark.io.sink import RefusedEvent, Sink
from nearcast.spark.readers.slices import EventFile
from nearcast.topk import Window


class ListOutput:
    """Keeps what is committed."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.steps: dict[int, list[tuple[int, str, str, str]]] = {}
        self.refused: set[int] = set()

    def commit(self, step: int, names: list[str], refused: list[RefusedEvent]) -> None:
        paths = [Sink(self.folder).staged(step, name) for name in names]
        rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
        found = [tuple(row[name] for name in UPDATE_SCHEMA.names[:-1]) for row in rows]
        assert self.steps.setdefault(step, found) == found
        self.refused |= {each.seq for each in refused}

    @property
    def updates(self) -> list[tuple[int, str, str, str]]:
        return [each for found in self.steps.values() for each in found]


class Bench:
    """A pipeline that can be stopped and started, in a folder of its own."""

    def __init__(self, folder: Path, chosen: Settings) -> None:
        self.folder, self.chosen = folder, chosen
        self.output = ListOutput(folder / "out")
        self.pipeline: Pipeline | None = None

    def start(self, partitioner: str, workers: int) -> None:
        state = PipelineState(str(self.folder / "state"), {})
        choose = planner(partitioner, workers, self.chosen)
        self.pipeline = Pipeline(state, self.chosen, choose, self.output, InlineRunner())
        self.pipeline.replan()

    def take(self, events: pa.Table, group: int = 3) -> None:
        assert self.pipeline is not None
        path = self.folder / f"{self.pipeline.next_seq}.parquet"
        pq.write_table(events, path, row_group_size=group)
        file = EventFile.look(str(path))
        assert file is not None
        self.pipeline.step(0, file.slices(self.pipeline.next_seq))

    def check(self, expected: Updates, refused: set[int]) -> None:
        assert self.output.refused == refused
        assert len(self.output.updates) == len(set(self.output.updates))
        assert set(self.output.updates) == expected


SPLITS = st.lists(
    st.tuples(
        st.integers(1, 24), st.sampled_from(sorted(PARTITIONERS)), st.sampled_from([1, 2, 4, 8])
    ),
    min_size=1,
    max_size=4,
)
WINDOWS = st.sampled_from([Window(), Window(count=2), Window(seconds=1.5)])


# A failure is shown as it was found: to shrink one takes minutes.
@settings(deadline=None, max_examples=30, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(log=logs().map(boolean), plans=SPLITS, window=WINDOWS, forget=st.booleans())
def test_any_plan_and_any_stop_give_the_updates_of_scan(
    log: list[dict[str, Any]],
    plans: list[tuple[int, str, int]],
    window: Window,
    forget: bool,
) -> None:
    """Stopped and started with another partitioner and other workers, every pair comes once."""
    chosen = Settings(window=window)
    expected, refused = scanned(log, chosen)
    table = table_of(records(log))
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        cache = Path(folder) / "cache"
        patch.setenv("NEARCAST_CACHE", str(cache))
        patch.setattr("os.fsync", lambda _: None)  # which takes most of the time
        bench = Bench(Path(folder), chosen)
        edges = sorted({0, len(log), *(min(cut, len(log)) for cut, _, _ in plans)})
        for number, (start, stop) in enumerate(pairwise(edges)):
            _, partitioner, workers = plans[number % len(plans)]
            bench.start(partitioner, workers)
            if forget:
                shutil.rmtree(cache, ignore_errors=True)
            middle = (start + stop) // 2
            for part in (table[start:middle], table[middle:stop]):
                if len(part):
                    bench.take(part)
        bench.check(expected, refused)


def test_text_that_is_not_utf8_is_set_aside_and_the_rest_matched(tmp_path: Path) -> None:
    """Parquet does not check what a file calls text."""
    region = {"type": "Box", "bbox": [0, 0, 2, 2]}
    log: list[dict[str, Any]] = [
        {"op": "subscribe", "id": "s", "query": "tea", "region": region},
        *({"op": "publish", "id": f"m{n}", "text": "tea", "point": [1, 1]} for n in range(3)),
    ]
    events = table_of(records(log))
    for name, value in (("text", b"tea \xff"), ("id", b"\xc3("), ("query", b"\xff")):
        column = events[name].cast(pa.binary()).to_pylist()
        column[{"text": 1, "id": 2, "query": 0}[name]] = value
        position = events.schema.get_field_index(name)
        text = pa.array(column, pa.binary()).view(pa.string())
        bad = events.set_column(position, events.schema.field(name), text)
        bench = Bench(tmp_path / name, Settings())
        bench.folder.mkdir()
        bench.start("hash", 2)
        bench.take(bad)
        want = {"text": ({1}, {2, 3}), "id": ({2}, {1, 3}), "query": ({0}, set())}[name]
        assert (bench.output.refused, {each[0] for each in bench.output.updates}) == want
