"""Every index, whichever there are, gives the right answers in whatever state it is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from any_index import Conjuncts, Kept, Sent, every_index
from nearcast.geo import Box, Circle, MultiPolygon, Polygon, Region
from nearcast.index import INDEXES

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
    west = draw(st.sampled_from([-180.0, -60.0, 0.0, 0.1, 22.5, 100.0, 120.0, 175.0]))
    south = draw(st.sampled_from([-90.0, -30.0, 0.0, 0.1, 11.25]))
    side = draw(st.sampled_from([0.3, 5.0, 60.0])) if west < 175.0 else 5.0
    east, north = west + side, south + side
    if draw(st.booleans()):
        return Polygon([[(west, south), (east, south), (west, north), (west, south)]])

    def ring(inset: float) -> list[tuple[float, float]]:
        w, s, e, n = west + inset, south + inset, east - inset, north - inset
        return [(w, s), (e, s), (e, n), (w, n), (w, s)]

    return Polygon([ring(0.0), ring(side / 4)])


# Their places are few, so parts touch, overlap, are the same, or end on both sides of 180 degrees.
several_polygons = st.lists(polygons(), min_size=1, max_size=3).map(
    lambda parts: MultiPolygon([each.coordinates for each in parts])
)
regions: st.SearchStrategy[Region] = st.one_of(boxes, boxes, circles, polygons(), several_polygons)
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
        def rebuild(self) -> None:
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
def test_answers_are_right_whatever_happens(
    name: str, options: dict[str, Any], run_machine: Callable[..., None]
) -> None:
    """Exactly the subscriptions that want a message get it, in every state of the index."""
    run_machine(machine_for(name, options), examples=15, steps=40)
