"""`nearcast bench moving`: what moves and lasting messages cost, design by design."""

from __future__ import annotations

from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from nearcast.active import ActiveChanges
from nearcast.arrays.types import Floats, Int32s
from nearcast.index import Table
from nearcast_lab.bench.agreement import DisagreementError
from nearcast_lab.bench.designs import DESIGNS, Design
from nearcast_lab.bench.matching import add_to_table, digest_of
from nearcast_lab.bench.moving_after import MatchingAfter, measure_after, moved_to, shifted
from nearcast_lab.bench.timestamps import LIFE
from nearcast_lab.progress import Progress
from nearcast_lab.timing import cpu_of
from nearcast_lab.workloads.arrays import ArrayWorkload, Subscriptions

_CHUNK = 10_000
_ADDED = 50_000
_TRIAL = 100
_SAMPLE = 20
_LIFE = 1000.0
FAR = 0.0
"""The step that means a jump to where another subscription was."""


class MovingSetup(NamedTuple):
    """What to measure."""

    workload: str
    subscriptions: int
    messages: int
    moves: int
    steps: list[float]
    designs: list[str]
    check: bool
    budget_s: float
    seed: int


class StepReport(TypedDict):
    """What moves of one length cost, in microseconds of CPU."""

    step: str
    moves: int
    move_us: float
    message_part_us: float
    index_part_us: float
    moves_per_cpu_s: float
    results_per_move: float


class MovingReport(TypedDict):
    """What was measured of one design; times are microseconds of CPU.

    `publish_us` is matching a message and keeping it, `cycle_us` that and taking one out.
    `matching_after` is measured of our design only.
    """

    design: str
    workload: str
    subscriptions: int
    messages: int
    insert_us: float
    publish_us: float
    expire_us: float
    cycle_us: float
    cycles_per_cpu_s: float
    bytes_per_message: float
    index_bytes_per_subscription: float
    steps: list[StepReport]
    matching_after: MatchingAfter | None
    checked: bool


class _MovingData:
    """The same subscriptions, messages and moves for every design."""

    def __init__(self, plan: MovingSetup, made: ArrayWorkload, progress: Progress) -> None:
        progress("making data")
        self.plan = plan
        self.frequency = made.frequency
        self.subscriptions = made.subscriptions(0, plan.subscriptions)
        self.arrivals = min(plan.messages, 100_000)
        self.batch = made.messages(0, plan.messages + self.arrivals)
        rng = np.random.default_rng(plan.seed)
        # The first hundred thousand end first, whatever the design: they make room for others.
        self.ends: Floats = _LIFE + rng.permutation(plan.messages + self.arrivals).astype(float)
        self.ends[: self.arrivals] = np.arange(1.0, self.arrivals + 1.0)
        # No subscription moves in two steps: a design that does fewer moves in one has the same
        # places in the next, and can still be compared with the others.
        order = rng.permutation(plan.subscriptions).astype(np.int32)
        size = max(1, min(plan.moves, plan.subscriptions // len(plan.steps)))
        self.who = [order[n * size : (n + 1) * size] for n in range(len(plan.steps))]
        self.turns = [rng.uniform(0, 2 * np.pi, len(who)) for who in self.who]
        boxes = self.subscriptions.boxes
        self.space = np.concatenate([boxes[:, :2].min(axis=0), boxes[:, 2:].max(axis=0)])

    def table(self) -> Table:
        """A fresh table with all subscriptions."""
        table = Table()
        table.ensure_terms(len(self.frequency))
        table.frequency[: len(self.frequency)] = self.frequency
        add_to_table(table, self.subscriptions, 0, len(self.subscriptions))
        return table

    def target(self, number: int, rows: slice, boxes: Floats) -> Floats:
        """Where some subscriptions go, from the boxes they have."""
        step, who = self.plan.steps[number], self.who[number]
        if step == FAR:
            return moved_to(boxes, self.subscriptions.boxes[np.roll(who, 1)[rows]])
        return shifted(boxes, step, self.turns[number][rows])


def measure_moving(
    plan: MovingSetup, made: ArrayWorkload, progress: Progress
) -> list[MovingReport]:
    """Measure all designs, one after the other, on the same data."""
    world = _MovingData(plan, made, progress)
    reports, digests = [], {}
    for name in plan.designs:
        progress(f"{name}: warming up")
        _warm(world, name)
        report, digests[name] = _measure(world, name, progress)
        reports.append(report)
    if plan.check:
        _compare(digests)
    return reports


def _warm(world: _MovingData, name: str) -> None:
    """Let a design do everything once on a little of the data, so that all is compiled."""
    plan = world.plan
    small = Table()
    small.ensure_terms(len(world.frequency))
    count = min(2000, plan.subscriptions)
    add_to_table(small, world.subscriptions, 0, count)
    some = world.batch.part(0, min(2000, plan.messages))
    design = DESIGNS[name](small, world.space, some)
    design.build()
    design.publish(some, np.arange(1.0, len(some) + 1.0))
    which = np.arange(count, dtype=np.int32)
    for step in (0.1, 20.0):
        boxes = np.clip(small.rows.box[which] + step, -90.0, 90.0)
        boxes[:, 2:] = np.maximum(boxes[:, 2:], boxes[:, :2])
        design.changes(which, which, np.zeros(count), boxes)
        design.moved(which, boxes)
    design.expire(1e9, len(some))


def _measure(
    world: _MovingData, name: str, progress: Progress
) -> tuple[MovingReport, list[dict[int, tuple[int, int]]]]:
    plan = world.plan
    progress(f"{name}: building")
    table = world.table()
    history = world.batch.part(0, min(20_000, plan.messages))
    design = DESIGNS[name](table, world.space, history, rate=plan.messages / LIFE)
    design.build()
    taken = 0.0
    for start in range(0, plan.messages, _ADDED):
        progress(f"{name}: {start:,} messages")
        stop = min(start + _ADDED, plan.messages)
        part, ends = world.batch.part(start, stop), world.ends[start:stop]
        taken += cpu_of(design.add, part, ends)[1]
    steps, digests = [], []
    for number in range(len(plan.steps)):
        progress(f"{name}: moves of {_written(plan.steps[number])}")
        step, found = _moves(world, design, name, number)
        steps.append(step)
        digests.append(found)
    message_bytes, index_bytes = design.nbytes()
    progress(f"{name}: new messages")
    publish, expire = _cycle(world, design)
    cycle = publish + expire
    after = None
    if name == "ours":
        progress(f"{name}: matching after moves of all")
        after = measure_after(world.table(), world.batch, plan.seed)
    report = MovingReport(
        design=name,
        workload=plan.workload,
        subscriptions=plan.subscriptions,
        messages=plan.messages,
        insert_us=1e6 * taken / plan.messages,
        publish_us=publish,
        expire_us=expire,
        cycle_us=cycle,
        cycles_per_cpu_s=1e6 / cycle,
        bytes_per_message=message_bytes / plan.messages,
        index_bytes_per_subscription=index_bytes / plan.subscriptions,
        steps=steps,
        matching_after=after,
        checked=plan.check,
    )
    return report, digests


def _moves(
    world: _MovingData, design: Design, name: str, number: int
) -> tuple[StepReport, dict[int, tuple[int, int]]]:
    plan, who = world.plan, world.who[number]
    messages_s = index_s = 0.0
    done = results = 0
    digests: dict[int, tuple[int, int]] = {}
    size = _TRIAL
    while done < len(who):
        # Parts are the same for all designs: a short one first, which says how many will do.
        stop = min(done + size, len(who))
        which = who[done:stop]
        boxes = world.target(number, slice(done, stop), design.table.rows.box[which])
        events, times = np.arange(len(which), dtype=np.int32), np.zeros(len(which))
        old = design.table.rows.box[which].copy() if plan.check else boxes
        found, seconds = cpu_of(design.changes, which, events, times, boxes)
        messages_s += seconds
        if plan.check and done == 0:
            _check_sample(world, name, which, old, boxes, found)
        index_s += cpu_of(design.moved, which, boxes)[1]
        digests[done] = (stop, digest_of(_changes(found)))
        results += len(found.slots)
        done, size = stop, _CHUNK if stop > _TRIAL else 10 * _TRIAL
        if messages_s + index_s > plan.budget_s:
            break
    total = messages_s + index_s
    report = StepReport(
        step=_written(plan.steps[number]),
        moves=done,
        move_us=1e6 * total / done,
        message_part_us=1e6 * messages_s / done,
        index_part_us=1e6 * index_s / done,
        moves_per_cpu_s=done / total,
        results_per_move=results / done,
    )
    return report, digests


def _cycle(world: _MovingData, design: Design) -> tuple[float, float]:
    """Publish messages, and take as many out: microseconds a message for each."""
    plan = world.plan
    published = expired = 0.0
    done = 0
    while done < world.arrivals and published + expired < plan.budget_s:
        start = plan.messages + done
        count = min(1000 if done == 0 else _CHUNK, world.arrivals - done)
        batch, ends = world.batch.part(start, start + count), world.ends[start : start + count]
        published += cpu_of(design.publish, batch, ends)[1]
        expired += cpu_of(design.expire, float(done + count), count)[1]
        done += count
    return 1e6 * published / done, 1e6 * expired / done


def _changes(found: ActiveChanges) -> npt.NDArray[np.uint64]:
    """One number for each change."""
    keys = found.events.astype(np.uint64) << np.uint64(32) | found.slots.astype(np.uint64)
    return keys * np.uint64(4) + found.ops.astype(np.uint64)


def _compare(digests: dict[str, list[dict[int, tuple[int, int]]]]) -> None:
    """Compare what designs found over the parts that two of them have both done."""
    names = list(digests)
    for name in names[1:]:
        for step, (one, other) in enumerate(zip(digests[names[0]], digests[name], strict=True)):
            for part in one.keys() & other.keys():
                if one[part] != other[part]:
                    raise DisagreementError(
                        f"{names[0]} and {name} differ in the moves from {part} on, of step {step}"
                    )


def _check_sample(
    world: _MovingData, name: str, which: Int32s, old: Floats, new: Floats, found: ActiveChanges
) -> None:
    """Compare some moves with a look at every message."""
    batch, count = world.batch, world.plan.messages
    points = batch.boxes[:count, :2]
    subscriptions: Subscriptions = world.subscriptions
    for event in range(min(_SAMPLE, len(which))):
        row = which[event]
        before, after = (
            np.logical_and.reduce((points >= box[event, :2]) & (points <= box[event, 2:]), axis=1)
            for box in (old, new)
        )
        starts = subscriptions.starts
        wanted = set(subscriptions.terms[starts[row] : starts[row + 1]].tolist())
        changed = {
            (slot, 1 if after[slot] else 2)
            for slot in np.flatnonzero(before != after).tolist()
            if wanted.issubset(batch.terms[batch.starts[slot] : batch.starts[slot + 1]].tolist())
        }
        mine = found.events == event
        if changed != set(zip(found.slots[mine].tolist(), found.ops[mine].tolist(), strict=True)):
            raise DisagreementError(f"{name} and a look at every message differ in move {event}")


def _written(step: float) -> str:
    return "far" if step == FAR else f"{step:g}"


def step_of(text: str) -> float:
    """Read a step: a share of the side, or `far`."""
    return FAR if text.strip() == "far" else float(text)
