"""A small pipeline in a folder, fed as Spark would feed it, that can be opened again and again."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from boolean_logs import Updates, records
from nearcast.engine.settings import Settings
from nearcast.spark.driver.adjusting import Allowance
from nearcast.spark.driver.balancing import Balancer
from nearcast.spark.driver.feed import BatchFeed
from nearcast.spark.driver.history import Upkeep
from nearcast.spark.driver.pipeline import Pipeline, planner
from nearcast.spark.driver.state import PipelineState
from nearcast.spark.events import table_of
from nearcast.spark.inline import InlineRunner
from nearcast.spark.outputs import FolderOutput, read_updates
from nearcast.spark.workers.task import TaskRunner

WORDS = ["jazz", "blues", "pizza", "sale"]
OFTEN = Upkeep(snapshot_every=12, rebase_every=25, most_steps=4)
"""Everything that a pipeline does now and then, it does all the time."""


def churn(count: int, seed: int = 1) -> list[dict[str, Any]]:
    """A log in which subscriptions come, change and go, and some events are refused."""
    some = random.Random(seed)
    return [_event(some, number) for number in range(count)]


def _event(some: random.Random, number: int) -> dict[str, Any]:
    id = f"s{some.randrange(12)}"
    at = {"at": number + some.choice([0, 0, 0, -3])} if some.random() < 0.3 else {}
    kind = some.random()
    if kind < 0.3:
        return at | {"op": "subscribe", "id": id, "query": _query(some), "region": _region(some)}
    if kind < 0.37:
        return at | {"op": "move", "id": id, "region": _region(some)}
    if kind < 0.47:
        return at | {"op": "unsubscribe", "id": id}
    text = " ".join(some.choices(WORDS, k=some.randint(1, 4)))
    message = at | {
        "op": "publish",
        "id": f"m{number - some.choice([0, 0, 0, 0, 5])}",
        "text": text,
    }
    if some.random() < 0.5:
        message["ttl"] = some.choice([0, 3, 20, 100])
    if kind < 0.55:
        west, south = some.uniform(-9, 5), some.uniform(-9, 5)
        return message | {"region": {"type": "Box", "bbox": [west, south, west + 4, south + 4]}}
    return message | {"point": [some.uniform(-10, 10), some.uniform(-10, 10)]}


def _query(some: random.Random) -> str:
    one, two, three = some.sample(WORDS, 3)
    return some.choice([one, one, f"{one} {two}", f"{one} OR {two}", f"{one} NOT {three}"])


def _region(some: random.Random) -> dict[str, Any]:
    lon, lat, size = some.uniform(-10, 5), some.uniform(-10, 5), some.uniform(4, 20)
    if some.random() < 0.25:
        return {"type": "Circle", "center": [lon, lat], "radius": size * 60_000}
    return {"type": "Box", "bbox": [lon, lat, lon + size, lat + size]}


def write_events(folder: Path, log: Sequence[dict[str, Any]], files: int, group: int) -> list[str]:
    """Write a log as Parquet files; give their paths, in order."""
    folder.mkdir(parents=True, exist_ok=True)
    size = -(-len(log) // files)
    paths = []
    for number in range(files):
        table = table_of(records(list(log[number * size : (number + 1) * size])))
        path = folder / f"{number:03}.parquet"
        pq.write_table(table, path, row_group_size=group)
        paths.append(str(path))
    return paths


class _Frame:
    """As much of a frame of Spark as a feed needs."""

    def __init__(self, rows: list[SimpleNamespace]) -> None:
        self._rows = rows
        self.sparkSession = self

    def select(self, *_: str) -> _Frame:
        return self

    def collect(self) -> list[SimpleNamespace]:
        return self._rows

    def range(self, start: int, stop: int, *_: int) -> _Frame:
        return _Frame([SimpleNamespace(id=number) for number in range(start, stop)])

    def mapInArrow(  # noqa: N802 - its name in Spark
        self, run: Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]], _: str
    ) -> _Frame:
        batch = pa.RecordBatch.from_pydict({"id": [row.id for row in self._rows]})
        found = [row for part in run(iter([batch])) for row in part.to_pylist()]
        return _Frame([SimpleNamespace(**row) for row in found])


class Small:
    """A pipeline in a folder."""

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        self.folder = folder
        self.place = str(folder)
        self.settings = settings or Settings()
        self.partitioner, self.workers = "shared", 1
        self.step_rows = 12
        self.upkeep = OFTEN
        self.allowance: Allowance | None = None
        self.balancer: Balancer | None = None
        self.runner: TaskRunner = InlineRunner()

    def open(self, replan: bool = False) -> BatchFeed:
        """Open the pipeline, as a new process would, and finish the step that was cut off."""
        state = PipelineState(f"{self.place}/state", {})
        output = FolderOutput(f"{self.place}/out", f"{self.place}/quarantine", state.id)
        choose = planner(self.partitioner, self.workers, self.settings)
        pipeline = Pipeline(
            state, self.settings, choose, output, self.runner, self.upkeep, self.allowance,
            self.balancer,
        )  # fmt: skip
        output.check(pipeline.begun)
        if replan:
            pipeline.replan()
        pipeline.resume()
        return BatchFeed(pipeline, self.step_rows)

    def take(self, feed: BatchFeed, batch: int, paths: list[str]) -> None:
        """Hand a batch of files over, as Spark does until it has seen the end of it."""
        frame: Any = _Frame([SimpleNamespace(path=path) for path in paths])
        feed.take_files(frame, batch)

    def found(self) -> list[tuple[int, str, str, str]]:
        """All updates that are there for others to see."""
        rows = read_updates(self.folder / "out").to_pylist()
        return [(row["event"], row["op"], row["subscription"], row["message"]) for row in rows]

    def refused(self) -> set[int]:
        """The places of all events that are in quarantine."""
        files = sorted((self.folder / "quarantine").glob("batch=*/*.jsonl"))
        lines = [line for file in files for line in file.read_text().splitlines()]
        found = [json.loads(line)["seq"] for line in lines]
        assert len(found) == len(set(found))
        return set(found)

    def check(self, expected: Updates) -> None:
        """See that every update is there, once."""
        found = self.found()
        assert len(found) == len(set(found))
        assert set(found) == expected
