"""`nearcast experiment`: the papers' figures, measured again."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from nearcast.cli.options import JsonOption
from nearcast.cli.spark_setup import need_spark
from nearcast_lab.charts import line_chart
from nearcast_lab.cli.bench_distribution import distribution_tables
from nearcast_lab.cli.measuring import (
    GridOption,
    IntervalsOption,
    OutputOption,
    SeedOption,
    cells,
    check_drawable,
    give_report,
    named,
    numbers,
    write_drawing,
)
from nearcast_lab.experiments import boolean as boolean_figures
from nearcast_lab.experiments import distributed as distributed_figures
from nearcast_lab.experiments import moving as moving_figures
from nearcast_lab.experiments import topk as topk_figures
from nearcast_lab.experiments.boolean import SCALES, SECTIONS
from nearcast_lab.experiments.boolean.findings import report_of
from nearcast_lab.experiments.topk_runs import Series, TopkScale
from nearcast_lab.progress import Progress, status_line
from nearcast_lab.tables import results_table

experiment = typer.Typer(no_args_is_help=True)


class ScaleName(StrEnum):
    """The scales by name."""

    small = "small"
    full = "full"


def add_to(app: typer.Typer) -> None:
    """Register the command and its parts."""
    app.add_typer(experiment, name="experiment")


@experiment.callback()
def _experiment() -> None:
    """Measure again what the papers claim.

    [bold]Example[/bold]

      nearcast experiment topk --subscriptions 5000 --window 5000
    """


@experiment.command("boolean")
def boolean(
    context: typer.Context,
    scale: Annotated[
        ScaleName,
        typer.Option(
            metavar="|".join(ScaleName), help="Minutes, or hours with up to 20 M subscriptions."
        ),
    ] = ScaleName.small,
    output: Annotated[Path, typer.Option(metavar="FILE", help="Where the page goes.")] = Path(
        "boolean.html"
    ),
    only: Annotated[
        str, typer.Option(metavar="PART,...", help=f"Some parts: {', '.join(SECTIONS)}.")
    ] = "",
    subscriptions: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=100, help="How many instead of the scale's.", show_default="scale's"
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Keep each part here once it is measured, and go on from there."
        ),
    ] = None,
    seed: SeedOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure the figures of AP-Tree and LFilter, each claim beside what was found.

    Writes one page of HTML with plots and tables, and prints the claims.

    [bold]Example[/bold]

      nearcast experiment boolean --only regions,messages --output report.html

      nearcast experiment boolean --scale full --resume full.json
    """
    chosen = SCALES[scale.value]
    if subscriptions is not None:
        factor = subscriptions / chosen.subscriptions
        sizes = tuple(max(100, int(size * factor)) for size in chosen.populations)
        chosen = chosen._replace(subscriptions=subscriptions, populations=sizes)
    parts = tuple(part.strip() for part in only.split(",")) if only else tuple(SECTIONS)
    check_drawable(output)
    check_drawable(resume)
    with status_line() as progress:
        found = boolean_figures.measure(chosen, seed, progress, parts, resume)
    give_report(context, found, as_json, report_of(found), output)


@experiment.command("distributed")
def distributed(
    context: typer.Context,
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many subscriptions.")
    ] = 100_000,
    messages: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many messages to simulate.")
    ] = 40_000,
    workers: Annotated[
        str, typer.Option(metavar="N,...", help="How many workers; figures but one use the first.")
    ] = "8,16,32",
    intervals: IntervalsOption = 3,
    grid: GridOption = "256x128",
    seed: SeedOption = 1,
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
    scale = distributed_figures.DistributedScale(
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
        findings = distributed_figures.measure(scale, progress, latency)
    report = distributed_figures.report_of(scale, findings)
    give_report(context, findings, as_json, report, output)


def _latency(
    scale: distributed_figures.DistributedScale, progress: Progress
) -> distributed_figures.DistributedFinding:
    from nearcast_lab.experiments.distributed_spark import measure_latency

    return measure_latency(scale, progress)


@experiment.command("moving")
def moving(
    context: typer.Context,
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many, and as many messages.")
    ] = 20_000,
    moves: Annotated[
        int, typer.Option(metavar="N", min=10, help="How many moves for each point.")
    ] = 5_000,
    timestamps: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Timestamps for each point; the paper has 100.",
            show_default="as many as have the moves",
        ),
    ] = None,
    seed: SeedOption = 1,
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
            curves = moving_figures.curves_by_area(subscriptions, moves, seed, progress)
        drawn = line_chart(
            f"Moves among {subscriptions:,} messages, regions of three sizes",
            "area that changes hands, as a share of the space",
            "microseconds of CPU a move",
            curves,
        )
        write_drawing(plot, drawn)
        return
    with status_line() as progress:
        scale = moving_figures.MovingScale(subscriptions, moves, seed, timestamps)
        findings = moving_figures.run_moving(scale, progress)
    report = moving_figures.report_of(subscriptions, findings)
    give_report(context, findings, as_json, report, output)


@experiment.command("topk")
def topk(
    context: typer.Context,
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many subscriptions.")
    ] = 20_000,
    window: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many messages the window holds.")
    ] = 20_000,
    turnovers: Annotated[
        float, typer.Option(metavar="X", min=0.1, help="How long each stream is, in windows.")
    ] = 2.0,
    sample: Annotated[
        int, typer.Option(metavar="N", min=10, help="Messages for comparing dissemination.")
    ] = 300,
    section: Annotated[
        str, typer.Option(metavar="8.1,8.2", help="Which sections: one process, distributed.")
    ] = ",".join(topk_figures.SECTIONS),
    vocabulary: Annotated[
        int,
        typer.Option(metavar="N", min=100, help="The most terms that texts of 8.2 may have."),
    ] = 1_700_000,
    seed: SeedOption = 1,
    output: OutputOption = None,
    as_json: JsonOption = False,
) -> None:
    """Measure the figures of Skype's section 8, each claim beside what was found.

    Those of 8.2, of distributed processing, are simulated: see `nearcast bench distribution`.

    [bold]Example[/bold]

      nearcast experiment topk --subscriptions 5000 --window 5000 --output topk.html
    """
    check_drawable(output)
    scale = TopkScale(subscriptions, window, turnovers, sample, seed, vocabulary=vocabulary)
    sections = named(section, "--section", list(topk_figures.SECTIONS))
    with status_line() as progress:
        report = topk_figures.measure(scale, sections, progress)
    tables = list(distribution_tables(report["distribution"]))
    if report["series"]:
        tables.insert(0, _series_table(report["series"]))
    give_report(context, report, as_json, topk_figures.report_of(report), output, *tables)


def _series_table(series: Sequence[Series]) -> Table:
    columns = ("value", "arriving us", "expiring us", "buffer", "looked at", "evaluated")
    table = results_table(["figure", "varied", "method"], columns)
    for line in series:
        numbers = (
            line["value"], line["arriving_us"], line["expiring_us"], line["buffer_size"],
            line["visited"], line["reevaluations_per_1000"],
        )  # fmt: skip
        written = (f"{number:,.1f}" for number in numbers)
        table.add_row(line["figure"], line["varied"], line["method"], *written)
    return table
