"""`nearcast sub`: the subscriptions of a server."""

from __future__ import annotations

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
    LinesOption,
    UrlOption,
    WaitOption,
    as_lines,
    chosen_key,
    connect,
    give_hints,
)
from nearcast.errors import MissingField
from nearcast.events import Subscribe, Subscription, Top, event_to_json

sub = typer.Typer(no_args_is_help=True)
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="The id of the subscription.")]


def add_to(app: typer.Typer) -> None:
    """Register the command and its parts."""
    app.add_typer(sub, name="sub")


@sub.callback()
def _sub() -> None:
    """Add, list, show and remove subscriptions of a server.

    [bold]Example[/bold]

      nearcast sub add s1 "ipad AND sale" --region 151.2,-33.87,2000
    """


@sub.command("add")
def add(
    id: Annotated[str, typer.Argument(metavar="ID", help="Its id; - gets a new one.")],
    query: Annotated[
        str | None,
        typer.Argument(
            metavar="[QUERY]", help="What to look for; without it, everything in the region."
        ),
    ] = None,
    region: Annotated[
        str | None,
        typer.Option(metavar="W,S,E,N | LON,LAT,METRES | JSON", help="Where to look."),
    ] = None,
    point: Annotated[
        str | None,
        typer.Option(metavar="LON,LAT", help="The point to rank around, for the k best only."),
    ] = None,
    k: Annotated[
        int | None, typer.Option("--k", metavar="K", help="How many messages it has, the best.")
    ] = None,
    alpha: Annotated[
        float, typer.Option(metavar="A", help="How much nearness counts, from 0 to 1.")
    ] = 0.5,
    filter: Annotated[
        str | None,
        typer.Option(
            "--filter",
            metavar="QUERY",
            help="For the k best: rank only messages that match this query.",
        ),
    ] = None,
    meta: Annotated[
        str | None,
        typer.Option(
            "--meta", metavar="JSON", help="A JSON object that comes back with every update."
        ),
    ] = None,
    ttl: Annotated[
        float | None, typer.Option("--ttl", metavar="S", help="Seconds after which it ends.")
    ] = None,
    ops: Annotated[
        str | None,
        typer.Option(
            "--ops", metavar="add,remove,change", show_default="all", help="Which updates it gets."
        ),
    ] = None,
    url: UrlOption = URL,
    key: KeyOption = None,
    key_file: KeyFileOption = None,
    wait: WaitOption = None,
    as_json: LinesOption = False,
) -> None:
    """Add a subscription, or replace the one with this id.

    [bold]Example[/bold]

      nearcast sub add s1 "ipad AND (discount OR sale)" --region 151.2,-33.87,2000

      nearcast sub add s2 "jazz blues" --point 2.35,48.85 --k 20 --filter "price:<50"

      nearcast sub add fence --region 151,-34,152,-33 --ttl 3600 --ops add,remove
    """
    if k is None and point is not None:
        raise MissingField("--k", "how many it gets, the best around --point; or --region instead")
    if k is not None and point is None:
        raise MissingField("--point", "LON,LAT, around which the --k best are ranked")
    place = None
    if point is not None:
        lon, lat = options.numbers(point, 2, "--point", "LON,LAT")
        place = (lon, lat)
    where = None if region is None else options.region(region, "--region")
    top = None if k is None else Top(k, alpha)
    given = None if meta is None else options.json_object(meta, "--meta")
    chosen = None if ops is None else [op.strip() for op in ops.split(",")]
    new = None if id == "-" else id
    with connect(url, chosen_key(key, key_file), wait) as client:
        made = client.subscribe(
            new, query, where, point=place, top=top, filter=filter, meta=given, ttl=ttl, ops=chosen
        )
    give_hints(query if top is None else None, filter)
    if as_lines(as_json):
        typer.echo(_line(made))
    else:
        typer.echo(f"subscribed {made.id}")


@sub.command("list")
def list_subscriptions(
    bbox: Annotated[
        str | None, typer.Option(metavar="W,S,E,N", help="Only those that meet this box.")
    ] = None,
    url: UrlOption = URL,
    key: KeyOption = None,
    key_file: KeyFileOption = None,
    wait: WaitOption = None,
    as_json: LinesOption = False,
) -> None:
    """List subscriptions in the order of their ids.

    [bold]Example[/bold]

      nearcast sub list --bbox 151,-34,152,-33 --json
    """
    box = None if bbox is None else options.box(bbox, "--bbox")
    with connect(url, chosen_key(key, key_file), wait) as client:
        if as_lines(as_json):
            for each in client.subscriptions(box):
                typer.echo(_line(each))
            return
        table = Table("id", "query", "where")
        for each in client.subscriptions(box):
            table.add_row(each.id, each.query or "", _where(each))
    Console().print(table)


@sub.command("show")
def show(
    id: IdArgument,
    url: UrlOption = URL,
    key: KeyOption = None,
    key_file: KeyFileOption = None,
    wait: WaitOption = None,
    as_json: LinesOption = False,
) -> None:
    """Show a subscription and its current results.

    [bold]Example[/bold]

      nearcast sub show s1
    """
    with connect(url, chosen_key(key, key_file), wait) as client:
        found, results = client.get(id), client.results(id)
    if as_lines(as_json):
        fields = msgspec.json.decode(_line(found))
        shown = [result.fields for result in results]
        typer.echo(msgspec.json.encode(fields | {"results": shown}).decode())
        return
    console = Console(highlight=False)
    wanted = found.query or "everything"
    console.print(f"[bold]{found.id}[/bold]  {wanted}\n{_where(found)}", soft_wrap=True)
    for result in results:
        score = "" if result.score is None else f"  {result.score:.3f}"
        console.print(f"  {result.message}{score}  {result.text or ''}", soft_wrap=True)


@sub.command("remove")
def remove(
    id: IdArgument,
    url: UrlOption = URL,
    key: KeyOption = None,
    key_file: KeyFileOption = None,
    wait: WaitOption = None,
) -> None:
    """End a subscription.

    [bold]Example[/bold]

      nearcast sub remove s1
    """
    with connect(url, chosen_key(key, key_file), wait) as client:
        client.unsubscribe(id)


def _line(subscription: Subscription) -> str:
    fields = event_to_json(Subscribe(subscription))
    del fields["op"]
    return msgspec.json.encode(fields).decode()


def _where(subscription: Subscription) -> str:
    if subscription.top is not None:
        return f"the {subscription.top.k} best around {subscription.point}"
    return "anywhere" if subscription.region is None else str(subscription.region)
