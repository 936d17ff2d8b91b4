"""How soon listeners hear of messages at a steady rate, with and without slow ones among them.

There is one subscription for each listener, and every message concerns one of them. The time is
cut into rounds. In every second round two more listeners ask for all updates: one reads nothing,
the other one byte a second.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Protocol, TypedDict

from nearcast_lab.bench.http_load import LINES, EventListener, RequestConnection, flat_out, post

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_ROUNDS = 6
_HOST = "127.0.0.1"


class Latency(TypedDict):
    """From sending a message until a listener has heard of it."""

    rate: float
    listeners: int
    heard: int
    missed: int
    p50_ms: float
    p99_ms: float
    max_ms: float


class MessageSource(Protocol):
    """Where messages come from."""

    def with_word(self, word: str) -> bytes:
        """A message, as JSON that begins with its id, with a word of its own."""
        ...


@dataclass(frozen=True)
class ListeningSetup:
    """What to measure: listeners, messages a second, seconds, connections of publishers."""

    listeners: int
    rate: float
    seconds: float
    connections: int
    resident_mib: Callable[[], float]


@dataclass(frozen=True)
class ListeningResult:
    """Latencies of both kinds of rounds, and the server's memory after each round."""

    alone: Latency
    beside_slow: Latency
    mib: list[float]


async def listen(port: int, messages: MessageSource, plan: ListeningSetup) -> ListeningResult:
    """Connect all listeners, and time them in rounds."""
    world = b'{"id":"ear%d","query":"earword%d","region":{"type":"Box","bbox":[-180,-90,180,90]}}'
    body = b"\n".join(world % (number, number) for number in range(plan.listeners))
    await flat_out(_HOST, port, 1, iter([post("/v1/subscriptions", body, LINES)]))
    rounds = [_ListeningRounds(), _ListeningRounds()]
    current = [rounds[0]]
    mib = []
    async with _ears(port, plan.listeners, lambda *heard: current[0].hear(*heard)):
        sender = Sender(port, plan.connections)
        await sender.connect()
        words = _words(plan.listeners)
        for number in range(_ROUNDS):
            current[0] = rounds[number % 2]
            async with _slow(port, number % 2 == 1):
                await current[0].run(plan, sender, messages, words)
            mib.append(plan.resident_mib())
        sender.close()
    alone, beside_slow = (each.latency(plan) for each in rounds)
    return ListeningResult(alone, beside_slow, mib)


def _words(listeners: int) -> Iterator[str]:
    while True:
        yield from (f"earword{number}" for number in range(listeners))


@dataclass
class _ListeningRounds:
    """All rounds of one kind together."""

    waiting: dict[bytes, float] = field(default_factory=dict)
    heard: list[float] = field(default_factory=list)
    sent: int = 0
    took: float = 0.0

    def hear(self, event: bytes, now: float) -> None:
        start = event.find(b'"message":"') + 11
        then = self.waiting.pop(event[start : event.index(b'"', start)], None)
        if then is not None:
            self.heard.append(now - then)

    async def run(
        self, plan: ListeningSetup, sender: Sender, messages: MessageSource, words: Iterator[str]
    ) -> None:
        total, started = int(plan.rate * plan.seconds / _ROUNDS), perf_counter()
        for number in range(total):
            early = started + number / plan.rate - perf_counter()
            if early > 0.0005:
                await asyncio.sleep(early)
            message = messages.with_word(next(words))
            self.waiting[message[7 : message.index(b'"', 7)]] = perf_counter()
            sender.send(post("/v1/messages", message))
        self.sent += total
        self.took += max(total / plan.rate, perf_counter() - started)
        for _ in range(100):
            if not self.waiting:
                break
            await asyncio.sleep(0.05)

    def latency(self, plan: ListeningSetup) -> Latency:
        self.heard.sort()
        return Latency(
            rate=self.sent / self.took if self.took else 0.0,
            listeners=plan.listeners,
            heard=len(self.heard),
            missed=len(self.waiting),
            p50_ms=at(self.heard, 0.5),
            p99_ms=at(self.heard, 0.99),
            max_ms=at(self.heard, 1.0),
        )


@asynccontextmanager
async def _ears(
    port: int, listeners: int, hear: Callable[[bytes, float], None]
) -> AsyncIterator[None]:
    loop, ears = asyncio.get_running_loop(), []
    for number in range(listeners):
        path = f"/v1/updates?subscription=ear{number}"
        _, ear = await loop.create_connection(
            lambda path=path: EventListener(path, hear),  # type: ignore[misc]  # bound on purpose
            _HOST,
            port,
        )
        await ear.ready
        ears.append(ear)
    yield
    for ear in ears:
        ear.close()


@asynccontextmanager
async def _slow(port: int, wanted: bool) -> AsyncIterator[None]:
    """Two listeners to everything: one reads nothing, the other one byte a second."""
    if not wanted:
        yield
        return
    with closing(_asking(port)), closing(_asking(port)) as drop_by_drop:
        reading = asyncio.create_task(_read_slowly(drop_by_drop))
        yield
        reading.cancel()


def _asking(port: int) -> socket.socket:
    asking = socket.create_connection((_HOST, port))
    asking.sendall(b"GET /v1/updates HTTP/1.1\r\nHost: localhost\r\n\r\n")
    asking.setblocking(False)
    return asking


async def _read_slowly(asking: socket.socket) -> None:
    while await asyncio.get_running_loop().sock_recv(asking, 1):
        await asyncio.sleep(1.0)


class Sender:
    """Sends requests at the time they are due, over whichever connection is free."""

    def __init__(self, port: int, connections: int) -> None:
        self._port = port
        self._connections = connections
        self._free: list[asyncio.Transport] = []
        self._all: list[asyncio.Transport] = []
        self._waiting: list[bytes] = []

    async def connect(self) -> None:
        """Open the connections."""
        loop = asyncio.get_running_loop()
        for _ in range(self._connections):
            transport, _ = await loop.create_connection(
                lambda: _Answers(self._answered), _HOST, self._port
            )
            self._free.append(transport)
            self._all.append(transport)

    def send(self, request: bytes) -> None:
        """Send now, or as soon as an answer has come."""
        if self._free:
            self._free.pop().write(request)
        else:
            self._waiting.append(request)

    def _answered(self, transport: asyncio.Transport) -> None:
        if self._waiting:
            transport.write(self._waiting.pop(0))
        else:
            self._free.append(transport)

    def close(self) -> None:
        """Close the connections."""
        for transport in self._all:
            transport.close()


class _Answers(RequestConnection):
    """A connection whose answers are only waited for."""

    def __init__(self, answered: Callable[[asyncio.Transport], None]) -> None:
        super().__init__(iter(()))
        self._answered = answered

    def _next(self) -> None:
        if self.latencies and self._transport is not None:
            self._answered(self._transport)


def at(ordered: list[float], part: float) -> float:
    """A quantile of ordered seconds, in milliseconds."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))] * 1e3 if ordered else 0.0
