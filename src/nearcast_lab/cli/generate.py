"""`nearcast generate`: a seeded event log of one of the papers' experiments."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from nearcast.errors import InvalidValue
from nearcast.events import open_writer
from nearcast_lab.workloads import WORKLOADS
from nearcast_lab.workloads import generate as generate_events
from nearcast_lab.workloads.registry import read_options

_EVENTS_PER_REFRESH = 2000

_KINDS = "\n\n".join(
    f"  [cyan]{workload.name}[/cyan]: {workload.description}" for workload in WORKLOADS.values()
)
_HELP = f"""Write a made-up event log: the same seed, the same log.

[bold]Kinds[/bold]

{_KINDS}

[bold]Example[/bold]

  nearcast generate tweets --messages 100 --output tweets.jsonl

  nearcast match tweets.jsonl --query "jazz OR blues"
"""


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("generate", help=_HELP)(generate)


def generate(
    kind: Annotated[str, typer.Argument(metavar="KIND", help="One of the kinds above.")],
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=0, help="How many subscriptions.")
    ] = 10_000,
    messages: Annotated[int, typer.Option(metavar="M", min=0, help="How many messages.")] = 1_000,
    seed: Annotated[int, typer.Option(metavar="S", help="Another seed, another log.")] = 1,
    option: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="An option of the kind, such as vocabulary=50000."),
    ] = None,
    output: Annotated[
        str,
        typer.Option(metavar="FILE", help="A .jsonl or .parquet file, or - for standard output."),
    ] = "-",
) -> None:
    """Write a made-up event log."""
    chosen = _pairs(option or [])
    read_options(kind, chosen)  # refuses a name that is not an option, such as that of a parameter
    events = generate_events(
        kind, subscriptions=subscriptions, messages=messages, seed=seed, **chosen
    )
    with open_writer(output) as writer:
        for event in _shown(events, kind):
            writer.write(event)


def _pairs(given: list[str]) -> dict[str, str]:
    pairs = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise InvalidValue("--option", text, "NAME=VALUE, such as vocabulary=50000")
        pairs[name.replace("-", "_")] = value
    return pairs


def _shown(events: Iterable[dict[str, Any]], kind: str) -> Iterator[dict[str, Any]]:
    """Pass the events on, and count them where a person is looking."""
    if not sys.stderr.isatty():
        yield from events
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(kind)
        for count, event in enumerate(events):
            if count % _EVENTS_PER_REFRESH == 0:
                bar.update(task, description=f"{kind}  {count:,} events")
            yield event
