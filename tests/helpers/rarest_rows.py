"""Rows and messages to try the rarest-term index with, and what must hold of it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from nearcast.geo import Box, Circle, Polygon, Region
from nearcast.index import Batch, Pairs, Table
from nearcast.index.rarest_term import RarestTerm
from nearcast.index.sequential import Sequential

Rng = np.random.Generator
Ints = npt.NDArray[np.int32]
GRID = [-120.0, -0.1, 0.0, 0.1, 1 / 3, 25.7, 25.700001, 60.0]


def coordinate(rng: Rng, limit: float) -> float:
    """A number that often equals another one, or is its neighbour in 64 bits."""
    if rng.random() < 0.4:
        return float(rng.uniform(-limit, limit))
    value = float(np.clip(GRID[rng.integers(len(GRID))], -limit, limit))
    way = rng.integers(4)
    if way == 0:
        return float(np.clip(np.nextafter(value, -np.inf), -limit, limit))
    if way == 1:
        return float(np.clip(np.nextafter(value, np.inf), -limit, limit))
    return value


def box(rng: Rng) -> tuple[float, float, float, float]:
    west, east = sorted((coordinate(rng, 180.0), coordinate(rng, 180.0)))
    south, north = sorted((coordinate(rng, 90.0), coordinate(rng, 90.0)))
    if rng.random() < 0.2:
        return west, south, west, south
    if rng.random() < 0.4:
        east, north = min(180.0, west + rng.random()), min(90.0, south + rng.random())
    return west, south, east, north


def region(rng: Rng) -> Region:
    kind = rng.random()
    west, south, east, north = box(rng)
    if kind < 0.1:
        return Circle((west, south), radius=float(rng.uniform(0, 2e6)))
    if kind < 0.2 and east - west > 1e-6 and north - south > 1e-6:
        return Polygon([[(west, south), (east, south), (west, north), (west, south)]])
    if kind < 0.3:
        return Box(east, south, west, north)  # across the antimeridian, most of the time
    return Box(west, south, east, north)


def term_set(rng: Rng, vocabulary: int, most: int) -> list[int]:
    """Some different terms, the low numbers often."""
    drawn = (vocabulary * rng.random(rng.integers(1, most + 1)) ** 3).astype(int)
    return sorted(set(drawn.tolist()))


def subscribe(rng: Rng, table: Table, owner: int, vocabulary: int) -> Ints:
    conjuncts: list[tuple[list[int], list[int]]] = []
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        required = term_set(rng, vocabulary, 6)
        excluded = term_set(rng, vocabulary, 2) if rng.random() < 0.2 else []
        conjuncts.append((required, [term for term in excluded if term not in required]))
    return table.add(owner, conjuncts, region(rng))


def batch_of(term_sets: Sequence[Sequence[int]], boxes: Sequence[Sequence[float]]) -> Batch:
    starts = np.cumsum([0, *map(len, term_sets)]).astype(np.int64)
    terms = [term for some in term_sets for term in some]
    return Batch(starts, np.array(terms, np.int32), np.array(boxes, np.float64).reshape(-1, 4))


def some_messages(rng: Rng, count: int, vocabulary: int) -> Batch:
    boxes: list[tuple[float, ...]] = []
    for _ in range(count):
        sides = box(rng)
        boxes.append(sides[:2] * 2 if rng.random() < 0.5 else sides)
    return batch_of([term_set(rng, vocabulary, 12) for _ in range(count)], boxes)


def pairs(found: Pairs) -> list[tuple[int, int]]:
    listed = list(zip(found.messages.tolist(), found.rows.tolist(), strict=True))
    assert found.messages.tolist() == sorted(found.messages.tolist())
    assert len(listed) == len(set(listed))
    return sorted(listed)


def check(index: RarestTerm, batch: Batch) -> int:
    """Compare with a look at every row, and give how many pairs there were."""
    expected = pairs(Sequential(index.table).candidates(batch))
    assert pairs(index.candidates(batch)) == expected
    return len(expected)


def check_order(index: RarestTerm) -> None:
    """Every live row is where the index says, and blocks lie inside what is said of them."""
    state, stats = index._state, index.stats()
    assert stats["rows"] == index.table.live
    bounds = state.memory.reshape(-1, 8)
    for row in index.table.live_rows():
        place = int(state.places[row])
        if place >= 0:
            assert state.ints.reshape(-1, 8)[place, 4] in (row, ~row)
            continue
        leaf, lane = ~place // 16 * 16, ~place % 16
        block = state.memory[leaf * 8 : leaf * 8 + 128].reshape(8, 16)
        ints = state.ints[leaf * 8 : leaf * 8 + 128].reshape(8, 16)
        assert ints[4, lane] in (row, ~row)
        assert (block[0] < np.inf).sum() == ints[7, 2]
        inner = block[:4, lane]
        parent = int(ints[7, 0])
        while parent != -1:
            start = parent // 16 * 16
            node = bounds[start : start + 16].reshape(8, 16)
            outer = node[:4, parent % 16]
            assert (block[7, 8:12] == outer).all()  # a block knows what is said of it
            block = node
            assert (outer[:2] <= inner[:2]).all()
            assert (outer[2:] >= inner[2:]).all()
            parent = int(node.view(np.int32)[7, 0])


def many_boxes(rng: Rng, count: int, vocabulary: int) -> Table:
    """A table of plain boxes, small ones among large ones, whose terms follow Zipf's law."""
    table = Table()
    table.ensure_terms(vocabulary)
    add_boxes(rng, table, count, vocabulary)
    table.frequency[:vocabulary] = 100_000 // (1 + np.arange(vocabulary))
    return table


def add_boxes(rng: Rng, table: Table, count: int, vocabulary: int) -> Ints:
    terms = (vocabulary ** rng.random((count, 3)) - 1).astype(np.int32)
    keep = np.ones((count, 3), np.bool_)
    keep[:, 1] = (terms[:, 1] != terms[:, 0]) & (rng.random(count) < 0.7)
    keep[:, 2] = (terms[:, 2] != terms[:, 0]) & (terms[:, 2] != terms[:, 1]) & keep[:, 1]
    starts = np.concatenate(([0], np.cumsum(keep.sum(axis=1)))).astype(np.int64)
    middle = np.column_stack((rng.uniform(-170, 170, count), rng.uniform(-80, 80, count)))
    half = 10 ** rng.uniform(-3, 0.9, (count, 2))
    boxes = np.column_stack((middle - half, middle + half))
    first = len(table)
    owners = np.arange(first, first + count, dtype=np.int32)
    return table.add_boxes(owners, boxes, starts, terms[keep])


def far_messages(rng: Rng, count: int, vocabulary: int, terms: int = 9) -> Batch:
    points = np.column_stack((rng.uniform(-170, 170, count), rng.uniform(-80, 80, count)))
    sizes = rng.choice([0.0, 0.0, 5.0], count)[:, None]
    drawn = [
        np.unique((vocabulary ** rng.random(terms) - 1).astype(int)).tolist() for _ in range(count)
    ]
    return batch_of(drawn, np.column_stack((points - sizes, points + sizes)).tolist())
