"""`nearcast experiment moving`: the figures of AP+-Tree, section 5.2."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from nearcast.cli.options import JsonOption
from nearcast_lab.bench.plot import log_log_plot
from nearcast_lab.cli.measuring import give, write_plot
from nearcast_lab.experiments.moving import MovingFinding, curves_by_area, run_moving
from nearcast_lab.progress import status_line


def moving(
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many, and as many messages.")
    ] = 20_000,
    moves: Annotated[
        int, typer.Option(metavar="N", min=10, help="How many moves for each point.")
    ] = 5_000,
    seed: Annotated[int, typer.Option(metavar="S", help="Another seed, other data.")] = 1,
    as_json: JsonOption = False,
    plot: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.svg",
            help="Draw instead what a move costs by how much area changes hands.",
        ),
    ] = None,
) -> None:
    """Measure what AP+-Tree's section on moving subscriptions claims.

    [bold]Example[/bold]

      nearcast experiment moving --subscriptions 5000 --moves 1000
    """
    if plot is not None:
        with status_line() as progress:
            curves = curves_by_area(subscriptions, moves, seed, progress)
        _draw(plot, subscriptions, curves)
        return
    with status_line() as progress:
        findings = run_moving(subscriptions, moves, seed, progress)
    give(findings, as_json, _show)


def _show(findings: Sequence[MovingFinding]) -> None:
    table = Table("figure", "the paper says", "measured here", "agrees")
    for finding in findings:
        agrees = "yes" if finding["agrees"] else "no"
        table.add_row(finding["figure"], finding["claim"], finding["result"], agrees)
    Console().print(table)


def _draw(path: str, messages: int, curves: dict[str, list[tuple[float, float]]]) -> None:
    drawn = log_log_plot(
        f"Moves among {messages:,} messages, regions of three sizes",
        "area that changes hands, as a share of the space",
        "microseconds of CPU a move",
        curves,
    )
    write_plot(path, drawn)
