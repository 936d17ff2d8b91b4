"""Streams and tables of events in, streams and tables of updates out."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

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
from nearcast.spark.outputs import FolderOutput, FunctionOutput
from nearcast.spark.readers.schema import updates_with
from nearcast.spark.readers.sources import file_names
from nearcast.spark.runner import SparkRunner
from nearcast.spark.session import check, is_local_master, prepare
from nearcast.spark.topk.registry import AUTO, names_in, ranker_for
from nearcast.spark.workers import kernels
from nearcast.spark.workers.node import NodeCache

ForeachBatch = Callable[[DataFrame, int], None]


@dataclass
class StreamOptions:
    """How a pipeline is run."""

    workers: int | None = None
    partitioner: str = "auto"
    plan: Plan | None = None
    settings: Settings | None = None
    quarantine: str | None = None
    step_rows: int = STEP_ROWS
    adjust: Mode = "off"
    adjust_bytes: float = BYTES_A_MINUTE
    include: tuple[str, ...] = ()


def match_stream(
    events: DataFrame,
    *,
    workers: int | None = None,
    partitioner: str = "auto",
    state: str | None = None,
    output: str | None = None,
    foreach_batch: ForeachBatch | None = None,
    plan: Plan | None = None,
    settings: Settings | None = None,
    quarantine: str | None = None,
    trigger: str | None = None,
    available_now: bool = False,
    adjust: Mode = "off",
    adjust_bytes: float = BYTES_A_MINUTE,
    include: Iterable[str] = (),
) -> Any:
    """Match a frame of events, streaming or not, and give the updates.

    `events` has the columns of the event log; `seq`, a growing 64-bit number, orders them. Without
    it they are ordered by `at`, then as they arrived. An event whose `seq` is not beyond all that
    were taken before is late, or came twice, and is passed over.

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

    A frame that is not streaming is matched at once, and its updates are given as a frame. For a
    stream with `output` or `foreach_batch` the running query is given; without either, a streaming
    frame of updates, once what was already there has been matched.
    """
    session = events.sparkSession
    state, output = (None if path is None else absolute(path) for path in (state, output))
    prepare(session, state)
    check(session)
    options = StreamOptions(
        workers, partitioner, plan, settings, quarantine, STEP_ROWS, adjust, adjust_bytes,
        tuple(include),
    )  # fmt: skip
    if not events.isStreaming:
        return _match_table(events, state, output, foreach_batch, options)
    if state is None:
        raise InvalidValue("state", None, "a folder in which the stream finds itself again")
    target = output or (None if foreach_batch else f"{state.rstrip('/')}/updates")
    feed = open_feed(session, state, target, foreach_batch, options)
    query = start(events, feed.take_rows, feed, trigger, available_now)
    if output is not None or foreach_batch is not None:
        return query
    _wait_for_what_is_there(query)
    return session.readStream.schema(updates_with(options.include)).parquet(str(target))


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
    return start(names, feed.take_files, feed, trigger, available_now)


def _match_table(
    events: DataFrame,
    state: str | None,
    output: str | None,
    foreach_batch: ForeachBatch | None,
    options: StreamOptions,
) -> DataFrame | None:
    session = events.sparkSession
    passing = state is None
    state = state or tempfile.mkdtemp(prefix="nearcast-")
    target = output or (None if foreach_batch else f"{state.rstrip('/')}/updates")
    feed = open_feed(session, state, target, foreach_batch, options)
    if passing:  # the frame of updates reads from it until the end
        atexit.register(_forget, state, feed.pipeline.state.id)
    if _spark_batches(feed.pipeline.state):
        raise StateError(
            f"{state}: belongs to a stream, which would lose count of its batches if a table came "
            "between them; give another folder as state"
        )
    last = feed.pipeline.history.last
    before = 0 if last is None else last.step
    feed.take_rows(events, 0 if last is None else last.batch + 1)
    if target is None:
        return None
    steps = range(before + 1, feed.pipeline.history.step.number + 1)
    found = [f"{target}/batch={step}" for step in steps if feed.pipeline.has_updates(step)]
    schema = updates_with(options.include)
    if not found:
        return session.createDataFrame([], schema)
    return session.read.schema(schema).parquet(*found)


def _forget(state: str, pipeline: str) -> None:
    shutil.rmtree(state, ignore_errors=True)
    NodeCache(pipeline).clear()


def open_feed(
    session: SparkSession,
    state: str,
    output: str | None,
    foreach_batch: ForeachBatch | None,
    options: StreamOptions,
) -> BatchFeed:
    """Open the pipeline of a state, made new or found again."""
    state = absolute(state)
    output = None if output is None else absolute(output)
    quarantine = None if options.quarantine is None else absolute(options.quarantine)
    settings = options.settings or Settings()
    included = columns_for(options.include)
    if options.workers is not None and options.workers < 1:
        raise InvalidValue("workers", options.workers, "a whole number from 1 on")
    kernels.build()
    if not is_local_master(session.sparkContext.master):
        kernels.offer(state)
    runner = SparkRunner(session)
    workers = options.workers or runner.tasks
    name, scheme = partitioners_for(options.partitioner, session)
    kept = PipelineState(state, _about(settings))
    sink: Output
    if foreach_batch is not None:
        call = _call(session, foreach_batch, updates_with(options.include))
        sink = FunctionOutput(f"{state.rstrip('/')}/updates", call, quarantine)
    else:
        sink = FolderOutput(str(output), quarantine, kept.id)
    choose = planner(name, workers, settings)
    if options.plan is not None:
        given = options.plan

        def choose(number: int, begun: pa.Table, texts: Any) -> Plan:
            del begun, texts
            return given.changed(number=number)

    balancer, allowance = Balancer(options.adjust), Allowance(options.adjust_bytes)
    scheme = ranker_for(scheme, settings.window, workers)
    ranking = ranking_for(scheme, workers, adjust=options.adjust == "auto")
    pipeline = Pipeline(
        kept, settings, choose, sink, runner, None, allowance, balancer, ranking, included
    )
    if isinstance(sink, FolderOutput):
        sink.check(pipeline.begun)
    standing = pipeline.history.plan
    if standing is not None and not _same(kept, standing, options.plan, name, workers):
        pipeline.replan()
    pipeline.resume()
    return BatchFeed(pipeline, options.step_rows)


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


def _about(settings: Settings) -> dict[str, Any]:
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
    feed: BatchFeed,
    trigger: str | None,
    available_now: bool,
) -> StreamingQuery:
    """Start the query that feeds a pipeline."""
    state = feed.pipeline.state
    last = feed.pipeline.history.last
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
