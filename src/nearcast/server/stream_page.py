"""A live page of a stream on Spark, built from the files of its state.

It only reads them: the stream may run on this machine, on another, or not at all.
"""

from __future__ import annotations

from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from threading import Thread
from typing import Any

import msgspec

from nearcast.errors import InvalidValue, NearcastError
from nearcast.partition.adjust.versions import differing, may_follow
from nearcast.partition.draw import hex_of, main_workers, worker_colours
from nearcast.partition.plan import Plan
from nearcast.spark.driver.state import PipelineState, open_state
from nearcast.spark.reports.report import BatchReport, balance, read_report, reported_batches

_WEB = files("nearcast.server") / "web"
_KINDS = {"html": "text/html", "js": "text/javascript", "json": "application/json",
          "svg": "image/svg+xml"}  # fmt: skip
_SERVED = {"/": "stream.html", "/js/cells.js": "js/cells.js", "/icon.svg": "icon.svg",
           "/basemap/world.json": "basemap/world.json"}  # fmt: skip
_BATCHES = 60


class StreamStatus:
    """The status of a stream for its page; reports are read once and then cached."""

    def __init__(self, path: str) -> None:
        self._state: PipelineState = open_state(path)
        self._path = path
        self._reports: dict[int, BatchReport] = {}
        self._plan: Plan | None = None

    def as_json(self) -> dict[str, Any]:
        """The status as JSON values."""
        numbers = reported_batches(self._path)[-_BATCHES:]
        self._reports = {
            number: self._reports.get(number) or read_report(self._path, number)
            for number in numbers
        }
        reports = list(self._reports.values())
        last = reports[-1] if reports else None
        plan = self._plan_of(last)
        workers = 0 if plan is None else plan.workers
        target = self._state.target()
        left = 0
        if plan is not None and target is not None and may_follow(plan, target):
            left = len(differing(plan, target))
        return {
            "state": self._path,
            "kind": "none" if plan is None else plan.kind,
            "grid": [-180, -90, 180, 90, 1, 1] if plan is None else list(plan.grid),
            "plan": 0 if plan is None else plan.number,
            "workers": workers,
            "colours": [hex_of(colour) for colour in worker_colours(max(workers, 1))],
            "cells": _cells(plan),
            "batch": 0 if last is None else last.batch,
            "balance": 1.0 if last is None else balance(last.workers),
            "left": left,
            "batches": [
                {"batch": one.batch, "loads": _loads(one, workers)} for one in reports
            ],
            "moves": [
                msgspec.to_builtins(one.moved)
                | {"batch": one.batch, "plan": one.plan, "seconds": one.total_s}
                for one in reversed(reports)
                if one.moved is not None
            ],
        }  # fmt: skip

    def _plan_of(self, last: BatchReport | None) -> Plan | None:
        if last is not None and (self._plan is None or self._plan.number != last.plan):
            self._plan = self._state.plan(last.plan)
        return self._plan


def _cells(plan: Plan | None) -> list[list[int]]:
    """The workers of each cell."""
    if plan is None or plan.kind != "grid":
        return []
    shared = [sorted(main_workers(each)) for each in plan.maps]
    return [[code] if code >= 0 else shared[-1 - code] for code in plan.cell_worker.tolist()]


def _loads(report: BatchReport, workers: int) -> list[float]:
    loads = [0.0] * workers
    for one in report.workers:
        if one.worker < workers:
            loads[one.worker] += one.load
    return loads


class _PageHandler(BaseHTTPRequestHandler):
    server: _PageServer

    def do_GET(self) -> None:
        """Serve the page, its files, and the status of the stream."""
        path = self.path.partition("?")[0]
        if path == "/stream.json":
            try:
                self._send("application/json", msgspec.json.encode(self.server.status.as_json()))
            except (
                NearcastError,
                OSError,
            ) as error:  # the state is being changed; the page asks again
                self.send_error(503, type(error).__name__)
        elif path in _SERVED:
            name = _SERVED[path]
            kind = _KINDS[name.rpartition(".")[2]]
            self._send(f"{kind}; charset=utf-8", (_WEB / name).read_bytes())
        else:
            self.send_error(404)

    def _send(self, kind: str, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep quiet: a page asks every second."""


class _PageServer(ThreadingHTTPServer):
    daemon_threads = True
    status: StreamStatus


class StreamPage:
    """Serves the page at `http://host:port/` until it is closed; port 0 takes any free one."""

    def __init__(self, path: str, port: int = 0, host: str = "127.0.0.1") -> None:
        status = StreamStatus(path)
        try:
            self._server = _PageServer((host, port), _PageHandler)
        except (OSError, OverflowError) as error:
            raise InvalidValue("port", port, f"a port that is free on {host} ({error})") from None
        self._server.status = status
        self.port: int = self._server.server_address[1]
        self._thread = Thread(target=self._server.serve_forever, name="page", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
