"""Messages that leave the window anywhere, and rankings by filter, region, scale and least score.

The rankings of the engine, by both of its cores, against the definition, and the definition against
an evaluation that keeps nothing but the list of the messages that are there.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nearcast import Box, Circle, Engine, Top
from nearcast.engine import ends, numbered
from nearcast.engine import window as stored
from nearcast.engine.matching import ArrivedMessage, BooleanSubscription
from nearcast.engine.ranked import FastRankings, ranking_core
from nearcast.engine.rankings import PlainRankings
from nearcast.engine.settings import Settings
from nearcast.engine.window import Columns
from nearcast.events import Message, Subscription, Update, in_order
from nearcast.events.fields import ADD
from nearcast.text import EVERYTHING, Vocabulary, idf_of, parse_bag, parse_query
from nearcast.topk import Window

WORDS = [*"aaabcde", "É", "x1"]
texts = st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join)
bags = st.lists(st.sampled_from(WORDS), min_size=1, max_size=6).map(" ".join)
coordinates = st.sampled_from([0.0, 0.0, 1.0, 2.0, 0.5, 1.25])
points = st.tuples(coordinates, coordinates)
tops = st.builds(
    Top,
    st.sampled_from([1, 1, 2, 3, 5, 40]),
    st.sampled_from([0.0, 1.0, 0.5, 0.3]),
    st.sampled_from([None, None, 1.0, 60_000.0, 150_000.0, 1e9]),
    st.sampled_from([None, None, None, -1.0, 0.5, 0.75, 1.0, 7.0]),
)
filters = st.sampled_from([None, None, None, "a", "b", "a AND NOT c", "(b OR c) NOT x1"])
regions = st.sampled_from(
    [None, None, None, Box(0, 0, 1, 1), Circle((1.0, 1.0), 120_000.0), Box(5, 5, 6, 6)]
)
names = st.sampled_from([f"s{n}" for n in range(7)])
ids = st.sampled_from([f"m{n}" for n in range(14)])
steps = st.sampled_from([0.0, 0.0, 0.0, 1.0, 2.0, 7.0])
ttls = st.sampled_from([0.0, 0.0, 1.0, 2.0, 3.0, 7.0, 1e-300])
windows = st.sampled_from([Window(n) for n in (1, 2, 5, 12, 40)] + [Window(None, 4.0)])
histories = st.sampled_from([None, ("a b", "a", "a c d", "É", "e f")])


class Naive:
    """The list of messages that are there, and of subscriptions; everything is computed anew."""

    def __init__(self, given: Settings) -> None:
        self.settings = given
        self.idf = idf_of(given.history)
        self.live: list[ArrivedMessage] = []
        self.subscriptions: dict[str, Subscription] = {}

    def advance(self, now: float) -> None:
        seconds = self.settings.window.seconds
        self.live = [m for m in self.live if not m.message.ttl or now < m.at + m.message.ttl]
        self.live = [m for m in self.live if seconds is None or m.at > now - seconds]

    def enter(self, arrived: ArrivedMessage) -> None:
        ttl = arrived.message.ttl
        if not ttl or arrived.at < arrived.at + ttl:
            self.live.append(arrived)
        self.live = self.live[-(self.settings.window.count or len(self.live) or 1) :]

    def score(self, subscription: Subscription, arrived: ArrivedMessage) -> float | None:
        top, message = subscription.top, arrived.message
        assert top is not None
        assert subscription.point is not None
        assert message.point is not None
        own = sorted(set(self.settings.analyser.tokens(subscription.query or "")))
        tokens = self.settings.analyser.tokens(message.text)
        common = [term for term in own if term in tokens]
        if not common:
            return None
        if subscription.filter is not None and not parse_query(subscription.filter).matches(
            arrived.terms, arrived.content
        ):
            return None
        if subscription.region is not None and not subscription.region.contains(*message.point):
            return None
        dot = sum(self.idf(term) ** 2 * tokens.count(term) for term in common)
        squares = sum(self.idf(term) ** 2 for term in own)
        lengths = sum((tokens.count(term) * self.idf(term)) ** 2 for term in set(tokens))
        (x, y), (u, v) = subscription.point, message.point
        if top.scale is None:
            near = 1 - math.hypot(x - u, y - v) / self.settings.diagonal
        else:
            a, b = (_on_the_sphere(*place) for place in ((x, y), (u, v)))
            angle = 2 * math.asin(min(1.0, math.dist(a, b) / 2))
            near = max(0.0, 1 - 6371008.8 * angle / top.scale)
        return top.alpha * near + (1 - top.alpha) * dot / math.sqrt(squares * lengths)

    def all_scores(self, id: str) -> dict[str, float]:
        scored = {m.message.id: self.score(self.subscriptions[id], m) for m in self.live}
        return {message: score for message, score in scored.items() if score is not None}


def _on_the_sphere(lon: float, lat: float) -> tuple[float, float, float]:
    lon, lat = math.radians(lon), math.radians(lat)
    return math.cos(lat) * math.cos(lon), math.cos(lat) * math.sin(lon), math.sin(lat)


class Leaving(RuleBasedStateMachine):
    """The definition, the naive evaluation and the rankings of an engine get the same events."""

    ranking: ClassVar[str] = "auto"

    @initialize(window=windows, history=histories, tidies=st.booleans())
    def start(self, window: Window, history: tuple[str, ...] | None, tidies: bool) -> None:
        self.patch = pytest.MonkeyPatch()
        if tidies:  # holes are closed, and ends forgotten, as soon as there are a few
            self.patch.setattr(numbered, "_MANY_HOLES", 1)
            self.patch.setattr(stored, "_WORTH_TIDYING", 1)
            self.patch.setattr(ends, "_WORTH_TIDYING", 1)
        vocabulary = None
        if history is not None:
            vocabulary = Vocabulary.from_documents(text.split() for text in history)
        self.settings = Settings(window, history=vocabulary)
        self.plain = PlainRankings(self.settings)
        self.fast = FastRankings(self.settings, ranking_core(self.ranking))
        self.naive = Naive(self.settings)
        self.both = (self.plain, self.fast)
        self.now, self.arrivals, self.made = 0.0, 0, 0

    def teardown(self) -> None:
        self.patch.undo()

    def _advance(self, step: float) -> None:
        self.now += step
        for each in (*self.both, self.naive):
            each.advance(self.now)

    def _arrive(self, message: Message) -> ArrivedMessage:
        self.arrivals += 1
        return ArrivedMessage(message, self.arrivals, self.now, self.settings.analyser)

    def _changes(self, before: dict[str, Any], **how: str | None) -> list[Update]:
        plain, fast = (in_order(each.changes(**how)) for each in self.both)
        assert fast == plain
        # The results before and after say what the updates must be.
        replaced, rescored = how.get("replaced"), how.get("rescored")
        expected = []
        for id in self.plain:
            had, has = before.get(id, {}), self.plain.best(id)
            expected += [Update("remove", id, m) for m in had if m not in has]
            for m, score in has.items():
                if m not in had:
                    expected.append(Update("add", id, m, score))
                elif m == replaced or (id == rescored and had[m] != score):
                    expected.append(Update("change", id, m, score))
        assert plain == in_order(expected)
        return plain

    def _results(self) -> dict[str, Any]:
        return {id: dict(self.plain.best(id)) for id in self.plain}

    @rule(id=names, query=bags, point=points, top=tops, asked=filters, region=regions, step=steps)
    def subscribe(
        self, id: str, query: str, point: Any, top: Top, asked: Any, region: Any, step: float
    ) -> None:
        self._put(Subscription(id, query, region, point, top, asked), step)

    def _put(self, subscription: Subscription, step: float) -> None:
        before, terms, wanted = self._results(), parse_bag(subscription.query or ""), None
        if subscription.filter is not None or subscription.region is not None:
            asked = subscription.filter
            query = EVERYTHING if asked is None else parse_query(asked)
            wanted = BooleanSubscription(subscription, query)
        self._advance(step)
        for each in self.both:
            each.put(subscription, terms, wanted)
        self.naive.subscriptions[subscription.id] = subscription
        self._changes(before, rescored=subscription.id)

    @precondition(lambda self: len(self.plain) > 0)
    @rule(data=st.data(), point=points, region=regions, step=steps)
    def move(self, data: st.DataObject, point: Any, region: Any, step: float) -> None:
        old = self.plain.find(data.draw(st.sampled_from(sorted(self.plain))))
        assert old is not None
        self._put(replace(old, point=point, region=region or old.region), step)

    @precondition(lambda self: len(self.plain) > 0)
    @rule(data=st.data(), step=steps)
    def unsubscribe(self, data: st.DataObject, step: float) -> None:
        id, before = data.draw(st.sampled_from(sorted(self.plain))), self._results()
        self._advance(step)
        for each in self.both:
            each.drop(id)
        del self.naive.subscriptions[id], before[id]
        self._changes(before)

    @rule(id=ids, text=texts, point=points, ttl=ttls, step=steps)
    def publish(self, id: str, text: str, point: Any, ttl: float, step: float) -> None:
        before, properties = self._results(), {"n": 1} if "b" in text else None
        message = Message(id, text, point, ttl=ttl, properties=properties)
        arrived = self._arrive(replace(message, at=self.now + step))
        arrived.at, arrived.end = self.now + step, self.now + step + ttl
        would = [each.would_rank(arrived) for each in self.both]
        used = {each.uses(id, self.now + step) for each in self.both}
        self._advance(step)
        replaced = {each.take_out(id) for each in self.both}
        assert used == replaced == {id in {m.message.id for m in self.naive.live}}
        self.naive.live = [m for m in self.naive.live if m.message.id != id]
        for each in (*self.both, self.naive):
            each.enter(arrived)
        self._changes(before, replaced=id if True in replaced else None)
        has = {one: found[id] for one in self.plain if id in (found := self.plain.best(one))}
        assert would == [has, has]

    @rule(data=st.data(), step=steps)
    def retract(self, data: st.DataObject, step: float) -> None:
        live, before = sorted(m.message.id for m in self.naive.live), self._results()
        id = data.draw(st.sampled_from([*live, "unknown"]))
        self._advance(step)
        there = id in {m.message.id for m in self.naive.live}
        assert [each.take_out(id) for each in self.both] == [there, there]
        self.naive.live = [m for m in self.naive.live if m.message.id != id]
        self._changes(before)

    @rule(step=steps)
    def wait(self, step: float) -> None:
        before = self._results()
        self._advance(step)
        self._changes(before)

    @precondition(lambda self: self.settings.window.count or self.fast.is_active)
    @rule(
        rows=st.lists(st.tuples(texts, points, steps, ttls), min_size=1, max_size=25),
        lasting=st.booleans(),
    )
    def publish_many(self, rows: Any, lasting: bool) -> None:
        ttl = np.array([row[3] for row in rows]) if lasting else None
        at = (self.now + np.cumsum([row[2] for row in rows])).tolist()
        names = [f"t{self.made + n}" for n in range(len(rows))]
        self.made += len(rows)
        given = np.array([row[1] for row in rows], np.float64), at, self.settings.analyser
        columns = Columns(names, pa.array([row[0] for row in rows], pa.string()), *given, ttl)
        found = self.fast.enter_columns(columns)
        for n, (text, point, step, life) in enumerate(rows):
            before = self._results()
            self.now += step
            for each in (self.plain, self.naive):
                each.advance(self.now)
            message = Message(names[n], text, point, at=self.now, ttl=life if lasting else 0.0)
            arrived = self._arrive(message)
            for each in (self.plain, self.naive):
                each.enter(arrived)
            updates = in_order(self.plain.changes())
            if found is not None:
                assert self._named(found, n) == updates
            else:
                assert not before
        self.fast.advance(self.now)
        assert self.fast.changes() == []

    def _named(self, found: Any, event: int) -> list[Update]:
        ids = self.fast.message_names(found.messages).to_pylist()
        rows = zip(*(column.tolist() for column in found), ids, strict=True)
        return in_order(
            [
                Update("add", self.fast._ids[sub], id, score)
                if op == ADD
                else Update("remove", self.fast._ids[sub], id)
                for at, op, sub, _, score, id in rows
                if at == event
            ]
        )

    @invariant()
    def all_have_the_same_results(self) -> None:
        for id in self.plain:
            best = list(self.plain.best(id).items())
            assert list(self.fast.best(id).items()) == best
            assert self.fast.find(id) == self.plain.find(id)
            scores = self.naive.all_scores(id)
            top = self.naive.subscriptions[id].top
            assert top is not None
            had = [score for _, score in best if score is not None]
            for message, score in best:
                assert score is not None
                assert math.isclose(score, scores[message], abs_tol=1e-9)
            # What is left out is no better than the last, or too bad, but for rounding.
            least = -math.inf if top.min_score is None else top.min_score
            rest = [s for m, s in scores.items() if m not in dict(best) and s > least + 1e-9]
            assert not rest or (len(best) == top.k and max(rest) <= min(had) + 1e-9)
        for n in range(14):
            assert self.fast.message(f"m{n}") == self.plain.message(f"m{n}")
            for later in (0.0, 1.0, 7.0):
                when = self.now + later
                assert self.fast.uses(f"m{n}", when) == self.plain.uses(f"m{n}", when)
        live = {m.message.id for m in self.naive.live}
        assert {arrived.message.id for arrived in self.plain.window} == live
        if self.fast.plain_window:
            assert not any(m.message.ttl for m in self.naive.live)


class LeavingSkype(Leaving):
    """The same with the core of the paper."""

    ranking = "skype"


@pytest.mark.parametrize("ranking", ["auto", "skype"])
def test_a_message_that_ends_at_once_moves_the_window_on(ranking: str) -> None:
    """Its end is not after its time, in doubles; what has left by then is reported with it."""
    engine = Engine(index="rarest-term", ranking=ranking, window_seconds=4.0)
    engine.subscribe("s", "a", point=(0.0, 0.0), top=Top(1, 0.0))
    engine.publish("old", "a", (0.0, 0.0), at=0.0)
    table = {"text": ["a", "b"], "point": [[0.0, 0.0]] * 2, "at": [7.0, 8.0], "ttl": [1e-300, 0.0]}
    found = engine.publish_table(pa.table({"id": ["short", "last"], **table}))
    columns = ("event", "op", "subscription", "message")
    assert [tuple(row[name] for name in columns) for row in found.to_pylist()] == [
        (0, "remove", "s", "old")
    ]


def _test_case(machine: type[RuleBasedStateMachine]) -> Any:
    case = machine.TestCase
    case.settings = settings(
        max_examples=40,
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    return case


TestLeaving = _test_case(Leaving)
TestLeavingSkype = _test_case(LeavingSkype)
