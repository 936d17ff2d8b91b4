"""What a client can do that means no good, tried on a running server."""

import itertools
import json
import socket
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from nearcast.events import event_from_json
from nearcast.server.config import Limits
from nearcast.server.keys import KeyStore
from patience import PATIENCE_S, wait_until
from served import IPAD, NDJSON, SALE, Ear, Served, hold_writer, serving
from server_process import running

LONG = "\ufdfa"  # 18 characters once it is normalised


def key_of(data: Path, name: str = "key", **more: Any) -> str:
    book = KeyStore(data / "keys.db")
    try:
        return book.add(name, scopes=("publish", "subscribe", "admin"), **more)
    finally:
        book.close()


def bearer(key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def line(text: str, **more: Any) -> bytes:
    return json.dumps({"text": text, "point": [0, 0], **more}, ensure_ascii=False).encode() + b"\n"


class Upload:
    """A connection that sends the lines of a body piece by piece."""

    def __init__(self, port: int, headers: str = "", path: str = "/v1/messages") -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        head = f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {NDJSON}\r\n"
        self._socket.sendall(f"{head}Transfer-Encoding: chunked\r\n{headers}\r\n".encode())

    def send(self, data: bytes) -> None:
        self._socket.sendall(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> tuple[int, dict[str, Any]]:
        """End the body, and return the status and the JSON of the answer."""
        self._socket.sendall(b"0\r\n\r\n")
        return self.answer()

    def answer(self) -> tuple[int, dict[str, Any]]:
        with closing(self._socket), self._socket.makefile("rb") as file:
            status = int(file.readline().split()[1])
            length = 0
            while head := file.readline().strip().lower():
                if head.startswith(b"content-length:"):
                    length = int(head.partition(b":")[2])
            return status, json.loads(file.read(length))


# --- bodies that are much work ---------------------------------------------------------------


def test_others_publish_between_the_slices_of_an_expensive_body() -> None:
    """Its texts are six times as long once they are normalised: each commit has a part of them."""
    batches: list[int] = []

    def note(batch: Any) -> None:
        batches.append(sum(18 * len(event.message.text) for event in batch.events))

    with serving() as server:
        server.state.on_committed = note
        upload = Upload(server.port)
        for _ in range(4):
            upload.send(line(LONG * 10_000) * 5)
        status, answer = upload.end()
    assert (status, answer["accepted"]) == (200, 20)
    assert max(batches) <= 1 << 19
    assert sum(batches) == 20 * 18 * 10_000


def test_small_requests_overtake_expensive_ones() -> None:
    """However many expensive slices wait, a small request waits for one turn of the writer."""
    order: list[str] = []
    with serving() as server:
        backend, go_on = hold_writer(server)

        def note(batch: Any) -> None:
            order.extend(event.message.id for event in batch.events)

        server.state.on_committed = note
        uploads = [Upload(server.port) for _ in range(5)]
        for number, upload in enumerate(uploads):
            upload.send(line(LONG * 20_000, id=f"large-{number}"))
        ends = [threading.Thread(target=upload.end) for upload in uploads]
        for end in ends:
            end.start()
        wait_until(lambda: backend.waiting >= 5, "five uploads in the queue")
        small = threading.Thread(target=server.post, args=("/v1/messages", SALE | {"id": "small"}))
        small.start()
        wait_until(lambda: backend.waiting >= 6, "the small request in the queue")
        go_on.set()
        for thread in (*ends, small):
            thread.join()
    assert order.index("small") <= 1
    assert len(order) == 6


def test_a_line_without_an_end_is_not_kept(tmp_path: Path) -> None:
    """It is counted and dropped as it comes; lines around it are taken."""
    with running(tmp_path) as server:
        before = server.peak_memory()
        upload = Upload(server.port)
        upload.send(line("before"))
        for _ in range(200):
            upload.send(b"x" * 1_000_000)
        upload.send(b"\n" + line("after"))
        status, answer = upload.end()
        assert server.peak_memory() - before < 50_000_000
    assert (status, answer["accepted"], answer["refused"]) == (200, 2, 1)
    assert answer["errors"][0]["line"] == 2
    assert "200,000,000 bytes" in answer["errors"][0]["detail"]


def test_lines_are_parsed_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the lines of a body are parsed, other requests are answered."""
    from nearcast.server import bulk

    parsing, go_on = threading.Event(), threading.Event()
    parse = event_from_json

    def slow(fields: dict[str, Any]) -> Any:
        parsing.set()
        assert go_on.wait(PATIENCE_S)
        return parse(fields)

    monkeypatch.setattr(bulk, "event_from_json", slow)
    with serving() as server:
        body = line("x" * 1000) * 2000
        for headers in ({}, {"idempotency-key": "one"}):
            parsing.clear()
            go_on.clear()
            sending = threading.Thread(
                target=server.http.post,
                args=("/v1/messages",),
                kwargs={"content": body, "headers": {"content-type": NDJSON, **headers}},
            )
            sending.start()
            assert parsing.wait(PATIENCE_S)
            assert httpx.get(f"{server.url}/healthz").status_code == 200
            go_on.set()
            sending.join()


def test_texts_under_one_key_are_limited_by_what_they_become() -> None:
    with serving(limits=Limits(keyed_cost=1_000_000)) as server:
        headers = {"content-type": NDJSON, "idempotency-key": "one"}
        body = line(LONG * 60_000)
        refused = server.http.post("/v1/messages", content=body, headers=headers)
        assert refused.status_code == 413
        assert "after Unicode normalisation" in refused.json()["detail"]


def test_bad_lines_under_one_key_are_limited_too() -> None:
    with serving(limits=Limits(keyed_cost=64_000)) as server:
        headers = {"content-type": NDJSON, "idempotency-key": "one"}
        refused = server.http.post("/v1/messages", content=b"x\n" * 1001, headers=headers)
        assert refused.status_code == 413
        taken = server.http.post("/v1/messages", content=b"x\n" * 1000, headers=headers)
        assert (taken.status_code, taken.json()["refused"]) == (200, 1000)


def test_bad_lines_take_no_memory(tmp_path: Path) -> None:
    """An error that is kept with its traceback takes 3 KB: a body of 8 MB took 12 GB."""
    with running(tmp_path) as server:
        server.http.post("/v1/messages", content=b"x\n", headers={"content-type": NDJSON})
        before = server.peak_memory()
        body = b"x\n" * 200_000
        for headers in ({}, {"idempotency-key": "one"}):
            answer = server.http.post(
                "/v1/messages", content=body, headers={"content-type": NDJSON, **headers}
            )
            assert answer.json()["refused"] == 200_000
            assert len(answer.json()["errors"]) == 1000
            assert answer.json()["errors"][-1]["line"] == 1000
        assert server.peak_memory() - before < 100_000_000


def test_a_body_that_is_too_large_says_what_was_kept() -> None:
    with serving(limits=Limits(bulk_bytes=100_000, slice_lines=10)) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        upload = Upload(server.port, path="/v1/messages")
        good = json.dumps(SALE).encode() + b"\n"
        for _ in range(10):
            upload.send(good * 10)
        wait_until(lambda: len(server.updates()) >= 100, "100 updates that are kept")
        upload.send(b"x" * 100_000)
        status, answer = upload.answer()
        assert (status, answer["accepted"], answer["updates"]) == (413, 100, 100)
        assert "100 lines before that were accepted" in answer["detail"]
        assert answer["refused"] == 0


# --- rates and keys --------------------------------------------------------------------------


def test_many_connections_have_one_rate(tmp_path: Path) -> None:
    """Headers first, lines later: all of them together wait as long as one would."""
    key = key_of(tmp_path, rate=10.0)
    waits: list[float] = []
    with serving(tmp_path, open=False) as server:
        clock = [0.0]
        server.state.authenticator._clock = lambda: clock[0]
        uploads = [Upload(server.port, f"Authorization: Bearer {key}\r\n") for _ in range(30)]
        tasks = server.server.server_state.tasks
        wait_until(lambda: len(tasks) >= 30, "30 uploads that are let in")
        (bucket,) = server.state.authenticator._buckets.values()
        debt = bucket.debt

        def noted() -> float:
            waits.append(debt())
            return 0.0

        bucket.debt = noted  # type: ignore[method-assign]
        for upload in uploads:
            upload.send(line("x") * 20)
        assert [upload.end()[1]["accepted"] for upload in uploads] == [20] * 30
    assert sorted(waits) == [pytest.approx(2.0 * number) for number in range(30)]


def test_acknowledgements_of_nothing_are_counted(tmp_path: Path) -> None:
    key = key_of(tmp_path, rate=5.0)
    with serving(tmp_path, open=False) as server, _socket(server, key) as websocket:
        websocket.recv()
        for _ in range(20):
            websocket.send('{"op":"ack","id":1}')
        websocket.send("not JSON")
        first = json.loads(websocket.recv())
        assert first["problem"]["status"] == 429


def test_an_acknowledgement_of_an_update_is_free(tmp_path: Path) -> None:
    key = key_of(tmp_path, rate=5.0)
    other = key_of(tmp_path, "other")
    with (
        serving(tmp_path, open=False) as server,
        _socket(server, key, "?window=1") as websocket,
    ):
        websocket.recv()
        server.http.put("/v1/subscriptions/s1", json=IPAD, headers=bearer(other))
        for number in range(1, 31):
            server.post("/v1/messages", SALE, headers=bearer(other))
            update = json.loads(websocket.recv())
            assert (update["type"], update["id"]) == ("update", number)
            websocket.send(json.dumps({"op": "ack", "id": number}))


def test_frames_of_one_client_leave_room_for_others() -> None:
    """Between two frames of one connection the event loop turns to the others."""
    with serving() as server, _socket(server) as websocket:
        websocket.recv()
        turns: list[int] = []
        loop = server.state.tenants.find("default").backend._loop  # type: ignore[union-attr]
        handled = [0]
        authenticator = server.state.authenticator
        confirm = authenticator.confirm

        def count(caller: Any) -> None:
            handled[0] += 1
            confirm(caller)

        authenticator.confirm = count  # type: ignore[method-assign]

        def turn() -> None:
            turns.append(handled[0])
            if not done.is_set():
                loop.call_soon(turn)

        done = threading.Event()
        loop.call_soon_threadsafe(turn)
        for _ in range(3000):
            websocket.send('{"op":"ack","id":1}')
        websocket.send('{"op":"listen","subscriptions":[],"ref":1}')
        assert json.loads(websocket.recv())["ref"] == 1
        done.set()
    assert handled[0] >= 3001
    assert max(after - before for before, after in itertools.pairwise(turns)) <= 2


def _socket(server: Served, key: str | None = None, query: str = "") -> Any:
    url = f"ws://127.0.0.1:{server.port}/v1/updates/ws{query}"
    return connect(url, additional_headers=bearer(key) if key else None)


def test_a_removed_key_ends_its_streams(tmp_path: Path) -> None:
    """Sockets, updates, the live map and lines that are being sent."""
    key = key_of(tmp_path)
    with (
        serving(tmp_path, open=False, limits=Limits(slice_lines=1)) as server,
        _socket(server, key) as websocket,
        Ear(server.port, f"/v1/updates?key={key}") as ear,
        Ear(server.port, f"/v1/live?key={key}") as live,
    ):
        json.loads(websocket.recv())
        upload = Upload(server.port, f"Authorization: Bearer {key}\r\n")
        upload.send(line("one"))
        published = server.state.metrics.publishes._value
        wait_until(lambda: published.get() >= 1, "first message")
        book = KeyStore(tmp_path / "keys.db")
        book.remove("key")
        book.close()
        with pytest.raises(ConnectionClosed) as closed:
            websocket.recv(timeout=PATIENCE_S)
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008
        for stream in (ear, live):
            with pytest.raises(AssertionError, match="the stream has ended"):
                _read_on(stream)
        upload.send(line("two"))
        status, answer = upload.end()
        assert (status, answer["accepted"]) == (401, 1)


def _read_on(stream: Ear) -> None:
    while True:
        stream.event()


# --- time ------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [1e308, 1300.5, 1 << 70])
def test_a_time_far_ahead_is_refused(at: float) -> None:
    """By every way in; events after it are taken."""
    with serving(clock=lambda: 1000.0) as server, _socket(server) as websocket:
        websocket.recv()
        bad = SALE | {"at": at}
        assert server.post("/v1/messages", bad).status_code == 422
        assert server.post("/v1/subscriptions", IPAD | {"at": at}).status_code == 422
        assert server.http.put("/v1/subscriptions/s1", json=IPAD | {"at": at}).status_code == 422
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        moved = server.http.patch("/v1/subscriptions/s1", json={"region": IPAD["region"], "at": at})
        assert moved.status_code == 422
        assert server.lines("/v1/messages", json.dumps(bad)).json()["refused"] == 1
        event = json.dumps({"op": "publish", "id": "m", **bad})
        assert server.lines("/v1/events?clock=log", event).json()["refused"] == 1
        websocket.send(event)
        assert json.loads(websocket.recv())["problem"]["field"] == "at"
        assert server.post("/v1/messages", SALE | {"at": 1000.0}).json()["updates"] == 1
        assert server.post("/v1/messages", SALE | {"at": 1300.0}).status_code == 200


# --- connections and the process -------------------------------------------------------------


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: local", b"POST /v1/messages"])
def test_half_a_request_is_given_up(sent: bytes) -> None:
    with serving(header_s=0.2) as server:
        with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as half:
            half.sendall(sent)
            assert half.recv(100) == b""
        assert server.state.connections.slow == 1


def test_a_second_half_request_on_a_connection_is_given_up() -> None:
    with (
        serving(header_s=0.2) as server,
        socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as half,
    ):
        half.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        half.recv(10_000)
        half.sendall(b"GET /healthz HTTP/1.1\r\nHost: local")
        assert half.recv(100) == b""


def test_a_body_that_stops_is_given_up() -> None:
    with serving(body_s=0.2) as server:
        upload = Upload(server.port)
        upload.send(line("one"))
        assert upload._socket.recv(100) == b""
        upload._socket.close()


def test_streams_outlive_these_times() -> None:
    with (
        serving(header_s=0.1, body_s=0.1, keep_alive_s=0.1) as server,
        Ear(server.port, "/v1/updates") as ear,
        _socket(server) as websocket,
    ):
        websocket.recv()
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        for _ in range(8):
            ear.place()  # keep-alives
        server.post("/v1/messages", SALE)
        assert ear.event()["event"] == "add"
        assert json.loads(websocket.recv())["type"] == "update"
        assert server.state.connections.slow == 0


def test_connections_above_the_limit_are_refused_and_logged(tmp_path: Path) -> None:
    """There are files left for the store, and the server goes on when connections close."""
    with running(tmp_path, "--data", str(tmp_path / "data"), files=100) as server:
        server.http.close()
        taken = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(60)]
        answers = []
        for each in taken[-10:]:
            each.settimeout(PATIENCE_S)
            answers.append(each.recv(1000).split(b"\r\n")[0])
        assert b"HTTP/1.1 503 Unavailable" in answers
        assert "too many connections" in server.log
        for each in taken:
            each.close()
        wait_until(lambda: httpx.get(f"{server.url}/readyz").status_code == 200, "readiness")
        assert httpx.post(f"{server.url}/v1/messages", json=SALE).status_code == 200


def test_a_server_that_is_told_to_end_ends_well(tmp_path: Path) -> None:
    with running(tmp_path) as server, Ear(server.port, "/v1/updates"):
        assert server.terminate() == 0


def test_a_full_disk_is_not_ready(tmp_path: Path) -> None:
    with running(tmp_path, "--data", str(tmp_path / "data")) as server:
        assert server.http.get("/readyz").status_code == 200
        server.limit_file_size(1)
        assert server.http.post("/v1/messages", json=SALE).status_code == 507
        full = server.http.get("/readyz")
        assert full.status_code == 503
        assert "retry-after" in full.headers
        server.limit_file_size(-1)
        assert server.http.get("/readyz").status_code == 200
        assert server.http.post("/v1/messages", json=SALE).status_code == 200


def test_figures_of_all_are_for_the_operator(tmp_path: Path) -> None:
    key, theirs = key_of(tmp_path), key_of(tmp_path, "theirs", tenant="acme")
    with serving(tmp_path, open=False) as server:
        assert server.http.get("/metrics", headers=bearer(key)).status_code == 200
        refused = server.http.get("/metrics", headers=bearer(theirs))
        assert refused.status_code == 403
        assert "nearcast_" not in refused.text


# --- reads that take long --------------------------------------------------------------------


def test_others_publish_between_the_parts_of_a_page() -> None:
    """A box that meets nothing is looked for among all subscriptions."""
    done: list[str] = []
    lines = "".join(
        json.dumps({"id": f"s{number}", "query": "x", "region": IPAD["region"]}) + "\n"
        for number in range(10_000)
    )
    with serving() as server:
        assert server.lines("/v1/subscriptions", lines).json()["accepted"] == 10_000
        backend = server.state.tenants.find("default").backend  # type: ignore[union-attr]
        answer, apply = backend._answer, backend._apply
        started, go_on = threading.Event(), threading.Event()

        def read(job: Any) -> None:
            started.set()
            go_on.wait(PATIENCE_S)
            answer(job)
            done.append("read")

        def commit(jobs: Any) -> None:
            done.append("commit")
            apply(jobs)

        backend._answer, backend._apply = read, commit  # type: ignore[method-assign]
        nowhere = "/v1/subscriptions?bbox=0,0,1,1"
        reading = threading.Thread(target=server.http.get, args=(nowhere,))
        reading.start()
        assert started.wait(PATIENCE_S)
        publishing = threading.Thread(target=server.post, args=("/v1/messages", SALE))
        publishing.start()
        wait_until(lambda: backend.waiting >= 1, "message in the queue")
        go_on.set()
        reading.join()
        publishing.join()
    assert done[:2] == ["read", "commit"]
    assert done.count("read") > 2


def test_long_reads_of_the_log_hold_up_nobody(tmp_path: Path) -> None:
    """While one listener reads the file, others do, and requests with keys are answered."""
    with serving(tmp_path) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        server.post("/v1/messages", SALE)
    with serving(tmp_path) as server:
        log: Any = server.state.tenants.find("default").backend.log  # type: ignore[union-attr]
        with log._reader.rows("SELECT first FROM update_chunk") as rows:
            rows.fetchone()
            once = {"idempotency-key": "one"}
            assert server.post("/v1/messages", SALE, headers=once).json()["updates"] == 1
            assert len(server.updates()) == 2
