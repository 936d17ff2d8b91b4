"""Progress on standard error, if it is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from nearcast.cli.counts import counted
from nearcast.events import EventLog

_EVENTS_PER_REFRESH = 500


class ProgressDisplay:
    """Counts events and updates, and shows them on a progress bar if there is one."""

    def __init__(self, log: EventLog, bar: Progress | None, label: str) -> None:
        self._log = log
        self._bar = bar
        self._label = label
        self._task = None if bar is None else bar.add_task(label, total=None)
        self.events = 0
        self.updates = 0

    def step(self, updates: int) -> None:
        """Count an event and its updates."""
        self.events += 1
        self.updates += updates
        if self._bar is not None and self.events % _EVENTS_PER_REFRESH == 0:
            self._refresh(self._bar)

    def _refresh(self, bar: Progress) -> None:
        if self._task is None:
            return
        text = f"{self._label}  {counted(self.events, 'event')}  {counted(self.updates, 'update')}"
        part = self._log.progress
        if part is None:
            bar.update(self._task, description=text)
        else:
            bar.update(self._task, description=text, total=1.0, completed=part)


@contextmanager
def progress_of(log: EventLog, label: str) -> Iterator[ProgressDisplay]:
    """Show how far a log has been read while the block runs."""
    if not sys.stderr.isatty():
        yield ProgressDisplay(log, None, label)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        yield ProgressDisplay(log, bar, label)
