"""`nearcast keys`: the API keys of a server."""

from __future__ import annotations

import getpass
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from nearcast.cli.need import need
from nearcast.errors import InvalidValue
from nearcast.store.copies import accept_copy

if TYPE_CHECKING:
    from nearcast.server.keys import KeyStore

keys = typer.Typer(no_args_is_help=True)
_DAY_S = 86_400.0
DataOption = Annotated[Path, typer.Option(metavar="DIR", help="The folder of the server.")]


def add_to(app: typer.Typer) -> None:
    """Register the command and its parts."""
    app.add_typer(keys, name="keys")


@keys.callback()
def _keys() -> None:
    """Make, list, rotate and remove the keys of a server; changes take effect at once.

    [bold]Example[/bold]

      nearcast keys add phone --data deals --scope subscribe
    """


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the key.")],
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
    days: Annotated[
        float | None,
        typer.Option(metavar="N", min=0.0, show_default="for ever", help="Valid for N days."),
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
        token = opened.add(
            name,
            tenant=tenant,
            scopes=scopes,
            rate=rate,
            body_bytes=max_body,
            valid_s=None if days is None else days * _DAY_S,
        )
    finally:
        opened.close()
    _audit(data, "keys add", name, tenant)
    typer.echo(token)


@keys.command("rotate")
def rotate(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the key.")],
    data: DataOption,
    grace_hours: Annotated[
        float, typer.Option(metavar="N", min=0.0, help="How long the old one goes on working.")
    ] = 24.0,
) -> None:
    """Replace a key by a new one with the same rights, and print that.

    [bold]Example[/bold]

      nearcast keys rotate phone --data deals
    """
    need("fastapi", "server")
    from nearcast.server.keys import KeyStore

    opened = KeyStore(data / "keys.db")
    try:
        token = opened.rotate(name, grace_hours * 3600.0)
        tenant = _tenant(opened, name)
    finally:
        opened.close()
    _audit(data, "keys rotate", name, tenant)
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
    table = Table("name", "tenant", "scopes", "events a second", "made", "valid until")
    for key in found:
        rate = "no limit" if key.rate is None else f"{key.rate:g}"
        until = "removed" if key.expires is None else _moment(key.expires)
        scopes = ", ".join(sorted(key.scopes))
        table.add_row(key.name, key.tenant, scopes, rate, _moment(key.created), until)
    Console().print(table)


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


@keys.command("remove")
def remove(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The name of the key.")],
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
        tenant = _tenant(opened, name)
        opened.remove(name)
    finally:
        opened.close()
    _audit(data, "keys remove", name, tenant)


def _tenant(opened: KeyStore, name: str) -> str:
    return next((key.tenant for key in opened.all() if key.name == name), "")


def _audit(data: Path, act: str, key: str, tenant: str) -> None:
    """Note a change of the keys, and which user of this machine made it."""
    from nearcast.server.audit import AuditLog

    AuditLog(data).write(act, f"{getpass.getuser()} on this machine", tenant, key=key)
