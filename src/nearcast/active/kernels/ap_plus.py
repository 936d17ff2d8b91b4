"""Kernels of the AP+-Tree: messages in the lists of the leaves they visit (section 4.2)."""

from __future__ import annotations

import numpy as np

from nearcast._jit import inner, kernel, lean_kernel
from nearcast.active.kernels.candidates import (
    Ops,
    ask_for_candidates,
    keep_matching,
    report,
)
from nearcast.active.kernels.cells import add_entry, room_wanted
from nearcast.active.kernels.entries import CAME, WENT, pick_entries
from nearcast.active.kernels.heap import push
from nearcast.active.kernels.layout import (
    CLASS,
    COUNT,
    END,
    GIVEN,
    HEAD,
    LIVE,
    NOTHING,
    PIECE,
    SLOT,
    SLOTS,
    TERMS,
    UNIT,
    USED,
    ActiveArrays,
    class_for,
    give_back,
    room_in_arena,
    room_to_take,
    signature,
    single,
    take,
)
from nearcast.active.kernels.moves import DONE, MORE_FOUND, MORE_ROOM
from nearcast.active.kernels.visit import keep_only, pick_numbered
from nearcast.arrays.in_kernels import longer, sort, taller
from nearcast.arrays.lanes import prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Float32s, Floats, Int32s, Int64s
from nearcast.index.ap_tree.maintain import leaf_at, ranks_of, way_of
from nearcast.index.ap_tree.search import push_cells, push_cuts, scan_leaf
from nearcast.index.ap_tree.tree import (
    CHILD,
    KEYWORD,
    LEAF,
    NODES,
    REGIONS,
    SPATIAL,
    ApTreeArrays,
    find_cut,
    rank_of,
    strip_of,
)
from nearcast.index.table import Rows
from nearcast.index.verify import Bitmap, clear_terms, set_terms

MORE_NODES, MORE_UNITS, MORE_SLOTS = 4, 5, 6


@kernel
def _cell_leaves(tree: ApTreeArrays, node: int, box: Floats, capacity: int) -> bool:
    """Make the leaves of a grid that a message will visit and that are not there yet.

    The paper has a leaf for every cell. Here those without subscriptions are made when a message
    comes, so that a subscription that moves there later finds it. False if there is no room for
    them.
    """
    columns, edges = tree.nodes[node].room, tree.nodes[node].aux
    lines = tree.nodes[node].count // columns
    column = strip_of(tree.edges, edges, columns, box[0])
    line = strip_of(tree.edges, edges + columns - 1, lines, box[1])
    first = tree.nodes[node].first
    if tree.sizes[NODES] + 2 > len(tree.nodes) or tree.sizes[REGIONS] + 2 > len(tree.regions):
        return False
    for slot in (first + line * columns + column, first + tree.nodes[node].count):
        if tree.slots[slot, CHILD] < 0:
            leaf_at(tree, slot, node, capacity)
    return True


@kernel
def _dummy_leaf(tree: ApTreeArrays, node: int, capacity: int) -> bool:
    """Make the leaf for rows without a further term if it is not there; False without room."""
    if tree.sizes[NODES] + 1 > len(tree.nodes):
        return False
    slot = tree.nodes[node].first + tree.nodes[node].count
    if tree.slots[slot, CHILD] < 0:
        leaf_at(tree, slot, node, capacity)
    return True


@kernel
def _push_near_cuts(
    tree: ApTreeArrays, node: int, ranks: Int32s, start: int, stack: Int64s, height: int
) -> int:
    """Note the cuts that a term from `start` on falls into or beside.

    A subscription that comes from another cell with a term between two cuts joins one of the two,
    so that a message with such a term has to be in both.
    """
    first, cuts, count = tree.nodes[node].first, tree.nodes[node].aux, tree.nodes[node].count
    cut, last = 0, -1
    for at in range(start, len(ranks)):
        cut = find_cut(tree, cuts, cut, count, ranks[at])
        between = cut == count or tree.cuts[cuts + cut, 0] > ranks[at]
        for near in range(cut - 1 if between else cut, min(cut, count - 1) + 1):
            if near > last:
                last = near
                child = tree.slots[first + near, CHILD]
                used = tree.nodes[child].offset - tree.nodes[node].offset
                stack[height, 0], stack[height, 1] = child, at + used
                height += 1
    return height


@inner
def _keep(
    state: ActiveArrays, starts: Int64s, terms: Int32s, boxes: Floats, ends: Floats, message: int,
    keepers: Int64s, count: int,
) -> int:  # fmt: skip
    """Put a message into the lists of some nodes; say why if there is no room."""
    ints, counts = state.ints, state.counts
    first, stop = starts[message], starts[message + 1]
    own = class_for((stop - first + UNIT) // UNIT)
    wanted = room_to_take(own)
    for at in range(count):
        wanted += room_wanted(state.heads, ints, keepers[at] * HEAD, wide(NOTHING))
    if counts[USED] + wanted > room_in_arena(state):
        return MORE_UNITS
    if counts[GIVEN] == 0 and counts[SLOTS] == len(state.messages):
        return MORE_SLOTS
    if counts[GIVEN] > 0:
        counts[GIVEN] -= 1
        slot = wide(state.spare[counts[GIVEN]])
    else:
        slot = wide(counts[SLOTS])
        counts[SLOTS] += 1
    piece = take(state, own)
    sign = wide(0)
    ints[piece * UNIT] = stop - first
    for at in range(first, stop):
        ints[piece * UNIT + 1 + at - first] = terms[at]
        sign |= signature(terms[at])
    for side in range(4):
        state.messages[slot, side] = boxes[message, side]
    state.messages[slot, END], state.messages[slot, TERMS] = ends[message], piece
    x, y = single(boxes[message, 0]), single(boxes[message, 1])
    for at in range(count):
        add_entry(state, state.heads, keepers[at] * HEAD, wide(NOTHING), x, y, slot, sign)
    push(state.heap, state.due_at, counts[LIVE], slot, ends[message])
    counts[LIVE] += 1
    return DONE


@kernel
def match_and_keep(
    tree: ApTreeArrays,
    rows: Rows,
    rank: Int32s,
    state: ActiveArrays,
    starts: Int64s,
    terms: Int32s,
    boxes: Floats,
    ends: Floats,
    bitmap: Bitmap,
    most: int,
    capacity: int,
    report_rows: bool,
    start: int,
    messages: Int32s,
    found: Int32s,
) -> tuple[int, int, int]:
    """Match point messages (Algorithm 1), and keep each in the lists of the leaves it visits.

    The terms of message m are `terms[starts[m] : starts[m + 1]]`; its point, as a box, is
    `boxes[m]`, and it is active until `ends[m]`. `rank` holds the place of each term in the order
    of terms. `bitmap` has a bit for each term, all zero before and after. A message that is in
    `most` lists already is not pushed further down: it stays in the lists of the nodes that were to
    be visited next. With `report_rows` the pairs found go to `messages` and `found`. Gives the next
    message, the pairs written, and why it stopped.
    """
    written = 0
    ranks = np.empty(16, np.int32)
    stack = np.empty((256, 2), np.int64)
    keepers = np.empty(256, np.int64)
    for message in range(start, len(boxes)):
        mark = written
        begin, end = starts[message], starts[message + 1]
        box = boxes[message]
        if end - begin > len(ranks):
            ranks = np.empty(2 * (end - begin), np.int32)
        # Sort the ranks of the terms that some row has required.
        known = 0
        for at in range(begin, end):
            ranks[known] = rank_of(rank, terms[at])
            if ranks[known] >= 0:
                known += 1
        sort(ranks, 0, known)
        own = ranks[:known]
        set_terms(bitmap, terms, begin, end)
        # Descend from the root, and note in `keepers` the nodes that keep the message.
        stack[0, 0], stack[0, 1] = 0, 0
        height, copies, why = 1, 0, DONE
        while height and why == DONE:
            height -= 1
            node, eta = stack[height, 0], stack[height, 1]
            first, count, kind = (
                tree.nodes[node].first, tree.nodes[node].count, tree.nodes[node].kind,
            )  # fmt: skip
            if kind == LEAF or copies + height >= most:
                keepers = longer(keepers, copies + 1)
                keepers[copies] = node
                copies += 1
            # A leaf: report its rows.
            if kind == LEAF:
                if report_rows:
                    region = tree.regions[tree.nodes[node].region]
                    after = scan_leaf(
                        tree.entries, first, first + count, rows, box, region, bitmap, message,
                        messages, found, written,
                    )  # fmt: skip
                    if after < 0:
                        why = MORE_ROOM
                    else:
                        written = after
                continue
            # A node that keeps the message: only matching goes on below it.
            held = copies > 0 and keepers[copies - 1] == node
            if held and not report_rows:
                continue
            # A message must find a leaf wherever a subscription may move to later.
            if not held:
                if kind == SPATIAL and not _cell_leaves(tree, node, box, capacity):
                    why = MORE_NODES
                if kind == KEYWORD and not _dummy_leaf(tree, node, capacity):
                    why = MORE_NODES
                if why != DONE:
                    continue
            # Push the children that the message hits.
            dummy = tree.slots[first + count, CHILD]
            before = height
            if kind == KEYWORD:
                stack = taller(stack, height + 2 * (len(own) - eta) + 2)
                height = _push_near_cuts(tree, node, own, eta, stack, height)
            else:
                stack, height = push_cells(tree, node, eta, box, stack, height)
            if dummy >= 0:
                stack = taller(stack, height + 1)
                stack[height, 0], stack[height, 1] = dummy, eta
                height += 1
            if held:
                written = _scan_below(
                    tree, stack, before, height, own, rows, box, bitmap, message, messages, found,
                    written,
                )  # fmt: skip
                height = before
                if written < 0:
                    why = MORE_ROOM
        # Enter the message into the lists of the nodes noted.
        clear_terms(bitmap, terms, begin, end)
        if why == DONE:
            why = _keep(state, starts, terms, boxes, ends, message, keepers, copies)
        if why != DONE:
            return message, mark, why
    return len(boxes), written, DONE


@kernel
def _scan_below(
    tree: ApTreeArrays, given: Int64s, low: int, high: int, own: Int32s, rows: Rows, box: Floats,
    bitmap: Bitmap, message: int, messages: Int32s, found: Int32s, written: int,
) -> int:  # fmt: skip
    """Match only, from some nodes on; -1 if there is no room for what is found."""
    stack = np.empty((256, 2), np.int64)
    stack = taller(stack, high - low)
    height = 0
    for at in range(low, high):
        stack[height, 0], stack[height, 1] = given[at, 0], given[at, 1]
        height += 1
    while height:
        height -= 1
        node, eta = stack[height, 0], stack[height, 1]
        first, count = tree.nodes[node].first, tree.nodes[node].count
        if tree.nodes[node].kind == LEAF:
            region = tree.regions[tree.nodes[node].region]
            written = scan_leaf(
                tree.entries, first, first + count, rows, box, region, bitmap, message, messages,
                found, written,
            )  # fmt: skip
            if written < 0:
                return -1
            continue
        dummy = tree.slots[first + count, CHILD]
        if tree.nodes[node].kind == KEYWORD:
            stack = taller(stack, height + len(own) - eta + 1)
            height = push_cuts(tree, node, own, eta, stack, height)
        else:
            stack, height = push_cells(tree, node, eta, box, stack, height)
        if dummy >= 0:
            stack = taller(stack, height + 1)
            stack[height, 0], stack[height, 1] = dummy, eta
            height += 1
    return written


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


@lean_kernel
def tree_moves(
    tree: ApTreeArrays, rows: Rows, rank: Int32s, state: ActiveArrays, share: float, which: Int32s,
    events: Int32s, times: Floats, boxes: Floats, start: int, marks: Int64s, stamp: int,
    found: Int32s, out_events: Int32s, out_slots: Int32s, out_ops: Ops, work: Float32s,
    ranks: Int32s, before: Int64s, after: Int64s, looked_at: Int64s, numbered: bool,
) -> tuple[int, int, int]:  # fmt: skip
    """Find what changes when rows get other boxes (Algorithms 6 and 7).

    Row `which[i]` moves in event `events[i]`, at `times[events[i]]`, to `boxes[i]`. Lists of nodes
    that a row leaves (case 2) give what went, of nodes it comes to (case 4) what came, of nodes it
    stays in (case 3) both, unless it covers the same part of them (case 1). A message is in one
    list only of those that a row visits, so nothing is given twice.

    Updates go to `out_events`, `out_slots` and `out_ops`. Scratch: `found` for candidates, `work`
    for two boxes, `ranks` for the terms of a row, `before` and `after` for its nodes, (n, 2) each,
    and `marks`, a number for each node and none above 2 * `stamp` + 1. `looked_at` counts entries
    and lists. If `numbered`, no use is made of what entries say besides the number of the message.
    Gives the row that it stopped in front of, what is written, and why it stopped.
    """
    written = wide(0)
    old, new = work[:4], work[4:8]
    for i in range(start, len(which)):
        row, mark = wide(which[i]), written
        # Find the nodes that the row visits with either box.
        count = ranks_of(rows, rank, row, ranks)
        left = right = -1
        if count >= 0:
            left = way_of(tree, rows.box, row, ranks, count, share, before)
            right = way_of(tree, boxes, i, ranks, count, share, after)
        if left < 0 or right < 0:
            return i, mark, MORE_NODES
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
        sign = wide(0)
        for at in range(rows.first[row], rows.first[row] + count):
            sign |= signature(rows.terms[at])
        for side in range(4):
            old[side], new[side] = rows.box[row, side], boxes[i, side]
        # Collect candidates: all nodes before, and those after that are new.
        filled = wide(0)
        for at in range(left + right):
            node = before[at, 0] if at < left else after[at - left, 0]
            if node < 0:
                continue
            both = marks[node] == 2 * stamp + 1
            if at >= left and both:
                continue
            head = node * HEAD
            entries = wide(state.heads[head + COUNT])
            if entries == 0:
                continue
            if both and _is_unchanged(
                tree.regions, tree.nodes[node].region, rows.box, row, boxes, i
            ):
                continue
            if filled + entries > len(found):
                return i, mark, MORE_FOUND
            base = wide(state.heads[head + PIECE]) * UNIT
            mine = filled
            looked_at[0] += entries
            looked_at[1] += 1
            # Candidates that a node of one box only gives either all went or all came.
            if numbered:
                filled = pick_numbered(state, base, entries, old, new, found, filled)
            else:
                filled = pick_entries(state, base, entries, old, new, True, sign, found, filled)
            if not both:
                filled = keep_only(
                    state, rows.box[row], boxes[i], found, mine, filled,
                    WENT if at < left else CAME,
                )  # fmt: skip
        # Check their text and time, and write the updates.
        ask_for_candidates(state, found, filled)
        filled = keep_matching(state, rows, row, times[events[i]], found, wide(0), filled, wide(0))
        if written + filled > len(out_slots):
            return i, mark, MORE_ROOM
        written = report(
            state, rows, row, boxes, None, i, events[i], found, wide(0), filled, out_events,
            out_slots, out_ops, written,
        )  # fmt: skip
    return len(which), written, DONE


@lean_kernel
def sweep(state: ActiveArrays, nodes: int, now: float, ended: Int32s) -> None:
    """Take the messages that have ended by now out of all lists; forget the terms of some."""
    ints = state.ints
    for slot in ended:
        piece = wide(state.messages[slot, TERMS])
        give_back(state, piece, class_for((wide(ints[piece * UNIT]) + UNIT) // UNIT))
    for node in range(nodes):
        head = wide(node) * HEAD
        base, count = wide(state.heads[head + PIECE]) * UNIT, wide(state.heads[head + COUNT])
        kept = wide(0)
        for at in range(count):
            if state.messages[ints[base + at * UNIT + SLOT], END] > now:
                for field in range(UNIT):
                    ints[base + kept * UNIT + field] = ints[base + at * UNIT + field]
                kept += 1
        state.heads[head + COUNT] = kept
        if kept == 0 and count > 0:
            give_back(state, base // UNIT, wide(state.heads[head + CLASS]))
