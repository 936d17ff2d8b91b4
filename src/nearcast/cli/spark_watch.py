"""Watches a stream from the command that started it: progress, stopping, and a summary."""

from __future__ import annotations

import logging
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Lock, current_thread, main_thread
from typing import TYPE_CHECKING

from nearcast.cli.counts import counted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from nearcast.spark.reports.report import BatchReport

_SECONDS_BETWEEN_LOOKS = 0.1


@dataclass
class Summary:
    """Totals of a run."""

    state: str
    output: str
    batches: int = 0
    events: int = 0
    messages: int = 0
    operations: int = 0
    updates: int = 0
    refused: int = 0
    late: int = 0
    subscriptions: int = 0
    seconds: float = 0.0
    events_per_s: float = 0.0
    stopped: bool = False

    def add(self, report: BatchReport) -> None:
        """Add a batch."""
        self.batches += 1
        for name in ("events", "messages", "operations", "updates", "refused", "late"):
            setattr(self, name, getattr(self, name) + getattr(report, name))
        self.subscriptions = report.subscriptions

    def in_words(self) -> str:
        """The totals in one line."""
        return (
            f"{counted(self.events, 'event')} in {counted(self.batches, 'batch')} "
            f"({self.events_per_s:,.0f} a second), {counted(self.updates, 'update')}, "
            f"{counted(self.subscriptions, 'subscription')}"
        )


class StreamWatch:
    """Watches one stream, and stops it between two steps on request."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary
        self.failure: Exception | None = None
        self.stop = Event()
        self._turn = Lock()
        self._busy = self._over = False  # a batch is being taken; no other will be
        self._began = time.perf_counter()

    def taking(self, take: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
        """Wrap what takes batches, to know what went wrong in it: Spark only hands on its text."""

        from nearcast.spark.driver.feed import Stopped

        def watched(frame: DataFrame, batch: int) -> None:
            with self._turn:
                self._busy = not self._over
            try:
                if not self._busy:
                    raise Stopped
                take(frame, batch)
            except Exception as error:
                self.failure = error
                raise
            finally:
                self._busy = False

        return watched

    def listen(self, report: BatchReport) -> None:
        """Record a committed batch."""
        self.summary.add(report)

    def wait(self, query: StreamingQuery) -> None:
        """Wait until the stream has ended by itself, has failed or was stopped."""
        from nearcast.spark.driver.feed import Stopped

        while query.isActive:
            if self.stop.wait(_SECONDS_BETWEEN_LOOKS):
                with self._turn:  # a batch that begins now would be cut off in the middle
                    self._over = not self._busy
                if self._over:
                    query.stop()
                else:
                    time.sleep(_SECONDS_BETWEEN_LOOKS)  # until the step under way is done
        summary = self.summary
        summary.stopped = self.stop.is_set()
        summary.seconds = round(time.perf_counter() - self._began, 3)
        summary.events_per_s = round(summary.events / max(summary.seconds, 1e-9), 1)
        error = self.failure or query.exception()
        if error is not None and not isinstance(error, Stopped):
            raise error


def _interrupt() -> None:
    logging.disable(logging.CRITICAL)  # what is cut off need not complain
    raise KeyboardInterrupt


@contextmanager
def stopping_on_signals(stop: Event) -> Iterator[None]:
    """Set `stop` at the first Ctrl-C or SIGTERM; a second Ctrl-C interrupts at once."""

    def stop_once(number: int, frame: object) -> None:
        del frame
        if stop.is_set() and number == signal.SIGINT:
            _interrupt()
        stop.set()
        if sys.stderr.isatty():
            sys.stderr.write("\nstopping after this batch; Ctrl-C again to stop at once\n")

    with _handled(stop_once, signal.SIGINT, signal.SIGTERM):
        yield


@contextmanager
def interrupted_quietly() -> Iterator[None]:
    """Let Ctrl-C end the block at once, without a word of what it cut off."""
    with _handled(lambda *_: _interrupt(), signal.SIGINT):
        yield


@contextmanager
def _handled(handler: Callable[[int, object], None], *signals: signal.Signals) -> Iterator[None]:
    if current_thread() is not main_thread():
        yield  # signals are for the main thread
        return
    before = {number: signal.signal(number, handler) for number in signals}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)
