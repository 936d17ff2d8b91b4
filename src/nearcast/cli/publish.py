"""`nearcast publish` and `nearcast retract`: messages of a server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from nearcast.cli import options
from nearcast.cli.counts import counted
from nearcast.cli.remote import (
    URL,
    KeyFileOption,
    KeyOption,
    LinesOption,
    UrlOption,
    WaitOption,
    as_lines,
    chosen_key,
    connect,
)
from nearcast.errors import InvalidValue, MissingField, SourceError
from nearcast.events import Point
from nearcast.events.lines import split_lines
from nearcast.events.streams import Chunks, open_source
from nearcast.geo import Region


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("publish")(publish)
    app.command("retract")(retract)


def publish(
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="The text of one message.")
    ] = None,
    point: Annotated[str | None, typer.Option(metavar="LON,LAT", help="Where it happened.")] = None,
    region: Annotated[
        str | None,
        typer.Option(metavar="W,S,E,N | JSON", help="Or the area that it covers: a box, polygons."),
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", show_default="a new one", help="Its id.")
    ] = None,
    ttl: Annotated[
        float, typer.Option(metavar="S", min=0.0, help="Seconds for which it stays active.")
    ] = 0.0,
    properties: Annotated[
        str | None,
        typer.Option(
            "--properties", metavar="JSON", help="A JSON object; queries can ask for its members."
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", metavar="FILE", help="Publish its lines, a JSON message each; - reads them."
        ),
    ] = None,
    url: UrlOption = URL,
    key: KeyOption = None,
    key_file: KeyFileOption = None,
    wait: WaitOption = None,
    as_json: LinesOption = False,
) -> None:
    """Publish one message, or a file of them, and print the number of updates.

    [bold]Example[/bold]

      nearcast publish "iPad sale!" --point 151.21,-33.87

      nearcast publish --id bus-7 --point 151.21,-33.87 --ttl 60 --properties '{"line": 333}'

      nearcast publish --file messages.jsonl
    """
    placed = point is not None or region is not None
    if file is not None and (text is not None or placed or properties is not None):
        raise InvalidValue("--file", file, "a message, or --file FILE with many of them")
    if file is None and text is None and not placed:
        raise MissingField("TEXT", "a text with --point or --region, or --file FILE")
    place, area = (None, None) if file is not None else _place(point, region)
    given = None if properties is None else options.json_object(properties, "--properties")
    with connect(url, chosen_key(key, key_file), wait) as client:
        if file is not None:
            done = client.publish_many(_lines(file))
            fields = {
                "accepted": done.accepted,
                "refused": done.refused,
                "updates": done.updates,
                "errors": done.errors,
            }
            for error in done.errors:
                sys.stderr.write(f"nearcast: {file}:{error.line}: {error.detail}\n")
            updates = counted(done.updates, "update")
            summary = f"{done.accepted:,} published, {done.refused:,} refused, {updates}"
        else:
            one = client.publish(id, text, place, region=area, ttl=ttl, properties=given)
            fields = {"id": one.id, "updates": one.updates}
            summary = f"published {one.id}: {counted(one.updates, 'update')}"
    typer.echo(msgspec.json.encode(fields).decode() if as_lines(as_json) else summary)
    if fields.get("refused"):
        raise typer.Exit(2)


def retract(
    id: Annotated[str, typer.Argument(metavar="ID", help="The id of the message.")],
    url: UrlOption = URL,
    key: KeyOption = None,
    key_file: KeyFileOption = None,
    wait: WaitOption = None,
    as_json: LinesOption = False,
) -> None:
    """Retract a message that is active or in the window, and print the number of updates.

    [bold]Example[/bold]

      nearcast retract bus-7
    """
    with connect(url, chosen_key(key, key_file), wait) as client:
        updates = client.retract(id)
    fields = {"id": id, "updates": updates}
    summary = f"retracted {id}: {counted(updates, 'update')}"
    typer.echo(msgspec.json.encode(fields).decode() if as_lines(as_json) else summary)


def _place(point: str | None, region: str | None) -> tuple[Point | None, Region | None]:
    """The point or the area of the message."""
    if point is not None:
        lon, lat = options.numbers(point, 2, "--point", "LON,LAT")
        return (lon, lat), None
    if region is not None:
        return None, options.region(region, "--region")
    raise MissingField("--point", "LON,LAT, or --region W,S,E,N")


def _lines(file: str) -> Iterator[bytes]:
    """The lines of a file, unchecked: the server reports errors by line number."""
    number = 0
    with open_source(file) as source:
        for line in split_lines(Chunks(source)):
            if line.error is not None:
                raise SourceError(f"{file}:{line.number}: {line.error}")
            yield b"\n" * (line.number - number - 1) + line.data + b"\n"
            number = line.number
