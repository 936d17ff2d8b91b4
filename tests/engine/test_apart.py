"""Regions of a shape that the table does not decide: found by boxes, decided in plain code."""

from __future__ import annotations

import random
from typing import Any

import pytest

from nearcast.engine.changes import EngineChanges
from nearcast.engine.core import EventCore, make_core
from nearcast.engine.runs import outcomes_in_runs
from nearcast.engine.settings import Settings
from nearcast.errors import NearcastError
from nearcast.events import Event, Message, Move, Publish, Subscribe, Subscription, Unsubscribe
from nearcast.geo import Box, Circle, Region


class Hollow(Circle):
    """A circle without its western half, which no kernel knows."""

    __slots__ = ()

    def contains(self, lon: float, lat: float) -> bool:
        return lon >= self.center[0] and super().contains(lon, lat)

    def meets(self, area: Any) -> bool:
        return area.bounds()[0][2] >= self.center[0] and super().meets(area)


QUERIES = ["a", "b", "a OR b", "a NOT b", "*", "p:<5", "a NOT a"]


def regions(some: random.Random) -> Region:
    center = (some.uniform(-9, 9), some.uniform(-9, 9))
    if some.random() < 0.6:
        return Hollow(center, some.uniform(1e5, 9e5))
    if some.random() < 0.5:
        return Circle(center, 5e5)
    return Box(center[0], center[1], center[0] + 4, center[1] + 4)


def log(seed: int) -> list[Event]:
    some, events, ids = random.Random(seed), list[Event](), ["s0"]
    events.append(Subscribe(Subscription("s0", "a", regions(some))))
    for number in range(260):
        at, kind = float(number), some.random()
        if kind < 0.25:
            ids.append(f"s{some.randrange(20)}")
            one = Subscription(ids[-1], some.choice(QUERIES), regions(some))
            events.append(Subscribe(one, at))
        elif kind < 0.4:
            events.append(Move(some.choice(ids), regions(some), at=at))
        elif kind < 0.45:
            events.append(Unsubscribe(some.choice(ids), at))
        else:
            lon, lat = some.uniform(-12, 12), some.uniform(-12, 12)
            area = Box(lon, lat, lon + 1, lat + 1) if kind > 0.9 else None
            point = None if area else (lon, lat)
            life, given = some.choice([0.0, 20.0]), {"p": number % 9}
            text = some.choice(["a", "b", "a b"])
            message = Message(f"m{number % 40}", text, point, area, at, life, given)
            events.append(Publish(message))
    return events


def applied(core: EventCore, events: list[Event]) -> list[Any]:
    """What each event did: its updates, or what was wrong with it."""
    found: list[Any] = []
    for event in events:
        try:
            found.append(core.apply(event))
        except NearcastError as error:
            found.append(str(error))
    return found


@pytest.mark.parametrize("index", ["rarest-term", "sequential"])
def test_an_index_finds_what_scan_finds(index: str) -> None:
    for seed in range(3):
        events = log(seed)
        core = make_core(index, Settings())
        assert applied(core, events) == applied(make_core("scan", Settings()), events)
    gone = core.subscription("s0")
    assert gone is None or gone.region is not None


def test_messages_in_columns_are_decided_one_by_one() -> None:
    """Those at points that follow each other are matched together."""
    wide = Hollow((0.0, 0.0), 5e5)
    events: list[Event] = [
        Publish(Message(f"m{number}", "a", (number / 10 - 2, 0.0))) for number in range(40)
    ]
    found = []
    for index in ("scan", "rarest-term"):
        core = make_core(index, Settings())
        core.apply(Subscribe(Subscription("hollow", "a", wide)))
        core.apply(Subscribe(Subscription("whole", "a", Circle((0.0, 0.0), 5e5))))
        if index == "scan":
            found.append([core.apply(event) for event in events])
        else:
            outcomes = outcomes_in_runs(core, events, EngineChanges(0, 0))
            found.append([list(each.updates) for each in outcomes])
    assert found[0] == found[1]
    assert sum(update.subscription == "hollow" for each in found[0] for update in each) == 20


def test_a_region_of_such_a_shape_is_given_back_as_it_was() -> None:
    core = make_core("rarest-term", Settings())
    hollow = Hollow((1.0, 2.0), 3.0)
    core.apply(Subscribe(Subscription("s", "a", hollow)))
    kept = core.subscription("s")
    assert kept is not None
    assert kept.region is hollow
    core.apply(Move("s", Circle((0.0, 0.0), 9.0)))
    kept = core.subscription("s")
    assert kept is not None
    assert type(kept.region) is Circle
