"""What `nearcast bench serve` measures: a server as a process of its own, under load from here.

Single posts and lines as fast as they are answered, then the time from publishing a message to
hearing of it, with many listeners at a steady rate. The load shares the machine with the server.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, islice
from tempfile import TemporaryDirectory
from time import monotonic, perf_counter
from typing import IO, TypedDict

from nearcast.errors import SetupError, SourceError
from nearcast_lab.bench.http_load import LINES, flat_out, post
from nearcast_lab.bench.processes import cpu_seconds, resident_mib
from nearcast_lab.bench.serve_listening import Latency, ListeningSetup, at, listen
from nearcast_lab.progress import Progress
from nearcast_lab.workloads.registry import array_workload

_LOAD = 10_000  # subscriptions in one request


@dataclass(frozen=True)
class ServeSetup:
    """What to measure, and for how long."""

    subscriptions: int
    listeners: int
    rate: float
    seconds: float
    steady: float
    connections: int
    lines: int
    workload: str
    seed: int


class Rate(TypedDict):
    """Requests or messages a second, and how long an answer took."""

    per_s: float
    failures: int
    updates_per_message: float
    p50_ms: float
    p99_ms: float


class ServeReport(TypedDict):
    """What was measured."""

    subscriptions: int
    workload: str
    seconds: float
    load_per_s: float
    single: Rate
    lines: Rate
    latency: Latency
    latency_beside_slow: Latency
    server_mib_loaded: float
    server_mib_listening: list[float]
    server_mib_after: float
    server_cpu_s: float
    load_cpu_s: float


class EndlessMessages:
    """Messages of a workload as JSON, with ids that never come twice, over and over."""

    def __init__(self, plan: ServeSetup) -> None:
        made = array_workload(plan.workload, seed=plan.seed)
        batch = made.messages(0, 50_000)
        terms, starts = batch.terms.tolist(), batch.starts.tolist()
        self._bodies = [
            b'"text":"%b","point":[%.5f,%.5f]}'
            % (" ".join(f"w{term}" for term in terms[start:stop]).encode(), lon, lat)
            for start, stop, (lon, lat, _, _) in zip(
                starts[:-1], starts[1:], batch.boxes.tolist(), strict=True
            )
        ]
        self._numbers = count()

    def __next__(self) -> bytes:
        number = next(self._numbers)
        return b'{"id":"m%d",%b' % (number, self._bodies[number % len(self._bodies)])

    def with_word(self, word: str) -> bytes:
        """A message that also has a word of its own."""
        return next(self).replace(b'"text":"', b'"text":"%b ' % word.encode(), 1)


def subscription_lines(plan: ServeSetup) -> Iterator[bytes]:
    """The subscriptions of a workload, many lines at a time."""
    made = array_workload(plan.workload, seed=plan.seed)
    for first in range(0, plan.subscriptions, _LOAD):
        some = made.subscriptions(first, min(first + _LOAD, plan.subscriptions))
        terms, starts = some.terms.tolist(), some.starts.tolist()
        lines = [
            b'{"id":"s%d","query":"%b","region":{"type":"Box","bbox":[%.5f,%.5f,%.5f,%.5f]}}\n'
            % (
                number,
                " ".join(f"w{term}" for term in terms[start:stop]).encode(),
                *(box),
            )
            for number, start, stop, box in zip(
                count(first), starts[:-1], starts[1:], some.boxes.tolist(), strict=False
            )
        ]
        yield b"".join(lines)


@contextmanager
def server_process(data: str) -> Iterator[tuple[int, int]]:
    """A server with its own process on a free port; gives the process and the port."""
    command = [sys.executable, "-m", "nearcast", "serve", "--port", "0", "--data", data]
    command += ["--log-level", "error"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE)  # noqa: S603 - our own command
    assert process.stderr is not None  # noqa: S101 - it was asked for
    try:
        yield process.pid, _port(process.stderr)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stderr.close()


def _port(said: IO[bytes]) -> int:
    for line in said:
        found = re.search(rb"http://127\.0\.0\.1:(\d+)/", line)
        if found:
            return int(found.group(1))
    raise SetupError("the server did not start; try 'nearcast serve' to see why")


def measure_serve(plan: ServeSetup, progress: Progress) -> ServeReport:
    """Start a server, load it, measure it."""
    with TemporaryDirectory(prefix="nearcast-bench-") as data, server_process(data) as (pid, port):
        gc.disable()  # a pause of the one who measures would look like one of the server
        try:
            return asyncio.run(_Bench(plan, progress, pid, port).run())
        finally:
            gc.enable()


class _Bench:
    def __init__(self, plan: ServeSetup, progress: Progress, pid: int, port: int) -> None:
        self._plan, self._progress, self._pid, self._port = plan, progress, pid, port
        self._messages = EndlessMessages(plan)

    async def run(self) -> ServeReport:
        plan = self._plan
        await self._wait_until_ready()
        self._progress(f"loading {plan.subscriptions:,} subscriptions")
        started = perf_counter()
        requests = (post("/v1/subscriptions", body, LINES) for body in subscription_lines(plan))
        (loader,) = await flat_out("127.0.0.1", self._port, 1, requests)
        if loader.failures:
            raise SourceError(f"the server refused: {loader.answers[0].decode()}")
        load_s = perf_counter() - started
        loaded = resident_mib(self._pid)
        before, own = cpu_seconds(self._pid), cpu_seconds(os.getpid())
        self._progress("single posts")
        single = await self._post(self._single(), plan.connections, 1)
        self._progress("lines")
        lines = await self._post(self._many(), 2, plan.lines)
        self._progress(f"{plan.listeners:,} listeners")
        heard = await listen(self._port, self._messages, self._listening())
        return ServeReport(
            subscriptions=plan.subscriptions,
            workload=plan.workload,
            seconds=plan.seconds,
            load_per_s=plan.subscriptions / load_s,
            single=single,
            lines=lines,
            latency=heard.alone,
            latency_beside_slow=heard.beside_slow,
            server_mib_loaded=loaded,
            server_mib_listening=heard.mib,
            server_mib_after=resident_mib(self._pid),
            server_cpu_s=cpu_seconds(self._pid) - before,
            load_cpu_s=cpu_seconds(os.getpid()) - own,
        )

    def _listening(self) -> ListeningSetup:
        plan = self._plan
        return ListeningSetup(
            plan.listeners,
            plan.rate,
            plan.steady,
            plan.connections,
            lambda: resident_mib(self._pid),
        )

    async def _wait_until_ready(self) -> None:
        get = b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n"
        for _ in range(600):
            (poster,) = await flat_out("127.0.0.1", self._port, 1, iter([get]))
            if not poster.failures:
                return
            await asyncio.sleep(0.1)
        raise SetupError("the server was not ready within a minute")

    def _for_a_while(self) -> Iterator[None]:
        end = monotonic() + self._plan.seconds
        while monotonic() < end:
            yield None

    def _single(self) -> Iterator[bytes]:
        return (post("/v1/messages", next(self._messages)) for _ in self._for_a_while())

    def _many(self) -> Iterator[bytes]:
        count = self._plan.lines
        for _ in self._for_a_while():
            body = b"\n".join(islice(iter(self._messages.__next__, None), count))
            yield post("/v1/messages", body, LINES)

    async def _post(self, requests: Iterator[bytes], connections: int, each: int) -> Rate:
        started = perf_counter()
        before = await self._updates()
        posters = await flat_out("127.0.0.1", self._port, connections, requests)
        seconds = perf_counter() - started
        latencies = sorted(latency for poster in posters for latency in poster.latencies)
        sent = len(latencies) * each
        return Rate(
            per_s=sent / seconds,
            failures=sum(poster.failures for poster in posters),
            updates_per_message=(await self._updates() - before) / max(1, sent),
            p50_ms=at(latencies, 0.5),
            p99_ms=at(latencies, 0.99),
        )

    async def _updates(self) -> float:
        get = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
        (poster,) = await flat_out("127.0.0.1", self._port, 1, iter([get]))
        found = re.search(rb"\nnearcast_updates_total (\S+)", poster.answers[0])
        return float(found.group(1)) if found else 0.0
