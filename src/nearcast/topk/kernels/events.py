"""What Python calls: messages published, time passing, subscriptions coming, going and read.

A kernel that runs out of room says what must grow and can be called again: what it did until then
is kept, and the message at hand has not been touched or is only half expired, which goes on.
"""

from __future__ import annotations

from nearcast._jit import inlined, inner, lean_kernel
from nearcast.arrays.lanes import LANES, prefetch
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.events.fields import ADD
from nearcast.topk.kernels.buffers import append, may_grow, ranked, refresh, seat_new
from nearcast.topk.kernels.clock import cycles
from nearcast.topk.kernels.layout import (
    AHEAD,
    ALPHA,
    AT,
    BEFORE,
    BEGIN,
    BUFFER,
    BUFFER_CYCLES,
    BUFFER_END,
    BUFFER_SIZES,
    CHANGES,
    COUNT,
    DONE,
    DUE,
    END,
    EVENT_START,
    EXPIRY_CYCLES,
    FIRST,
    HOLES,
    INLINE,
    K_AND_CLASS,
    KTH_NUMBER,
    LIST,
    MATCH_CYCLES,
    MESSAGE,
    MORE_BUFFERS,
    MORE_CHANGES,
    MORE_END,
    MORE_MORE,
    MORE_POSTINGS,
    NEEDED,
    NEXT,
    NEXT_SEAT,
    NOT_FILED,
    NOTHING,
    POSTING,
    POSTING_END,
    SEATS,
    SIZE,
    SQUARED,
    STEPS_AHEAD,
    SUB,
    TERM_COUNT,
    TERMS,
    THETA,
    WINDOW_COUNT,
    WINDOW_CYCLES,
    TopkScratch,
    TopkState,
    X,
    Y,
)
from nearcast.topk.kernels.match import affected_by, ask_for_lists
from nearcast.topk.kernels.message import prepare, table_size
from nearcast.topk.kernels.postings import post, withdraw
from nearcast.topk.kernels.regions import give_back, take
from nearcast.topk.kernels.seats import (
    ask_for_buffer,
    give_buffer_back,
    size_of_class,
    take_seat,
    unfile_seat,
)
from nearcast.topk.kernels.window import enter, is_hole, leave_oldest, message_row, room_to_enter

_LARGEST_BUFFER = int(BUFFER_SIZES[-1])
_AHEAD = 8
_MOST_AHEAD = 256  # seats; more would push each other out of the cache


@inlined
def _expire(state: TopkState, work: TopkScratch, now: float, coming: int) -> int:
    """Let the window end where it should, with `coming` messages to enter; refresh who waits."""
    scalars = state.scalars
    count, seconds = scalars[WINDOW_COUNT], state.measures[3]
    if scalars[DUE] == scalars[FIRST]:
        while scalars[FIRST] < scalars[NEXT]:
            first = scalars[FIRST]
            old = scalars[NEXT] + coming - first - scalars[HOLES] > count or is_hole(state, first)
            if not old and not (
                state.message_f[message_row(state, first) * MESSAGE + AT] <= now - seconds
            ):
                break
            leave_oldest(state)
    return refresh_due(state, work)


@inlined
def refresh_due(state: TopkState, work: TopkScratch) -> int:
    """Refresh those who wait for messages that have left the window."""
    scalars = state.scalars
    while scalars[DUE] < scalars[FIRST]:
        if len(work.change_scores) - scalars[CHANGES] < 2 * _LARGEST_BUFFER:
            return MORE_CHANGES
        sub = take_seat(state, scalars[DUE])
        if sub < 0:
            while scalars[AHEAD] >= 0:
                _look_ahead(state)
            scalars[DUE] += 1
            _look_at_following(state)
            continue
        _look_ahead(state)
        refresh(state, work, sub)
    return DONE


@inlined
def _look_at_following(state: TopkState) -> None:
    """Begin to look at who waits for the message that expires after the one that is due."""
    scalars = state.scalars
    if scalars[DUE] + 1 < scalars[NEXT]:
        head = message_row(state, scalars[DUE] + 1) * MESSAGE + SEATS
        sub = wide(state.message_i[head])
        scalars[AHEAD], scalars[STEPS_AHEAD] = sub, _MOST_AHEAD
        if sub >= 0:
            prefetch(state.seat_f, SUB * sub)


@inlined
def _look_ahead(state: TopkState) -> None:
    """Ask for the memory of one more of those seats: they are needed a whole message later."""
    sub = wide(state.scalars[AHEAD])
    if sub < 0:
        return
    following = wide(state.seat_i[2 * SUB * sub + NEXT_SEAT])
    state.scalars[STEPS_AHEAD] -= 1
    if state.scalars[STEPS_AHEAD] == 0:
        following = wide(-1)
    if following >= 0:
        prefetch(state.seat_f, SUB * following)
    prefetch(state.sub_f, SUB * sub)
    ask_for_buffer(state, sub)
    state.scalars[AHEAD] = max(following, -1)


@inlined
def stamp_event(state: TopkState, work: TopkScratch, event: int) -> None:
    """Note which event caused the changes since the last one."""
    for at in range(state.scalars[EVENT_START], state.scalars[CHANGES]):
        work.changes[4 * at] = event
    state.scalars[EVENT_START] = state.scalars[CHANGES]


@lean_kernel
def advance(state: TopkState, work: TopkScratch, now: float) -> int:
    """Let time pass."""
    code = _expire(state, work, now, 0)
    if code == DONE:
        stamp_event(state, work, 0)
    return code


@inlined
def _room_for_buffers(state: TopkState, work: TopkScratch, affected: int) -> bool:
    """Whether every affected buffer could grow."""
    needed = wide(0)
    for n in range(affected):
        sub = wide(work.affected[n])
        if may_grow(state, sub):
            kind = wide(state.seat_i[2 * SUB * sub + K_AND_CLASS] & 15)
            needed += size_of_class(kind + 1) * 3 // 2
    state.scalars[NEEDED] = state.scalars[BUFFER_END] + needed
    return bool(state.scalars[NEEDED] <= len(state.buffer_f))


@lean_kernel
def publish(
    state: TopkState, work: TopkScratch, points: Floats, at: Floats, starts: Int64s, terms: Int32s,
    counts: Int32s, begin: int, end: int,
) -> tuple[int, int]:  # fmt: skip
    """Publish messages in order; give how far it came, and what must grow before it can go on.

    Message m is at `points[m]` and time `at[m]`; its terms are `terms[starts[m] : starts[m + 1]]`,
    with how often each occurs in `counts`. The messages from `begin` to `end` are published.
    Nothing of a message is done before there is room for all of it, except that older ones expire.
    """
    scalars = state.scalars
    for message in range(begin, end):
        # Expire what the message pushes out of the window.
        clock = cycles()
        ask_for_lists(state, starts, terms, message, begin, end)
        code = _expire(state, work, at[message], 1)
        if code != DONE:
            return message, code
        now = cycles()
        scalars[EXPIRY_CYCLES] += now - clock
        clock = now
        # Find the subscriptions that it affects, and its scores.
        start, length = starts[message], starts[message + 1] - starts[message]
        x, y = points[message, 0], points[message, 1]
        squared = prepare(state, work, terms, counts, start, length)
        affected = affected_by(state, work, x, y, squared, length, table_size(length))
        now = cycles()
        scalars[MATCH_CYCLES] += now - clock
        clock = now
        # Stop if there is no room for the message, the changes, or larger buffers.
        code = room_to_enter(state, work, length)
        if code != DONE:
            return message, code
        if len(work.change_scores) - scalars[CHANGES] < 2 * affected + 2:
            return message, MORE_CHANGES
        if not _room_for_buffers(state, work, affected):
            return message, MORE_BUFFERS
        # Enter the message into the window.
        for n in range(min(affected, _AHEAD)):
            ask_for_buffer(state, wide(work.affected[n]))
        number = scalars[NEXT]
        enter(state, work, x, y, squared, at[message], terms, counts, start, length)
        now = cycles()
        scalars[WINDOW_CYCLES] += now - clock
        clock = now
        # Append it to the buffers of the affected subscriptions.
        for n in range(affected):
            if n + _AHEAD < affected:
                ask_for_buffer(state, wide(work.affected[n + _AHEAD]))
            append(state, work, wide(work.affected[n]), work.scores[n], number)
        stamp_event(state, work, message)
        scalars[BUFFER_CYCLES] += cycles() - clock
    return end, DONE


@lean_kernel
def probe(
    state: TopkState,
    work: TopkScratch,
    points: Floats,
    starts: Int64s,
    terms: Int32s,
    counts: Int32s,
    found: Int64s,
) -> None:
    """Find whom messages would affect, and change nothing; give how many, and a sum over them."""
    for message in range(len(points)):
        ask_for_lists(state, starts, terms, message, 0, len(points))
        start, length = starts[message], starts[message + 1] - starts[message]
        x, y = points[message, 0], points[message, 1]
        squared = prepare(state, work, terms, counts, start, length)
        affected = affected_by(state, work, x, y, squared, length, table_size(length))
        found[0] += affected
        for n in range(affected):
            found[1] += (wide(work.affected[n]) + 1) * (message + 1)


@inlined
def room_to_subscribe(state: TopkState, terms: Int32s, start: int, count: int) -> int:
    """Say what must grow before a subscription with these terms can be posted."""
    scalars = state.scalars
    needed = wide(LANES)  # sixteen postings are read at a time, also behind the last
    for n in range(count):
        row = wide(terms[start + n]) * LIST
        kind = wide(state.posts[row + SIZE])
        if kind < 0 or state.posts[row + COUNT] == (1 << kind):
            needed += POSTING * (wide(1) << (kind + 1))
    if scalars[POSTING_END] + needed > len(state.post_i):
        scalars[NEEDED] = scalars[POSTING_END] + needed
        return MORE_POSTINGS
    if scalars[BUFFER_END] + _LARGEST_BUFFER * 3 // 2 > len(state.buffer_f):
        scalars[NEEDED] = scalars[BUFFER_END] + _LARGEST_BUFFER * 3 // 2
        return MORE_BUFFERS
    return DONE


@inlined
def _more_class(count: int) -> int:
    kind = 0
    while (1 << kind) < count:
        kind += 1
    return kind


@inlined
def write_record(
    state: TopkState,
    sub: int,
    points: Floats,
    alphas: Floats,
    starts: Int64s,
    terms: Int32s,
    n: int,
) -> int:
    """Write down the n-th of some subscriptions, with a threshold below every score."""
    row, start = SUB * sub, starts[n]
    count = starts[n + 1] - start
    if count > INLINE and state.scalars[MORE_END] + 4 * count > len(state.more):
        state.scalars[NEEDED] = state.scalars[MORE_END] + 4 * count
        return MORE_MORE
    state.sub_f[row + X], state.sub_f[row + Y] = points[n, 0], points[n, 1]
    state.sub_f[row + ALPHA], state.sub_f[row + THETA] = alphas[n], NOTHING
    state.sub_i[2 * row + TERM_COUNT] = count
    if count > INLINE:
        kind = _more_class(count)
        place = take(state.more, state.more_free, state.scalars, MORE_END, kind, wide(2) << kind)
        state.sub_i[2 * row + TERMS] = place
        for m in range(count):
            state.more[place + 2 * m] = terms[start + m]
    else:
        for m in range(INLINE):
            state.sub_i[2 * row + TERMS + m] = terms[start + m] if m < count else -1
    squared = 0.0
    for m in range(count):
        idf = state.idf[terms[start + m]]
        squared += idf * idf
    state.sub_f[row + SQUARED] = squared
    return DONE


@lean_kernel
def subscribe(
    state: TopkState, work: TopkScratch, subs: Int32s, points: Floats, alphas: Floats, ks: Int32s,
    starts: Int64s, terms: Int32s, begin: int, end: int,
) -> tuple[int, int]:  # fmt: skip
    """Enter subscriptions under numbers that are free; terms in the order of their letters."""
    for n in range(begin, end):
        sub, start = wide(subs[n]), starts[n]
        count = starts[n + 1] - start
        code = room_to_subscribe(state, terms, start, count)
        if code != DONE:
            return n, code
        code = write_record(state, sub, points, alphas, starts, terms, n)
        if code != DONE:
            return n, code
        post(state, sub)
        seat_new(state, work, sub, wide(ks[n]))
    return end, DONE


@inlined
def free_record(state: TopkState, sub: int) -> None:
    """Strike out what is written down of a subscription."""
    row = 2 * SUB * sub
    count = wide(state.sub_i[row + TERM_COUNT])
    if count > INLINE:
        give_back(state.more, state.more_free, _more_class(count), wide(state.sub_i[row + TERMS]))
    state.sub_i[row + TERM_COUNT] = 0


@lean_kernel
def unsubscribe(state: TopkState, subs: Int32s) -> None:
    """Forget subscriptions; their numbers are free again."""
    for n in range(len(subs)):
        sub = wide(subs[n])
        row = 2 * SUB * sub
        unfile_seat(state, sub)
        withdraw(state, sub)
        kind = wide(state.seat_i[row + K_AND_CLASS] & 15)
        give_buffer_back(state, kind, wide(state.seat_i[row + BUFFER]))
        free_record(state, sub)


@lean_kernel
def read_members(state: TopkState, work: TopkScratch, subs: Int32s, begin: int) -> int:
    """Log the members of subscriptions, best first, while there is room; give how far it came."""
    for n in range(begin, len(subs)):
        sub = wide(subs[n])
        scalars = state.scalars
        k = state.seat_i[2 * SUB * sub + K_AND_CLASS] >> 4
        if len(work.change_scores) - scalars[CHANGES] < k:
            return n
        for rank in range(ranked(state, work, sub)):
            at = scalars[CHANGES]
            work.changes[4 * at], work.changes[4 * at + 1] = n, ADD
            work.changes[4 * at + 2], work.changes[4 * at + 3] = sub, work.best_numbers[rank]
            work.change_scores[at] = work.best_scores[rank]
            scalars[CHANGES] = at + 1
    return len(subs)


@lean_kernel
def rebase(state: TopkState, shift: int) -> None:
    """Count messages from a later one on, a multiple of the ring's size."""
    rebase_window(state, shift)
    for sub in range(len(state.sub_i) // (2 * SUB)):
        row = 2 * SUB * sub
        if state.sub_i[row + TERM_COUNT] == 0:
            continue
        _rebase_seat(state, sub, shift)


@inner
def rebase_window(state: TopkState, shift: int) -> None:
    """Let the messages of the window have lower numbers."""
    for scalar in (FIRST, NEXT, DUE):
        state.scalars[scalar] -= shift
    for term in range(len(state.lists) // LIST):
        _rebase_list(state, term, shift)


@inner
def _rebase_list(state: TopkState, term: int, shift: int) -> None:
    from_row = term * LIST
    if state.lists[from_row + SIZE] < 0:
        return
    size = wide(1) << state.lists[from_row + SIZE]
    for n in range(size):
        state.list_i[wide(state.lists[from_row]) + n] -= shift


@inner
def _rebase_seat(state: TopkState, sub: int, shift: int) -> None:
    row = 2 * SUB * sub
    base = wide(state.seat_i[row + BUFFER])
    numbers = 2 * (base + size_of_class(state.seat_i[row + K_AND_CLASS] & 15))
    for n in range(state.seat_i[row + BEGIN], state.seat_i[row + END]):
        state.buffer_i[numbers + n] = max(wide(state.buffer_i[numbers + n]) - shift, -1)
    if state.seat_i[row + KTH_NUMBER] >= 0:
        state.seat_i[row + KTH_NUMBER] -= shift
    if state.seat_i[row + NEXT_SEAT] != NOT_FILED and state.seat_i[row + BEFORE] < 0:
        state.seat_i[row + BEFORE] += shift
