"""Progress of a stream on standard error, for a person at a terminal."""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread

from rich.console import Console
from rich.status import Status

from nearcast.spark.io.files import Files
from nearcast.spark.reports.build_progress import builds_under_way, progress_text
from nearcast.spark.reports.report import BatchReport

_RECENT = 10
_LOOK_S = 1.0

Show = Callable[[BatchReport], None]


class ProgressLine:
    """One line of text on a stream so far."""

    def __init__(self) -> None:
        self._events = 0
        self._updates = 0
        self._refused = 0
        self._recent: deque[BatchReport] = deque(maxlen=_RECENT)

    def take(self, report: BatchReport) -> str:
        """Add the report of one more batch, and return the line."""
        self._events += report.events
        self._updates += report.updates
        self._refused += report.refused
        self._recent.append(report)
        seconds = sum(one.total_s for one in self._recent)
        rate = sum(one.events for one in self._recent) / seconds if seconds else 0.0
        parts = [
            f"batch {report.batch:,}",
            f"{self._events:,} events",
            f"{rate:,.0f} a second",
            f"{self._updates:,} updates",
            f"{report.subscriptions:,} subscriptions",
        ]
        if report.rankings:
            parts.append(f"{report.rankings:,} of them top-k")
        if report.recalled:
            parts.append(f"{report.recalled:,} asked for again")
        if report.active:
            parts.append(f"{report.active:,} active messages")
        if report.moved is not None:
            parts.append(f"plan {report.plan}: {report.moved.cells:,} cells moved")
        if report.advice is not None and not report.advice.taken:
            now, then = report.advice.balance, report.advice.expected
            parts.append(f"busiest worker {now:.2f}, could be {then:.2f}: nearcast spark adjust")
        if self._refused:
            parts.append(f"[red]{self._refused:,} refused[/red]")
        return "  ".join(parts)


@contextmanager
def progress(state: str, waiting: str = "waiting for the first batch") -> Iterator[Show]:
    """Show the progress of a stream, and of workers that rebuild state, while the block runs."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    line, over = ProgressLine(), Event()
    with Console(stderr=True).status(waiting) as status:
        looking = Thread(target=_look, args=(Files(state), status, over), daemon=True)
        looking.start()
        try:
            yield lambda report: status.update(line.take(report))
        finally:
            over.set()
            looking.join()


def _look(files: Files, status: Status, over: Event) -> None:
    """Show the progress of workers that rebuild their state, as long as they do."""
    while not over.wait(_LOOK_S):
        building = builds_under_way(files, time.time())
        if building:
            status.update(progress_text(building))
