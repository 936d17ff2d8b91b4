"""A million operations: whatever came and went, an index answers like no index at all."""

import numpy as np
import pytest

from nearcast import Box, Circle, Polygon
from nearcast.geo import Region
from nearcast.index import INDEXES, Batch, Table, match
from nearcast.index.sequential import Sequential

pytestmark = pytest.mark.soak

LIVE = 200_000
OPERATIONS = 1_000_000
TERMS = 20_000
AT_A_TIME = 500


def region(random: np.random.Generator) -> Region:
    lon, lat = float(random.uniform(-170, 170)), float(random.uniform(-80, 80))
    size = float(10 ** random.uniform(-3, 0.9))
    kind = random.random()
    if kind < 0.8:
        return Box(lon, lat, min(lon + size, 180.0), min(lat + size, 90.0))
    if kind < 0.95:
        return Circle((lon, lat), size * 1e5)
    return Polygon([[(lon, lat), (lon + size, lat), (lon, lat + size), (lon, lat)]])


def terms(random: np.random.Generator, most: int) -> list[int]:
    count = int(random.integers(1, most + 1))
    return sorted({int(t) for t in TERMS * random.random(count) ** 3})


def messages(random: np.random.Generator, count: int) -> Batch:
    texts = [terms(random, 20) for _ in range(count)]
    starts = np.cumsum([0] + [len(text) for text in texts])
    west, south = random.uniform(-170, 160, count), random.uniform(-80, 70, count)
    size = np.where(random.random(count) < 0.5, 0.0, random.uniform(0, 5, count))
    boxes = np.column_stack([west, south, west + size, south + size])
    return Batch(starts, np.array([t for text in texts for t in text], np.int32), boxes)


def pairs(index: object, batch: Batch) -> list[tuple[int, int]]:
    found = match(index, batch)  # type: ignore[arg-type]
    return sorted(zip(found.messages.tolist(), found.owners.tolist(), strict=True))


@pytest.mark.parametrize("name", [name for name in INDEXES if name != Sequential.name])
def test_a_million_operations_end_in_equal_answers_and_bounded_memory(name: str) -> None:
    random = np.random.default_rng(11)
    table = Table()
    table.ensure_terms(TERMS)
    index = INDEXES[name](table)
    index.build()
    plain = Sequential(table)
    rows_of: dict[int, np.ndarray] = {}
    owners: list[int] = []
    fresh = done = 0
    sizes: list[float] = []
    while done < OPERATIONS:
        added = []
        for _ in range(AT_A_TIME):
            excluded = terms(random, 2) if random.random() < 0.1 else []
            required = terms(random, 4)
            conjuncts = [(required, [t for t in excluded if t not in required])]
            if random.random() < 0.1:
                conjuncts.append((terms(random, 3), []))
            rows_of[fresh] = table.add(fresh, conjuncts, region(random))
            added.append(rows_of[fresh])
            owners.append(fresh)
            fresh += 1
        index.insert(np.concatenate(added))
        done += AT_A_TIME
        if len(owners) > LIVE:
            gone = []
            for _ in range(AT_A_TIME):
                at = int(random.integers(len(owners)))
                owners[at], owners[-1] = owners[-1], owners[at]
                gone.append(rows_of.pop(owners.pop()))
            rows = np.concatenate(gone)
            reusable = index.delete(rows)
            table.remove(rows)
            table.release(reusable)
            done += AT_A_TIME
        batch = messages(random, 200)
        np.add.at(table.frequency, batch.terms, 1)
        if done % 100_000 == 0:
            assert pairs(index, batch) == pairs(plain, batch)
            sizes.append(index.stats()["bytes"] + table.nbytes)
    assert len(owners) == LIVE
    assert max(sizes[-3:]) < 1.5 * max(sizes[2:5])
