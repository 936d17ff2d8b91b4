"""`nearcast serve`: the server."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from nearcast.cli import options
from nearcast.cli.need import need


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("serve")(serve_command)


def serve_command(
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", show_default="in memory", help="Where everything is kept; made if new."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="Where to listen; other than loopback with keys.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="0 takes a free one.")
    ] = 8080,
    window_count: options.WindowCountOption = None,
    window_seconds: options.WindowSecondsOption = None,
    space: options.SpaceOption = None,
) -> None:
    """Serve subscriptions, messages and updates over HTTP, with a live map at /.

    [bold]Example[/bold]

      nearcast serve --data deals --port 8080
    """
    need("fastapi", "server")
    from nearcast.server.config import Config
    from nearcast.server.run import bound, serve

    config = Config(data=data)
    with bound(host, port) as listening:
        name = f"[{host}]" if ":" in host else host
        sys.stderr.write(f"nearcast: http://{name}:{listening.getsockname()[1]}/\n")
        serve(config, listening)
