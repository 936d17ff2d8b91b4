"""`/v1/messages` and `/v1/events`: one by one and in lines, once and not twice, in time."""

import threading
from collections.abc import Iterator

import msgspec
import pytest

from nearcast import Engine
from served import IPAD, SALE, Served, serving

TOP = {"k": 1, "alpha": 0.5}


@pytest.fixture
def server() -> Iterator[Served]:
    clock = [1000.0]
    with serving(clock=lambda: clock[0]) as served:
        served.clock = clock  # type: ignore[attr-defined]  # for tests that let time pass
        yield served


def test_the_answer_is_the_id_and_the_number_of_updates(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    server.http.put("/v1/subscriptions/s2", json=IPAD)
    assert server.post("/v1/messages", SALE | {"id": "m1"}).json() == {"id": "m1", "updates": 2}
    made = server.post("/v1/messages", SALE).json()
    assert made["updates"] == 2
    assert made["id"] not in ("m1", "")


def test_bad_lines_never_lose_good_ones(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    good = msgspec.json.encode(SALE).decode()
    taken = msgspec.json.encode(SALE | {"id": "m1"}).decode()
    answer = server.lines(
        "/v1/messages", f'{good}\n\n{{"text": "x"\n{taken}\n{taken}\n"text"\r\n{good}\r\n\n{good}'
    ).json()
    assert (answer["accepted"], answer["refused"], answer["updates"]) == (5, 2, 5)
    assert [error["line"] for error in answer["errors"]] == [3, 6]
    kinds = [error["type"].rpartition(":")[2] for error in answer["errors"]]
    assert kinds == ["invalid-value", "invalid-value"]


def test_lines_in_many_slices_keep_their_numbers(server: Served) -> None:
    good = msgspec.json.encode(SALE).decode()
    lines = [good if number % 1000 else "bad" for number in range(1, 5001)]
    answer = server.lines("/v1/messages", "\n".join(lines)).json()
    assert (answer["accepted"], answer["refused"]) == (4995, 5)
    assert [error["line"] for error in answer["errors"]] == [1000, 2000, 3000, 4000, 5000]


def test_a_message_has_the_servers_time_unless_it_brings_its_own(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    server.post("/v1/messages", SALE)
    server.clock[0] = 1005.0  # type: ignore[attr-defined]
    server.post("/v1/messages", SALE)
    server.post("/v1/messages", SALE | {"at": 1010})
    server.post("/v1/messages", SALE)  # the server's clock is behind: time stands still
    assert [update["at"] for update in server.updates()] == [1000.0, 1005.0, 1010.0, 1010.0]


def test_the_past_is_refused(server: Served) -> None:
    server.post("/v1/messages", SALE | {"at": 1200})
    refused = server.post("/v1/messages", SALE | {"at": 1199})
    assert refused.status_code == 409
    assert refused.json()["type"] == "urn:nearcast:problem:past-time"
    assert "1200.0" in refused.json()["detail"]


def test_what_is_refused_does_not_move_time(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    server.http.put("/v1/subscriptions/top", json={"query": "a", "point": [0, 0], "top": TOP})
    refused = server.http.put("/v1/subscriptions/top", json=IPAD | {"at": 1290})
    assert (refused.status_code, refused.json()["type"][21:]) == (409, "other-kind")
    server.post("/v1/messages", SALE)
    assert server.updates()[-1]["at"] == 1000.0


def test_a_lasting_message_is_no_result_once_its_time_is_over(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    server.post("/v1/messages", SALE | {"ttl": 60})
    results = "/v1/subscriptions/s1/results"
    assert len(server.http.get(results).json()["results"]) == 1
    server.clock[0] = 1060.0  # type: ignore[attr-defined]
    assert server.http.get(results).json()["results"] == []


def test_the_same_key_has_one_effect_and_one_answer(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    headers = {"idempotency-key": "k1"}
    first = server.post("/v1/messages", SALE, headers=headers)
    again = server.post("/v1/messages", SALE, headers=headers)
    assert (first.status_code, first.json()) == (again.status_code, again.json())
    other = server.post("/v1/messages", SALE | {"text": "ipad"}, headers=headers)
    assert other.status_code == 422
    assert other.json()["type"] == "urn:nearcast:problem:idempotency-key-reused"
    assert len(server.updates()) == 1
    made = [server.post("/v1/subscriptions", IPAD, headers=headers) for _ in range(2)]
    assert made[0].json() == made[1].json()
    assert made[0].headers["location"] == made[1].headers["location"]


def test_a_refused_request_may_be_tried_again_with_its_key(server: Served) -> None:
    server.post("/v1/messages", SALE | {"at": 1000})
    headers = {"idempotency-key": "k1"}
    body = SALE | {"at": 999}
    assert server.post("/v1/messages", body, headers=headers).status_code == 409
    assert server.post("/v1/messages", body, headers=headers).status_code == 409


def test_requests_with_one_key_at_once_have_one_effect(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    answers: list[object] = []

    def post() -> None:
        answers.append(server.post("/v1/messages", SALE, headers={"idempotency-key": "k"}).json())

    threads = [threading.Thread(target=post) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [answers[0]] * 8
    assert len(server.updates()) == 1


def test_lines_under_a_key_are_one_request(server: Served) -> None:
    server.http.put("/v1/subscriptions/s1", json=IPAD)
    body = "\n".join(msgspec.json.encode(SALE).decode() for _ in range(5000)) + "\nbad\n"
    answers = [server.lines("/v1/messages", body, **{"idempotency-key": "k"}) for _ in range(2)]
    assert answers[0].json() == answers[1].json()
    assert answers[0].json()["accepted"] == 5000
    assert server.state.tenants.find("default").hub.last == 5000  # type: ignore[union-attr]


LOG = [
    {"op": "subscribe", "id": "s1", **IPAD, "at": 1},
    {"op": "publish", "id": "m1", **SALE, "ttl": 60, "at": 2},
    {"op": "move", "id": "s1", "region": {"type": "Box", "bbox": [0, 0, 1, 1]}, "at": 3},
    {"op": "move", "id": "s2", "region": {"type": "Box", "bbox": [0, 0, 1, 1]}, "at": 3},
    {"op": "unsubscribe", "id": "s1", "at": 4},
]


def lines_of(events: list[dict[str, object]]) -> str:
    return "".join(msgspec.json.encode(event).decode() + "\n" for event in events)


def test_events_of_a_log_are_numbered(server: Served) -> None:
    answer = server.lines("/v1/events", lines_of(LOG)).json()
    assert answer["seqs"] == [1, 2, 3, None, 4]
    assert [error["line"] for error in answer["errors"]] == [4]
    assert [(each["seq"], each["op"]) for each in server.updates()] == [(2, "add"), (3, "remove")]


def test_events_after_a_bad_one_can_be_left_alone(server: Served) -> None:
    answer = server.lines("/v1/events?on_error=stop", lines_of(LOG)).json()
    assert answer["seqs"] == [1, 2, 3, None]
    assert server.http.get("/v1/subscriptions/s1").status_code == 200
    bad = server.lines("/v1/events?on_error=stop", f"bad\n{lines_of(LOG[4:])}").json()
    assert (bad["accepted"], bad["refused"]) == (0, 1)
    assert server.http.get("/v1/subscriptions/s1").status_code == 200


def test_publishers_at_once_get_what_one_after_the_other_would(server: Served) -> None:
    """Group commit changes nothing but the order in which strangers come."""
    for number in range(10):
        server.http.put(f"/v1/subscriptions/s{number}", json=IPAD | {"query": f"w{number}"})
    answers: dict[str, int] = {}

    def post(start: int) -> None:
        for number in range(start, 200, 8):
            words = " ".join(f"w{each}" for each in range(number % 11))
            body = SALE | {"id": f"m{number}", "text": words}
            answers[f"m{number}"] = server.post("/v1/messages", body).json()["updates"]

    threads = [threading.Thread(target=post, args=(start,)) for start in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == {f"m{number}": number % 11 for number in range(200)}
    assert len(server.updates()) == sum(answers.values())


def test_what_was_acknowledged_is_there_after_a_restart(tmp_path: object) -> None:
    from pathlib import Path

    data = Path(str(tmp_path))
    with serving(data) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        server.post("/v1/messages", SALE | {"id": "m1", "ttl": 1e9})
    with serving(data) as server:
        assert [update["message"] for update in server.updates()] == ["m1"]
        assert (
            server.http.get("/v1/subscriptions/s1/results").json()["results"][0]["message"] == "m1"
        )
        server.post("/v1/messages", SALE | {"id": "m2"})
        assert [update["id"] for update in server.updates()] == [1, 2]
    with Engine(index="rarest-term", path=data / "tenants" / "default.nearcast") as engine:
        assert engine.count == 1
