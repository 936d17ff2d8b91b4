"""`nearcast bench operands`: properties, phrases, prefixes and geofences."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from nearcast.cli.options import JsonOption
from nearcast_lab.bench.checks import table_of
from nearcast_lab.bench.operands import PARTS, OperandsReport, OperandsSetup, measure_operands
from nearcast_lab.cli.measuring import SeedOption, measured, named
from nearcast_lab.tables import results_table


def operands(
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=100, help="Subscriptions of each population.")
    ] = 100_000,
    parts: Annotated[
        str, typer.Option(metavar="NAMES", help="What to measure, with commas between.")
    ] = ",".join(PARTS),
    batches: Annotated[
        int, typer.Option(metavar="N", min=1, help="Batches of messages in each round.")
    ] = 5,
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Rounds.")] = 3,
    seed: SeedOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure queries that ask for more than terms, beside the same with terms alone.

    Populations that differ in one thing match the same messages in turns, in one thread. Times are
    CPU, the best of all batches. A sample of subscriptions is evaluated one by one: the command
    fails if the answers differ.

    [bold]Example[/bold]

      nearcast bench operands --subscriptions 1000000 --parts geofences --json
    """
    plan = OperandsSetup(subscriptions, batches, rounds, seed, named(parts, "--parts", list(PARTS)))
    measured(partial(measure_operands, plan), as_json, _show)


def _show(report: OperandsReport) -> None:
    columns = ("subscriptions", "us a message", "messages/s", "matches", "matches/s", "load us")
    table = results_table(["population"], columns)
    for one in report["populations"]:
        table.add_row(
            one["population"],
            f"{one['subscriptions']:,}",
            f"{one['us_per_message']:.2f}",
            f"{one['messages_per_cpu_s']:,.0f}",
            f"{one['matches_per_message']:.2f}",
            f"{one['matches_per_cpu_s']:,.0f}",
            f"{one['load_us']:.1f}",
        )
    for peer in report["peers"]:
        taken = peer["us_per_message"]
        matches = f"{peer['matches_per_message']:.2f}"
        table.add_row(peer["system"], "", f"{taken:.2f}", f"{1e6 / taken:,.0f}", matches, "", "")
    console = Console()
    console.print(table)
    console.print(table_of(report["checks"]))
