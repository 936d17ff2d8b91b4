"""`/v1/backups`: a copy taken while messages come in opens as a state that once was."""

import shutil
import threading
from pathlib import Path

from nearcast import Client, Engine
from nearcast.geo import Box
from served import IPAD, Served, serving


def test_a_copy_taken_while_running_is_a_state_that_once_was(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serving(data) as server:
        with Client(server.url) as client:
            client.subscribe("s", "a", Box(0, 0, 1, 1))
        stop = threading.Event()
        threads = [
            threading.Thread(target=publish, args=(server, name, stop)) for name in ("x", "y")
        ]
        for thread in threads:
            thread.start()
        names = [server.http.post("/v1/backups").json()["name"] for _ in range(3)]
        stop.set()
        for thread in threads:
            thread.join()
        whole = [(update["id"], update["message"]) for update in server.updates(limit=10_000)]
    assert len(set(names)) == 3
    for name in names:
        with Engine(index="rarest-term", path=data / "backups" / name) as engine:
            entries = engine.log.read(0, 10_000)
            seen = [(entry.id, entry.message) for entry in entries]
            assert seen == whole[: len(seen)]
            assert engine.seq == len(seen) + 1
            assert engine.get("s") is not None
    restored = tmp_path / "restored" / "tenants" / "default.nearcast"
    restored.parent.mkdir(parents=True)
    shutil.copy(data / "backups" / names[0], restored)
    with serving(tmp_path / "restored") as server, Client(server.url) as client:
        last = client.last_update()
        client.publish("again", "a", (0.5, 0.5))
        assert client.last_update() == last + 1


def publish(server: Served, name: str, stop: threading.Event) -> None:
    with Client(server.url) as client:
        number = 0
        while not stop.is_set():
            number += 1
            client.publish(f"{name}{number}", "a", (0.5, 0.5))


def test_what_is_in_memory_cannot_be_copied() -> None:
    with serving() as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        refused = server.http.post("/v1/backups")
        assert refused.status_code == 409
