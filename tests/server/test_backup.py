"""`nearcast backup`: a copy that was taken while a server was busy has all it had acknowledged."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from nearcast.cli.main import main
from served import IPAD, SALE, serving


def test_a_copy_taken_while_messages_come_in_is_consistent(tmp_path: Path) -> None:
    """Every update before the copy began, none in parts, and the ids go on from there."""
    with serving(tmp_path / "data") as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        done = threading.Event()
        acknowledged: list[str] = []

        def post() -> None:
            while not done.is_set():
                number = len(acknowledged)
                server.post("/v1/messages", SALE | {"id": f"m{number}", "ttl": 1e9})
                acknowledged.append(f"m{number}")

        thread = threading.Thread(target=post)
        thread.start()
        while len(acknowledged) < 5:
            assert thread.is_alive()
        before = list(acknowledged)
        copy = str(tmp_path / "copy")
        assert main(["backup", "--data", str(tmp_path / "data"), "--output", copy]) == 0
        done.set()
        thread.join()
    with serving(tmp_path / "copy") as server:
        kept = [update["message"] for update in server.updates()]
        assert kept[: len(before)] == before
        assert kept == [f"m{number}" for number in range(len(kept))]
        results = server.http.get("/v1/subscriptions/s1/results").json()["results"]
        assert {result["message"] for result in results} == set(kept)
        server.post("/v1/messages", SALE | {"id": "later"})
        assert [update["id"] for update in server.updates()] == list(range(1, len(kept) + 2))


def test_where_nothing_is_to_be_copied_that_is_told(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["backup", "--data", str(tmp_path), "--output", str(tmp_path / "copy")]) == 2
    assert "expected the folder that `nearcast serve --data` was given" in capfd.readouterr().err
