"""An archive: restored to any time it is exactly what the server was then, or refused by name."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from nearcast.cli.main import main
from nearcast.engine import Engine
from nearcast.errors import DamagedStoreError, InvalidValue, SourceError, StoreError
from nearcast.server.archive import chains as chains_module
from nearcast.server.archive.chains import BASE, HEAD, ServerArchive
from nearcast.server.archive.restore import read_time, restore_archive, written
from nearcast.server.archive.writer import CommitBuffer
from nearcast.server.keys import KeyStore
from nearcast.server.standby.stream import KeptCommit
from nearcast.spark.io import files
from patience import wait_until
from served import IPAD, SALE, Served, serving
from server_process import running


class SetClock:
    """A clock that tests set; events without a time get it too."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Archived:
    """The folders of a server and of its archive, and a clock for both."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data, self.root = folder, folder / "data", folder / "archive"
        self.clock = SetClock()
        self._restored = 0

    @contextmanager
    def serving(self, data: Path | None = None, **more: Any) -> Iterator[Served]:
        """A server that writes its archive all the time."""
        options: dict[str, Any] = {"archive": str(self.root), "archive_s": 0.001}
        options |= {"clock": self.clock, **more}
        with serving(data or self.data, **options) as server:
            yield server

    def restore(self, time: float) -> Path:
        """Restore to a time, and return the new folder."""
        self._restored += 1
        target = self.folder / f"restored-{self._restored}"
        restore_archive(str(self.root), target, time)
        return target

    def messages_at(self, time: float) -> list[str]:
        """The messages in the log of updates of what is restored to a time."""
        path = self.restore(time) / "tenants" / "default.nearcast"
        with Engine(path=path, index="scan", clock=self.clock) as engine:
            return [entry.message for entry in engine.log.read(0, 100)]

    def segments(self) -> list[Path]:
        return sorted(self.root.rglob("*.commits"))


@pytest.fixture
def archived(tmp_path: Path) -> Archived:
    return Archived(tmp_path)


def settled(server: Served) -> None:
    """Wait until the archive has everything."""
    wait_until(
        lambda: server.http.get("/readyz").json()["archive"]["lag_commits"] == 0, "the archive"
    )


def publish(archived: Archived, server: Served, number: int) -> None:
    """Publish message `mN` at the time 1000 + 10 N."""
    archived.clock.now = 1000.0 + 10 * number
    assert server.post("/v1/messages", SALE | {"id": f"m{number}", "ttl": 600}).is_success


def test_restored_to_a_time_between_two_commits(archived: Archived) -> None:
    with archived.serving() as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        settled(server)
        for number in range(1, 5):
            publish(archived, server, number)
        server.http.delete("/v1/subscriptions/s1")
        settled(server)
    for time, expected in ((1009.9, 0), (1010, 1), (1025, 2), (1039.999, 3), (9e9, 4)):
        assert archived.messages_at(time) == [f"m{n}" for n in range(1, expected + 1)], time
    with serving(archived.restore(1035), clock=archived.clock) as server:
        results = server.http.get("/v1/subscriptions/s1/results").json()["results"]
        assert [result["message"] for result in results] == ["m1", "m2", "m3"]
        assert server.post("/v1/messages", SALE | {"id": "new"}).json()["updates"] == 1
        assert [update["id"] for update in server.updates()] == [1, 2, 3, 4]
    with serving(archived.restore(9e9), clock=archived.clock) as server:
        assert server.http.get("/v1/subscriptions/s1").status_code == 404


def test_what_is_no_event_is_restored_too(archived: Archived) -> None:
    """Webhooks, answers under idempotency keys, other tenants and keys."""
    keys = KeyStore(archived.data / "keys.db")
    acme, gone = keys.add("acme", tenant="acme"), keys.add("gone", tenant="acme")
    one = {"authorization": f"Bearer {acme}"}
    with archived.serving(open=False, private_webhooks=True) as server:
        server.http.headers.update(one)
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        hook = {"url": "http://127.0.0.1:9/hook"}
        assert server.http.put("/v1/subscriptions/s1/webhook", json=hook).is_success
        archived.clock.now = 1010.0
        first = server.post("/v1/messages", SALE, headers={"idempotency-key": "k"})
        settled(server)
        keys.remove("gone")
        archived.clock.now = 1020.0
        wait_until(lambda: len(list((archived.root / "keys").iterdir())) > 1, "the new keys")
    keys.close()
    with serving(archived.restore(1015), open=False, clock=archived.clock) as server:
        for token in (acme, gone):
            server.http.headers["authorization"] = f"Bearer {token}"
            found = server.http.get("/v1/subscriptions/s1/webhook").json()
            assert found["url"] == "http://127.0.0.1:9/hook"
        again = server.post("/v1/messages", SALE, headers={"idempotency-key": "k"})
        assert again.content == first.content
        assert len(server.updates()) == 1
    later = KeyStore(archived.restore(1025) / "keys.db")
    assert [key.name for key in later.all()] == ["acme"]
    later.close()


def test_a_damaged_segment_is_refused_by_its_name(archived: Archived) -> None:
    with archived.serving() as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        settled(server)
        for number in range(1, 5):
            publish(archived, server, number)
            settled(server)
    damaged = archived.segments()[-2]
    whole = damaged.read_bytes()
    for broken in (whole[:-1], whole[:50] + bytes([whole[50] ^ 1]) + whole[51:], b""):
        damaged.write_bytes(broken)
        with pytest.raises(DamagedStoreError, match=damaged.name):
            archived.restore(9e9)
    damaged.unlink()
    with pytest.raises(DamagedStoreError, match=archived.segments()[-1].name):
        archived.restore(9e9)
    damaged.write_bytes(b"")
    assert archived.messages_at(1015) == ["m1"], "what is later does not matter"
    assert [path for path in archived.folder.iterdir() if path.name.endswith("unfinished")] == []
    (base,) = archived.root.rglob(BASE)
    base.write_bytes(base.read_bytes()[:-1] + b"x")
    with pytest.raises(DamagedStoreError, match=BASE):
        archived.restore(1015)


def test_a_clean_stop_goes_on_with_the_same_chain(archived: Archived) -> None:
    for number in range(1, 4):
        with archived.serving() as server:
            server.http.put("/v1/subscriptions/s1", json=IPAD)
            settled(server)  # the first time: the full copy
            publish(archived, server, number)
    assert len(list(archived.root.rglob(HEAD))) == 1
    assert archived.messages_at(1025) == ["m1", "m2"]


def test_full_copies_and_what_is_too_old(archived: Archived) -> None:
    """Every chain is restored from; one that is needed no more goes."""
    with archived.serving(archive_full_s=15.0) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        settled(server)
        for number in range(1, 6):
            publish(archived, server, number)
            settled(server)
        wait_until(lambda: len(list(archived.root.rglob(HEAD))) >= 3, "full copies")
    for number in range(6):
        expected = [f"m{n}" for n in range(1, number + 1)]
        assert archived.messages_at(1005 + 10 * number) == expected
    archive = ServerArchive(str(archived.root))
    second = archive.chains("default")[1].head()
    archive.forget_before("default", second.time)
    assert archive.chains("default")[0].head() == second
    with pytest.raises(StoreError, match="begins at"):
        archived.restore(1005)
    assert archived.messages_at(9e9)[-1] == "m5"


def test_a_place_that_fails_for_a_while(
    archived: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server goes on, says how far the archive is behind, and brings it up to date later."""
    real = chains_module.ArchiveChain.put_segment

    def fail(*_: object) -> None:
        raise SourceError("archive: cannot be written (no such place)")

    with archived.serving() as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        settled(server)
        monkeypatch.setattr(chains_module.ArchiveChain, "put_segment", fail)
        publish(archived, server, 1)
        archived.clock.now += 5
        wait_until(lambda: server.state.archive.failures > 0, "a failure")
        shown = server.http.get("/readyz").json()["archive"]
        assert shown == {"lag_commits": 1, "lag_seconds": 5.0}
        metrics = server.http.get("/metrics").text
        assert "nearcast_archive_lag_commits 1.0" in metrics
        assert "nearcast_archive_lag_seconds 5.0" in metrics
        monkeypatch.setattr(chains_module.ArchiveChain, "put_segment", real)
        settled(server)
    assert archived.messages_at(9e9) == ["m1"]


def test_restoring_begins_another_history(archived: Archived) -> None:
    """A server that goes on from the past has a chain of its own in the same archive."""
    with archived.serving() as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        settled(server)
        publish(archived, server, 1)
        publish(archived, server, 2)
        settled(server)
    past = archived.restore(1015)
    archived.clock.now = 1100.0
    with archived.serving(past) as server:
        settled(server)
        publish(archived, server, 11)
        settled(server)
    assert archived.messages_at(9e9) == ["m1", "m11"]
    assert archived.messages_at(1050) == ["m1", "m2"]


def test_after_every_write_the_archive_can_be_used(
    archived: Archived, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if the server were killed between any two writes, or in the middle of one."""
    real, made = files._fill_local, []

    def record(place: Path, fill: Callable[[Any], object], durable: bool) -> None:
        real(place, fill, durable)
        if place.is_relative_to(archived.root):
            made.append((place.relative_to(archived.root), place.read_bytes()))

    monkeypatch.setattr(files, "_fill_local", record)
    with archived.serving(archive_full_s=25.0) as server:
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        for number in range(1, 6):
            publish(archived, server, number)
            settled(server)
    monkeypatch.undo()
    assert {path.name for path, _ in made} >= {BASE, HEAD}
    seen = []
    for count in range(len(made)):
        root = archived.folder / f"killed-{count}"
        for path, data in made[:count]:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        path, data = made[count]
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).with_name(f".{path.name}.0badcafe").write_bytes(data[: len(data) // 2])
        target = archived.folder / f"from-{count}"
        if not any(each.name == HEAD for each, _ in made[:count]):
            with pytest.raises(StoreError, match="holds no archive"):
                restore_archive(str(root), target, 9e9)
            continue
        restore_archive(str(root), target, 9e9)
        with Engine(path=target / "tenants" / "default.nearcast", index="scan") as engine:
            found = [entry.message for entry in engine.log.read(0, 100)]
        assert found == [f"m{number}" for number in range(1, len(found) + 1)]
        seen.append(len(found))
    assert seen == sorted(seen)
    assert seen[-1] >= 3


def test_a_killed_server_goes_on_with_its_archive(tmp_path: Path) -> None:
    """Commits that the archive never got are named; after the next full copy it is complete."""
    data, root = tmp_path / "data", str(tmp_path / "archive")
    with running(tmp_path, "--data", str(data), "--archive", root) as server:
        archive = ServerArchive(root)
        wait_until(lambda: archive.chains("default"), "the full copy")
        before = archive.chains("default")[0].head()
        server.http.put("/v1/subscriptions/s1", json=IPAD)
        server.http.post("/v1/messages", json=SALE | {"id": "m1"})
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
    first = archive.chains("default")[0].end()
    with serving(data, archive=root, archive_s=0.001) as again:
        settled(again)
        again.post("/v1/messages", SALE | {"id": "m2"})
        settled(again)
    chains = archive.chains("default")
    if first.position == before.position:  # killed before the first segment, which is usual
        assert len(chains) == 2
        between = (first.time + chains[1].head().time) / 2
        with pytest.raises(StoreError, match="are not in the archive"):
            restore_archive(root, tmp_path / "between", between)
    target = tmp_path / "restored"
    arguments = ["--from", root, "--to-time", written(chains[-1].end().time), "--data", str(target)]
    assert main(["restore", *arguments]) == 0
    with serving(target) as restored:
        assert [update["message"] for update in restored.updates()] == ["m1", "m2"]


def test_a_buffer_that_is_full_is_broken() -> None:
    buffer = CommitBuffer(lambda: 1.0, most=10)
    buffer.add(KeptCommit(1, "a", b"12345"))
    buffer.add(KeptCommit(2, "b", b"12345"))
    assert [each.position for each in buffer.first(6)] == [1]
    assert [each.position for each in buffer.first(10)] == [1, 2]
    buffer.drop_through(1)
    assert (len(buffer), buffer.broken, buffer.waiting_since()) == (1, False, 1.0)
    buffer.add(KeptCommit(3, "c", b"123456"))
    assert (len(buffer), buffer.broken) == (0, True)


def test_times_are_read_as_they_are_written() -> None:
    assert read_time("1000.5") == 1000.5
    assert read_time("1970-01-01T00:16:40.5Z") == 1000.5
    assert read_time("1970-01-01 01:16:40+01:00") == 1000.0
    for time in (1000.0, 1795012345.123457):
        assert read_time(written(time)) == time
    with pytest.raises(InvalidValue, match="--to-time"):
        read_time("yesterday")


def test_options_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", "--archive", str(tmp_path)]) == 2
    assert main(["restore", "--data", str(tmp_path / "new")]) == 2
    both = ["--backup", str(tmp_path), "--from", str(tmp_path)]
    assert main(["restore", "--data", str(tmp_path / "new"), *both]) == 2
    assert main(["restore", "--data", str(tmp_path / "new"), "--from", str(tmp_path)]) == 2
    assert "holds no archive" in capsys.readouterr().err
