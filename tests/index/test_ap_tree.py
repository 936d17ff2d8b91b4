"""The AP-Tree: equal to looking at every row, whatever happens to it and however it is set."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from nearcast.arrays.types import Int32s
from nearcast.errors import InvalidValue
from nearcast.geo import Box, Circle, Polygon, Region
from nearcast.index import Batch, Table, index_named, match
from nearcast.index.ap_tree import ApTree
from nearcast.index.ap_tree.pack import packed
from nearcast.index.ap_tree.tree import trimmed
from nearcast.index.sequential import Sequential

TERMS = 9
places = st.integers(-6, 6).map(lambda step: step * 15.0)
terms = st.lists(st.integers(0, TERMS - 1), min_size=1, max_size=4, unique=True)


@st.composite
def regions(draw: st.DrawFn) -> Region:
    """A region of any shape, many of them with borders in common."""
    lon, lat = draw(places), draw(places)
    kind = draw(st.sampled_from(["box", "box", "point", "world", "across", "circle", "triangle"]))
    size = draw(st.sampled_from([5.0, 15.0, 45.0]))
    if kind == "point":
        return Box(lon, lat, lon, lat)
    if kind == "world":
        return Box(-180, -90, 180, 90)
    if kind == "across":
        return Box(175, lat, -175 + size, min(90.0, lat + size))
    if kind == "circle":
        return Circle((lon, lat), radius=size * 50_000)
    if kind == "triangle":
        return Polygon([[(lon, 0), (lon + size, 0), (lon, size), (lon, 0)]])
    return Box(lon, lat, lon + size, min(90.0, lat + size))


@st.composite
def conjuncts(draw: st.DrawFn) -> list[tuple[list[int], list[int]]]:
    """One or two conjuncts, some of them with NOT."""
    found = []
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        required = draw(terms)
        others = [term for term in range(TERMS) if term not in required]
        found.append((required, draw(st.lists(st.sampled_from(others), max_size=1))))
    return found


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """Point and range messages; some terms are unknown to every subscription."""
    starts, flat, boxes = [0], [], []
    for _ in range(draw(st.integers(1, 6))):
        flat += draw(st.lists(st.integers(0, TERMS + 2), max_size=TERMS, unique=True))
        starts.append(len(flat))
        lon, lat = draw(places), draw(places)
        size = draw(st.sampled_from([0.0, 0.0, 15.0, 100.0, 400.0]))
        boxes.append((lon, lat, min(180.0, lon + size), min(90.0, lat + size)))
    return Batch(np.array(starts, np.int64), np.array(flat, np.int32), np.array(boxes, float))


variants = st.fixed_dictionaries(
    {
        "order": st.sampled_from(["tf", "idf", "random"]),
        "keyword_partition": st.sampled_from(["hr", "dp"]),
        "strategy": st.sampled_from(["adaptive", "k-first", "s-first", "trie-quadtree"]),
        "rebuild": st.booleans(),
        "fanout": st.sampled_from([2, 4, 9, 200]),
        "leaf_capacity": st.sampled_from([1, 2, 4]),
        "dummy_share": st.sampled_from([0.25, 0.5, 1.0]),
        "max_replication": st.sampled_from([1.5, 8.0]),
        "message_terms": st.sampled_from([None, 3.0]),
        "rebuild_growth": st.sampled_from([0.0, 0.1]),
    }
)


class Pair:
    """An AP-Tree and a plain scan over one table, led through the same events."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.table = Table()
        self.table.ensure_terms(TERMS + 3)
        self.index = ApTree(self.table, **options)
        self.subscriptions: list[tuple[Int32s, bool]] = []

    def add(self, wanted: list[tuple[list[tuple[list[int], list[int]]], Region]]) -> None:
        fresh = []
        for parts, region in wanted:
            rows = self.table.add(len(self.subscriptions), parts, region)
            self.subscriptions.append((rows, isinstance(region, Box) and len(parts) == len(rows)))
            fresh.append(rows)
        self.index.insert(np.concatenate(fresh))

    def drop(self, number: int) -> None:
        rows, _ = self.subscriptions.pop(number % len(self.subscriptions))
        released = self.index.delete(rows)
        self.table.remove(rows)
        self.table.release(released)

    def move(self, number: int, lon: float, lat: float) -> None:
        rows, movable = self.subscriptions[number % len(self.subscriptions)]
        if movable:
            self.table.move(rows, np.tile([lon, lat, lon + 40.0, lat], (len(rows), 1)))
            self.index.move(rows)

    def leaves(self) -> Counter[int]:
        """In how many leaves each row is."""
        return Counter(trimmed(packed(self.index._tree)).entries.tolist())

    def check(self, batch: Batch) -> None:
        given, expected = self.index.candidates(batch), Sequential(self.table).candidates(batch)
        found = sorted(zip(given.messages.tolist(), given.rows.tolist(), strict=True))
        assert found == sorted(zip(expected.messages.tolist(), expected.rows.tolist(), strict=True))


subscriptions = st.lists(st.tuples(conjuncts(), regions()), min_size=1, max_size=8)
steps = st.one_of(
    st.tuples(st.just("add"), subscriptions),
    st.tuples(st.just("add"), subscriptions),
    st.tuples(st.just("drop"), st.integers(0, 99)),
    st.tuples(st.just("move"), st.integers(0, 99), places, places),
    st.tuples(st.just("build")),
    st.tuples(st.just("reload")),
    st.tuples(st.just("match"), batches()),
)


@settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(options=variants, history=st.none() | batches(), events=st.lists(steps, max_size=16),
       last=batches())  # fmt: skip
def test_agrees_with_a_scan(
    tmp_path: Path,
    options: dict[str, Any],
    history: Batch | None,
    events: list[Any],
    last: Batch,
) -> None:
    """In every variant, with all shapes and NOT, while rows come, go and move."""
    pair = Pair(options | {"history": history})
    for event in events:
        if event[0] == "add":
            pair.add(event[1])
        elif event[0] == "build":
            pair.index.build()
        elif event[0] == "reload":
            pair.index.save(tmp_path / "tree")
            pair.index = ApTree.load(tmp_path / "tree", pair.table)
        elif event[0] == "match":
            pair.check(event[1])
        elif pair.subscriptions:
            getattr(pair, event[0])(*event[1:])
    pair.check(last)


NEVER_REBUILT: dict[str, Any] = {
    "order": "tf",
    "keyword_partition": "hr",
    "strategy": "adaptive",
    "rebuild": False,
    "fanout": 200,
    "leaf_capacity": 1,
    "dummy_share": 1.0,
    "max_replication": 8.0,
    "message_terms": None,
    "rebuild_growth": 0.0,
}
NOWHERE = Batch(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty((0, 4)))


def points_and(region: Region) -> list[tuple[list[tuple[list[int], list[int]]], Region]]:
    """Many points apart from each other, and one larger region: the one that is left in the end."""
    lattice = range(-80, 80, 20)
    wanted: list[Region] = [Box(lon, lat, lon, lat) for lon in lattice for lat in lattice]
    wanted[1] = region
    return [([([0], [])], place) for place in wanted]


@settings(max_examples=20)
@example(options=NEVER_REBUILT, wanted=points_and(Box(-75, -75, 45, 45)), batch=NOWHERE)
@example(
    options=NEVER_REBUILT | {"strategy": "trie-quadtree"},
    wanted=points_and(Box(-75, -75, -75, 75)),
    batch=NOWHERE,
)
@given(options=variants, wanted=st.lists(st.tuples(conjuncts(), regions()), min_size=60,
       max_size=90), batch=batches())  # fmt: skip
def test_many_deletions_leave_nothing_behind(
    options: dict[str, Any],
    wanted: list[tuple[list[tuple[list[int], list[int]]], Region]],
    batch: Batch,
) -> None:
    """A tree that has lost nearly all rows still answers, and holds what is left and no more.

    `max_replication` is an average over the rows that a node was made for. Of these the one that
    is left may be the one with most copies: a tree that is never rebuilt keeps them, as it keeps
    its cells, until a node has too few rows to be divided.
    """
    pair = Pair(options)
    pair.add(wanted)
    pair.check(batch)
    before = pair.leaves()
    while len(pair.subscriptions) > 1:
        pair.drop(7)
    pair.check(batch)
    rows, leaves = pair.subscriptions[0][0].tolist(), pair.leaves()
    assert leaves.keys() == set(rows)
    assert leaves.total() == pair.index.stats()["leaf_entries"]
    if options["strategy"] != "trie-quadtree" and len(rows) < options["leaf_capacity"]:
        assert leaves.total() == len(rows)
    elif options["rebuild"]:
        assert leaves.total() <= 8 * len(rows)
    else:
        assert leaves <= before
    pair.drop(0)
    pair.check(batch)
    assert pair.index.stats()["leaf_entries"] == 0


def test_threads_share_one_tree() -> None:
    """Two threads find what one finds."""
    table = Table()
    table.ensure_terms(64)
    random = np.random.default_rng(1)
    corners = random.uniform(-80, 60, (500, 2))
    starts = np.arange(0, 1001, 2, dtype=np.int64)
    terms = np.column_stack([random.integers(0, 8, 500), random.integers(8, 16, 500)])
    owners = np.arange(500, dtype=np.int32)
    where = np.concatenate([corners, corners + 20.0], axis=1)
    table.add_boxes(owners, where, starts, terms.reshape(-1).astype(np.int32))
    index = ApTree(table)
    index.build()
    places = np.concatenate([corners, corners], axis=1)
    batch = Batch(starts, terms.reshape(-1).astype(np.int32), places)
    one, two = match(index, batch), match(index, batch, threads=2)
    assert len(one.owners) >= 500
    assert sorted(zip(*one[:2], strict=True)) == sorted(zip(*two[:2], strict=True))
    assert one.candidates == two.candidates


def test_is_known_by_its_name() -> None:
    assert index_named("ap-tree") is ApTree


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("order", "frequency"),
        ("strategy", "space-first"),
        ("keyword_partition", "best"),
        ("cut", "twice"),
        ("fanout", 1),
        ("leaf_capacity", 0),
        ("dummy_share", 0.0),
        ("max_replication", 0.5),
    ],
)
def test_refuses_options_out_of_range(field: str, value: Any) -> None:
    """The error names the option."""
    with pytest.raises(InvalidValue, match=field):
        ApTree(Table(), **{field: value})
