"""Counters, gauges and histograms of a server for Prometheus."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.metrics_core import CounterMetricFamily
from prometheus_client.registry import Collector

from nearcast.events import Publish
from nearcast.server.backend import CommittedBatch

if TYPE_CHECKING:
    from nearcast.server.state import ServerState

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)
_EVENTS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 4096)


class ServerMetrics:
    """The metrics of a server: some are counted as events happen, others read on request."""

    def __init__(self, state: ServerState) -> None:
        self.registry = CollectorRegistry()
        registry = self.registry
        self.publishes = Counter(
            "nearcast_publishes", "Messages that were published.", registry=registry
        )
        self.updates = Counter(
            "nearcast_updates", "Updates that events have caused.", registry=registry
        )
        self.refused = Counter(
            "nearcast_events_refused",
            "Events that did not fit what went before them.",
            registry=registry,
        )
        self.batches = Histogram(
            "nearcast_batch_events",
            "Events that were matched and committed together.",
            buckets=_EVENTS,
            registry=registry,
        )
        self.commits = Histogram(
            "nearcast_commit_seconds",
            "How long a batch takes to be matched and committed.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.requests = Histogram(
            "nearcast_request_seconds",
            "How long requests take, streams aside.",
            ("method", "route", "status"),
            buckets=_SECONDS,
            registry=registry,
        )
        self.lag = Histogram(
            "nearcast_delivery_lag_seconds",
            "From the commit of an update until it is handed to the connection of a listener.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.overflows = Counter(
            "nearcast_listener_overflows",
            "Times that a listener did not keep up and went on from the log.",
            registry=registry,
        )
        registry.register(_StateCollector(state))

    def committed(self, batch: CommittedBatch) -> None:
        """Count a batch."""
        updates = refused = published = 0
        for event, outcome in zip(batch.events, batch.outcomes, strict=True):
            if outcome.error is not None:
                refused += 1
                continue
            updates += len(outcome.updates)
            published += isinstance(event, Publish)
        self.batches.observe(len(batch.events))
        self.commits.observe(batch.seconds)
        self.publishes.inc(published)
        self.updates.inc(updates)
        if refused:
            self.refused.inc(refused)

    def page(self) -> bytes:
        """All metrics in the text format of Prometheus."""
        return generate_latest(self.registry)


class _StateCollector(Collector):
    """Reads gauges and totals from the state of the server on each request."""

    def __init__(self, state: ServerState) -> None:
        self._state = state

    def collect(self) -> Iterator[Metric]:
        """Yield the current values."""
        state = self._state
        tenants = list(state.tenants)
        figures = [tenant.figures for tenant in tenants]

        def total(name: str) -> float:
            return sum(each.get(name, 0.0) for each in figures)

        queue = sum(tenant.backend.waiting for tenant in tenants)
        held = sum(tenant.backend.waiting_bytes for tenant in tenants)
        yield _gauge("nearcast_ready", "Whether requests are answered.", float(state.ready))
        yield _gauge("nearcast_tenants", "Tenants that are open.", len(tenants))
        yield _gauge("nearcast_subscriptions", "Subscriptions.", total("subscriptions"))
        yield _gauge("nearcast_index_bytes", "Memory of index and table.", total("bytes"))
        yield _gauge("nearcast_queue_depth", "Requests that wait for the writer.", queue)
        yield _gauge("nearcast_queue_bytes", "Bytes of the bodies of these requests.", held)
        commits, seconds = state.pair.lag()
        role = state.role
        accepts = float(role.is_primary and role.is_checked)
        yield _gauge("nearcast_accepts_changes", "Whether this is the primary.", accepts)
        yield _gauge("nearcast_term", "The number of the latest promotion.", role.record.term)
        yield _gauge(
            "nearcast_standby_connected",
            "Whether the other server of a pair is connected.",
            float(state.pair.connected()),
        )
        yield _gauge("nearcast_standby_lag_commits", "What the standby has not got.", commits)
        yield _gauge("nearcast_standby_lag_seconds", "For how long it has not.", seconds)
        listeners = GaugeMetricFamily(
            "nearcast_listeners", "Connections that listen.", labels=["kind"]
        )
        listeners.add_metric(["updates"], sum(len(tenant.hub) for tenant in tenants))
        listeners.add_metric(["live"], sum(len(tenant.live) for tenant in tenants))
        yield listeners
        waiting = sum(tenant.hub.queued() for tenant in tenants)
        yield _gauge("nearcast_delivery_queue_bytes", "Bytes queued for listeners.", waiting)
        yield _counter(
            "nearcast_candidates",
            "Subscriptions that the index looked at; over nearcast_publishes, those of a match.",
            total("candidates"),
        )
        broad = GaugeMetricFamily(
            "nearcast_broad_alternatives",
            "Alternatives of queries that nothing narrows down: found by place, or by a property.",
            labels=["found_by"],
        )
        broad.add_metric(["place"], total("found_by_place"))
        broad.add_metric(["property"], total("found_by_property"))
        yield broad
        closed = CounterMetricFamily(
            "nearcast_connections_closed",
            "Connections that were not served: too many, or a request that did not arrive.",
            labels=["reason"],
        )
        closed.add_metric(["full"], state.connections.refused)
        closed.add_metric(["slow"], state.connections.slow)
        yield closed
        commits, seconds = state.archive.lag()
        yield _gauge("nearcast_archive_lag_commits", "Commits not in the archive.", commits)
        yield _gauge("nearcast_archive_lag_seconds", "For how long they are not.", seconds)
        failures = state.archive.failures
        yield _counter("nearcast_archive_failures", "Failures to write the archive.", failures)
        yield from _quotas(state)
        dispatcher = state.dispatcher
        posts = CounterMetricFamily(
            "nearcast_webhook_posts", "Posts to webhooks.", labels=["result"]
        )
        posts.add_metric(["delivered"], dispatcher.delivered)
        posts.add_metric(["failed"], dispatcher.failed)
        yield posts
        yield _counter("nearcast_dead_letters", "Updates that were given up.", dispatcher.dead)


def _quotas(state: ServerState) -> Iterator[Metric]:
    """The quotas of the tenants that have any, how much of them is used, and what they refused."""
    labels = ["tenant", "quota"]
    most = GaugeMetricFamily("nearcast_quota_limit", "The most a tenant may have.", labels=labels)
    used = GaugeMetricFamily("nearcast_quota_used", "How much of it is used.", labels=labels)
    refused = CounterMetricFamily(
        "nearcast_quota_refused", "What was refused because of a quota.", labels=labels
    )
    for quotas in state.quotas:
        tenant = state.tenants.find(quotas.tenant)
        levels = {} if tenant is None else tenant.used()
        for quota, limit in quotas.limits.items():
            labelled = [quotas.tenant, quota]
            most.add_metric(labelled, limit)
            refused.add_metric(labelled, quotas.refused[quota])
            if quota in levels:
                used.add_metric(labelled, levels[quota])
    yield from (most, used, refused)


def _gauge(name: str, text: str, value: float) -> Metric:
    family = GaugeMetricFamily(name, text)
    family.add_metric([], value)
    return family


def _counter(name: str, text: str, value: float) -> Metric:
    family = CounterMetricFamily(name, text)
    family.add_metric([], value)
    return family
