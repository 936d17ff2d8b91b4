"""Bisection on real load: cut a part of space and text in two until each worker has one.

A part with n workers is cut where the heavier side has least to do for each of its workers. Cuts by
space repeat the rows that lie across them; cuts by text repeat the messages that ask for terms of
both sides; whichever costs less is taken. A term too heavy for any worker is set apart, and cut by
space later on.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from nearcast._jit import kernel
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.errors import InvalidValue
from nearcast.partition.digest import Digest, add_hits, sums
from nearcast.partition.kdt import COLUMNS, ROWS, Leaf, Rect, SpaceSplit, TextSplit, Tree, whole

Mask = npt.NDArray[np.bool_]
By = Literal["space", "text", "both", "space-first"]


class CellSlice(NamedTuple):
    """Some cells and units of text: the hits and rows that lie there."""

    rect: Rect
    text: Mask  # which units of text belong to it
    units: Int32s  # those of them that have a hit or a row here
    hits: Int64s
    rows: Int64s


class Cut(NamedTuple):
    """A way to cut a part: by a line, or else by text; `workers` for the first side."""

    score: float
    workers: int
    axis: int = -1
    line: int = 0
    first: Int32s | None = None  # units of the first side, of a cut by text


def everything(digest: Digest) -> CellSlice:
    """All cells, all text."""
    return CellSlice(
        whole(digest.grid),
        np.ones(digest.units.size, np.bool_),
        np.arange(digest.units.size, dtype=np.int32),
        np.arange(len(digest.message), dtype=np.int64),
        np.arange(len(digest.spans), dtype=np.int64),
    )


class Bisection(NamedTuple):
    """A tree whose leaves are numbered, and the part of each leaf."""

    tree: Tree
    parts: list[CellSlice]


def bisect(
    digest: Digest, workers: int, by: By = "both", step: int = 1, passes: int = 6
) -> Bisection:
    """Cut all into as many parts as there are workers; lines lie on multiples of `step` cells.

    `by` says what cuts are made: of space, of text, of whichever is better, or of text only where
    space cannot be cut any further ("space-first").

    How much a region will repeat is not known before it has been cut. So it is cut several times:
    each pass weighs every hit by what the worker that got it had to do in the pass before.
    """
    weight = _first_weights(digest)
    best, heaviest = None, np.inf
    for _ in range(passes):
        parts: list[CellSlice] = []
        tree = _bisected(_Work(digest, weight, by, step, parts), everything(digest), workers)
        loads = [load_of(digest, part) for part in parts]
        for part, load in zip(parts, loads, strict=True):
            total = float(weight[part.hits].sum())
            if total > 0:
                weight[part.hits] *= load / total
        if max(loads) < heaviest:
            best, heaviest = Bisection(tree, parts), max(loads)
    if best is None:
        raise InvalidValue("passes", passes, "1 or more")
    return best


class _Work(NamedTuple):
    digest: Digest
    weight: Floats
    by: By
    step: int
    leaves: list[CellSlice]


def _first_weights(d: Digest) -> Floats:
    """Spread all cost over the hits."""
    hits = max(len(d.message), 1)
    each = np.bincount(d.message, minlength=1)[d.message]
    return np.asarray(d.cost + d.message_ns / each + d.row_ns * len(d.spans) / hits)


def _bisected(work: _Work, part: CellSlice, workers: int) -> Tree:
    cut = best_cut(work.digest, work.weight, part, workers, work.by, work.step)
    if workers == 1 or cut is None:
        work.leaves.append(part)
        return Leaf(len(work.leaves) - 1)
    counts = cut.workers, workers - cut.workers
    if cut.first is None:
        parts = part_by_space(work.digest, part, cut.axis, cut.line)
        low, high = (_bisected(work, one, n) for one, n in zip(parts, counts, strict=True))
        return SpaceSplit(cut.axis, cut.line, low, high)
    side = np.ones(work.digest.units.size, np.int32)
    side[cut.first] = 0
    parts = part_by_text(work.digest, part, side)
    children = [_bisected(work, one, n) for one, n in zip(parts, counts, strict=True)]
    return TextSplit(side, children)


def best_cut(
    d: Digest, weight: Floats, part: CellSlice, workers: int, by: By, step: int = 1
) -> Cut | None:
    """Find the cut that leaves sides even in weight for their workers, and repeats little."""
    if workers < 2:
        return None
    cuts: list[Cut] = []
    if by != "text":
        for axis in (COLUMNS, ROWS):
            cuts += _space_cut(d, weight, part, workers, axis, step)
    if (by == "both" or by == "text" or not cuts) and by != "space":
        cuts += _text_cuts(d, weight, part, workers)
    return min(cuts, key=lambda cut: cut.score) if cuts else None


def _space_cut(
    d: Digest, weight: Floats, part: CellSlice, workers: int, axis: int, step: int
) -> list[Cut]:
    low, high = part.rect[axis], part.rect[axis + 2]
    lines = np.arange((low // step + 1) * step, high, step)
    if not len(lines):
        return []
    before, after, weighed = space_profile(
        d.message, (d.column, d.row)[axis], d.cost, weight, part.hits, d.spans, part.rows,
        axis, low, high, d.message_ns, d.row_ns,
    )  # fmt: skip
    at = lines - low
    first, uneven = _shared_out(weighed[at], weighed[-1] - weighed[at], workers)
    repeated = (before[at] + after[at] + 1e-9) / (before[-1] + 1e-9)
    # Of cuts that are equally good, one in the middle: where there is no load, of the cells.
    middle = np.abs(lines - (low + high) / 2) / (high - low)
    score = uneven * repeated * (1.0 + 1e-6 * middle)
    best = int(np.argmin(score))
    return [Cut(float(score[best]), int(first[best]), axis, int(lines[best]))]


def _shared_out(one: Floats, other: Floats, workers: int) -> tuple[Int64s, Floats]:
    """Share workers out between two sides by weight; and how uneven it is for the heavier one."""
    least = max(1, workers // 4)
    total = one + other + 1e-9
    low = np.clip(np.floor(one / total * workers), least, workers - least)
    high = np.clip(low + 1, least, workers - least)
    score_low = np.maximum(one / low, other / (workers - low))
    score_high = np.maximum(one / high, other / (workers - high))
    return (
        np.where(score_low <= score_high, low, high).astype(np.int64),
        (np.minimum(score_low, score_high) + 1e-9) / total * workers,
    )


def _text_cuts(d: Digest, weight: Floats, part: CellSlice, workers: int) -> list[Cut]:
    if len(part.units) < 2:
        return []
    load = sums(d.unit[part.hits], weight[part.hits], d.units.size)[part.units]
    order = np.argsort(-load, kind="stable")
    units, load = part.units[order], load[order]
    total = float(load.sum()) + 1e-9
    half = workers // 2
    ways = [(units[_fill_up(load, float(half), float(workers - half))], half)]
    # The heaviest term alone, if it is enough for some workers.
    alone = round(float(load[0]) / total * workers)
    if 1 <= alone < workers:
        ways.append((units[:1], alone))
    before = load_of(d, part) + 1e-9
    cuts = []
    for first, count in ways:
        if not 0 < len(first) < len(units):
            continue
        side = np.ones(d.units.size, np.int32)
        side[first] = 0
        repeated = float(side_loads(d, part, side).sum()) / before
        one = float(load[np.isin(units, first)].sum())
        uneven = max(one / count, (total - one) / (workers - count)) / total * workers
        cuts.append(Cut(uneven * repeated, count, first=first))
    return cuts


def load_of(d: Digest, part: CellSlice) -> float:
    """The load of a worker that has this part."""
    message = d.message[part.hits]
    distinct = 1 + np.count_nonzero(message[1:] != message[:-1]) if len(message) else 0
    return float(d.cost[part.hits].sum()) + d.message_ns * distinct + d.row_ns * len(part.rows)


@kernel
def _fill_up(load: Floats, one_share: float, other_share: float) -> Int64s:
    """Deal heavy to light, each to the side with less to do for its share; give the first side."""
    chosen = np.empty(len(load), np.int64)
    count = 0
    one = other = 0.0
    for at in range(len(load)):
        if (one + load[at]) / one_share <= (other + load[at]) / other_share:
            one += load[at]
            chosen[count] = at
            count += 1
        else:
            other += load[at]
    return chosen[:count]


def side_loads(d: Digest, part: CellSlice, side: Int32s) -> Floats:
    """The load of both sides of a cut by text."""
    load, hits = np.zeros(2), part.hits
    add_hits(d.message[hits], side[d.unit[hits]], d.cost[hits], d.message_ns, load)
    return load + d.row_ns * np.bincount(side[d.row_unit[part.rows]], minlength=2)[:2]


@kernel
def space_profile(
    message: Int32s,
    at: Int32s,
    cost: Floats,
    weight: Floats,
    hits: Int64s,
    spans: Int32s,
    rows: Int64s,
    axis: int,
    low: int,
    high: int,
    message_ns: float,
    row_ns: float,
) -> tuple[Floats, Floats, Floats]:
    """Give the load before and after a cut at each line from `low` to `high`, and the weight."""
    size = high - low + 1
    here, weighed = np.zeros(size), np.zeros(size)
    starts, ends = np.zeros(size), np.zeros(size)
    last_message, last_at = -1, -1
    for hit in hits:
        place = at[hit] - low
        here[place] += cost[hit]
        weighed[place + 1] += weight[hit]
        if message[hit] != last_message or place != last_at:
            last_message, last_at = message[hit], place
            here[place] += message_ns
    for row in rows:
        starts[max(spans[row, axis] - low, 0)] += row_ns
        ends[min(spans[row, axis + 2], high - 1) - low] += row_ns
    before, after = np.zeros(size), np.zeros(size)
    for place in range(1, size):
        before[place] = before[place - 1] + here[place - 1] + starts[place - 1]
    for place in range(size - 2, -1, -1):
        after[place] = after[place + 1] + here[place] + ends[place]
    return before, after, np.cumsum(weighed)


def part_by_space(d: Digest, part: CellSlice, axis: int, line: int) -> tuple[CellSlice, CellSlice]:
    """Cut a part along a line."""
    at = (d.column, d.row)[axis][part.hits]
    spans = d.spans[part.rows]
    parts = []
    for rect, hits, rows in zip(
        part.rect.cut_at(axis, line),
        (part.hits[at < line], part.hits[at >= line]),
        (part.rows[spans[:, axis] < line], part.rows[spans[:, axis + 2] >= line]),
        strict=True,
    ):
        parts.append(CellSlice(rect, part.text, _units_at(d, part, hits, rows), hits, rows))
    return parts[0], parts[1]


def _units_at(d: Digest, part: CellSlice, hits: Int64s, rows: Int64s) -> Int32s:
    present = np.zeros(d.units.size, np.bool_)
    present[d.unit[hits]] = True
    present[d.row_unit[rows]] = True
    return part.units[present[part.units]]


def part_by_text(d: Digest, part: CellSlice, side: Int32s) -> tuple[CellSlice, CellSlice]:
    """Cut a part by text in two: units of side 0, and of side 1."""
    units, hits, rows = side[part.units], side[d.unit[part.hits]], side[d.row_unit[part.rows]]
    one, other = (
        CellSlice(
            part.rect,
            part.text & (side == at),
            part.units[units == at],
            part.hits[hits == at],
            part.rows[rows == at],
        )
        for at in (0, 1)
    )
    return one, other
