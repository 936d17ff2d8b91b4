"""Finders, homes, message workers and aggregation find what scan finds, bit for bit."""

from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nearcast import Box
from nearcast.arrays.slots import FIXED
from nearcast.engine.settings import Settings
from nearcast.events import Event, Message, Move, Publish, Subscribe, Subscription, Top, Unsubscribe
from nearcast.geo import WORLD
from nearcast.partition.text_map import TextMap
from nearcast.partition.topk.spread import Spread, only
from nearcast.spark.topk.dskype.spreading import assign_messages, assign_refills
from nearcast.text import Vocabulary
from nearcast.topk import Window
from ranked_workers import (
    Decider,
    Place,
    Route,
    Workers,
    by_key,
    by_terms,
    everywhere,
    to_terms,
)

WORDS = [*"abcdefgh", "É", "ﬁ", "x1"]
COMMON = [*"aaab", *WORDS]
texts = st.lists(st.sampled_from(COMMON), max_size=12).map(" ".join)
queries = st.lists(st.sampled_from(COMMON), min_size=1, max_size=8).map(" ".join)
coordinates = st.sampled_from([0.0, 0.0, 1.0, 2.0, 0.5, 1.25])
points = st.tuples(coordinates, coordinates)
ids = st.sampled_from([f"s{n}" for n in range(8)])
tops = st.builds(
    Top, st.sampled_from([1, 1, 2, 3, 5, 20, 1000]), st.sampled_from([0.0, 1.0, 0.5, 0.3, 0.9])
)
times = st.sampled_from([None, None, None, 0.0, 1.0, 3.0, 40.0])
windows = st.one_of(
    st.sampled_from([1, 2, 7, 30, 90]).map(Window),
    st.sampled_from([1.0, 5.0, 25.0]).map(lambda seconds: Window(seconds=seconds)),
)
histories = st.sampled_from([None, ("a b", "a", "a c d", "É", "e f"), ("a",)])


@st.composite
def some_events(draw: st.DrawFn) -> list[Any]:
    kind = draw(st.sampled_from(["publish"] * 5 + ["subscribe"] * 3 + ["move", "drop", "range"]))
    at = draw(times)
    if kind == "publish":  # many in a row, so that buffers are cut and run empty
        count = draw(st.sampled_from([1, 1, 3, 20, 60]))
        text, point = draw(texts), draw(points)
        other = draw(texts)
        return [("publish", other if n % 3 == 1 else text, point, at) for n in range(count)]
    if kind == "range":
        return [("range", draw(texts), draw(points), at)]
    if kind == "subscribe":
        return [("subscribe", draw(ids), draw(queries), draw(points), draw(tops), at)]
    return [(kind, draw(ids), draw(points), at)]


def _joined(parts: list[list[Any]]) -> list[Any]:
    return [event for part in parts for event in part]


def _events(plan: list[list[Any]]) -> list[list[Event]]:
    now, made, steps = 0.0, 0, []
    for some in plan:
        step: list[Event] = []
        for kind, *rest in some:
            at = None if rest[-1] is None else now + rest[-1]
            now = now if at is None else at
            made += 1
            name = f"m{made}" if made % 5 else f"m{made - 40}"  # ids come again
            if kind == "publish":
                step.append(Publish(Message(name, rest[0], rest[1], at=at)))
            elif kind == "range":
                west, south = rest[1]
                box = Box(west, south, west + 1, south + 1)
                step.append(Publish(Message(name, rest[0], region=box, at=at)))
            elif kind == "subscribe":
                step.append(
                    Subscribe(Subscription(rest[0], rest[1], point=rest[2], top=rest[3]), at)
                )
            elif kind == "move":
                step.append(Move(rest[0], point=rest[1], at=at))
            else:
                step.append(Unsubscribe(rest[0], at))
        steps.append(step)
    return steps


def _spreading(kind: str, finders: int, steepest: float) -> tuple[Place, Route]:
    """Say which finders get subscriptions and messages."""
    if kind == "by key":
        return by_key, everywhere
    if kind == "by terms":
        return by_terms, to_terms
    by_hash = TextMap(
        np.empty(0, np.uint64), np.empty(0, np.int32), np.arange(finders, dtype=np.int32)
    )
    spread = Spread("made", finders, only(0), maps=[by_hash], prefix="length", steepest=steepest)
    return (
        lambda refills, _: list(assign_refills(spread, refills, FIXED)),
        lambda messages, _: list(assign_messages(spread, messages)),
    )


@given(
    plan=st.lists(
        st.lists(some_events(), min_size=1, max_size=5).map(_joined),
        min_size=1,
        max_size=6,
    ),
    window=windows,
    history=histories,
    space=st.sampled_from([WORLD, Box(0, 0, 2, 3)]),
    counts=st.tuples(st.integers(1, 3), st.integers(1, 3), st.integers(1, 4)),
    kind=st.sampled_from(["by key", "by terms", "by prefixes", "by prefixes"]),
    steepest=st.sampled_from([inf, 0.2, 0.4, 0.6, 0.8]),
)
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
def test_every_update_is_the_one_of_scan(
    plan: list[list[Any]],
    window: Window,
    history: tuple[str, ...] | None,
    space: Box,
    counts: tuple[int, int, int],
    kind: str,
    steepest: float,
) -> None:
    """However many workers there are, each step gives exactly the updates of scan."""
    vocabulary = None
    if history is not None:
        vocabulary = Vocabulary.from_documents(text.split() for text in history)
    chosen = Settings(window, space, vocabulary)
    decider = Decider(chosen)
    workers = Workers(chosen, *counts, *_spreading(kind, counts[0], steepest))
    for step in _events(plan):
        batch, expected = decider.step(step)
        found = workers.step(batch, decider.names)
        assert len(found) == len(set(found))
        assert set(found) == expected


@pytest.mark.parametrize("history", [(), ("w1 w5", "w8 w9 w15")])
def test_a_steep_message_reaches_those_who_left_its_term_out(history: tuple[str, ...]) -> None:
    """Long texts make prefixes short; a word alone is then better than all of them."""
    vocabulary = Vocabulary.from_documents(text.split() for text in history) if history else None
    queries = [[f"w{4 * n + m}" for m in range(4)] for n in range(6)]
    more = " ".join(f"x{n}" for n in range(21))
    steps: list[list[Event]] = [
        [
            _said(f"long{n}.{m}", f"{' '.join(queries[n])} {more}")
            for n in range(6)
            for m in range(12)
        ],
        [
            Subscribe(
                Subscription(f"s{n}", " ".join(queries[n]), point=(0.0, 0.0), top=Top(1, 0.0))
            )
            for n in range(6)
        ],
    ]
    steps += [[_said(word, word)] for query in queries for word in query]
    chosen = Settings(Window(200), WORLD, vocabulary)
    decider = Decider(chosen)
    workers = Workers(chosen, 3, 1, 1, *_spreading("by prefixes", 3, 0.3))
    updates = 0
    for step in steps:
        batch, expected = decider.step(step)
        assert set(workers.step(batch, decider.names)) == expected
        updates += len(expected)
    assert updates >= 24  # every word comes to be the best


def _said(id: str, text: str) -> Publish:
    return Publish(Message(id, text, (0.0, 0.0)))
