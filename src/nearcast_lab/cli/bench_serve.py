"""`nearcast bench serve`: the server under load."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from nearcast.cli.need import need
from nearcast.cli.options import JsonOption
from nearcast_lab.cli.measuring import SeedOption, measured
from nearcast_lab.tables import measures_table


def serve(
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many subscriptions there are.")
    ] = 1_000_000,
    listeners: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many listen to updates.")
    ] = 1000,
    rate: Annotated[
        float, typer.Option(metavar="N", min=1.0, help="Messages a second that they hear of.")
    ] = 1000.0,
    seconds: Annotated[
        float, typer.Option(metavar="S", min=0.1, help="How long each part takes.")
    ] = 10.0,
    steady: Annotated[
        float | None,
        typer.Option(
            metavar="S", min=0.1, help="How long they listen, if not as long as the other parts."
        ),
    ] = None,
    connections: Annotated[
        int, typer.Option(metavar="N", min=1, help="Connections of publishers.")
    ] = 64,
    lines: Annotated[
        int, typer.Option(metavar="N", min=1, help="Messages in one request of lines.")
    ] = 2000,
    workload: Annotated[
        str, typer.Option(metavar="NAME", help="What subscriptions and messages are made of.")
    ] = "shifted",
    seed: SeedOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure a server: messages one by one, in lines, and how soon listeners hear of them.

    The server is a process of its own with a folder of its own, and every answer counts only
    once it is on the disk. The load runs on the same machine and takes its share of it.
    Listeners are timed in turns with and without two others that take in every update: one
    that reads nothing, and one that reads a byte a second.

    [bold]Example[/bold]

      nearcast bench serve --subscriptions 100000 --listeners 200 --seconds 5 --json
    """
    need("fastapi", "server")
    from nearcast_lab.bench.serve import ServeSetup, measure_serve

    plan = ServeSetup(
        subscriptions=subscriptions,
        listeners=listeners,
        rate=rate,
        seconds=seconds,
        steady=seconds if steady is None else steady,
        connections=connections,
        lines=lines,
        workload=workload,
        seed=seed,
    )
    measured(
        partial(measure_serve, plan),
        as_json,
        lambda report: Console().print(measures_table(report)),
    )
