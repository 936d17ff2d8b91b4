"""What foreign web pages ask, and numbers that no honest client sends, at a server without keys."""

from collections.abc import Iterator

import pytest

from served import NDJSON, Ear, Served, serving

# --- web pages of others ---------------------------------------------------------------------

FOREIGN = (
    {"origin": "https://evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:1"},
    {"sec-fetch-site": "cross-site"},
    {"sec-fetch-site": "same-site"},
)


@pytest.fixture(scope="module")
def unlocked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("unlocked")) as served:
        yield served


def _changing() -> list[tuple[str, str]]:
    from nearcast.server.app import NOUNS

    routes = [(route.method, route.path) for noun in NOUNS for route in noun.routes]
    return [(method, path) for method, path in routes if method != "GET"]


@pytest.mark.parametrize("headers", FOREIGN, ids=lambda each: "-".join(each.values()))
@pytest.mark.parametrize(("method", "path"), _changing())
def test_a_foreign_page_changes_nothing(
    unlocked: Served, method: str, path: str, headers: dict[str, str]
) -> None:
    """Not even where no body, and so no content type, is needed."""
    path = path.replace("{id}", "s1").replace("{letter}", "1")
    answer = unlocked.http.request(method, path, headers=headers)
    assert answer.status_code == 403
    assert answer.json()["type"] == "urn:nearcast:problem:foreign-origin"


@pytest.mark.parametrize(("method", "path"), _changing())
def test_a_form_changes_nothing(unlocked: Served, method: str, path: str) -> None:
    path = path.replace("{id}", "s1").replace("{letter}", "1")
    headers = {"content-type": "application/x-www-form-urlencoded"}
    answer = unlocked.http.request(method, path, headers=headers, content=b"a=b")
    assert answer.status_code == 415


def test_a_page_of_ones_own_may(unlocked: Served) -> None:
    own = {"origin": unlocked.url, "sec-fetch-site": "same-origin"}
    assert unlocked.post("/v1/backups", None, headers=own).status_code == 201
    assert unlocked.http.post("/v1/dead-letters/replay", headers=own).status_code == 200


# --- absurd numbers --------------------------------------------------------------------------

NUMBERS = [
    "9" * 20,
    "000000001" + "9" * 5000,
    "0" * 20 + "9" * 5000,
    "9" * 5000,
    "0" * 25,
    "1" + "0" * 30,
    "-1",
    "1e3",
    "\u0664",
    str(1 << 63),
]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda each: each[:10])
@pytest.mark.parametrize("accept", ["text/event-stream", NDJSON])
def test_absurd_places(unlocked: Served, number: str, accept: str) -> None:
    asked = {"after": number}
    answer = unlocked.http.get("/v1/updates", params=asked, headers={"accept": accept})
    assert answer.status_code == 422
    headers = {b"accept": accept.encode(), b"last-event-id": number.encode()}
    assert unlocked.http.get("/v1/updates", headers=headers).status_code == 422


@pytest.mark.parametrize("number", NUMBERS, ids=lambda each: each[:10])
@pytest.mark.parametrize("name", ["window", "after"])
def test_absurd_windows(unlocked: Served, number: str, name: str) -> None:
    upgrade = {
        "connection": "upgrade",
        "upgrade": "websocket",
        "sec-websocket-version": "13",
        "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
    }
    answer = unlocked.http.get("/v1/updates/ws", params={name: number}, headers=upgrade)
    assert answer.status_code == 422


def test_a_place_that_is_still_to_come(unlocked: Served) -> None:
    with Ear(unlocked.port, f"/v1/updates?after={(1 << 63) - 1}") as ear:
        assert ear.event()["event"] == "gap"
