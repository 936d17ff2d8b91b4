"""Bodies of updates where many events are applied as columns, and with small windows."""

from __future__ import annotations

from itertools import chain
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from expected_bodies import Attached, ExpectedBodies
from nearcast import Box, Engine, Message, NearcastError, Subscription, Top
from nearcast.events import Event, Publish, Retract, Subscribe

AREA = Box(0, 0, 1, 1)
WINDOWS: list[dict[str, Any]] = [
    {"window_count": 1},
    {"window_count": 4},
    {"window_count": 30},
    {"window_seconds": 3.0},
    {},
]


def crowd(seed: int, count: int) -> list[Event]:
    """Mostly messages at points, some of which end or come again, for a few that rank them."""
    draw = Random(seed)
    events: list[Event] = [Subscribe(Subscription(f"s{n}", f"w{n}", AREA)) for n in range(3)]
    for n in range(4):
        few, meta = Top(draw.choice([1, 2, 3]), draw.choice([0.0, 0.5, 1.0])), {"n": n}
        point = (draw.random(), 0.5)
        events.append(Subscribe(Subscription(f"r{n}", f"w{n} w1", None, point, few, meta=meta)))
    lives, now = draw.choice([[0.0], [0.0, 2.0, 5.0], [3.0]]), 0.0
    for number in range(count):
        now += draw.choice([0.0, 0.0, 1.0])
        chance = draw.random()
        id = f"m{number if draw.random() < 0.98 else draw.randrange(max(1, number))}"
        text = " ".join(f"w{draw.randrange(4)}" for _ in range(2))
        point = (draw.random(), draw.choice([0.5, 2.0]))
        message = Message(id, text, point, at=now, ttl=draw.choice(lives))
        if chance < 0.01:
            events.append(Retract(f"m{max(0, number - 2)}", now))
        elif chance < 0.02:
            events.append(Publish(Message(id, text, region=AREA, at=now, ttl=2.0)))
        else:
            events.append(Publish(message))
    return events


def expected_of(events: list[Event], **window: Any) -> list[list[Attached]]:
    known, expected = ExpectedBodies(), []
    with Engine(index="scan", **window) as scan:
        for event in events:
            try:
                updates = scan.apply(event)
            except NearcastError:
                updates = []
            else:
                known.accept(event)
            expected.append([known.of(update) for update in updates])
    return expected


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("seed", range(6))
def test_many_events_at_once(seed: int, window: dict[str, Any]) -> None:
    events = crowd(seed, 400)
    expected = expected_of(events, **window)
    with Engine(index="rarest-term", **window) as engine:
        outcomes = engine.apply_all(events)
        found = [[(u.body, u.meta) for u in outcome.updates] for outcome in outcomes]
        assert found == expected
        logged = engine.log.read(0, 10_000)
        assert [(entry.body, entry.meta) for entry in logged] == list(chain(*expected))


@pytest.mark.parametrize("index", ["scan", "rarest-term"])
def test_tables_leave_bodies_in_the_log(index: str) -> None:
    region = pa.struct([("type", pa.string()), ("bbox", pa.list_(pa.float64()))])
    box = {"type": "Box", "bbox": [0, 0, 1, 1]}
    with Engine(index=index) as engine:
        engine.subscribe("s0", "a", AREA, meta={"a": 1})
        messages = {
            "id": [f"m{n}" for n in range(20)],
            "text": ["a", "b"] * 10,
            "point": [[0.5, 0.5]] * 20,
            "ttl": [0.0, 60.0] * 10,
        }
        engine.publish_table(pa.table(messages))
        engine.subscribe_table(
            pa.table({"id": ["t"], "query": ["b"], "region": pa.array([box], region)})
        )
        away = {"type": "Box", "bbox": [5, 5, 6, 6]}
        moves = pa.table({"id": ["t", "t"], "region": pa.array([away, box], region)})
        engine.move_table(moves)
        entries = engine.log.read(0, 1000)
    plain, lasting = [0.5, 0.5], {"text": "b", "point": [0.5, 0.5], "at": 0.0, "ttl": 60.0}
    first = [({"text": "a", "point": plain, "at": 0.0}, {"a": 1})] * 10
    again = [(lasting, None)] * 10
    assert [(e.body, e.meta) for e in entries] == first + again + [(None, None)] * 10 + again
