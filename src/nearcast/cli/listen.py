"""`nearcast listen`: updates of a server, as they happen."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from nearcast.cli.remote import URL, KeyOption, LinesOption, UrlOption, as_lines, connect

if TYPE_CHECKING:
    from nearcast.client import Gap, Received


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("listen")(listen)


def listen(
    subscriptions: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Of these subscriptions; of all if none is given."),
    ] = None,
    after: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, show_default="from now on", help="Begin after this update."
        ),
    ] = None,
    count: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="End after so many.")
    ] = None,
    url: UrlOption = URL,
    key: KeyOption = None,
    as_json: LinesOption = False,
) -> None:
    """Print updates as they happen, until Ctrl-C; a connection that breaks is taken up again.

    [bold]Example[/bold]

      nearcast listen s1 s2 --after 0
    """
    console = Console(highlight=False)
    with connect(url, key) as client:
        found = client.updates(*(subscriptions or ()), after=after, gaps=True)
        for each in islice(found, count):
            if as_lines(as_json):
                typer.echo(_line(each))
            else:
                console.print(_words(each), soft_wrap=True)


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
    sign = ("+ ", "bold green") if each.op == "add" else ("- ", "bold red")
    score = "" if each.score is None else f"  {each.score:.3f}"
    return Text.assemble(
        (f"{each.id:>8} ", "dim"), sign, each.subscription, "  ", each.message, score
    )
