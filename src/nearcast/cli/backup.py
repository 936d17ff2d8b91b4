"""`nearcast backup` and `nearcast restore`: copies of a server's data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli.counts import counted
from nearcast.cli.need import need
from nearcast.errors import InvalidValue
from nearcast.store.copies import back_up, restore_copy


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    app.command("backup")(backup)
    app.command("restore")(restore)


def backup(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="The data of a server, running or not.")
    ],
    output: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for the copy.")],
) -> None:
    """Copy the data of a server: subscriptions, messages, updates, keys and webhooks.

    Everything that was acknowledged before the copy began is in it. The folder appears when the
    copy is complete, with checksums that `restore` and `serve` verify. What a pipeline on Spark
    remembers is not copied.

    [bold]Example[/bold]

      nearcast backup --data deals --output deals-monday
    """
    tenants = sorted((data / "tenants").glob("*.nearcast"))
    files = [*(data / name for name in ("keys.db", "webhooks.db")), *tenants]
    files = [path for path in files if path.is_file()]
    if not files:
        raise InvalidValue("--data", str(data), "the folder that `nearcast serve --data` was given")
    if output.exists() and (not output.is_dir() or any(output.iterdir())):
        raise InvalidValue("--output", str(output), "a new or empty folder")
    back_up(data, files, output)
    typer.echo(f"{counted(len(files), 'file')} in {output}")


def restore(
    data: Annotated[Path, typer.Option(metavar="DIR", help="A new folder to serve from.")],
    backup: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder that `nearcast backup` has made.")
    ] = None,
    archive: Annotated[
        str | None,
        typer.Option("--from", metavar="FOLDER", help="What `nearcast serve --archive` was given."),
    ] = None,
    to_time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            show_default="the latest",
            help="Of an archive: as it was then; 2026-11-18T14:30:00Z, or seconds since 1970.",
        ),
    ] = None,
) -> None:
    """Make the data of a server from a backup, or from its archive as it was at a time.

    What is read is verified and stays as it is.

    [bold]Example[/bold]

      nearcast restore --backup deals-monday --data deals
    """
    if (backup is None) == (archive is None):
        raise InvalidValue("--backup", backup and str(backup), "either --backup or --from")
    if backup is not None:
        if to_time is not None:
            raise InvalidValue("--to-time", to_time, "--from FOLDER beside it: an archive")
        typer.echo(f"{counted(restore_copy(backup, data), 'file')} in {data}")
        return
    need("fastapi", "server")
    from nearcast.server.archive.restore import read_time, restore_archive, written

    time = float("inf") if to_time is None else read_time(to_time)
    for tenant in restore_archive(archive or "", data, time):
        typer.echo(f"{tenant.name}: commit {tenant.position} of {written(tenant.time)}")
