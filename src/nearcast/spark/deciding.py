"""What each event of a batch does, in one kernel: `Ledger` calls it, `scan` defines it.

It decides when an event is, whether and why it is refused, which subscriptions begin and end, also
by time, which message it replaces or retracts, and which messages are in the window. The kernel
does not know how ids are kept: each has a *place*, and what is known of it is in an array by place.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner, kernel
from nearcast.arrays.types import Int32s
from nearcast.engine.refusals import other_kind, other_place, past_time, unknown_id, unknown_message
from nearcast.errors import NearcastError
from nearcast.events.reader import (
    BAD,
    OTHER,
    POINT,
    RANGE,
    RANKED,
    SHIFT,
    SUBSCRIBE,
    UNSUBSCRIBE,
)
from nearcast.topk import Window

RETRACT = OTHER
"""A row that retracts a message: no other row is of kind OTHER when rows are decided."""

FINE, BACKWARDS, UNKNOWN, REFUSED, OTHER_KIND = range(5)
"""The verdict on a row; REFUSED is what was BAD already, or has a flaw.

OTHER_KIND would make a top-k subscription of another one, or the other way round, or moves one that
is not top-k to a point."""

NO_OWNER, NOTHING = -1, -1

Records = npt.NDArray[Any]
"""An array of one of the types below."""

ROW = np.dtype(
    [
        ("kind", np.int8),
        ("flawed", np.bool_),  # refused, unless another verdict comes first
        ("verdict", np.int8),  # this and all below the next six are found by `decide`
        ("again", np.bool_),  # its id was that of a message which leaves the window with it
        ("id", np.int32),  # the place of its id
        ("begins", np.int32),  # the owner that begins with it, or NO_OWNER
        ("ends", np.int32),  # the owner that ends with it, or NO_OWNER
        ("ranked", np.bool_),  # whether what begins with it is a top-k subscription
        ("seq", np.int64),
        ("at", np.float64),  # the given time, or NaN
        ("ttl", np.float64),  # the given seconds, or NaN
        ("time", np.float64),  # the time at the row
        ("until", np.float64),  # when a message, or a subscription, ends; NaN if it does not
        ("number", np.int64),  # of a message that comes into the window, or NOTHING
        ("first", np.int64),  # after the row: the number of the oldest message in the window
        ("old", np.int64),  # the sequence number of an active message that ends with it
        ("taken", np.int64),  # the number of a message that it takes out of the window
    ],
    align=True,
)

KNOWN = np.dtype(
    [
        ("owner", np.int32),  # of the subscription with this id, or NO_OWNER
        ("ranked", np.bool_),  # whether that is a top-k one
        ("lapse", np.float64),  # when that ends; infinite if it does not
        ("where", np.int64),  # where in the ring its message of the window is, or NOTHING
        ("seq", np.int64),  # of the latest active message with this id
        ("until", np.float64),  # when that ends; -inf if there is none
    ],
    align=True,
)

CLOCK = np.dtype(
    [
        ("now", np.float64),  # NaN before the first event
        ("seconds", np.float64),  # the limits of the window
        ("count", np.int64),
        ("next", np.int64),  # the number of the next message of the window
        ("head", np.int64),  # where in the ring the oldest message is, and where the next comes
        ("used", np.int64),
        ("live", np.int64),  # messages in the window
        ("owners", np.int64),  # owner numbers that were ever given, and how many of them are free
        ("free", np.int64),
        ("ends", np.int64),  # sizes of the two heaps
        ("lapses", np.int64),
        ("due", np.int64),  # subscriptions that ended by time so far
    ],
    align=True,
)

RING = np.dtype(
    [
        ("number", np.int64),
        ("id", np.int32),  # the place of its id
        ("live", np.bool_),  # whether it is still in the window
        ("at", np.float64),
        ("end", np.float64),  # infinite if it has none
    ],
    align=True,
)

END = np.dtype([("end", np.float64), ("what", np.int64)], align=True)
"""Of the heaps: when something ends, and what: a place in the ring, or an owner."""

DUE = np.dtype([("row", np.int32), ("owner", np.int32)])
"""A subscription that ended by time, and the row whose time it was."""


def new_rows(kinds: Any, seq: Any, at: Any, ttl: Any) -> Records:
    """Rows that are to be decided."""
    rows = np.zeros(len(at), ROW)
    rows["kind"], rows["seq"], rows["at"], rows["ttl"] = kinds, seq, at, ttl
    return rows


def nothing_known(count: int) -> Records:
    """What is known of ids that have neither a subscription nor a message."""
    known = np.zeros(count, KNOWN)
    known["owner"], known["lapse"] = NO_OWNER, np.inf
    known["where"] = known["seq"] = NOTHING
    known["until"] = -np.inf
    return known


def new_clock(window: Window) -> Records:
    """The clock of a window without messages."""
    clock = np.zeros(1, CLOCK)
    clock["now"] = np.nan
    clock["seconds"] = np.inf if window.seconds is None else window.seconds
    clock["count"] = 2**62 if window.count is None or window.seconds is not None else window.count
    return clock


def error_of(row: Any, id: str) -> NearcastError:
    """The error of a row that was refused for the sake of time or ids."""
    verdict, kind = int(row["verdict"]), int(row["kind"])
    if verdict == BACKWARDS:
        return past_time(float(row["at"]), float(row["time"]))
    if verdict == UNKNOWN:
        return unknown_message(id) if kind == RETRACT else unknown_id(id)
    return other_place(id) if kind == SHIFT else other_kind(id)


@inner
def _push(heap: Records, size: int, end: float, what: int) -> None:
    """Put an end into a heap that has `size` of them."""
    at = size
    while at > 0:
        above = (at - 1) // 2
        if heap[above].end <= end:
            break
        heap[at].end, heap[at].what = heap[above].end, heap[above].what
        at = above
    heap[at].end, heap[at].what = end, what


@inner
def _pop(heap: Records, size: int) -> int:
    """Take the first end out of a heap that has `size` of them, and return what ends."""
    first: int = heap[0].what
    last = size - 1
    end, what = heap[last].end, heap[last].what
    at = 0
    while True:
        below = 2 * at + 1
        if below >= last:
            break
        if below + 1 < last and heap[below + 1].end < heap[below].end:
            below += 1
        if heap[below].end >= end:
            break
        heap[at].end, heap[at].what = heap[below].end, heap[below].what
        at = below
    heap[at].end, heap[at].what = end, what
    return first


@inner
def _leave(known: Records, clock: Any, ring: Records, at: int) -> None:
    """Let a message leave the window."""
    ring[at].live = False
    clock.live -= 1
    if known[ring[at].id].where == at:
        known[ring[at].id].where = NOTHING
    while clock.head < clock.used and not ring[clock.head].live:
        clock.head += 1


@inner
def _verdict(row: Any, known: Any, clock: Any, ring: Records, time: float) -> int:
    """Whether an event has an effect at a time that is not before now."""
    kind = row.kind
    if kind <= RANGE:
        return REFUSED if row.flawed else FINE
    if kind == RETRACT:
        if known.until > time:
            return FINE
        at = known.where
        there = at >= 0 and ring[at].at > time - clock.seconds and ring[at].end > time
        return FINE if there else UNKNOWN
    if known.owner < 0 or known.lapse <= time:
        if kind != SUBSCRIBE and kind != RANKED:
            return UNKNOWN
    elif kind in (SUBSCRIBE, RANKED):
        if known.ranked != (kind == RANKED):
            return OTHER_KIND
    elif kind == SHIFT and not known.ranked:
        return OTHER_KIND
    return REFUSED if row.flawed else FINE


@inner
def _advance(
    at: int, time: float, known: Records, clock: Any, ring: Records, ends: Records,
    lapses: Records, places: Int32s, due: Records,
) -> None:  # fmt: skip
    """Let time pass up to a row: subscriptions end, then messages leave the window."""
    while clock.lapses > 0 and lapses[0].end <= time:
        end = lapses[0].end
        owner = _pop(lapses, clock.lapses)
        clock.lapses -= 1
        one = known[places[owner]]
        if one.owner == owner and one.lapse == end:  # else it moved, or was replaced
            one.owner = NO_OWNER
            due[clock.due].row, due[clock.due].owner = at, owner
            clock.due += 1
    while clock.ends > 0 and ends[0].end <= time:
        there = _pop(ends, clock.ends)
        clock.ends -= 1
        if ring[there].live:
            _leave(known, clock, ring, there)
    while clock.live > 0 and ring[clock.head].at <= time - clock.seconds:
        _leave(known, clock, ring, clock.head)


@kernel
def decide(
    rows: Records, all_known: Records, clocks: Records, ring: Records, ends: Records,
    lapses: Records, places: Int32s, due: Records, free: Int32s,
) -> None:  # fmt: skip
    """Decide rows in order, and bring what is known of ids up to date.

    `ring` has the messages of the window in order, with some that have left it; `ends` and `lapses`
    are heaps of the ends of messages in the ring and of subscriptions, `places` the place of the id
    of each owner, `free` a stack of unused owners. All have room for what the rows bring.
    """
    clock = clocks[0]
    clock.due = 0
    for at in range(len(rows)):
        row = rows[at]
        known = all_known[row.id]
        row.time = 0.0 if np.isnan(clock.now) else clock.now
        row.first = ring[clock.head].number if clock.live > 0 else clock.next
        row.begins, row.ends, row.until = NO_OWNER, NO_OWNER, np.nan
        row.number, row.old, row.taken = NOTHING, NOTHING, NOTHING
        # Time must not go backwards.
        time = row.time if np.isnan(row.at) else row.at
        if row.kind == BAD:
            row.verdict = REFUSED
        elif time < clock.now:
            row.verdict = BACKWARDS
        else:
            row.verdict = _verdict(row, known, clock, ring, time)
        if row.verdict != FINE:
            continue
        before = known.where
        _advance(at, time, all_known, clock, ring, ends, lapses, places, due)
        if row.kind <= RANGE or row.kind == RETRACT:
            # The message with this id ends, if it is active or in the window.
            if known.until > time:
                row.old = known.seq
            known.until, known.seq = -np.inf, NOTHING
            row.again = before >= 0 and known.where < 0
            if known.where >= 0:
                row.taken = ring[known.where].number
                _leave(all_known, clock, ring, known.where)
        if row.kind <= RANGE:
            lasts = row.ttl > 0.0
            end = time + row.ttl if lasts else np.inf
            # Add a message to the window, and to the active ones if it lasts.
            if row.kind == POINT and end > time:
                there = clock.used
                ring[there].number, ring[there].id, ring[there].live = clock.next, row.id, True
                ring[there].at, ring[there].end = time, end
                row.number, known.where = clock.next, there
                if clock.live == 0:
                    clock.head = there
                clock.next += 1
                clock.used += 1
                clock.live += 1
                if lasts:
                    _push(ends, clock.ends, end, there)
                    clock.ends += 1
                if clock.live > clock.count:
                    _leave(all_known, clock, ring, clock.head)
            if lasts and end > time:
                row.until = known.until = end
                known.seq = row.seq
        elif row.kind != RETRACT:
            # End the old version of a subscription, and begin the new one.
            row.ends = known.owner
            if row.kind == UNSUBSCRIBE:
                known.owner = NO_OWNER
            else:
                lapse = np.inf if known.owner < 0 else known.lapse
                if not np.isnan(row.ttl):
                    lapse = time + row.ttl
                elif row.kind == SUBSCRIBE or row.kind == RANKED:
                    lapse = np.inf
                if known.owner < 0:
                    known.ranked = row.kind == RANKED
                if clock.free > 0:
                    clock.free -= 1
                    row.begins = free[clock.free]
                else:
                    row.begins = clock.owners
                    clock.owners += 1
                known.owner, known.lapse = row.begins, lapse
                row.ranked = known.ranked
                places[row.begins] = row.id
                if lapse < np.inf:
                    row.until = lapse
                    _push(lapses, clock.lapses, lapse, row.begins)
                    clock.lapses += 1
        clock.now = row.time = time
        row.first = ring[clock.head].number if clock.live > 0 else clock.next
