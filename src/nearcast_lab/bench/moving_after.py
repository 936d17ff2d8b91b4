"""How fast an index matches after all subscriptions have moved, beside a fresh one."""

from __future__ import annotations

from time import process_time
from typing import TypedDict

import numpy as np

from nearcast.arrays.types import Floats, Int32s
from nearcast.index import Batch, Table, match
from nearcast.index.rarest_term import RarestTerm

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
            _move(index, rows, _shifted(table.rows.box[rows], 0.1 if turn % 2 else 0.01, rng))
    small = _beside_a_fresh_one(index, some)
    targets = table.rows.box[rng.permutation(everyone)]
    for start in range(0, len(everyone), _BATCH):
        rows = everyone[start : start + _BATCH]
        _move(index, rows, _around(table.rows.box[rows], targets[start : start + _BATCH]))
    far = _beside_a_fresh_one(index, some)
    for _ in range(0, len(everyone), _BATCH):
        index.tidy(_BATCH)
    tidied = _beside_a_fresh_one(index, some)
    started = process_time()
    index.merge()
    taken = 1e6 * (process_time() - started) / len(everyone)
    merged = _beside_a_fresh_one(index, some)
    return MatchingAfter(
        small_moves=small, far_jumps=far, tidied=tidied, merged=merged, merge_us=taken
    )


def _parts(rows: Int32s) -> list[Int32s]:
    return [rows[start : start + _BATCH] for start in range(0, len(rows), _BATCH)]


def _move(index: RarestTerm, rows: Int32s, boxes: Floats) -> None:
    index.table.move(rows, boxes)
    index.move(rows)


def _shifted(boxes: Floats, step: float, rng: np.random.Generator) -> Floats:
    """Boxes moved by a share of their sides, each somewhere else."""
    size = boxes[:, 2:] - boxes[:, :2]
    turn = rng.uniform(0, 2 * np.pi, len(boxes))
    return _inside(boxes[:, :2] + np.column_stack([np.cos(turn), np.sin(turn)]) * size * step, size)


def _around(boxes: Floats, others: Floats) -> Floats:
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
    for turn in range(_ROUNDS):
        for number, one in enumerate((index, fresh)):
            started = process_time()
            looked_at[number] = match(one, batch).candidates
            times[turn, number] = process_time() - started
    least = times.min(axis=0)
    return FreshComparison(
        time=_ratio(least[0], least[1]),
        looked_at=_ratio(*looked_at),
        blocks=_ratio(index.stats()["blocks"], fresh.stats()["blocks"]),
    )


def _ratio(one: float, other: float) -> float:
    return float(one / other) if other else 1.0
