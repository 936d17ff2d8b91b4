"""How fast an index matches after all subscriptions have moved, beside a fresh one."""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np

from nearcast.arrays.types import Floats, Int32s
from nearcast.index import Batch, Table, match
from nearcast.index.rarest_term import RarestTerm
from nearcast_lab.timing import cpu_of, in_turns

_SMALL = 20  # moves of all subscriptions: of 1 % and of 10 % of the side in turn
_BATCH = 10_000
_ROUNDS = 10
_MESSAGES = 20_000


class FreshComparison(TypedDict):
    """An index, in multiples of a fresh one over the same subscriptions.

    The time that matching takes, the shortest of some rounds in turn; the rows that messages have
    to look at; and the blocks that there are.
    """

    time: float
    looked_at: float
    blocks: float


class MatchingAfter(TypedDict):
    """What moves of all subscriptions do to matching.

    After small moves; after a far jump; after that when batches of messages have come, as many as
    there are subscriptions; and once merged, which took `merge_us` a subscription.
    """

    small_moves: FreshComparison
    far_jumps: FreshComparison
    tidied: FreshComparison
    merged: FreshComparison
    merge_us: float


def measure_after(table: Table, batch: Batch, seed: int) -> MatchingAfter:
    """Move all subscriptions of a table, and compare matching with a fresh index each time."""
    rng = np.random.default_rng(seed)
    index = RarestTerm(table)
    index.build()
    everyone = table.live_rows()
    some = batch.part(0, min(_MESSAGES, len(batch)))
    for turn in range(_SMALL):
        for rows in _parts(everyone):
            turns = rng.uniform(0, 2 * np.pi, len(rows))
            step = 0.1 if turn % 2 else 0.01
            _move(index, rows, shifted(table.rows.box[rows], step, turns))
    small = _beside_a_fresh_one(index, some)
    targets = table.rows.box[rng.permutation(everyone)]
    for rows, places in zip(_parts(everyone), _parts(targets), strict=True):
        _move(index, rows, moved_to(table.rows.box[rows], places))
    far = _beside_a_fresh_one(index, some)
    for _ in range(0, len(everyone), _BATCH):
        index.tidy(_BATCH)
    tidied = _beside_a_fresh_one(index, some)
    taken = 1e6 * cpu_of(index.merge)[1] / len(everyone)
    merged = _beside_a_fresh_one(index, some)
    return MatchingAfter(
        small_moves=small, far_jumps=far, tidied=tidied, merged=merged, merge_us=taken
    )


def _parts(rows: Any) -> list[Any]:
    return [rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH)]


def _move(index: RarestTerm, rows: Int32s, boxes: Floats) -> None:
    index.table.move(rows, boxes)
    index.move(rows)


def shifted(boxes: Floats, step: float, turns: Floats) -> Floats:
    """Boxes moved by a share of their sides, each in a direction of its own."""
    size = boxes[:, 2:] - boxes[:, :2]
    way = np.column_stack([np.cos(turns), np.sin(turns)]) * size * step
    return _inside(boxes[:, :2] + way, size)


def moved_to(boxes: Floats, others: Floats) -> Floats:
    """Boxes of the same sizes, where others have their middles."""
    size = boxes[:, 2:] - boxes[:, :2]
    return _inside((others[:, :2] + others[:, 2:] - size) / 2, size)


def _inside(corner: Floats, size: Floats) -> Floats:
    low, high = np.array([-180.0, -90.0]), np.array([180.0, 90.0])
    corner = np.clip(corner, low, np.maximum(low, high - size))
    return np.hstack([corner, corner + size])


def _beside_a_fresh_one(index: RarestTerm, batch: Batch) -> FreshComparison:
    """Match with both in turn, and give how much more the one that has moved takes."""
    fresh = RarestTerm(index.table)
    fresh.build()
    times, looked_at = np.zeros((_ROUNDS, 2)), [0, 0]
    for turn, number in in_turns(range(2), _ROUNDS):
        found, times[turn, number] = cpu_of(match, (index, fresh)[number], batch)
        looked_at[number] = found.candidates
    least = times.min(axis=0)
    return FreshComparison(
        time=_ratio(least[0], least[1]),
        looked_at=_ratio(*looked_at),
        blocks=_ratio(index.stats()["blocks"], fresh.stats()["blocks"]),
    )


def _ratio(one: float, other: float) -> float:
    return float(one / other) if other else 1.0
