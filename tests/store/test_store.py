"""What a durable engine keeps, for how long, and what it says about settings."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

import nearcast.store.store as store_module
from nearcast import Box, Circle, Engine, Message, Subscription, Top
from nearcast.engine.ranked import FastRankings
from nearcast.engine.settings import GivenSettings
from nearcast.errors import NearcastError, StoreError
from nearcast.events import Publish
from nearcast.store import open_store
from nearcast.store.snapshot import FORMAT
from nearcast.text import Analyser, Vocabulary

AREA = Box(0, 0, 1, 1)
HISTORY = Vocabulary.from_documents([{"a", "b"}, {"a"}])
OTHER_HISTORY = Vocabulary.from_documents([{"a", "b"}, {"b"}])


def messages(start: int, stop: int) -> list[Publish]:
    return [Publish(Message(f"m{number}", "a b", (0.5, 0.5))) for number in range(start, stop)]


class Clock:
    """A clock that stands still until it is told otherwise."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(
    ("made", "opened", "problem"),
    [
        ({"window_count": 5}, {"window_count": 6}, "window_count 5, opened with 6"),
        ({"window_count": 5}, {"window_seconds": 60}, "window_count 5, opened with null"),
        ({}, {"window_count": 7}, "window_count 100000, opened with 7"),
        ({"space": AREA}, {"space": Box(0, 0, 2, 2)}, r"space \[0.0, 0.0, 1.0, 1.0\], opened with"),
        ({}, {"analyser": Analyser(stop_words=["the"])}, r'stop_words \[\], opened with \["the"\]'),
        ({}, {"history": HISTORY}, "history none, opened with of 2 messages and 2 terms"),
        ({"history": HISTORY}, {"history": OTHER_HISTORY}, "history of 2 messages and 2 terms, op"),
    ],
)
def test_other_settings_are_refused_with_both(
    tmp_path: Path, made: dict[str, Any], opened: dict[str, Any], problem: str
) -> None:
    path = tmp_path / "e.nearcast"
    Engine(path=path, **made).close()
    with pytest.raises(StoreError, match=f"was made with {problem}"):
        Engine(path=path, **opened)
    Engine(path=path, **made).close()
    Engine(index="rarest-term", path=path).close()


def test_settings_that_are_not_given_are_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    analyser = Analyser(stop_words=["the"])
    given = GivenSettings(7, None, AREA, HISTORY, analyser)
    with Engine(index="rarest-term", path=path, **vars(given)) as engine:
        made = engine.settings
    with Engine(index="rarest-term", path=path) as engine:
        assert (engine.settings.window, engine.settings.space) == (made.window, made.space)
        assert engine.settings.analyser == analyser
        assert engine.settings.history is not None
        assert engine.settings.history.idf("b") == HISTORY.idf("b")


def test_the_log_keeps_as_many_updates_as_it_is_told(tmp_path: Path) -> None:
    with Engine(index="rarest-term", path=tmp_path / "e.nearcast", retain_updates=10) as engine:
        engine.subscribe("s", "a", AREA)
        for start in range(0, 50, 5):
            engine.apply_all(messages(start, start + 5))
        assert (engine.log.first, engine.log.last) == (41, 50)
        assert [entry.id for entry in engine.log.read(0, 100)] == list(range(41, 51))
        assert [entry.id for entry in engine.log.read(45, 2)] == [46, 47]
    with Engine(index="rarest-term", path=tmp_path / "e.nearcast") as engine:
        assert (engine.log.first, engine.log.last) == (41, 50)
        assert [entry.message for entry in engine.log.read(40, 100)][-1] == "m49"


def test_the_log_keeps_updates_for_as_long_as_it_is_told(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "e.nearcast"
    with Engine(index="rarest-term", path=path, retain_seconds=60, clock=clock) as engine:
        engine.subscribe("s", "a", AREA)
        engine.apply_all(messages(0, 5))
        clock.now += 59
        engine.apply_all(messages(5, 8))
        assert engine.log.first == 1
        clock.now += 1
        engine.apply_all(messages(8, 9))
        assert (engine.log.first, engine.log.last) == (6, 9)
        clock.now += 1000
        engine.subscribe("t", "x", AREA)  # without updates of its own
        assert (engine.log.first, engine.log.last) == (10, 9)
    with Engine(index="rarest-term", path=path) as engine:
        assert (engine.log.first, engine.log.last) == (10, 9)
        assert engine.log.read(0, 100) == []
        assert engine.publish("new", "a", (0.5, 0.5))
        assert engine.log.read(9, 10)[0].id == 10


@pytest.mark.parametrize("given", [{"retain_seconds": 0}, {"retain_updates": 0}])
def test_a_log_that_keeps_nothing_is_refused(tmp_path: Path, given: dict[str, Any]) -> None:
    with pytest.raises(NearcastError, match="retain_"):
        Engine(path=tmp_path / "e.nearcast", **given)


def test_answers_are_remembered_for_a_day_and_with_their_events(tmp_path: Path) -> None:
    clock = Clock()
    path = tmp_path / "e.nearcast"
    for engine in (
        Engine(index="rarest-term", clock=clock),
        Engine(index="rarest-term", path=path, clock=clock),
    ):
        engine.apply_all(messages(0, 2), remember=lambda outcomes: {"key": b"%d" % len(outcomes)})
        assert engine.recall("key") == b"2"
        assert engine.recall("other") is None
        engine.remember("early", b"x", clock.now - 80_000)
        clock.now += 10_000
        assert engine.recall("early") is None
        clock.now += 76_000
        assert engine.recall("key") == b"2"
        clock.now += 500
        assert engine.recall("key") is None
        engine.close()


def test_small_commits_are_joined_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    with Engine(index="rarest-term", path=path) as engine:
        engine.subscribe("s", "a", AREA)
        store: Any = engine._journal
        store._connection.execute("PRAGMA synchronous = OFF")
        for event in messages(0, 600):
            engine.apply(event)
        for counted in ("SELECT count(*) FROM window_chunk", "SELECT count(*) FROM update_chunk"):
            (chunks,) = store._connection.execute(counted).fetchone()
            assert chunks == 2 + 600 - 512
        assert [entry.id for entry in engine.log.read(0, 1000)] == list(range(1, 601))
    with Engine(index="rarest-term", path=path) as engine:
        assert [entry.message for entry in engine.log.read(0, 1000)] == [
            f"m{number}" for number in range(600)
        ]
        assert engine.message("m3") is not None


def test_readers_of_the_log_see_whole_commits_while_others_are_made(tmp_path: Path) -> None:
    with Engine(index="rarest-term", path=tmp_path / "e.nearcast") as engine:
        engine.subscribe("s", "a", AREA)
        problems: list[str] = []
        ended = threading.Event()

        def follow() -> None:
            seen = 0
            while not (ended.is_set() and seen == engine.log.last):
                entries = engine.log.read(seen, 7)
                ids = [entry.id for entry in entries]
                if ids != list(range(seen + 1, seen + 1 + len(ids))):
                    problems.append(f"{ids} after {seen}")
                    return
                seen += len(ids)

        readers = [threading.Thread(target=follow) for _ in range(3)]
        for reader in readers:
            reader.start()
        for start in range(0, 400, 10):
            engine.apply_all(messages(start, start + 10))
        ended.set()
        for reader in readers:
            reader.join()
        assert problems == []


def snapshots(path: Path) -> list[Path]:
    return sorted(path.with_name(path.name + "-index").glob("*"))


@pytest.fixture
def with_snapshot(tmp_path: Path) -> Path:
    """A file with a snapshot, two later changes, and what each kind of subscription asks for."""
    path = tmp_path / "e.nearcast"
    with Engine(index="rarest-term", path=path) as engine:
        engine.subscribe("box", "a", AREA)
        engine.subscribe("gone", "a", AREA)
        engine.subscribe("circle", "a OR b", Circle((0.5, 0.5), 1000))
        engine.subscribe("best", "a", point=(0, 0), top=Top(2, 0.5))
        store: Any = engine._journal
        store._save_snapshot(engine._ready())
        engine.subscribe("late", "a\ud800", AREA)
        engine.unsubscribe("gone")
        engine.publish("kept \u00e9", "a \ud800", (0.5, 0.5), ttl=10)
    assert len(snapshots(path)) == 1
    return path


def heard(engine: Engine) -> list[str]:
    return [update.subscription for update in engine.publish("m", "b a", (0.5, 0.5))]


def test_a_snapshot_and_what_changed_since_make_the_state(with_snapshot: Path) -> None:
    with Engine(index="rarest-term", path=with_snapshot) as engine:
        assert engine.count == 4
        assert heard(engine) == ["best", "box", "circle", "late"]
        assert [result.message for result in engine.results("box")] == ["kept \u00e9"]


def spoil_a_byte(folder: Path) -> None:
    path = folder / "index" / "memory.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def cut_short(folder: Path) -> None:
    path = folder / "names.arrow"
    path.write_bytes(path.read_bytes()[:-10])


def another_version(folder: Path) -> None:
    head = folder / "head.json"
    head.write_text(head.read_text().replace(f'"format": {FORMAT}', '"format": 99'))


def no_head(folder: Path) -> None:
    (folder / "head.json").unlink()


def nothing(folder: Path) -> None:
    shutil.rmtree(folder.parent)


@pytest.mark.parametrize("harm", [spoil_a_byte, cut_short, another_version, no_head, nothing])
def test_a_snapshot_that_is_not_whole_is_made_anew(with_snapshot: Path, harm: Any) -> None:
    (before,) = snapshots(with_snapshot)
    harm(before)
    with Engine(index="rarest-term", path=with_snapshot) as engine:
        assert heard(engine) == ["best", "box", "circle", "late"]
        store: Any = engine._journal
        store._save_snapshot(engine._ready())
    (after,) = snapshots(with_snapshot)
    assert after.name != before.name
    with Engine(index="rarest-term", path=with_snapshot) as engine:
        assert engine.count == 4


def test_a_snapshot_of_a_later_time_is_not_used_for_an_older_file(with_snapshot: Path) -> None:
    older = with_snapshot.with_name("older")
    with Engine(index="rarest-term", path=with_snapshot) as engine:
        engine.backup(older)
        engine.unsubscribe("box")
        store: Any = engine._journal
        store._save_snapshot(engine._ready())
    older.replace(with_snapshot)
    with Engine(index="rarest-term", path=with_snapshot) as engine:
        assert heard(engine) == ["best", "box", "circle", "late"]


def test_no_room_for_a_snapshot_is_no_trouble(
    with_snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("nearcast.engine.saved.save_population", full)
    with Engine(index="rarest-term", path=with_snapshot) as engine:
        store: Any = engine._journal
        store._save_snapshot(engine._ready())
        assert heard(engine) == ["best", "box", "circle", "late"]


def test_a_backup_is_one_file_and_never_overwrites(tmp_path: Path) -> None:
    with Engine(index="rarest-term", path=tmp_path / "e.nearcast") as engine:
        engine.subscribe("s", "a", AREA)
        engine.backup(tmp_path / "copy")
        assert not list(tmp_path.glob("copy*?-wal"))
        with pytest.raises(StoreError, match="exists already; choose another path"):
            engine.backup(tmp_path / "copy")
        with pytest.raises(StoreError, match="cannot be"):
            engine.backup(tmp_path / "nowhere" / "copy")
    with Engine(index="rarest-term", path=tmp_path / "copy") as copy:
        assert copy.count == 1
    with pytest.raises(NearcastError, match="is in memory and has no file to copy"):
        Engine(index="rarest-term").backup(tmp_path / "other")


def test_backups_made_while_events_are_applied_are_consistent(tmp_path: Path) -> None:
    """Each copy has the updates of exactly the messages that it has, and of whole calls."""
    with Engine(index="rarest-term", path=tmp_path / "e.nearcast") as engine:
        engine.subscribe("s", "a", AREA)
        engine.apply_all(messages(0, 10))

        def copy() -> None:
            for number in range(4):
                engine.backup(tmp_path / f"copy{number}")

        thread = threading.Thread(target=copy)
        thread.start()
        done = 10
        while thread.is_alive():
            engine.apply_all(messages(done, done + 10))
            done += 10
        thread.join()
    for number in range(4):
        with Engine(index="rarest-term", path=tmp_path / f"copy{number}") as copied:
            last = copied.log.last
            assert last % 10 == 0
            assert copied.message(f"m{last - 1}") is not None
            assert copied.message(f"m{last}") is None
            assert copied._journal.seq == last + 1


def test_many_new_subscriptions_at_once_do_without_a_list_of_changes(
    with_snapshot: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyarrow as pa

    monkeypatch.setattr(store_module, "_MANY", 3)
    region = {"type": "Box", "bbox": [0.0, 0.0, 1.0, 1.0]}
    table = pa.table({"id": ["x", "y", "z"], "query": ["b", "b", "b"], "region": [region] * 3})
    plain = with_snapshot.with_name("plain.nearcast")
    with Engine(index="rarest-term", path=plain) as engine:
        engine.subscribe("box", "a", AREA)
        store: Any = engine._journal
        store._save_snapshot(engine._ready())
        engine.subscribe_table(table)
        assert store._snapshots.name is None
    with Engine(index="rarest-term", path=plain) as engine:
        assert heard(engine) == ["box", "x", "y", "z"]


def test_the_store_gives_the_lock_back_when_opening_fails(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    Engine(index="rarest-term", path=path, window_count=5).close()
    with pytest.raises(StoreError):
        Engine(index="rarest-term", path=path, window_count=6)
    store = open_store(path, GivenSettings(), Clock())
    assert store.settings.window.count == 5
    store.close(None)


def test_top_k_subscriptions_are_read_back_as_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by one, a hundred thousand took more than a minute."""
    path = tmp_path / "e.nearcast"
    with Engine(index="rarest-term", path=path, window_count=20) as engine:
        for number in range(30):
            engine.publish(f"m{number}", f"a w{number % 7}", (number / 10, 0.5))
        for number in range(40):
            query, point = f"a w{number % 5}", (number / 20, 0.25)
            engine.subscribe(f"s{number}", query, point=point, top=Top(3, 0.5))
        engine.subscribe("odd", "NOTES a", point=(0, 0), top=Top(2, 0.5))
        before = {each.id: engine.results(each.id) for each in engine.page(limit=100)}
    single: list[str] = []
    put = FastRankings.put

    def counted(self: FastRankings, subscription: Subscription, *given: Any) -> None:
        single.append(subscription.id)
        put(self, subscription, *given)

    monkeypatch.setattr(FastRankings, "put", counted)
    with Engine(index="rarest-term", path=path) as engine:
        assert {each.id: engine.results(each.id) for each in engine.page(limit=100)} == before
        changed = engine.publish("late", "a w1", (0.5, 0.25))
        assert {update.subscription for update in changed} <= before.keys()
        assert changed
    assert single == ["odd"]
