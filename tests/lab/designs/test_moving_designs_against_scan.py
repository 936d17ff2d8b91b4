"""Whatever subscriptions and messages do, every compared design finds what a look at all finds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from nearcast.active import ActiveChanges
from nearcast.index import Batch, Table, match
from nearcast_lab.bench.designs import DESIGNS, Maker, UnifiedDesign, arrive

TERMS = 12
SPACE = np.array([0.0, 0.0, 8.0, 8.0])
WAYS = [-3.0, -0.25, 0.0, 0.0, 0.25, 0.1, 5.0]

Sides = tuple[float, float, float, float]
Point = tuple[float, float]
seeds = st.integers(0, 2**31)


class Chance:
    """What is drawn from a seed: many things at a time, where Hypothesis would draw few."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def terms(self, most: int, known: int = TERMS) -> frozenset[int]:
        """Some terms, small numbers more often."""
        many = self.rng.integers(1, most + 1)
        return frozenset((known * self.rng.random(many) ** 2).astype(int).tolist())

    def point(self) -> Point:
        """On a lattice, so that borders are met, and beyond the space too."""
        lon, lat = (self.rng.integers(-2, 36, 2) / 4).tolist()
        return lon, lat

    def box(self) -> Sides:
        """Any size, none among them."""
        (west, south), (east, north) = self.point(), self.point()
        return min(west, east), min(south, north), max(west, east), max(south, north)

    def target(self, box: Sides) -> Sides:
        """Inside, overlapping, far, nowhere else at all, or of another size."""
        if self.rng.random() < 0.2:
            return self.box()
        east, north = self.rng.choice(WAYS, 2).tolist()
        return box[0] + east, box[1] + north, box[2] + east, box[3] + north


class Message(NamedTuple):
    """An active message; no two end at the same time."""

    terms: frozenset[int]
    point: Point
    end: float


def columns(texts: list[frozenset[int]]) -> tuple[Any, Any]:
    starts = np.concatenate([[0], np.cumsum([len(one) for one in texts])]).astype(np.int64)
    return starts, np.array([term for one in texts for term in sorted(one)], np.int32)


def batch_of(messages: list[Message]) -> Batch:
    starts, terms = columns([one.terms for one in messages])
    return Batch(starts, terms, np.array([[*one.point, *one.point] for one in messages]))


def contains(box: Sides, point: Point) -> bool:
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


class Against(RuleBasedStateMachine):
    """One design, and the subscriptions and messages that it was given."""

    name = "ours"
    make: Maker | None = None

    @initialize(crowd=st.integers(1, 150), seed=seeds)
    def start(self, crowd: int, seed: int) -> None:
        """Two terms are left for those who arrive later."""
        chance = Chance(seed)
        self.now, self.ending, self.count = 0.0, 0.0, crowd
        wanted = [chance.terms(3, TERMS - 2) for _ in range(crowd)]
        held = [chance.box() for _ in range(crowd)]
        table = Table()
        table.ensure_terms(TERMS)
        table.frequency[:TERMS] = np.arange(TERMS, 0, -1)
        table.add_boxes(np.arange(crowd, dtype=np.int32), np.array(held), *columns(wanted))
        self.active: list[Message] = []
        self.standing = {n: (n, wanted[n], held[n]) for n in range(crowd)}
        first = [Message(chance.terms(7), chance.point(), 0.0) for _ in range(100)]
        make = type(self).make or DESIGNS[self.name]
        self.design = make(table, SPACE, batch_of(first))
        self.design.build()
        self.publish(first, 50.0)

    def wanted(self, found: ActiveChanges, expected: list[set[tuple[float, int]]]) -> None:
        """Compare by the ends of messages, which are all different."""
        ends = self.design.ends[found.slots].tolist()
        listed = list(zip(found.events.tolist(), ends, found.ops.tolist(), strict=True))
        assert len(set(listed)) == len(listed)
        assert {(n, *one) for n, some in enumerate(expected) for one in some} == set(listed)

    def results(self, terms: frozenset[int], box: Sides) -> set[float]:
        return {
            one.end
            for one in self.active
            if one.end > self.now and terms <= one.terms and contains(box, one.point)
        }

    def publish(self, news: list[Message], life: float) -> None:
        fresh = []
        for one in news:
            self.ending += 1.0
            fresh.append(one._replace(end=self.now + life + self.ending / 4096))
        expected = {
            (n, owner)
            for n, one in enumerate(fresh)
            for owner, terms, box in self.standing.values()
            if terms <= one.terms and contains(box, one.point)
        }
        if life:
            found = self.design.publish(batch_of(fresh), np.array([one.end for one in fresh]))
            self.active += fresh
        else:
            found = match(self.design.index, batch_of(fresh))
        assert set(zip(found.messages.tolist(), found.owners.tolist(), strict=True)) == expected

    @rule(seed=seeds, count=st.integers(1, 60), life=st.sampled_from([0.0, 2.0, 5.0, 30.0]))
    def messages_come(self, seed: int, count: int, life: float) -> None:
        chance = Chance(seed)
        news = [Message(chance.terms(7), chance.point(), 0.0) for _ in range(count)]
        self.publish(news, life)

    @rule(seed=seeds, count=st.integers(1, 40))
    def some_move(self, seed: int, count: int) -> None:
        chance = Chance(seed)
        rows = sorted(self.standing)
        chosen = chance.rng.permutation(rows)[:count].tolist()
        targets = [chance.target(self.standing[row][2]) for row in chosen]
        which, places = np.array(chosen, np.int32), np.array(targets)
        events = np.arange(len(chosen), dtype=np.int32)
        found = self.design.changes(which, events, np.full(len(chosen), self.now), places)
        expected = []
        for row, target in zip(chosen, targets, strict=True):
            owner, terms, box = self.standing[row]
            old, new = self.results(terms, box), self.results(terms, target)
            expected.append({(end, 1) for end in new - old} | {(end, 2) for end in old - new})
            self.standing[row] = owner, terms, target
        self.wanted(found, expected)
        self.design.moved(which, places)

    @rule(seed=seeds, count=st.integers(1, 5))
    def some_arrive(self, seed: int, count: int) -> None:
        """With terms that were unused before, too."""
        chance = Chance(seed)
        some = [(chance.terms(3), chance.box()) for _ in range(count)]
        owners = np.arange(self.count, self.count + len(some), dtype=np.int32)
        self.count += len(some)
        starts, terms = columns([query for query, _ in some])
        places = np.array([box for _, box in some])
        rows, found = arrive(self.design, owners, places, starts, terms, self.now)
        self.wanted(found, [{(end, 1) for end in self.results(*one)} for one in some])
        for row, owner, one in zip(rows.tolist(), owners.tolist(), some, strict=True):
            self.standing[row] = owner, *one

    @rule(which=st.integers(0, 200))
    def one_leaves(self, which: int) -> None:
        rows = sorted(self.standing)
        if len(rows) > 1:
            row = rows[which % len(rows)]
            del self.standing[row]
            self.design.delete(np.array([row], np.int32))

    @rule(step=st.sampled_from([0.5, 3.0, 40.0]), most=st.sampled_from([0, 3, 1000]))
    def time_passes(self, step: float, most: int) -> None:
        """What has ended is not found, whether or not it was taken out."""
        self.now += step
        self.design.expire(self.now, most)


@pytest.mark.parametrize("name", [name for name in DESIGNS if not name.startswith("plain-")])
def test_a_design_finds_what_a_look_at_everything_finds(
    name: str, run_machine: Callable[..., None]
) -> None:
    run_machine(type("Machine", (Against,), {"name": name}), examples=12, steps=20)


@pytest.mark.parametrize("cut", ["printed", "again"])
def test_a_tree_that_is_rebuilt_all_the_time(cut: str, run_machine: Callable[..., None]) -> None:
    """Leaves of three rows and lists of few copies: messages are dealt out again and again."""

    def make(table: Table, space: Any, history: Batch, rate: float | None = None) -> UnifiedDesign:
        del space, rate
        options: dict[str, Any] = {"leaf_capacity": 3, "fanout": 4, "most_copies": 4, "cut": cut}
        return UnifiedDesign(table, history=history, rebuild_growth=0.0, timestamp_s=1.0, **options)

    run_machine(type("Machine", (Against,), {"make": staticmethod(make)}), examples=30, steps=30)
