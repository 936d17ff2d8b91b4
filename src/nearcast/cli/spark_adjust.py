"""`nearcast spark adjust`: balance the workers of a stream by hand."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from nearcast.cli.options import PICTURES, JsonOption
from nearcast.errors import InvalidValue, SourceError

if TYPE_CHECKING:
    from nearcast.partition.adjust.meter import Meter
    from nearcast.partition.plan import Plan
    from nearcast.spark.driver.balancing import Suggestion


class LoadShare(TypedDict):
    """The load of a worker, as a share of the total load now.

    Loads are counted work; `cpu` is its share of the CPU time of all workers in that time.
    """

    worker: int
    before: float
    cpu: float
    after: float


class Adjustment(TypedDict):
    """What an adjustment would change; without cells, there is nothing to gain."""

    state: str
    plan: int
    applied: bool
    workers: int
    cells: int
    bytes: int
    balance_before: float
    balance_after: float
    cells_under_way: int
    shares: list[LoadShare]
    ranked_workers: int | None


def adjust(
    state: Annotated[
        str, typer.Argument(metavar="STATE", help="Where the state of the stream is.")
    ],
    apply: Annotated[
        bool,
        typer.Option("--apply", help="Do it: the stream goes there with its next batches."),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, show_default="as many as now", help="Plan for N workers."),
    ] = None,
    anew: Annotated[
        bool,
        typer.Option("--anew", help="Make a new plan, instead of moving as little as possible."),
    ] = False,
    cancel: Annotated[
        bool, typer.Option("--cancel", help="Stop moving to a plan that was applied before.")
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw it: a file that ends in .html or .png."),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Find out what would balance the workers of a stream, and do it with --apply.

    Loads are those that the stream measured recently, whether it is running or not. The table shows
    the load of each worker now, and after the change. With --apply, cells move to other workers
    over the next batches of the stream, at most as many bytes a minute as its --adjust-bytes
    allows. Top-k subscriptions are spread over --workers, too.

    [bold]Example[/bold]

      nearcast spark adjust state --output change.png

      nearcast spark adjust state --workers 8 --apply
    """
    if output is not None and output.suffix.lower() not in PICTURES:
        raise InvalidValue("--output", str(output), "a file name that ends in .html or .png")
    if cancel and (apply or anew or workers is not None):
        raise InvalidValue("--cancel", "with other options", "--cancel alone")
    from nearcast.spark.driver.balancing import suggest
    from nearcast.spark.driver.bucket_assignment import request_workers
    from nearcast.spark.driver.loads import read_loads
    from nearcast.spark.driver.snapshot import standing
    from nearcast.spark.driver.state import open_state
    from nearcast.spark.reports.report import read_reports

    opened = open_state(state)
    if cancel:
        opened.forget_target()
        return
    found = standing(opened)
    ranks = workers is not None and any(one.rankings for one in read_reports(state, 1))
    if ranks and apply and workers is not None:
        request_workers(opened, workers)
    if found.plan.kind != "grid" and ranks:
        _tell(_report(state, found.plan, None, apply, None, workers), as_json)
        return
    if found.plan.kind != "grid":
        raise SourceError(
            f"{state}: its plan is {found.plan.scheme!r}, which has no cells that could be moved; "
            "run the stream with --partitioner hybrid or another by place or text"
        )
    measured = read_loads(opened)
    if measured is None or not measured.messages.size:
        raise SourceError(f"{state}: no loads were measured here yet; let the stream run a while")
    made = suggest(found.plan, found.begun, measured, workers=workers, rebuild=anew or None)
    if made is not None and apply:
        opened.write_target(made.target)
    target = opened.target()
    applied = apply and (ranks or made is not None)
    report = _report(state, found.plan, made, applied, target, workers if ranks else None)
    for share in report["shares"]:
        share["cpu"] = _cpu_share(measured.workers, share["worker"])
    if made is not None and output is not None:
        _draw(output, found.plan, made)
    _tell(report, as_json)


def _tell(report: Adjustment, as_json: bool) -> None:
    if as_json:
        typer.echo(msgspec.json.encode(report).decode())
    else:
        _show(report)


def _report(
    state: str,
    plan: Plan,
    made: Suggestion | None,
    applied: bool,
    target: Plan | None,
    ranked_workers: int | None,
) -> Adjustment:
    from nearcast.partition.adjust.versions import differing, may_follow
    from nearcast.partition.load import balance_of

    left = len(differing(plan, target)) if target is not None and may_follow(plan, target) else 0
    if made is None:
        return Adjustment(
            state=state, plan=plan.number, applied=applied, workers=plan.workers, cells=0, bytes=0,
            balance_before=1.0, balance_after=1.0, cells_under_way=left, shares=[],
            ranked_workers=ranked_workers,
        )  # fmt: skip
    return Adjustment(
        state=state,
        plan=plan.number,
        applied=applied,
        workers=made.target.workers,
        cells=len(made.cells),
        bytes=made.bytes,
        balance_before=round(balance_of(made.before), 4),
        balance_after=round(balance_of(made.after), 4),
        cells_under_way=left,
        shares=[
            LoadShare(worker=at, before=round(before, 6), cpu=0.0, after=round(after, 6))
            for at, (before, after) in enumerate(
                zip_longest(made.before.tolist(), made.after.tolist(), fillvalue=0.0)
            )
        ],
        ranked_workers=ranked_workers,
    )


def _cpu_share(workers: Meter, worker: int) -> float:
    busy = workers.counted("busy_ns")
    total = float(busy.sum())
    return round(float(busy[worker]) / total, 6) if worker < len(busy) and total > 0 else 0.0


def _draw(output: Path, plan: Plan, made: Suggestion) -> None:
    from nearcast.partition.draw import change_html, change_png, write_picture

    facts = [f"{len(made.cells):,} cells change hands", f"{made.bytes:,} bytes are carried"]
    loads = made.before.tolist(), made.after.tolist()
    draw = change_png if output.suffix.lower() == ".png" else change_html
    write_picture(output, draw(plan, made.target, made.cells, loads, facts))


def _show(report: Adjustment) -> None:
    console = Console()
    if report["ranked_workers"] is not None:
        verb = "go" if report["applied"] else "would go"
        console.print(f"top-k subscriptions {verb} to {report['ranked_workers']} workers")
    if not report["shares"]:
        console.print(f"plan {report['plan']}: nothing to gain by moving cells")
    else:
        facts = Table(box=SIMPLE_HEAD, show_header=False)
        before, after = report["balance_before"], report["balance_after"]
        facts.add_row("plan", f"{report['plan']}")
        facts.add_row("busiest worker", f"{before:.2f} of the average, then {after:.2f}")
        facts.add_row("cells that change hands", f"{report['cells']:,}")
        facts.add_row("bytes carried", f"{report['bytes']:,}")
        console.print(facts)
        table = Table(box=SIMPLE_HEAD)
        for heading in ("worker", "load now", "CPU", "then"):
            table.add_column(heading, justify="right")
        for share in report["shares"]:
            shares = (share["before"], share["cpu"], share["after"])
            table.add_row(str(share["worker"]), *(f"{each:.1%}" for each in shares))
        console.print(table)
        console.print(
            "applied: it takes effect with the next batches"
            if report["applied"]
            else "nothing was changed; give --apply to do it"
        )
    if report["cells_under_way"] and not report["applied"]:
        console.print(f"under way: {report['cells_under_way']:,} cells are still to change hands")
