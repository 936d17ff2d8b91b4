"""Posts to endpoints that mean harm: bounded in time and size, with slots that others keep."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpcore
import pytest

from nearcast.server.webhook_posts import WebhookPosts
from nearcast.server.webhook_slots import WebhookSlots
from patience import PATIENCE_S, wait_until
from served import IPAD, SALE, serving

CERTIFICATE = Path(__file__).parents[1] / "helpers" / "certificates" / "one.test.pem"
HOOK = "/v1/subscriptions/s1/webhook"


@contextmanager
def answering(
    answer: Callable[[socket.socket], None], certificate: Path | None = None
) -> Iterator[int]:
    """A server that reads a request and lets `answer` do the rest; gives its port."""
    context = None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
    listening = socket.create_server(("127.0.0.1", 0))
    stack = ExitStack()

    def serve(connection: socket.socket) -> None:
        try:
            if context is not None:
                connection = context.wrap_socket(connection, server_side=True)
            stack.callback(connection.close)
            while connection.recv(1 << 16):
                answer(connection)
        except OSError:
            pass
        finally:
            connection.close()

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield listening.getsockname()[1]
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join()
        stack.close()


def test_an_answer_without_an_end_is_not_read_to_its_end() -> None:
    stopped = threading.Event()

    def flood(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
        piece = b"10000\r\n" + bytes(0x10000) + b"\r\n"
        try:
            while True:
                connection.sendall(piece)
        except OSError:
            stopped.set()
            raise

    async def post(port: int) -> int:
        posts = WebhookPosts(private=True, deadline_s=PATIENCE_S)
        status = await posts.post(f"http://127.0.0.1:{port}/", {}, b"{}")
        await posts.close()
        return status

    with answering(flood) as port:
        assert asyncio.run(post(port)) == 200
        assert stopped.wait(PATIENCE_S)


def test_an_answer_is_not_decompressed() -> None:
    """These bytes are no gzip: whoever unpacked them would fail."""
    packed = gzip.compress(bytes(1 << 20))[::-1]

    def answer(connection: socket.socket) -> None:
        head = f"HTTP/1.1 204 OK\r\ncontent-encoding: gzip\r\ncontent-length: {len(packed)}\r\n\r\n"
        connection.sendall(head.replace("204", "200").encode() + packed)

    async def post(port: int) -> int:
        posts = WebhookPosts(private=True, deadline_s=PATIENCE_S)
        status = await posts.post(f"http://127.0.0.1:{port}/", {}, b"{}")
        await posts.close()
        return status

    with answering(answer) as port:
        assert asyncio.run(post(port)) == 200


def test_an_attempt_has_a_deadline_however_lively_the_endpoint_is() -> None:
    """A byte now and then keeps a connection busy for ever; the update is given up all the same."""
    ended = threading.Event()

    def drip(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 200 OK\r\n")
        while not ended.wait(0.01):
            connection.sendall(b"x-slow: 1\r\n"[:1])

    options: dict[str, Any] = {
        "private_webhooks": True,
        "webhook_attempts": 1,
        "webhook_deadline_s": 0.2,
    }
    with answering(drip) as port, serving(**options) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        server.http.put(HOOK, json={"url": f"http://127.0.0.1:{port}/"})
        server.post("/v1/messages", SALE)

        def letters() -> list[dict[str, Any]]:
            found: list[dict[str, Any]] = server.http.get("/v1/dead-letters").json()["letters"]
            return found

        wait_until(letters, "dead letter")
        assert letters()[0]["error"] == "not answered within 0.2 s"
        ended.set()


def test_slow_endpoints_take_their_own_slots_only() -> None:
    async def run() -> list[str]:
        slots, never, held = WebhookSlots(), asyncio.Event(), []

        async def hold(tenant: str, url: str) -> None:
            async with slots.slot(tenant, url):
                held.append(f"{tenant} {url}")
                await never.wait()

        async def start(tenant: str, url: str, times: int) -> None:
            tasks.extend(asyncio.ensure_future(hold(tenant, url)) for _ in range(times))
            await asyncio.sleep(0)
            await asyncio.sleep(0)

        tasks: list[asyncio.Task[None]] = []
        await start("a", "https://slow.test/1", 100)
        await start("a", "https://fast.test/1", 1)
        for number in range(100):
            await start("a", f"https://slow{number}.test/", 2)
        await start("b", "https://slow.test/1", 1)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert slots._used == {}
        return held

    held = asyncio.run(run())
    assert held.count("a https://slow.test/1") == 16
    assert "a https://fast.test/1" in held
    assert sum(each.startswith("a ") for each in held) == 64
    assert "b https://slow.test/1" in held


def test_a_connection_is_not_used_for_another_name_at_the_same_address() -> None:
    """Only one.test has a certificate; two.test is at the same address, and is not believed."""

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")

    async def here(host: str, port: int) -> list[str]:
        del host, port
        return ["127.0.0.1"]

    async def run(port: int) -> None:
        trusted = ssl.create_default_context(cafile=str(CERTIFICATE))
        posts = WebhookPosts(private=True, deadline_s=PATIENCE_S, resolve=here, trusted=trusted)
        for _ in range(2):
            assert await posts.post(f"https://one.test:{port}/", {}, b"{}") == 204
        with pytest.raises(httpcore.ConnectError, match="certificate verify failed"):
            await posts.post(f"https://two.test:{port}/", {}, b"{}")
        await posts.close()

    with answering(answer, CERTIFICATE) as port:
        asyncio.run(run(port))


def test_posts_are_made_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever they cost there, others do not wait; and trust is read once, not for each post."""
    contexts: list[ssl.SSLContext] = []
    threads: set[threading.Thread] = set()

    def trusting() -> ssl.SSLContext:
        contexts.append(ssl.create_default_context(cafile=str(CERTIFICATE)))
        return contexts[-1]

    def answer(connection: socket.socket) -> None:
        connection.sendall(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n")

    async def here(host: str, port: int) -> list[str]:
        del host, port
        threads.add(threading.current_thread())
        return ["127.0.0.1"]

    async def run(port: int) -> None:
        posts = WebhookPosts(private=True, deadline_s=PATIENCE_S, resolve=here)
        for _ in range(3):
            assert await posts.post(f"https://one.test:{port}/", {}, b"{}") == 204
        await posts.close()

    monkeypatch.setattr(httpcore, "default_ssl_context", trusting)
    with answering(answer, CERTIFICATE) as port:
        asyncio.run(run(port))
    assert len(contexts) == 1
    assert len(threads) == 1
    assert threading.current_thread() not in threads
    assert not any(thread.is_alive() for thread in threads)


def test_a_post_that_is_given_up_ends() -> None:
    """A delivery that is cancelled leaves nothing behind."""
    arrived, ended = threading.Event(), threading.Event()

    def wait(connection: socket.socket) -> None:
        arrived.set()
        if not connection.recv(1):
            ended.set()

    async def run(port: int) -> None:
        posts = WebhookPosts(private=True, deadline_s=PATIENCE_S)
        post = asyncio.ensure_future(posts.post(f"http://127.0.0.1:{port}/", {}, b"{}"))
        await asyncio.to_thread(arrived.wait, PATIENCE_S)
        post.cancel()
        with pytest.raises(asyncio.CancelledError):
            await post
        assert await asyncio.to_thread(ended.wait, PATIENCE_S)
        await posts.close()

    with answering(wait) as port:
        asyncio.run(run(port))
