"""`nearcast bench topk`: the core beside the methods of Skype."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from nearcast.cli.options import JsonOption
from nearcast.topk.window import Window
from nearcast_lab.bench.topk import (
    LAZY,
    OURS,
    Matching,
    TopkRun,
    TopkSetup,
    make,
    measure_matching,
    measure_run,
)
from nearcast_lab.bench.topk_engine import ENGINE, EngineRun, measure_engine
from nearcast_lab.charts import number_text, stacked_chart
from nearcast_lab.cli.measuring import (
    SeedOption,
    check_drawable,
    give,
    one_workload,
    write_drawing,
)
from nearcast_lab.progress import status_line
from nearcast_lab.tables import results_table
from nearcast_lab.workloads.registry import convert_options
from nearcast_lab.workloads.topk import TopkOptions
from nearcast_lab.workloads.topk_arrays import TopkArrays

Outcome = Mapping[str, Sequence[Mapping[str, Any]]]
_METHODS = f"{OURS},{LAZY},taat+kmax:parameter=45,igpt+cskyband:traversal=term,{ENGINE}"
_MATCHING = "taat,ciq,igpt:traversal=term,igpt"


def topk(
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many subscriptions.")
    ] = 100_000,
    window: Annotated[
        int, typer.Option(metavar="N", min=1, help="How many messages the window holds.")
    ] = 100_000,
    messages: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Messages after the first window; default two more."),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Methods to run a stream through: ours, ours-lazy, or taat, ciq, igpt with "
            "+cskyband, +skyband, +kmax; options as in igpt+kmax:parameter=60;groups=20; or "
            "engine, which reads texts and names messages in its updates.",
        ),
    ] = _METHODS,
    matching: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Methods of dissemination to compare with ours at equal thresholds; empty for "
            "none. A pruning is left out as in igpt:without=groups/early.",
        ),
    ] = _MATCHING,
    sample: Annotated[
        int, typer.Option(metavar="N", min=1, help="Messages for comparing dissemination.")
    ] = 500,
    workload: Annotated[
        str,
        typer.Option(metavar="NAME", help="topk, with options as in topk:k=50,shift=0."),
    ] = "topk:shift=40",
    seed: SeedOption = 1,
    check: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Compare results with a plain evaluation, N times on the way."
        ),
    ] = 0,
    as_json: JsonOption = False,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE.svg", help="Draw what a message costs.")
    ] = None,
) -> None:
    """Measure top-k over a sliding window, all methods on one stream in one process.

    A stream starts with a full window and goes on for two turnovers of it. Times are CPU. Methods
    of dissemination find whom a message affects with the thresholds that ours has at the end, and
    their answers are compared.

    [bold]Example[/bold]

      nearcast bench topk --subscriptions 10000 --window 10000 --check 20
    """
    check_drawable(plot)
    example = "topk, with options as in topk:k=50,shift=0"
    kind, options = one_workload(workload, example, ["topk"])
    data = TopkArrays(seed, convert_options(kind, TopkOptions, options))
    methods = [name for name in method.split(",") if name]
    others = [name for name in matching.split(",") if name]
    for name in (*(name for name in methods if name != ENGINE), *others):
        make(name, Window(1), data)
    count = 2 * window if messages is None else messages
    plan = TopkSetup(subscriptions, window, count, methods, others, sample, check)
    queries = data.subscriptions(0, subscriptions)
    runs: list[TopkRun] = []
    whole: list[EngineRun] = []
    compared: list[Matching] = []
    with status_line() as progress:
        for name in methods:
            if name == ENGINE:
                whole.append(measure_engine(data, subscriptions, window, count, progress))
                continue
            run, core = measure_run(plan, data, name, queries, progress)
            runs.append(run)
            if name == OURS and others:
                compared = measure_matching(plan, data, core, queries, progress)
            del core
    if plot is not None:
        _draw(plot, runs, compared)
    outcome: Outcome = {"matching": compared, "runs": runs, "engine": whole}
    give(outcome, as_json, _show_all)


def _show_all(outcome: Outcome) -> None:
    _show("whom a message affects, at equal thresholds", outcome["matching"], _MATCHING_COLUMNS)
    _show("a stream", outcome["runs"], _RUN_COLUMNS)
    _show("a stream of texts, through the engine", outcome["engine"], _ENGINE_COLUMNS)


_MATCHING_COLUMNS = {
    "us/msg": "us_per_message",
    "visited": "visited_per_message",
    "candidates": "candidates_per_message",
    "affected": "affected_per_message",
    "B/sub": "index_bytes_per_subscription",
}
_RUN_COLUMNS = {
    "msg/s": "messages_per_cpu_s",
    "arriving": "arriving_us",
    "expiring": "expiring_us",
    "updates": "updates_per_message",
    "again": "reevaluations_per_1000",
    "buffer": "buffer_size",
    "start": "initial_us_per_subscription",
    "B/sub": "bytes_per_subscription",
    "B/msg": "bytes_per_message",
}
_ENGINE_COLUMNS = {
    "msg/s": "messages_per_cpu_s",
    "us/msg": "us_per_message",
    "updates": "updates_per_message",
    "start": "initial_us_per_subscription",
}
_CAPTION = (
    "messages a CPU second; microseconds a message that arrives and that expires; updates a "
    "message; re-evaluations a thousand messages; messages buffered, microseconds to evaluate at "
    "the start, and bytes, each a subscription; bytes a message"
)


def _show(title: str, rows: Sequence[Mapping[str, Any]], columns: dict[str, str]) -> None:
    if not rows:
        return
    console = Console()
    table = results_table(["method"], list(columns), title)
    for row in rows:
        table.add_row(row["method"], *(number_text(row[key]) for key in columns.values()))
    console.print(table)
    if "arriving" in columns:
        console.print(_CAPTION, style="dim")


def _draw(path: str, runs: Sequence[TopkRun], compared: Sequence[Matching]) -> None:
    rows = [(row["method"], {"matching": row["us_per_message"]}) for row in compared]
    rows += [
        (
            f"{run['method']}, whole",
            {
                "matching": run["match_us"],
                "buffers": run["buffer_us"],
                "window": run["window_us"],
                "expiry": run["expiring_us"],
            },
        )
        for run in runs
    ]
    write_drawing(path, stacked_chart("What a message costs", "microseconds of CPU", rows))
