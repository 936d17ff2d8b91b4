"""`nearcast spark ui`: a live page of a stream."""

from __future__ import annotations

import signal
from threading import Event
from typing import Annotated

import typer


def ui(
    state: Annotated[
        str, typer.Argument(metavar="STATE", help="Where the state of the stream is.")
    ],
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(
            metavar="PORT", min=0, max=65535, help="The port to listen on; 0 picks a free one."
        ),
    ] = 8090,
) -> None:
    """Serve a page that shows a stream: which worker has which cell, loads, and what moves.

    It reads the state only; the stream need not be running. Stop it with Ctrl-C.

    [bold]Example[/bold]

      nearcast spark ui state
    """
    from nearcast.server.stream_page import StreamPage

    page = StreamPage(state, port, host)
    typer.echo(f"http://{host}:{page.port}/")
    stopped = Event()
    before = {
        number: signal.signal(number, lambda *_: stopped.set())
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        stopped.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        page.close()
