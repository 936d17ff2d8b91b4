"""`nearcast bench spark-topk`: top-k on Spark beside the embedded engine."""

from __future__ import annotations

from functools import partial
from typing import Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from nearcast.cli.options import JsonOption
from nearcast.cli.spark_setup import need_spark
from nearcast_lab.bench.spark_topk import SparkTopkSetup, TopkReport, measure_spark_topk
from nearcast_lab.cli.measuring import MasterOption, SeedOption, measured


def spark_topk(
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=1, help="Top-k subscriptions.")
    ] = 1_000_000,
    window: Annotated[
        int, typer.Option(metavar="N", min=1, help="Messages in the window.")
    ] = 100_000,
    batch: Annotated[
        int, typer.Option(metavar="N", min=1, help="Messages in a batch that is timed.")
    ] = 20_000,
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Batches that are timed.")] = 5,
    rate: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Also time files at N messages a second."),
    ] = 500,
    master: MasterOption = "local[2]",
    seed: SeedOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure top-k on Spark beside two embedded engines with half of the subscriptions each.

    The engines run in two processes at once, and take the same batches in turn with the pipeline:
    Parquet in, Parquet out, each batch until it is committed. Updates are compared, to the last bit
    of their scores. Then files are offered at a steady rate and each is timed, from its appearance
    to its commit; and the pipeline is started again with nothing in memory, and timed until it has
    committed a batch.

    [bold]Example[/bold]

      nearcast bench spark-topk --subscriptions 100000 --window 20000 --json
    """
    need_spark()
    plan = SparkTopkSetup(subscriptions, window, batch, rounds, rate, master=master, seed=seed)
    measured(partial(measure_spark_topk, plan), as_json, _show)


def _show(report: TopkReport) -> None:
    table = Table(box=SIMPLE_HEAD, show_header=False)
    rows = {
        "subscriptions, window": f"{report['subscriptions']:,}, {report['window']:,}",
        "pipeline": f"{report['pipeline_per_s']:,.0f} messages a second",
        "two engines": f"{report['embedded_per_s']:,.0f} messages a second",
        "ratio": f"{report['ratio']:.2f} ({report['cpu_ratio']:.2f} by CPU)",
        "CPU a message": f"workers {report['worker_us']:.0f} us, JVM {report['jvm_us']:.0f}, "
        f"driver {report['driver_us']:.0f}; engines {report['embedded_us']:.0f}",
        "updates a message": f"{report['updates_per_message']:.1f}",
        "same updates": "yes" if report["same_updates"] else "NO",
        "subscribed in": f"{report['loaded_s']:.1f} s",
        "recovered in": f"{report['recovered_s']:.1f} s",
        "held on the node": f"{report['node_mb']:,.0f} MB",
    }
    if report["p50_s"] is not None and report["p99_s"] is not None:
        rows[f"at {report['offered_per_s']:,} messages a second"] = (
            f"{report['p50_s']:.2f} s p50, {report['p99_s']:.2f} s p99"
        )
    for name, value in rows.items():
        table.add_row(name, value)
    Console().print(table)
