"""Measure how soon updates of one tenant are heard while another tenant attacks the server.

    python benchmarks/attacks.py [--rate 500] [--seconds 10] [--only quiet --only bodies] [--json]

A server is a process of its own, on loopback, with a key for each tenant. Messages of the first
tenant are posted at a steady rate, and each is for one of its listeners. The time is measured from
when a message is due until its Server-Sent Event has come: first with nobody else, then beside
each attack in turn, then with nobody else again. Attacks are processes of their own; what they
prepare (subscriptions, webhooks) is there before the time begins. All share this machine, but
attacks leave its processors to the others: whoever attacks brings a machine.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import gc
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import IO, Any, NoReturn, cast

import httpx
import numpy as np

from nearcast.server.keys import KeyStore
from nearcast_lab.bench.http_load import EventListener
from nearcast_lab.bench.processes import resident_mib
from nearcast_lab.bench.serve_listening import Sender, at

HOST = "127.0.0.1"
LINES = "application/x-ndjson"
MOST_MS = 100.0
SETTLE_S = 3.0
LONG = "\ufdfa"  # 18 characters once it is normalised
RATE = 100.0  # events a second of the attacker's second key
SUBSCRIBED = 50_000
LOGGED = 200_000
CROWDED = 58_198


# --- what attacks are made of ----------------------------------------------------------------


class Target:
    """The server as an attacker sees it."""

    def __init__(self, port: int, key: str, slow_key: str) -> None:
        self.port, self.key, self.slow_key = port, key, slow_key
        self.http = httpx.Client(
            base_url=f"http://{HOST}:{port}",
            headers={"authorization": f"Bearer {key}"},
            timeout=120.0,
        )

    def lines(self, path: str, lines: list[dict[str, Any]]) -> None:
        """Send lines, 20,000 at a time."""
        for start in range(0, len(lines), 20_000):
            body = b"".join(json.dumps(each).encode() + b"\n" for each in lines[start:][:20_000])
            answer = self.http.post(path, content=body, headers={"content-type": LINES})
            if answer.json().get("refused", 1):
                raise SystemExit(f"refused: {answer.text[:500]}")

    def connect(self) -> socket.socket:
        """A connection."""
        return socket.create_connection((HOST, self.port), 120.0)

    def upload(self, path: str, key: str, more: str = "") -> socket.socket:
        """A connection that has sent the headers of a body in chunks."""
        connection = self.connect()
        connection.sendall(
            f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {LINES}\r\n"
            f"Authorization: Bearer {key}\r\n{more}Transfer-Encoding: chunked\r\n\r\n".encode()
        )
        return connection


def chunk(data: bytes) -> bytes:
    """A part of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def forever(act: Callable[[], object], threads: int) -> None:
    """Do something again and again, in some threads; what fails is done again."""

    def again() -> NoReturn:
        while True:
            with suppress(OSError, httpx.HTTPError):
                act()

    for _ in range(threads):
        threading.Thread(target=again, daemon=True).start()


def subscription(id: str, query: str, box: list[float] | None = None) -> dict[str, Any]:
    """A subscription as it is sent."""
    return {
        "id": id,
        "query": query,
        "region": {"type": "Box", "bbox": box or [-180, -90, 180, 90]},
    }


def message(text: str) -> dict[str, Any]:
    """A message as it is sent."""
    return {"text": text, "point": [0.5, 0.5]}


def hooked(target: Target, endpoints: list[str]) -> Callable[[], None]:
    """Subscriptions with these webhooks, and what makes all of them be posted to."""
    target.lines(
        "/v1/subscriptions", [subscription(f"h{n}", "hook") for n in range(len(endpoints))]
    )
    for number, url in enumerate(endpoints):
        target.http.put(f"/v1/subscriptions/h{number}/webhook", json={"url": url})

    def publish() -> None:
        target.http.post("/v1/messages", json=message("hook"))
        time.sleep(0.05)

    return publish


@contextmanager
def receivers(ports: int, answer: Callable[[socket.socket], None]) -> Iterator[list[int]]:
    """Ports where every connection is answered in a thread."""
    listening = [socket.create_server((HOST, 0), backlog=128) for _ in range(ports)]

    def serve(one: socket.socket) -> NoReturn:
        while True:
            connection, _ = one.accept()
            threading.Thread(target=safely, args=(connection,), daemon=True).start()

    def safely(connection: socket.socket) -> None:
        with suppress(OSError), connection:
            connection.recv(1 << 16)
            answer(connection)

    for one in listening:
        threading.Thread(target=serve, args=(one,), daemon=True).start()
    yield [one.getsockname()[1] for one in listening]


# --- the attacks -----------------------------------------------------------------------------


def endless_answers(target: Target, ready: Callable[[], None]) -> None:
    """Row 4: webhooks are answered with gzip that would be gigabytes."""
    import gzip

    bomb = gzip.compress(bytes(64 << 20))
    head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n"

    def answer(connection: socket.socket) -> None:
        connection.sendall(head)
        while True:
            connection.sendall(chunk(bomb))

    with receivers(8, answer) as ports:
        publish = hooked(target, [f"http://{HOST}:{port}/{n}" for port in ports for n in range(8)])
        ready()
        forever(publish, 2)
        threading.Event().wait()


def dripping_answers(target: Target, ready: Callable[[], None]) -> None:
    """Row 5: 105 endpoints answer a byte every five seconds."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        while True:
            connection.sendall(b"x")
            time.sleep(5.0)

    with receivers(105, answer) as ports:
        publish = hooked(target, [f"http://{HOST}:{port}/" for port in ports])
        ready()
        forever(publish, 2)
        threading.Event().wait()


def expensive_bodies(target: Target, ready: Callable[[], None]) -> None:
    """Row 6: bodies of 195 MB, nearly all of it U+FDFA."""
    line = json.dumps(message(LONG * 60_000), ensure_ascii=False).encode() + b"\n"
    ready()

    def send() -> None:
        with target.upload("/v1/messages", target.key) as upload:
            for _ in range(195_000_000 // len(line)):
                upload.sendall(chunk(line))
            upload.sendall(b"0\r\n\r\n")
            upload.recv(1 << 16)

    forever(send, 3)
    threading.Event().wait()


def crowding_terms(target: Target, ready: Callable[[], None]) -> None:
    """Row 9: terms that share a 64th of a table if they are hashed without a secret."""
    from nearcast.arrays.slots import hash_strings

    found: list[str] = []
    for start in count(0, 1 << 18):
        words = [f"t{number:x}" for number in range(start, start + (1 << 18))]
        data = np.frombuffer("".join(words).encode(), np.uint8)
        starts = np.cumsum([0, *map(len, words)])
        hashes = np.empty((len(words), 2), np.uint64)
        hash_strings(data, starts, hashes)
        crowded = ((hashes[:, 0] >> np.uint64(10)) & np.uint64(63)) == 7
        found += [words[at] for at in np.flatnonzero(crowded)]
        if len(found) >= 2 * CROWDED:
            break
    known, others = found[:CROWDED], found[CROWDED : 2 * CROWDED]
    target.lines("/v1/subscriptions", [subscription(term, term) for term in known])
    ready()
    texts = [" ".join(others[start : start + 200]) for start in range(0, CROWDED, 200)]
    body = b"".join(json.dumps(message(text)).encode() + b"\n" for text in texts)

    def send() -> None:
        target.http.post("/v1/messages", content=body, headers={"content-type": LINES})

    forever(send, 3)
    threading.Event().wait()


def shared_rates(target: Target, ready: Callable[[], None]) -> None:
    """Row 13: 30 bodies whose headers came first, and acknowledgements of nothing."""
    line = json.dumps(message("x")).encode() + b"\n"
    ready()

    def send() -> None:
        with target.upload("/v1/messages", target.slow_key) as upload:
            time.sleep(0.2)
            for _ in range(100):
                upload.sendall(chunk(line * 100))
            upload.sendall(b"0\r\n\r\n")
            upload.recv(1 << 16)

    def acknowledge() -> None:
        frame = b'{"op":"ack","id":1}'
        frames = (bytes([0x81, 0x80 | len(frame), 0, 0, 0, 0]) + frame) * 2000
        with target.connect() as connection:
            key = base64.b64encode(os.urandom(16)).decode()
            connection.sendall(
                f"GET /v1/updates/ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                f"Sec-WebSocket-Version: 13\r\nAuthorization: Bearer {keys.pop()}\r\n\r\n".encode()
            )
            threading.Thread(target=drain, args=(connection,), daemon=True).start()
            while True:
                connection.sendall(frames)

    def drain(connection: socket.socket) -> None:
        with suppress(OSError):
            while connection.recv(1 << 16):
                pass

    keys = [target.key, target.slow_key]
    forever(send, 30)
    for _ in range(2):
        threading.Thread(target=acknowledge, daemon=True).start()
    threading.Event().wait()


def long_lines(target: Target, ready: Callable[[], None]) -> None:
    """Row 16: six bodies of 250 MB without a line's end, and 16 MB of lines in one commit."""
    line = json.dumps(message("plain words of a message")).encode() + b"\n"
    many = line * (15_000_000 // len(line))
    ready()

    def send() -> None:
        with target.upload("/v1/messages", target.key) as upload:
            for _ in range(250):
                upload.sendall(chunk(b"x" * 1_000_000))
            upload.sendall(b"0\r\n\r\n")
            upload.recv(1 << 16)

    def send_lines() -> None:
        headers = {"content-type": LINES, "idempotency-key": os.urandom(8).hex()}
        target.http.post("/v1/messages", content=many, headers=headers)

    forever(send, 6)
    forever(send_lines, 1)
    threading.Event().wait()


def long_reads(target: Target, ready: Callable[[], None]) -> None:
    """Row 17: boxes that nothing meets, and the log searched for what it does not have."""
    target.lines(
        "/v1/subscriptions",
        [subscription(f"s{n}", f"word{n % 1000}", [1, 1, 2, 2]) for n in range(SUBSCRIBED)],
    )
    target.lines("/v1/subscriptions", [subscription(f"all{n}", "logged") for n in range(10)])
    target.lines("/v1/messages", [message("logged")] * (LOGGED // 10))
    target.lines("/v1/subscriptions", [subscription("nothing", "nothing")])
    ready()

    def box() -> None:
        target.http.get("/v1/subscriptions", params={"bbox": "-9,-9,-8.999,-8.999"})

    def scan() -> None:
        target.http.get(
            "/v1/updates",
            params={"subscription": "nothing", "after": 0},
            headers={"accept": LINES},
        )

    forever(box, 4)
    forever(scan, 4)
    threading.Event().wait()


ATTACKS: dict[str, Callable[[Target, Callable[[], None]], None]] = {
    "answers without end (4)": endless_answers,
    "answers that drip (5)": dripping_answers,
    "expensive bodies (6)": expensive_bodies,
    "crowding terms (9)": crowding_terms,
    "rates and acks (13)": shared_rates,
    "lines without end (16)": long_lines,
    "long reads (17)": long_reads,
}


@contextmanager
def attacking(name: str | None, port: int, keys: tuple[str, str]) -> Iterator[None]:
    """Let an attack run in a process of its own, once it is prepared."""
    if name is None:
        yield
        return
    command = [sys.executable, str(Path(__file__).resolve()), "--attack", name]
    environment = os.environ | {"ATTACK_KEYS": " ".join(keys), "ATTACK_PORT": str(port)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE)
    said = cast("IO[bytes]", process.stdout)
    try:
        if said.readline() != b"ready\n":
            raise SystemExit(f"{name}: the attack did not begin")
        yield
        if process.poll() is not None:
            raise SystemExit(f"{name}: the attack ended early")
    finally:
        process.kill()
        process.wait()
        said.close()


def attack(name: str) -> None:
    """Be the attacker, as on another machine: the processors are for the others first."""
    os.nice(10)
    key, slow_key = os.environ["ATTACK_KEYS"].split()
    target = Target(int(os.environ["ATTACK_PORT"]), key, slow_key)
    ATTACKS[name](target, lambda: print("ready", flush=True))


# --- the measurement -------------------------------------------------------------------------


class Victim:
    """The tenant that is measured: its publisher and its listeners."""

    def __init__(self, port: int, key: str, listeners: int) -> None:
        self._port, self._key, self._listeners = port, key, listeners
        self._waiting: dict[bytes, float] = {}
        self._took: list[float] = []
        self._numbers = count()
        self._head = (
            "POST /v1/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Authorization: Bearer {key}\r\nContent-Length: %d\r\n\r\n"
        )

    async def connect(self) -> None:
        """Subscribe, and open all connections."""
        async with httpx.AsyncClient(base_url=f"http://{HOST}:{self._port}") as http:
            for number in range(self._listeners):
                body = subscription(f"ear{number}", f"ear{number}")
                headers = {"authorization": f"Bearer {self._key}"}
                (
                    await http.post("/v1/subscriptions", json=body, headers=headers)
                ).raise_for_status()
        loop = asyncio.get_running_loop()
        for number in range(self._listeners):
            path = f"/v1/updates?subscription=ear{number}&key={self._key}"
            _, ear = await loop.create_connection(
                lambda path=path: EventListener(path, self._hear),  # type: ignore[misc]
                HOST,
                self._port,
            )
            await ear.ready
        self._sender = Sender(self._port, 64)
        await self._sender.connect()

    def _hear(self, event: bytes, now: float) -> None:
        start = event.find(b'"message":"') + 11
        then = self._waiting.pop(event[start : event.index(b'"', start)], None)
        if then is not None:
            self._took.append(now - then)

    async def measure(self, rate: float, seconds: float) -> dict[str, float]:
        """Publish at a steady rate; milliseconds until a message was heard of."""
        self._took, self._waiting = [], {}
        total, started = int(rate * seconds), perf_counter()
        for number in range(total):
            due = started + number / rate
            if (early := due - perf_counter()) > 0:
                await asyncio.sleep(early)
            elif number % 32 == 0:
                await asyncio.sleep(0)
            id = f"v{next(self._numbers)}"
            body = json.dumps(
                {"id": id, **message(f"a few words for ear{number % self._listeners}")}
            ).encode()
            self._waiting[id.encode()] = due
            self._sender.send((self._head % len(body)).encode() + body)
        took = perf_counter() - started
        for _ in range(600):
            if not self._waiting:
                break
            await asyncio.sleep(0.05)
        self._took.sort()
        return {
            "rate": total / took,
            "heard": len(self._took),
            "missed": len(self._waiting),
            "p50_ms": at(self._took, 0.5),
            "p99_ms": at(self._took, 0.99),
            "max_ms": at(self._took, 1.0),
        }


async def measure(
    given: argparse.Namespace, server: int, port: int, keys: list[str]
) -> list[dict[str, Any]]:
    """All rounds, one after the other."""
    names: list[str | None] = [None, *ATTACKS, None]
    if given.only:
        names = [n for n in names if any(part in (n or "quiet") for part in given.only)]
    victim = Victim(port, keys[0], given.listeners)
    await victim.connect()
    await victim.measure(given.rate, 3.0)  # compiles and fills what is filled once
    rounds = []
    for name in names:
        with attacking(name, port, (keys[1], keys[2])):
            await asyncio.sleep(1.0)
            found = await victim.measure(given.rate, given.seconds)
        found |= {"server_mib": resident_mib(server)}
        rounds.append({"beside": name or "quiet", **found})
        if not given.json:
            print(row(rounds[-1]), flush=True)
        await asyncio.sleep(SETTLE_S)
    return rounds


@contextmanager
def serving(data: Path) -> Iterator[tuple[int, int]]:
    """A server as an operator starts it, once it is ready: its process and its port."""
    with socket.create_server((HOST, 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "nearcast", "serve", "--data", str(data), "--require-key"]
    command += ["--port", str(port), "--allow-private-webhooks", "--log-level", "error"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            with suppress(httpx.HTTPError):
                if httpx.get(f"http://{HOST}:{port}/readyz").status_code == 200:
                    break
            time.sleep(0.1)
        else:
            raise SystemExit("the server was not ready within a minute")
        yield process.pid, port
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


COLUMNS = {"beside": "", "rate": ".0f", "heard": "", "missed": "", "p50_ms": ".1f", "p99_ms": ".1f"}
COLUMNS |= {"max_ms": ".1f", "server_mib": ".0f"}


def row(values: dict[str, Any]) -> str:
    """A line of the table."""
    cells = [f"{values[name]:{form}}" for name, form in COLUMNS.items()]
    return f"{cells[0]:28}" + "".join(f"{cell:>11}" for cell in cells[1:])


def main() -> int:
    """Measure, print, and return 1 if the slowest percent was too slow beside any attack."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rate", type=float, default=500.0, help="messages a second")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each round")
    parser.add_argument("--listeners", type=int, default=20)
    parser.add_argument("--only", action="append", metavar="PART", help="rounds with this name")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--attack", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.attack:
        attack(given.attack)
        return 0
    with TemporaryDirectory(prefix="nearcast-attacks-") as folder:
        data = Path(folder)
        book = KeyStore(data / "keys.db")
        scopes = ("publish", "subscribe")
        keys = [
            book.add("victim", scopes=scopes, tenant="victim"),
            book.add("attacker", scopes=scopes, tenant="attacker"),
            book.add("limited", scopes=scopes, tenant="attacker", rate=RATE),
        ]
        book.close()
        if not given.json:
            print(f"{'beside':28}" + "".join(f"{name:>11}" for name in list(COLUMNS)[1:]))
        with serving(data) as (server, port):
            gc.disable()  # a pause of the one who measures would look like one of the server
            rounds = asyncio.run(measure(given, server, port, keys))
    if given.json:
        print(json.dumps({"seconds": given.seconds, "rounds": rounds}, indent=2))
    beside = [each for each in rounds if each["beside"] != "quiet"]
    return int(any(each["p99_ms"] > MOST_MS or each["missed"] for each in beside))


if __name__ == "__main__":
    sys.exit(main())
