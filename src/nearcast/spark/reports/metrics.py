"""Metrics of a running stream for Prometheus, from the reports of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from threading import Lock
from typing import Any, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector

from nearcast.errors import InvalidValue
from nearcast.spark.reports.report import BatchReport, WorkerReport, balance

_PREFIX = "nearcast_spark_"


class Metric(NamedTuple):
    """One metric: its name without the prefix, and its description."""

    name: str
    help: str

    @property
    def kind(self) -> str:
        """What Prometheus takes it for."""
        return "counter" if self.name.endswith("_total") else "gauge"

    def family(
        self, samples: Mapping[str, float] | Mapping[int, float] | float, label: str | None = None
    ) -> Iterator[Family]:
        """Its value, or its values by label; nothing if there are none."""
        values = samples if isinstance(samples, Mapping) else {"": samples}
        kind = CounterMetricFamily if self.kind == "counter" else GaugeMetricFamily
        family = kind(_PREFIX + self.name, self.help, labels=[label] if label else [])
        for name, value in values.items():
            family.add_metric([str(name)] if label else [], value)
        if values:
            yield family


BATCH_TOTALS = {
    "events": Metric("events_total", "Events read."),
    "messages": Metric("messages_total", "Messages matched."),
    "lasting": Metric("lasting_total", "Messages among them that last."),
    "operations": Metric("operations_total", "Subscriptions made, moved or removed."),
    "updates": Metric("updates_total", "Updates written."),
    "refused": Metric("refused_total", "Events refused."),
    "ranked_updates": Metric("ranked_updates_total", "Updates of top-k subscriptions among them."),
    "moved_buckets": Metric(
        "moved_buckets_total", "Buckets of top-k subscriptions that changed hands."
    ),
    "recalled": Metric("recalled_total", "Top-k subscriptions asked for again from nothing."),
}
BATCHES = Metric("batches_total", "Batches committed.")
LAST_BATCH = Metric("last_batch", "The number of the last batch.")
NOW = {
    "subscriptions": Metric("subscriptions", "Subscriptions there are."),
    "active": Metric("active_messages", "Lasting messages that are active."),
    "rankings": Metric("ranked_subscriptions", "Top-k subscriptions among them."),
    "window": Metric("window_messages", "Messages in the window of top-k."),
}
PLAN = Metric("plan_version", "The version of the plan that is in use.")
MOVES = Metric("moves_total", "Versions of the plan that took over with a batch.")
MOVED_TOTALS = {
    "cells": Metric("moved_cells_total", "Cells that changed hands."),
    "subscriptions": Metric("moved_subscriptions_total", "Subscriptions carried over."),
    "messages": Metric("moved_messages_total", "Active messages carried over."),
    "bytes": Metric("moved_bytes_total", "Bytes carried from worker to worker."),
}
CELLS_LEFT = Metric("moves_cells_left", "Cells that are still to change hands.")
BALANCE = Metric("balance_ratio", "The busiest worker of the last batch by the average.")
COMMITTED = Metric("last_commit_timestamp_seconds", "When the last batch was committed.")
STEPS = Metric("batch_seconds", "Seconds of the last batch, by step.")
TRIGGER = Metric("trigger_seconds", "Seconds of the last trigger, as Spark has them.")
WORKER_TOTALS = {
    "load": Metric("worker_load_seconds_total", "Seconds of CPU of a worker."),
    "messages": Metric("worker_messages_total", "Messages that reached a worker."),
    "operations": Metric("worker_operations_total", "Operations that reached a worker."),
    "updates": Metric("worker_updates_total", "Updates that a worker answered with."),
}
WORKER_NOW = {
    "lag": Metric("worker_lag_seconds", "Seconds until a worker had caught up."),
    "rows": Metric("worker_index_rows", "Rows in the index of a worker."),
    "active": Metric("worker_active_messages", "Lasting messages that a worker holds."),
    "bytes": Metric("worker_index_bytes", "Bytes of the index of a worker."),
}
WORKER_WHERE = Metric("worker_where", "1 for the node on which a worker last ran.")

RANKER_TOTALS = {
    "load": Metric("ranker_load_seconds_total", "Seconds of CPU of a top-k worker."),
    "updates": Metric("ranker_updates_total", "Updates that a top-k worker gave."),
}
RANKER_NOW = {
    "lag": Metric("ranker_lag_seconds", "Seconds until a top-k worker had its answers."),
    "rows": Metric("ranker_subscriptions", "Subscriptions of a top-k worker."),
    "bytes": Metric("ranker_bytes", "Bytes that a top-k worker holds."),
}
RANKER_WHERE = Metric("ranker_where", "1 for the node on which a top-k worker last ran.")


def all_metrics() -> list[Metric]:
    """All metrics, for the documentation."""
    single = [BATCHES, LAST_BATCH, PLAN, COMMITTED, STEPS, TRIGGER, MOVES, CELLS_LEFT, BALANCE]
    single += [WORKER_WHERE, RANKER_WHERE]
    kinds = (
        BATCH_TOTALS, NOW, MOVED_TOTALS, WORKER_TOTALS, WORKER_NOW, RANKER_TOTALS, RANKER_NOW,
    )  # fmt: skip
    return [*single, *(metric for kind in kinds for metric in kind.values())]


class PipelineMetrics(Collector):
    """Adds up the reports of batches since it was made, as Prometheus expects of counters."""

    def __init__(self, reports: Iterable[BatchReport] = ()) -> None:
        self._lock = Lock()
        self._batches = 0
        self._totals = dict.fromkeys(BATCH_TOTALS, 0)
        self._workers = _Workers(WORKER_TOTALS, WORKER_NOW, WORKER_WHERE)
        self._rankers = _Workers(RANKER_TOTALS, RANKER_NOW, RANKER_WHERE)
        self._moves, self._left = 0, 0
        self._moved = dict.fromkeys(MOVED_TOTALS, 0)
        self._last: BatchReport | None = None
        self._trigger: dict[str, float] = {}
        self.registry = CollectorRegistry()
        self.registry.register(self)
        for report in reports:
            self.observe(report)

    def observe(self, report: BatchReport) -> None:
        """Add the report of one more batch."""
        with self._lock:
            self._batches += 1
            for name in self._totals:
                self._totals[name] += getattr(report, name)
            self._workers.observe(report.workers)
            self._rankers.observe(report.rankers)
            if report.moved is not None:
                self._moves, self._left = self._moves + 1, report.moved.left
                for name in self._moved:
                    self._moved[name] += getattr(report.moved, name)
            self._last = report

    def triggered(self, milliseconds: Mapping[str, int]) -> None:
        """Add the times that Spark measured in a trigger."""
        with self._lock:
            self._trigger = {step: value / 1000 for step, value in milliseconds.items()}

    def exposition(self) -> str:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry).decode()

    def collect(self) -> Iterable[Family]:
        """The current values."""
        with self._lock:
            return list(self._families())

    def _families(self) -> Iterator[Family]:
        last = self._last
        yield from BATCHES.family(self._batches)
        for name, metric in BATCH_TOTALS.items():
            yield from metric.family(self._totals[name])
        if last is not None:
            yield from LAST_BATCH.family(last.batch)
            yield from PLAN.family(last.plan)
            yield from MOVES.family(self._moves)
            for name, metric in MOVED_TOTALS.items():
                yield from metric.family(self._moved[name])
            yield from CELLS_LEFT.family(self._left)
            yield from BALANCE.family(round(balance(last.workers), 4))
            for name, metric in NOW.items():
                yield from metric.family(getattr(last, name))
            yield from COMMITTED.family(last.committed_at)
            yield from STEPS.family(last.seconds, "step")
        yield from TRIGGER.family(self._trigger, "step")
        yield from self._workers.families()
        yield from self._rankers.families()


class _Workers:
    """Totals of the workers of one kind, and their current sizes."""

    def __init__(
        self, totals: Mapping[str, Metric], now: Mapping[str, Metric], where: Metric
    ) -> None:
        self._metrics = totals, now
        self._where = where
        self._totals: dict[int, dict[str, float]] = {}
        self._now: dict[int, WorkerReport] = {}

    def observe(self, workers: Iterable[WorkerReport]) -> None:
        """Add what they did in a batch."""
        for worker in workers:
            totals = self._totals.setdefault(worker.worker, dict.fromkeys(self._metrics[0], 0.0))
            for name in totals:
                totals[name] += getattr(worker, name)
        self._now = {worker.worker: worker for worker in workers}

    def families(self) -> Iterator[Family]:
        """Their metrics, by worker."""
        for name, metric in self._metrics[0].items():
            values = {worker: totals[name] for worker, totals in sorted(self._totals.items())}
            yield from metric.family(values, "worker")
        for name, metric in self._metrics[1].items():
            now = {worker: getattr(one, name) for worker, one in sorted(self._now.items())}
            yield from metric.family(now, "worker")
        known = {worker: one.where for worker, one in sorted(self._now.items()) if one.where}
        places = GaugeMetricFamily(
            _PREFIX + self._where.name, self._where.help, labels=["worker", "where"]
        )
        for worker, where in known.items():
            places.add_metric([str(worker), where], 1)
        if known:
            yield places


class Exporter:
    """Serves metrics at `http://host:port/metrics` until it is closed; port 0 is any free one."""

    def __init__(self, metrics: PipelineMetrics, port: int, host: str = "127.0.0.1") -> None:
        try:
            self._server, self._thread = start_http_server(port, host, metrics.registry)
        except (OSError, OverflowError) as error:
            raise InvalidValue(
                "metrics port", port, f"a port that is free on {host} ({error})"
            ) from None
        self._server.set_app(_at_metrics_only(self._server.get_app()))
        self.port = self._server.server_port

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def _at_metrics_only(app: Any) -> Any:
    def answer(environ: dict[str, Any], start: Any) -> Any:
        if environ["PATH_INFO"] == "/metrics":
            return app(environ, start)
        start("404 Not Found", [("Content-Type", "text/plain")])
        return [b"only /metrics is here\n"]

    return answer
