"""`nearcast experiment distributed`: the figures of PS2Stream, section VI."""

from __future__ import annotations

from typing import Annotated

import typer

from nearcast.cli.options import JsonOption
from nearcast.cli.spark_setup import need_spark
from nearcast_lab.cli.measuring import OutputOption, cells, check_drawable, give_report, numbers
from nearcast_lab.experiments.distributed import (
    DistributedFinding,
    DistributedScale,
    measure,
    report_of,
)
from nearcast_lab.progress import Progress, status_line


def distributed(
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many subscriptions.")
    ] = 100_000,
    messages: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many messages to simulate.")
    ] = 40_000,
    workers: Annotated[
        str, typer.Option(metavar="N,...", help="How many workers; figures but one use the first.")
    ] = "8,16,32",
    intervals: Annotated[
        int, typer.Option(metavar="N", min=1, help="How often a tenth of the regions switches.")
    ] = 3,
    grid: Annotated[
        str, typer.Option(metavar="CxR", help="Columns and rows of the cells that are dealt out.")
    ] = "256x128",
    seed: Annotated[int, typer.Option(metavar="S", help="Another seed, other data.")] = 1,
    spark: Annotated[
        bool,
        typer.Option("--spark", help="Also run a stream on Spark that moves cells: minutes more."),
    ] = False,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate what section VI of PS2Stream claims, each claim beside what was found.

    [bold]Example[/bold]

      nearcast experiment distributed --subscriptions 20000 --messages 10000 --output ps2stream.html

      nearcast experiment distributed --spark --output ps2stream.html
    """
    scale = DistributedScale(
        subscriptions=subscriptions,
        messages=messages,
        workers=numbers(workers, "--workers"),
        intervals=intervals,
        **cells(grid),
        seed=seed,
    )
    check_drawable(output)
    if spark:
        need_spark()
    with status_line() as progress:
        latency = _latency(scale, progress) if spark else None
        findings = measure(scale, progress, latency)
    give_report(findings, as_json, report_of(scale, findings), output)


def _latency(scale: DistributedScale, progress: Progress) -> DistributedFinding:
    from nearcast_lab.experiments.distributed_spark import measure_latency

    return measure_latency(scale, progress)
