"""AP+-Tree-Safe: subscribers report only when they leave a safe region (section 5.2.3).

The server tells a subscriber how far it can go without an update: to where the border of its region
would reach the nearest active message that has its terms. Meanwhile the tree holds its impact
region, the region with that much on every side. A message that matches there is a reason to ask
the subscriber where it is; otherwise it reports when it has gone as far as it may.

Departures from "AP-Tree: efficiently support location-aware Publish/Subscribe" (VLDB J.), footnote
17, figures 26 and 27:

- Regions are boxes, as those of all designs that are compared, and the distance is the greater of
  the differences in longitude and latitude; the paper has circles there.
- A message inside the region counts, too, with its distance to the border: it leaves the results
  when the region moves away. By the footnote such a subscriber has no safe region.
- The nearest message is searched for within `REACH`, and no safe region is wider.

Elaps itself, the third of these figures, is described in another paper and not here.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

import numpy as np

from nearcast.active import ActiveChanges
from nearcast.active.ap_plus import LeafMessages
from nearcast.arrays.types import Floats, Int32s
from nearcast.index import Batch, Matches
from nearcast_lab.bench.agreement import DisagreementError
from nearcast_lab.bench.designs import DESIGNS, Design
from nearcast_lab.bench.matching import digest_of
from nearcast_lab.bench.timestamps import (
    ALL,
    TIMESTAMP_S,
    RoadEvents,
    TimestampsSetup,
    changed,
    matched,
    small,
)
from nearcast_lab.progress import Progress
from nearcast_lab.timing import cpu_of, in_turns
from nearcast_lab.workloads.arrays import ArrayWorkload

PLAIN, SAFE = "ap-plus-tree", "ap-plus-tree-safe"
REACH = 0.1
"""How far a subscriber can go at most, as a share of the space's shorter side."""
_MARGIN = 1e-9  # degrees that are kept from a safe region, so that rounding never decides


class SafeReport(TypedDict):
    """What subscribers that move cost at a timestamp, on average.

    `cpu_ms` is what the server takes for messages and subscribers. `rounds` are exchanges with
    subscribers: `reports` that they make on their own, and `requests` that they answer. Updates,
    the same for both, are not counted.
    """

    design: str
    subscriptions: int
    arrivals: int
    timestamps: int
    cpu_ms: float
    rounds: float
    reports: float
    requests: float


class Found(NamedTuple):
    """Which subscribers get which of the new messages, and what changes as subscribers move."""

    matches: Matches
    changes: ActiveChanges  # with the numbers of subscribers as events


class Reporting:
    """Every subscriber that moves reports, as in the AP+-Tree."""

    def __init__(self, design: Design, boxes: Floats) -> None:
        self.design, self.boxes = design, boxes.copy()
        self.reports = self.requests = 0

    def publish(self, batch: Batch, ends: Floats, now: float) -> Matches:
        """Match messages, and keep them."""
        del now
        return self.design.publish(batch, ends)

    def move(self, who: Int32s, boxes: Floats, now: float) -> ActiveChanges:
        """Let subscribers go to other boxes."""
        self.reports += len(who)
        found = self._changes(who, boxes, now)
        self.design.moved(who, boxes)
        self.boxes[who] = boxes
        return found

    def _changes(self, who: Int32s, boxes: Floats, now: float) -> ActiveChanges:
        numbers = np.arange(len(who), dtype=np.int32)
        found = self.design.changes(who, numbers, np.full(len(who), now), boxes)
        return ActiveChanges(who[found.events], found.slots, found.ops)


class SafeReporting(Reporting):
    """A subscriber reports when it leaves its safe region, or when it is asked.

    `places` are where subscribers really are, which the server does not know.
    """

    def __init__(self, design: Design, boxes: Floats, reach: float) -> None:
        super().__init__(design, boxes)
        self.places, self.safe, self._reach = boxes.copy(), np.zeros(len(boxes)), reach
        self._settle(np.arange(len(boxes), dtype=np.int32), 0.0)

    def publish(self, batch: Batch, ends: Floats, now: float) -> Matches:
        """Match messages with impact regions, and ask those that have one where they are."""
        found = self.design.publish(batch, ends)
        asked = np.unique(found.owners)
        self.requests += len(asked)
        self.boxes[asked] = self.places[asked]
        outside = excess(batch.boxes[found.messages], self.boxes[found.owners]) > 0
        self._settle(asked, now)
        return Matches(found.messages[~outside], found.owners[~outside], found.candidates)

    def move(self, who: Int32s, boxes: Floats, now: float) -> ActiveChanges:
        """Let subscribers go to other boxes; those that leave their safe region report."""
        self.places[who] = boxes
        gone = np.abs(boxes - self.boxes[who]).max(axis=1, initial=0.0)
        left = who[gone >= self.safe[who]]
        self.reports += len(left)
        self.design.table.rows.box[left] = self.boxes[left]  # not the impact regions
        found = self._changes(left, self.places[left], now)
        self.boxes[left] = self.places[left]
        self._settle(left, now)
        return found

    def _settle(self, who: Int32s, now: float) -> None:
        """Give subscribers safe regions from where they are, and put impact regions into the tree.

        The tree finds the nearest message as it finds those of any region.
        """
        messages, table = self.design.messages, self.design.table
        assert isinstance(messages, LeafMessages)  # noqa: S101 - of an AP+-Tree
        boxes, safe = self.boxes[who], np.full(len(who), self._reach)
        table.rows.box[who] = widened(boxes, safe)
        numbers = np.arange(len(who), dtype=np.int32)
        found = messages.evaluate(table.rows, who, numbers, np.full(len(who), now))
        apart = np.abs(excess(messages.boxes[found.slots], boxes[found.events]))
        np.minimum.at(safe, found.events, apart)
        self.safe[who] = np.maximum(0.0, safe - _MARGIN)
        self.design.moved(who, widened(boxes, safe))


def excess(points: Floats, boxes: Floats) -> Floats:
    """How far each point is outside of the box beside it; below 0 inside, 0 on the border."""
    away = np.hstack([boxes[:, :2] - points[:, :2], points[:, :2] - boxes[:, 2:]])
    return np.asarray(away.max(axis=1, initial=-np.inf))


def widened(boxes: Floats, by: Floats) -> Floats:
    """Boxes with as much more on every side."""
    return np.asarray(boxes + by[:, None] * np.array([-1.0, -1.0, 1.0, 1.0]))


class _SafeRun:
    """One way to report, and what it took so far."""

    def __init__(self, name: str, events: RoadEvents) -> None:
        self.name, self._events, setup = name, events, events.setup
        history = events.batch.part(0, setup.messages)
        design = DESIGNS[PLAIN](
            events.table(), events.space, history, rate=float(setup.arrivals), every=1.0
        )
        design.build()
        boxes = events.boxes
        design.moved(np.arange(len(boxes), dtype=np.int32), boxes.copy())
        design.build()
        design.add(*events.arriving(0))
        reach = REACH * min(setup.roads.width, setup.roads.height)
        self.way = Reporting(design, boxes)
        if name == SAFE:
            self.way = SafeReporting(design, boxes, reach)
        self._spent = 0.0

    def step(self, timestamp: int) -> int:
        """Live through a timestamp, and give a digest of what was found."""
        found, seconds = cpu_of(self._lived, timestamp)
        self._spent += seconds
        changes = changed(found.changes, self.way.design.ends)
        return digest_of(np.concatenate([matched(found.matches), changes]))

    def _lived(self, timestamp: int) -> Found:
        now = TIMESTAMP_S * timestamp
        self.way.design.expire(now, ALL)
        matches = self.way.publish(*self._events.arriving(timestamp), now)
        return Found(matches, self.way.move(*self._events.moves[timestamp - 1], now))

    def report(self) -> SafeReport:
        """What was measured."""
        setup, way = self._events.setup, self.way
        return SafeReport(
            design=self.name,
            subscriptions=setup.subscriptions,
            arrivals=setup.arrivals,
            timestamps=setup.timestamps,
            cpu_ms=1e3 * self._spent / setup.timestamps,
            rounds=(way.reports + way.requests) / setup.timestamps,
            reports=way.reports / setup.timestamps,
            requests=way.requests / setup.timestamps,
        )


def measure_safe(
    setup: TimestampsSetup, made: ArrayWorkload, progress: Progress, warm: bool = True
) -> list[SafeReport]:
    """Measure the AP+-Tree without and with safe regions, in turns, on the same events."""
    if warm:
        _measure(small(setup), made, lambda _: None)
    return _measure(setup, made, progress)


def _measure(setup: TimestampsSetup, made: ArrayWorkload, progress: Progress) -> list[SafeReport]:
    events = RoadEvents(setup, made)
    runs = [_SafeRun(name, events) for name in (PLAIN, SAFE)]
    digests: dict[int, int] = {}
    for turn, run in in_turns(runs, setup.timestamps):
        progress(f"{setup.subscriptions:,} subscriptions, timestamp {turn + 1}: {run.name}")
        digest = run.step(turn + 1)
        if digests.setdefault(turn, digest) != digest:
            raise DisagreementError(f"safe regions change what is found at timestamp {turn + 1}")
    return [run.report() for run in runs]
