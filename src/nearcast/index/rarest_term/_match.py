"""Matching: the runs of a message's terms, their trees, and the rows that are left."""

from __future__ import annotations

import math

import numpy as np

from nearcast._jit import lean_kernel
from nearcast.arrays.lanes import (
    LANES,
    bit_count,
    lowest,
    meets,
    not_negative,
    overlaps,
    pack,
    prefetch,
    repeat,
    rounded_down,
    rounded_up,
)
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.rarest_term._layout import (
    CHILDREN,
    LEAF_RUN,
    RECORD,
    ROUND,
    ROW,
    ROWS,
    SECOND,
    SECONDS,
    SHORT,
    THIRD,
    THIRDS,
    RarestTermArrays,
)
from nearcast.index.rarest_term._round import INSIDE, OUTSIDE, UNSURE, compare_round
from nearcast.index.table import Parts, Rows
from nearcast.index.verify import Bitmap, accepts_box, accepts_place, accepts_text

_FAR, _NEAR = 48, 24  # how many terms ahead a run, and then what it names, is asked for


@lean_kernel
def match_batch(
    state: RarestTermArrays,
    rows: Parts,
    shapes: Rows | None,
    starts: Int64s,
    terms: Int32s,
    boxes: Floats,
    bitmap: Bitmap,
    queue: Int64s,
    start: int,
    messages: Int32s,
    found: Int32s,
) -> tuple[int, int, int, bool]:
    """Match messages from `start` on while what they find fits into `messages` and `found`.

    The terms of message m are `terms[starts[m] : starts[m + 1]]`, its box is `boxes[m]`. The last
    word of `bitmap` is all ones, the others, which have a bit for each term, are zero before and
    after. `queue` is scratch. Without `shapes` all rows are plain boxes, and the check of circles
    and polygons need not even be compiled; most circles are decided by their records. Gives the
    next message, the pairs written, the records looked at, and whether it stopped for want of room
    in the queue.
    """
    runs, memory, ints = state.runs, state.memory, state.ints
    known = 64 * (len(bitmap) - 1)
    limit = min(len(runs) // 2, known)
    final = starts[len(boxes)]
    half = len(queue) // 2
    written = looked = 0
    for message in range(start, len(boxes)):
        mark, seen = written, looked
        west, south = boxes[message, 0], boxes[message, 1]
        east, north = boxes[message, 2], boxes[message, 3]
        # Records have 32-bit sides: the box is rounded outward to rule rows out, inward to be sure.
        west_lo, west_hi = rounded_down(west), rounded_up(west)
        south_lo, south_hi = rounded_down(south), rounded_up(south)
        east_lo, east_hi = rounded_down(east), rounded_up(east)
        north_lo, north_hi = rounded_down(north), rounded_up(north)
        first, last = starts[message], starts[message + 1]
        at_point, sine, cosine = False, 0.0, 0.0
        if shapes is not None and west == east and south == north:
            at_point, sine = True, math.sin(math.radians(south))
            cosine = math.cos(math.radians(south))
        # Set the bits of the terms.
        for at in range(first, last):
            term = wide(terms[at])
            if term < known:
                bitmap[term >> 6] |= np.uint64(1) << np.uint64(term & 63)
        tail = 0  # nodes to visit are in the first half of the queue, leaves in the second
        scans = half
        fits = last - first <= half
        full = not fits
        if fits:
            for at in range(first, last):
                # Ask early for runs, and for what they name.
                if at + _FAR < final:
                    ahead = wide(terms[at + _FAR])
                    if ahead < limit:
                        prefetch(runs, 2 * ahead)
                if at + _NEAR < final:
                    ahead = wide(terms[at + _NEAR])
                    if ahead < limit:
                        kind, base = runs[2 * ahead], wide(runs[2 * ahead + 1]) * RECORD
                        if kind > 0:
                            prefetch(ints, base)
                        elif kind < 0:
                            for line in range(0, 80, 16):
                                prefetch(ints, base + line)
                # Look up the run of a term: nothing, a leaf, a tree, or a few records.
                term = wide(terms[at])
                if term >= limit:
                    continue
                kind, unit = wide(runs[2 * term]), wide(runs[2 * term + 1])
                if kind == 0:
                    continue
                if kind == LEAF_RUN:
                    queue[scans] = unit
                    scans += 1
                    continue
                if kind < 0:
                    queue[tail] = (unit << 8) | (LEAF_RUN - kind)
                    tail += 1
                    continue
                # A short run: check its records here.
                if written + SHORT > len(found):
                    fits = False
                    break
                looked += kind
                for base in range(unit * RECORD, (unit + kind) * RECORD, RECORD):
                    x0, y0 = memory[base], memory[base + 1]
                    x1, y1 = memory[base + 2], memory[base + 3]
                    # Box first, then the other two terms; the exact check only where these do not
                    # settle it.
                    if (x0 <= east_hi) & (y0 <= north_hi) & (x1 >= west_lo) & (y1 >= south_lo):
                        second, third = wide(ints[base + SECOND]), wide(ints[base + THIRD])
                        has = bitmap[second >> 6] >> np.uint64(second & 63)
                        has &= bitmap[third >> 6] >> np.uint64(third & 63)
                        if has & np.uint64(1):
                            row = wide(ints[base + ROW])
                            if row < 0 or not (
                                (x0 < east_lo) & (y0 < north_lo) & (x1 > west_hi) & (y1 > south_hi)
                            ):
                                row = row if row >= 0 else ~row
                                verdict = UNSURE
                                if at_point and third == ROUND:
                                    verdict = compare_round(
                                        memory, base, 1, west, south, sine, cosine
                                    )
                                if verdict == OUTSIDE:
                                    continue
                                if verdict == INSIDE:
                                    near = True
                                elif shapes is None:
                                    near = accepts_box(rows.box, row, west, south, east, north)
                                else:
                                    near = accepts_place(shapes, row, west, south, east, north)
                                if verdict == UNSURE and not (
                                    near and accepts_text(rows, row, bitmap)
                                ):
                                    continue
                            messages[written] = message
                            found[written] = row
                            written += 1
        # Descend the trees breadth first; leaves are queued to be scanned.
        head = 0
        while fits and head < tail:
            base, height = (queue[head] >> 8) * RECORD, queue[head] & 255
            head += 1
            mask = meets(memory, base, west_lo, south_lo, east_hi, north_hi)
            if tail + LANES > half or scans + LANES > len(queue):
                fits = False
                full = True
                break
            while mask:
                child = wide(ints[base + CHILDREN + lowest(mask)])
                mask &= mask - 1
                if height == 1:
                    for line in range(0, 112, 16):
                        prefetch(ints, child * RECORD + line)
                    queue[scans] = child
                    scans += 1
                else:
                    for line in range(0, 80, 16):
                        prefetch(ints, child * RECORD + line)
                    queue[tail] = (child << 8) | (height - 1)
                    tail += 1
        # Scan the leaves, sixteen records at a time.
        if fits:
            looked += (scans - half) * LANES
            for scan in range(half, scans):
                base = queue[scan] * RECORD
                mask = meets(memory, base, west_lo, south_lo, east_hi, north_hi)
                if mask == 0:
                    continue
                if written + LANES > len(found):
                    fits = False
                    break
                # Drop records whose second or third term the message lacks.
                texts = mask & not_negative(ints, base + SECONDS)
                while texts:
                    lane = base + lowest(texts)
                    second, third = wide(ints[lane + SECONDS]), wide(ints[lane + THIRDS])
                    has = bitmap[second >> 6] >> np.uint64(second & 63)
                    has &= bitmap[third >> 6] >> np.uint64(third & 63)
                    bit = texts & -texts
                    texts ^= bit
                    if not has & np.uint64(1):
                        mask ^= bit
                # Write the rows that are sure at once, and check the others exactly.
                sure = mask & overlaps(memory, base, west_hi, south_hi, east_lo, north_lo)
                sure &= not_negative(ints, base + ROWS)
                pack(ints, base + ROWS, sure, found, written)
                repeat(message, messages, written)
                written += bit_count(sure)
                mask ^= sure
                while mask:
                    lane = base + lowest(mask)
                    row = wide(ints[lane + ROWS])
                    mask &= mask - 1
                    row = row if row >= 0 else ~row
                    verdict = UNSURE
                    if at_point and ints[lane + THIRDS] == ROUND:
                        verdict = compare_round(memory, lane, LANES, west, south, sine, cosine)
                    if verdict == OUTSIDE:
                        continue
                    if verdict == INSIDE:
                        near = True
                    elif shapes is None:
                        near = accepts_box(rows.box, row, west, south, east, north)
                    else:
                        near = accepts_place(shapes, row, west, south, east, north)
                    if verdict == INSIDE or (near and accepts_text(rows, row, bitmap)):
                        messages[written] = message
                        found[written] = row
                        written += 1
        # Clear the bits of the terms.
        for at in range(first, last):
            term = wide(terms[at])
            if term < known:
                bitmap[term >> 6] = np.uint64(0)
        if not fits:
            return message, mark, seen, full
    return len(boxes), written, looked, False
