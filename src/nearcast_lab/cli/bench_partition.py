"""`nearcast bench partition`: partitioners beside each other, simulated."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.table import Table

from nearcast.cli.options import JsonOption
from nearcast.partition.registry import PARTITIONERS
from nearcast_lab.bench.checks import table_of
from nearcast_lab.bench.partition import (
    PartitionOutcome,
    PartitionReport,
    PartitionSetup,
    measure_partition,
)
from nearcast_lab.cli.measuring import (
    GridOption,
    SeedOption,
    WorkersOption,
    cells,
    measured,
    named,
    numbers,
)
from nearcast_lab.tables import results_table, short_text
from nearcast_lab.workloads.sts_arrays import LOCAL, STS_WORKLOADS

_NOT_BY_DEFAULT = ("shared", "hash")
_DEFAULT = ",".join(name for name in PARTITIONERS if name not in _NOT_BY_DEFAULT)
_FILTERS = {"both": (True, False), "with": (True,), "without": (False,)}


def partition(
    workload: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"Of {', '.join(STS_WORKLOADS | LOCAL)}.")
    ] = ",".join(STS_WORKLOADS),
    workers: WorkersOption = "8,32,128",
    partitioner: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"Of {', '.join(PARTITIONERS)}.")
    ] = _DEFAULT,
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many subscriptions.")
    ] = 200_000,
    messages: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many messages to simulate.")
    ] = 200_000,
    sampled: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many other messages to plan with.")
    ] = 200_000,
    grid: GridOption = "512x256",
    h2: Annotated[
        Literal["both", "with", "without"],
        typer.Option(
            metavar="both|with|without",
            help="Simulate with the filter of wanted terms, without it, or both.",
        ),
    ] = "both",
    calibrate: Annotated[
        bool, typer.Option(help="Measure costs on this machine, or take the built-in ones.")
    ] = True,
    seed: SeedOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Simulate plans for the workloads of PS2Stream with this machine's worker index.

    Every plan is simulated with messages that no partitioner has seen. The bound is the messages a
    second that the heaviest worker allows; it is compared with that of `hybrid`, the paper's own.

    [bold]Example[/bold]

      nearcast bench partition --workload sts-q1 --workers 8 --partitioner space-kd,hybrid,auto
    """
    arrangement = PartitionSetup(
        workloads=named(workload, "--workload", list(STS_WORKLOADS | LOCAL)),
        workers=numbers(workers, "--workers"),
        partitioners=named(partitioner, "--partitioner", list(PARTITIONERS)),
        subscriptions=subscriptions,
        messages=messages,
        sampled=sampled,
        **cells(grid),
        filters=_FILTERS[h2],
        measure=calibrate,
        seed=seed,
    )
    measured(partial(measure_partition, arrangement), as_json, _show)


_CAPTION = (
    "bound: messages a second, with the filter H2, by that of hybrid, the same if all workers had "
    "the same to do, and without the filter; "
    "max/mean: load of the heaviest worker; ns: load of all workers for a message, and the share "
    "of candidates in it; rows: copies held; sent: workers a message goes to; MB: tables of a "
    "dispatcher; s: CPU of planning"
)


def _show(outcome: PartitionOutcome) -> None:
    console = Console()
    reports = outcome["reports"]
    console.print(
        f"a candidate {outcome['check_ns']:.1f} ns, a message {outcome['message_ns']:.0f} ns, "
        f"an operation {outcome['operation_ns']:.0f} ns"
    )
    runs = dict.fromkeys((each["workload"], each["simulated"]["workers"]) for each in reports)
    for workload, workers in runs:
        here = [
            each
            for each in reports
            if (each["workload"], each["simulated"]["workers"]) == (workload, workers)
        ]
        console.print(_table(workload, workers, here))
    console.print(_CAPTION, style="dim")
    if outcome["bars"]:
        console.print(table_of(outcome["bars"]))


def _table(workload: str, workers: int, reports: list[PartitionReport]) -> Table:
    columns = ("bound", "x", "even", "no H2", "max/mean", "ns", "cand", "rows", "sent", "MB", "s")
    table = results_table(["partitioner"], columns, f"{workload}, {workers} workers")
    for name in dict.fromkeys(each["partitioner"] for each in reports):
        mine = [each for each in reports if each["partitioner"] == name]
        shown = mine[0]
        of, even, best = shown["of_hybrid"], shown["if_even"], shown["simulated"]
        plain = [e["simulated"]["messages_per_s"] for e in mine if not e["simulated"]["wanted"]]
        table.add_row(
            name,
            short_text(best["messages_per_s"]),
            "" if of is None else f"{of:.2f}",
            "" if even is None else f"{even:.2f}",
            short_text(plain[0]) if plain else "",
            f"{best['balance']:.2f}",
            f"{best['total_ns']:.0f}",
            f"{best['candidate_share']:.0%}",
            f"{best['replication']:.2f}",
            f"{best['workers_per_message']:.2f}",
            f"{(best['plan_bytes'] + best['wanted_bytes']) / 1e6:.0f}",
            f"{shown['plan_s']:.1f}",
        )
    return table
