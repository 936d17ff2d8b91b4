"""What each event does: when it is, whether and why it is refused, who begins and who ends.

Tables of events ask one kernel, `decide`; `scan` is the definition that it is tested against. What
is not in such tables is taken one by one; a pipeline on Spark decides all there is in a kernel of
its own, `nearcast.spark.deciding`. The kernel does not know how ids are kept. The caller numbers
the ids of some events, says what is known of each, and afterwards finds there what is known of them
now.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from nearcast._jit import inner_counting, kernel
from nearcast.arrays.types import Floats, Int32s
from nearcast.engine.refusals import other_kind, other_place, past_time, unknown_id
from nearcast.errors import NearcastError
from nearcast.events.reader import (
    BAD,
    MOVE,
    POINT,
    RANGE,
    RANKED,
    SHIFT,
    SUBSCRIBE,
    UNSUBSCRIBE,
)
from nearcast.topk import Window

FINE, BACKWARDS, UNKNOWN, IN_USE, REFUSED, OTHER_KIND, NOT_YET = range(7)
"""The verdict on a row; REFUSED is what was BAD already, or has a flaw.

OTHER_KIND would make a top-k subscription of another one, or the other way round. IN_USE is a
message that would replace another, NOT_YET a move of a top-k subscription to a region: both are
taken one by one."""

NO_OWNER = -1

Rows = npt.NDArray[Any]
"""Events in order; see ROW."""
Known = npt.NDArray[Any]
"""What is known of each id; see KNOWN."""
Clock = npt.NDArray[Any]
"""What is known apart from ids, as an array of one; see CLOCK."""

ROW = np.dtype(
    [
        ("kind", np.int8),
        ("flawed", np.bool_),  # refused, unless another verdict comes first
        ("verdict", np.int8),  # this and all below the next four are found by `decide`
        ("again", np.bool_),  # its id was that of a message which leaves the window with it
        ("id", np.int32),  # the number of its id
        ("begins", np.int32),  # the owner that begins with it, or NO_OWNER
        ("ends", np.int32),  # the owner that ends with it, or NO_OWNER
        ("at", np.float64),  # the given time, or NaN
        ("ttl", np.float64),  # the given seconds, or NaN
        ("time", np.float64),  # the time at the row
        ("until", np.float64),  # when a message is no longer active, or NaN
        ("number", np.int64),  # of a message that comes into the window, or -1
        ("first", np.int64),  # after the row: the number of the oldest message in the window
    ],
    align=True,
)

KNOWN = np.dtype(
    [
        ("owner", np.int32),  # of the subscription with this id, or NO_OWNER
        ("ranked", np.bool_),  # whether that is a top-k one
        ("number", np.int64),  # of the latest message with this id that came into the window
        ("since", np.float64),  # when it came; -inf if none did
        ("until", np.float64),  # when the latest active message with this id ends; -inf if none
    ],
    align=True,
)

CLOCK = np.dtype(
    [
        ("now", np.float64),  # NaN before the first event
        ("seconds", np.float64),  # the limits of the window
        ("count", np.int64),
        ("first", np.int64),  # the numbers of the oldest message in the window, and of the next
        ("next", np.int64),
        ("base", np.int64),  # the number of the message whose time is the first of `arrived`
        ("owners", np.int64),  # owner numbers that were ever given, and how many of them are free
        ("free", np.int64),
    ],
    align=True,
)


def new_rows(kinds: Any, at: Floats, ttl: Floats | None = None) -> Rows:
    """Rows that are to be decided, each with an id of its own."""
    rows = np.zeros(len(at), ROW)
    rows["kind"], rows["at"] = kinds, at
    rows["ttl"] = np.nan if ttl is None else ttl
    rows["id"] = np.arange(len(at), dtype=np.int32)
    return rows


def nothing_known(count: int) -> Known:
    """What is known of ids that have neither a subscription nor a message."""
    known = np.zeros(count, KNOWN)
    known["owner"], known["since"], known["until"] = NO_OWNER, -np.inf, -np.inf
    return known


def new_clock(window: Window, now: float | None = None) -> Clock:
    """The clock of a window without messages."""
    clock = np.zeros(1, CLOCK)
    clock["now"] = np.nan if now is None else now
    clock["seconds"] = np.inf if window.seconds is None else window.seconds
    clock["count"] = 2**62 if window.count is None or window.seconds is not None else window.count
    return clock


def error_of(row: Any, id: str) -> NearcastError:
    """The error of a row that no engine takes; one with a flaw has its own."""
    verdict, kind = int(row["verdict"]), int(row["kind"])
    if verdict == BACKWARDS:
        return past_time(float(row["at"]), float(row["time"]))
    if verdict == UNKNOWN:
        return unknown_id(id)
    return other_place(id) if kind == SHIFT else other_kind(id)


@inner_counting
def _verdict(row: Any, known: Any, clock: Any, time: float) -> int:
    """Whether an event has an effect at a time that is not before now."""
    if row.kind <= RANGE:
        if row.flawed:
            return REFUSED
        kept = known.number >= clock.next - clock.count and known.since > time - clock.seconds
        return IN_USE if kept or known.until > time else FINE
    if known.owner < 0:
        if row.kind != SUBSCRIBE and row.kind != RANKED:
            return UNKNOWN
    elif row.kind != UNSUBSCRIBE and known.ranked != (row.kind == RANKED or row.kind == SHIFT):
        return NOT_YET if row.kind == MOVE else OTHER_KIND
    return REFUSED if row.flawed else FINE


@kernel
def decide(rows: Rows, all_known: Known, clocks: Clock, arrived: Floats, free: Int32s) -> None:
    """Decide rows in order, and bring what is known of ids up to date.

    `arrived` has the times of the messages of the window by number, from that of the clock's base
    on, and room for more; `free` is a stack of unused owners.
    """
    clock = clocks[0]
    for at in range(len(rows)):
        row = rows[at]
        known = all_known[row.id]
        row.time = 0.0 if np.isnan(clock.now) else clock.now
        row.first = clock.first
        row.begins, row.ends, row.number, row.until = NO_OWNER, NO_OWNER, -1, np.nan
        # Time must not go backwards.
        time = row.time if np.isnan(row.at) else row.at
        if row.kind == BAD:
            row.verdict = REFUSED
        elif time < clock.now:
            row.verdict = BACKWARDS
        else:
            row.verdict = _verdict(row, known, clock, time)
        if row.verdict != FINE:
            continue
        # The row is accepted: let the window expire up to its time.
        row.again = row.kind <= RANGE and known.since > -np.inf and known.number >= clock.first
        while clock.first < clock.next and (
            arrived[clock.first - clock.base] <= time - clock.seconds
        ):
            clock.first += 1
        if row.kind <= RANGE:
            # Add a message to the window, and to the active ones if it lasts.
            if row.kind == POINT:
                arrived[clock.next - clock.base] = time
                row.number = known.number = clock.next
                known.since, known.until = time, -np.inf
                clock.next += 1
                if clock.next - clock.first > clock.count:
                    clock.first += 1
            if row.ttl > 0.0:
                known.until = time + row.ttl
            if time + row.ttl > time:
                row.until = time + row.ttl
        else:
            # End the old version of a subscription, and begin the new one.
            row.ends = known.owner
            if row.kind == UNSUBSCRIBE:
                known.owner = NO_OWNER
            else:
                if clock.free > 0:
                    clock.free -= 1
                    row.begins = free[clock.free]
                else:
                    row.begins = clock.owners
                    clock.owners += 1
                known.owner = row.begins
                known.ranked = row.kind == RANKED or row.kind == SHIFT
        clock.now = row.time = time
        row.first = clock.first
