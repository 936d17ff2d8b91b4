"""`nearcast match`: try one message on some subscriptions, or one query on some messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from nearcast.cli import options
from nearcast.engine import Scan, Settings
from nearcast.errors import InvalidValue, NearcastError, SourceError
from nearcast.events import (
    Event,
    EventLog,
    Message,
    Publish,
    Subscribe,
    Subscription,
    event_to_json,
    open_log,
)
from nearcast.geo import WORLD, Box

_TRIAL = "trial"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("match")(match_command)


def match_command(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="An event log with the subscriptions or the messages."),
    ],
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The text of a message to try.")
    ] = None,
    point: Annotated[
        str | None, typer.Option(metavar="LON,LAT", help="Where that message is.")
    ] = None,
    query: Annotated[str | None, typer.Option(metavar="QUERY", help="A query to try.")] = None,
    region: Annotated[
        str | None,
        typer.Option(
            metavar="REGION",
            show_default="the world, for a query",
            help="W,S,E,N (a box), LON,LAT,METRES (a circle) or a region's JSON.",
        ),
    ] = None,
    stem: options.StemOption = None,
    stop_words: options.StopWordsOption = None,
    as_json: options.JsonOption = False,
) -> None:
    """Try one message against the subscriptions of a log, or one query against its messages.

    The subscriptions are those that exist at the end of the log. Top-k subscriptions choose among
    many messages and are passed over.

    [bold]Example[/bold]

      nearcast sample --output sample.jsonl

      nearcast match sample.jsonl --text "iPad sale!" --point 151.21,-33.87

      nearcast match sample.jsonl --query "jazz OR blues" --region 2.35,48.85,20000
    """
    settings = Settings(analyser=options.analyser(stem, stop_words))
    if (text is None) == (query is None):
        raise InvalidValue("match", text, "either --text with --point (or --region), or --query")
    with open_log(file) as log:
        if text is not None:
            found = _subscriptions_for(log, _message(text, point, region), settings)
        else:
            if point is not None:
                raise InvalidValue(
                    "--point", point, "--region with a query; --point goes with --text"
                )
            place = WORLD if region is None else options.region(region, "--region")
            found = _messages_for(log, Subscription(_TRIAL, query or "", place), settings)
        _show(found, as_json)


def _message(text: str, point: str | None, region: str | None) -> Message:
    if point is not None and region is None:
        lon, lat = options.numbers(point, 2, "--point", "LON,LAT")
        return Message(_TRIAL, text, (lon, lat))
    if region is not None and point is None:
        place = options.region(region, "--region")
        if isinstance(place, Box):
            return Message(_TRIAL, text, region=place)
        raise InvalidValue("--region", region, "a box W,S,E,N: a message covers a point or a box")
    raise InvalidValue("--text", text, "--point LON,LAT beside it, or --region W,S,E,N")


def _events(log: EventLog) -> Iterator[tuple[int, Event]]:
    for record in log:
        if record.event is None:
            raise SourceError(f"{log.name}:{record.line}: {record.error}")
        yield record.line, record.event


def _subscriptions_for(log: EventLog, message: Message, settings: Settings) -> Iterator[Event]:
    """Yield the subscriptions at the end of the log that match the message."""
    engine = Scan(settings)
    for line, event in _events(log):
        if not isinstance(event, Publish):
            try:
                engine.apply(event)
            except NearcastError as error:
                raise SourceError(f"{log.name}:{line}: {error}") from error
    subscriptions = {each.id: each for each in engine.subscriptions()}
    for update in engine.apply(Publish(message)):
        if subscriptions[update.subscription].top is None:
            yield Subscribe(subscriptions[update.subscription])


def _messages_for(log: EventLog, trial: Subscription, settings: Settings) -> Iterator[Event]:
    """Yield the messages of the log that match the subscription."""
    engine = Scan(settings)
    engine.apply(Subscribe(trial))
    for _, event in _events(log):
        if isinstance(event, Publish):
            found = event.message
            if engine.wants(trial.id, found):
                yield event


def _show(found: Iterator[Event], as_json: bool) -> None:
    encode = msgspec.json.Encoder().encode
    if as_json:
        for event in found:
            typer.echo(encode(event_to_json(event)))
        return
    table = Table("id", "query or text", "where")
    for event in found:
        fields = event_to_json(event)
        place = encode(fields.get("point") or fields.get("region")).decode()
        table.add_row(fields["id"], str(fields.get("query", fields.get("text"))), place)
    console = Console()
    if table.row_count:
        console.print(table)
    console.print(f"{table.row_count} matching")
