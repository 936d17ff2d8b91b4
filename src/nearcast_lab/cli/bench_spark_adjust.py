"""`nearcast bench spark-adjust`: streams on Spark whose load drifts."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, cast

import typer
from rich.console import Console

from nearcast.cli.options import JsonOption
from nearcast.cli.spark_setup import need_spark
from nearcast_lab.bench.checks import table_of
from nearcast_lab.cli.measuring import (
    MasterOption,
    RatioOption,
    SeedOption,
    WorkersOption,
    measured,
    named,
    numbers,
)
from nearcast_lab.tables import results_table
from nearcast_lab.workloads.drift import DRIFTS, Drift

if TYPE_CHECKING:
    from nearcast_lab.bench.spark_adjust_report import SparkAdjustOutcome


def spark_adjust(
    workers: WorkersOption = "4,8",
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
    ratio: RatioOption = 5,
    master: MasterOption = "local[2]",
    seed: SeedOption = 1,
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
    measured(partial(measure_spark_adjust, arrangement), as_json, _show)


def _show(outcome: SparkAdjustOutcome) -> None:
    from nearcast_lab.bench.spark_adjust_report import p99

    console = Console()
    stream = ("drift", "workers", "interval", "arm")
    balances = ("worst", "settled", "CPU", "work", "moves", "last", "moved kB")
    costs = ("p50 s", "p99 s", "moving p99", "CPU s", "tasks", "adjusting", "updates")
    balance = results_table(stream, balances, "balance")
    cost = results_table(stream, costs, "batches")
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
