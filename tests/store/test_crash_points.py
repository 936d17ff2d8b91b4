"""Every kind of change, with the power lost or the disk failing at each of its writes."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest

import failing_calls
from failing_calls import SYNCING, WRITING, while_failing
from nearcast import Engine
from nearcast.errors import StoreError
from store_kinds import all_of, every_kind, state_of

HEAD, FRAME, PAGE = 32, 24, 4096


def log_of(path: Path) -> Path:
    return path.with_name(path.name + "-wal")


class Written:
    """A file and its write-ahead log after every kind of change, and all states on the way."""

    def __init__(self, path: Path) -> None:
        with Engine(index="scan", path=path, clock=lambda: 4e9) as engine:
            self.sizes, self.states = [log_of(path).stat().st_size], [all_of(engine)]
            for act in every_kind():
                act(engine)
                self.sizes.append(log_of(path).stat().st_size)
                self.states.append(all_of(engine))
            self.file, self.log = path.read_bytes(), log_of(path).read_bytes()

    def up_to(self, place: int) -> Any:
        """The state of the last commit that is whole in the first part of the log."""
        return self.states[max(0, sum(size <= place for size in self.sizes) - 1)]


def opened(folder: Path, file: bytes, log: bytes) -> Any:
    """The state of a file with such a log."""
    folder.mkdir()
    path = folder / "e.nearcast"
    path.write_bytes(file)
    log_of(path).write_bytes(log)
    try:
        return state_of(path)
    finally:
        shutil.rmtree(folder)


def test_power_lost_at_every_write_of_every_kind_leaves_a_state_that_once_was(
    tmp_path: Path,
) -> None:
    written = Written(tmp_path / "e.nearcast")
    assert written.sizes == sorted(set(written.sizes))  # every commit only added to the log
    for number, start in enumerate(range(HEAD, len(written.log), FRAME + PAGE)):
        place = start + (FRAME, FRAME + PAGE // 2, FRAME + PAGE)[number % 3]
        again = opened(tmp_path / "again", written.file, written.log[:place])
        assert again == written.up_to(place)
    for place in written.sizes:
        assert opened(tmp_path / "again", written.file, written.log[:place]) == written.up_to(place)


def test_pages_that_were_not_synced_may_be_lost_in_any_order(tmp_path: Path) -> None:
    """Of the last commits some pages are on the disk and some are not."""
    written, draw = Written(tmp_path / "e.nearcast"), Random(4)
    for _ in range(40):
        kept = draw.choice(written.sizes[:-1])
        log = bytearray(written.log)
        starts = (
            range(kept, len(log), FRAME + PAGE) if kept else range(HEAD, len(log), FRAME + PAGE)
        )
        lost = draw.sample(starts, draw.randint(1, len(starts)))
        for start in lost:
            log[start : start + FRAME + PAGE] = bytes(FRAME + PAGE)
        again = opened(tmp_path / "again", written.file, bytes(log))
        assert again == written.up_to(min(lost))


def test_power_lost_while_the_log_is_copied_into_the_file_loses_nothing(tmp_path: Path) -> None:
    """The log is whole then, and the file has old, new and torn pages."""
    written, draw = Written(tmp_path / "e.nearcast"), Random(5)
    path = tmp_path / "whole" / "e.nearcast"
    path.parent.mkdir()
    path.write_bytes(written.file)
    log_of(path).write_bytes(written.log)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA wal_checkpoint(FULL)")
    new = path.read_bytes()
    assert len(new) > len(written.file)
    for count in range(0, len(new) // PAGE, 2):
        mixed = bytearray(written.file)
        for page in draw.sample(range(len(new) // PAGE), count):
            part = draw.choice((PAGE, PAGE, 512, 100))
            place = page * PAGE
            mixed.extend(bytes(max(0, place + part - len(mixed))))
            mixed[place : place + part] = new[place : place + part]
        assert opened(tmp_path / "again", bytes(mixed), written.log) == written.states[-1]


@pytest.mark.skipif(not failing_calls.SUPPORTED, reason="no filters for system calls here")
@pytest.mark.parametrize(
    ("calls", "error"),
    [(SYNCING, errno.EIO), (WRITING, errno.EIO), (WRITING, errno.ENOSPC)],
)
def test_each_kind_of_change_is_refused_whole_by_a_disk_that_fails(
    calls: tuple[str, ...], error: int, tmp_path: Path
) -> None:
    path = tmp_path / "e.nearcast"
    with Engine(index="scan", path=path, clock=lambda: 4e9) as engine:
        for act in every_kind():
            before = all_of(engine)
            with pytest.raises(StoreError):
                while_failing(calls, lambda: act(engine), error)  # noqa: B023 - called here
            assert all_of(engine) == before
            left = opened(tmp_path / "again", path.read_bytes(), log_of(path).read_bytes())
            assert left == before
            act(engine)
            assert all_of(engine) != before
        after = all_of(engine)
    assert state_of(path) == after
