"""A real server on a free loopback port, in a thread of the test, and raw connections to it."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from nearcast.server.config import Config
from nearcast.server.logs import set_up_logs
from nearcast.server.run import Server, bound
from nearcast.server.state import ServerState
from patience import PATIENCE_S

IPAD = {
    "query": "ipad",
    "region": {"type": "Circle", "center": [151.2, -33.87], "radius": 2000},
}
SALE = {"text": "iPad sale!", "point": [151.2, -33.87]}
JSON = "application/json"
NDJSON = "application/x-ndjson"


class Served:
    """A running server: its address, its parts, and a client for plain requests."""

    def __init__(self, server: Server, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}"
        self.server = server
        self.state: ServerState = server.state
        self.http = httpx.Client(base_url=self.url, timeout=PATIENCE_S)

    def post(self, path: str, body: Any, **more: Any) -> httpx.Response:
        return self.http.post(path, json=body, **more)

    def lines(self, path: str, body: str, **more: Any) -> httpx.Response:
        headers = {"content-type": NDJSON, **more}
        return self.http.post(path, content=body.encode(), headers=headers)

    def updates(self, after: int = 0, **params: Any) -> list[dict[str, Any]]:
        """What the log of updates has."""
        import msgspec

        answer = self.http.get(
            "/v1/updates", params={"after": after, **params}, headers={"accept": NDJSON}
        )
        assert answer.status_code == 200, answer.text
        return [msgspec.json.decode(line) for line in answer.content.splitlines()]


@contextmanager
def serving(
    data: Path | None = None,
    *,
    port: int = 0,
    setup: Callable[[Server], None] = lambda _: None,
    **options: Any,
) -> Iterator[Served]:
    """Run a server for the time of the block; in memory and without an index unless told."""
    set_up_logs("error")
    config = Config(**{"data": data, "index": "scan"} | options)
    server = Server(config)
    setup(server)
    ready, on_ready = threading.Event(), server.state.on_ready

    def tell() -> None:
        on_ready()
        ready.set()

    server.state.on_ready = tell
    with bound("127.0.0.1", port) as listening:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        served = Served(server, listening.getsockname()[1])
        try:
            assert ready.wait(PATIENCE_S), server.state.trouble
            yield served
        finally:
            served.http.close()
            server.stop()
            thread.join()


def hold_writer(server: Served) -> tuple[Any, threading.Event]:
    """Hold the writer of the default tenant until the event is set; its backend comes with it."""
    backend = server.state.tenants.find("default").backend  # type: ignore[union-attr]
    held, go_on = threading.Event(), threading.Event()

    def hold(_: object) -> None:
        held.set()
        go_on.wait(PATIENCE_S)

    backend._loop.call_soon_threadsafe(backend.ask, hold)
    assert held.wait(PATIENCE_S)
    return backend, go_on


class Ear:
    """A raw connection that listens to Server-Sent Events."""

    def __init__(self, port: int, path: str, headers: str = "", buffer: int = 0) -> None:
        self._socket = socket.socket()
        self._socket.settimeout(PATIENCE_S)
        if buffer:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self._socket.connect(("127.0.0.1", port))
        request = f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n"
        self._socket.sendall(request.encode())
        self._file = self._socket.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        while self._file.readline().strip():
            pass
        self._rest = b""

    def event(self) -> dict[str, str]:
        """The next event that has data."""
        while True:
            fields: dict[str, str] = {}
            while line := self._line():
                name, _, value = line.decode().partition(": ")
                fields[name] = value
            if "data" in fields:
                return fields

    def _line(self) -> bytes:
        """A line of the stream, out of the chunks it comes in."""
        while b"\n" not in self._rest:
            size = int(self._file.readline(), 16)
            assert size, "the stream has ended"
            self._rest += self._file.read(size)
            self._file.readline()
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def place(self) -> int:
        """The id that the stream begins at."""
        while not (line := self._line()).startswith(b"id: "):
            pass
        return int(line[4:])

    def close(self) -> None:
        self._file.close()
        self._socket.close()

    def __enter__(self) -> Ear:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
