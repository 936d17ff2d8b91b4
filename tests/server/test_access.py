"""Who may do what: every route for everyone, tenants that do not see each other, and limits."""

import socket
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from nearcast import NearcastError
from nearcast.pacing import TokenBucket
from nearcast.server.access import ANYONE
from nearcast.server.app import NOUNS
from nearcast.server.config import Limits, is_loopback
from nearcast.server.keys import KeyStore
from served import IPAD, JSON, NDJSON, SALE, Ear, Served, serving

ROUTES = [route for noun in NOUNS for route in noun.routes]
OPEN = ["/healthz", "/readyz", "/openapi.json", "/docs"]


class Guarded(NamedTuple):
    server: Served
    keys: dict[str, str]
    book: KeyStore


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """A server that asks for keys, and one of each sort."""
    data = tmp_path_factory.mktemp("guarded")
    book = KeyStore(data / "keys.db")
    keys = {scope: book.add(scope, scopes=[scope]) for scope in ("publish", "subscribe", "admin")}
    keys["other"] = book.add("other", tenant="other", scopes=["publish", "subscribe", "admin"])
    with serving(data, open=False) as server:
        yield Guarded(server, keys, book)
    book.close()


def ask(server: Served, method: str, path: str, key: str | None, **more: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    if method in ("POST", "PUT", "PATCH") and "json" not in more:
        headers["content-type"] = NDJSON if path == "/v1/events" else JSON
        more["content"] = b"{}"
    path = path.replace("{id}", "nobody").replace("{letter}", "1")
    with server.http.stream(method, path, headers=headers, **more) as answer:
        if not answer.headers.get("content-type", "").startswith("text/event-stream"):
            answer.read()
        return answer


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_for_everyone(guarded: Guarded, route: Any) -> None:
    server, keys, _ = guarded
    assert route.scope in keys
    wrong = "subscribe" if route.scope == "publish" else "publish"
    nobody = ask(server, route.method, route.path, None)
    assert nobody.status_code == 401
    assert nobody.headers["www-authenticate"] == "Bearer"
    assert nobody.headers["content-type"] == "application/problem+json"
    assert ask(server, route.method, route.path, "nck_made-up").status_code == 401
    assert ask(server, route.method, route.path, keys[wrong]).status_code == 403
    right = keys["admin"] if route.path == "/v1/events" else keys[route.scope]
    if route.concerns_all:
        assert ask(server, route.method, route.path, keys["other"]).status_code == 403
    for key in (right, keys["admin"], *([] if route.concerns_all else [keys["other"]])):
        assert ask(server, route.method, route.path, key).status_code not in (401, 403, 405, 500)


@pytest.mark.parametrize("path", OPEN)
def test_what_needs_no_key(guarded: Guarded, path: str) -> None:
    assert guarded.server.http.get(path).status_code == 200


def test_metrics_are_for_admins(guarded: Guarded) -> None:
    server, keys, _ = guarded
    assert ask(server, "GET", "/metrics", None).status_code == 401
    assert ask(server, "GET", "/metrics", keys["subscribe"]).status_code == 403
    assert ask(server, "GET", "/metrics", keys["admin"]).status_code == 200


def test_events_need_both_scopes(guarded: Guarded) -> None:
    assert ask(guarded.server, "POST", "/v1/events", guarded.keys["publish"]).status_code == 403


def test_tenants_do_not_see_each_other(guarded: Guarded) -> None:
    server, keys, _ = guarded
    mine, theirs = keys["admin"], keys["other"]
    path = "/v1/subscriptions/shared"
    assert ask(server, "PUT", path, mine, json=IPAD).status_code == 201
    assert ask(server, "GET", path, theirs).status_code == 404
    assert ask(server, "GET", "/v1/subscriptions", theirs).json()["subscriptions"] == []
    assert ask(server, "PUT", path, theirs, json=IPAD | {"query": "sale"}).status_code == 201
    assert ask(server, "GET", path, mine).json()["query"] == "ipad"
    stream = f"/v1/updates?subscription=shared&key={theirs}"
    with Ear(server.port, stream) as ear, Ear(server.port, f"/v1/live?key={theirs}") as live:
        ear.place()
        body = SALE | {"id": "theirs"}
        assert ask(server, "POST", "/v1/messages", mine, json=SALE).json()["updates"] == 1
        assert ask(server, "POST", "/v1/messages", theirs, json=body).json()["updates"] == 1
        event = ear.event()
        assert (event["id"], '"theirs"' in event["data"]) == ("1", True)
        assert '"theirs"' in live.event()["data"]
    ask(server, "PUT", f"{path}/webhook", mine, json={"url": "https://example.org/"})
    assert ask(server, "GET", f"{path}/webhook", theirs).status_code == 404
    assert ask(server, "DELETE", path, theirs).status_code == 204
    assert ask(server, "GET", path, mine).status_code == 200


def test_a_key_in_the_address_is_for_streams_only(guarded: Guarded) -> None:
    server, keys, _ = guarded
    assert ask(server, "GET", f"/v1/subscriptions?key={keys['admin']}", None).status_code == 401
    with Ear(server.port, f"/v1/updates?key={keys['subscribe']}") as ear:
        assert ear.status == 200


def test_a_key_counts_until_it_is_removed(guarded: Guarded) -> None:
    server, _, book = guarded
    key = book.add("short-lived")
    authenticator = server.state.authenticator
    assert ask(server, "GET", "/v1/subscriptions", key).status_code in (200, 401)
    authenticator._checked = -1e9
    assert ask(server, "GET", "/v1/subscriptions", key).status_code == 200
    book.remove("short-lived")
    authenticator._checked = -1e9
    assert ask(server, "GET", "/v1/subscriptions", key).status_code == 401


def test_a_key_expires(tmp_path: Path) -> None:
    now = [1000.0]
    book = KeyStore(tmp_path / "keys.db", lambda: now[0])
    token = book.add("short", valid_s=60.0)
    assert book.find(token) is not None
    now[0] = 1060.0
    assert book.find(token) is None
    book.close()


def test_a_key_is_rotated_without_a_break(tmp_path: Path) -> None:
    """Both keys work for a while; then the new one alone, with the same rights."""
    now = [1000.0]
    book = KeyStore(tmp_path / "keys.db", lambda: now[0])
    old = book.add("phone", tenant="acme", scopes=["subscribe"], rate=5.0, body_bytes=100)
    new = book.rotate("phone", grace_s=60.0)
    newer = book.rotate("phone", grace_s=600.0)
    found = book.find(newer)
    assert found is not None
    assert (found.name, found.tenant, found.scopes) == ("phone", "acme", frozenset(["subscribe"]))
    assert (found.rate, found.body_bytes, found.expires) == (5.0, 100, None)
    assert None not in (book.find(old), book.find(new))
    now[0] = 1061.0
    assert book.find(old) is None
    assert None not in (book.find(new), book.find(newer))
    with pytest.raises(NearcastError, match="there is no key 'tablet'"):
        book.rotate("tablet", 1.0)
    book.close()


def test_keys_of_an_earlier_release_go_on_working(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "keys.db", isolation_level=None)) as file:
        file.execute(
            "CREATE TABLE keys (hash BLOB PRIMARY KEY, name TEXT UNIQUE NOT NULL,"
            " tenant TEXT NOT NULL, scopes TEXT NOT NULL, rate REAL, body_bytes INTEGER,"
            " created REAL NOT NULL) STRICT"
        )
        row = (sha256(b"nck_old").digest(), "old", "default", "subscribe", None, None, 1.0)
        file.execute("INSERT INTO keys VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    book = KeyStore(tmp_path / "keys.db")
    found = book.find("nck_old")
    assert found is not None
    assert (found.name, found.expires) == ("old", None)
    assert book.find(book.add("new", valid_s=60.0)) is not None
    book.close()


def test_only_a_hash_of_a_key_is_kept(tmp_path: Path) -> None:
    book = KeyStore(tmp_path / "keys.db")
    token = book.add("one")
    book.close()
    assert token.removeprefix("nck_").encode() not in (tmp_path / "keys.db").read_bytes()
    assert (tmp_path / "keys.db").stat().st_mode & 0o077 == 0


def test_past_its_rate_a_key_is_told_when_to_come_again(tmp_path: Path) -> None:
    book = KeyStore(tmp_path / "keys.db")
    key = book.add("slow", rate=0.5)
    book.close()
    with serving(tmp_path, open=False) as server:
        codes = [ask(server, "GET", "/v1/subscriptions", key) for _ in range(2)]
        assert [answer.status_code for answer in codes] == [200, 429]
        assert int(codes[1].headers["retry-after"]) >= 1
        assert codes[1].json()["type"] == "urn:nearcast:problem:too-many-requests"


def test_the_size_of_a_body_is_limited_by_key(tmp_path: Path) -> None:
    book = KeyStore(tmp_path / "keys.db")
    key = book.add("small", body_bytes=100)
    book.close()
    with serving(tmp_path, open=False) as server:
        body = SALE | {"text": "x" * 100}
        assert ask(server, "POST", "/v1/messages", key, json=body).status_code == 413
        assert ask(server, "POST", "/v1/messages", key, json=SALE).status_code == 200


def test_a_bucket_lets_through_what_its_rate_says() -> None:
    now = [0.0]
    bucket = TokenBucket(10.0, lambda: now[0])
    assert [bucket.take() for _ in range(20)] == [0.0] * 20
    assert bucket.take() == pytest.approx(0.1)
    now[0] = 0.3
    assert [bucket.take() > 0 for _ in range(4)] == [False, False, False, True]
    assert bucket.take(0) == 0.0
    now[0] = 1.0
    bucket.spend(100)
    assert bucket.debt() == pytest.approx(9.3)
    bucket.spend(100)
    assert bucket.debt() == pytest.approx(19.3)
    assert bucket.take() > 19.3


def test_a_page_that_borrows_a_name_is_turned_away() -> None:
    """DNS rebinding: a browser thinks that the name of a web page leads here."""
    with serving() as server:
        for host, status in (("evil.example", 421), ("localhost:80", 200), ("[::1]:80", 200)):
            answer = server.http.get("/v1/subscriptions", headers={"host": host})
            assert answer.status_code == status


def test_no_page_of_another_origin_unless_allowed() -> None:
    ask_first = {"origin": "https://app.example", "access-control-request-method": "POST"}
    with serving() as server:
        refused = server.http.options("/v1/messages", headers=ask_first)
        assert refused.status_code == 405
        assert "access-control-allow-origin" not in refused.headers
        simple = server.http.post(
            "/v1/messages", content=b"{}", headers={"content-type": "text/plain"}
        )
        assert simple.status_code == 415
    with serving(origins=frozenset(["https://app.example"])) as server:
        allowed = server.http.options("/v1/messages", headers=ask_first)
        assert allowed.headers["access-control-allow-origin"] == "https://app.example"


def test_every_answer_has_security_headers() -> None:
    with serving() as server:
        for path in ("/healthz", "/v1/subscriptions", "/nothing", "/v1/nothing", "/docs"):
            headers = server.http.get(path).headers
            assert "default-src 'self'" in headers["content-security-policy"]
            assert headers["x-content-type-options"] == "nosniff"
            assert "server" not in headers


def test_so_many_listeners_and_no_more() -> None:
    with (
        serving(limits=Limits(listeners=1)) as server,
        Ear(server.port, "/v1/updates") as first,
        Ear(server.port, "/v1/updates") as second,
    ):
        assert (first.status, second.status) == (200, 503)


@pytest.mark.parametrize(
    ("host", "local"),
    [("127.0.0.1", True), ("::1", True), ("localhost", True), ("0.0.0.0", False)],  # noqa: S104 - not bound
)
def test_which_addresses_only_this_machine_reaches(host: str, local: bool) -> None:
    assert is_loopback(host) is local


def test_no_secret_in_logs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from nearcast.server.logs import set_up_logs

    book = KeyStore(tmp_path / "keys.db")
    key = book.add("one")
    book.close()
    with serving(tmp_path, open=False) as server:
        set_up_logs("debug")
        ask(server, "GET", "/v1/subscriptions", key)
        ask(server, "GET", "/v1/subscriptions", "nck_wrong")
        with Ear(server.port, f"/v1/updates?key={key}"):
            pass
        raw = socket.create_connection(("127.0.0.1", server.port))
        raw.sendall(f"BAD {key} HTTP/9\r\n\r\n".encode())
        raw.close()
    set_up_logs("error")
    said = capsys.readouterr()
    assert key not in said.err + said.out
    assert "nck_wrong" not in said.err + said.out


assert ANYONE not in {route.scope for route in ROUTES}
