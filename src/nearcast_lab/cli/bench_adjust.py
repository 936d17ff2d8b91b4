"""`nearcast bench adjust`: load adjustment under drift, simulated."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from nearcast.cli.options import JsonOption
from nearcast_lab.bench.adjust import METHODS, AdjustOutcome, AdjustSetup, measure_adjust
from nearcast_lab.bench.adjust_selection import Selection
from nearcast_lab.bench.checks import table_of
from nearcast_lab.cli.measuring import (
    GridOption,
    IntervalsOption,
    SeedOption,
    WorkersOption,
    cells,
    measured,
    named,
    numbers,
)
from nearcast_lab.tables import results_table, short_text


def adjust(
    workers: WorkersOption = "8,32",
    method: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"Of {', '.join(METHODS)}.")
    ] = ",".join(METHODS),
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many; all are replaced in an interval.")
    ] = 200_000,
    messages: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many messages between two looks.")
    ] = 60_000,
    intervals: IntervalsOption = 3,
    looks: Annotated[
        int, typer.Option(metavar="N", min=1, help="How often loads are looked at in an interval.")
    ] = 2,
    grid: GridOption = "512x256",
    seed: SeedOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Simulate how a plan follows a drifting workload (Q3 of PS2Stream, section VI-D).

    First every method relieves the same hot workers of the same load. Then each follows the drift
    from the same plan: doing nothing, as published, as ours does, and with a new plan in each
    interval. Bounds are for messages that none of them has seen.

    [bold]Example[/bold]

      nearcast bench adjust --workers 8 --subscriptions 50000 --messages 20000 --intervals 2
    """
    arrangement = AdjustSetup(
        workers=numbers(workers, "--workers"),
        subscriptions=subscriptions,
        messages=messages,
        intervals=intervals,
        looks=looks,
        **cells(grid),
        methods=named(method, "--method", list(METHODS)),
        seed=seed,
    )
    measured(partial(measure_adjust, arrangement), as_json, _show)


def _show(outcome: AdjustOutcome) -> None:
    console = Console()
    for workers in dict.fromkeys(each["workers"] for each in outcome["selections"]):
        some = [each for each in outcome["selections"] if each["workers"] == workers]
        console.print(_selections(f"selection for the same gaps, {workers} workers", some))
    console.print(_selections("selection from all cells", outcome["large_selections"]))
    console.print(_steps(outcome))
    console.print(table_of(outcome["bars"]))


def _selections(title: str, selections: list[Selection]) -> Table:
    columns = ("cells", "of", "kB", "carried kB", "max/mean", "ms")
    table = results_table(["method", "load"], columns, title)
    for each in selections:
        table.add_row(
            each["method"],
            each["load"],
            f"{each['cells']:,}",
            f"{each['of_cells']:,}",
            f"{each['by_definition'] / 1e3:,.0f}",
            f"{each['carried'] / 1e3:,.0f}",
            f"{each['heavier']:.3f}",
            f"{each['ms']:.1f}",
        )
    return table


def _steps(outcome: AdjustOutcome) -> Table:
    columns = ("bound", "of rebuild", "max/mean", "carried", "CPU s")
    table = results_table(["workers", "interval", "method"], columns, "drift")
    for step in outcome["steps"]:
        of = step["of_rebuild"]
        table.add_row(
            str(step["workers"]),
            str(step["interval"]),
            step["method"],
            short_text(step["messages_per_s"]),
            "" if of is None else f"{of:.3f}",
            f"{step['balance']:.3f}",
            f"{step['of_bytes']:.2%}",
            f"{step['adjust_s']:.1f}",
        )
    return table
