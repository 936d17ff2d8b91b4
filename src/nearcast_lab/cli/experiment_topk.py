"""`nearcast experiment topk`: section 8 of Skype."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from nearcast.cli.options import JsonOption
from nearcast_lab.cli.bench_distribution import distribution_tables
from nearcast_lab.cli.measuring import OutputOption, check_drawable, give_report, named
from nearcast_lab.experiments.topk import SECTIONS, measure, report_of
from nearcast_lab.experiments.topk_runs import Series, TopkScale
from nearcast_lab.progress import status_line


def topk(
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
    ] = ",".join(SECTIONS),
    vocabulary: Annotated[
        int,
        typer.Option(metavar="N", min=100, help="The most terms that texts of 8.2 may have."),
    ] = 1_700_000,
    seed: Annotated[int, typer.Option(metavar="S", help="Another seed, other data.")] = 1,
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
    sections = named(section, "--section", list(SECTIONS))
    with status_line() as progress:
        report = measure(scale, sections, progress)
    tables = list(distribution_tables(report["distribution"]))
    if report["series"]:
        tables.insert(0, _series_table(report["series"]))
    give_report(report, as_json, report_of(report), output, *tables)


def _series_table(series: Sequence[Series]) -> Table:
    table = Table("figure", "varied", "method", box=SIMPLE_HEAD, pad_edge=False)
    for name in ("value", "arriving us", "expiring us", "buffer", "looked at", "evaluated"):
        table.add_column(name, justify="right")
    for line in series:
        numbers = (
            line["value"], line["arriving_us"], line["expiring_us"], line["buffer_size"],
            line["visited"], line["reevaluations_per_1000"],
        )  # fmt: skip
        written = (f"{number:,.1f}" for number in numbers)
        table.add_row(line["figure"], line["varied"], line["method"], *written)
    return table
