"""Traces and metrics by OpenTelemetry: linked as things happened, and absent unless asked for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import pytest

from nearcast.errors import InvalidValue
from nearcast.server.telemetry import is_configured
from patience import wait_until
from served import IPAD, SALE, serving
from webhook_receiver import receiving

sdk = pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.metrics import MeterProvider  # noqa: E402 - only if it can be
from opentelemetry.sdk.metrics.export import InMemoryMetricReader  # noqa: E402
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider  # noqa: E402
from opentelemetry.sdk.trace.export import SimpleSpanProcessor  # noqa: E402
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (  # noqa: E402
    InMemorySpanExporter,
)

from nearcast.server.otel import OtelTelemetry, telemetry_from  # noqa: E402

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def named(spans: Sequence[ReadableSpan], name: str) -> list[ReadableSpan]:
    return [span for span in spans if span.name == name]


def test_a_request_its_batch_and_its_delivery_are_one_trace() -> None:
    exporter = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    with receiving() as receiver:
        with serving(telemetry=OtelTelemetry(tracers), private_webhooks=True) as server:
            server.http.put("/v1/subscriptions/s1", json=IPAD)
            server.http.put("/v1/subscriptions/s1/webhook", json={"url": receiver.url})
            exporter.clear()
            server.post("/v1/messages", SALE, headers={"traceparent": PARENT})
            receiver.wait_for(1)
            assert server.post("/v1/messages", {}).status_code == 422
            wait_until(lambda: named(exporter.get_finished_spans(), "nearcast.webhook"), "the post")
        spans = exporter.get_finished_spans()
    first, second = named(spans, "POST /v1/messages")
    assert first.context is not None
    assert first.parent is not None
    assert f"{first.context.trace_id:032x}" == TRACE
    assert f"{first.parent.span_id:016x}" == "00f067aa0ba902b7"
    assert first.attributes is not None
    assert second.attributes is not None
    assert first.attributes["http.route"] == "/v1/messages"
    assert first.attributes["http.response.status_code"] == 200
    assert second.attributes["http.response.status_code"] == 422
    (batch,) = named(spans, "nearcast.batch")
    (delivery,) = named(spans, "nearcast.deliver")
    (post,) = named(spans, "nearcast.webhook")
    assert batch.parent == first.context
    assert delivery.parent == batch.context
    assert dict(batch.attributes or {}) == {"nearcast.events": 1}
    assert dict(delivery.attributes or {}) == {"nearcast.updates": 1}
    assert dict(post.attributes or {}) == {
        "nearcast.tenant": "default",
        "nearcast.subscription": "s1",
    }
    assert post.parent is None


def test_a_batch_of_many_requests_is_linked_to_each() -> None:
    exporter = InMemorySpanExporter()
    tracers = TracerProvider()
    tracers.add_span_processor(SimpleSpanProcessor(exporter))
    telemetry = OtelTelemetry(tracers)
    tracer = tracers.get_tracer("test")
    origins = []
    for name in ("one", "two"):
        with tracer.start_as_current_span(name):
            origins.append(telemetry.origin())
    with telemetry.batch([*origins, None], 3):
        pass
    (batch,) = named(exporter.get_finished_spans(), "nearcast.batch")
    assert [link.context for link in batch.links] == origins
    assert batch.parent is None


def test_the_metrics_of_prometheus_are_reported() -> None:
    reader = InMemoryMetricReader()
    telemetry = OtelTelemetry(meters=MeterProvider([reader]))
    with serving(telemetry=telemetry) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        server.post("/v1/messages", SALE)
        server.http.get("/metrics")  # which reads the figures of the engine
        wait_until(lambda: reader.get_metrics_data() is not None, "metrics")
        data = reader.get_metrics_data()
        assert data is not None
        found = {
            metric.name: metric.data.data_points
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }
    values = {name: points[0].value for name, points in found.items() if len(points) == 1}  # type: ignore[union-attr]  # none is a histogram
    assert values["nearcast_publishes"] == 1
    assert values["nearcast_subscriptions"] == 1
    assert values["nearcast_commit_seconds_count"] == 2
    kinds = {point.attributes["kind"] for point in found["nearcast_listeners"] if point.attributes}
    assert kinds == {"updates", "live"}


def test_it_is_configured_by_the_standard_variables() -> None:
    endpoint = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://localhost:4318"}
    assert not is_configured({})
    assert not is_configured({"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_EXPORTER": "none"})
    assert not is_configured(endpoint | {"OTEL_SDK_DISABLED": "true"})
    assert is_configured(endpoint)
    assert is_configured({"OTEL_METRICS_EXPORTER": "console"})
    made = telemetry_from({"OTEL_TRACES_EXPORTER": "console"})
    assert not made.has_metrics
    made.close()
    with pytest.raises(InvalidValue, match="OTEL_TRACES_EXPORTER"):
        telemetry_from({"OTEL_TRACES_EXPORTER": "telegraph"})


def test_nothing_of_it_is_imported_unless_it_is_configured() -> None:
    check = (
        "import sys, nearcast.server.run, nearcast.cli.serve as serve; serve._telemetry();"
        "sys.exit(bool({'opentelemetry.sdk', 'nearcast.server.otel'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", check], check=False).returncode == 0
