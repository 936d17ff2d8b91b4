"""`nearcast export` and `nearcast import`: an engine's file as an event log, and back."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from nearcast.cli import options
from nearcast.cli.counts import counted
from nearcast.cli.progress import progress_of
from nearcast.cli.replay import refusal
from nearcast.engine import Engine, history_from
from nearcast.engine.replay import Refusal
from nearcast.errors import InvalidValue
from nearcast.events import Event, Publish, Record, Subscribe, open_log, open_writer
from nearcast.events.streams import STANDARD, same_file

_TOGETHER = 5000


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("export")(export_command)
    app.command("import")(import_command)


FileArgument = Annotated[Path, typer.Argument(metavar="FILE", help="The file of an engine.")]


def export_command(
    path: FileArgument,
    output: Annotated[
        str,
        typer.Option(
            metavar="EVENTS", help="The log to write, .jsonl or .parquet; - is standard output."
        ),
    ] = STANDARD,
    latest: Annotated[
        str | None,
        typer.Option(
            metavar="SECONDS|now",
            help="Events after this time are given it: repairs a file whose time is wrong.",
        ),
    ] = None,
) -> None:
    r"""Write the state of an engine's file as an event log.

    That is its subscriptions, its active messages and its window. The file may be in use.
    Imported into a new file, the log gives the same results.

    [bold]Example[/bold]

      nearcast export deals.nearcast --output deals.parquet

      nearcast export deals.nearcast --latest now --output repaired.parquet
    """
    from nearcast.store.export import export_events

    if same_file(path, output):
        raise InvalidValue("--output", output, "another file than the one that is read")
    events = export_events(path)
    if latest is not None:
        events = map(partial(_not_after, _seconds(latest)), events)
    first = list(islice(events, 1))  # what is wrong with the file shows before anything is written
    messages = subscriptions = 0
    with open_writer(output) as writer:
        for event in _both(first, events):
            writer.write(event)
            messages += isinstance(event, Publish)
            subscriptions += isinstance(event, Subscribe)
    if sys.stderr.isatty():
        sys.stderr.write(
            f"nearcast: {counted(messages, 'message')}, {counted(subscriptions, 'subscription')}\n"
        )


def _seconds(latest: str) -> float:
    if latest == "now":
        return time.time()
    try:
        seconds = float(latest)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        raise InvalidValue("--latest", latest, "seconds since 1970, or now")
    return seconds


def _not_after(latest: float, event: Event) -> Event:
    """Return an event at its own time or, if that is later, at the latest one."""
    if event.at is None or event.at <= latest:
        return event
    if isinstance(event, Publish):
        return Publish(replace(event.message, at=latest))
    return replace(event, at=latest)


def _both(first: list[Event], rest: Iterator[Event]) -> Iterator[Event]:
    yield from first
    yield from rest


def import_command(
    path: FileArgument,
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help="The event log to apply; - is standard input.")
    ],
    history: options.HistoryOption = None,
    window_count: options.WindowCountOption = None,
    window_seconds: options.WindowSecondsOption = None,
    space: options.SpaceOption = None,
    on_error: Annotated[
        str,
        typer.Option(
            metavar="stop|quarantine=FILE", help="Stop at a bad event, or set it aside in FILE."
        ),
    ] = "stop",
    stem: options.StemOption = None,
    stop_words: options.StopWordsOption = None,
    cjk: options.CjkOption = False,
    as_json: options.JsonOption = False,
) -> None:
    r"""Apply an event log to an engine's file, which is made if it is not there.

    The options say what a new file is made with; a file that is there keeps its own. Events before
    a bad one stay applied.

    [bold]Example[/bold]

      nearcast sample --output sample.jsonl

      nearcast import deals.nearcast sample.jsonl
    """
    options.check_window(window_count, window_seconds)
    if same_file(path, events):
        raise InvalidValue("EVENTS", events, "another file than FILE")
    analyser = options.given_text(stem, stop_words, cjk)
    with open_log(events) as log, refusal(on_error, log.name) as refuse:
        engine = Engine(
            path=path,
            window_count=window_count,
            window_seconds=window_seconds,
            space=None if space is None else options.box(space, "--space"),
            history=None if history is None else history_from(history, *filter(None, [analyser])),
            analyser=analyser,
        )
        with engine, progress_of(log, "importing") as shown:
            applied = updates = 0
            records = iter(log)
            while some := list(islice(records, _TOGETHER)):
                for record_updates in _apply(engine, some, refuse):
                    applied += 1
                    updates += record_updates
                    shown.step(record_updates)
            done = {"events": applied, "updates": updates, "subscriptions": engine.count}
    if as_json:
        sys.stdout.write(msgspec.json.encode(done).decode() + "\n")
    elif sys.stderr.isatty():
        sys.stderr.write(
            f"nearcast: {counted(applied, 'event')}, {counted(updates, 'update')}; {path} has "
            f"{counted(done['subscriptions'], 'subscription')}\n"
        )


def _apply(engine: Engine, records: list[Record], refuse: Refusal) -> Iterator[int]:
    """Apply records together up to one that is refused, then the rest; give updates of each."""
    while records:
        good: list[Event] = []
        for record in records:
            if record.event is None:
                break
            good.append(record.event)
        outcomes = engine.apply_all(good, stop=True)
        for outcome in outcomes:
            if outcome.error is None:
                yield len(outcome.updates)
        done = sum(outcome.error is None for outcome in outcomes)
        if done < len(records):
            error = records[done].error or outcomes[-1].error
            assert error is not None  # noqa: S101 - it is not an event, or was refused
            refuse(records[done], error)
            done += 1
        records = records[done:]
