"""Matching: the three ways to probe the trie, the filter of the quadtree, and both together."""

from __future__ import annotations

from typing import Any, NamedTuple

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.in_kernels import sort
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.index.lfilter.arena import Arena, lower_bound, room_for
from nearcast.index.lfilter.cost import (
    SearchCosts,
    Shape,
    lists_met,
    price,
    pruning_cost,
    quadtree_cost,
    search_cost,
    trie_cost,
)
from nearcast.index.lfilter.order import NONE, label_of
from nearcast.index.lfilter.quadtree import PtQuadtreeArrays, quarters
from nearcast.index.lfilter.trie import MbrTrieArrays
from nearcast.index.table import EXCLUDES, Rows
from nearcast.index.verify import Bitmap, accepts_place, accepts_text, clear_terms, set_terms

COST, TOKEN_SET, TRIE = 0, 1, 2
"""How children are found: whichever is cheaper; trie nodes probe the message; or the reverse."""
ALONE, QUADTREE, FORMULAS, PRICES = 0, 1, 2, 3
"""Whether the trie filters, the quadtree, or whichever is cheaper, by formulas or by prices."""

_NODE, _MODE, _CURSOR, _END, _TOKEN, _LISTS, _LISTS_END = 0, 1, 2, 3, 4, 5, 6
FRAME = 7
_ENTER, _BY_TOKENS, _BY_KIDS = 0, 1, 2
_NO_ROOM, _NO_SEGMENTS = -1, -2


class SearchOptions(NamedTuple):
    """How to search."""

    filters: int
    probe: int
    costs: SearchCosts
    prices: Floats
    shape: Shape


class SearchMessage(NamedTuple):
    """A message while it is matched, and where its matches go."""

    number: int
    tokens: Int32s  # labels in order
    known: int
    box: Floats
    bitmap: Bitmap
    messages: Int32s
    found: Int32s


class SearchScratch(NamedTuple):
    """Room that a search needs."""

    tokens: Int32s
    frames: Int64s  # (longest path + 2, FRAME)
    stack: Int64s
    segments: Int64s  # (n, 3): a node of the quadtree, and a part of its list
    looked: Int64s  # rows verified


@inner
def _has_common(sets: Arena, block: int, count: int, tokens: Int32s, known: int) -> bool:
    """Return whether a set and a message share a term, whichever way is cheaper."""
    if count == 0:
        return False
    cells = sets.cells
    if search_cost(count, known) < search_cost(known, count):
        at = wide(0)
        for place in range(block, block + count):
            label = cells[0, place]
            at = _place(tokens, at, known, label)
            if at == known:
                return False
            if tokens[at] == label:
                return True
        return False
    place = block
    for at in range(known):
        place = lower_bound(cells, 0, place, block + count, tokens[at])
        if place == block + count:
            return False
        if cells[0, place] == tokens[at]:
            return True
    return False


@inner
def _place(tokens: Int32s, low: int, high: int, label: int) -> int:
    """Give the first token that is not below a label."""
    while low < high:
        middle = (low + high) >> 1
        if tokens[middle] < label:
            low = middle + 1
        else:
            high = middle
    return low


@inner
def _scan(
    cells: Int32s, first: int, last: int, nodes: Any, node: int, rows: Rows, message: SearchMessage,
    whole: int, written: int,
) -> int:  # fmt: skip
    """Report the rows of a list that match; with `whole`, their required terms are in doubt too.

    A range message may meet a row in several lists of a quadtree. The lower left corner of what
    the two share lies in the region of one of them, and there it is reported.
    """
    box, found = message.box, message.found
    west, south, east, north = box[0], box[1], box[2], box[3]
    several = node >= 0 and (west != east or south != north)
    for at in range(first, last):
        row = cells[0, at]
        if rows.owner[row] < 0 or not accepts_place(rows, row, west, south, east, north):
            continue
        doubtful = whole or rows.flags[row] & EXCLUDES
        if doubtful and not accepts_text(rows, row, message.bitmap):
            continue
        if several:
            lon, lat = max(rows.box[row, 0], west), max(rows.box[row, 1], south)
            if not (
                nodes[node].west <= lon < nodes[node].east
                and nodes[node].south <= lat < nodes[node].north
            ):
                continue
        if written == len(found):
            return _NO_ROOM
        message.messages[written] = message.number
        found[written] = row
        written += 1
    return written


@inner
def _scan_segments(
    quad: PtQuadtreeArrays,
    rows: Rows,
    message: SearchMessage,
    tools: SearchScratch,
    first: int,
    last: int,
    written: int,
) -> int:
    """Verify whole lists (PT-Quadtree-Verify)."""
    segments = tools.segments
    for at in range(first, last):
        tools.looked[0] += segments[at, 2] - segments[at, 1]
        written = _scan(
            quad.lists.cells, segments[at, 1], segments[at, 2], quad.nodes, segments[at, 0], rows,
            message, wide(1), written,
        )  # fmt: skip
        if written < 0:
            break
    return written


@inner
def _filter(quad: PtQuadtreeArrays, message: SearchMessage, tools: SearchScratch) -> int:
    """Find the lists that a message may concern (PT-Quadtree-Filter), and give their number."""
    stack, segments, box = tools.stack, tools.segments, message.box
    height, count = 1, 0
    stack[0] = 0
    while height:
        height -= 1
        node, covered = stack[height] >> 1, stack[height] & 1
        at = quad.nodes[node]
        if not covered:
            if _has_common(quad.sets, at.cover, at.covers, message.tokens, message.known):
                covered = 1
            elif not _has_common(quad.sets, at.other, at.others, message.tokens, message.known):
                continue
        if at.count:
            if count == len(segments):
                return _NO_SEGMENTS
            segments[count, 0], segments[count, 1] = node, at.list
            segments[count, 2] = at.list + at.count
            count += 1
        if at.child >= 0:
            mask = quarters(at, box[0], box[1], box[2], box[3])
            for nth in range(4):
                if mask >> nth & 1:
                    stack[height] = (at.child + nth) << 1 | covered
                    height += 1
    return count


@inner
def _prune(quad: PtQuadtreeArrays, tools: SearchScratch, frame: Any, low: int, high: int) -> int:
    """Cut lists to the ids of a trie node, behind the others, and give where they end."""
    segments, cells, end = tools.segments, quad.lists.cells, frame[_LISTS_END]
    plane = cells.shape[0] - 1
    for at in range(frame[_LISTS], frame[_LISTS_END]):
        first = lower_bound(cells, plane, segments[at, 1], segments[at, 2], low)
        last = lower_bound(cells, plane, first, segments[at, 2], high + 1)
        if first < last:
            if end == len(segments):
                return _NO_SEGMENTS
            segments[end, 0], segments[end, 1], segments[end, 2] = segments[at, 0], first, last
            end += 1
    return int(end)


@inner
def _own_rows(
    trie: MbrTrieArrays,
    quad: PtQuadtreeArrays,
    rows: Rows,
    message: SearchMessage,
    tools: SearchScratch,
    frame: Any,
    listed: bool,
    written: int,
) -> int:
    """Verify the place of the rows in the leaf of a node: all, or those that lists have as well."""
    at, cells = trie.nodes[frame[_NODE]], trie.rows.cells
    if not listed:
        tools.looked[0] += at.held
        first, last = wide(at.rows), wide(at.rows) + at.held
        return _scan(cells, first, last, quad.nodes, wide(-1), rows, message, wide(0), written)
    end = _prune(quad, tools, frame, at.low, trie.ids[cells[0, at.rows + at.held - 1]])
    if end < 0:
        return end
    segments = tools.segments
    for part in range(frame[_LISTS_END], end):
        tools.looked[0] += segments[part, 2] - segments[part, 1]
        written = _scan(
            quad.lists.cells, segments[part, 1], segments[part, 2], quad.nodes, segments[part, 0],
            rows, message, wide(0), written,
        )  # fmt: skip
        if written < 0:
            break
    return written


@inner
def _enter(
    trie: MbrTrieArrays,
    quad: PtQuadtreeArrays,
    rows: Rows,
    plan: SearchOptions,
    message: SearchMessage,
    tools: SearchScratch,
    depth: int,
    listed: bool,
    written: int,
) -> int:
    """Verify what a node has itself, and decide how to find its children, if at all."""
    frame = tools.frames[depth]
    at, tokens = trie.nodes[frame[_NODE]], message.known - frame[_TOKEN]
    frame[_MODE], frame[_CURSOR], frame[_END] = _BY_TOKENS, 0, 0
    if listed:
        first, last, entries = frame[_LISTS], frame[_LISTS_END], wide(0)
        for part in range(first, last):
            entries += tools.segments[part, 2] - tools.segments[part, 1]
        levels, costs = trie.levels, plan.costs
        level = min(depth + 1, len(levels) - 2)
        fanout = levels[level + 1] / max(1, levels[level])
        pruning = pruning_cost(
            costs, at.count, tokens, plan.shape.terms, fanout, last - first, entries
        )
        if pruning > costs.text * entries:
            return _scan_segments(quad, rows, message, tools, first, last, written)
    if at.held:
        written = _own_rows(trie, quad, rows, message, tools, frame, listed, written)
    if at.count == 0 or tokens == 0:
        return written
    frame[_CURSOR], frame[_END] = at.first, at.first + room_for(at.count)
    by_kids = search_cost(tokens, at.count) >= search_cost(at.count, tokens)
    if plan.probe == TOKEN_SET or (plan.probe == COST and by_kids):
        frame[_MODE] = _BY_KIDS
    return written


@inner
def _next_kid(trie: MbrTrieArrays, frame: Any, message: SearchMessage) -> int:
    """Give the next child whose term the message has and whose box it meets; -1 for none.

    Both labels and tokens are in order, so neither search looks again at what lies behind.
    """
    cells, tokens, count, box = trie.kids.cells, message.tokens, message.known, message.box
    cursor, end, token = frame[_CURSOR], frame[_END], frame[_TOKEN]
    kid = -1
    while cursor < end and token < count and kid < 0:
        if frame[_MODE] == _BY_TOKENS:
            cursor = lower_bound(cells, 0, cursor, end, tokens[token])
            same = cursor < end and cells[0, cursor] == tokens[token]
            kid = cells[1, cursor] if same else -1
            token += 1
        else:
            kid = cells[1, cursor]
            if kid >= 0:
                label = cells[0, cursor]
                token = _place(tokens, token, count, label)
                same = token < count and tokens[token] == label
                kid = kid if same else -1
                token += same
            cursor += 1
        if kid >= 0:
            at = trie.nodes[kid]
            apart = (at.west > box[2]) | (at.east < box[0])
            if apart | (at.south > box[3]) | (at.north < box[1]):
                kid = -1
    frame[_CURSOR], frame[_TOKEN] = cursor, token
    return int(kid)


@inner
def _walk(
    trie: MbrTrieArrays,
    quad: PtQuadtreeArrays,
    rows: Rows,
    plan: SearchOptions,
    message: SearchMessage,
    tools: SearchScratch,
    lists: int,
    written: int,
) -> int:
    """Go through the trie: MBRTrie-Filter and -Verify without lists, HybridPrune with them.

    The frames are the path from the root. A child goes on with the tokens behind its own.
    """
    frames, listed = tools.frames, lists >= 0
    depth = wide(0)
    root = frames[0]
    root[_NODE], root[_MODE], root[_TOKEN], root[_LISTS], root[_LISTS_END] = 0, _ENTER, 0, 0, lists
    while depth >= 0:
        frame = frames[depth]
        if frame[_MODE] == _ENTER:
            written = _enter(trie, quad, rows, plan, message, tools, depth, listed, written)
            if written < 0:
                return written
        kid = _next_kid(trie, frame, message)
        if kid < 0:
            depth -= 1
            continue
        end = frame[_LISTS_END]
        if listed:
            end = _prune(quad, tools, frame, trie.nodes[kid].low, trie.nodes[kid].high)
            if end < 0:
                return _NO_SEGMENTS
            if end == frame[_LISTS_END]:
                continue
        depth += 1
        below = frames[depth]
        below[_NODE], below[_MODE], below[_TOKEN] = kid, _ENTER, frame[_TOKEN]
        below[_LISTS], below[_LISTS_END] = frame[_LISTS_END], end
    return written


@inner
def _by_quadtree(plan: SearchOptions, message: SearchMessage) -> bool:
    """Return whether the quadtree is the cheaper filter for a message (section 5.1)."""
    if plan.filters == ALONE or plan.filters == QUADTREE:
        return plan.filters == QUADTREE
    box, shape, leaves = message.box, plan.shape, 1.0
    if box[0] != box[2] or box[1] != box[3]:
        leaves = lists_met(shape, box[0], box[1], box[2], box[3])
    if plan.filters == FORMULAS:
        by_trie = trie_cost(shape, message.known)
        return bool(quadtree_cost(shape, message.known, leaves) <= by_trie)
    by_trie = price(plan.prices, wide(0), message.known)
    by_quadtree = price(plan.prices, wide(1), message.known)
    if leaves > 1.0:
        by_quadtree += (leaves - 1.0) * price(plan.prices, wide(2), message.known)
    return by_quadtree <= by_trie


@lean_kernel
def match_batch(
    trie: MbrTrieArrays,
    quad: PtQuadtreeArrays,
    rows: Rows,
    labels: Int32s,
    plan: SearchOptions,
    starts: Int64s,
    terms: Int32s,
    boxes: Floats,
    bitmap: Bitmap,
    tools: SearchScratch,
    start: int,
    messages: Int32s,
    found: Int32s,
) -> tuple[int, int, int, bool]:
    """Match messages from `start` on while what they find fits into `messages` and `found`.

    The terms of message m are `terms[starts[m] : starts[m + 1]]`, its box is `boxes[m]`. `labels`
    holds the label of each term. `bitmap` has a bit for each term, all zero before and after. Gives
    the next message, the pairs written, the rows verified, and whether it stopped for want of room
    for segments.
    """
    tools.looked[0] = 0
    written = wide(0)
    alone = trie.counts[0] == 0  # a quadtree without a trie
    for number in range(start, len(boxes)):
        first, last = starts[number], starts[number + 1]
        mark, seen = written, tools.looked[0]
        # Sort the labels of the terms that some row requires; without any, nothing matches.
        known = 0
        for at in range(first, last):
            label = label_of(labels, terms[at])
            if label != NONE:
                tools.tokens[known] = label
                known += 1
        if known == 0:
            continue
        sort(tools.tokens, 0, known)
        set_terms(bitmap, terms, first, last)
        message = SearchMessage(number, tools.tokens, known, boxes[number], bitmap, messages, found)
        # LFilter (Algorithm 3): filter by the quadtree, and prune its lists in the trie, or search
        # the trie alone.
        if _by_quadtree(plan, message):
            written = _filter(quad, message, tools)
            lists = written
            if written >= 0:
                written = mark
                if alone:
                    written = _scan_segments(quad, rows, message, tools, wide(0), lists, mark)
                elif lists:
                    written = _walk(trie, quad, rows, plan, message, tools, lists, mark)
        else:
            written = _walk(trie, quad, rows, plan, message, tools, wide(-1), mark)
        clear_terms(bitmap, terms, first, last)
        if written < 0:
            return number, mark, seen, written == _NO_SEGMENTS
    return len(boxes), written, tools.looked[0], False
