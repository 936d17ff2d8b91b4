"""`nearcast keys`: the API keys of a server."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from nearcast.cli.need import need
from nearcast.errors import InvalidValue
from nearcast.store.copies import accept_copy

keys = typer.Typer(no_args_is_help=True)
DataOption = Annotated[Path, typer.Option(metavar="DIR", help="The folder of the server.")]


def add_to(app: typer.Typer) -> None:
    """Register the command and its parts."""
    app.add_typer(keys, name="keys")


@keys.callback()
def _keys() -> None:
    """Make, list and remove the keys of a server; changes take effect at once.

    [bold]Example[/bold]

      nearcast keys add phone --data deals --scope subscribe
    """


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What you call it.")],
    data: DataOption,
    scope: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SCOPE", show_default="publish and subscribe", help="publish, subscribe, admin."
        ),
    ] = None,
    tenant: Annotated[
        str, typer.Option(metavar="NAME", help="Tenants do not see each other.")
    ] = "default",
    rate: Annotated[
        float | None,
        typer.Option(metavar="N", show_default="no limit", help="Events a second."),
    ] = None,
    max_body: Annotated[
        int | None, typer.Option(metavar="BYTES", min=1, help="The largest body of one event.")
    ] = None,
) -> None:
    """Make a key and print it. It is shown once: only a hash of it is kept.

    [bold]Example[/bold]

      nearcast keys add publisher --data deals --scope publish --rate 1000
    """
    need("fastapi", "server")
    from nearcast.server.keys import KeyStore

    accept_copy(data)
    opened = KeyStore(data / "keys.db")
    try:
        scopes = scope or ["publish", "subscribe"]
        token = opened.add(name, tenant=tenant, scopes=scopes, rate=rate, body_bytes=max_body)
    finally:
        opened.close()
    typer.echo(token)


@keys.command("list")
def list_keys(
    data: DataOption,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line.")] = False,
) -> None:
    """List the keys, without the secret itself.

    [bold]Example[/bold]

      nearcast keys list --data deals
    """
    need("fastapi", "server")
    from nearcast.server.keys import KeyStore

    if not (data / "keys.db").is_file():
        raise InvalidValue("--data", str(data), "a folder of a server with keys in it")
    opened = KeyStore(data / "keys.db")
    found = opened.all()
    opened.close()
    if as_json or not sys.stdout.isatty():
        for key in found:
            fields = msgspec.to_builtins(key)
            typer.echo(msgspec.json.encode(fields | {"scopes": sorted(key.scopes)}).decode())
        return
    table = Table("name", "tenant", "scopes", "events a second", "made")
    for key in found:
        made = datetime.fromtimestamp(key.created, UTC).strftime("%Y-%m-%d %H:%M")
        rate = "no limit" if key.rate is None else f"{key.rate:g}"
        table.add_row(key.name, key.tenant, ", ".join(sorted(key.scopes)), rate, made)
    Console().print(table)


@keys.command("remove")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What you called it.")],
    data: DataOption,
) -> None:
    """Remove a key: requests with it are refused from now on.

    [bold]Example[/bold]

      nearcast keys remove phone --data deals
    """
    need("fastapi", "server")
    from nearcast.server.keys import KeyStore

    accept_copy(data)
    opened = KeyStore(data / "keys.db")
    try:
        opened.remove(name)
    finally:
        opened.close()
