"""Traces and metrics of a server by OpenTelemetry; imported only where they are configured."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import entry_points
from time import monotonic
from typing import TYPE_CHECKING, Any

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.propagate import extract
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    StatusCode,
    get_current_span,
    set_span_in_context,
)
from starlette.types import Scope

from nearcast._version import __version__
from nearcast.errors import InvalidValue
from nearcast.server.telemetry import Telemetry

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry, Metric

_CONTEXT = (b"traceparent", b"tracestate")
_STREAMS = ("/v1/updates", "/v1/live")
_FRESH_S = 0.5
_OTLP = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


class OtelTelemetry(Telemetry):
    """Reports spans and metrics to the providers of OpenTelemetry."""

    def __init__(
        self, tracers: TracerProvider | None = None, meters: MeterProvider | None = None
    ) -> None:
        self._tracers = tracers
        self._meters = meters
        self._tracer = (tracers or TracerProvider()).get_tracer("nearcast", __version__)
        self.has_metrics = meters is not None

    @contextmanager
    def request(self, scope: Scope) -> Iterator[Callable[[int], None]]:
        """A span for a request, below that of the client; streams, which do not end, have none."""
        if scope["path"] in _STREAMS or self._tracers is None:
            yield lambda _: None
            return
        given = {key.decode(): value.decode("latin-1") for key, value in _traced(scope)}
        with self._tracer.start_as_current_span(
            scope["method"],
            extract(given),
            SpanKind.SERVER,
            {"http.request.method": scope["method"], "url.path": scope["path"]},
        ) as span:

            def answered(status: int) -> None:
                route = getattr(scope.get("route"), "path", None)
                if route is not None:
                    span.update_name(f"{scope['method']} {route}")
                    span.set_attribute("http.route", route)
                span.set_attribute("http.response.status_code", status)
                if status >= 500:
                    span.set_status(StatusCode.ERROR)

            yield answered

    def origin(self) -> object:
        """The span of the request that is handled now, for the batch that it will be part of."""
        return get_current_span().get_span_context()

    @contextmanager
    def batch(self, origins: Sequence[object], events: int) -> Iterator[object]:
        """A span for events that are applied together, linked to those of their requests.

        One that serves one request is a part of that request's.
        """
        known = [each for each in origins if isinstance(each, SpanContext) and each.is_valid]
        above = _below(known[0]) if len(known) == 1 else None
        links = [Link(each) for each in known] if above is None else []
        with self._tracer.start_as_current_span(
            "nearcast.batch", above, links=links, attributes={"nearcast.events": events}
        ) as span:
            yield span.get_span_context()

    @contextmanager
    def delivery(self, origin: object, updates: int) -> Iterator[None]:
        """A span for offering the updates of a batch to those who listen, below the batch's."""
        above = _below(origin) if isinstance(origin, SpanContext) else None
        with self._tracer.start_as_current_span(
            "nearcast.deliver", above, attributes={"nearcast.updates": updates}
        ):
            yield

    @contextmanager
    def post(self, tenant: str, subscription: str) -> Iterator[None]:
        """A span for a post to a webhook; it is a part of no request."""
        about = {"nearcast.tenant": tenant, "nearcast.subscription": subscription}
        with self._tracer.start_as_current_span(
            "nearcast.webhook", Context(), kind=SpanKind.CLIENT, attributes=about
        ):
            yield

    def observe(self, registry: CollectorRegistry) -> None:
        """Report the metrics of a server from now on."""
        if self._meters is not None:
            _ObservedRegistry(registry).install(self._meters)

    def close(self) -> None:
        """Send what is left."""
        for provider in (self._tracers, self._meters):
            if provider is not None:
                provider.shutdown()


def _traced(scope: Scope) -> Iterator[tuple[bytes, bytes]]:
    return ((key, value) for key, value in scope["headers"] if key in _CONTEXT)


def _below(context: SpanContext) -> Any:
    return set_span_in_context(NonRecordingSpan(context))


class _ObservedRegistry:
    """Reads the metrics that Prometheus gets; histograms as their counts and sums."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self._read = -_FRESH_S
        self._samples: dict[str, list[Observation]] = {}

    def install(self, provider: MeterProvider) -> None:
        """Make an instrument for each metric."""
        meter = provider.get_meter("nearcast", __version__)
        for family in self._registry.collect():
            if family.type == "gauge":
                reading = self._reading(family.name)
                meter.create_observable_gauge(family.name, [reading], "", family.documentation)
            for ending in _endings(family):
                reading = self._reading(family.name + ending)
                name = f"{family.name}{ending.removesuffix('_total')}"
                meter.create_observable_counter(name, [reading], "", family.documentation)

    def _reading(self, name: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
        def read(_: CallbackOptions) -> Iterable[Observation]:
            if monotonic() - self._read >= _FRESH_S:  # once for all instruments
                self._read = monotonic()
                self._samples = {}
                for family in self._registry.collect():
                    for sample in family.samples:
                        found = Observation(sample.value, sample.labels)
                        self._samples.setdefault(sample.name, []).append(found)
            return self._samples.get(name, [])

        return read


def _endings(family: Metric) -> tuple[str, ...]:
    return {"counter": ("_total",), "histogram": ("_count", "_sum")}.get(family.type, ())


def telemetry_from(environment: Mapping[str, str]) -> OtelTelemetry:
    """Set up what the standard variables of OpenTelemetry ask for."""
    named = {} if environment.get("OTEL_SERVICE_NAME") else {"service.name": "nearcast"}
    resource = Resource.create({"service.version": __version__, **named})
    traces, metrics = (_exporter(environment, signal) for signal in ("TRACES", "METRICS"))
    tracers = meters = None
    if traces is not None:
        tracers = TracerProvider(resource=resource)
        tracers.add_span_processor(BatchSpanProcessor(traces))
    if metrics is not None:
        meters = MeterProvider([PeriodicExportingMetricReader(metrics)], resource)
    return OtelTelemetry(tracers, meters)


def _exporter(environment: Mapping[str, str], signal: str) -> Any:
    """The exporter that a variable names, of those that are installed; None if there is none."""
    variable = f"OTEL_{signal}_EXPORTER"
    endpoints = ("OTEL_EXPORTER_OTLP_ENDPOINT", f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT")
    has_endpoint = any(environment.get(name) for name in endpoints)
    given = environment.get(variable) or ("otlp" if has_endpoint else "none")
    if given == "none":
        return None
    protocol = environment.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    name = _OTLP.get(protocol, protocol) if given == "otlp" else given
    group = f"opentelemetry_{signal.lower()}_exporter"
    for found in entry_points(group=group, name=name):
        return found.load()()
    known = ", ".join(sorted({each.name for each in entry_points(group=group)}))
    raise InvalidValue(variable, given, f"an exporter that is installed: {known}, or none")
