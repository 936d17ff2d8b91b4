"""What Python calls: the same events as for the core, with the paper's structures."""

from __future__ import annotations

from nearcast._jit import inner, lean_kernel
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.topk.kernels.clock import cycles
from nearcast.topk.kernels.events import (
    free_record,
    rebase_window,
    room_to_subscribe,
    stamp_event,
    write_record,
)
from nearcast.topk.kernels.layout import (
    AFFECTED,
    AT,
    BUFFER_CYCLES,
    CHANGES,
    DONE,
    DUE,
    EXPIRY_CYCLES,
    FIRST,
    HOLES,
    MATCH_CYCLES,
    MESSAGE,
    MORE_CHANGES,
    NEXT,
    SEATS,
    SUB,
    TERM_COUNT,
    THETA,
    WINDOW_COUNT,
    WINDOW_CYCLES,
    TopkScratch,
    TopkState,
)
from nearcast.topk.kernels.message import prepare, table_size
from nearcast.topk.kernels.removal import make_hole, pass_holes, renumber_window
from nearcast.topk.kernels.window import enter, is_hole, leave_oldest, message_row, room_to_enter
from nearcast.topk.skype._disseminate import affected_by
from nearcast.topk.skype._entries import change_theta, insert_sub, remove_sub, room_for
from nearcast.topk.skype._layout import (
    BUFFER,
    FIRST_BEFORE,
    KIND,
    LENGTH,
    LOGGED,
    METHOD,
    NEXT_BEFORE,
    NODE_END,
    NODE_FREE,
    RANK_END,
    RANKS,
    SMALLEST,
    TAAT,
    K,
    SkypeArrays,
)
from nearcast.topk.skype._lists import put_key
from nearcast.topk.skype._ranks import MOST, add_node, arrive, expire, free_ranks, refill

MORE_NODES, MORE_RANKS, MORE_ENTRIES = 20, 21, 22


@inner
def _room(state: TopkState, work: TopkScratch, index: SkypeArrays, affected: int) -> int:
    """Whether there is room for all affected buffers, however they change."""
    if len(work.change_scores) - state.scalars[CHANGES] < 2 * affected + 2 * MOST:
        return MORE_CHANGES
    if index.options[NODE_END] + affected + MOST > len(index.nodes) // 2:
        return MORE_NODES
    if index.options[RANK_END] + _growth(index, work, affected) > len(index.rank_f):
        return MORE_RANKS
    return DONE


@inner
def _growth(index: SkypeArrays, work: TopkScratch, affected: int) -> int:
    needed = 8 * MOST
    for n in range(affected):
        kind = wide(index.ranks[RANKS * wide(work.affected[n]) + KIND])
        needed += 4 * (wide(SMALLEST) << max(kind, 0))
    return needed


@inner
def _expire(
    state: TopkState, work: TopkScratch, index: SkypeArrays, now: float, coming: int
) -> int:
    scalars = state.scalars
    if scalars[DUE] == scalars[FIRST]:
        while scalars[FIRST] < scalars[NEXT]:
            first = scalars[FIRST]
            at = state.message_f[message_row(state, first) * MESSAGE + AT]
            live = scalars[NEXT] + coming - first - scalars[HOLES]
            old = live > scalars[WINDOW_COUNT] or is_hole(state, first)
            if not old and not (at <= now - state.measures[3]):
                break
            leave_oldest(state)
    return _tell_holders(state, work, index)


@inner
def _next_holder(state: TopkState, index: SkypeArrays, head: int) -> int:
    """Give one who buffers a message, and forget that; there must be one."""
    node = wide(state.message_i[head])
    state.message_i[head] = index.nodes[2 * node + 1]
    index.nodes[2 * node + 1] = index.options[NODE_FREE]
    index.options[NODE_FREE] = node
    return wide(index.nodes[2 * node])


@inner
def _tell_holders(state: TopkState, work: TopkScratch, index: SkypeArrays) -> int:
    """Take messages that have left the window out of all buffers."""
    scalars = state.scalars
    while scalars[DUE] < scalars[FIRST]:
        head = message_row(state, scalars[DUE]) * MESSAGE + SEATS
        if state.message_i[head] < 0:
            scalars[DUE] += 1
            continue
        code = _room(state, work, index, 0)
        if code != DONE:
            return code
        sub = _next_holder(state, index, head)
        if state.sub_i[2 * SUB * sub + TERM_COUNT] > 0:
            expire(state, work, index, sub, wide(-1))
    return DONE


@lean_kernel
def take_out(
    state: TopkState, work: TopkScratch, index: SkypeArrays, numbers: Int32s, begin: int
) -> tuple[int, int]:
    """Take messages out of the window; give how far it came, and what must grow before it goes on.

    Those that are not there are passed over.
    """
    scalars = state.scalars
    for n in range(begin, len(numbers)):
        number = wide(numbers[n])
        code = _tell_holders(state, work, index)  # of the message before
        if code != DONE:
            return n, code
        if number < scalars[FIRST]:
            continue
        if number == scalars[FIRST]:
            leave_oldest(state)
            pass_holes(state)
            continue
        # Each message knows who buffers it; one that is a hole may have some left.
        if not is_hole(state, number):
            make_hole(state, number)
        head = message_row(state, number) * MESSAGE + SEATS
        while state.message_i[head] >= 0:
            code = _room(state, work, index, 0)
            if code != DONE:
                return n, code
            sub = _next_holder(state, index, head)
            if state.sub_i[2 * SUB * sub + TERM_COUNT] > 0:
                expire(state, work, index, sub, number)
    code = _tell_holders(state, work, index)
    if code == DONE:
        stamp_event(state, work, 0)
    return len(numbers), code


@lean_kernel
def close_holes(state: TopkState, index: SkypeArrays, renumbered: Int32s) -> None:
    """Give the messages of the window numbers without gaps; see `renumber_window`."""
    first = state.scalars[FIRST]
    renumber_window(state, renumbered)
    index.options[FIRST_BEFORE] += state.scalars[FIRST] - first
    for sub in range(len(index.ranks) // RANKS):
        if state.sub_i[2 * SUB * sub + TERM_COUNT] == 0:
            continue
        row = RANKS * sub
        room = wide(SMALLEST) << max(wide(0), wide(index.ranks[row + KIND]))
        numbers = 2 * (wide(index.ranks[row + BUFFER]) + room)
        for n in range(index.ranks[row + LENGTH]):
            index.rank_i[numbers + n] = renumbered[index.rank_i[numbers + n] - first]


@lean_kernel
def renew_nodes(state: TopkState, index: SkypeArrays) -> None:
    """Rewrite the notes of who buffers which message: a refilled buffer leaves old ones behind."""
    index.options[NODE_END], index.options[NODE_FREE] = 0, -1
    for number in range(state.scalars[DUE], state.scalars[NEXT]):
        state.message_i[message_row(state, number) * MESSAGE + SEATS] = -1
    for sub in range(len(index.ranks) // RANKS):
        if state.sub_i[2 * SUB * sub + TERM_COUNT] == 0:
            continue
        row = RANKS * sub
        room = wide(SMALLEST) << max(wide(0), wide(index.ranks[row + KIND]))
        numbers = 2 * (wide(index.ranks[row + BUFFER]) + room)
        for n in range(index.ranks[row + LENGTH]):
            add_node(state, index, sub, wide(index.rank_i[numbers + n]))


@lean_kernel
def advance(state: TopkState, work: TopkScratch, index: SkypeArrays, now: float) -> int:
    """Let time pass."""
    code = _expire(state, work, index, now, wide(0))
    if code == DONE:
        stamp_event(state, work, 0)
    return code


@lean_kernel
def publish(
    state: TopkState,
    work: TopkScratch,
    index: SkypeArrays,
    points: Floats,
    at: Floats,
    starts: Int64s,
    terms: Int32s,
    counts: Int32s,
    begin: int,
    end: int,
    stamp: int,
) -> tuple[int, int]:
    """Publish messages in order; give how far it came, and what must grow before it can go on.

    Message m is at `points[m]` and time `at[m]`; its terms are `terms[starts[m] : starts[m + 1]]`,
    with how often each occurs in `counts`. The messages from `begin` to `end` are published. `stamp
    + m` marks what message m has met.
    """
    scalars = state.scalars
    for message in range(begin, end):
        # Expire what the message pushes out of the window.
        clock = cycles()
        code = _expire(state, work, index, at[message], wide(1))
        if code != DONE:
            return message, code
        now = cycles()
        scalars[EXPIRY_CYCLES] += now - clock
        clock = now
        # Find the subscriptions that it affects, and its scores.
        start, length = starts[message], starts[message + 1] - starts[message]
        x, y = points[message, 0], points[message, 1]
        squared = prepare(state, work, terms, counts, start, length)
        table = table_size(length)
        affected = affected_by(state, work, index, x, y, squared, length, table, stamp + message)
        now = cycles()
        scalars[MATCH_CYCLES] += now - clock
        clock = now
        # Stop if there is no room for the message and what it changes.
        code = room_to_enter(state, work, length)
        if code == DONE:
            code = _room(state, work, index, affected)
        if code != DONE:
            return message, code
        scalars[AFFECTED] += affected
        # Enter the message into the window.
        number = scalars[NEXT]
        enter(state, work, x, y, squared, at[message], terms, counts, start, length)
        now = cycles()
        scalars[WINDOW_CYCLES] += now - clock
        clock = now
        # Put it into the buffers of the affected subscriptions.
        for n in range(affected):
            arrive(state, work, index, wide(work.affected[n]), work.scores[n], number)
        stamp_event(state, work, message)
        scalars[BUFFER_CYCLES] += cycles() - clock
    return end, DONE


@lean_kernel
def probe(
    state: TopkState,
    work: TopkScratch,
    index: SkypeArrays,
    points: Floats,
    starts: Int64s,
    terms: Int32s,
    counts: Int32s,
    stamp: int,
    found: Int64s,
) -> None:
    """Find whom messages would affect, and change nothing; give how many, and a sum over them."""
    for message in range(len(points)):
        start, length = starts[message], starts[message + 1] - starts[message]
        x, y = points[message, 0], points[message, 1]
        squared = prepare(state, work, terms, counts, start, length)
        table = table_size(length)
        affected = affected_by(state, work, index, x, y, squared, length, table, stamp + message)
        found[0] += affected
        for n in range(affected):
            found[1] += (wide(work.affected[n]) + 1) * (message + 1)


@lean_kernel
def subscribe(
    state: TopkState,
    work: TopkScratch,
    index: SkypeArrays,
    subs: Int32s,
    points: Floats,
    alphas: Floats,
    ks: Int32s,
    starts: Int64s,
    terms: Int32s,
    begin: int,
    end: int,
) -> tuple[int, int]:
    """Enter subscriptions under numbers that are free; terms in the order of their letters."""
    for n in range(begin, end):
        sub, start = wide(subs[n]), starts[n]
        count = starts[n + 1] - start
        code = _room(state, work, index, 0)
        if code == DONE and index.options[METHOD] == TAAT:
            code = room_to_subscribe(state, terms, start, count)
        if code == DONE:
            code = write_record(state, sub, points, alphas, starts, terms, n)
        if code != DONE:
            return n, code
        if index.options[METHOD] != TAAT and not room_for(state, index, sub):
            free_record(state, sub)
            return n, MORE_ENTRIES
        row = RANKS * sub
        index.ranks[row + KIND], index.ranks[row + LENGTH] = -1, 0
        index.ranks[row + K], index.ranks[row + LOGGED] = ks[n], -1
        index.ranks[row + BUFFER] = 0
        insert_sub(state, index, sub)
        refill(state, work, index, sub)
    return end, DONE


@lean_kernel
def unsubscribe(state: TopkState, index: SkypeArrays, subs: Int32s) -> None:
    """Forget subscriptions, also where messages know of them."""
    for n in range(len(subs)):
        sub = wide(subs[n])
        remove_sub(state, index, sub)
        free_ranks(index, sub)
        free_record(state, sub)


@lean_kernel
def read_members(
    state: TopkState, work: TopkScratch, index: SkypeArrays, subs: Int32s, begin: int
) -> int:
    """Log the results of subscriptions, best first, while there is room."""
    scalars = state.scalars
    for n in range(begin, len(subs)):
        sub = wide(subs[n])
        row = RANKS * sub
        k = wide(index.ranks[row + K])
        if len(work.change_scores) - scalars[CHANGES] < k:
            return n
        base = wide(index.ranks[row + BUFFER])
        room = wide(SMALLEST) << max(wide(0), wide(index.ranks[row + KIND]))
        for rank in range(min(k, wide(index.ranks[row + LENGTH]))):
            at = scalars[CHANGES]
            work.changes[4 * at], work.changes[4 * at + 1] = n, 1
            work.changes[4 * at + 2] = sub
            work.changes[4 * at + 3] = index.rank_i[2 * (base + room) + rank]
            work.change_scores[at] = index.rank_f[base + rank]
            scalars[CHANGES] = at + 1
    return len(subs)


@lean_kernel
def move_cells(state: TopkState, index: SkypeArrays, subs: Int32s, cells: Int32s) -> int:
    """Enter subscriptions under other cells; give how many, which is all if there was room."""
    for n in range(len(subs)):
        sub = wide(subs[n])
        old = index.sub_cells[sub]
        index.sub_cells[sub] = cells[n]
        fits = room_for(state, index, sub)
        index.sub_cells[sub] = old
        if not fits:
            return n
        remove_sub(state, index, sub)
        index.sub_cells[sub] = cells[n]
        insert_sub(state, index, sub)
    return len(subs)


@lean_kernel
def regroup(state: TopkState, index: SkypeArrays, subs: Int32s, edges: Floats) -> None:
    """Enter subscriptions again, all there are, with other limits between alpha groups."""
    for n in range(len(subs)):
        remove_sub(state, index, wide(subs[n]))
    for n in range(len(edges)):
        index.group_edges[n] = edges[n]
    for n in range(len(subs)):
        insert_sub(state, index, wide(subs[n]))


@lean_kernel
def rebase(state: TopkState, index: SkypeArrays, shift: int) -> None:
    """Count messages from a later one on, a multiple of the ring's size."""
    rebase_window(state, shift)
    index.options[FIRST_BEFORE] -= shift
    index.options[NEXT_BEFORE] -= shift
    for sub in range(len(index.ranks) // RANKS):
        if state.sub_i[2 * SUB * sub + TERM_COUNT] == 0:
            continue
        row = RANKS * sub
        room = wide(SMALLEST) << max(wide(0), wide(index.ranks[row + KIND]))
        numbers = 2 * (wide(index.ranks[row + BUFFER]) + room)
        for n in range(index.ranks[row + LENGTH]):
            index.rank_i[numbers + n] -= shift


@lean_kernel
def rehash(old: SkypeArrays, new: SkypeArrays) -> None:
    """Enter the keys of an index into a larger table."""
    for at in range(len(old.keys)):
        if old.keys[at] >= 0:
            put_key(new, old.keys[at], old.values[at])


@lean_kernel
def set_thetas(state: TopkState, index: SkypeArrays, thetas: Floats) -> None:
    """Give subscriptions other thresholds, to compare methods at equal ones."""
    for sub in range(len(thetas)):
        if thetas[sub] != state.sub_f[SUB * sub + THETA]:
            change_theta(state, index, sub, thetas[sub])
