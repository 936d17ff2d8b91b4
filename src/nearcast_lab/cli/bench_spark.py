"""`nearcast bench spark`: pipelines on Spark beside one that does nothing."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from nearcast.cli.options import JsonOption
from nearcast.cli.spark_setup import need_spark
from nearcast_lab.bench.spark import ARMS, KNOWN_ARMS, SparkReport, SparkSetup, measure_spark
from nearcast_lab.bench.spark_latency import LatencyReport
from nearcast_lab.cli.measuring import (
    MasterOption,
    RatioOption,
    SeedOption,
    give,
    named,
    numbers,
)
from nearcast_lab.progress import status_line
from nearcast_lab.tables import results_table


def spark(
    batches: Annotated[
        str, typer.Option(metavar="N,...", help="Events in a batch, for each run.")
    ] = "100000,500000",
    rounds: Annotated[
        int, typer.Option(metavar="N", min=1, help="Batches of each size that are timed.")
    ] = 5,
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=0, help="Subscriptions before the first batch.")
    ] = 1_000_000,
    ratio: RatioOption = 5,
    arms: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"Of {', '.join(KNOWN_ARMS)}.")
    ] = ",".join(ARMS),
    rate: Annotated[
        int, typer.Option(metavar="N", min=0, help="Also time files at N events a second.")
    ] = 8000,
    workload: Annotated[
        str,
        typer.Option(metavar="NAME", help="A kind of events, as in bench match, or sts-q1 to -q3."),
    ] = "shifted",
    master: MasterOption = "local[2]",
    seed: SeedOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure pipelines on Spark: Parquet in, Parquet out, arms interleaved batch by batch.

    Times are what Spark reports for a trigger, the median over the rounds; CPU is in microseconds
    an event. The arm `identity` hands every event to Python and back, and does nothing with it;
    `identity-flat` does so with boxes in place of regions, which Spark is slow at.

    [bold]Example[/bold]

      nearcast bench spark --batches 100000 --rounds 5 --json
    """
    need_spark()
    sizes = numbers(batches, "--batches")
    chosen = {name: KNOWN_ARMS[name] for name in named(arms, "--arms", list(KNOWN_ARMS))}
    plan = SparkSetup(sizes, rounds, subscriptions, ratio, seed, master, workload, rate)
    with status_line() as progress:
        reports, timed = measure_spark(plan, chosen, progress)
    give([*reports, *timed], as_json, lambda _: _show(reports, timed))


def _show(reports: list[SparkReport], timed: list[LatencyReport]) -> None:
    _show_batches(reports)
    if timed:
        table = results_table(["arm"], ["events/s offered", "files", "p50 s", "p99 s"])
        for report in timed:
            rate, files = f"{report['offered_events_per_s']:,}", f"{report['files']:,}"
            p50, p99 = f"{report['p50_s']:.2f}", f"{report['p99_s']:.2f}"
            table.add_row(report["arm"], rate, files, p50, p99)
        Console().print(table)


def _show_batches(reports: list[SparkReport]) -> None:
    console = Console()
    times = results_table(["arm"], ["batch", "s", "events/s", "JVM us", "Python us"])
    baselines = list(reports[0]["ratios"])
    ratios = results_table(["arm"], ["batch", *(f"of {name}" for name in baselines)])
    for report in reports:
        batch = f"{report['events_per_batch']:,}"
        times.add_row(
            report["arm"],
            batch,
            f"{report['seconds']:.2f}",
            f"{report['events_per_s']:,.0f}",
            f"{report['jvm_us']:.2f}",
            f"{report['python_us']:.2f}",
        )
        of_baselines = (f"{report['ratios'][name]:.2f}" for name in baselines)
        ratios.add_row(report["arm"], batch, *of_baselines)
    console.print(times)
    if baselines:
        console.print(ratios)
