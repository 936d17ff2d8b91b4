"""Kernels of the AP+-Tree: what moves and new subscriptions change (section 4.2.5)."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inner, lean_kernel
from nearcast.active.kernels.candidates import (
    KNOWN,
    Ops,
    ask_for_candidates,
    keep_matching,
    report,
)
from nearcast.active.kernels.entries import KNOWN_BITS, UNSURE, pick_entries
from nearcast.active.kernels.layout import COUNT, HEAD, PIECE, UNIT, ActiveArrays, signature
from nearcast.active.kernels.moves import DONE, MORE_FOUND, MORE_ROOM
from nearcast.active.kernels.visit import pick_areas, pick_numbered
from nearcast.arrays.lanes import prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Floats, Int32s, Int64s
from nearcast.index.ap_tree.maintain import ranks_of, way_of
from nearcast.index.ap_tree.tree import CHILD, ApTreeArrays
from nearcast.index.table import Rows
from nearcast.index.verify import accepts_place

MORE_VISITED = 7
_NO_MORE = -1  # of what `_pick` gives


@inner
def _is_unchanged(regions: Floats, at: int, old: Floats, row: int, new: Floats, move: int) -> bool:
    """Return whether two boxes cover the same part of a region (case 1)."""
    return bool(
        (max(regions[at, 0], old[row, 0]) == max(regions[at, 0], new[move, 0]))
        & (max(regions[at, 1], old[row, 1]) == max(regions[at, 1], new[move, 1]))
        & (min(regions[at, 2], old[row, 2]) == min(regions[at, 2], new[move, 2]))
        & (min(regions[at, 3], old[row, 3]) == min(regions[at, 3], new[move, 3]))
    )


@inner
def _ask_for_nodes(tree: ApTreeArrays, state: ActiveArrays, visited: Int64s, size: int) -> None:
    """Turn slots into their nodes, and ask for the lists of these."""
    for at in range(size):
        visited[at, 0] = tree.slots[visited[at, 0], CHILD]
        if visited[at, 0] >= 0:
            prefetch(state.heads, visited[at, 0] * HEAD)
    for at in range(size):
        if visited[at, 0] >= 0:
            prefetch(state.ints, wide(state.heads[visited[at, 0] * HEAD + PIECE]) * UNIT)


@inner
def _pick(
    state: ActiveArrays, node: int, old: Float32s, new: Float32s, sure: bool, sign: int,
    found: Int32s, filled: int, seen: Int64s, stamp: int, looked_at: Int64s, numbered: bool,
) -> int:  # fmt: skip
    """Write down the messages of a list that a move may concern and that are not noted yet.

    Gives how many are in `found` then; -1 if it has no room for all of the list.
    """
    entries = wide(state.heads[node * HEAD + COUNT])
    if filled + entries > len(found):
        return _NO_MORE
    base = wide(state.heads[node * HEAD + PIECE]) * UNIT
    looked_at[0] += entries
    looked_at[1] += 1
    mine = filled
    if numbered:
        filled = pick_numbered(state, base, entries, old, new, found, filled)
    else:
        filled = pick_entries(state, base, entries, old, new, sure, sign, found, filled)
    kept = mine
    for at in range(mine, filled):
        slot = wide(found[at]) >> KNOWN_BITS
        if seen[slot] != stamp:
            seen[slot] = stamp
            found[kept] = found[at]
            kept += 1
    return kept


@inner
def _pick_ranges(state: ActiveArrays, sign: int, found: Int32s, filled: int) -> int:
    """Write down all range messages that may have the terms; -1 if there is no room for them."""
    if not len(state.areas):
        return filled
    if filled + wide(state.areas[COUNT]) > len(found):
        return _NO_MORE
    return pick_areas(state, wide(0), sign, found, filled)


@inner
def _signature_of(rows: Rows, row: int) -> int:
    sign = wide(0)
    for at in range(rows.first[row], rows.first[row] + rows.required[row]):
        sign |= signature(rows.terms[at])
    return sign


@lean_kernel
def tree_moves(
    tree: ApTreeArrays, rows: Rows, rank: Int32s, state: ActiveArrays, share: float, which: Int32s,
    events: Int32s, times: Floats, boxes: Floats, circles: Floats, start: int, marks: Int64s,
    seen: Int64s, stamp: int, found: Int32s, out_events: Int32s, out_slots: Int32s, out_ops: Ops,
    work: Float32s, ranks: Int32s, before: Int64s, after: Int64s, looked_at: Int64s,
    numbered: bool,
) -> tuple[int, int, int]:  # fmt: skip
    """Find what changes when rows get other boxes, or circles (Algorithms 6 and 7).

    Row `which[i]` moves in event `events[i]`, at `times[events[i]]`, to `boxes[i]`, and to
    `circles[i]` in it if there are circles. The lists of all nodes that it visits with either box
    are gone through, but for those of which a box covers the same part as before (case 1). A
    message may be in several of them: in that of a dummy cell and of a cell, or in the root's.

    Updates go to `out_events`, `out_slots` and `out_ops`. Scratch: `found` for candidates, `work`
    for two boxes, `ranks` for the terms of a row, `before` and `after` for its nodes, (n, 2) each,
    and `marks` and `seen`, a number for each node and for each message, none above 2 * `stamp` + 1.
    `looked_at` counts entries and lists. If `numbered`, no use is made of what entries say besides
    the number of the message. Gives the row that it stopped in front of, what is written, and why
    it stopped.
    """
    written = wide(0)
    old, new = work[:4], work[4:8]
    sure = len(circles) == 0
    for i in range(start, len(which)):
        row, mark = wide(which[i]), written
        # Find the nodes that the row visits with either box.
        count = ranks_of(rows, rank, row, ranks)
        left = right = -1
        if count >= 0:
            left = way_of(tree, rows.box, row, ranks, count, share, before)
            right = way_of(tree, boxes, i, ranks, count, share, after)
        if left < 0 or right < 0:
            return i, mark, MORE_VISITED
        _ask_for_nodes(tree, state, before, left)
        _ask_for_nodes(tree, state, after, right)
        # Mark the nodes before, and those before and after.
        stamp += 1
        for at in range(left):
            if before[at, 0] >= 0:
                marks[before[at, 0]] = 2 * stamp
        for at in range(right):
            if after[at, 0] >= 0 and marks[after[at, 0]] == 2 * stamp:
                marks[after[at, 0]] = 2 * stamp + 1
        # What entries are compared with: a signature of the terms, and both boxes.
        sign = _signature_of(rows, row)
        for side in range(4):
            old[side], new[side] = rows.box[row, side], boxes[i, side]
        # Collect candidates: all nodes before, and those after that are new.
        filled = _pick_ranges(state, sign, found, wide(0))
        for at in range(left + right):
            node = before[at, 0] if at < left else after[at - left, 0]
            if node < 0 or filled < 0 or state.heads[node * HEAD + COUNT] == 0:
                continue
            both = marks[node] == 2 * stamp + 1
            if at >= left and both:
                continue
            if (
                both
                and sure
                and _is_unchanged(tree.regions, tree.nodes[node].region, rows.box, row, boxes, i)
            ):
                continue
            filled = _pick(
                state, node, old, new, sure, sign, found, filled, seen, 2 * stamp, looked_at,
                numbered,
            )  # fmt: skip
        if filled < 0:
            return i, mark, MORE_FOUND
        # Check their text and time, and write the updates.
        ask_for_candidates(state, found, filled)
        filled = keep_matching(state, rows, row, times[events[i]], found, wide(0), filled, wide(0))
        if written + filled > len(out_slots):
            return i, mark, MORE_ROOM
        written = report(
            state, rows, row, boxes, circles, i, events[i], found, wide(0), filled, out_events,
            out_slots, out_ops, written,
        )  # fmt: skip
    return len(which), written, DONE


@lean_kernel
def tree_matches(
    tree: ApTreeArrays, rows: Rows, rank: Int32s, state: ActiveArrays, share: float, which: Int32s,
    events: Int32s, times: Floats, start: int, seen: Int64s, stamp: int, found: Int32s,
    out_events: Int32s, out_slots: Int32s, work: Float32s, ranks: Int32s, visited: Int64s,
    looked_at: Int64s,
) -> tuple[int, int, int]:  # fmt: skip
    """Find the messages that match rows as the table has them (Algorithm 7 from the root).

    All are new to a row: its old box is none, from inf to -inf. Arguments are those of
    `tree_moves`.
    """
    written = wide(0)
    old, new = work[:4], work[4:8]
    for i in range(start, len(which)):
        row, mark = wide(which[i]), written
        count = ranks_of(rows, rank, row, ranks)
        size = -1
        if count >= 0:
            size = way_of(tree, rows.box, row, ranks, count, share, visited)
        if size < 0:
            return i, mark, MORE_VISITED
        _ask_for_nodes(tree, state, visited, size)
        stamp += 1
        sign = _signature_of(rows, row)
        for side in range(2):
            old[side], old[side + 2] = np.inf, -np.inf
        for side in range(4):
            new[side] = rows.box[row, side]
        # Collect candidates; the table decides about the place of each.
        filled = _pick_ranges(state, sign, found, wide(0))
        for at in range(size):
            node = visited[at, 0]
            if node >= 0 and filled >= 0 and state.heads[node * HEAD + COUNT]:
                filled = _pick(
                    state, node, old, new, False, sign, found, filled, seen, 2 * stamp, looked_at,
                    False,
                )  # fmt: skip
        if filled < 0:
            return i, mark, MORE_FOUND
        ask_for_candidates(state, found, filled)
        filled = keep_matching(state, rows, row, times[events[i]], found, wide(0), filled, wide(0))
        if written + filled > len(out_slots):
            return i, mark, MORE_ROOM
        for at in range(filled):
            slot = wide(found[at]) >> KNOWN_BITS
            if found[at] & KNOWN == UNSURE and not accepts_place(
                rows, row, state.messages[slot, 0], state.messages[slot, 1],
                state.messages[slot, 2], state.messages[slot, 3],
            ):  # fmt: skip
                continue
            out_events[written] = events[i]
            out_slots[written] = slot
            written += 1
    return len(which), written, DONE
