"""`nearcast sample`: a small event log with real places, to try the other commands on."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from importlib.resources import as_file, files
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from nearcast.errors import InvalidValue
from nearcast.events import (
    Event,
    Move,
    Publish,
    Retract,
    Subscribe,
    Unsubscribe,
    open_log,
    open_writer,
)
from nearcast.events.log import events_of
from nearcast.events.streams import STANDARD
from nearcast.geo import Box, Circle

_NAME = "sample.jsonl"


class _Kind(msgspec.Struct):
    """A kind of event, how many there are, and one of them."""

    kind: str
    events: int
    example: str


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("sample")(sample)


def sample(
    output: Annotated[
        str,
        typer.Option(metavar="FILE", help="A .jsonl or .parquet file, or - for standard output."),
    ] = STANDARD,
    list_kinds: Annotated[
        bool, typer.Option("--list", help="Show what is in it, instead of writing it.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --list: JSON instead of a table.")
    ] = False,
) -> None:
    """Write a small event log: a few hours in Sydney, Paris, New York and other cities.

    It has every kind of event, region and message, and gives updates of every kind. Places are
    real; people and texts are not.

    [bold]Example[/bold]

      nearcast sample --output sample.jsonl

      nearcast replay sample.jsonl

      nearcast sample --list
    """
    if list_kinds and output != STANDARD:
        raise InvalidValue("--output", output, "no file with --list, which writes no log")
    if as_json and not list_kinds:
        raise InvalidValue("--json", as_json, "--list beside it: the log is JSON as it is")
    with as_file(files("nearcast.cli").joinpath(_NAME)) as path, open_log(path) as log:
        events = list(events_of(log, _NAME))
    if list_kinds:
        _show(_kinds(events), as_json)
        return
    with open_writer(output) as writer:
        for event in events:
            writer.write(event)
    if output != STANDARD and sys.stderr.isatty():
        said = f"{len(events)} events in {output}; try: nearcast replay {output}"
        sys.stderr.write(f"nearcast: {said}\n")


def _kinds(events: Iterable[Event]) -> list[_Kind]:
    found: dict[str, _Kind] = {}
    for event in events:
        kind, example = _described(event)
        found.setdefault(kind, _Kind(kind, 0, example)).events += 1
    return [found[kind] for kind in sorted(found)]


def _described(event: Event) -> tuple[str, str]:
    match event:
        case Subscribe(subscription):
            what = f"{subscription.id}: {subscription.query or 'everything'}"
            if subscription.top is not None:
                return "subscribe, top-k", what
            return f"subscribe, {_shape(subscription.region)}", what
        case Publish(message):
            where = "at a point" if message.region is None else f"over a {_shape(message.region)}"
            lasts = "lasting, " if message.ttl else ""
            return f"publish, {lasts}{where}", message.text
        case Move():
            return "move", event.id
        case Retract():
            return "retract", event.id
        case Unsubscribe():
            return "unsubscribe", event.id


def _shape(region: object) -> str:
    if region is None:
        return "anywhere"
    if isinstance(region, Circle):
        return "circle"
    return "box" if isinstance(region, Box) else "polygon"


def _show(kinds: list[_Kind], as_json: bool) -> None:
    if as_json:
        for kind in kinds:
            typer.echo(msgspec.json.encode(kind))
        return
    table = Table("kind", "events", "such as")
    for kind in kinds:
        table.add_row(kind.kind, str(kind.events), kind.example)
    Console().print(table)
