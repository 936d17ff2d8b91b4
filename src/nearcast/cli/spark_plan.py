"""`nearcast spark plan`: divide the work by a history, and draw the result."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import msgspec
import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from nearcast.cli import options
from nearcast.cli.progress import progress_of
from nearcast.cli.spark_replay import check_partitioner
from nearcast.errors import InvalidValue, NearcastError, SourceError
from nearcast.events import Event, Subscribe, open_log
from nearcast.geo import WORLD
from nearcast.text import Analyser, parse_query

if TYPE_CHECKING:
    from nearcast.partition.plan import Plan
    from nearcast.partition.sample import Sample

_ENDINGS = (".jsonl", ".ndjson", ".json", ".gz", ".zst", ".parquet")
_MOST_ROWS, _MOST_MESSAGES = 1_000_000, 200_000


class Load(TypedDict):
    """What a worker would hold, get and check with the history; `ns` is for one message."""

    worker: int
    rows: int
    messages: int
    candidates: int
    ns: float
    share: float


class PlanReport(TypedDict):
    """A plan, and its loads with messages that it was not made from."""

    partitioner: str
    workers: int
    kind: str
    subscriptions: int
    messages: int
    passed_over: int
    split_cells: int
    replication: float
    workers_per_message: float
    balance: float
    messages_per_s: float
    loads: list[Load]


def plan(
    history: Annotated[
        str,
        typer.Option("--input", metavar="EVENTS", help="A log, or a folder of logs, to plan for."),
    ],
    workers: Annotated[int, typer.Option(metavar="N", min=1, help="How many workers there are.")],
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Draw the plan: a file that ends in .html or .png."),
    ] = None,
    partitioner: options.PartitionerOption = "auto",
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Keep the plan, for `nearcast spark run --plan`."),
    ] = None,
    space: options.SpaceOption = None,
    stem: options.StemOption = None,
    stop_words: options.StopWordsOption = None,
    cjk: options.CjkOption = False,
    as_json: options.JsonOption = False,
) -> None:
    """Make a plan from a history: which worker answers for which part of space and text.

    The table shows what each worker would hold of the subscriptions that stand at the end of the
    history (rows: one for each alternative of a query and each box), and what it would see and
    look at of messages that the plan was not made from. Bad events and top-k subscriptions are
    passed over.

    [bold]Example[/bold]

      nearcast spark plan --input log.jsonl --workers 8 --partitioner hybrid --output plan.html

      nearcast spark plan --input events --workers 8 --save city.plan
    """
    partitioner, _ = check_partitioner(partitioner)
    if output is not None and output.suffix.lower() not in options.PICTURES:
        raise InvalidValue("--output", str(output), "a file name that ends in .html or .png")
    if save is not None and save.is_dir():
        raise InvalidValue("--save", str(save), "a file, not a folder")
    from nearcast.partition.draw import save_picture
    from nearcast.partition.sample import sample_from_events
    from nearcast.spark.driver.planning import plan_for

    analyser = options.analyser(stem, stop_words, cjk)
    area = WORLD if space is None else options.box(space, "--space")
    reader = _Reader(analyser)
    sample = sample_from_events(reader.events(_files(history)), analyser)
    made = plan_for(partitioner, workers, area, sample.limited(_MOST_ROWS, _MOST_MESSAGES))
    report = report_on(made, sample, reader.passed_over)
    if save is not None:
        made.save(save)
    if output is not None:
        save_picture(made, output, [load["ns"] for load in report["loads"]])
    if as_json:
        typer.echo(msgspec.json.encode(report).decode())
    else:
        _show(report)


def _files(given: str) -> list[str]:
    """The logs of a folder in the order of their names, or the one log that was given."""
    place = Path(given)
    if not place.is_dir():
        return [given]
    found = sorted(
        path
        for path in place.iterdir()
        if path.is_file() and path.suffix in _ENDINGS and not path.name.startswith((".", "_"))
    )
    if not found:
        raise SourceError(
            f"{given}: no event log in this folder; expected .jsonl or .parquet files"
        )
    return [str(path) for path in found]


class _Reader:
    """Reads logs, and counts what cannot be planned for."""

    def __init__(self, analyser: Analyser) -> None:
        self._analyser = analyser
        self.passed_over = 0

    def events(self, files: list[str]) -> Iterator[Event]:
        for file in files:
            with open_log(file) as log, progress_of(log, "reading") as shown:
                for record in log:
                    shown.step(0)
                    if record.event is not None and self._sound(record.event):
                        yield record.event
                    else:
                        self.passed_over += 1

    def _sound(self, event: Event) -> bool:
        """Whether an event can be planned for: not a top-k subscription, nor an invalid query."""
        if not isinstance(event, Subscribe):
            return True
        query = event.subscription.query
        if event.subscription.top is not None or query is None:
            return False
        try:
            parse_query(query, self._analyser)
        except NearcastError:
            return False
        return True


def report_on(plan: Plan, sample: Sample, passed_over: int) -> PlanReport:
    """Report the loads that a plan would have."""
    import numpy as np

    from nearcast.partition import keys
    from nearcast.partition.routing import route_rows
    from nearcast.partition.simulate import Simulator, made_whole, population_of
    from nearcast.spark.driver.planning import FIRST_COSTS

    messages = sample.held_out if sample.held_out.size else sample.messages
    part = messages.size / max(sample.held_out.size + sample.messages.size, 1)
    population = population_of(sample.rows, messages, sample.operations * part)
    found = Simulator(population, FIRST_COSTS, whole=True).run(plan)
    chosen = keys.choose(plan.arrays, sample.rows.starts, sample.rows.terms)
    held = route_rows(plan, sample.rows.boxes, chosen, sample.rows.owners)
    (_, workers), _ = made_whole(held, sample.rows.owners, plan.workers)
    rows = np.bincount(workers, minlength=plan.workers)
    ns = found.loads.ns(FIRST_COSTS) / max(messages.size, 1)
    return PlanReport(
        partitioner=plan.scheme,
        workers=plan.workers,
        kind=plan.kind,
        subscriptions=len(np.unique(sample.rows.owners)),
        messages=sample.messages.size + sample.held_out.size,
        passed_over=passed_over,
        split_cells=int(plan.split_cells.sum()),
        replication=found.report["replication"],
        workers_per_message=found.report["workers_per_message"],
        balance=found.report["balance"],
        messages_per_s=found.report["messages_per_s"],
        loads=[
            Load(
                worker=at,
                rows=int(rows[at]),
                messages=int(found.loads.messages[at]),
                candidates=int(found.loads.candidates[at]),
                ns=round(float(ns[at]), 3),
                share=round(float(ns[at] / max(ns.sum(), 1e-300)), 6),
            )
            for at in range(plan.workers)
        ],
    )


def _show(report: PlanReport) -> None:
    console = Console()
    facts = Table(box=SIMPLE_HEAD, show_header=False)
    facts.add_row("partitioner", f"{report['partitioner']} ({report['kind']})")
    facts.add_row("subscriptions", f"{report['subscriptions']:,}")
    facts.add_row("messages", f"{report['messages']:,}")
    if report["passed_over"]:
        facts.add_row("passed over", f"{report['passed_over']:,}")
    facts.add_row("cells split by text", f"{report['split_cells']:,}")
    facts.add_row("copies of a row", f"{report['replication']:.2f}")
    facts.add_row("workers of a message", f"{report['workers_per_message']:.2f}")
    facts.add_row("busiest worker", f"{report['balance']:.2f} of the average")
    if isfinite(report["messages_per_s"]):
        facts.add_row("at most", f"{report['messages_per_s']:,.0f} messages a second")
    console.print(facts)
    table = Table(box=SIMPLE_HEAD)
    for heading in ("worker", "load", "rows", "messages", "looked at"):
        table.add_column(heading, justify="right")
    for load in report["loads"]:
        table.add_row(
            str(load["worker"]),
            f"{load['share']:.1%}",
            f"{load['rows']:,}",
            f"{load['messages']:,}",
            f"{load['candidates']:,}",
        )
    console.print(table)
