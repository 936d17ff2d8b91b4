"""Full disks, closed folders, damaged files: a clear line, and what was acknowledged stays."""

from __future__ import annotations

import os
import resource
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import pytest

import nearcast
from nearcast import Box, Engine, Message, Update
from nearcast.errors import StoreError
from nearcast.events import Publish
from nearcast.store.connect import open_writer
from nearcast.store.schema import VERSION
from nearcast.store.sums import sums_of

AREA = Box(0, 0, 1, 1)
_NOBODY = 65534


def message(number: int, size: int = 10) -> Publish:
    draw = Random(number)  # what repeats itself would be packed to nothing
    text = " ".join(f"{draw.getrandbits(40):x}" for _ in range(size))
    return Publish(Message(f"m{number}", f"a {text}", (0.5, 0.5)))


def test_a_full_disk_refuses_the_call_and_keeps_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    engine = Engine(index="rarest-term", path=path)
    engine.subscribe("s", "a", AREA)
    store: Any = engine._journal
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    accepted = 0

    def publish_for_ever() -> None:
        nonlocal accepted
        while True:
            engine.apply(message(accepted, size=500))
            accepted += 1

    with pytest.raises(StoreError, match=r"e\.nearcast: the disk is full; make room and try again"):
        publish_for_ever()
    assert engine.log.last == accepted
    assert [entry.message for entry in engine.log.read(0, 10_000)][-1:] == [f"m{accepted - 1}"]
    with pytest.raises(StoreError):
        engine.apply(message(accepted, size=5000))
    store._connection.execute("PRAGMA max_page_count = 1000000")
    assert engine.apply(message(accepted)) == [Update("add", "s", f"m{accepted}")]
    engine.close()
    with Engine(index="rarest-term", path=path) as again:
        assert again.log.last == accepted + 1
        assert again.message("m0") is not None


SMALL = """
import resource, signal, sys
from nearcast import Box, Engine
from nearcast.errors import StoreError
engine = Engine(index="rarest-term", path=sys.argv[1])
engine.subscribe("s", "a", Box(0, 0, 1, 1))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
done = 0
try:
    while True:
        engine.publish(f"m{done}", "a" + " b" * 2000, (0.5, 0.5))
        done += 1
except StoreError as error:
    print(done, error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(engine.publish("more", "a", (0.5, 0.5))[0].message)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="no limits on the size of files here")
def test_a_file_that_may_not_grow_loses_nothing(tmp_path: Path) -> None:
    """The system itself refuses to write more, in the middle of whatever SQLite does."""
    assert resource.RLIMIT_FSIZE is not None
    path = tmp_path / "e.nearcast"
    source = str(Path(nearcast.__file__).parents[1])
    run = subprocess.run(
        [sys.executable, "-c", SMALL, str(path)],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONPATH": source},
    )
    refused, more = run.stdout.splitlines()
    done, _, error = refused.partition(" ")
    assert int(done) > 5
    assert error.startswith(f"{path}: ")
    assert more == "more"
    with Engine(index="rarest-term", path=path) as engine:  # it was never closed
        messages = [entry.message for entry in engine.log.read(0, 10_000)]
        assert messages == [*(f"m{number}" for number in range(int(done))), "more"]


@contextmanager
def as_somebody() -> Iterator[None]:
    """Not as root, who may write anywhere."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(_NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_folder_that_may_not_be_written_is_refused(tmp_path: Path) -> None:
    Engine(
        index="rarest-term", path=tmp_path / "e.nearcast"
    ).close()  # whatever is imported late is imported by now
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o555)
        with (
            as_somebody(),
            pytest.raises(StoreError, match="cannot be opened for writing .* choose a folder"),
        ):
            Engine(index="rarest-term", path=Path(folder) / "e.nearcast")


def test_a_folder_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened .*No such file.* make that folder"):
        Engine(index="rarest-term", path=tmp_path / "nowhere" / "e.nearcast")


@pytest.mark.parametrize("content", [b"x" * 5000, b"SQLite format 3\x00" + b"\xff" * 5000, b"{}"])
def test_what_is_not_an_engine_is_refused_and_left_alone(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "e.nearcast"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"e\.nearcast: ") as caught:
        Engine(index="rarest-term", path=path)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == content
    with pytest.raises(StoreError):
        Engine(
            index="rarest-term", path=path
        )  # the lock was let go: it is the file that is refused


def test_another_programs_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    other = sqlite3.connect(path)
    other.execute("CREATE TABLE mine (x)")
    other.commit()
    other.close()
    before = path.read_bytes()
    with pytest.raises(StoreError, match="holds something else, not an engine"):
        Engine(index="rarest-term", path=path)
    assert path.read_bytes() == before


def test_a_damaged_page_is_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    with Engine(index="rarest-term", path=path) as engine:
        for number in range(200):
            engine.subscribe(f"s{number}", "a b c d e f g", AREA)
        engine.apply_all(message(number) for number in range(50))
    whole = bytearray(path.read_bytes())
    for start in range(4096, len(whole), 4096):
        whole[start : start + 64] = b"\xee" * 64
    path.write_bytes(whole)
    with pytest.raises(StoreError, match=r"e\.nearcast: .*(damaged|backup)") as caught:
        Engine(index="rarest-term", path=path)
    assert "\n" not in str(caught.value)


def test_damaged_columns_are_told_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    with Engine(index="rarest-term", path=path) as engine:
        engine.apply_all(message(number) for number in range(50))
    connection = sqlite3.connect(path)
    connection.execute("UPDATE window_chunk SET data = zeroblob(100)")
    connection.commit()
    connection.close()
    sums_of(path).unlink()
    with pytest.raises(StoreError, match=r"e\.nearcast: damaged columns .* from a backup"):
        Engine(index="rarest-term", path=path)


def test_a_file_in_use_is_refused_with_who_uses_it(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    first = Engine(index="rarest-term", path=path)
    with pytest.raises(StoreError, match=f"is open already by process {os.getpid()}"):
        Engine(index="rarest-term", path=path)
    first.close()
    Engine(index="rarest-term", path=path).close()


def test_a_file_of_a_later_release_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    Engine(index="rarest-term", path=path).close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {VERSION + 7}")
    connection.close()
    sums_of(path).unlink()
    with pytest.raises(StoreError, match=f"is of version {VERSION + 7}, this release reads up to"):
        Engine(index="rarest-term", path=path)


def test_an_older_file_is_brought_to_this_version_step_by_step(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    Engine(index="rarest-term", path=path).close()
    seen = []

    def first(connection: sqlite3.Connection) -> None:
        seen.append("first")
        connection.execute("ALTER TABLE subscription ADD COLUMN colour TEXT")

    def second(connection: sqlite3.Connection) -> None:
        seen.append("second")
        connection.execute("UPDATE subscription SET colour = 'green'")

    connection = open_writer(path, VERSION + 2, {VERSION: first, VERSION + 1: second})
    assert seen == ["first", "second"]
    assert connection.execute("PRAGMA user_version").fetchone() == (VERSION + 2,)
    connection.close()


def test_a_migration_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "e.nearcast"
    with Engine(index="rarest-term", path=path) as engine:
        engine.subscribe("s", "a", AREA)

    def broken(connection: sqlite3.Connection) -> None:
        connection.execute("DELETE FROM subscription")
        connection.execute("SELECT * FROM nowhere")

    with pytest.raises(StoreError, match="no such table: nowhere"):
        open_writer(path, VERSION + 1, {VERSION: broken})
    with Engine(index="rarest-term", path=path) as engine:
        assert engine.count == 1


def test_a_closed_engine_says_so(tmp_path: Path) -> None:
    engine = Engine(index="rarest-term", path=tmp_path / "e.nearcast")
    engine.close()
    engine.close()
    with pytest.raises(nearcast.NearcastError, match="it is closed"):
        engine.publish("m", "a", (0, 0))


def test_a_file_that_became_empty_is_refused(tmp_path: Path) -> None:
    """SQLite takes an empty file for a new one; here everything in it would be lost silently."""
    path = tmp_path / "e.nearcast"
    with Engine(index="scan", path=path) as engine:
        engine.subscribe("s", "a", AREA)
    path.write_bytes(b"")
    with pytest.raises(StoreError, match="is empty, and was not before"):
        Engine(index="scan", path=path)
    path.unlink()
    with Engine(index="scan", path=path) as engine:
        assert engine.count == 0


def test_only_the_user_of_an_engine_may_read_its_files(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with Engine(index="scan", path=tmp_path / "e.nearcast") as engine:
            engine.subscribe("s", "a", AREA)
            engine.backup(tmp_path / "copy.nearcast")
            modes = {each.name: each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert {"e.nearcast", "e.nearcast-wal", "e.nearcast-lock", "copy.nearcast"} <= modes.keys()
    assert set(modes.values()) == {0o600}
