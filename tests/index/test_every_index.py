"""What holds for every index, whichever there are: the answers, and what happens around them.

The truth is computed from regions and sets of terms alone, without the table's own verification.
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from nearcast.errors import NearcastError
from nearcast.geo import Box, Circle, Polygon, Region
from nearcast.index import INDEXES, Batch, Index, Table, match

OPTIONS: dict[str, list[dict[str, Any]]] = {
    "rt-tree": [{"fanout": 4}, {"variant": "rt+", "fanout": 64}],
    "ir-tree": [{"fanout": 4}],
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
_FRACTIONS = [0.0, 0.1, float(np.nextafter(0.1, 1)), float(np.nextafter(0.1, 0)), 0.25, 0.3]
LONS = sorted({-180.0, 180.0, -179.9, 179.9, -60.0, 60.0, 22.5, 45.0, *_FRACTIONS})
LATS = sorted({-90.0, 90.0, -89.9, 89.9, -30.0, 30.0, 11.25, *_FRACTIONS})
lons = st.sampled_from(LONS) | st.floats(-180, 180)
lats = st.sampled_from(LATS) | st.floats(-90, 90)
points = st.tuples(lons, lats)
boxes = st.builds(
    lambda west, east, latitudes: Box(west, min(latitudes), east, max(latitudes)),
    lons,
    lons,
    st.tuples(lats, lats),
)
circles = st.builds(Circle, points, st.sampled_from([0.0, 1e3, 1e5, 3e6, 1.2e7, 2.1e7]))


@st.composite
def polygons(draw: st.DrawFn) -> Polygon:
    """A triangle, or a frame around a hole."""
    west = draw(st.sampled_from([-180.0, -60.0, 0.0, 0.1, 22.5, 100.0]))
    south = draw(st.sampled_from([-90.0, -30.0, 0.0, 0.1, 11.25]))
    side = draw(st.sampled_from([0.3, 5.0, 60.0]))
    east, north = west + side, south + side
    if draw(st.booleans()):
        return Polygon([[(west, south), (east, south), (west, north), (west, south)]])

    def ring(inset: float) -> list[tuple[float, float]]:
        w, s, e, n = west + inset, south + inset, east - inset, north - inset
        return [(w, s), (e, s), (e, n), (w, n), (w, s)]

    return Polygon([ring(0.0), ring(side / 4)])


regions: st.SearchStrategy[Region] = st.one_of(boxes, boxes, circles, polygons())
TERMS = 24
some_terms = st.sets(st.integers(0, 5) | st.integers(0, TERMS - 1), min_size=1, max_size=6)


@st.composite
def conjunctions(draw: st.DrawFn) -> Conjuncts:
    conjuncts: Conjuncts = []
    for _ in range(draw(st.integers(1, 3))):
        required = draw(some_terms)
        excluded = draw(st.sets(st.integers(0, TERMS - 1), max_size=2)) - required
        conjuncts.append((sorted(required, key=hash), sorted(excluded)))
    return conjuncts


sents = st.builds(
    Sent,
    st.frozensets(st.integers(0, 7) | st.integers(0, TERMS + 20), max_size=16),
    points | points | boxes,
)
owners = st.integers(0, 30)
picks = st.integers(0, 99)


def beside(value: float, low: float, high: float) -> list[float]:
    """The next numbers, and numbers as near as those of single precision, within the world."""
    steps = (np.nextafter(value, -np.inf), np.nextafter(value, np.inf), value - 1e-6, value + 1e-6)
    return [float(step) for step in steps if low <= step <= high]


def machine_for(name: str, options: dict[str, Any]) -> type[RuleBasedStateMachine]:
    """A machine that drives one index through everything that can happen to it."""

    class Machine(RuleBasedStateMachine):
        def __init__(self) -> None:
            super().__init__()
            self.kept = Kept(name, options)

        @rule(owner=owners, conjuncts=conjunctions(), region=regions)
        def subscribe(self, owner: int, conjuncts: Conjuncts, region: Region) -> None:
            if owner in self.kept.truth:
                self.kept.remove([owner])
            self.kept.add(owner, conjuncts, region)

        @rule(owner=owners, conjuncts=conjunctions(), region=regions)
        def subscribe_again(self, owner: int, conjuncts: Conjuncts, region: Region) -> None:
            self.subscribe(owner, conjuncts, region)

        def anyone(self, pick: int) -> int:
            """Somebody who is there."""
            return sorted(self.kept.truth)[pick % len(self.kept.truth)]

        @precondition(lambda self: self.kept.truth)
        @rule(pick=picks)
        def unsubscribe(self, pick: int) -> None:
            self.kept.remove([self.anyone(pick)])

        @precondition(lambda self: self.kept.truth)
        @rule(pick=picks, region=regions)
        def move(self, pick: int, region: Region) -> None:
            self.kept.move(self.anyone(pick), region)

        @precondition(lambda self: self.kept.truth)
        @rule(pick=picks, step=st.sampled_from([-3.0, -0.1, 1e-6, 0.1, 3.0]))
        def nudge(self, pick: int, step: float) -> None:
            """Move a box a little, so that it stays in most of its cells."""
            owner = self.anyone(pick)
            before = self.kept.truth[owner][1]
            if isinstance(before, Box):
                east, north = min(before.east + step, 180.0), min(before.north + step, 90.0)
                north = max(north, before.south)
                self.kept.move(owner, Box(before.west, before.south, max(east, -180.0), north))
                self.publish_to(pick, frozenset())

        @rule()
        def unsubscribe_all(self) -> None:
            if self.kept.truth:
                self.kept.remove(list(self.kept.truth))

        @rule(seed=st.integers(0, 99))
        def frequencies_change(self, seed: int) -> None:
            frequency = self.kept.table.frequency
            frequency[:] = np.random.default_rng(seed).integers(0, 9, len(frequency))

        @rule()
        def build_anew(self) -> None:
            self.kept.index.build()

        @rule()
        def save_and_load(self) -> None:
            with TemporaryDirectory() as folder:
                self.kept.index.save(Path(folder) / "index")
                loaded = INDEXES[name].load(Path(folder) / "index", self.kept.table)
            self.kept.index = loaded

        @rule(messages=st.lists(sents, min_size=1, max_size=6), threads=st.integers(1, 2))
        def publish(self, messages: list[Sent], threads: int) -> None:
            assert self.kept.answer(messages, threads) == self.kept.expected(messages)

        @precondition(lambda self: self.kept.truth)
        @rule(pick=picks, more=st.frozensets(st.integers(0, TERMS - 1), max_size=2))
        def publish_to(self, pick: int, more: frozenset[int]) -> None:
            """Messages on and right beside the corners of a region, with the terms it wants."""
            conjuncts, region = self.kept.truth[self.anyone(pick)]
            terms = more.union(conjuncts[0][0])
            messages = [
                Sent(terms, (lon, lat))
                for west, south, east, north in region.bounds()
                for lon in (west, east, *beside(west, -180, 180), *beside(east, -180, 180))
                for lat in (south, north, *beside(south, -90, 90), *beside(north, -90, 90))
            ]
            assert self.kept.answer(messages) == self.kept.expected(messages)

        @invariant()
        def bytes_are_told(self) -> None:
            assert self.kept.index.stats()["bytes"] >= 0

    return Machine


@every_index
def test_answers_are_right_whatever_happens(name: str, options: dict[str, Any]) -> None:
    """Exactly the subscriptions that want a message get it, in every state of the index."""
    run_state_machine_as_test(
        machine_for(name, options),
        settings=settings(max_examples=30, stateful_step_count=40, deadline=None),
    )


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
    """An index of so many random subscriptions, some of them gone again."""
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


@every_index
def test_built_at_once_or_filled_row_by_row_is_the_same(name: str, options: dict[str, Any]) -> None:
    """`build` takes the place of every insertion and deletion before it."""
    kept, messages = filled(name, options, 400), random_messages(60)
    expected = kept.expected(messages)
    assert len(expected) > 20
    assert kept.answer(messages) == expected
    kept.index.build()
    assert kept.answer(messages) == expected
    kept.index = new_index(name, options, kept.table)
    kept.index.build()
    assert kept.answer(messages) == expected
    kept.remove(list(kept.truth)[::2])
    assert kept.answer(messages) == kept.expected(messages)


@every_index
def test_a_box_that_moves_is_found_where_it_is(name: str, options: dict[str, Any]) -> None:
    """After a small step and after a large one, and no longer where it was."""
    kept = Kept(name, options)
    kept.add(1, [([1, 2], []), ([3], [])], Box(1.0, 1.0, 2.0, 2.0))
    kept.add(2, [([3], [])], Box(-50.0, -50.0, 50.0, 50.0))
    kept.index.build()
    places = [(1.05, 1.5), (2.05, 1.5), (101.5, 41.5), (1.5, 1.5)]
    messages = [Sent(frozenset(terms), place) for terms in ([1, 2], [3]) for place in places]
    for west, south in ((1.1, 1.0), (101.0, 41.0), (101.2, 41.1), (1.0, 1.0)):
        kept.move(1, Box(west, south, west + 1.0, south + 1.0))
        expected = kept.expected(messages)
        assert any(owner == 1 for _, owner in expected)
        assert kept.answer(messages) == expected


@every_index
def test_threads_change_nothing(name: str, options: dict[str, Any]) -> None:
    """Messages spread over threads, and calls from several threads at once, get equal answers."""
    kept, messages = filled(name, options, 400), random_messages(60)
    expected = kept.expected(messages)
    assert kept.answer(messages, 2) == expected
    assert kept.answer(messages, 3) == expected
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: kept.answer(messages), range(8)))
    assert answers == [expected] * 8


@every_index
def test_inputs_are_not_changed(name: str, options: dict[str, Any]) -> None:
    """An index reads what it is given, and leaves rows, batches and the table as they are."""
    kept, messages = filled(name, options, 200), random_messages(20)
    batch, _ = kept.batch(messages)

    def state() -> list[bytes]:
        arrays = (*batch, *kept.table.rows, kept.table.frequency)
        return [np.ascontiguousarray(array).tobytes() for array in arrays]

    before = state()
    match(kept.index, batch)
    match(kept.index, batch, 2)
    kept.index.build()
    assert state() == before
    rows = kept.table.live_rows()[:50]
    given = rows.copy()
    kept.index.move(rows)
    assert rows.tolist() == given.tolist()
    assert state() == before
    kept.index.delete(rows)
    assert rows.tolist() == given.tolist()
    assert state() == before
    new = kept.table.add(9999, [([1], []), ([2], [])], Box(0, 0, 1, 1))
    before, given = state(), new.copy()
    kept.index.insert(new)
    assert new.tolist() == given.tolist()
    assert state() == before


_CHILD = """
import json, pickle, sys
from pathlib import Path
import numpy as np
from nearcast.index import INDEXES, match

answers = []
for name, folder, table, batch, doomed in pickle.loads(Path(sys.argv[1]).read_bytes()):
    index = INDEXES[name].load(Path(folder), table)
    pairs = []
    for round in range(2):
        found = match(index, batch)
        pairs.append(sorted(zip(found.messages.tolist(), found.owners.tolist())))
        freed = index.delete(doomed)
        table.remove(doomed)
        table.release(freed)
    answers.append(pairs)
print(json.dumps(answers))
"""


def test_another_process_loads_what_was_saved(tmp_path: Path) -> None:
    """A saved index gives equal answers in another process, and goes on from there."""
    jobs, expected = [], []
    for number, case in enumerate(CASES):
        name, options = case.values
        assert isinstance(name, str)
        assert isinstance(options, dict)
        kept, messages = filled(name, options, 150), random_messages(30)
        messages = [sent for sent in messages if len(sent.boxes()) == 1]
        batch, _ = kept.batch(messages)
        leaving = list(kept.truth)[::3]
        doomed = np.concatenate([kept.rows[owner] for owner in leaving])
        kept.index.save(tmp_path / str(number))
        jobs.append((name, str(tmp_path / str(number)), kept.table, batch, doomed))
        first = sorted(kept.expected(messages))
        second = [pair for pair in first if pair[1] not in leaving]
        assert first != second
        expected.append([[list(pair) for pair in first], [list(pair) for pair in second]])
    (tmp_path / "jobs").write_bytes(pickle.dumps(jobs))
    command = [sys.executable, "-c", _CHILD, str(tmp_path / "jobs")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    for case, got, wanted in zip(CASES, json.loads(done.stdout), expected, strict=True):
        assert got == wanted, case.id


@every_index
def test_files_of_another_kind_are_refused(
    name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    """Loading says what is wrong with a folder that holds something else."""
    (tmp_path / "about.json").write_text('{"kind": "cheese", "version": 1}')
    with pytest.raises(NearcastError, match="cheese"):
        INDEXES[name].load(tmp_path, Table())
    new_index(name, options, Table()).save(tmp_path / "index")
    loaded = INDEXES[name].load(tmp_path / "index", Table())
    nothing = Batch(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty((0, 4)))
    assert len(match(loaded, nothing).owners) == 0


@every_index
def test_numbers_of_rows_are_given_back_and_used_again(name: str, options: dict[str, Any]) -> None:
    """Under constant replacement rows are reused without a trace, and memory stays bounded."""
    random = np.random.default_rng(5)
    count, messages = 300, random_messages(10)

    def subscription() -> tuple[Conjuncts, Region]:
        return [(random_terms(random, 3), [])], random_region(random)

    kept = Kept(name, options)
    kept.table.ensure_terms(300)
    for owner in range(count):
        kept.add(owner, *subscription())
    fresh = new_index(name, options, kept.table)
    fresh.build()
    sizes = fresh.stats()["bytes"], kept.index.stats()["bytes"]
    rows = len(kept.table)
    for _ in range(10):
        for first, last in pairwise(range(0, count + 1, 50)):
            kept.remove(list(range(first, last)))
            kept.answer(messages)
            for owner in range(first, last):
                kept.add(owner, *subscription())
    assert kept.answer(messages) == kept.expected(messages)
    assert kept.index.stats()["bytes"] <= 3 * max(sizes)
    assert len(kept.table) <= 3 * rows
    kept.remove(list(kept.truth))
    assert kept.answer(messages) == set()


@every_index
def test_messages_of_any_length_and_answers_of_any_size_fit(
    name: str, options: dict[str, Any]
) -> None:
    """A message of 100,000 terms, one without terms, and one that everybody wants."""
    kept, many = Kept(name, options), 100_000
    kept.table.ensure_terms(many)
    count = 3000
    starts = np.arange(0, 2 * count + 1, 2, dtype=np.int64)
    terms = (np.arange(2 * count) * 31 % many).astype(np.int32)
    boxes = np.tile([-0.1, -0.1, 0.1, 0.1], (count, 1))
    boxes[0] = (-180.0, -90.0, 0.0, 0.0)
    boxes[1] = (0.0, 0.0, 180.0, 90.0)
    kept.table.add_boxes(np.arange(count, dtype=np.int32), boxes, starts, terms)
    kept.index.build()
    everything, nothing = np.arange(many, dtype=np.int32), np.empty(0, np.int32)
    lengths = np.cumsum([0, 0, many, 2, many])
    found = match(
        kept.index,
        Batch(
            lengths.astype(np.int64),
            np.concatenate((nothing, everything, terms[-2:], everything)),
            np.zeros((4, 4)),
        ),
    )
    assert np.bincount(found.messages, minlength=4).tolist() == [0, count, 1, count]
    assert sorted(found.owners[found.messages == 3].tolist()) == list(range(count))
