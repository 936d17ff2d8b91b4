"""Streams and tables of events in, streams and tables of updates out."""

from __future__ import annotations

import atexit
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from nearcast.arrays.slots import as_secret
from nearcast.engine.settings import Settings
from nearcast.errors import InvalidValue, SourceError, StateError
from nearcast.partition.adjust.versions import line_of
from nearcast.partition.plan import Plan
from nearcast.spark.driver.adjusting import BYTES_A_MINUTE, Allowance
from nearcast.spark.driver.balancing import Balancer, Mode
from nearcast.spark.driver.dskype import ranking_for
from nearcast.spark.driver.feed import BatchFeed
from nearcast.spark.driver.pipeline import STEP_ROWS, Output, Pipeline, planner
from nearcast.spark.driver.ranking import digest_of
from nearcast.spark.driver.state import PipelineState
from nearcast.spark.included import columns_for
from nearcast.spark.io.paths import absolute
from nearcast.spark.lazy import lazy_frame
from nearcast.spark.nodes import check_nodes
from nearcast.spark.options import StreamOptions, path_of
from nearcast.spark.outputs import FolderOutput, FunctionOutput
from nearcast.spark.readers.frames import as_events
from nearcast.spark.readers.schema import updates_with
from nearcast.spark.readers.sources import file_names
from nearcast.spark.runner import SparkRunner
from nearcast.spark.session import (
    check,
    is_local_master,
    prepare,
    quick_checkpoints,
    refuse_connect,
)
from nearcast.spark.topk.registry import AUTO, names_in, ranker_for
from nearcast.spark.workers import kernels
from nearcast.spark.workers.node import NodeCache

ForeachBatch = Callable[[DataFrame, int], None]

__all__ = ["StreamOptions", "match_files", "match_stream", "open_feed", "partitioners_for", "start"]


def match_stream(
    events: DataFrame,
    *,
    workers: int | None = None,
    partitioner: str = "auto",
    state: str | Path | None = None,
    output: str | Path | None = None,
    foreach_batch: ForeachBatch | None = None,
    plan: Plan | None = None,
    settings: Settings | None = None,
    quarantine: str | Path | None = None,
    trigger: str | None = None,
    available_now: bool = False,
    adjust: Mode = "off",
    adjust_bytes: float = BYTES_A_MINUTE,
    include: Iterable[str] = (),
) -> Any:
    """Match a frame of events, streaming or not, and give the updates.

    `events` has the columns of the event log; `seq`, a growing 64-bit number, orders them. Without
    it they are ordered by `at`, then as they arrived. An event whose `seq` is not beyond all that
    were taken before is late, or came twice, and is passed over. Columns of types that mean the
    same are converted (`at` as a timestamp, `id` as a whole number, structs and arrays of other
    numbers); what cannot be, and arguments that cannot be followed, are errors before anything
    runs. The settings of the session stay as they are.

    - `workers`, `partitioner`, `plan`: how subscriptions are spread; a plan made before goes first.
      A partitioner, a ranking scheme, or both as in "hybrid,shared".
    - `settings`: the window, the space and the history that top-k goes by, and the analyser.
    - `state`: a folder that survives the process; a stream needs one.
    - `output`: a folder for the updates, as Parquet that grows by whole batches.
    - `foreach_batch`: a function that is called with each batch of updates and its number instead;
      after a crash it may be called again with the same number and the same updates.
    - `quarantine`: a folder for events that are refused, with the reason, as JSON Lines.
    - `trigger`, such as "1 second", and `available_now`: when a stream looks for more.
    - `adjust`: "auto" keeps the workers of a stream balanced while the load changes, and carries
      at most `adjust_bytes` a minute from one to another for that; "suggest" only says what would
      help.
    - `include`: "message" gives updates the columns `text`, `point`, `region` and `properties`,
      the last three as JSON, null for what was removed; "meta" that of the subscription, as JSON.

    Gives back at once:

    - for a table, a lazy frame of updates: the table is matched when rows of it are first asked
      for, and not again. With `output` or `foreach_batch`, which take the updates, it is matched
      before this returns; the frame reads them from `output`, and is None for a function.
    - for a stream with `output` or `foreach_batch`, the running query, which opens the state with
      its first batch. Without either, a streaming frame of the updates; its query is among
      `streams.active` of the session. With `available_now` such a frame is given when all that was
      there has been matched, so that whoever reads it finds everything.
    """
    refuse_connect(events)
    rows = as_events(events)
    session = events.sparkSession
    options = StreamOptions(
        workers, partitioner, plan, settings, path_of("quarantine", quarantine), STEP_ROWS, adjust,
        adjust_bytes, (include,) if isinstance(include, str) else tuple(include),
    )  # fmt: skip
    options.check()
    places = [path_of("state", state), path_of("output", output)]
    state, output = (None if path is None else absolute(path) for path in places)
    if output is not None and foreach_batch is not None:
        raise InvalidValue("foreach_batch", foreach_batch, "either it or output, not both")
    own = prepare(session.newSession())
    check(own)
    if not events.isStreaming:
        if trigger is not None or available_now:
            name, given = ("available_now", True) if available_now else ("trigger", trigger)
            raise InvalidValue(name, given, "none, as events is a table, which is matched once")
        job = _TableJob(rows, own, state, output, foreach_batch, options)
        if output is None and foreach_batch is None:
            return lazy_frame(session, updates_with(options.include), job.run)
        found = job.run()
        return None if foreach_batch is not None else job.read(found)
    if state is None:
        raise InvalidValue("state", None, "a folder in which the stream finds itself again")
    if trigger is not None and available_now:
        raise InvalidValue("trigger", trigger, "either it or available_now, not both")
    opening = _Opening(session, own, state, output, foreach_batch, options)
    query = start(rows, opening.take_rows, opening.state, trigger, available_now)
    if output is not None or foreach_batch is not None:
        return query
    if available_now:
        _wait_for_what_is_there(query)
    # The folders of batches are a column, which Spark would only know of if there were any yet.
    schema = f"{updates_with(options.include)}, batch int"
    return session.readStream.schema(schema).parquet(opening.folder).drop("batch")


def match_files(
    session: SparkSession,
    path: str,
    *,
    state: str,
    output: str,
    options: StreamOptions | None = None,
    files_per_batch: int | None = None,
    trigger: str | None = None,
    available_now: bool = False,
) -> StreamingQuery:
    """Match the event files of a folder as they appear there, and write the updates."""
    prepare(session, state)
    check(session)
    feed = open_feed(session, state, output, None, options or StreamOptions())
    names = file_names(session, path, files_per_batch=files_per_batch)
    return start(names, feed.take_files, feed.pipeline.state, trigger, available_now)


class _TableJob:
    """Matches a table, once."""

    def __init__(
        self,
        events: DataFrame,
        own: SparkSession,
        state: str | None,
        output: str | None,
        foreach_batch: ForeachBatch | None,
        options: StreamOptions,
    ) -> None:
        self._events = events
        self._own = own
        self._given = output, foreach_batch
        self._options = options
        self._batch: int | None = None  # known once it has been begun
        self._before = 0
        self._opening: _Opening | None = None
        if state is not None:
            self._open(state)

    def _open(self, state: str) -> _Opening:
        opening = _Opening(self._events.sparkSession, self._own, state, *self._given, self._options)
        if _spark_batches(opening.state):
            raise StateError(
                f"{state}: belongs to a stream, which would lose count of its batches if a table "
                "came between them; give another folder as state"
            )
        self._opening = opening
        return opening

    def run(self) -> list[str]:
        """Match the table, and give the folders with its updates.

        If it failed before, it goes on where that was cut off.
        """
        opening = self._opening
        if opening is None:
            passing = tempfile.mkdtemp(prefix="nearcast-")
            opening = self._open(passing)
            # frames of updates read from it until the end
            atexit.register(_forget, passing, opening.state.id)
        feed = opening.feed()
        if self._batch is None:
            last = feed.pipeline.history.last
            self._before = 0 if last is None else last.step
            self._batch = 0 if last is None else last.batch + 1
        opening.take_rows(self._events, self._batch)
        pipeline = feed.pipeline
        steps = range(self._before + 1, pipeline.history.step.number + 1)
        return [f"{opening.folder}/batch={step}" for step in steps if pipeline.has_updates(step)]

    def read(self, found: list[str]) -> DataFrame:
        """The updates in some folders."""
        session, schema = self._events.sparkSession, updates_with(self._options.include)
        if not found:
            return session.createDataFrame([], schema)
        return session.read.schema(schema).parquet(*found)


def _forget(state: str, pipeline: str) -> None:
    shutil.rmtree(state, ignore_errors=True)
    NodeCache(pipeline).clear()


class _Opening:
    """A pipeline that is checked at once, and opened with the first batch.

    Opening can take long: kernels are compiled where there are none, all that is known of a state
    is read, and a step that was interrupted is repeated.
    """

    def __init__(
        self,
        session: SparkSession,
        own: SparkSession,
        state: str,
        output: str | None,
        foreach_batch: ForeachBatch | None,
        options: StreamOptions,
    ) -> None:
        self._session = session  # the user's
        self._own = own  # with settings as the pipeline needs them
        self._options = options
        options.check()
        check_nodes(own)
        self._settings = options.settings or Settings()
        self.state = PipelineState(absolute(state), about_settings(self._settings))
        quarantine = None if options.quarantine is None else absolute(options.quarantine)
        self.folder = absolute(output or f"{self.state.path.rstrip('/')}/updates")
        self._sink: Output
        if foreach_batch is not None:
            call = _call(session, foreach_batch, updates_with(options.include))
            self._sink = FunctionOutput(self.folder, call, quarantine)
        else:
            self._sink = FolderOutput(self.folder, quarantine, self.state.id)
        self._feed: BatchFeed | None = None

    def take_rows(self, rows: DataFrame, batch: int) -> None:
        """Take a batch; if that fails, the pipeline is opened again for the next attempt."""
        feed = self.feed()
        try:
            feed.take_rows(rows, batch)
        except BaseException:
            self._feed = None
            raise

    def feed(self) -> BatchFeed:
        """The pipeline, opened if it is not yet."""
        if self._feed is None:
            self._feed = self._open()
        return self._feed

    def _open(self) -> BatchFeed:
        options, session, settings = self._options, self._own, self._settings
        kernels.build()
        if not is_local_master(session.sparkContext.master):
            kernels.offer(self.state.path)
        runner = SparkRunner(session)
        workers = options.workers or runner.tasks
        name, scheme = partitioners_for(options.partitioner, session)
        choose = planner(name, workers, settings)
        plan = _given_plan(options.plan, self.state)
        if plan is not None:
            given = plan

            def choose(number: int, begun: pa.Table, texts: Any) -> Plan:
                del begun, texts
                return given.changed(number=number)

        scheme = ranker_for(scheme, settings.window, workers)
        ranking = ranking_for(scheme, workers, adjust=options.adjust == "auto")
        pipeline = Pipeline(
            self.state, settings, choose, self._sink, runner, None,
            Allowance(options.adjust_bytes), Balancer(options.adjust), ranking,
            columns_for(options.include),
        )  # fmt: skip
        if isinstance(self._sink, FolderOutput):
            self._sink.check(pipeline.begun)
        standing = pipeline.history.plan
        if standing is not None and not _same(self.state, standing, plan, name, workers):
            pipeline.replan()
        pipeline.resume()
        return BatchFeed(pipeline, options.step_rows)


def open_feed(
    session: SparkSession,
    state: str,
    output: str | None,
    foreach_batch: ForeachBatch | None,
    options: StreamOptions,
) -> BatchFeed:
    """Open the pipeline of a state, made new or found again."""
    return _Opening(session, session, state, output, foreach_batch, options).feed()


def _given_plan(plan: Plan | None, state: PipelineState) -> Plan | None:
    """A plan that was requested, with hashes of terms as the pipeline has them."""
    if plan is not None and not plan.letters and len(plan.terms) and state.secret:
        logging.getLogger("nearcast.spark").warning(
            "the plan does not say what its terms are, as one of an earlier release; text is "
            "divided by chance. Make the plan again to have it divided as planned"
        )
    return None if plan is None else plan.hashed_with(as_secret(state.secret))


def _same(
    state: PipelineState, standing: Plan, given: Plan | None, name: str, workers: int
) -> bool:
    """Whether a pipeline may keep its plan, which was requested or follows from one that was.

    The number of workers may be the requested one, or the one that it was adjusted to since.
    """
    line = line_of(standing)
    try:
        first = standing if line == standing.number else state.plan(line)
    except SourceError:
        first = standing
    if given is not None:
        return given.changed(number=first.number) == first
    same_workers = workers in (first.workers, standing.workers) or standing.kind == "shared"
    return standing.about.get("asked") == name and same_workers


def partitioners_for(name: str, session: SparkSession) -> tuple[str, str]:
    """The partitioner that a name means here, and the ranking scheme, which may be `auto`.

    On one machine nothing needs to be split.
    """
    boolean, ranked = names_in(name)
    if boolean == AUTO and (session.sparkContext.master or "").startswith("local"):
        boolean = "shared"
    return boolean, ranked


def about_settings(settings: Settings) -> dict[str, Any]:
    """What of the settings belongs to a state."""
    analyser, history = settings.analyser, settings.history
    about: dict[str, Any] = {
        "stemmer": analyser.stemmer,
        "stop_words": sorted(analyser.stop_words),
        "space": [*asdict(settings.space).values()],
        "window": [settings.window.count, settings.window.seconds],
    }
    if analyser.cjk:
        about["cjk"] = True
    if history is not None and history.documents:  # states of earlier releases have none
        about["history"] = digest_of(history)
    return about


def _call(
    session: SparkSession, foreach_batch: ForeachBatch, schema: str
) -> Callable[[list[str], int], None]:
    def call(paths: list[str], step: int) -> None:
        if paths:
            frame = session.read.schema(schema).parquet(*paths)
        else:
            frame = session.createDataFrame([], schema)
        foreach_batch(frame, step)

    return call


def start(
    frame: DataFrame,
    take: Callable[[DataFrame, int], None],
    state: PipelineState,
    trigger: str | None,
    available_now: bool,
) -> StreamingQuery:
    """Start the query that feeds a pipeline."""
    steps = state.commits()
    last = state.commit(steps[-1]) if steps else None
    if last is not None and last.batch > max(_spark_batches(state), default=-1):
        raise StateError(
            f"{state.path}: its last step has events of batch {last.batch}, which the folder "
            "checkpoint in it does not know, as if it was removed or was restored from an older "
            "copy, or the state was used for a table; restore it, or give an empty folder as state"
        )
    writer = (
        frame.writeStream.foreachBatch(take)
        .option("checkpointLocation", state.checkpoint)
        .queryName(f"nearcast-{state.id[:8]}")
    )
    if available_now:
        writer = writer.trigger(availableNow=True)
    elif trigger is not None:
        writer = writer.trigger(processingTime=trigger)
    with quick_checkpoints(frame.sparkSession, state.path):
        return writer.start()


def _spark_batches(state: PipelineState) -> list[int]:
    """The batches that Spark remembers of the stream a state belongs to."""
    return [int(name) for name in state.files.names("checkpoint/offsets") if name.isdigit()]


def _wait_for_what_is_there(query: StreamingQuery) -> None:
    if query.isActive:
        query.processAllAvailable()
    error = query.exception()
    if error is not None:
        raise error
