"""Progress of a stream on standard error, where a person is looking."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from nearcast.spark.report import BatchReport

_RECENT = 10

Show = Callable[[BatchReport], None]


class Line:
    """One line of text on a stream so far."""

    def __init__(self) -> None:
        self._events = 0
        self._updates = 0
        self._refused = 0
        self._recent: deque[BatchReport] = deque(maxlen=_RECENT)

    def take(self, report: BatchReport) -> str:
        """Take one more batch, and give the line."""
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
def progress(waiting: str = "waiting for the first batch") -> Iterator[Show]:
    """Show how a stream is doing while the block runs."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    line = Line()
    with Console(stderr=True).status(waiting) as status:
        yield lambda report: status.update(line.take(report))
