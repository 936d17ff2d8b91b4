"""Whatever subscriptions and messages do, every compared design finds what a look at all finds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from nearcast.bench.designs import DESIGNS, arrive
from nearcast.index import Batch, Table, match
from nearcast.lasting import Changes

TERMS = 12
SPACE = np.array([0.0, 0.0, 8.0, 8.0])

Sides = tuple[float, float, float, float]
sides = st.integers(-2, 36).map(lambda n: n / 4)  # beyond the space too
boxes = st.builds(
    lambda w, s, e, n: (min(w, e), min(s, n), max(w, e), max(s, n)), sides, sides, sides, sides
)
ways = st.tuples(*[st.sampled_from([-3.0, -0.25, 0.0, 0.0, 0.25, 0.1, 5.0])] * 2)
texts = st.frozensets(st.integers(0, TERMS - 1), min_size=1, max_size=7)
queries = st.frozensets(st.integers(0, TERMS - 1), min_size=1, max_size=3)


class Message(NamedTuple):
    """An active message; no two end at the same time."""

    terms: frozenset[int]
    point: tuple[float, float]
    end: float


def columns(texts: list[frozenset[int]]) -> tuple[Any, Any]:
    starts = np.concatenate([[0], np.cumsum([len(one) for one in texts])]).astype(np.int64)
    return starts, np.array([term for one in texts for term in sorted(one)], np.int32)


def batch_of(messages: list[Message]) -> Batch:
    starts, terms = columns([one.terms for one in messages])
    return Batch(starts, terms, np.array([[*one.point, *one.point] for one in messages]))


def contains(box: Sides, point: tuple[float, float]) -> bool:
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


class Against(RuleBasedStateMachine):
    """One design, and the subscriptions and messages that it was told of."""

    name = "ours"

    @initialize(
        crowd=st.integers(1, 150), seed=st.integers(0, 9), news=st.lists(texts, max_size=30)
    )
    def start(self, crowd: int, seed: int, news: list[frozenset[int]]) -> None:
        rng = np.random.default_rng(seed)
        self.now, self.ending, self.count = 0.0, 0.0, crowd
        wanted = [frozenset(rng.integers(0, TERMS - 2, 2).tolist()) for _ in range(crowd)]
        corner = rng.integers(0, 28, (crowd, 2)) / 4
        held = np.hstack([corner, corner + rng.integers(1, 12, (crowd, 2)) / 4])
        table = Table()
        table.ensure_terms(TERMS)
        table.frequency[:TERMS] = np.arange(TERMS, 0, -1)
        table.add_boxes(np.arange(crowd, dtype=np.int32), held, *columns(wanted))
        self.active: list[Message] = []
        self.standing: dict[int, tuple[int, frozenset[int], Sides]] = {
            n: (n, wanted[n], tuple(held[n].tolist())) for n in range(crowd)
        }
        first = [Message(text, (n % 7, n % 5), 0.0) for n, text in enumerate(news)]
        first = first or [Message(frozenset({1, 2}), (1.0, 1.0), 0.0)]
        self.design = DESIGNS[self.name](table, SPACE, batch_of(first))
        self.design.build()
        self.publish([(one.terms, one.point) for one in first], 50.0)

    def wanted(self, found: Changes, expected: list[set[tuple[float, int]]]) -> None:
        """Compare by the ends of messages, which tell them apart."""
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

    def publish(self, news: list[tuple[Any, Any]], life: float) -> None:
        fresh = []
        for terms, point in news:
            self.ending += 1.0
            fresh.append(Message(terms, point, self.now + life + self.ending / 1024))
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

    @rule(
        news=st.lists(st.tuples(texts, st.tuples(sides, sides)), min_size=1, max_size=40),
        life=st.sampled_from([0.0, 2.0, 5.0, 30.0]),
    )
    def messages_come(self, news: list[tuple[Any, Any]], life: float) -> None:
        self.publish(news, life)

    @rule(who=st.lists(st.integers(0, 200), min_size=1, max_size=12, unique=True), data=st.data())
    def some_move(self, who: list[int], data: st.DataObject) -> None:
        """Inside, overlapping, far, nowhere else at all, and to another size."""
        rows = sorted(self.standing)
        chosen = list({rows[n % len(rows)]: None for n in who})
        targets: list[Sides] = []
        for row in chosen:
            _, _, box = self.standing[row]
            way = data.draw(st.one_of(ways, boxes))
            if len(way) == 2:
                targets.append(
                    (box[0] + way[0], box[1] + way[1], box[2] + way[0], box[3] + way[1])
                )
            else:
                targets.append(way)
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

    @rule(some=st.lists(st.tuples(queries, boxes), min_size=1, max_size=5))
    def some_arrive(self, some: list[tuple[frozenset[int], Sides]]) -> None:
        """With terms that nobody had, too."""
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


@pytest.mark.parametrize("name", DESIGNS)
def test_a_design_finds_what_a_look_at_everything_finds(name: str) -> None:
    machine: Any = type("Machine", (Against,), {"name": name}).TestCase  # type: ignore[attr-defined]  # made by Hypothesis
    machine.settings = settings(
        max_examples=12,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    machine().runTest()
