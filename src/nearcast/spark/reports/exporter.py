"""Serves the metrics of a stream over HTTP, for Prometheus."""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from nearcast.errors import InvalidValue
from nearcast.spark.reports.metrics import CONTENT_TYPE, PipelineMetrics


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        """Answer with the metrics."""
        if self.path.partition("?")[0] != "/metrics":
            self.send_error(404, "only /metrics is here")
            return
        body = self.server.metrics.exposition().encode()
        self.send_response(200)
        self.send_header("Content-Type", CONTENT_TYPE)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing, because metrics are fetched often."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    metrics: PipelineMetrics


class Exporter:
    """Answers at `http://host:port/metrics` until it is closed; port 0 takes any free one."""

    def __init__(self, metrics: PipelineMetrics, port: int, host: str = "127.0.0.1") -> None:
        try:
            self._server = _Server((host, port), _Handler)
        except (OSError, OverflowError) as error:
            raise InvalidValue(
                "metrics port", port, f"a port that is free on {host} ({error})"
            ) from None
        self._server.metrics = metrics
        self.port: int = self._server.server_address[1]
        self._thread = Thread(target=self._server.serve_forever, name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
