"""`nearcast experiment moving`: the figures of AP+-Tree, section 5.2."""

from __future__ import annotations

from typing import Annotated

import typer

from nearcast.cli.options import JsonOption
from nearcast_lab.charts import line_chart
from nearcast_lab.cli.measuring import OutputOption, check_drawable, give_report, write_drawing
from nearcast_lab.experiments.moving import curves_by_area, report_of, run_moving
from nearcast_lab.progress import status_line


def moving(
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many, and as many messages.")
    ] = 20_000,
    moves: Annotated[
        int, typer.Option(metavar="N", min=10, help="How many moves for each point.")
    ] = 5_000,
    seed: Annotated[int, typer.Option(metavar="S", help="Another seed, other data.")] = 1,
    output: OutputOption = None,
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

      nearcast experiment moving --subscriptions 5000 --moves 1000 --output moving.html
    """
    check_drawable(plot)
    check_drawable(output)
    if plot is not None:
        with status_line() as progress:
            curves = curves_by_area(subscriptions, moves, seed, progress)
        drawn = line_chart(
            f"Moves among {subscriptions:,} messages, regions of three sizes",
            "area that changes hands, as a share of the space",
            "microseconds of CPU a move",
            curves,
        )
        write_drawing(plot, drawn)
        return
    with status_line() as progress:
        findings = run_moving(subscriptions, moves, seed, progress)
    give_report(findings, as_json, report_of(subscriptions, findings), output)
