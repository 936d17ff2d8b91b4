"""Refinement of a tree: what the heaviest worker has too much of is given to light ones.

The heaviest worker gives away a strip at the edge of one of its parts, or some of its terms, to
the worker for which the heavier of the two has least to do afterwards. That goes on while the
heaviest of all has less to do than before. Nothing is moved that does not help, so a term in a
cell that alone is more than any other worker has stays where it is.

The index of a worker knows terms, not whose they are: a worker with different terms in two places
close to each other would look at rows of the one for messages of the other. So a worker takes
something only if it has the same terms nearby, or nothing nearby.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.types import Int32s, Int64s
from nearcast.partition.bisect import (
    Bisection,
    CellSlice,
    load_of,
    part_by_space,
    part_by_text,
    side_loads,
    space_profile,
)
from nearcast.partition.digest import Digest, sums
from nearcast.partition.kdt import COLUMNS, ROWS, Growing, Leaf, Rect, SpaceSplit, TextSplit, Tree

_FAR = 1 << 30
_LIGHTEST = 6  # workers that are asked to take something
_ENOUGH = 0.999  # what a move must leave of the heavier load at most


class _Transfer(NamedTuple):
    """What of a part goes to another worker: one side of a line, or some units of text."""

    heavier: float
    axis: int = -1
    line: int = 0
    low: bool = True
    units: Int32s | None = None


class _Holding:
    """The leaves that one worker has, and their load."""

    def __init__(self, digest: Digest, leaf: int, part: CellSlice) -> None:
        self.leaves = {leaf: part}
        self.load = load_of(digest, part)

    def weigh(self, digest: Digest) -> None:
        """Find the load again after something came or went."""
        self.load = load_of(digest, _joined(list(self.leaves.values())))


def _joined(parts: list[CellSlice]) -> CellSlice:
    """All of some parts together, for their load: neither rect nor units mean anything."""
    if len(parts) == 1:
        return parts[0]
    hits: Int64s = np.unique(np.concatenate([part.hits for part in parts]))
    rows: Int64s = np.unique(np.concatenate([part.rows for part in parts]))
    return parts[0]._replace(hits=hits, rows=rows)


class Refinement:
    """Moves parts of a tree between workers until their loads are even."""

    def __init__(self, digest: Digest, start: Bisection, workers: int) -> None:
        self._digest = digest
        self._holdings = [_Holding(digest, leaf, part) for leaf, part in enumerate(start.parts)]
        nothing = start.parts[0]._replace(
            units=np.empty(0, np.int32), hits=np.empty(0, np.int64), rows=np.empty(0, np.int64)
        )
        self._holdings += [
            _Holding(digest, -1, nothing) for _ in range(workers - len(self._holdings))
        ]
        sizes = digest.spans[:, 2:] - digest.spans[:, :2]
        self._reach = int(np.percentile(sizes, 90)) if len(sizes) else 0
        self._growing = Growing(start.tree, len(start.parts))

    @property
    def heaviest(self) -> float:
        """The load of the heaviest worker."""
        return max(holding.load for holding in self._holdings)

    def run(self, most: int) -> None:
        """Move things until nothing helps any more, or `most` were moved."""
        for _ in range(most):
            if not self.step():
                return

    def reweigh(self, digest: Digest) -> None:
        """Go on with other costs of the same hits."""
        self._digest = digest
        for holding in self._holdings:
            holding.weigh(digest)

    def step(self) -> bool:
        """Move something from the heaviest worker to a light one; say whether anything helped."""
        order = sorted(range(len(self._holdings)), key=lambda worker: self._holdings[worker].load)
        giver = self._holdings[order[-1]]
        for leaf, part in sorted(
            giver.leaves.items(), key=lambda item: -load_of(self._digest, item[1])
        ):
            for taker in self._takers(order, part):
                if self._give(giver, leaf, part, taker):
                    return True
        return False

    def _takers(self, order: list[int], part: CellSlice) -> list[_Holding]:
        """The lightest workers, and the lightest of those that hold the same rows already."""
        light = [self._holdings[worker] for worker in order[: len(order) // 2]]
        near = [holding for holding in light if self._apart(holding, part) < 1]
        chosen = near[:_LIGHTEST] + [
            holding for holding in light[:_LIGHTEST] if holding not in near
        ]
        return sorted(chosen, key=lambda holding: holding.load)

    def _apart(self, holding: _Holding, part: CellSlice) -> int:
        """How many cells lie between what a worker has and a part."""
        return min(
            (
                _distance(part.rect, other.rect)
                for other in holding.leaves.values()
                if len(other.rows)
            ),
            default=_FAR,
        )

    def _may_take(self, holding: _Holding, part: CellSlice) -> bool:
        """Whether a worker's terms near a part are the terms of the part."""
        return all(
            _distance(part.rect, other.rect) > self._reach or _go_together(part, other)
            for other in holding.leaves.values()
            if len(other.rows)
        )

    def _give(self, giver: _Holding, leaf: int, part: CellSlice, taker: _Holding) -> bool:
        d = self._digest
        rest = giver.load - load_of(d, part)
        transfer = _best_transfer(d, part, rest, taker.load)
        if transfer is None or transfer.heavier >= _ENOUGH * giver.load:
            return False
        if transfer.units is None:
            parts = part_by_space(d, part, transfer.axis, transfer.line)
            kept, given = parts[::-1] if transfer.low else parts
        else:
            side = np.ones(d.units.size, np.int32)
            side[transfer.units] = 0
            given, kept = part_by_text(d, part, side)
        if not self._may_take(taker, given):
            return False
        numbers = self._growing.numbers(2)
        before = giver.load, taker.load
        giver.leaves[numbers[0]] = kept
        del giver.leaves[leaf]
        taker.leaves[numbers[1]] = given
        giver.weigh(d)
        taker.weigh(d)
        if max(giver.load, taker.load) >= _ENOUGH * before[0]:
            del giver.leaves[numbers[0]], taker.leaves[numbers[1]]
            giver.leaves[leaf] = part
            giver.load, taker.load = before
            return False
        keeps, gives = Leaf(numbers[0]), Leaf(numbers[1])
        if transfer.units is not None:
            self._growing.split(leaf, TextSplit(side, (gives, keeps)))
        elif transfer.low:
            self._growing.split(leaf, SpaceSplit(transfer.axis, transfer.line, gives, keeps))
        else:
            self._growing.split(leaf, SpaceSplit(transfer.axis, transfer.line, keeps, gives))
        return True

    def tree(self) -> Tree:
        """The tree as it is now, with workers at its leaves."""
        worker = {leaf: at for at, holding in enumerate(self._holdings) for leaf in holding.leaves}
        return self._growing.finished(worker)


def _distance(one: Rect, other: Rect) -> int:
    """How many columns or rows of cells lie between two rects, whichever is more; 0 if none."""
    across = max(one.west - other.east, other.west - one.east)
    along = max(one.south - other.north, other.south - one.north)
    return max(across, along, 0)


def _go_together(one: CellSlice, other: CellSlice) -> bool:
    """Whether a worker may have two parts that are close to each other."""
    return one.rect == other.rect or bool((one.text == other.text).all())


def _best_transfer(d: Digest, part: CellSlice, rest: float, taker: float) -> _Transfer | None:
    """Find what to give of a part so that the heavier of giver and taker has least.

    `rest` is what else the giver has, `taker` what the taker has. What the two hold in common is
    not seen here, so the taker may turn out lighter.
    """
    transfers: list[_Transfer] = []
    for axis in (COLUMNS, ROWS):
        low, high = part.rect[axis], part.rect[axis + 2]
        if high - low < 2:
            continue
        before, after, _ = space_profile(
            d.message, (d.column, d.row)[axis], d.cost, d.cost, part.hits, d.spans, part.rows,
            axis, low, high, d.message_ns, d.row_ns,
        )  # fmt: skip
        before, after = before[1:-1], after[1:-1]
        for give, keep, is_low in ((before, after, True), (after, before, False)):
            heavier = np.maximum(give + taker, keep + rest)
            best = int(np.argmin(heavier))
            transfers.append(_Transfer(float(heavier[best]), axis, low + 1 + best, is_low))
    transfers += _text_transfers(d, part, rest, taker)
    return min(transfers, key=lambda transfer: transfer.heavier) if transfers else None


def _text_transfers(d: Digest, part: CellSlice, rest: float, taker: float) -> list[_Transfer]:
    if len(part.units) < 2:
        return []
    load = sums(d.unit[part.hits], d.cost[part.hits], d.units.size)
    load += d.row_ns * np.bincount(d.row_unit[part.rows], minlength=d.units.size)
    load = load[part.units]
    order = np.argsort(-load, kind="stable")
    wanted = (rest + float(load.sum()) - taker) / 2
    chosen, given = [], 0.0
    for at in order[:-1].tolist():
        if given + load[at] <= wanted:
            given += float(load[at])
            chosen.append(at)
    if not chosen:
        return []
    units = part.units[np.array(chosen)]
    side = np.ones(d.units.size, np.int32)
    side[units] = 0
    gives, keeps = side_loads(d, part, side).tolist()
    return [_Transfer(max(gives + taker, keeps + rest), units=units)]
