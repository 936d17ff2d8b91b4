"""Events that have no effect, and the error messages for them, the same in every engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from nearcast.spark.ledger import (
    BACKWARDS,
    FINE,
    IN_USE,
    MOVE,
    OTHER_KIND,
    SHIFT,
    UNKNOWN,
    Codes,
    Decisions,
)


@dataclass
class Refusal:
    """An event that has no effect, and why."""

    row: int
    error: str


def refusals_in(
    events: pa.Table, kinds: Codes, decisions: Decisions, errors: dict[int, str]
) -> list[Refusal]:
    """Say which rows have no effect; `errors` are those that were found when they were read."""
    refusals = []
    for row in np.flatnonzero(decisions.verdict != FINE).tolist():
        verdict = int(decisions.verdict[row])
        named = verdict in (UNKNOWN, IN_USE, OTHER_KIND)
        id = events["id"][row].as_py() if named else None
        if verdict == BACKWARDS:
            error = backwards(events["at"][row].as_py(), float(decisions.times[row]))
        elif verdict == UNKNOWN:
            error = f"id: no subscription {id!r}; subscribe it first"
        elif verdict == IN_USE:
            error = (
                f"id: {id!r} is the id of a message that is still active or in the window; "
                "give each message an id of its own"
            )
        elif verdict == OTHER_KIND:
            error = _other_kind(id, int(kinds[row]))
        else:
            error = errors[row]
        refusals.append(Refusal(row, error))
    return refusals


def backwards(at: float, now: float) -> str:
    """Say that the time of an event is before one that has come already."""
    return f"at: {at!r} is before {now!r}, the time of an event before it; times never decrease"


def _other_kind(id: str | None, kind: int) -> str:
    if kind in (MOVE, SHIFT):
        has, place = ("top-k", "point") if kind == MOVE else ("boolean", "region")
        return f"id: {id!r} is a {has} subscription; move it to a {place}"
    return (
        f"id: {id!r} is in use by a subscription of the other kind (top-k or not); "
        "unsubscribe it first"
    )
