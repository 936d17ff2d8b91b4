"""Traces and metrics for OpenTelemetry, if the environment asks for them; nothing otherwise.

A request, the batch that it was applied with, the delivery of the batch's updates and each post to
a webhook are spans. Its packages are imported only where it is configured.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from starlette.types import Scope

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

_ENDPOINTS = (
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
_EXPORTERS = ("OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER")
_NOTHING: AbstractContextManager[Any] = nullcontext()
_IGNORED: AbstractContextManager[Callable[[int], None]] = nullcontext(lambda _: None)


def is_configured(environment: Mapping[str, str]) -> bool:
    """Whether one of the standard variables asks for traces or metrics."""
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    exporters = {environment.get(name, "none") for name in _EXPORTERS}
    return exporters - {"none", ""} != set() or any(environment.get(name) for name in _ENDPOINTS)


class Telemetry:
    """Where a server reports what it does: here, nowhere."""

    has_metrics = False

    def request(self, scope: Scope) -> AbstractContextManager[Callable[[int], None]]:
        """A span for a request; the function that it gives is called with the status."""
        del scope
        return _IGNORED

    def origin(self) -> object:
        """The span of the request that is handled now, for the batch that it will be part of."""
        return None

    def batch(self, origins: Sequence[object], events: int) -> AbstractContextManager[Any]:
        """A span for events that are applied together, linked to those of their requests."""
        del origins, events
        return _NOTHING

    def delivery(self, origin: object, updates: int) -> AbstractContextManager[Any]:
        """A span for offering the updates of a batch to those who listen."""
        del origin, updates
        return _NOTHING

    def post(self, tenant: str, subscription: str) -> AbstractContextManager[Any]:
        """A span for a post to a webhook."""
        del tenant, subscription
        return _NOTHING

    def observe(self, registry: CollectorRegistry) -> None:
        """Report the metrics of a server from now on."""
        del registry

    def close(self) -> None:
        """Send what is left."""
