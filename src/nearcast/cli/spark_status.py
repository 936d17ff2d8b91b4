"""`nearcast spark status`: how a stream is doing, read from its state."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, TypedDict

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from nearcast.cli.options import JsonOption
from nearcast.errors import SourceError
from nearcast.spark.io.files import Files
from nearcast.spark.reports.build_progress import BuildProgress, builds_under_way, progress_text
from nearcast.spark.reports.report import Advice, BatchReport, WorkerReport, balance, read_reports


class WorkerStatus(TypedDict):
    """One worker over the batches looked at; its size, lag and share as of the last of them."""

    worker: int
    share_of_load: float
    load_s: float
    lag: float
    messages: int
    operations: int
    updates: int
    rows: int
    active: int
    bytes: int
    where: str


class PlanChanges(TypedDict):
    """Versions of the plan that took over, and what was carried; `left` cells are under way."""

    count: int
    last_batch: int | None
    cells: int
    subscriptions: int
    messages: int
    bytes: int
    left: int
    p50_batch_s: float


class Status(TypedDict):
    """A stream over the batches looked at."""

    state: str
    last_batch: int
    plan: int
    seconds_since_commit: float
    batches: int
    events: int
    messages: int
    operations: int
    updates: int
    refused: int
    subscriptions: int
    active: int
    events_per_s: float
    p50_batch_s: float
    max_batch_s: float
    seconds_by_step: dict[str, float]
    balance: float
    moves: PlanChanges
    advice: Advice | None
    workers: list[WorkerStatus]
    rankings: int
    ranked_updates: int
    window: int
    rankers: list[WorkerStatus]
    building: list[BuildProgress]


def status(
    state: Annotated[
        str, typer.Argument(metavar="STATE", help="Where the state of the stream is.")
    ],
    last: Annotated[int, typer.Option(metavar="N", min=1, help="Look at the last N batches.")] = 20,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="Write the figures as Prometheus reads them.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Show how a stream is doing: its rate, and the load and lag of each worker.

    Reads the reports that the stream leaves in its state with every batch; the stream need not
    be running.

    [bold]Example[/bold]

      nearcast spark status state/ --last 100 --json
    """
    reports = read_reports(state, last)
    building = builds_under_way(Files(state), time.time())
    if not reports:
        raise SourceError(
            f"{state}: no batch was committed here; give the --state of a stream that has run"
        )
    if prometheus:
        from nearcast.spark.reports.metrics import PipelineMetrics

        typer.echo(PipelineMetrics(reports).exposition(), nl=False)
        return
    found = summary(state, reports, time.time(), building)
    if as_json:
        typer.echo(msgspec.json.encode(found).decode())
        return
    _show(found)


def summary(
    state: str, reports: list[BatchReport], now: float, building: Sequence[BuildProgress] = ()
) -> Status:
    """Add up what reports say."""
    final = reports[-1]
    seconds = [report.total_s for report in reports]
    steps = {step for report in reports for step in report.seconds}
    return Status(
        state=state,
        last_batch=final.batch,
        plan=final.plan,
        seconds_since_commit=max(0.0, now - final.committed_at),
        batches=len(reports),
        events=sum(report.events for report in reports),
        messages=sum(report.messages for report in reports),
        operations=sum(report.operations for report in reports),
        updates=sum(report.updates for report in reports),
        refused=sum(report.refused for report in reports),
        subscriptions=final.subscriptions,
        active=final.active,
        events_per_s=sum(report.events for report in reports) / max(sum(seconds), 1e-9),
        p50_batch_s=sorted(seconds)[len(seconds) // 2],
        max_batch_s=max(seconds),
        seconds_by_step={
            step: sum(report.seconds.get(step, 0.0) for report in reports) / len(reports)
            for step in sorted(steps)
        },
        balance=balance(_added_up(_of_last_plan(reports))),
        moves=_moves(reports),
        advice=next((one.advice for one in reversed(reports) if one.advice is not None), None),
        workers=_workers(_of_last_plan(reports)),
        rankings=final.rankings,
        ranked_updates=sum(report.ranked_updates for report in reports),
        window=final.window,
        rankers=_workers([report.rankers for report in reports]),
        building=list(building),
    )


def _moves(reports: list[BatchReport]) -> PlanChanges:
    """Add up what was carried."""
    found = [(report, report.moved) for report in reports if report.moved is not None]
    seconds = sorted(report.total_s for report, _ in found)
    return PlanChanges(
        count=len(found),
        last_batch=found[-1][0].batch if found else None,
        cells=sum(moved.cells for _, moved in found),
        subscriptions=sum(moved.subscriptions for _, moved in found),
        messages=sum(moved.messages for _, moved in found),
        bytes=sum(moved.bytes for _, moved in found),
        left=found[-1][1].left if found else 0,
        p50_batch_s=seconds[len(seconds) // 2] if found else 0.0,
    )


def _of_last_plan(reports: list[BatchReport]) -> list[list[WorkerReport]]:
    """What workers did under the last plan, batch by batch."""
    return [report.workers for report in reports if report.plan == reports[-1].plan]


def _added_up(batches: list[list[WorkerReport]]) -> list[WorkerReport]:
    """The workers of some batches, with what they did in all."""
    added: dict[int, WorkerReport] = {}
    for workers in batches:
        for one in workers:
            before = added.get(one.worker, WorkerReport(one.worker))
            added[one.worker] = WorkerReport(
                one.worker,
                before.load + one.load,
                one.lag,
                before.messages + one.messages,
                before.operations + one.operations,
                before.updates + one.updates,
                one.rows,
                one.bytes,
                active=one.active,
                where=one.where,
            )
    return [added[worker] for worker in sorted(added)]


def _workers(batches: list[list[WorkerReport]]) -> list[WorkerStatus]:
    workers = _added_up(batches)
    total = sum(worker.load for worker in workers)
    return [
        WorkerStatus(
            worker=one.worker,
            share_of_load=one.load / total if total else 1 / len(workers),
            load_s=one.load,
            lag=one.lag,
            messages=one.messages,
            operations=one.operations,
            updates=one.updates,
            rows=one.rows,
            active=one.active,
            bytes=one.bytes,
            where=one.where,
        )
        for one in workers
    ]


def _show(found: Status) -> None:
    console = Console()
    steps = ", ".join(f"{step} {value:.3f}" for step, value in found["seconds_by_step"].items())
    rows = {
        "last batch": f"{found['last_batch']:,}, {found['seconds_since_commit']:,.0f} s ago",
        "plan": f"{found['plan']}",
        "batches looked at": f"{found['batches']:,}",
        "events": f"{found['events']:,} ({found['events_per_s']:,.0f} a second)",
        "messages": f"{found['messages']:,}",
        "operations": f"{found['operations']:,}",
        "updates": f"{found['updates']:,}",
        "refused": f"{found['refused']:,}",
        "subscriptions now": f"{found['subscriptions']:,}",
        "active messages now": f"{found['active']:,}",
        "seconds a batch": f"{found['p50_batch_s']:.3f} median, {found['max_batch_s']:.3f} most",
        "steps, on average": steps,
        "busiest worker": f"{found['balance']:.2f} of the average",
    }
    rows |= _places("workers", found["workers"])
    if found["rankings"] or found["rankers"]:
        rows["top-k subscriptions now"] = f"{found['rankings']:,}"
        rows["top-k updates"] = f"{found['ranked_updates']:,}"
        rows["messages in the window"] = f"{found['window']:,}"
        rows |= _places("top-k workers", found["rankers"])
    if found["building"]:
        rows["under way"] = progress_text(found["building"])
    moves, advice = found["moves"], found["advice"]
    if moves["count"]:
        rows["moved"] = (
            f"{moves['cells']:,} cells, {moves['bytes'] / 1e6:,.1f} MB in {moves['count']:,} "
            f"batches of {moves['p50_batch_s']:.3f} s (median); {moves['left']:,} cells left"
        )
    if advice is not None:
        rows["better plan"] = (
            f"busiest worker {advice.expected:.2f} instead of {advice.balance:.2f}, "
            f"{advice.cells:,} cells, {advice.bytes / 1e6:,.1f} MB"
            + ("" if advice.taken else "; see `nearcast spark adjust`")
        )
    overview = Table(box=SIMPLE_HEAD, show_header=False)
    for name, value in rows.items():
        overview.add_row(name, value)
    console.print(overview)
    _show_workers(console, "worker", "active", found["workers"])
    _show_workers(console, "top-k", "window", found["rankers"])


def _places(kind: str, workers: list[WorkerStatus]) -> dict[str, str]:
    """Which workers are on which node; nothing where all are on one."""
    nodes = sorted({one["where"] for one in workers})
    if len(nodes) < 2:
        return {}
    there = {
        node: [str(one["worker"]) for one in workers if one["where"] == node] for node in nodes
    }
    return {f"{kind} by node": "; ".join(f"{node}: {', '.join(there[node])}" for node in nodes)}


def _show_workers(console: Console, kind: str, held: str, workers: list[WorkerStatus]) -> None:
    if not workers:
        return
    table = Table(box=SIMPLE_HEAD)
    for heading in (
        kind, "load", "lag", "messages", "operations", "updates", "rows", held, "MB",
    ):  # fmt: skip
        table.add_column(heading, justify="right")
    for one in workers:
        table.add_row(
            str(one["worker"]),
            f"{one['share_of_load']:.1%}",
            f"{one['lag']:.2f} s",
            f"{one['messages']:,}",
            f"{one['operations']:,}",
            f"{one['updates']:,}",
            f"{one['rows']:,}",
            f"{one['active']:,}",
            f"{one['bytes'] / 1e6:,.1f}",
        )
    console.print(table)
