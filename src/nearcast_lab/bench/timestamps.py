"""Subscribers on roads, timestamp by timestamp, as AP+-Tree measures them (section 5.2.1).

At each timestamp of 30 seconds messages that have ended are taken out, new ones are matched and
kept, and a share of the subscribers, the mobility, reports a new place. All designs get the same
events and take turns, and what they find is compared at each timestamp. As the first of them
begins every subscriber has reported once, so speeds are known when indexes are built.

Departures: the road maps are made up (`nearcast_lab.workloads.roads`). Messages that are there at
the beginning have a random part of their lives before them, so that about as many end as come.
"""

from __future__ import annotations

from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from nearcast.active import ActiveChanges
from nearcast.active.ap_plus import LeafMessages
from nearcast.arrays.types import Floats, Int32s
from nearcast.index import Batch, Matches, Table
from nearcast_lab.bench.agreement import DisagreementError
from nearcast_lab.bench.designs import DESIGNS
from nearcast_lab.bench.matching import add_to_table, digest_of
from nearcast_lab.progress import Progress
from nearcast_lab.timing import cpu_of, in_turns
from nearcast_lab.workloads.arrays import ArrayWorkload, Subscriptions
from nearcast_lab.workloads.roads import Vehicles, build_roads
from nearcast_lab.workloads.space import WorldBox

TIMESTAMP_S = 30.0
LIFE = 10.0
"""Timestamps that a message lives on average; from half of it to one and a half times it."""
_HISTORY = 20_000
_FEW = 100
ALL = 1 << 30
"""More messages than ever end at once."""


class TimestampsSetup(NamedTuple):
    """What to measure: `messages` are there at first, `arrivals` come at each timestamp.

    `extent` is the space that the workload's places are in, if that is not the one of the roads:
    they are moved there, each to the same share of its width and height.
    """

    subscriptions: int
    messages: int
    arrivals: int
    timestamps: int
    designs: list[str]
    seed: int
    roads: WorldBox
    junctions: int
    mobility: float = 0.2
    velocity: float = 1.0
    extent: WorldBox | None = None


class TimestampsReport(TypedDict):
    """What one design took; times are microseconds of CPU.

    `insert_us` is for keeping a message of the beginning (the paper's MI), `publish_us` for
    matching and keeping one that comes (IMM), `move_us` for a whole move (MSP), and
    `index_part_us` for its part in the index of subscriptions (SLU). Entries, and the lists that
    they are in, are counted where messages are in the leaves of a tree.
    """

    design: str
    subscriptions: int
    messages: int
    timestamps: int
    moves: int
    insert_us: float
    publish_us: float
    expire_us: float
    move_us: float
    index_part_us: float
    results_per_move: float
    entries_per_move: float | None
    lists_per_move: float | None
    bytes_per_message: float
    index_bytes_per_subscription: float


class RoadEvents:
    """The same subscriptions, messages and moves for every design.

    Timestamps are numbered from 1. Subscribers are at `before`, then at `boxes`, when the first one
    begins; `texts` are where the terms of each start, and the terms. `ends` says by message when it
    ends, in seconds.
    """

    def __init__(self, setup: TimestampsSetup, made: ArrayWorkload) -> None:
        self.setup, self.frequency = setup, made.frequency
        rng = np.random.default_rng(setup.seed)
        count, later = setup.subscriptions, setup.arrivals * setup.timestamps
        subscriptions, batch = (
            made.subscriptions(0, count),
            made.messages(0, setup.messages + later),
        )
        self.batch = Batch(batch.starts, batch.terms, self._on_map(batch.boxes))
        boxes = self._on_map(subscriptions.boxes)
        size = boxes[:, 2:] - boxes[:, :2]
        roads = build_roads(setup.seed, setup.roads, setup.junctions)
        vehicles = Vehicles(setup.seed, roads, count, setup.velocity)
        everyone = np.arange(count, dtype=np.int64)
        self.before = around(vehicles.places(everyone), size)
        vehicles.drive(everyone, np.full(count, TIMESTAMP_S))
        self.texts = subscriptions.starts, subscriptions.terms
        self.boxes = around(vehicles.places(everyone), size)
        # Each timestamp: who reports, in order, and where they are then.
        self.moves: list[tuple[Int32s, Floats]] = []
        seen = np.zeros(count)
        for timestamp in range(1, setup.timestamps + 1):
            who = np.sort(rng.permutation(count)[: max(1, round(setup.mobility * count))])
            vehicles.drive(who, TIMESTAMP_S * timestamp - seen[who])
            seen[who] = TIMESTAMP_S * timestamp
            self.moves.append((who.astype(np.int32), around(vehicles.places(who), size[who])))
        lives = LIFE * rng.uniform(0.5, 1.5, setup.messages + later)
        lives[: setup.messages] *= rng.random(setup.messages)
        came = np.concatenate(
            [np.zeros(setup.messages), np.arange(later) // max(1, setup.arrivals) + 1.0]
        )
        self.ends: Floats = TIMESTAMP_S * (came + lives)
        self.space: Floats = np.array(setup.roads)

    def _on_map(self, boxes: Floats) -> Floats:
        extent, roads = self.setup.extent, self.setup.roads
        if extent is None:
            return boxes
        share = (boxes - np.tile(extent[:2], 2)) / np.tile((extent.width, extent.height), 2)
        return np.asarray(np.tile(roads[:2], 2) + share * np.tile((roads.width, roads.height), 2))

    def table(self) -> Table:
        """A fresh table with all subscriptions, where they were before the first timestamp."""
        table, count = Table(), len(self.frequency)
        table.ensure_terms(count)
        table.frequency[:count] = self.frequency
        placed = Subscriptions(self.before, *self.texts)
        add_to_table(table, placed, 0, len(placed))
        return table

    def arriving(self, timestamp: int) -> tuple[Batch, Floats]:
        """The messages that come at a timestamp, 0 for those that are there before, and ends."""
        first, count = 0, self.setup.messages
        if timestamp:
            first, count = count + (timestamp - 1) * self.setup.arrivals, self.setup.arrivals
        return self.batch.part(first, first + count), self.ends[first : first + count]

    def active(self, timestamp: int) -> int:
        """How many messages there are after a timestamp."""
        came = self.setup.messages + timestamp * self.setup.arrivals
        return int((self.ends[:came] > TIMESTAMP_S * timestamp).sum())


def around(centres: Floats, size: Floats) -> Floats:
    """Boxes of given sizes around some places."""
    return np.hstack([centres - size / 2, centres + size / 2])


class _DesignRun:
    """One design, and what it took so far in seconds of CPU."""

    def __init__(self, name: str, events: RoadEvents) -> None:
        self.name, self._events = name, events
        setup, table = events.setup, events.table()
        history = events.batch.part(0, min(_HISTORY, setup.messages))
        self.design = design = DESIGNS[name](
            table, events.space, history, rate=float(setup.arrivals), every=1 / setup.mobility
        )
        design.build()
        everyone = np.arange(setup.subscriptions, dtype=np.int32)
        design.moved(everyone, events.boxes.copy())
        design.build()
        self._insert_s = cpu_of(design.add, *events.arriving(0))[1]
        self._publish_s = self._expire_s = self._messages_s = self._index_s = 0.0
        self._moves = self._results = 0

    def step(self, timestamp: int) -> int:
        """Live through a timestamp, and give a digest of what was found."""
        design, now = self.design, TIMESTAMP_S * timestamp
        self._expire_s += cpu_of(design.expire, now, ALL)[1]
        reached, seconds = cpu_of(design.publish, *self._events.arriving(timestamp))
        self._publish_s += seconds
        which, boxes = self._events.moves[timestamp - 1]
        numbers, times = np.arange(len(which), dtype=np.int32), np.full(len(which), now)
        found, seconds = cpu_of(design.changes, which, numbers, times, boxes)
        self._messages_s += seconds
        self._index_s += cpu_of(design.moved, which, boxes)[1]
        self._moves += len(which)
        self._results += len(found.slots)
        return digest_of(np.concatenate([matched(reached), changed(found, design.ends)]))

    def report(self) -> TimestampsReport:
        """What was measured."""
        setup, moves = self._events.setup, max(1, self._moves)
        came = max(1, setup.arrivals * setup.timestamps)
        message_bytes, index_bytes = self.design.nbytes()
        messages = self.design.messages
        looked = messages.looked_at / moves if isinstance(messages, LeafMessages) else (None, None)
        return TimestampsReport(
            design=self.name,
            subscriptions=setup.subscriptions,
            messages=setup.messages,
            timestamps=setup.timestamps,
            moves=self._moves,
            insert_us=1e6 * self._insert_s / setup.messages,
            publish_us=1e6 * self._publish_s / came,
            expire_us=1e6 * self._expire_s / came,
            move_us=1e6 * (self._messages_s + self._index_s) / moves,
            index_part_us=1e6 * self._index_s / moves,
            results_per_move=self._results / moves,
            entries_per_move=looked[0],
            lists_per_move=looked[1],
            bytes_per_message=message_bytes / max(1, self._events.active(setup.timestamps)),
            index_bytes_per_subscription=index_bytes / setup.subscriptions,
        )


def matched(found: Matches) -> npt.NDArray[np.uint64]:
    """One number for each match of a message."""
    return found.messages.astype(np.uint64) << np.uint64(32) | found.owners.astype(np.uint64)


def changed(found: ActiveChanges, ends: Floats) -> npt.NDArray[np.uint64]:
    """One number for each change; messages are told apart by their ends, which all differ."""
    told = ends[found.slots].view(np.uint64) * np.uint64(0x94D049BB133111EB)
    return told ^ (found.events.astype(np.uint64) << np.uint64(2) | found.ops.astype(np.uint64))


def measure_timestamps(
    setup: TimestampsSetup, made: ArrayWorkload, progress: Progress, warm: bool = True
) -> list[TimestampsReport]:
    """Measure all designs, in turns; with `warm`, let them do everything once before."""
    if warm:
        progress("warming up")
        _measure(small(setup), made, lambda _: None)
    return _measure(setup, made, progress)


def small(setup: TimestampsSetup) -> TimestampsSetup:
    """The same with next to nothing in it, so that all is compiled."""
    few = min(_FEW, setup.subscriptions, setup.messages, setup.arrivals)
    return setup._replace(subscriptions=few, messages=few, arrivals=few, timestamps=2)


def _measure(
    setup: TimestampsSetup, made: ArrayWorkload, progress: Progress
) -> list[TimestampsReport]:
    events = RoadEvents(setup, made)
    runs = []
    for name in setup.designs:
        progress(f"{name}: building")
        runs.append(_DesignRun(name, events))
    digests: dict[int, tuple[str, int]] = {}
    for turn, run in in_turns(runs, setup.timestamps):
        progress(f"timestamp {turn + 1} of {setup.timestamps}: {run.name}")
        digest = run.step(turn + 1)
        name, expected = digests.setdefault(turn, (run.name, digest))
        if digest != expected:
            raise DisagreementError(f"{name} and {run.name} differ at timestamp {turn + 1}")
    return [run.report() for run in runs]
