"""`nearcast publish`: publishes messages to a server."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import msgspec
import typer

from nearcast.cli import options
from nearcast.cli.remote import (
    URL,
    KeyOption,
    LinesOption,
    UrlOption,
    WaitOption,
    as_lines,
    connect,
)
from nearcast.errors import InvalidValue, MissingField, SourceError
from nearcast.events import Point
from nearcast.events.lines import split_lines
from nearcast.events.streams import Chunks, open_source
from nearcast.geo import Box


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("publish")(publish)


def publish(
    text: Annotated[
        str | None, typer.Argument(metavar="[TEXT]", help="The text of one message.")
    ] = None,
    point: Annotated[str | None, typer.Option(metavar="LON,LAT", help="Where it happened.")] = None,
    region: Annotated[
        str | None, typer.Option(metavar="W,S,E,N", help="Or the box that it covers.")
    ] = None,
    id: Annotated[
        str | None, typer.Option("--id", metavar="ID", show_default="a new one", help="Its id.")
    ] = None,
    ttl: Annotated[
        float, typer.Option(metavar="S", min=0.0, help="Seconds for which it stays active.")
    ] = 0.0,
    file: Annotated[
        str | None,
        typer.Option(
            "--file", metavar="FILE", help="Publish its lines, a JSON message each; - reads them."
        ),
    ] = None,
    url: UrlOption = URL,
    key: KeyOption = None,
    wait: WaitOption = None,
    as_json: LinesOption = False,
) -> None:
    """Publish one message, or a file of them, and print the number of updates.

    [bold]Example[/bold]

      nearcast publish "iPad sale!" --point 151.21,-33.87

      nearcast publish --file messages.jsonl
    """
    if (text is None) == (file is None):
        raise InvalidValue("TEXT", text, "a text, or --file FILE")
    place, box = (None, None) if text is None else _place(point, region)
    with connect(url, key, wait) as client:
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
            summary = (
                f"{done.accepted:,} published, {done.refused:,} refused, {done.updates:,} updates"
            )
        else:
            one = client.publish(id, text, place, region=box, ttl=ttl)
            fields = {"id": one.id, "updates": one.updates}
            summary = f"published {one.id}: {one.updates:,} updates"
    typer.echo(msgspec.json.encode(fields).decode() if as_lines(as_json) else summary)
    if fields.get("refused"):
        raise typer.Exit(2)


def _place(point: str | None, region: str | None) -> tuple[Point | None, Box | None]:
    """The point or the box of the message."""
    if point is not None:
        lon, lat = options.numbers(point, 2, "--point", "LON,LAT")
        return (lon, lat), None
    if region is not None:
        return None, options.box(region, "--region")
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
