"""`nearcast spark run`: a stream of events in, a folder of updates that grows."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import msgspec
import typer

from nearcast import _kernel_files
from nearcast.cli import options
from nearcast.cli.spark_replay import check_partitioner
from nearcast.cli.spark_setup import need_spark, plainly, spark_session
from nearcast.cli.spark_sources import EventSource, source_of
from nearcast.cli.spark_watch import StreamWatch, Summary, stopping_on_signals
from nearcast.engine import history_from
from nearcast.engine.settings import Settings
from nearcast.errors import InvalidValue, SourceError
from nearcast.events.bodies import read_include
from nearcast.geo import WORLD
from nearcast.topk import Window

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from nearcast.partition.plan import Plan
    from nearcast.spark.driver.balancing import Mode
    from nearcast.spark.stream import StreamOptions

_TRIGGER = re.compile(r"\s*(\d+)\s*(milliseconds?|seconds?|minutes?|hours?|ms|s|m|h)\s*")
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kKmMgG]?)[bB]?\s*")
_THOUSANDS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
Listen = Callable[[Any], None]
_UNITS = {"ms": "milliseconds", "s": "seconds", "m": "minutes", "h": "hours"}


def run(
    input: Annotated[
        str,
        typer.Option(
            "--input",
            metavar="EVENTS",
            help="A folder or file of JSON Lines or Parquet; for trying out, rate:N (made-up "
            "events a second) or socket://HOST:PORT (lines of JSON).",
        ),
    ],
    output: Annotated[
        str, typer.Option(metavar="FOLDER", help="Where the updates go, as Parquet.")
    ],
    state: Annotated[
        str,
        typer.Option(
            metavar="FOLDER", help="Where the stream keeps its state; it continues from there."
        ),
    ],
    workers: options.WorkersOption = None,
    partitioner: options.PartitionerOption = "auto",
    plan: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A plan that `nearcast spark plan --save` made."),
    ] = None,
    trigger: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", show_default="at once", help='How often to look for more: "1 second".'
        ),
    ] = None,
    available_now: Annotated[
        bool, typer.Option("--available-now", help="Process what is there now, then stop.")
    ] = False,
    quarantine: Annotated[
        str | None,
        typer.Option(metavar="FOLDER", help="Where refused events go, with the reason."),
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(metavar="URL", show_default="local[*]", help="The cluster to run on."),
    ] = None,
    files_per_batch: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, show_default="all", help="Files of one batch at most."),
    ] = None,
    adjust: Annotated[
        str,
        typer.Option(
            metavar="MODE",
            help="What to do when workers become uneven: [bold]auto[/bold] moves cells from one to "
            "another, [bold]suggest[/bold] only says what would help, [bold]off[/bold] nothing.",
        ),
    ] = "off",
    adjust_bytes: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            show_default="64M",
            help="What is carried between workers in a minute at most: 500k, 64M, 2G.",
        ),
    ] = None,
    window_count: options.WindowCountOption = None,
    window_seconds: options.WindowSecondsOption = None,
    space: options.SpaceOption = None,
    history: options.HistoryOption = None,
    stem: options.StemOption = None,
    stop_words: options.StopWordsOption = None,
    cjk: options.CjkOption = False,
    include: options.IncludeOption = "",
    metrics_port: Annotated[
        int | None,
        typer.Option(metavar="PORT", min=0, max=65535, help="Serve figures for Prometheus here."),
    ] = None,
    log: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Append what happens, as JSON Lines.")
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write the summary at the end as JSON.")
    ] = False,
) -> None:
    """Match a stream of events on Spark, each exactly once, and write the updates.

    Events are taken in the order of the names of their files and of the lines in them. Stopped by
    Ctrl-C or by force, the same command goes on where it stopped; other --workers, --partitioner
    or --plan take effect from there on. Subscriptions may have regions, or want the best few of
    the window. Whatever is not an event, or has no effect, is refused and passed over.

    [bold]Example[/bold]

      nearcast generate tweets --subscriptions 1000 --messages 1000 --output events/log.jsonl

      nearcast spark run --input events --output updates --state state --available-now
    """
    options.check_window(window_count, window_seconds)
    analyser = options.analyser(stem, stop_words, cjk)
    settings = Settings(
        window=Window(window_count, window_seconds),
        space=WORLD if space is None else options.box(space, "--space"),
        history=None if history is None else history_from(history, analyser),
        analyser=analyser,
    )
    if partitioner != "auto":  # checking any other name needs an import that takes a second
        check_partitioner(partitioner)
    if available_now and trigger is not None:
        raise InvalidValue("--trigger", trigger, "no --trigger together with --available-now")
    interval = None if trigger is None else _interval(trigger)
    given = None if plan is None else _plan(plan, workers)
    mode = _mode(adjust)
    included = read_include(include, "--include")
    most_bytes = None if adjust_bytes is None else _bytes(adjust_bytes)
    source = source_of(input, files_per_batch)
    folders = {"--output": output, "--state": state, "--quarantine": quarantine}
    _keep_apart(folders | ({"--input": input} if source.files else {}), "--input")
    need_spark()
    _explain_wait()
    watch = StreamWatch(Summary(state, output))
    with ExitStack() as stack:
        stack.enter_context(plainly())
        stack.enter_context(stopping_on_signals(watch.stop))
        session = stack.enter_context(spark_session(master, _warm_driver, watch.stop.is_set))
        _wake_workers(session)
        from nearcast.spark.stream import StreamOptions

        chosen = StreamOptions(workers, partitioner, given, settings, quarantine)
        chosen.adjust = mode
        chosen.include = included.names
        if most_bytes is not None:
            chosen.adjust_bytes = most_bytes
        when, shown = _When(interval, available_now), _Shown(metrics_port, log)
        stack.enter_context(source.reached())
        watch.wait(_start(session, source, watch, chosen, when, shown, stack))
    _tell(watch.summary, quarantine, as_json)


def _explain_wait() -> None:
    """Say on a terminal why the first start on a machine takes longer."""
    from nearcast.spark.workers.kernels import PART

    if sys.stderr.isatty() and not _kernel_files.at_hand(PART):
        sys.stderr.write(
            "nearcast: compiling kernels, once on this machine, which takes a minute or more; "
            f"'nearcast kernels build {PART}' does it ahead of time\n"
        )


def _warm_driver() -> None:
    """Load what the driver needs, while Spark starts; if need be, once it is compiled."""
    from nearcast.spark import stream
    from nearcast.spark.warm import warm_driver
    from nearcast.spark.workers import kernels

    del stream
    kernels.build()
    warm_driver()


def _wake_workers(session: SparkSession) -> None:
    """Let Python processes start on the nodes while the stream is being prepared."""
    from nearcast.spark.runner import SparkRunner

    def wake() -> None:
        with suppress(Exception):  # the first step will meet the error again, and report it
            SparkRunner(session).wake()

    Thread(target=wake, name="wake-workers", daemon=True).start()


class _When(NamedTuple):
    """When a stream looks for more events."""

    interval: str | None
    available_now: bool


class _Shown(NamedTuple):
    """How a stream shows its progress."""

    metrics_port: int | None
    log: Path | None


def _start(
    session: SparkSession,
    source: EventSource,
    watch: StreamWatch,
    chosen: StreamOptions,
    when: _When,
    shown: _Shown,
    stack: ExitStack,
) -> StreamingQuery:
    from nearcast.spark.reports.progress import progress
    from nearcast.spark.session import prepare
    from nearcast.spark.stream import open_feed, start
    from nearcast.spark.workers.node import NodeCache

    summary = watch.summary
    prepare(session, summary.state)
    show = stack.enter_context(progress(summary.state))
    feed = open_feed(session, summary.state, summary.output, None, chosen)
    name = feed.pipeline.state.id
    if (session.sparkContext.master or "").startswith("local"):
        # What this machine caches in memory is rebuilt from the state when it is needed.
        stack.callback(NodeCache(name).clear)
    listeners = feed.pipeline.listeners
    if shown.metrics_port is not None:
        listeners.append(_exported(session, f"nearcast-{name[:8]}", shown.metrics_port, stack))
    if shown.log is not None:
        listeners.append(_logged(shown.log, stack))
    listeners.append(show)
    listeners.append(watch.listen)
    feed.stopping = watch.stop.is_set
    take = watch.taking(feed.take_files if source.files else feed.take_rows)
    return start(source.frame(session), take, feed.pipeline.state, *when)


def _exported(session: SparkSession, query: str, port: int, stack: ExitStack) -> Listen:
    """Serve metrics over HTTP while the stream runs."""
    from nearcast.spark.reports.listener import listening
    from nearcast.spark.reports.metrics import Exporter, PipelineMetrics

    metrics = PipelineMetrics()
    exporter = Exporter(metrics, port)
    stack.callback(exporter.close)
    stack.enter_context(listening(session, query, metrics))
    sys.stderr.write(f"nearcast: figures at http://127.0.0.1:{exporter.port}/metrics\n")
    return metrics.observe


def _logged(path: Path, stack: ExitStack) -> Listen:
    from nearcast.spark.reports.logs import log_batch, log_to, logger

    try:
        file = stack.enter_context(path.open("a", encoding="utf-8"))
    except OSError as error:
        raise SourceError(f"{path}: cannot be written ({error.strerror})") from None
    stack.callback(logger.removeHandler, log_to(file))
    return log_batch


def _interval(text: str) -> str:
    """Read how often to look for events, in the form that Spark takes."""
    found = _TRIGGER.fullmatch(text)
    if found is None:
        expected = 'a number and a unit, such as "1 second", "500 ms" or "5 minutes"'
        raise InvalidValue("--trigger", text, expected)
    return f"{found[1]} {_UNITS.get(found[2], found[2])}"


def _mode(name: str) -> Mode:
    if name == "off":  # checking any other name needs an import that takes a second
        return "off"
    from nearcast.spark.driver.balancing import MODES

    for mode in MODES:
        if mode == name:
            return mode
    raise InvalidValue("--adjust", name, f"one of {', '.join(MODES)}")


def _bytes(text: str) -> float:
    """Read a size: a number of bytes, with k, M or G for thousands, millions or more."""
    found = _SIZE.fullmatch(text)
    size = float(found[1]) * _THOUSANDS[found[2].lower()] if found else 0.0
    if size <= 0:
        raise InvalidValue("--adjust-bytes", text, "a size above 0, such as 500k, 64M or 2G")
    return size


def _plan(path: Path, workers: int | None) -> Plan:
    from nearcast.partition.plan import Plan

    plan = Plan.load(path)
    if workers is not None and workers != plan.workers:
        raise InvalidValue("--workers", workers, f"{plan.workers}, for which {path} was made")
    return plan


def _keep_apart(given: dict[str, str | None], inner: str) -> None:
    """Refuse folders of which one is inside the other."""
    from nearcast.spark.io.paths import is_local, local_path

    places = {
        option: local_path(path).resolve()
        for option, path in given.items()
        if path is not None and is_local(path)
    }
    for option, place in places.items():
        for other, other_place in places.items():
            if option == other or inner not in (option, other):
                same = option < other and place == other_place
            else:
                same = other == inner and place.is_relative_to(other_place)
            if same:
                raise InvalidValue(option, given[option], f"another folder than that of {other}")


def _tell(summary: Summary, quarantine: str | None, as_json: bool) -> None:
    if summary.stopped:
        sys.stderr.write("nearcast: stopped; run the same command again to go on from here\n")
    if summary.refused:
        plural = "event" if summary.refused == 1 else "events"
        where = f"set aside in {quarantine}" if quarantine else "passed over; see --quarantine"
        sys.stderr.write(f"nearcast: {summary.refused:,} bad {plural} {where}\n")
    if as_json:
        typer.echo(msgspec.json.encode(summary).decode())
    else:
        typer.echo(summary.in_words())
