"""`nearcast listen`: updates of a server, as they happen."""

from __future__ import annotations

import math
import time
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from nearcast.cli.remote import (
    URL,
    KeyFileOption,
    KeyOption,
    LinesOption,
    UrlOption,
    as_lines,
    chosen_key,
    connect,
    reach,
    say,
)
from nearcast.events.bodies import read_include

if TYPE_CHECKING:
    from nearcast.client import Client, Gap, Received


_NOT_FOUND = 404
_SIGNS = {
    "add": ("+ ", "bold green"),
    "remove": ("- ", "bold red"),
    "change": ("~ ", "bold yellow"),
}


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("listen")(listen)


def listen(
    subscriptions: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[ID]...", help="The subscriptions to listen to; all if none is given."
        ),
    ] = None,
    after: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, show_default="from now on", help="Begin after this update."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="End after N updates.")
    ] = None,
    include: Annotated[
        str,
        typer.Option(
            "--include",
            metavar="message,meta",
            help="What updates have besides: the message, and the meta of the subscription.",
        ),
    ] = "message,meta",
    url: UrlOption = URL,
    key: KeyOption = None,
    key_file: KeyFileOption = None,
    wait: Annotated[
        float | None,
        typer.Option(
            "--wait",
            metavar="SECONDS",
            min=0.0,
            show_default="5, and for ever once connected",
            help="Wait this long for the server; inf waits until it is there.",
        ),
    ] = None,
    as_json: LinesOption = False,
) -> None:
    """Print updates as they happen, until Ctrl-C; a broken connection is resumed.

    [bold]Example[/bold]

      nearcast listen s1 s2 --after 0
    """

    def take_up(pause_s: float) -> None:
        reach(client, math.inf if wait is None else wait)
        time.sleep(pause_s)

    console = Console(highlight=False)
    ids, included = subscriptions or [], read_include(include, "--include").names
    with connect(url, chosen_key(key, key_file), wait, sleep=take_up) as client:
        # Starting after the latest id, it misses nothing while the stream is still being opened.
        place = client.last_update() if after is None else after
        _announce(client, url, ids)
        updates = client.updates(*ids, after=place, gaps=True, include=included)
        for each in islice(updates, count):
            if as_lines(as_json):
                typer.echo(_line(each))
            else:
                console.print(_words(each), soft_wrap=True)


def _announce(client: Client, url: str, ids: list[str]) -> None:
    """Print which subscriptions are listened to, and which of them do not exist."""
    missing = [id for id in ids if not _exists(client, id)]
    which = f"updates of {', '.join(ids)}" if ids else "all updates"
    say(f"connected to {url}; listening for {which}, Ctrl-C ends it")
    for id in missing:
        say(f"there is no subscription {id!r}; its updates show as soon as there is one")


def _exists(client: Client, id: str) -> bool:
    from nearcast.client import ServerError

    try:
        client.get(id)
    except ServerError as error:
        if error.status != _NOT_FOUND:
            raise
        return False
    return True


def _line(each: Received | Gap) -> str:
    from nearcast.client import Gap

    if isinstance(each, Gap):
        return msgspec.json.encode({"gap": {"from": each.first, "to": each.last}}).decode()
    fields = msgspec.to_builtins(each)
    return msgspec.json.encode({k: v for k, v in fields.items() if v is not None}).decode()


def _words(each: Received | Gap) -> Text:
    from nearcast.client import Gap

    if isinstance(each, Gap):
        return Text(f"updates {each.first} to {each.last} are no longer kept", style="yellow")
    score = "" if each.score is None else f"  {each.score:.3f}"
    text = (each.body or {}).get("text", "")
    return Text.assemble(
        (f"{each.id:>8} ", "dim"), _SIGNS[each.op], each.subscription, "  ", each.message, score,
        (f"  {text}" if text else "", "dim"),
    )  # fmt: skip
