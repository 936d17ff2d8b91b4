"""`nearcast bench engine`: loading and matching what a deal service has."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from nearcast.cli.options import JsonOption
from nearcast_lab.bench.engine import EngineReport, measure_engine
from nearcast_lab.cli.measuring import give
from nearcast_lab.progress import status_line


def engine(
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=1000, help="How many subscriptions to load.")
    ] = 100_000,
    messages: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many messages to publish as a table.")
    ] = 50_000,
    seed: Annotated[int, typer.Option(metavar="S", help="Another seed, other data.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure an engine with the subscriptions of a deal service.

    Of the regions 60 % are circles, 25 % boxes and 15 % polygons, around the cities of the world,
    given as structs, JSON, WKT and WKB. A third of the queries have OR, NOT, phrases, prefixes or
    properties. They are loaded with subscribe_table; messages are published as a table and one by
    one. The updates of some messages are compared with those that plain code finds.

    [bold]Example[/bold]

      nearcast bench engine --subscriptions 1000000 --json
    """
    with status_line() as progress:
        report = measure_engine(subscriptions, messages, seed, progress)
    give(report, as_json, _show)


def _show(report: EngineReport) -> None:
    table = Table("measure", "value")
    for name, value in report.items():
        table.add_row(name, f"{value:,.1f}" if isinstance(value, float) else f"{value:,}")
    Console().print(table)
