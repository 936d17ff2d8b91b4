"""A whole event log through a pipeline, from its first event to its last or to the first bad one.

The log is read here, record by record, as the other engines read it: so a refused event is reported
with its line and as it was given. Some records at a time become Parquet, and one step of a
pipeline.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from itertools import islice
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from nearcast.engine.replay import Refusal
from nearcast.engine.settings import Settings
from nearcast.errors import NearcastError, QueryError, StateError
from nearcast.events import LateBody, Record, Subscribe, Update
from nearcast.events.bodies import NOTHING, Include
from nearcast.events.columns import UPDATE_SCHEMA
from nearcast.spark.batch import parsed_query
from nearcast.spark.driver.dskype import ranking_for
from nearcast.spark.driver.pipeline import Pipeline, planner
from nearcast.spark.driver.state import PipelineState
from nearcast.spark.events import table_of
from nearcast.spark.included import body_in, replay_columns
from nearcast.spark.io.sink import RefusedEvent, Sink
from nearcast.spark.outputs import sorted_updates
from nearcast.spark.readers.slices import EventFile
from nearcast.spark.topk.registry import ranker_for
from nearcast.spark.workers.node import NodeCache
from nearcast.spark.workers.task import TaskRunner

STEP_RECORDS = 1 << 16
"""Records that are held in memory and matched together."""

_SMALLEST_SHARE = 512  # rows that are worth a task of their own


class _Kept:
    """Keeps what a step committed until it has been handed on."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self._sink = Sink(self.folder)
        self.updates = UPDATE_SCHEMA.empty_table()
        self.refused: dict[int, str] = {}  # errors by place in the log

    def commit(self, step: int, names: list[str], refused: list[RefusedEvent]) -> None:
        """Read the updates of a step, in the order in which engines report them."""
        self.updates = sorted_updates(self._sink.staged(step, name) for name in names)
        self.refused = {each.seq: each.error for each in refused}
        self._sink.discard(step)


def replay_steps(
    records: Iterable[Record],
    refuse: Refusal,
    *,
    runner: TaskRunner,
    settings: Settings,
    workers: int,
    partitioner: str,
    folder: Path,
    scheme: str = "shared",
    step_records: int = STEP_RECORDS,
    include: Include = NOTHING,
) -> Generator[tuple[int, list[Update]]]:
    """Match a log in an empty folder; give each position with its updates.

    What is refused goes to `refuse`, which raises to stop or returns to go on, as it does in
    `nearcast.engine.replay`. `scheme` is the ranking scheme, `include` what updates have besides.
    """
    kept = _Kept(folder / "updates")
    choose = planner(partitioner, workers, settings)
    state = PipelineState(str(folder / "state"), {})
    ranking = ranking_for(ranker_for(scheme, settings.window, workers), workers)
    columns = replay_columns(include)
    pipeline = Pipeline(state, settings, choose, kept, runner, ranking=ranking, include=columns)
    results = _StepResults(kept, refuse, settings)
    try:
        for number, some in enumerate(_portions(records, step_records)):
            path = folder / f"{number}.parquet"
            group = max(_SMALLEST_SHARE, -(-len(some) // runner.tasks))
            pq.write_table(table_of(some), path, row_group_size=group)
            file = EventFile.look(str(path))
            assert file is not None  # noqa: S101 - just written
            pipeline.step(number, file.slices(pipeline.next_seq))
            path.unlink()
            yield from results.of(some)
    finally:
        NodeCache(state.id).clear()


def _portions(records: Iterable[Record], most: int) -> Iterator[list[Record]]:
    """Cut a log up; what was read before it turned out to be damaged counts as well."""
    rest = iter(records)
    damage: NearcastError | None = None
    while damage is None:
        some: list[Record] = []
        try:
            for record in islice(rest, most):
                some.append(record)  # noqa: PERF402 - what came before an error is kept
        except NearcastError as error:
            damage = error
        if some:
            yield some
        elif damage is None:
            return
    raise damage


def _updates_in(table: pa.Table) -> Iterator[Update]:
    """Updates, with what they carry besides."""
    names = UPDATE_SCHEMA.names[1:]
    if table.num_columns == len(UPDATE_SCHEMA):
        columns = (table[name].to_pylist() for name in names)
        yield from (Update(*each) for each in zip(*columns, strict=True))
        return
    for row in table.to_pylist():
        meta = row.get("meta")
        late = None if row.get("at") is None else LateBody.ready(body_in(row))
        meta = None if meta is None else msgspec.json.decode(meta)
        op, subscription, message, score = (row[name] for name in names)
        yield Update(op, subscription, message, score, meta, late)


class _StepResults:
    """The results of each step, record by record, as if they had been matched one by one."""

    def __init__(self, kept: _Kept, refuse: Refusal, settings: Settings) -> None:
        self._kept = kept
        self._refuse = refuse
        self._analyser = settings.analyser

    def of(self, records: list[Record]) -> Iterator[tuple[int, list[Update]]]:
        """Yield each position with its updates, and pass refused records to `refuse`."""
        table, refused = self._kept.updates, self._kept.refused
        events = table["event"].to_pylist()
        found = _updates_in(table)
        at = 0
        for record in records:
            if record.position in refused:
                self._refuse(record, self._error_of(record, refused[record.position]))
                continue
            start = at
            while at < len(events) and events[at] == record.position:
                at += 1
            yield record.position, list(islice(found, at - start))

    def _error_of(self, record: Record, error: str) -> NearcastError:
        """The error of a refused record as an engine would raise it that takes one by one."""
        event = record.event
        if event is None:
            return record.error or StateError(error)
        if isinstance(event, Subscribe):
            try:
                parsed_query(event.subscription, self._analyser)
            except QueryError as problem:
                if str(problem) == error:
                    return problem  # it marks the place of the error with a caret
        return StateError(error)
