"""Power lost at every write, and bytes that changed at rest: a state that once was, or refused."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from nearcast import Box, Engine
from nearcast.errors import StoreError
from nearcast.store.copies import accept_copy, back_up
from nearcast.store.snapshot import Snapshots
from nearcast.store.sums import sums_of

HEAD, FRAME, PAGE = 32, 24, 4096
AREA = Box(0, 0, 1, 1)


def written(path: Path) -> tuple[bytes, bytes, list[int]]:
    """A file and its write-ahead log while an engine uses it, and the log's sizes at each commit.

    Event n adds subscription s{n}, publishes m{n}, and ends s{n - 3}: each in a commit of its own.
    """
    log = path.with_name(path.name + "-wal")
    with Engine(index="scan", path=path, window_count=4) as engine:
        sizes = [log.stat().st_size]
        for n in range(12):
            engine.subscribe(f"s{n}", "a", AREA)
            sizes.append(log.stat().st_size)
            engine.publish(f"m{n}", "a" + " b" * 3000 * (n % 2), (0.5, 0.5), ttl=9.0 * (n % 3))
            sizes.append(log.stat().st_size)
            if n >= 3:
                engine.unsubscribe(f"s{n - 3}")
                sizes.append(log.stat().st_size)
        return path.read_bytes(), log.read_bytes(), sizes


def state_of(path: Path) -> tuple[int, list[str], list[tuple[str, str]]]:
    with Engine(index="scan", path=path) as engine:
        entries = [(entry.subscription, entry.message) for entry in engine.log.read(0, 1000)]
        return engine.seq, [each.id for each in engine.page()], entries


def test_power_lost_at_every_write_leaves_a_state_that_once_was(tmp_path: Path) -> None:
    """The log is cut behind and within every head and page that SQLite writes to it."""
    path = tmp_path / "e.nearcast"
    whole, log, sizes = written(path)
    assert sizes == sorted(set(sizes))  # every commit only added to the log
    frames = (len(log) - HEAD) // (FRAME + PAGE)
    places = {0, HEAD - 1, HEAD}
    for frame in range(frames):
        start = HEAD + frame * (FRAME + PAGE)
        places |= {start + FRAME, start + FRAME + 1 + PAGE // 2, start + FRAME + PAGE}
    states: dict[int, tuple[list[str], list[tuple[str, str]]]] = {}
    again = tmp_path / "again"
    for place in sorted(places):
        again.mkdir()
        (again / "e.nearcast").write_bytes(whole)
        (again / "e.nearcast-wal").write_bytes(log[:place])
        seq, ids, entries = state_of(again / "e.nearcast")
        shutil.rmtree(again)
        assert seq == max(0, sum(size <= place for size in sizes) - 1)
        assert states.setdefault(seq, (ids, entries)) == (ids, entries)
    assert sorted(states) == list(range(len(sizes)))
    for seq in range(1, len(sizes)):
        before, after = states[seq - 1], states[seq]
        assert after[1][: len(before[1])] == before[1]


def test_a_changed_byte_in_the_log_ends_it_there(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    whole, log, sizes = written(path)
    draw, again = Random(7), tmp_path / "again"
    for place in draw.sample(range(HEAD, len(log)), 60):
        changed = bytearray(log)
        changed[place] ^= 1 << draw.randrange(8)
        again.mkdir()
        (again / "e.nearcast").write_bytes(whole)
        (again / "e.nearcast-wal").write_bytes(changed)
        seq, _, _ = state_of(again / "e.nearcast")
        shutil.rmtree(again)
        assert seq == max(0, sum(size <= place for size in sizes) - 1)


def test_a_changed_byte_in_a_snapshot_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Snapshots, "worth_closing_with", lambda *_: True)
    path = tmp_path / "e.nearcast"
    with Engine(index="rarest-term", path=path) as engine:
        for n in range(50):
            engine.subscribe(f"s{n}", f"a w{n} NOT x{n % 3}", Box(0, 0, 1 + n, 1))
        expected = engine.page()
    monkeypatch.setattr(Snapshots, "worth_closing_with", lambda *_: False)
    folder = next((tmp_path / "e.nearcast-index").iterdir())
    files = [file for file in sorted(folder.rglob("*")) if file.is_file() and file.stat().st_size]
    assert len(files) > 5
    draw = Random(3)
    for file in files:
        whole = file.read_bytes()
        changed = bytearray(whole)
        changed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        file.write_bytes(changed)
        with Engine(index="rarest-term", path=path) as engine:
            assert engine.page() == expected
            point = (0.5, 0.5)
            found = engine.publish(f"m{engine.seq}", "a w7 w8 w9 x2", point)
            assert [update.subscription for update in found] == ["s7", "s9"]
        file.write_bytes(whole)


@pytest.mark.parametrize("table", ["window_chunk", "update_chunk"])
def test_a_changed_byte_in_stored_columns_is_refused(table: str, tmp_path: Path) -> None:
    """Also where it is a letter of a text, so that the columns could still be read."""
    path, draw = tmp_path / "e.nearcast", Random(9)
    read = f"SELECT data FROM {table}"  # noqa: S608 - a name of ours
    write = f"UPDATE {table} SET data = ?"  # noqa: S608 - a name of ours
    with Engine(index="scan", path=path) as engine:
        engine.subscribe("s", "a", AREA)
        engine.publish("m", "a b c d e f g", (0.5, 0.5))
    for _ in range(40):
        with closing(sqlite3.connect(path)) as connection:
            (whole,) = connection.execute(read).fetchone()
            changed = bytearray(whole)
            changed[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
            connection.execute(write, (bytes(changed),))
            connection.commit()
        sums_of(path).unlink(missing_ok=True)  # those of the file refuse it too
        with pytest.raises(StoreError, match=r"damaged columns .* from a backup"):
            state_of(path)
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(write, (whole,))
            connection.commit()
        sums_of(path).unlink(missing_ok=True)
    assert state_of(path) == (2, ["s"], [("s", "m")])


def test_a_changed_byte_in_a_backup_is_refused(tmp_path: Path) -> None:
    data, draw = tmp_path / "data", Random(5)
    (data / "tenants").mkdir(parents=True)
    path = data / "tenants" / "default.nearcast"
    with Engine(index="scan", path=path) as engine:
        for n in range(20):
            engine.subscribe(f"s{n}", "a", AREA)
    back_up(data, [path], tmp_path / "copy")
    copied = tmp_path / "copy" / "tenants" / "default.nearcast"
    whole = copied.read_bytes()
    for place in draw.sample(range(len(whole)), 50):
        changed = bytearray(whole)
        changed[place] ^= 1 << draw.randrange(8)
        copied.write_bytes(changed)
        with pytest.raises(StoreError, match="use another backup"):
            accept_copy(tmp_path / "copy")
    copied.write_bytes(whole)
    accept_copy(tmp_path / "copy")
