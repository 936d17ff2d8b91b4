"""`Client` and `AsyncClient`: the verbs of `Engine`, over HTTP, through breaks."""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from itertools import islice

import httpx
import pytest
from httpx_sse import EventSource

from nearcast import AsyncClient, Box, Circle, Client, Message, NearcastError, Subscription, Top
from nearcast.client import Gap, Received, ServerError, UnreachableError
from nearcast.client.core import UpdateStream
from nearcast.events import Unsubscribe
from patience import PATIENCE_S, wait_until
from served import Served, serving

HERE = Circle((151.2, -33.87), radius=2000)
POINT = (151.2, -33.87)


@pytest.fixture
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


def test_the_verbs_of_the_engine(server: Served) -> None:
    with Client(server.url) as client:
        assert client.subscribe("s1", "ipad", HERE) == Subscription("s1", "ipad", HERE)
        made = client.subscribe(None, "jazz", point=(0, 0), top=Top(2, 0.5))
        assert made.top == Top(2, 0.5)
        assert client.publish("m1", "iPad sale!", POINT, ttl=60).updates == 1
        assert client.publish(None, "iPad", POINT).updates == 1
        assert client.publish(Message("m2", "jazz", (0, 0))).id == "m2"
        assert [found.message for found in client.results("s1")] == ["m1"]
        assert client.results(made.id)[0].score is not None
        assert client.move("s1", Box(0, 0, 1, 1)).region == Box(0, 0, 1, 1)
        assert {each.id for each in client.subscriptions(page=1)} == {"s1", made.id}
        assert [each.id for each in client.subscriptions(Box(0.5, 0.5, 1, 1))] == ["s1"]
        explained = client.explain("m1", "s1")
        assert (explained["text"]["matches"], explained["space"]["matches"]) == (True, False)
        client.unsubscribe("s1")
        with pytest.raises(ServerError) as missing:
            client.get("s1")
        assert missing.value.status == 404
        assert isinstance(missing.value, NearcastError)


def test_many_at_once(server: Served) -> None:
    with Client(server.url) as client:
        client.subscribe("s1", "ipad", HERE)
        messages = [Message(f"m{number}", "ipad", POINT) for number in range(2500)]
        done = client.publish_many([*messages, b"bad\n"])
        assert (done.accepted, done.refused, done.updates) == (2500, 1, 2500)
        assert [error.line for error in done.errors] == [2501]
        numbered = client.apply([Unsubscribe("s2"), Unsubscribe("s1")])
        assert numbered.seqs == [None, 2502]
        log = list(client.log(0))
        assert [entry.id for entry in log] == list(range(1, 2501))
        assert (log[0].seq, client.last_update()) == (2, 2500)


def test_values_are_checked_before_they_are_sent() -> None:
    with Client("http://127.0.0.1:9") as client, pytest.raises(NearcastError, match="latitude"):
        client.publish("m1", "x", (0, 91))
    with pytest.raises(NearcastError, match="the address of a server"):
        Client("localhost:8080")


def test_nobody_there() -> None:
    pauses: list[float] = []
    with (
        Client("http://127.0.0.1:9", retries=2, sleep=pauses.append) as client,
        pytest.raises(UnreachableError, match="is the server running"),
    ):
        client.get("s1")
    assert pauses == [0.2, 0.4]


def test_whether_a_server_is_ready(server: Served) -> None:
    """Both clients know a server that works, one that does not yet, and none at all."""

    async def check_async(url: str) -> None:
        async with AsyncClient(url) as client:
            await client.check_ready()

    def check(url: str) -> None:
        with Client(url) as client:
            client.check_ready()
        asyncio.run(check_async(url))

    check(server.url)
    server.state.ready = False
    for url, reason in ((server.url, "still starting"), ("http://127.0.0.1:9", "refused")):
        with pytest.raises(UnreachableError, match=reason):
            check(url)
        with pytest.raises(UnreachableError) as unready:
            asyncio.run(check_async(url))
        assert unready.value.url == url


def test_listening_goes_on_through_a_break(server: Served) -> None:
    """The connections are cut in between; nothing is missed, nothing comes twice."""
    heard: list[Received | Gap] = []
    with Client(server.url) as client:
        client.subscribe("s1", "ipad", HERE)

        def listen() -> None:
            heard.extend(islice(client.updates("s1", after=0), 6))

        thread = threading.Thread(target=listen)
        with Client(server.url) as publisher:
            for number in range(3):
                publisher.publish(f"a{number}", "ipad", POINT)
            thread.start()
            hub = server.state.tenants.find("default").hub  # type: ignore[union-attr]
            wait_until(lambda: len(hub), "listener")
            hub.listeners()[0].close()
            for number in range(3):
                publisher.publish(f"b{number}", "ipad", POINT)
            thread.join(PATIENCE_S)
    assert [each.id for each in heard if isinstance(each, Received)] == [1, 2, 3, 4, 5, 6]


def test_a_key_that_is_wrong_ends_listening(server: Served) -> None:
    with Client(server.url, "nck_wrong") as client, pytest.raises(ServerError) as refused:
        next(iter(client.updates()))
    assert refused.value.status == 401


def test_the_reader_of_events_takes_any_pieces() -> None:
    stream = (
        b"retry: 1000\n: keep-alive\nid: 3\n\n"
        b'id: 4\nevent: add\ndata: {"op":"add","subscription":"s","message":"m","at":1.0}\n\n'
        b'id: 9\nevent: gap\ndata: {"from":5,"to":9}\n\n'
        b'id: 10\nevent: remove\ndata: {"op":"remove","subscription":"s","message":"m",'
        b'"score":0.5,"at":2.0}\n\n'
        b"id: 10\nevent: remove\ndata: again\n\n"
    )
    for size in (1, 7, 1000):
        reader = UpdateStream((), None, gaps=True)
        pieces = (stream[start : start + size] for start in range(0, len(stream), size))
        answer = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=pieces)
        events = EventSource(answer).iter_sse()
        found = [each for event in events for each in reader.read(event)]
        assert found == [
            Received(4, "add", "s", "m", 1.0),
            Gap(5, 9),
            Received(10, "remove", "s", "m", 2.0, 0.5),
        ]
        assert reader.after == 10


def test_asyncio(server: Served) -> None:
    async def main() -> None:
        async with AsyncClient(server.url) as client:
            await client.subscribe("s1", "ipad", HERE)
            listening = client.updates("s1", after=0, gaps=True)
            assert (await client.publish("m1", "iPad", POINT, ttl=60)).updates == 1
            first = await anext(listening)
            assert isinstance(first, Received)
            assert (first.id, first.message) == (1, "m1")
            done = await client.publish_many([Message("m2", "ipad", POINT)])
            assert done.accepted == 1
            second = await anext(listening)
            assert isinstance(second, Received)
            assert second.id == 2
            await listening.aclose()  # type: ignore[attr-defined]  # it is a generator
            assert [each.id async for each in client.subscriptions()] == ["s1"]
            assert [entry.seq async for entry in client.log(0)] == [2, 3]
            assert [found.message for found in await client.results("s1")] == ["m1"]
            await client.move("s1", Box(0, 0, 1, 1))
            assert (await client.get("s1")).region == Box(0, 0, 1, 1)
            assert (await client.explain("m1", "s1"))["matches"] is False
            await client.unsubscribe("s1")
            with pytest.raises(ServerError):
                await client.get("s1")

    asyncio.run(main())


def head_of_request(connection: socket.socket) -> bytes:
    """Read a whole request: a socket that is closed with bytes left breaks its answer."""
    with connection.makefile("rb") as request:
        head = b"".join(iter(request.readline, b"\r\n"))
        request.read(int(re.findall(rb"(?i)content-length: (\d+)", head)[0]))
    return head


def test_a_server_that_breaks_off_mid_answer_is_asked_again() -> None:
    """The first connection is cut; the second attempt gets through."""
    with serving() as server, socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]

        def half_a_server() -> None:
            first, _ = listening.accept()
            first.recv(100)
            first.close()
            second, _ = listening.accept()
            head_of_request(second)
            body = b'{"id":"m1","updates":0}'
            second.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body))
            second.close()

        thread = threading.Thread(target=half_a_server)
        thread.start()
        with Client(f"http://127.0.0.1:{port}", sleep=lambda _: None) as client:
            assert client.publish("m1", "x", (0, 0)).id == "m1"
        thread.join()
        assert server.http.get("/healthz").status_code == 200


def test_a_subscription_without_an_id_is_made_once() -> None:
    """Every attempt to make it carries the same idempotency key."""
    heard: list[bytes] = []
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()

        def refuse() -> None:
            for _ in range(3):
                connection, _ = listening.accept()
                with connection:
                    heard.append(head_of_request(connection))
                    connection.sendall(
                        b"HTTP/1.1 503 Busy\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                    )

        thread = threading.Thread(target=refuse)
        thread.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with Client(url, retries=2, sleep=lambda _: None) as client, pytest.raises(ServerError):
            client.subscribe(None, "ipad", HERE)
        thread.join()
    keys = [re.findall(rb"(?i)idempotency-key: (\S+)", request) for request in heard]
    assert len(keys[0]) == 1
    assert keys == [keys[0]] * 3


def test_large_messages_go_in_several_requests(server: Served) -> None:
    """Lines are sent by size too: the server takes 16 MB under one idempotency key."""
    text = "x" * 60_000
    with Client(server.url) as client:
        done = client.publish_many([Message(f"m{number}", text, POINT) for number in range(400)])
    assert (done.accepted, done.refused) == (400, 0)
