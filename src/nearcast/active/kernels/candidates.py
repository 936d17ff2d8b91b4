"""Candidates of a move: messages that may have come or gone, checked and written as updates."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from nearcast._jit import inlined, inner
from nearcast.active.kernels.entries import CAME, KNOWN_BITS, UNSURE, WENT
from nearcast.active.kernels.heap import has_ended
from nearcast.active.kernels.layout import (
    CANCELLED,
    END,
    MESSAGE,
    TERMS,
    UNIT,
    ActiveArrays,
)
from nearcast.arrays.lanes import prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s
from nearcast.geo.kernels import box_meets_circle
from nearcast.index.table import EXCLUDES, Rows
from nearcast.index.verify import accepts_place

Ops = npt.NDArray[np.int8]
KNOWN = (1 << KNOWN_BITS) - 1


@inner
def has_term(ints: Int32s, piece: int, term: int) -> bool:
    """Return whether a message has a term."""
    at, stop = piece + 1, piece + 1 + ints[piece]
    while at < stop and ints[at] != term:
        at += 1
    return bool(at < stop)


@inner
def accepts_terms(rows: Rows, row: int, ints: Int32s, piece: int, only: int) -> bool:
    """Return whether a message has all required and no excluded terms of a row."""
    at = wide(rows.first[row])
    stop = at + rows.required[row]
    if rows.required[row] > 1 or only >= 0:
        while at < stop:
            if not has_term(ints, piece, rows.terms[at]):
                return False
            at += 1
    if rows.flags[row] & EXCLUDES:
        at = stop + 1
        stop = at + rows.terms[stop]
        while at < stop:
            if has_term(ints, piece, rows.terms[at]):
                return False
            at += 1
    return True


@inner
def is_alone(state: ActiveArrays, rows: Rows, row: int, now: float, only: int) -> bool:
    """Return whether all messages of the one list match a row by their text, and none has ended."""
    alone = only < 0 and rows.required[row] == 1 and rows.flags[row] & EXCLUDES == 0
    return bool(alone and state.due_at[CANCELLED] == 0 and not has_ended(state, now))


@inlined
def ask_for_messages(state: ActiveArrays, found: Int32s, start: int, stop: int) -> None:
    """Ask for the ends of candidates, and where their terms are; for places of those unsure."""
    for at in range(start, stop):
        message = (wide(found[at]) >> KNOWN_BITS) * MESSAGE
        prefetch(state.messages, message + END)
        if found[at] & KNOWN == UNSURE:
            prefetch(state.messages, message)


@inlined
def ask_for_terms(state: ActiveArrays, found: Int32s, start: int, stop: int) -> None:
    """Ask for the terms of candidates."""
    for at in range(start, stop):
        slot = wide(found[at]) >> KNOWN_BITS
        prefetch(state.ints, wide(state.messages[slot, TERMS]) * UNIT)


@inner
def ask_for_candidates(state: ActiveArrays, found: Int32s, count: int) -> None:
    """Ask for the messages of candidates, and then for their terms."""
    ask_for_messages(state, found, wide(0), count)
    ask_for_terms(state, found, wide(0), count)


@inner
def keep_matching(
    state: ActiveArrays,
    rows: Rows,
    row: int,
    now: float,
    found: Int32s,
    start: int,
    stop: int,
    only: int,
) -> int:
    """Keep the candidates that are active and whose text matches a row; give where they end."""
    if is_alone(state, rows, row, now, only):
        return stop
    messages, kept = state.messages, wide(start)
    for at in range(start, stop):
        slot = wide(found[at]) >> KNOWN_BITS
        if messages[slot, END] > now and accepts_terms(
            rows, row, state.ints, wide(messages[slot, TERMS]) * UNIT, only
        ):
            found[kept] = found[at]
            kept += 1
    return kept


@inner
def report(
    state: ActiveArrays, rows: Rows, row: int, boxes: Floats, circles: Floats, move: int,
    event: int, found: Int32s, start: int, stop: int, out_events: Int32s, out_slots: Int32s,
    out_ops: Ops, written: int,
) -> int:  # fmt: skip
    """Write down which candidates came or went; what is not known of one is decided exactly."""
    messages = state.messages
    for at in range(start, stop):
        slot, known = wide(found[at]) >> KNOWN_BITS, found[at] & KNOWN
        if known == UNSURE:
            west, south = messages[slot, 0], messages[slot, 1]
            east, north = messages[slot, 2], messages[slot, 3]
            before = accepts_place(rows, row, west, south, east, north)
            after = (
                boxes[move, 0] <= east and boxes[move, 2] >= west
                and boxes[move, 1] <= north and boxes[move, 3] >= south
            )  # fmt: skip
            if len(circles) > 0 and after:
                after = box_meets_circle(
                    west, south, east, north, circles[move, 0], circles[move, 1], circles[move, 2]
                )
            if before == after:
                continue
            known = CAME if after else WENT
        out_events[written] = event
        out_slots[written] = slot
        out_ops[written] = known
        written += 1
    return written
