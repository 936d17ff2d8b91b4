"""Bytes of a file that changed while no engine had it open: refused, or exactly as it was."""

from __future__ import annotations

import shutil
from pathlib import Path
from random import Random
from typing import Any

import pytest

from nearcast import Engine
from nearcast.errors import DamagedStoreError, StoreError
from nearcast.store.sums import sums_of
from store_kinds import AREA, every_kind, state_of

PAGE = 4096


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """A file with all that there can be, and its checksums."""
    path = tmp_path / "made" / "e.nearcast"
    path.parent.mkdir()
    with Engine(index="scan", path=path, clock=lambda: 4e9) as engine:
        for act in every_kind():
            act(engine)
    return path


def opened(path: Path, file: bytes, sums: bytes | None) -> Any:
    """The state of a file with such bytes beside such checksums."""
    folder = path.parents[1] / "again"
    folder.mkdir()
    try:
        (folder / path.name).write_bytes(file)
        if sums is not None:
            sums_of(folder / path.name).write_bytes(sums)
        return state_of(folder / path.name)
    finally:
        shutil.rmtree(folder)


def flipped(data: bytes, place: int, bit: int) -> bytes:
    changed = bytearray(data)
    changed[place] ^= 1 << bit
    return bytes(changed)


def test_a_bit_that_changed_anywhere_in_a_file_is_noticed(made: Path) -> None:
    whole, sums, draw = made.read_bytes(), sums_of(made).read_bytes(), Random(1)
    expected = opened(made, whole, sums)
    heads = [page + draw.randrange(100) for page in range(0, len(whole), PAGE)]
    for place in [*heads, *draw.sample(range(len(whole)), 100)]:
        try:
            found = opened(made, flipped(whole, place, draw.randrange(8)), sums)
        except DamagedStoreError:
            continue
        assert found == expected, place
    for size in draw.sample(range(1, len(whole)), 10):
        with pytest.raises(StoreError, match="damaged"):
            opened(made, whole[:size], sums)


def test_a_bit_that_changed_in_the_checksums_refuses_nothing(made: Path) -> None:
    whole, sums, draw = made.read_bytes(), sums_of(made).read_bytes(), Random(2)
    expected = opened(made, whole, sums)
    for place in range(0, len(sums), 7):
        assert opened(made, whole, flipped(sums, place, draw.randrange(8))) == expected
    assert opened(made, whole, b"") == opened(made, whole, None) == expected


def test_without_checksums_what_cannot_be_read_is_still_called_damage(made: Path) -> None:
    """After a crash there are none: some changes go unnoticed, and none is taken for another."""
    whole, draw, refused = made.read_bytes(), Random(3), 0
    folder = made.parents[1] / "again"
    for place in draw.sample(range(len(whole)), 120):
        folder.mkdir()
        (folder / made.name).write_bytes(flipped(whole, place, draw.randrange(8)))
        try:
            Engine(index="scan", path=folder / made.name).close()
        except StoreError:
            refused += 1
        shutil.rmtree(folder)
    assert refused


def test_checksums_of_another_state_are_passed_over(made: Path, tmp_path: Path) -> None:
    """Somebody put an earlier copy, or one that goes further, in the place of the file."""
    early, sums = made.read_bytes(), sums_of(made).read_bytes()
    expected = opened(made, early, sums)
    with Engine(index="scan", path=made) as engine:
        assert not sums_of(made).exists()  # from now on the file changes
        engine.backup(tmp_path / "copy.nearcast")
        engine.subscribe("more", "a", AREA)
    late, newer = made.read_bytes(), sums_of(made).read_bytes()
    assert opened(made, early, newer) == expected
    assert opened(made, late, sums) == opened(made, late, newer)
    assert opened(made, late, newer) != expected
    assert opened(made, (tmp_path / "copy.nearcast").read_bytes(), newer)[0] == expected[0]
