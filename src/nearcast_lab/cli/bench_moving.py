"""`nearcast bench moving`: moving subscriptions and lasting messages, design beside design."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console

from nearcast.cli.options import JsonOption
from nearcast.errors import InvalidValue
from nearcast_lab.bench.designs import DESIGNS, designs_named
from nearcast_lab.bench.moving import FAR, MovingReport, MovingSetup, measure_moving, step_of
from nearcast_lab.charts import line_chart, number_text
from nearcast_lab.cli.measuring import (
    SeedOption,
    check_drawable,
    give,
    one_workload,
    write_drawing,
)
from nearcast_lab.progress import status_line
from nearcast_lab.tables import results_table
from nearcast_lab.workloads.registry import ARRAY_WORKLOADS, array_workload


def moving(
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=10, help="How many subscriptions.")
    ] = 100_000,
    messages: Annotated[
        int, typer.Option(metavar="N", min=10, help="How many active messages.")
    ] = 100_000,
    moves: Annotated[
        int, typer.Option(metavar="N", min=10, help="How many moves of each length, at most.")
    ] = 100_000,
    step: Annotated[
        str,
        typer.Option(
            metavar="S,...",
            help="How far moves go: shares of the region's side, and far for a jump to elsewhere.",
        ),
    ] = "0.01,0.1,far",
    design: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"Of {', '.join(DESIGNS)}.")
    ] = ",".join(DESIGNS),
    workload: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help=f"Of {', '.join(ARRAY_WORKLOADS)}; with options as in tweets:max_area=0.001.",
        ),
    ] = "tweets",
    budget: Annotated[
        float, typer.Option(metavar="S", min=0.1, help="CPU seconds a design may take for a step.")
    ] = 10.0,
    seed: SeedOption = 1,
    check: Annotated[
        bool, typer.Option("--check", help="Compare the updates of all designs, and with a scan.")
    ] = False,
    as_json: JsonOption = False,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE.svg", help="Draw the cost of a move by its length.")
    ] = None,
) -> None:
    """Measure moves and lasting messages, all designs on the same data.

    A move is timed whole: finding what comes into the region and what leaves it, and moving the
    subscription in its index. Times are CPU. A slow design gets fewer moves.

    [bold]Example[/bold]

      nearcast bench moving --subscriptions 20000 --messages 20000 --moves 5000 --check
    """
    check_drawable(plot)
    kind, options = one_workload(workload, "one workload, such as tweets:terms=20")
    plan = MovingSetup(
        workload, subscriptions, messages, moves, _steps(step), designs_named(design), check,
        budget, seed,
    )  # fmt: skip
    with status_line() as progress:
        reports = measure_moving(plan, array_workload(kind, seed=seed, **options), progress)
    if plot is not None:
        _draw(plot, plan, reports)
    give(reports, as_json, _show)


def _steps(text: str) -> list[float]:
    try:
        steps = [step_of(part) for part in text.split(",")]
    except ValueError:
        steps = [-1.0]
    if min(steps) < 0 or any(part.strip() in ("0", "0.0") for part in text.split(",")):
        raise InvalidValue("--step", text, "numbers above 0 with commas between them, or far")
    return steps


def _draw(path: str, plan: MovingSetup, reports: list[MovingReport]) -> None:
    lines = {
        report["design"]: [
            (step, measured["move_us"])
            for step, measured in zip(plan.steps, report["steps"], strict=True)
            if step != FAR
        ]
        for report in reports
    }
    if not any(lines.values()):
        raise InvalidValue("--plot", path, "a step that is a share of the side, such as --step 0.1")
    drawn = line_chart(
        f"Moves, {plan.subscriptions:,} subscriptions, {plan.messages:,} messages",
        "length of a move, as a share of the region's side",
        "microseconds of CPU a move",
        lines,
    )
    write_drawing(path, drawn)


def _show(reports: list[MovingReport]) -> None:
    console = Console()
    first = reports[0]
    checked = ", updates checked" if first["checked"] else ""
    title = f"{first['subscriptions']:,} subscriptions, {first['messages']:,} messages{checked}"
    moves = [f"m {measured['step']}" for measured in first["steps"]]
    table = results_table(["design"], [*moves, "publ", "ins", "exp", "B/msg", "B/sub"], title)
    for report in reports:
        values = [
            *(measured["move_us"] for measured in report["steps"]),
            *(report["publish_us"], report["insert_us"], report["expire_us"]),
            *(report["bytes_per_message"], report["index_bytes_per_subscription"]),
        ]
        table.add_row(report["design"], *(number_text(value) for value in values))
    console.print(table)
    results = ", ".join(
        f"{measured['results_per_move']:.3g} at {measured['step']}" for measured in first["steps"]
    )
    caption = "microseconds of CPU: moves by length, publishing, of it inserting, expiring"
    console.print(f"{caption}; updates a move: {results}", style="dim")
    for report in reports:
        after = report["matching_after"]
        if after is not None:
            small, far = after["small_moves"]["time"], after["far_jumps"]["time"]
            said = (
                f"{report['design']}: time to match beside a fresh build: {small:.2f} after 20 "
                f"small moves of all, {far:.2f} after a far jump, "
                f"{after['tidied']['time']:.2f} as messages have come, "
                f"{after['merged']['time']:.2f} once merged ({after['merge_us']:.2g} us each)"
            )
            console.print(said, style="dim")
