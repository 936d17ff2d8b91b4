"""Kernels of the AP+-Tree: messages in the lists of the leaves they visit (section 4.2).

The lists are those of `nearcast.active.kernels.layout`, with a node of the tree in place of a term:
the m-list of node n has the head n. Range messages, which the paper does not have, are all in one
list, the first of `areas`.
"""

from __future__ import annotations

import numpy as np

from nearcast._jit import inner, inner_counting, kernel, lean_kernel
from nearcast.active.kernels.cells import add_entry, room_wanted
from nearcast.active.kernels.heap import push
from nearcast.active.kernels.layout import (
    CLASS,
    COUNT,
    END,
    ENTRIES,
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
from nearcast.active.kernels.moves import DONE, MORE_ROOM
from nearcast.arrays.in_kernels import longer, sort, taller
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.ap_tree.maintain import leaf_at
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


@lean_kernel
def take_in(
    state: ActiveArrays, starts: Int64s, terms: Int32s, boxes: Floats, ends: Floats, start: int,
    slots: Int32s,
) -> tuple[int, int]:  # fmt: skip
    """Give messages from `start` on a slot, and note what they are; no list has them yet.

    Gives the next message, and why it stopped.
    """
    ints, counts = state.ints, state.counts
    for message in range(start, len(boxes)):
        first, stop = starts[message], starts[message + 1]
        own = class_for((stop - first + UNIT) // UNIT)
        if counts[USED] + room_to_take(own) > room_in_arena(state):
            return message, MORE_UNITS
        if counts[GIVEN] == 0 and counts[SLOTS] == len(state.messages):
            return message, MORE_SLOTS
        if counts[GIVEN] > 0:
            counts[GIVEN] -= 1
            slot = wide(state.spare[counts[GIVEN]])
        else:
            slot = wide(counts[SLOTS])
            counts[SLOTS] += 1
        piece = take(state, own)
        ints[piece * UNIT] = stop - first
        for at in range(first, stop):
            ints[piece * UNIT + 1 + at - first] = terms[at]
        for side in range(4):
            state.messages[slot, side] = boxes[message, side]
        state.messages[slot, END], state.messages[slot, TERMS] = ends[message], piece
        push(state.heap, state.due_at, counts[LIVE], slot, ends[message])
        counts[LIVE] += 1
        slots[message] = slot
    return len(boxes), DONE


@inner_counting
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


@inner_counting
def _dummy_leaf(tree: ApTreeArrays, node: int, capacity: int) -> bool:
    """Make the leaf for rows without a further term if it is not there; False without room."""
    if tree.sizes[NODES] + 1 > len(tree.nodes):
        return False
    slot = tree.nodes[node].first + tree.nodes[node].count
    if tree.slots[slot, CHILD] < 0:
        leaf_at(tree, slot, node, capacity)
    return True


@inner_counting
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
def _enter(
    state: ActiveArrays, lists: Int32s, slot: int, first: int, stop: int, nodes: Int64s, count: int
) -> bool:
    """Put a message into the lists of some nodes; False if there is no room for that.

    Its terms are `state.ints[first:stop]`.
    """
    wanted = wide(0)
    for at in range(count):
        wanted += room_wanted(lists, state.ints, nodes[at] * HEAD, wide(NOTHING))
    if state.counts[USED] + wanted > room_in_arena(state):
        return False
    sign = wide(0)
    for at in range(first, stop):
        sign |= signature(state.ints[at])
    x, y = single(state.messages[slot, 0]), single(state.messages[slot, 1])
    for at in range(count):
        add_entry(state, lists, nodes[at] * HEAD, wide(NOTHING), x, y, slot, sign)
    return True


@inner_counting
def _eta_at(tree: ApTreeArrays, top: int, ranks: Int32s) -> int:
    """Give the first term of a message that may count at a node: no later one is needed there.

    On the way down, a row in a cut has a term above those of the cut before it.
    """
    way, depth = np.empty(16, np.int64), 0
    node = top
    while node >= 0:
        way = longer(way, depth + 1)
        way[depth] = node
        depth += 1
        node = tree.nodes[node].parent
    eta = 0
    for at in range(depth - 1, 0, -1):
        node, child = way[at], way[at - 1]
        cut = tree.nodes[child].slot - tree.nodes[node].first
        if tree.nodes[node].kind != KEYWORD or cut == tree.nodes[node].count:
            continue
        if cut > 0:
            before = tree.cuts[tree.nodes[node].aux + cut - 1, 1]
            while eta < len(ranks) and ranks[eta] <= before:
                eta += 1
        eta += tree.nodes[child].offset - tree.nodes[node].offset
    return eta


@kernel
def keep_below(
    tree: ApTreeArrays,
    rows: Rows,
    rank: Int32s,
    state: ActiveArrays,
    copies: Int32s,
    slots: Int32s,
    top: int,
    bitmap: Bitmap,
    most: int,
    capacity: int,
    report_rows: bool,
    start: int,
    messages: Int32s,
    found: Int32s,
) -> tuple[int, int, int]:
    """Keep each of the messages `slots[start:]` in the lists of the leaves below a node it visits.

    With `report_rows` they are matched on the way (Algorithm 1): the pairs found go to `messages`
    and `found`. `rank` holds the place of each term in the order of terms. `bitmap` has a bit for
    each term, all zero before and after. `copies` counts, by slot, the lists that have a message:
    one that is in `most` lists, or will be when all nodes noted for it have been visited, is not
    pushed further down; it stays in the list of the node that was to be visited next. Gives the
    next message, the pairs written, and why it stopped.
    """
    written = 0
    ranks = np.empty(16, np.int32)
    stack = np.empty((256, 2), np.int64)
    keepers = np.empty(256, np.int64)
    for message in range(start, len(slots)):
        mark, slot = written, wide(slots[message])
        begin = wide(state.messages[slot, TERMS]) * UNIT + 1
        end = begin + state.ints[begin - 1]
        box = state.messages[slot, :4]
        # A range message: all of them are in one list.
        if box[0] != box[2] or box[1] != box[3]:
            keepers[0] = 0
            if not _enter(state, state.areas, slot, begin, end, keepers, 1):
                return message, mark, MORE_UNITS
            continue
        if end - begin > len(ranks):
            ranks = np.empty(2 * (end - begin), np.int32)
        # Sort the ranks of the terms that some row has required.
        known = 0
        for at in range(begin, end):
            ranks[known] = rank_of(rank, state.ints[at])
            if ranks[known] >= 0:
                known += 1
        sort(ranks, 0, known)
        own = ranks[:known]
        if report_rows:
            set_terms(bitmap, state.ints, begin, end)
        # Descend, and note in `keepers` the nodes that keep the message.
        stack[0, 0], stack[0, 1] = top, _eta_at(tree, top, own) if top else 0
        height, kept, why = 1, 0, DONE
        while height and why == DONE:
            height -= 1
            node, eta = stack[height, 0], stack[height, 1]
            first, count, kind = (
                tree.nodes[node].first, tree.nodes[node].count, tree.nodes[node].kind,
            )  # fmt: skip
            held = kind != LEAF and copies[slot] + kept + height >= most
            if kind == LEAF or held:
                keepers = longer(keepers, kept + 1)
                keepers[kept] = node
                kept += 1
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
        if report_rows:
            clear_terms(bitmap, state.ints, begin, end)
        if why == DONE and not _enter(state, state.heads, slot, begin, end, keepers, kept):
            why = MORE_UNITS
        if why != DONE:
            return message, mark, why
        copies[slot] += kept
    return len(slots), written, DONE


@inner_counting
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


@kernel
def hold(
    state: ActiveArrays, copies: Int32s, held: Int32s, slots: Int32s, start: int
) -> tuple[int, int]:
    """Put messages into the list of the root, beside the lists that have them.

    `held` says by slot whether it has a message already. Gives where it stopped, and why.
    """
    root = np.zeros(1, np.int64)
    for at in range(start, len(slots)):
        slot = wide(slots[at])
        begin = wide(state.messages[slot, TERMS]) * UNIT + 1
        end = begin + state.ints[begin - 1]
        if held[slot]:
            continue
        if not _enter(state, state.heads, slot, begin, end, root, 1):
            return at, MORE_UNITS
        held[slot] = 1
        copies[slot] += 1
    return len(slots), DONE


@kernel
def having_ranks(state: ActiveArrays, rank: Int32s, least: int, slots: Int32s) -> Int32s:
    """Find those of some messages that have a term of a rank not below `least`."""
    found, count = np.empty(len(slots), np.int32), 0
    for slot in slots:
        begin = wide(state.messages[slot, TERMS]) * UNIT + 1
        for at in range(begin, begin + state.ints[begin - 1]):
            if rank_of(rank, state.ints[at]) >= least:
                found[count] = slot
                count += 1
                break
    return found[:count]


@inner
def _empty_list(state: ActiveArrays, lists: Int32s, head: int) -> None:
    if lists[head + COUNT]:
        state.counts[ENTRIES] -= lists[head + COUNT]
        give_back(state, wide(lists[head + PIECE]), wide(lists[head + CLASS]))
        lists[head + COUNT] = 0


@kernel
def lift(tree: ApTreeArrays, top: int, state: ActiveArrays, copies: Int32s) -> Int32s:
    """Take all messages out of the lists of a node and of those below it, and give their slots."""
    found, count = np.empty(64, np.int32), 0
    stack, height = np.empty(64, np.int64), 1
    stack[0] = top
    while height:
        height -= 1
        node = stack[height]
        base = wide(state.heads[node * HEAD + PIECE]) * UNIT + SLOT
        number = wide(state.heads[node * HEAD + COUNT])
        found = longer(found, count + number)
        for at in range(number):
            slot = state.ints[base + at * UNIT]
            copies[slot] -= 1
            found[count] = slot
            count += 1
        _empty_list(state, state.heads, node * HEAD)
        if tree.nodes[node].kind == LEAF:
            continue
        first, buckets = tree.nodes[node].first, tree.nodes[node].count
        stack = longer(stack, height + buckets + 1)
        for slot in range(first, first + buckets + 1):
            if tree.slots[slot, CHILD] >= 0:
                stack[height] = tree.slots[slot, CHILD]
                height += 1
    return found[:count]


@lean_kernel
def empty_lists(state: ActiveArrays) -> None:
    """Take all messages out of all lists; they keep their slots."""
    for head in range(0, len(state.heads), HEAD):
        _empty_list(state, state.heads, head)
    for head in range(0, len(state.areas), HEAD):
        _empty_list(state, state.areas, head)


@lean_kernel
def forget_terms(state: ActiveArrays, gone: Int32s, having: Int32s, emptied: Int32s) -> int:
    """Count messages out that have ended; note the terms that no message has any more.

    `having` counts messages by term. `emptied` has room for all terms of these messages; gives how
    many were noted.
    """
    count = 0
    for slot in gone:
        begin = wide(state.messages[slot, TERMS]) * UNIT + 1
        for at in range(begin, begin + state.ints[begin - 1]):
            term = state.ints[at]
            having[term] -= 1
            if having[term] == 0:
                emptied[count] = term
                count += 1
    return count


@inner
def _sweep_list(state: ActiveArrays, lists: Int32s, head: int, now: float, copies: Int32s) -> None:
    ints = state.ints
    base, count = wide(lists[head + PIECE]) * UNIT, wide(lists[head + COUNT])
    kept = wide(0)
    for at in range(count):
        slot = ints[base + at * UNIT + SLOT]
        if state.messages[slot, END] > now:
            for field in range(UNIT):
                ints[base + kept * UNIT + field] = ints[base + at * UNIT + field]
            kept += 1
        else:
            copies[slot] -= 1
    if kept == 0:
        _empty_list(state, lists, head)
    state.counts[ENTRIES] -= lists[head + COUNT] - kept
    lists[head + COUNT] = kept


@lean_kernel
def sweep(state: ActiveArrays, now: float, ended: Int32s, copies: Int32s) -> None:
    """Take the messages that have ended by now out of all lists; forget the terms of some."""
    for head in range(0, len(state.heads), HEAD):
        _sweep_list(state, state.heads, head, now, copies)
    for head in range(0, len(state.areas), HEAD):
        _sweep_list(state, state.areas, head, now, copies)
    for slot in ended:
        piece = wide(state.messages[slot, TERMS])
        give_back(state, piece, class_for((wide(state.ints[piece * UNIT]) + UNIT) // UNIT))
