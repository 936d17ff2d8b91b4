"""`nearcast bench`: measure this machine, with the baseline beside us where there is one."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from nearcast.cli.options import JsonOption
from nearcast_lab.bench.ingest import IngestReport, measure_ingest
from nearcast_lab.cli import (
    bench_adjust,
    bench_distribution,
    bench_engine,
    bench_match,
    bench_moving,
    bench_operands,
    bench_partition,
    bench_serve,
    bench_spark,
    bench_spark_adjust,
    bench_spark_topk,
    bench_topk,
)
from nearcast_lab.cli.measuring import give

bench = typer.Typer(no_args_is_help=True)


def add_to(app: typer.Typer) -> None:
    """Register the command and its parts."""
    app.add_typer(bench, name="bench")


@bench.callback()
def _bench() -> None:
    """Measure Nearcast on this machine.

    [bold]Example[/bold]

      nearcast bench ingest --json
    """


bench.command("adjust")(bench_adjust.adjust)
bench.command("distribution")(bench_distribution.distribution)
bench.command("engine")(bench_engine.engine)
bench.command("match")(bench_match.match)
bench.command("moving")(bench_moving.moving)
bench.command("operands")(bench_operands.operands)
bench.command("partition")(bench_partition.partition)
bench.command("serve")(bench_serve.serve)
bench.command("spark")(bench_spark.spark)
bench.command("spark-adjust")(bench_spark_adjust.spark_adjust)
bench.command("spark-topk")(bench_spark_topk.spark_topk)
bench.command("topk")(bench_topk.topk)


@bench.command("ingest")
def ingest(
    messages: Annotated[
        int, typer.Option(metavar="N", min=1000, help="How many messages to read.")
    ] = 200_000,
    words: Annotated[int, typer.Option(metavar="N", min=1, help="Words in each message.")] = 9,
    file: Annotated[
        str | None, typer.Option(metavar="LOG", help="Read this log instead of a generated one.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure reading, validating and analysing messages, without matching.

    Rates are per second of CPU of one core. Memory is the largest resident set over the first
    tenth of the log and over all of it: equal figures mean that it does not grow with the log.

    [bold]Example[/bold]

      nearcast bench ingest --messages 1000000 --json
    """
    report = measure_ingest(messages=messages, words=words, path=file)
    give(report, as_json, _show)


def _show(report: IngestReport) -> None:
    table = Table("measure", "value")
    for name, value in report.items():
        table.add_row(name, f"{value:,.1f}" if isinstance(value, float) else f"{value:,}")
    Console().print(table)
