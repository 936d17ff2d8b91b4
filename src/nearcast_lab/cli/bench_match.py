"""`nearcast bench match`: the indexes beside each other."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import msgspec
import typer
from rich.console import Console

from nearcast.cli.options import JsonOption
from nearcast.index import INDEXES, read_indexes
from nearcast_lab.bench.groups import GroupReport, measure_groups, read_groups
from nearcast_lab.bench.match import MatchReport, MatchSetup, measure_match
from nearcast_lab.charts import line_chart
from nearcast_lab.cli.measuring import (
    SeedOption,
    check_drawable,
    give,
    measured,
    numbers,
    one_workload,
    write_drawing,
)
from nearcast_lab.progress import status_line
from nearcast_lab.tables import results_table, short_text
from nearcast_lab.workloads.registry import ARRAY_WORKLOADS, array_workload

_DEFAULT_INDEXES = "rarest-term,gi2,ap-tree"  # the others take minutes at a million


def match(
    subscriptions: Annotated[
        str, typer.Option(metavar="N,...", help="How many subscriptions, for each run.")
    ] = "10000,100000,1000000",
    messages: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many messages to match.")
    ] = 20_000,
    index: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help=f"Of {', '.join(INDEXES)}; with options as in gi2:grid=64,inline=true.",
        ),
    ] = _DEFAULT_INDEXES,
    workload: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"Of {', '.join(ARRAY_WORKLOADS)}; with options as in tweets:terms=20.",
        ),
    ] = "tweets",
    threads: Annotated[
        str, typer.Option(metavar="N,...", help="How many threads, for each run.")
    ] = "1",
    seed: SeedOption = 1,
    rounds: Annotated[
        int, typer.Option(metavar="N", min=1, help="Times that each index matches everything.")
    ] = 3,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the answers with each other and with a scan.")
    ] = False,
    groups: Annotated[
        str | None,
        typer.Option(
            metavar="GROUP,...",
            help="Match groups of messages instead: short (6-20 terms), long (100-1000) or a "
            "number of terms, at points or as in long:area=0.01.",
        ),
    ] = None,
    as_json: JsonOption = False,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE.svg", help="Draw throughput against population.")
    ] = None,
) -> None:
    """Measure how fast indexes match, all on the same data in one process.

    Times are CPU seconds of all threads. Memory is that of the index and of the table of
    subscriptions, which all indexes share. Insertion and deletion are those of the index. The
    slowdown is after a fifth more subscriptions were inserted, against a fresh build with them.

    [bold]Example[/bold]

      nearcast bench match --subscriptions 10000,100000 --index gi2,gi2:inline=true --check

      nearcast bench match --index rarest-term,lfilter --groups short,long,short:area=0.01
    """
    check_drawable(plot)
    choices = read_indexes(index, "--index")
    kind, options = one_workload(workload, "one workload, such as tweets:terms=20")
    populations = numbers(subscriptions, "--subscriptions")
    plan = MatchSetup(workload, messages, choices, numbers(threads, "--threads"), check, rounds)
    if groups is not None:
        wanted = read_groups(groups)
        short = plan._replace(budget_s=1.0)
        work = partial(measure_groups, short, wanted, kind, seed, options, populations)
        measured(work, as_json, _show_groups)
        return
    with status_line() as progress:
        made = array_workload(kind, seed=seed, **options)
        reports = measure_match(plan, made, populations, progress)
    if plot is not None:
        _draw(plot, workload, reports)
    give(reports, as_json, _show)


def _draw(path: str, workload: str, reports: Sequence[MatchReport]) -> None:
    several = len({report["threads"] for report in reports}) > 1
    lines: dict[str, list[tuple[float, float]]] = {}
    for report in reports:
        name = f"{report['index']} x{report['threads']}" if several else report["index"]
        point = (float(report["subscriptions"]), report["messages_per_cpu_s"])
        lines.setdefault(name, []).append(point)
    drawn = line_chart(
        f"Matching, workload {workload}", "subscriptions", "messages per CPU second", lines
    )
    write_drawing(path, drawn)


def _show_groups(reports: Sequence[GroupReport]) -> None:
    console = Console()
    for subscriptions in dict.fromkeys(report["subscriptions"] for report in reports):
        checked = ", answers checked" if reports[0]["checked"] else ""
        title = f"{subscriptions:,} subscriptions{checked}"
        columns = ("us", "x first", "found", "looked")
        table = results_table(["messages", "index"], columns, title)
        for report in reports:
            if report["subscriptions"] == subscriptions:
                figures = (
                    report["us_per_message"], report["of_first"], report["matches_per_message"],
                    report["candidates_per_message"],
                )  # fmt: skip
                table.add_row(report["group"], report["index"], *map(short_text, figures))
        console.print(table)
    console.print(
        "microseconds of CPU a message, and how many times those of the index named first; rows "
        "found and looked at a message",
        style="dim",
    )


_COLUMNS = {
    "msg/s": "messages_per_cpu_s",
    "found": "matches_per_message",
    "looked": "candidates_per_message",
    "build": "build_cpu_s",
    "B/sub": "bytes_per_subscription",
    "p50": "p50_us",
    "p99": "p99_us",
    "ins": "insert_us",
    "del": "delete_us",
    "slow": "slowdown_after_inserts",
}
_CAPTION = (
    "messages a CPU second; rows found and looked at a message; build in CPU seconds; bytes a "
    "subscription with the shared table; single calls, insertion and deletion a row in "
    "microseconds; how much slower after a fifth was inserted"
)


def _show(reports: Sequence[MatchReport]) -> None:
    console = Console()
    runs = dict.fromkeys((report["subscriptions"], report["threads"]) for report in reports)
    for subscriptions, threads in runs:
        title = f"{subscriptions:,} subscriptions, {threads} thread{'s' * (threads > 1)}"
        checked = ", answers checked" if reports[0]["checked"] else ""
        table = results_table(["index"], list(_COLUMNS), title + checked)
        for report in reports:
            if (report["subscriptions"], report["threads"]) == (subscriptions, threads):
                values = msgspec.to_builtins(report)
                written = (short_text(values[key]) for key in _COLUMNS.values())
                table.add_row(report["index"], *written)
        console.print(table)
    console.print(_CAPTION, style="dim")
