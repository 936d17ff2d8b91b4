"""`nearcast backup`: a consistent copy of a server's data, taken while it runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from nearcast.errors import InvalidValue
from nearcast.store.backup import copy_file


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("backup")(backup)


def backup(
    data: Annotated[
        Path, typer.Option(metavar="DIR", help="The data of a server, running or not.")
    ],
    output: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for the copy.")],
) -> None:
    """Copy the data of a server: subscriptions, messages, updates, keys and webhooks.

    Everything that was acknowledged before the copy began is in it. Serve from the copy to
    restore it. What a pipeline on Spark remembers is not copied.

    [bold]Example[/bold]

      nearcast backup --data deals --output deals-monday
    """
    tenants = sorted((data / "tenants").glob("*.nearcast"))
    files = [*(data / name for name in ("keys.db", "webhooks.db")), *tenants]
    files = [path for path in files if path.is_file()]
    if not files:
        raise InvalidValue("--data", str(data), "the folder that `nearcast serve --data` was given")
    if output.exists() and any(output.iterdir()):
        raise InvalidValue("--output", str(output), "a new or empty folder")
    for path in files:
        target = output / path.relative_to(data)
        target.parent.mkdir(parents=True, exist_ok=True)
        copy_file(path, target)
    typer.echo(f"{len(files)} files in {output}")
