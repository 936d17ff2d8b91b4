"""Every index with the options it is checked with, over subscriptions whose answers are known.

The truth is computed from regions and sets of terms alone, without the table's own verification.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

from nearcast.geo import Box, Circle, Polygon, Region
from nearcast.index import INDEXES, Batch, Index, Table, match

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "rt-tree": [{"fanout": 4}, {"variant": "rt+", "fanout": 64}],
    "ir-tree": [{"fanout": 4}],
    "ap-tree": [{}, {"cut": "again", "leaf_capacity": 3, "fanout": 4}],
    "ap-plus-tree": [{}, {"cut": "again", "leaf_capacity": 3, "fanout": 4}],
    "gi2": [{}, {"grid": 3}, {"inline": True}, {"grid": 257}],
    "mbr-trie": [{"probe": "token-set", "order": "tf"}, {"probe": "trie"}],
    "pt-quadtree": [{"tau_num": 2}, {"tau_num": 2, "mx_cif": True, "push_down": 0.5}],
    "lfilter": [{"tau_num": 2}, {"tau_num": 2, "filter": "quadtree"}],
}
"""The sets of options that an index is checked with; one that is not here is checked as it is."""

CASES = [
    pytest.param(name, options, id=":".join([name, *(f"{k}={v}" for k, v in options.items())]))
    for name in INDEXES
    for options in OPTIONS.get(name, [{}])
]
every_index = pytest.mark.parametrize(("name", "options"), CASES)

Conjuncts = list[tuple[list[int], list[int]]]
Pair = tuple[int, int]


class Sent(NamedTuple):
    """A message: its terms, and its place, a box of any kind or a point."""

    terms: frozenset[int]
    place: Box | tuple[float, float]

    def boxes(self) -> Sequence[tuple[float, float, float, float]]:
        return self.place.bounds() if isinstance(self.place, Box) else (self.place * 2,)


def wants(conjuncts: Conjuncts, region: Region, sent: Sent) -> bool:
    """The definition of a match."""
    if not any(
        sent.terms.issuperset(required) and sent.terms.isdisjoint(excluded)
        for required, excluded in conjuncts
    ):
        return False
    if isinstance(sent.place, Box):
        return region.meets(sent.place)
    return region.contains(*sent.place)


def new_index(name: str, options: dict[str, Any], table: Table) -> Index:
    make: Any = INDEXES[name]
    index: Index = make(table, **options)
    return index


class Kept:
    """A table, an index over it, and what was put into them."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.table = Table()
        self.index = new_index(name, options, self.table)
        self.rows: dict[int, np.ndarray[Any, np.dtype[np.int32]]] = {}
        self.truth: dict[int, tuple[Conjuncts, Region]] = {}

    def add(self, owner: int, conjuncts: Conjuncts, region: Region) -> None:
        used = [term for conjunct in conjuncts for terms in conjunct for term in terms]
        self.table.ensure_terms(max(used) + 1)
        self.rows[owner] = self.table.add(owner, conjuncts, region)
        self.truth[owner] = (conjuncts, region)
        self.index.insert(self.rows[owner])

    def remove(self, owners: Sequence[int]) -> None:
        rows = np.concatenate([self.rows.pop(owner) for owner in owners])
        for owner in owners:
            del self.truth[owner]
        freed = self.index.delete(rows)
        self.table.remove(rows)
        self.table.release(freed)

    def move(self, owner: int, region: Region) -> None:
        conjuncts, before = self.truth[owner]
        boxes = isinstance(before, Box) and isinstance(region, Box)
        if boxes and len(before.bounds()) == len(region.bounds()):
            rows = self.rows[owner]
            self.table.move(rows, np.array(region.bounds() * len(conjuncts)))
            self.index.move(rows)
            self.truth[owner] = (conjuncts, region)
        else:
            self.remove([owner])
            self.add(owner, conjuncts, region)

    def batch(self, messages: Sequence[Sent]) -> tuple[Batch, list[int]]:
        """The messages as a batch, and the message at each of its places."""
        known = len(self.table.frequency)
        starts, terms, boxes, places = [0], [], [], []
        for number, sent in enumerate(messages):
            for box in sent.boxes():
                terms.extend([term for term in sorted(sent.terms) if term < known])
                starts.append(len(terms))
                boxes.append(box)
                places.append(number)
        return (
            Batch(
                np.array(starts, np.int64),
                np.array(terms, np.int32),
                np.array(boxes, np.float64).reshape(-1, 4),
            ),
            places,
        )

    def answer(self, messages: Sequence[Sent], threads: int = 1) -> set[Pair]:
        batch, places = self.batch(messages)
        found = match(self.index, batch, threads)
        pairs = list(zip(found.messages.tolist(), found.owners.tolist(), strict=True))
        assert len(set(pairs)) == len(pairs), "a pair was reported twice"
        assert [message for message, _ in pairs] == sorted(message for message, _ in pairs)
        return {(places[message], owner) for message, owner in pairs}

    def expected(self, messages: Sequence[Sent]) -> set[Pair]:
        return {
            (number, owner)
            for number, sent in enumerate(messages)
            for owner, (conjuncts, region) in self.truth.items()
            if wants(conjuncts, region, sent)
        }


# Edges of the world and of cells, numbers that single precision lacks, and their neighbours.


def random_region(random: np.random.Generator) -> Region:
    lon, lat = random.uniform(-60, 40), random.uniform(-40, 30)
    kind, size = random.integers(0, 10), random.uniform(0.1, 25)
    if kind == 0:
        return Circle((lon, lat), size * 1e5)
    if kind == 1:
        return Polygon([[(lon, lat), (lon + size, lat), (lon, lat + size), (lon, lat)]])
    return Box(lon, lat, lon + size, lat + size / 2)


def random_terms(random: np.random.Generator, count: int, vocabulary: int = 300) -> list[int]:
    return sorted({int(term) for term in random.zipf(1.3, count) % vocabulary})


def filled(name: str, options: dict[str, Any], count: int, seed: int = 1) -> Kept:
    """An index of that many random subscriptions, some of them gone again."""
    random = np.random.default_rng(seed)
    kept = Kept(name, options)
    kept.table.ensure_terms(300)
    kept.table.frequency[:300] = 1_000_000 // np.arange(1, 301)
    for owner in range(count):
        required = random_terms(random, int(random.integers(1, 5)))
        excluded = [299] if owner % 10 == 0 and 299 not in required else []
        kept.add(owner, [(required, excluded)], random_region(random))
    kept.remove([owner for owner in range(count) if owner % 7 == 0])
    return kept


def random_messages(count: int, seed: int = 2) -> list[Sent]:
    random = np.random.default_rng(seed)
    messages = []
    for number in range(count):
        lon, lat = random.uniform(-60, 60), random.uniform(-40, 40)
        place = Box(lon, lat, lon + 20, lat + 9) if number % 5 == 0 else (lon, lat)
        messages.append(Sent(frozenset(random_terms(random, 20)), place))
    return messages
