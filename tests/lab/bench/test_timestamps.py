"""Subscribers on roads: the same events for all designs, with and without safe regions."""

from __future__ import annotations

import numpy as np
import pytest

from nearcast.active import ActiveChanges
from nearcast.index import Matches
from nearcast_lab.bench.agreement import DisagreementError
from nearcast_lab.bench.designs import DESIGNS, Design
from nearcast_lab.bench.safe_regions import PLAIN, SAFE, SafeReporting, excess, measure_safe
from nearcast_lab.bench.timestamps import (
    ALL,
    TIMESTAMP_S,
    RoadEvents,
    TimestampsSetup,
    measure_timestamps,
)
from nearcast_lab.workloads.arrays import ArrayWorkload
from nearcast_lab.workloads.registry import array_workload
from nearcast_lab.workloads.space import SPACES

ODB = SPACES["oldenburg"]
SETUP = TimestampsSetup(80, 120, 12, 12, ["ours", "ap-plus-tree", "ss-index"], 1, ODB, 300)


@pytest.fixture(scope="module")
def made() -> ArrayWorkload:
    """Few words, so that much matches, and regions of a hundredth of the map."""
    return array_workload(
        "tweets", seed=1, space="oldenburg", vocabulary=60, min_area=0.01, max_area=0.01,
        max_keywords=2,
    )  # fmt: skip


def test_events_follow_the_tables_of_the_paper(made: ArrayWorkload) -> None:
    """A share reports at each timestamp, messages come and end, and nobody leaves the map."""
    setup = SETUP._replace(timestamps=20, mobility=0.25)
    events = RoadEvents(setup, made)
    assert [len(who) for who, _ in events.moves] == [20] * 20
    assert all(len(set(who.tolist())) == 20 for who, _ in events.moves)
    places = np.concatenate([boxes[:, :2] + boxes[:, 2:] for _, boxes in events.moves]) / 2
    west, south, east, north = ODB
    assert ((places >= (west, south)) & (places <= (east, north))).all()
    first, later = events.ends[:120], events.ends[120:]
    assert 0 < first.min() < TIMESTAMP_S * 3
    assert first.max() < TIMESTAMP_S * 15
    lives = later / TIMESTAMP_S - np.repeat(np.arange(20) + 1.0, 12)
    assert ((lives >= 5) & (lives <= 15)).all()
    assert 60 < events.active(20) < 180, "as many end as come"
    assert len(set(events.ends.tolist())) == len(events.ends)


def test_a_faster_subscriber_gets_further(made: ArrayWorkload) -> None:
    """Velocity is a factor on the way between two reports."""
    ways = []
    for velocity in (1.0, 4.0):
        events = RoadEvents(SETUP._replace(mobility=1.0, velocity=velocity), made)
        (_, one), (_, other) = events.moves[3:5]
        ways.append(np.abs(other - one).mean())
    assert 2.5 < ways[1] / ways[0] < 5


def test_the_world_is_laid_over_the_map(made: ArrayWorkload) -> None:
    """Places of the whole space keep their share of its width and height."""
    plain = RoadEvents(SETUP, made)
    shifted = RoadEvents(SETUP._replace(roads=SPACES["san-joaquin"], extent=ODB), made)
    west, south, east, north = SPACES["san-joaquin"]
    points = shifted.batch.boxes[:, :2]
    assert ((points >= (west, south)) & (points <= (east, north))).all()
    share = (plain.batch.boxes[:, :2] - ODB[:2]) / (ODB.width, ODB.height)
    there = (points - (west, south)) / (east - west, north - south)
    assert np.allclose(share, there)


def test_designs_are_measured_in_turns_and_agree(made: ArrayWorkload) -> None:
    reports = measure_timestamps(SETUP, made, lambda _: None)
    assert [report["design"] for report in reports] == SETUP.designs
    assert {report["moves"] for report in reports} == {12 * 16}
    assert len({report["results_per_move"] for report in reports}) == 1
    assert reports[0]["results_per_move"] > 0
    looked = [report["entries_per_move"] for report in reports]
    assert looked[0] is looked[2] is None
    assert looked[1] is not None
    assert looked[1] >= reports[1]["results_per_move"]


def test_a_design_that_loses_a_change_is_noticed(
    made: ArrayWorkload, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Design.changes

    def wrong(self: Design, *arguments: object) -> ActiveChanges:
        found = right(self, *arguments)  # type: ignore[arg-type]  # passed on as they came
        if self.index.name != "gi2":
            return found
        return ActiveChanges(found.events[1:], found.slots[1:], found.ops[1:])

    monkeypatch.setattr(Design, "changes", wrong)
    with pytest.raises(DisagreementError, match="ss-index"):
        measure_timestamps(SETUP, made, lambda _: None)


def test_safe_regions_save_reports_and_change_nothing(made: ArrayWorkload) -> None:
    """Fewer exchanges than reports of all; who is asked answers, so both kinds count."""
    setup = SETUP._replace(mobility=1.0, arrivals=4)
    rare = array_workload(
        "tweets", seed=1, space="oldenburg", vocabulary=3000, min_area=1e-4, max_area=1e-4
    )
    plain, safe = measure_safe(setup, rare, lambda _: None)
    assert (plain["design"], safe["design"]) == (PLAIN, SAFE)
    assert plain["reports"] == plain["rounds"] == 80
    assert plain["requests"] == 0
    assert safe["rounds"] == safe["reports"] + safe["requests"] < 0.8 * plain["rounds"]
    busy, watched = measure_safe(setup, made, lambda _: None)
    assert watched["requests"] > 0
    assert busy["reports"] == 80


def test_with_safe_regions_results_are_those_of_a_look_at_everything(made: ArrayWorkload) -> None:
    """At every timestamp each subscriber has exactly the active messages in its real region."""
    setup = SETUP._replace(mobility=0.6)
    events = RoadEvents(setup, made)
    design = DESIGNS[PLAIN](events.table(), events.space, events.batch.part(0, 50), 12.0, 1.0)
    design.build()
    boxes = events.boxes
    design.moved(np.arange(80, dtype=np.int32), boxes.copy())
    design.add(*events.arriving(0))
    way = SafeReporting(design, boxes, 0.02)
    held = {(row, end) for row in range(80) for end in wanted(events, 0, row, boxes[row])}
    silent = 0
    for timestamp in range(1, setup.timestamps + 1):
        now = TIMESTAMP_S * timestamp
        design.expire(now, ALL)
        batch, ends = events.arriving(timestamp)
        found: Matches = way.publish(batch, ends, now)
        held |= set(zip(found.owners.tolist(), ends[found.messages].tolist(), strict=True))
        who, places = events.moves[timestamp - 1]
        before = way.reports
        changes = way.move(who, places, now)
        silent += len(who) - (way.reports - before)
        told = zip(
            changes.events.tolist(), design.ends[changes.slots].tolist(), changes.ops.tolist(),
            strict=True,
        )  # fmt: skip
        for row, end, op in told:
            assert ((row, end) in held) == (op == 2)
            held ^= {(row, end)}
        held = {(row, end) for row, end in held if end > now}
        expected = {
            (row, end)
            for row in range(80)
            for end in wanted(events, timestamp, row, way.places[row])
        }
        assert held == expected
    assert silent > 50, "many stay in their safe regions"


def wanted(events: RoadEvents, timestamp: int, row: int, box: np.ndarray) -> set[float]:
    """The ends of active messages that a subscriber should have, by looking at all of them."""
    starts, terms = events.texts
    asked = set(terms[starts[row] : starts[row + 1]].tolist())
    batch, came = events.batch, 120 + 12 * timestamp
    return {
        float(events.ends[m])
        for m in range(came)
        if events.ends[m] > TIMESTAMP_S * timestamp
        and asked.issubset(batch.terms[batch.starts[m] : batch.starts[m + 1]].tolist())
        and (batch.boxes[m, :2] >= box[:2]).all()
        and (batch.boxes[m, :2] <= box[2:]).all()
    }


def test_the_excess_of_a_point_is_its_distance_to_the_border() -> None:
    points = np.array([[0.0, 0.0], [3.0, 1.0], [1.0, 2.5], [1.0, 1.75], [2.0, 2.0]])
    box = np.tile([0.0, 0.5, 2.0, 2.0], (5, 1))
    assert excess(points, box).tolist() == [0.5, 1.0, 0.5, -0.25, 0.0]
