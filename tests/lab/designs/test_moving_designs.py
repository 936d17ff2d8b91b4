"""Every design behind `nearcast bench moving` finds the same matches and the same changes."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.active import MessageTerms
from nearcast.arrays.types import Floats, Int32s
from nearcast.index import Batch, Table
from nearcast_lab.bench.designs import DESIGNS, Design, UnifiedDesign
from nearcast_lab.designs.located_messages import LocatedMessages, grid

TERMS = 40
SPACE = np.array([0.0, 0.0, 10.0, 10.0])
ROWS, MESSAGES = 600, 400


class World:
    """The same random subscriptions, messages and moves for every design."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.starts, self.terms = self._terms(ROWS, 3)
        corner = self.rng.uniform(0, 8, (ROWS, 2)).round(1)
        self.boxes = np.hstack([corner, corner + self.rng.uniform(0.1, 3, (ROWS, 2)).round(1)])
        self.wide = np.array([[-1.0, -1.0, 12.0, 12.0]])
        self.boxes[:5] = self.wide

    def _terms(self, count: int, most: int) -> tuple[np.ndarray, Int32s]:
        lengths = self.rng.integers(1, most + 1, count)
        chosen = [np.unique((TERMS * self.rng.random(n) ** 2).astype(np.int32)) for n in lengths]
        starts = np.concatenate([[0], np.cumsum([len(one) for one in chosen])])
        return starts, np.concatenate(chosen)

    def table(self) -> Table:
        table = Table()
        table.ensure_terms(TERMS)
        owners = np.arange(ROWS, dtype=np.int32)
        table.add_boxes(owners, self.boxes, self.starts, self.terms)
        return table

    def messages(self, count: int) -> Batch:
        starts, terms = self._terms(count, 9)
        points = self.rng.uniform(-0.5, 11, (count, 2)).round(1)
        return Batch(starts, terms, np.hstack([points, points]))

    def moves(self, boxes: Floats) -> tuple[Int32s, Floats]:
        which = self.rng.permutation(ROWS)[:200].astype(np.int32)
        way = self.rng.choice([0.1, 0.5, 3.0], (200, 1)) * self.rng.uniform(-1, 1, (200, 2))
        return which, boxes[which] + np.hstack([way, way]).round(1)


def changes_of(design: Design, which: Int32s, boxes: Floats, now: float) -> set[tuple[int, ...]]:
    events = np.arange(len(which), dtype=np.int32)
    found = design.changes(which, events, np.full(len(which), now), boxes)
    listed = list(zip(*(column.tolist() for column in found), strict=True))
    assert len(set(listed)) == len(listed)
    return set(listed)


@pytest.mark.parametrize("name", [name for name in DESIGNS if name != "ours"])
def test_a_design_finds_what_ours_finds(name: str) -> None:
    world = World(7)
    first = world.messages(50)
    ours, other = (DESIGNS[one](world.table(), SPACE, first) for one in ("ours", name))
    for design in (ours, other):
        design.build()
    now, found = 0.0, 0
    for _ in range(6):
        batch: Batch = world.messages(MESSAGES)
        ends: Floats = (now + 100 + world.rng.permutation(MESSAGES)).astype(np.float64)
        pairs = []
        for design in (ours, other):
            matches = design.publish(batch, ends)
            pairs.append(set(zip(matches.messages.tolist(), matches.owners.tolist(), strict=True)))
        assert pairs[0] == pairs[1]
        for _turn in range(3):
            which, boxes = world.moves(ours.table.rows.box)
            expected = changes_of(ours, which, boxes, now)
            assert changes_of(other, which, boxes, now) == expected
            found += len(expected)
            for design in (ours, other):
                design.moved(which, boxes)
        now += 150
        if isinstance(other, UnifiedDesign):
            continue  # it gives slots again at another time, so that numbers would differ
        assert ours.expire(now, 10_000) == other.expire(now, 10_000)
    assert found > 1000


def test_messages_that_ended_are_swept_and_a_rebuilt_tree_answers_the_same() -> None:
    """Lazy deletion frees slots; a tree rebuilt with the speeds it learnt finds the same."""
    world = World(3)
    tree = UnifiedDesign(world.table(), history=world.messages(50), most_copies=8)
    tree.build()
    batch = world.messages(MESSAGES)
    tree.publish(batch, np.arange(1.0, MESSAGES + 1.0))
    assert tree.expire(300.0, 1000) == 300
    which, boxes = world.moves(tree.table.rows.box)
    places = batch.boxes[300:, :2]

    def numbered(found: set[tuple[int, ...]]) -> list[tuple[float, ...]]:
        points = tree.messages.boxes[:, :2]
        return sorted((event, *points[slot].tolist(), op) for event, slot, op in found)

    before = numbered(changes_of(tree, which, boxes, 300.0))
    tree.moved(which, tree.table.rows.box[which])
    tree.build()
    assert numbered(changes_of(tree, which, boxes, 300.0)) == before
    assert {(lon, lat) for _, lon, lat, _ in before} <= {tuple(p) for p in places.tolist()}
    assert before


def test_lists_that_were_swept_leave_nothing_behind() -> None:
    """The same messages, again and again, take no more memory than the second time."""
    world = World(5)
    tree = UnifiedDesign(world.table(), history=world.messages(50))
    tree.build()
    batch, taken = world.messages(MESSAGES), []
    for turn in range(1, 6):
        tree.publish(batch, np.full(MESSAGES, float(turn)))
        taken.append(tree.nbytes()[0])
        assert tree.expire(float(turn), MESSAGES) == MESSAGES
    assert taken[2:] == [taken[1]] * 3


@pytest.mark.parametrize("terms", [1, 3, 5])
def test_lists_that_are_full_at_the_same_time_find_room(terms: int) -> None:
    """Messages of the same terms in one place: all of their lists grow with the same message."""
    store, many = LocatedMessages(grid(SPACE)), 1100
    texts = MessageTerms(
        np.arange(0, many * terms + 1, terms), np.tile(np.arange(terms, dtype=np.int32), many)
    )
    slots = store.add(texts, np.ones((many, 4)), np.arange(1.0, many + 1.0))
    assert sorted(slots.tolist()) == list(range(many))
    assert store.expire(float(many), many).slots.tolist() == slots.tolist()
