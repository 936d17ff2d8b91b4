"""`nearcast bench spark-adjust`: streams on Spark whose load drifts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from nearcast.cli.options import JsonOption
from nearcast.cli.spark_setup import need_spark
from nearcast_lab.bench.checks import table_of
from nearcast_lab.cli.measuring import give, named, numbers
from nearcast_lab.progress import status_line
from nearcast_lab.workloads.drift import DRIFTS, Drift

if TYPE_CHECKING:
    from nearcast_lab.bench.spark_adjust_report import SparkAdjustOutcome


def spark_adjust(
    workers: Annotated[
        str, typer.Option(metavar="N,...", help="How many workers, for each run.")
    ] = "4,8",
    drift: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"How the load drifts: {', '.join(DRIFTS)}.")
    ] = ",".join(DRIFTS),
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many; all are replaced in an interval.")
    ] = 50_000,
    intervals: Annotated[
        int, typer.Option(metavar="N", min=1, help="How often the load drifts.")
    ] = 3,
    batches: Annotated[int, typer.Option(metavar="N", min=4, help="Batches in an interval.")] = 24,
    ratio: Annotated[
        int, typer.Option(metavar="N", min=1, help="Messages to one change of subscriptions.")
    ] = 5,
    master: Annotated[str, typer.Option(metavar="URL", help="The master of Spark.")] = "local[2]",
    seed: Annotated[int, typer.Option(metavar="S", help="Another seed, other data.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure whether a stream on Spark stays balanced while its load drifts.

    Three streams take the same log, batch by batch in turn: `auto` keeps itself balanced, `off`
    keeps its plan, and `oracle` keeps one that was made from all that is to come. Regions: a tenth
    of the regions of the map changes its kind of subscriptions with every interval (PS2Stream,
    section VI-D). Festival: besides, three in ten messages come from one city, each interval
    another. All must find the same updates.

    [bold]Example[/bold]

      nearcast bench spark-adjust --drift festival --workers 4 --intervals 2
    """
    need_spark()
    from nearcast_lab.bench.spark_adjust import SparkAdjustSetup, measure_spark_adjust

    arrangement = SparkAdjustSetup(
        workers=numbers(workers, "--workers"),
        drifts=[cast(Drift, name) for name in named(drift, "--drift", list(DRIFTS))],
        subscriptions=subscriptions,
        intervals=intervals,
        batches=batches,
        ratio=ratio,
        seed=seed,
        master=master,
    )
    with status_line() as progress:
        outcome = measure_spark_adjust(arrangement, progress)
    give(outcome, as_json, _show)


def _show(outcome: SparkAdjustOutcome) -> None:
    from nearcast_lab.bench.spark_adjust_report import p99

    console = Console()
    balance = _table("balance", "worst", "settled", "CPU", "work", "moves", "last", "moved kB")
    cost = _table(
        "batches", "p50 s", "p99 s", "moving p99", "CPU s", "tasks", "adjusting", "updates"
    )
    for each in outcome["intervals"]:
        name = [each["drift"], str(each["workers"]), str(each["interval"]), each["arm"]]
        settled = each["settled_after"]
        balance.add_row(
            *name,
            f"{each['worst']:.2f}",
            "never" if settled is None else f"{settled}",
            f"{each['cpu_balance']:.2f}",
            f"{each['work_balance']:.2f}",
            f"{each['moves']}",
            f"{each['last_move']}",
            f"{each['moved_bytes'] / 1e3:,.0f}",
        )
        still = sorted(each["still_s"])
        cost.add_row(
            *name,
            f"{still[len(still) // 2]:.2f}" if still else "",
            f"{p99(still):.2f}",
            f"{p99(each['moving_s']):.2f}" if each["moving_s"] else "",
            f"{each['cpu_s']:.1f}",
            f"{each['worker_cpu_s']:.1f}",
            f"{each['adjusting_cpu_s']:.2f}",
            f"{each['updates']:,}",
        )
    console.print(balance)
    console.print(cost)
    console.print(table_of(outcome["bars"]))


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    for name in ("drift", "workers", "interval", "arm"):
        table.add_column(name, no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True)
    return table
