"""`nearcast bench distribution`: ways to distribute top-k subscriptions, simulated."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from nearcast.cli.options import JsonOption
from nearcast.errors import InvalidValue
from nearcast_lab.bench.checks import table_of
from nearcast_lab.bench.distribution import (
    COMPARED,
    REAL,
    TEXTS,
    DistributionOutcome,
    DistributionSetup,
    Row,
    measure_distribution,
)
from nearcast_lab.cli.measuring import SeedOption, WorkersOption, measured, named, numbers
from nearcast_lab.simulators.topk import TopkSimulationReport
from nearcast_lab.tables import results_table, short_text


def distribution(
    texts: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help=f"Of {', '.join(TEXTS)}, made up like those of the paper, of 9, 7 and 37 terms; "
            f"{', '.join(REAL)}, real towns; or an event log, whose messages are taken.",
        ),
    ] = ",".join(TEXTS),
    workers: WorkersOption = "4,8,16,32",
    mechanisms: Annotated[
        str, typer.Option(metavar="NAME,...", help=f"Of {', '.join(COMPARED)}.")
    ] = ",".join(COMPARED),
    subscriptions: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many subscriptions.")
    ] = 50_000,
    window: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many messages the window holds.")
    ] = 1_000_000,
    messages: Annotated[
        int, typer.Option(metavar="N", min=100, help="How many messages to simulate.")
    ] = 4_000,
    k: Annotated[int, typer.Option(metavar="K", min=1, max=1000, help="Results of each.")] = 20,
    keywords: Annotated[
        str,
        typer.Option(
            metavar="N-M",
            help="Terms of a subscription. The paper says 1-5; its table 5 must have had 2-5.",
        ),
    ] = "2-5",
    echo: Annotated[
        float,
        typer.Option(
            metavar="SHARE", min=0, max=1, help="Words that made-up texts take from phrases."
        ),
    ] = 0.0,
    seed: SeedOption = 1,
    as_json: JsonOption = False,
) -> None:
    """Simulate DSkype's ways to distribute top-k subscriptions over workers.

    Thresholds are those of a core with a full window; messages are ones that no plan has seen.
    The bound is the messages a second that the busiest worker allows, by what handling a message,
    reading a posting and scoring a candidate cost on this machine.

    [bold]Example[/bold]

      nearcast bench distribution --texts tweets --workers 8,32 --mechanisms hashing,prefix
    """
    arrangement = DistributionSetup(
        texts=_texts(texts),
        workers=numbers(workers, "--workers"),
        mechanisms=named(mechanisms, "--mechanisms", list(COMPARED)),
        subscriptions=subscriptions,
        window=window,
        messages=messages,
        k=k,
        keywords=_span(keywords),
        echo=echo,
        seed=seed,
    )
    measured(partial(measure_distribution, arrangement), as_json, _show)


def _texts(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in TEXTS and name not in REAL and not Path(name).is_file():
            known = ", ".join([*TEXTS, *REAL])
            raise InvalidValue("--texts", name, f"one of {known}, or the path of an event log")
    return names


def _span(text: str) -> tuple[int, int]:
    fewest, _, most = text.partition("-")
    try:
        read = int(fewest), int(most or fewest)
    except ValueError:
        read = (0, 0)
    if not 1 <= read[0] <= read[1]:
        raise InvalidValue("--keywords", text, "a number, or two such as 1-5")
    return read


_CAPTION = (
    "copies: workers that hold a subscription; later: one that the spread was made without; sent: "
    "workers that a message goes to; steep: messages in a hundred that go to all, so that prefixes "
    "are shorter; subs, load: the heaviest "
    "worker by the mean, in what it holds and does; read: postings for a message, by all workers; "
    "bound: messages a second that the busiest worker allows, and by that of hashing"
)
_COLUMNS = ("copies", "later", "sent", "steep", "subs", "load", "read", "bound", "x")


def _show(outcome: DistributionOutcome) -> None:
    console = Console()
    rows = outcome["rows"]
    for texts, costs in outcome["costs"].items():
        console.print(
            f"{texts}: a message {costs['message_ns']:.0f} ns, a posting "
            f"{costs['posting_ns']:.2f} ns, a candidate {costs['candidate_ns']:.0f} ns"
        )
    for table in distribution_tables(rows):
        console.print(table)
    console.print(_CAPTION, style="dim")
    if outcome["bars"]:
        console.print(table_of(outcome["bars"]))


def distribution_tables(rows: Sequence[Row]) -> Iterator[Table]:
    """Show what was simulated, a table for each kind of texts and number of workers."""
    for texts, workers in dict.fromkeys((r["texts"], r["simulated"]["workers"]) for r in rows):
        here = [r for r in rows if (r["texts"], r["simulated"]["workers"]) == (texts, workers)]
        yield _table(f"{texts}, {workers} workers", here)


def _table(title: str, rows: list[Row]) -> Table:
    table = results_table(["mechanism"], _COLUMNS, title)
    for row in rows:
        it = row["simulated"]
        table.add_row(
            _name(it),
            f"{it['replication']:.2f}",
            f"{it['replication_later']:.2f}",
            f"{it['workers_per_message']:.1f}",
            f"{100 * it['steep']:.0f}",
            f"{it['balance_subscriptions']:.2f}",
            f"{it['balance_load']:.2f}",
            f"{it['visited']:,.0f}",
            short_text(it["messages_per_s"]),
            f"{row['of_hashing']:.2f}",
        )
    return table


def _name(it: TopkSimulationReport) -> str:
    l1, l2 = it["levels"]
    return f"{it['mechanism']} {l1}x{l2}" if it["mechanism"].endswith("first") else it["mechanism"]
