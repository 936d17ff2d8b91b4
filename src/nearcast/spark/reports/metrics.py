"""Metrics of a running stream for Prometheus, in its text format, from the reports of batches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from threading import Lock
from typing import NamedTuple

from nearcast.spark.reports.report import BatchReport, WorkerReport, balance

_PREFIX = "nearcast_spark_"
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metric(NamedTuple):
    """One metric: its name without the prefix, its type and its description."""

    name: str
    kind: str
    help: str


BATCH_TOTALS = {
    "events": Metric("events_total", "counter", "Events read."),
    "messages": Metric("messages_total", "counter", "Messages matched."),
    "lasting": Metric("lasting_total", "counter", "Messages among them that last."),
    "operations": Metric("operations_total", "counter", "Subscriptions made, moved or removed."),
    "updates": Metric("updates_total", "counter", "Updates written."),
    "refused": Metric("refused_total", "counter", "Events refused."),
    "ranked_updates": Metric(
        "ranked_updates_total", "counter", "Updates of top-k subscriptions among them."
    ),
    "moved_buckets": Metric(
        "moved_buckets_total", "counter", "Buckets of top-k subscriptions that changed hands."
    ),
    "recalled": Metric(
        "recalled_total", "counter", "Top-k subscriptions asked for again from nothing."
    ),
}
BATCHES = Metric("batches_total", "counter", "Batches committed.")
LAST_BATCH = Metric("last_batch", "gauge", "The number of the last batch.")
NOW = {
    "subscriptions": Metric("subscriptions", "gauge", "Subscriptions there are."),
    "active": Metric("active_messages", "gauge", "Lasting messages that are active."),
    "rankings": Metric("ranked_subscriptions", "gauge", "Top-k subscriptions among them."),
    "window": Metric("window_messages", "gauge", "Messages in the window of top-k."),
}
PLAN = Metric("plan_version", "gauge", "The version of the plan that is in use.")
MOVES = Metric("moves_total", "counter", "Versions of the plan that took over with a batch.")
MOVED_TOTALS = {
    "cells": Metric("moved_cells_total", "counter", "Cells that changed hands."),
    "subscriptions": Metric("moved_subscriptions_total", "counter", "Subscriptions carried over."),
    "messages": Metric("moved_messages_total", "counter", "Active messages carried over."),
    "bytes": Metric("moved_bytes_total", "counter", "Bytes carried from worker to worker."),
}
CELLS_LEFT = Metric("moves_cells_left", "gauge", "Cells that are still to change hands.")
BALANCE = Metric("balance_ratio", "gauge", "The busiest worker of the last batch by the average.")
COMMITTED = Metric("last_commit_timestamp_seconds", "gauge", "When the last batch was committed.")
STEPS = Metric("batch_seconds", "gauge", "Seconds of the last batch, by step.")
TRIGGER = Metric("trigger_seconds", "gauge", "Seconds of the last trigger, as Spark has them.")
WORKER_TOTALS = {
    "load": Metric("worker_load_seconds_total", "counter", "Seconds of CPU of a worker."),
    "messages": Metric("worker_messages_total", "counter", "Messages that reached a worker."),
    "operations": Metric("worker_operations_total", "counter", "Operations that reached a worker."),
    "updates": Metric("worker_updates_total", "counter", "Updates that a worker answered with."),
}
WORKER_NOW = {
    "lag": Metric("worker_lag_seconds", "gauge", "Seconds until a worker had caught up."),
    "rows": Metric("worker_index_rows", "gauge", "Rows in the index of a worker."),
    "active": Metric("worker_active_messages", "gauge", "Lasting messages that a worker holds."),
    "bytes": Metric("worker_index_bytes", "gauge", "Bytes of the index of a worker."),
}

RANKER_TOTALS = {
    "load": Metric("ranker_load_seconds_total", "counter", "Seconds of CPU of a top-k worker."),
    "updates": Metric("ranker_updates_total", "counter", "Updates that a top-k worker gave."),
}
RANKER_NOW = {
    "lag": Metric("ranker_lag_seconds", "gauge", "Seconds until a top-k worker had its answers."),
    "rows": Metric("ranker_subscriptions", "gauge", "Subscriptions of a top-k worker."),
    "bytes": Metric("ranker_bytes", "gauge", "Bytes that a top-k worker holds."),
}


def all_metrics() -> list[Metric]:
    """All metrics, for the documentation."""
    single = [BATCHES, LAST_BATCH, PLAN, COMMITTED, STEPS, TRIGGER, MOVES, CELLS_LEFT, BALANCE]
    kinds = (
        BATCH_TOTALS, NOW, MOVED_TOTALS, WORKER_TOTALS, WORKER_NOW, RANKER_TOTALS, RANKER_NOW,
    )  # fmt: skip
    return [*single, *(metric for kind in kinds for metric in kind.values())]


class PipelineMetrics:
    """Adds up the reports of batches since it was made, as Prometheus expects of counters."""

    def __init__(self, reports: Iterable[BatchReport] = ()) -> None:
        self._lock = Lock()
        self._batches = 0
        self._totals = dict.fromkeys(BATCH_TOTALS, 0)
        self._workers = _Workers(WORKER_TOTALS, WORKER_NOW)
        self._rankers = _Workers(RANKER_TOTALS, RANKER_NOW)
        self._moves, self._left = 0, 0
        self._moved = dict.fromkeys(MOVED_TOTALS, 0)
        self._last: BatchReport | None = None
        self._trigger: dict[str, float] = {}
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
        with self._lock:
            return "".join(self._lines())

    def _lines(self) -> Iterable[str]:
        yield from _family(BATCHES, {"": self._batches})
        for name, metric in BATCH_TOTALS.items():
            yield from _family(metric, {"": self._totals[name]})
        if self._last is not None:
            yield from _family(LAST_BATCH, {"": self._last.batch})
            yield from _family(PLAN, {"": self._last.plan})
            yield from _family(MOVES, {"": self._moves})
            for name, metric in MOVED_TOTALS.items():
                yield from _family(metric, {"": self._moved[name]})
            yield from _family(CELLS_LEFT, {"": self._left})
            yield from _family(BALANCE, {"": round(balance(self._last.workers), 4)})
            for name, metric in NOW.items():
                yield from _family(metric, {"": getattr(self._last, name)})
            yield from _family(COMMITTED, {"": self._last.committed_at})
            yield from _family(STEPS, _labelled("step", self._last.seconds))
        if self._trigger:
            yield from _family(TRIGGER, _labelled("step", self._trigger))
        yield from self._workers.lines()
        yield from self._rankers.lines()


class _Workers:
    """Totals of the workers of one kind, and their current sizes."""

    def __init__(self, totals: Mapping[str, Metric], now: Mapping[str, Metric]) -> None:
        self._metrics = totals, now
        self._totals: dict[int, dict[str, float]] = {}
        self._now: dict[int, WorkerReport] = {}

    def observe(self, workers: Iterable[WorkerReport]) -> None:
        """Add what they did in a batch."""
        for worker in workers:
            totals = self._totals.setdefault(worker.worker, dict.fromkeys(self._metrics[0], 0.0))
            for name in totals:
                totals[name] += getattr(worker, name)
        self._now = {worker.worker: worker for worker in workers}

    def lines(self) -> Iterable[str]:
        """Their metrics as lines of text."""
        for name, metric in self._metrics[0].items():
            values = {worker: totals[name] for worker, totals in sorted(self._totals.items())}
            yield from _family(metric, _labelled("worker", values))
        for name, metric in self._metrics[1].items():
            now = {worker: getattr(one, name) for worker, one in sorted(self._now.items())}
            yield from _family(metric, _labelled("worker", now))


def _labelled(label: str, values: Mapping[str, float] | Mapping[int, float]) -> dict[str, float]:
    return {f'{{{label}="{_escaped(str(name))}"}}': value for name, value in values.items()}


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")


def _family(metric: Metric, samples: Mapping[str, float]) -> Iterable[str]:
    if not samples:
        return
    name = _PREFIX + metric.name
    yield f"# HELP {name} {metric.help}\n# TYPE {name} {metric.kind}\n"
    for labels, value in samples.items():
        yield f"{name}{labels} {value!r}\n"
