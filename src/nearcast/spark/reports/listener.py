"""What Spark itself knows of a stream: when it starts, triggers, idles and ends."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event
from typing import TYPE_CHECKING

from pyspark.sql.streaming.listener import StreamingQueryListener

from nearcast.spark.reports.logs import log_event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

    from nearcast.spark.reports.metrics import PipelineMetrics

_SECONDS_TO_HEAR = 5.0


class QueryListener(StreamingQueryListener):
    """Logs the life of the query of that name, and hands Spark's timings to the metrics.

    A session calls its listeners for all its queries; those of other names are ignored.
    """

    def __init__(self, name: str, metrics: PipelineMetrics | None = None) -> None:
        self._name = name
        self._metrics = metrics
        self._run: str | None = None
        self.ended = Event()

    @property
    def started(self) -> bool:
        """Whether a query of that name has started."""
        return self._run is not None

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802 - as Spark calls it
        """The query has started."""
        if event.name == self._name:
            self._run = str(event.runId)
            self.ended.clear()
            log_event("query started", query=self._name, id=str(event.id), run=self._run)

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802 - as above
        """A trigger is done."""
        progress = event.progress
        if progress.name != self._name:
            return
        milliseconds = dict(progress.durationMs)
        if self._metrics is not None:
            self._metrics.triggered(milliseconds)
        log_event(
            "trigger done",
            level=logging.DEBUG,
            query=self._name,
            batch=progress.batchId,
            milliseconds=milliseconds,
        )

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802 - as above
        """There was nothing new."""
        if str(event.runId) == self._run:
            log_event("query idle", level=logging.DEBUG, query=self._name)

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802 - as above
        """The query has ended, or failed."""
        if str(event.runId) != self._run:
            return
        self.ended.set()
        if event.exception is None:
            log_event("query ended", query=self._name, run=self._run)
        else:
            log_event(
                "query failed",
                level=logging.ERROR,
                query=self._name,
                run=self._run,
                error=event.exception,
            )


@contextmanager
def listening(
    spark: SparkSession, name: str, metrics: PipelineMetrics | None = None
) -> Iterator[QueryListener]:
    """Listen to the query of that name while the block runs; end it within the block."""
    listener = QueryListener(name, metrics)
    spark.streams.addListener(listener)
    try:
        yield listener
    finally:
        if listener.started:
            listener.ended.wait(_SECONDS_TO_HEAR)  # Spark reports the end a moment later
        spark.streams.removeListener(listener)
