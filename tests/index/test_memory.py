"""Arrays in files behave as arrays in memory do, and another holder sees them."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np

from nearcast.arrays.memory import MappedMemory, Memory
from nearcast.geo import Box, Circle, Polygon, Region
from nearcast.index import Batch, Table, match
from nearcast.index.rarest_term.index import RarestTerm


def test_a_mapped_array_keeps_what_was_in_it_when_it_grows(tmp_path: Path) -> None:
    """Asking again, for more, gives the old entries and then room."""
    memory = MappedMemory(tmp_path)
    small = memory.array("a", (4, 2), np.int32)
    small[:] = [[1, 2], [3, 4], [5, 6], [7, 8]]
    large = MappedMemory(tmp_path).array("a", (100_000, 2), np.int32)
    assert large[:4].tolist() == small.tolist()
    large[0, 0] = 9
    assert small[0, 0] == 9  # the same pages


def test_arrays_start_at_cache_lines() -> None:
    """Blocks of 64 bytes never straddle two lines."""
    for count in (1, 7, 1000):
        assert Memory().array("x", count, np.float32).ctypes.data % 64 == 0


def _region(rng: random.Random) -> Region:
    west, south = rng.uniform(-170, 150), rng.uniform(-80, 70)
    kind = rng.randrange(4)
    if kind == 0:
        return Circle((west, south), rng.uniform(0, 2_000_000))
    if kind == 1:
        return Polygon([[(west, south), (west + 9, south), (west, south + 9), (west, south)]])
    return Box(west, south, west + rng.uniform(0, 20), south + rng.uniform(0, 10))


def _messages(rng: random.Random, count: int, terms: int) -> Batch:
    sizes = [rng.randrange(1, 6) for _ in range(count)]
    starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
    words = [rng.sample(range(terms), size) for size in sizes]
    points = np.array([(rng.uniform(-180, 180), rng.uniform(-90, 90)) for _ in range(count)])
    return Batch(starts, np.concatenate(words).astype(np.int32), np.hstack([points, points]))


def test_an_index_in_files_answers_as_one_in_memory_does(tmp_path: Path) -> None:
    """Through growth, deletion, compaction and a change of hands after every step."""
    rng = random.Random(5)
    files = MappedMemory(tmp_path)
    plain, mapped = Table(), Table(files)
    here, there = RarestTerm(plain), RarestTerm(mapped)
    for table, index in ((plain, here), (mapped, there)):
        table.ensure_terms(60)
        index.build()
    live: dict[int, np.ndarray[tuple[int], np.dtype[np.int32]]] = {}
    for step in range(60):
        for owner in rng.sample(sorted(live), min(len(live), rng.randrange(300))):
            rows = live.pop(owner)
            for table, index in ((plain, here), (mapped, there)):
                free = index.delete(rows)
                table.remove(rows)
                table.release(free)
        fresh = []
        for owner in range(step * 300, step * 300 + rng.randrange(300)):
            region = _region(rng)
            conjuncts = [
                (
                    rng.sample(range(60), rng.randrange(1, 4)),
                    rng.sample(range(60), rng.randrange(2)),
                )
                for _ in range(rng.choice([1, 1, 1, 2]))
            ]
            rows = plain.add(owner, conjuncts, region)
            assert rows.tolist() == mapped.add(owner, conjuncts, region).tolist()
            live[owner] = rows
            fresh.append(rows)
        if fresh:
            here.insert(np.concatenate(fresh))
            there.insert(np.concatenate(fresh))
        described = json.loads(json.dumps([mapped.describe(), there.describe()]))
        mapped = Table.attach(files, described[0])
        there = RarestTerm.attach(mapped, described[1])
        batch = _messages(rng, 50, 60)
        expected, found = match(here, batch), match(there, batch)
        assert expected.messages.tolist() == found.messages.tolist()
        assert sorted(
            zip(expected.messages.tolist(), expected.owners.tolist(), strict=True)
        ) == sorted(zip(found.messages.tolist(), found.owners.tolist(), strict=True))
    assert len(live) > 1000
