"""`nearcast match`: try one message on some subscriptions, or one query on some messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from nearcast.cli import options
from nearcast.cli.remote import (
    URL,
    KeyFileOption,
    KeyOption,
    UrlOption,
    WaitOption,
    as_lines,
    chosen_key,
    connect,
    give_hints,
)
from nearcast.engine import Scan, Settings
from nearcast.errors import InvalidValue, NearcastError, SourceError
from nearcast.events import (
    Event,
    EventLog,
    Message,
    Publish,
    Reached,
    Retract,
    Subscribe,
    Subscription,
    event_to_json,
    open_log,
)
from nearcast.geo import WORLD, Circle

_TRIAL = "trial"


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("match")(match_command)


def match_command(
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE]",
            help="An event log with the subscriptions or the messages; without one, a server's.",
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The text of a message to try.")
    ] = None,
    point: Annotated[
        str | None, typer.Option(metavar="LON,LAT", help="Where that message is.")
    ] = None,
    properties: Annotated[
        str | None, typer.Option(metavar="JSON", help="The properties of that message.")
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
    url: UrlOption = URL,
    key: KeyOption = None,
    key_file: KeyFileOption = None,
    wait: WaitOption = None,
    stem: options.StemOption = None,
    stop_words: options.StopWordsOption = None,
    cjk: options.CjkOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Try one message against the subscriptions of a log, or one query against its messages.

    The subscriptions are those that exist at the end of the log. Top-k subscriptions choose among
    many messages and are passed over. Without a log, a message is tried on the subscriptions of a
    running server, top-k ones too, and no update is sent.

    [bold]Example[/bold]

      nearcast sample --output sample.jsonl

      nearcast match sample.jsonl --text "iPad sale!" --point 151.21,-33.87

      nearcast match sample.jsonl --query "jazz OR blues" --region 2.35,48.85,20000

      nearcast match --text "iPad sale!" --point 151.21,-33.87 --url http://127.0.0.1:8080
    """
    if file is None:
        if query is not None:
            raise InvalidValue("--query", query, "FILE beside it: a log whose messages are tried")
        with connect(url, chosen_key(key, key_file), wait) as client:
            _show_reached(client.match(tried_message(text, point, region, properties)), as_json)
        return
    settings = Settings(analyser=options.analyser(stem, stop_words, cjk))
    placed = point is not None or region is not None
    tried = text is not None or (query is None and placed and properties is not None)
    if tried == (query is not None):
        raise InvalidValue("match", text, "either --text with --point (or --region), or --query")
    with open_log(file) as log:
        if tried:
            message = tried_message(text, point, region, properties)
            found = _subscriptions_for(log, message, settings)
        else:
            if point is not None:
                raise InvalidValue(
                    "--point", point, "--region with a query; --point goes with --text"
                )
            place = WORLD if region is None else options.region(region, "--region")
            give_hints(query)
            found = _messages_for(log, Subscription(_TRIAL, query or "", place), settings)
        _show(found, as_json)


def tried_message(
    text: str | None, point: str | None, region: str | None, properties: str | None
) -> Message:
    """The message that options describe."""
    given = None if properties is None else options.json_object(properties, "--properties")
    if point is not None and region is None:
        lon, lat = options.numbers(point, 2, "--point", "LON,LAT")
        return Message(_TRIAL, text or "", (lon, lat), properties=given)
    if region is not None and point is None:
        place = options.region(region, "--region")
        if not isinstance(place, Circle):
            return Message(_TRIAL, text or "", region=place, properties=given)
        expected = "a box W,S,E,N or polygons: a message covers a point or an area"
        raise InvalidValue("--region", region, expected)
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
        if isinstance(event, Publish | Retract):
            if event.at is not None and (engine.now is None or event.at > engine.now):
                engine.advance(event.at)  # subscriptions may end
        else:
            try:
                engine.apply(event)
            except NearcastError as error:
                raise SourceError(f"{log.name}:{line}: {error}") from error
    subscriptions = {each.id: each for each in engine.subscriptions()}
    for reached in engine.match(message):
        if subscriptions[reached.message].top is None:
            yield Subscribe(subscriptions[reached.message])


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
        where = fields.get("point") or fields.get("region")
        place = "anywhere" if where is None else encode(where).decode()
        table.add_row(fields["id"], str(fields.get("query", fields.get("text", ""))), place)
    console = Console()
    if table.row_count:
        console.print(table)
    console.print(f"{table.row_count} matching")


def _show_reached(found: list[Reached], as_json: bool) -> None:
    """Print the subscriptions of a server that a message would reach."""
    if as_lines(as_json):
        for each in found:
            score = {} if each.score is None else {"score": each.score}
            typer.echo(msgspec.json.encode({"subscription": each.subscription, **score}))
        return
    for each in found:
        typer.echo(each.subscription + ("" if each.score is None else f"  {each.score:.3f}"))
    typer.echo(f"{len(found)} matching")
