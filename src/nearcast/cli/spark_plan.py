"""`nearcast spark plan`: share out the work by a history, and draw who got what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from nearcast.cli import options

if TYPE_CHECKING:
    pass

_ENDINGS = (".jsonl", ".ndjson", ".json", ".gz", ".zst", ".parquet")
_PICTURES = (".html", ".htm", ".png")
_MOST_ROWS, _MOST_MESSAGES = 1_000_000, 200_000


class Load(TypedDict):
    """What a worker would hold and get to see, of what the history has."""

    worker: int
    cells: int
    rows: int
    messages: int
    share_of_messages: float


class Report(TypedDict):
    """A plan and what it would come to."""

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
    as_json: options.JsonOption = False,
) -> None:
    """Make a plan from a history: which worker answers for which part of space and text.

    The table shows what each worker would hold of the subscriptions that stand at the end of the
    history (rows: one for each alternative of a query and each box) and see of its messages. Bad
    events and top-k subscriptions are passed over.

    [bold]Example[/bold]

      nearcast spark plan --input log.jsonl --workers 8 --partitioner hybrid --output plan.html

      nearcast spark plan --input events --workers 8 --save city.plan
    """
