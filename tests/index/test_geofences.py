"""Circles without terms: the records of the index decide as the exact distance does."""

from __future__ import annotations

from pathlib import Path
from tempfile import mkdtemp

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from nearcast.arrays.types import Floats
from nearcast.geo import Circle
from nearcast.index import Batch, Table, match
from nearcast.index.rarest_term import RarestTerm

CENTERS = [(0.0, 0.0), (151.2, -33.87), (-179.99, 65.0), (10.0, 89.95), (-70.0, -55.0), (3.0, 80.0)]
RADII = [0.0, 0.5, 20.0, 400.0, 3_000.0, 25_000.0, 55_000.0, 70_000.0, 2_000_000.0]


def matches(index: RarestTerm, points: Floats) -> set[tuple[int, int]]:
    """Match points with the one term of every message."""
    count = len(points)
    terms, starts = np.zeros(count, np.int32), np.arange(count + 1)
    found = match(index, Batch(starts, terms, np.hstack([points, points])))
    return set(zip(found.messages.tolist(), found.owners.tolist(), strict=True))


def exactly(circles: dict[int, Circle], points: Floats) -> set[tuple[int, int]]:
    """The same, by asking every circle."""
    return {
        (row, owner)
        for row, (lon, lat) in enumerate(points.tolist())
        for owner, circle in circles.items()
        if circle.contains(lon, lat)
    }


def around(circle: Circle, share: float, angle: float) -> tuple[float, float]:
    """A point at a share of the radius from the centre, more or less."""
    lon, lat = circle.center
    reach = np.degrees(circle.radius * share / 6371008.8)
    across = reach * np.cos(angle) / max(np.cos(np.radians(lat)), 1e-3)
    up = reach * np.sin(angle)
    return float(np.clip(lon + across, -180, 180)), float(np.clip(lat + up, -90, 90))


@pytest.mark.parametrize("seed", range(3))
def test_points_at_every_distance_from_the_border(seed: int) -> None:
    """The closer to the border, the less the record knows; the answer is always the exact one."""
    random = np.random.default_rng(seed)
    circles = {
        owner: Circle(
            (random.uniform(-179, 179), random.uniform(-88, 88)), 10 ** random.uniform(-1, 5.2)
        )
        for owner in range(200)
    }
    table = Table()
    table.ensure_terms(1)
    for owner, circle in circles.items():
        table.add(owner, [([0], [])], circle)
    index = RarestTerm(table)
    index.build()
    shares = 1 + np.concatenate([10.0 ** -np.arange(12), -(10.0 ** -np.arange(12))])
    points = np.array(
        [
            around(circle, share, random.uniform(0, 2 * np.pi))
            for circle in circles.values()
            for share in random.choice(shares, 6)
        ]
    )
    assert matches(index, points) == exactly(circles, points)


class Geofences(RuleBasedStateMachine):
    """Inserts, deletes, moves and replaces circles, saves them and loads them again."""

    folder: Path

    @initialize()
    def start(self) -> None:
        self.table = Table()
        self.table.ensure_terms(1)
        self.index = RarestTerm(self.table)
        self.index.build()
        self.circles: dict[int, Circle] = {}
        self.rows: dict[int, np.ndarray] = {}
        self.next = 0

    @rule(center=st.sampled_from(CENTERS), radii=st.lists(st.sampled_from(RADII), max_size=30))
    def insert(self, center: tuple[float, float], radii: list[float]) -> None:
        for radius in radii:
            circle, owner = Circle(center, radius), self.next
            self.next += 1
            rows = self.table.add(owner, [([0], [])], circle)
            self.index.insert(rows)
            self.circles[owner], self.rows[owner] = circle, rows

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if not self.circles:
            return
        owner = data.draw(st.sampled_from(sorted(self.circles)))
        del self.circles[owner]
        rows = self.rows.pop(owner)
        released = self.index.delete(rows)
        self.table.remove(rows)
        self.table.release(released)

    @rule(data=st.data(), center=st.sampled_from(CENTERS), radius=st.sampled_from(RADII))
    def move(self, data: st.DataObject, center: tuple[float, float], radius: float) -> None:
        circle = Circle(center, radius)
        bounds = circle.bounds()
        fitting = sorted(o for o, rows in self.rows.items() if len(rows) == len(bounds))
        if not fitting:
            return
        owner = data.draw(st.sampled_from(fitting))
        rows, shape = self.rows[owner], np.array([*center, circle.limit])
        self.table.move(rows, np.array(bounds), np.tile(shape, (len(rows), 1)))
        self.index.move(rows)
        self.circles[owner] = circle

    @rule()
    def save_and_load(self) -> None:
        folder = Path(mkdtemp(dir=self.folder))
        self.table.save(folder / "table")
        self.index.save(folder / "index")
        self.table = Table.load(folder / "table")
        self.index = RarestTerm.load(folder / "index", self.table)

    @invariant()
    def answers_are_exact(self) -> None:
        if not hasattr(self, "circles"):
            return
        some = [Circle(center, radius) for center in CENTERS for radius in RADII]
        points = np.array([around(one, at, 0.7) for one in some for at in (0, 0.9999, 1.0001)])
        assert matches(self.index, points) == exactly(self.circles, points)


def test_any_sequence_of_changes(tmp_path: Path) -> None:
    """Whatever happens to circles, each message finds those that contain it."""
    machine = type("GeofencesHere", (Geofences,), {"folder": tmp_path})
    run_state_machine_as_test(
        machine, settings=settings(max_examples=20, stateful_step_count=12, deadline=None)
    )
