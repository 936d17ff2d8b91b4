"""`nearcast bench`: measure this machine, with the baseline beside us where there is one."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from nearcast.cli.options import JsonOption
from nearcast_lab.bench.engine import measure_engine
from nearcast_lab.bench.ingest import measure_ingest
from nearcast_lab.cli import (
    bench_adjust,
    bench_distribution,
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
from nearcast_lab.cli.measuring import SeedOption, measured
from nearcast_lab.tables import measures_table

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


def engine(
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=1000, help="How many subscriptions to load.")
    ] = 100_000,
    messages: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many messages to publish as a table.")
    ] = 50_000,
    seed: SeedOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Measure an engine with the subscriptions of a deal service.

    Of the regions 60 % are circles, 25 % boxes and 15 % polygons, around the cities of the world,
    given as structs, JSON, WKT and WKB. A third of the queries have OR, NOT, phrases, prefixes or
    properties. They are loaded with subscribe_table; messages are published as a table and one by
    one. The updates of some messages are compared with those that plain code finds.

    [bold]Example[/bold]

      nearcast bench engine --subscriptions 1000000 --json
    """
    measured(
        lambda progress: measure_engine(subscriptions, messages, seed, progress),
        as_json,
        lambda report: Console().print(measures_table(report)),
    )


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
    measured(
        lambda _: measure_ingest(messages=messages, words=words, path=file),
        as_json,
        lambda report: Console().print(measures_table(report)),
    )


bench.command("adjust")(bench_adjust.adjust)
bench.command("distribution")(bench_distribution.distribution)
bench.command("engine")(engine)
bench.command("match")(bench_match.match)
bench.command("moving")(bench_moving.moving)
bench.command("operands")(bench_operands.operands)
bench.command("partition")(bench_partition.partition)
bench.command("serve")(bench_serve.serve)
bench.command("spark")(bench_spark.spark)
bench.command("spark-adjust")(bench_spark_adjust.spark_adjust)
bench.command("spark-topk")(bench_spark_topk.spark_topk)
bench.command("topk")(bench_topk.topk)
bench.command("ingest")(ingest)
