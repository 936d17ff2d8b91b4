"""`nearcast demo`: a made-up city, its people, and what reaches them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from itertools import islice
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from nearcast.engine import Engine
from nearcast.model import Move, Publish, Update
from nearcast.workloads.city import City

_EVENTS_WITHOUT_A_TERMINAL = 150


def add_to(app: typer.Typer) -> None:
    """Register the command."""
    app.command("demo")(demo)


def demo(
    duration: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", show_default="until Ctrl-C", help="End after so long."),
    ] = None,
    rate: Annotated[
        float, typer.Option(metavar="N", min=0.1, help="Events a second on a terminal.")
    ] = 6.0,
    seed: Annotated[int, typer.Option(metavar="S", help="Another seed, another story.")] = 1,
) -> None:
    """Watch a made-up city: deals, incidents and concerts reach the people they concern.

    Away from a terminal it shows a first stretch of the stream and ends by itself.

    [bold]Example[/bold]

      nearcast demo --duration 20
    """
    console = Console(highlight=False)
    show = _Show(City(seed), console)
    show.introduce()
    if not console.is_terminal:
        show.play(_EVENTS_WITHOUT_A_TERMINAL)
    else:
        console.print("[dim]Ctrl-C ends it.[/dim]\n")
        try:
            with console.status("") as status:
                show.live(status.update, rate, duration)
        except KeyboardInterrupt:
            pass
    show.summary()


class _Show:
    """Runs the city through an engine and prints what is delivered."""

    def __init__(self, city: City, console: Console) -> None:
        self._city = city
        self._console = console
        self._engine = Engine(window_count=40)
        self._stream = city.stream()
        self._deliveries: Counter[str] = Counter()
        self._messages = 0
        self._unmatched = 0

    def introduce(self) -> None:
        for event in self._city.subscriptions():
            self._engine.apply(event)
        self._console.print(
            f"[bold]Port Lumen[/bold]: {len(self._city.people)} people wait for news."
        )
        for person in list(self._city.people.values())[-4:]:
            self._console.print(f"  {person.name} wants [cyan]{person.wish}[/cyan] {person.where}")
        self._console.print("  ...")

    def play(self, events: int) -> None:
        for _ in islice(range(events), events):
            self._step()

    def live(self, status: Callable[[str], None], rate: float, duration: float | None) -> None:
        started = time.monotonic()
        while duration is None or time.monotonic() - started < duration:
            self._step()
            status(f"{self._messages:,} messages, {self._deliveries.total():,} deliveries")
            time.sleep(1.0 / rate)

    def _step(self) -> None:
        event = next(self._stream)
        updates = self._engine.apply(event)
        if isinstance(event, Publish):
            self._messages += 1
            self._unmatched += not updates
        for update in updates:
            self._tell(update, moved=isinstance(event, Move))

    def _tell(self, update: Update, *, moved: bool) -> None:
        person = self._city.people[update.subscription]
        text = self._city.messages[update.message].text
        if update.op == "add":
            self._deliveries[person.name] += 1
            how = "comes into range" if moved else ""
            if update.score is not None:
                how = f"enters the top 3, score {update.score:.2f}"
            line = Text.assemble(("  + ", "bold green"), f"{person.name:<14}", text)
        else:
            how = "out of range" if moved else "displaced"
            line = Text.assemble(("  - ", "bold red"), f"{person.name:<14}", (text, "dim"))
        if how:
            line.append(f"  ({how})", style="italic dim")
        self._console.print(line, soft_wrap=True)

    def summary(self) -> None:
        """Say what was seen, and where to go from here."""
        total = self._deliveries.total()
        self._console.print(
            f"\n[bold]{self._messages:,} messages, {total:,} deliveries[/bold] "
            f"to {len(self._deliveries)} of {len(self._city.people)} people; "
            f"{self._unmatched:,} messages concerned nobody."
        )
        most = ", ".join(f"{name} {count}" for name, count in self._deliveries.most_common(3))
        self._console.print(f"Most went to {most}.")
        self._console.print("Your own events: [cyan]nearcast replay --help[/cyan]")
