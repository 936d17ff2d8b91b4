"""`/v1/subscriptions`: made, listed, replaced, moved and removed."""

from collections.abc import Iterator
from urllib.parse import quote

import msgspec
import pytest

from served import IPAD, NDJSON, SALE, Served, serving


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with serving() as served:
        yield served


@pytest.fixture(autouse=True)
def _clean(server: Served) -> Iterator[None]:
    yield
    found = server.http.get("/v1/subscriptions?limit=1000").json()["subscriptions"]
    lines = [msgspec.json.encode({"op": "unsubscribe", "id": each["id"]}) for each in found]
    server.lines("/v1/events", b"\n".join(lines).decode())


def test_made_with_an_id_or_without(server: Served) -> None:
    made = server.post("/v1/subscriptions", IPAD | {"id": "s1"})
    assert made.status_code == 201
    assert made.headers["location"] == "/v1/subscriptions/s1"
    assert made.json()["query"] == "ipad"
    other = server.post("/v1/subscriptions", IPAD).json()["id"]
    assert other != "s1"
    assert server.http.get(f"/v1/subscriptions/{other}").json() == {
        "id": other,
        "query": "ipad",
        "region": {"type": "Circle", "center": [151.2, -33.87], "radius": 2000.0},
    }


@pytest.mark.parametrize("id", ["a/b", "a/results", "ä ö?&#", "%2F", ".", "a+b", "💧", "x" * 255])
def test_an_id_may_be_any_string(server: Served, id: str) -> None:
    path = f"/v1/subscriptions/{quote(id, safe='')}" if id != "." else "/v1/subscriptions/%2E"
    raw = server.http.build_request("PUT", server.url, json=IPAD)
    raw.url = raw.url.copy_with(raw_path=path.encode())
    assert server.http.send(raw).status_code == 201
    found = server.http.get("/v1/subscriptions").json()["subscriptions"]
    assert [each["id"] for each in found] == [id]


def test_put_is_idempotent_and_tells_new_from_old(server: Served) -> None:
    first = server.http.put("/v1/subscriptions/s1", json=IPAD)
    again = server.http.put("/v1/subscriptions/s1", json=IPAD | {"id": "s1"})
    other = server.http.put("/v1/subscriptions/s1", json=IPAD | {"id": "s2"})
    assert [first.status_code, again.status_code, other.status_code] == [201, 200, 422]
    assert other.json()["field"] == "id"


def test_put_does_not_change_the_kind(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    top = {"query": "ipad", "point": [0, 0], "top": {"k": 1, "alpha": 0.5}}
    refused = server.http.put("/v1/subscriptions/s1", json=top)
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:nearcast:problem:other-kind"


def test_move_gives_the_updates_of_lasting_messages(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    server.post("/v1/messages", SALE | {"text": "iPad", "point": [10, 10], "ttl": 600})
    there = {"type": "Box", "bbox": [9, 9, 11, 11]}
    moved = server.http.patch("/v1/subscriptions/s1", json={"region": there})
    assert moved.status_code == 200
    assert moved.json()["updates"] == 1
    assert moved.json()["region"] == there | {"bbox": [9.0, 9.0, 11.0, 11.0]}
    results = server.http.get("/v1/subscriptions/s1/results").json()["results"]
    assert [(result["text"], result["ttl"]) for result in results] == [("iPad", 600.0)]


def test_move_changes_nothing_else(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    refused = server.http.patch("/v1/subscriptions/s1", json={"query": "x"})
    assert refused.status_code == 422
    assert server.http.patch("/v1/subscriptions/s2", json={"point": [0, 0]}).status_code == 404


def test_removed_once(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    gone, again = (server.http.delete("/v1/subscriptions/s1") for _ in range(2))
    assert (gone.status_code, gone.content, again.status_code) == (204, b"", 404)
    assert server.http.get("/v1/subscriptions/s1").status_code == 404
    assert server.http.get("/v1/subscriptions/s1/results").status_code == 404


def test_null_is_the_same_as_absent_and_unknown_fields_are_passed_over(server: Served) -> None:
    path, nothing = "/v1/subscriptions/s1", {"id": None, "meta": None, "top": None, "other": 5}
    assert server.http.put(path, json=IPAD | nothing).status_code == 201
    assert server.http.patch(path, json={"region": IPAD["region"]} | nothing).status_code == 200


def test_a_query_may_have_as_many_conjuncts_as_anywhere(server: Served) -> None:
    words = [f"word{number:04}" for number in range(1025)]
    most, more = " OR ".join(words[:-1]), " OR ".join(words)
    assert server.post("/v1/subscriptions", {"query": most}).status_code == 201
    refused = server.post("/v1/subscriptions", {"query": more})
    assert refused.json()["type"] == "urn:nearcast:problem:invalid-query"


def test_pages_go_on_after_an_id(server: Served) -> None:
    for number in range(5):
        server.http.put(f"/v1/subscriptions/s{number}", json=IPAD)
    seen, cursor = [], None
    while True:
        params = {"limit": 2} | ({"after": cursor} if cursor else {})
        page = server.http.get("/v1/subscriptions", params=params).json()
        seen.append([each["id"] for each in page["subscriptions"]])
        cursor = page["next"]
        if cursor is None:
            break
    assert seen == [["s0", "s1"], ["s2", "s3"], ["s4"]]
    rest = server.http.get("/v1/subscriptions", params={"after": "s2x"}).json()
    assert [each["id"] for each in rest["subscriptions"]] == ["s3", "s4"]
    first = server.http.get("/v1/subscriptions", params={"after": "", "limit": 1}).json()
    assert [each["id"] for each in first["subscriptions"]] == ["s0"]


def test_a_list_can_be_cut_to_a_box(server: Served) -> None:
    server.http.put("/v1/subscriptions/here", json=IPAD)
    elsewhere = {"query": "ipad", "region": {"type": "Box", "bbox": [0, 0, 1, 1]}}
    server.http.put("/v1/subscriptions/there", json=elsewhere)
    top = {"query": "ipad", "point": [0.5, 0.5], "top": {"k": 1, "alpha": 0.5}}
    server.http.put("/v1/subscriptions/ranked", json=top)
    page = server.http.get("/v1/subscriptions?bbox=-1,-1,2,2").json()
    assert [each["id"] for each in page["subscriptions"]] == ["ranked", "there"]


def test_all_of_them_as_lines(server: Served) -> None:
    body = "".join(
        msgspec.json.encode(IPAD | {"id": f"s{number}"}).decode() + "\n" for number in range(2100)
    )
    answer = server.lines("/v1/subscriptions", body)
    assert answer.json() == {"accepted": 2100, "refused": 0, "updates": 0, "errors": []}
    listed = server.http.get("/v1/subscriptions", headers={"accept": NDJSON})
    assert len(listed.content.splitlines()) == 2100
    removals = "".join(f'{{"op":"unsubscribe","id":"s{number}"}}\n' for number in range(2100))
    assert server.lines("/v1/events", removals).json()["accepted"] == 2100


def test_results_of_a_ranked_subscription_come_best_first(server: Served) -> None:
    top = {"query": "jazz", "point": [0, 0], "top": {"k": 2, "alpha": 1.0}}
    server.http.put("/v1/subscriptions/fan", json=top)
    for id, lon in (("far", 9), ("near", 1), ("middle", 5)):
        server.post("/v1/messages", {"id": id, "text": "jazz", "point": [lon, 0]})
    results = server.http.get("/v1/subscriptions/fan/results").json()["results"]
    assert [result["message"] for result in results] == ["near", "middle"]
    assert results[0]["score"] > results[1]["score"]
