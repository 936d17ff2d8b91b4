"""Messages taken out of the window before they are the oldest, and the holes that they leave.

A message that is taken out leaves the circles of its terms and all buffers at once. Who buffers it
is found by matching it again: every one whose threshold it reaches may. Its row and its terms stay,
a hole, until the oldest messages have left the window, or until `close_holes` gives the others
numbers without gaps.
"""

from __future__ import annotations

from nearcast._jit import inlined, inner, lean_kernel
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.topk.kernels.buffers import lose, wait
from nearcast.topk.kernels.evaluate import evaluate_between
from nearcast.topk.kernels.events import free_record, refresh_due, stamp_event, write_record
from nearcast.topk.kernels.floor import entries_before
from nearcast.topk.kernels.layout import (
    AHEAD,
    BEGIN,
    BUFFER,
    CHANGES,
    COUNT,
    DONE,
    DUE,
    END,
    FIRST,
    FIRST_TERM,
    HOLES,
    K_AND_CLASS,
    KTH_NUMBER,
    LENGTH,
    LIST,
    MESSAGE,
    MESSAGE_PLANES,
    MORE_CHANGES,
    NEXT,
    NEXT_SEAT,
    NOT_FILED,
    NOTHING,
    OFFSET,
    OLDEST,
    SEATS,
    SIZE,
    SUB,
    TAKEN_OUT,
    TERM_COUNT,
    TERM_TAIL,
    TopkScratch,
    TopkState,
    X,
    Y,
)
from nearcast.topk.kernels.match import affected_by
from nearcast.topk.kernels.message import arrange, table_size
from nearcast.topk.kernels.postings import set_theta
from nearcast.topk.kernels.seats import size_of_class
from nearcast.topk.kernels.window import is_hole, leave_oldest, message_row, shrink


@inner
def recall(state: TopkState, work: TopkScratch, number: int) -> int:
    """Make a message of the window the one at hand, as `prepare` did; give its number of terms."""
    row = message_row(state, number) * MESSAGE
    capacity, length = len(state.message_terms), 0
    at = wide(state.message_i[row + FIRST_TERM])
    for _ in range(state.message_i[row + LENGTH]):
        term = wide(state.message_terms[at])
        at = at + 1 if at + 1 < capacity else 0
        if term < 0:  # how often the one before it occurs
            work.weights[length - 1] = -term * work.idfs[length - 1]
            continue
        work.terms[length], work.weights[length] = term, state.idf[term]
        work.idfs[length] = state.idf[term]
        length += 1
    arrange(work, length, state.message_f[row + 2])
    return length


@inner
def _strike_out(state: TopkState, term: int, number: int) -> None:
    """Take a message out of the circle of a term; the shorter side closes the gap."""
    row = term * LIST
    lists, ints = state.lists, state.list_i
    at, size = wide(lists[row + OFFSET]), wide(1) << lists[row + SIZE]
    count, oldest, last = wide(lists[row + COUNT]), wide(lists[row + OLDEST]), size - 1
    place = entries_before(state, term, number)
    for plane in range(MESSAGE_PLANES):
        to = at + plane * size
        if 2 * place < count:
            for back in range(place):
                n = place - back
                ints[to + ((oldest + n) & last)] = ints[to + ((oldest + n - 1) & last)]
        else:
            for n in range(place, count - 1):
                ints[to + ((oldest + n) & last)] = ints[to + ((oldest + n + 1) & last)]
    if 2 * place < count:
        lists[row + OLDEST] = (oldest + 1) & last
    lists[row + COUNT] = count - 1
    if 4 * (count - 1) <= size:
        shrink(state, term)


@inner
def make_hole(state: TopkState, number: int) -> None:
    """Take a message out of the circles of its terms."""
    row = message_row(state, number) * MESSAGE
    capacity = len(state.message_terms)
    at = wide(state.message_i[row + FIRST_TERM])
    for _ in range(state.message_i[row + LENGTH]):
        term = wide(state.message_terms[at])
        at = at + 1 if at + 1 < capacity else 0
        if term >= 0:
            _strike_out(state, term, number)
    state.message_i[row + LENGTH] = TAKEN_OUT
    state.scalars[HOLES] += 1


@inlined
def pass_holes(state: TopkState) -> None:
    """Let the window begin with a message that is there."""
    while state.scalars[FIRST] < state.scalars[NEXT] and is_hole(state, state.scalars[FIRST]):
        leave_oldest(state)


@lean_kernel
def take_out(state: TopkState, work: TopkScratch, numbers: Int32s, begin: int) -> tuple[int, int]:
    """Take messages out of the window; give how far it came, and what must grow before it goes on.

    Those that are not there are passed over.
    """
    scalars = state.scalars
    for n in range(begin, len(numbers)):
        number = wide(numbers[n])
        code = refresh_due(state, work)  # of the message before
        if code != DONE:
            return n, code
        if number < scalars[FIRST] or is_hole(state, number):
            continue
        if number == scalars[FIRST]:  # who waits for it is known
            leave_oldest(state)
            pass_holes(state)
            continue
        # Find out who may buffer it, and whether there is room to say what changes for them.
        row = message_row(state, number) * MESSAGE
        x, y, squared = (
            state.message_f[row + X],
            state.message_f[row + Y],
            state.message_f[row + 2],
        )
        length = recall(state, work, number)
        affected = affected_by(state, work, x, y, squared, length, table_size(length))
        if len(work.change_scores) - scalars[CHANGES] < 2 * affected + 2:
            return n, MORE_CHANGES
        # Take it out of the window first: a buffer that is being refilled must not find it.
        make_hole(state, number)
        for m in range(affected):
            lose(state, work, wide(work.affected[m]), number)
    code = refresh_due(state, work)
    if code == DONE:
        stamp_event(state, work, 0)
    return len(numbers), code


@inner
def renumber_window(state: TopkState, renumbered: Int32s) -> None:
    """Give messages other numbers, in the same order, without holes; the last keeps its own.

    `renumbered` has those of all messages of the window, the oldest first; a hole has none.
    """
    scalars = state.scalars
    first, end, capacity = scalars[FIRST], scalars[NEXT], len(state.message_terms)
    # Circles of terms have no holes.
    for term in range(len(state.lists) // LIST):
        row = term * LIST
        if state.lists[row + SIZE] >= 0:
            at, last = wide(state.lists[row + OFFSET]), (wide(1) << state.lists[row + SIZE]) - 1
            for n in range(wide(state.lists[row + COUNT])):
                place = at + ((wide(state.lists[row + OLDEST]) + n) & last)
                state.list_i[place] = renumbered[state.list_i[place] - first]
    # The terms of messages move together, from the oldest on.
    tail = scalars[TERM_TAIL]
    if first < end:
        tail = wide(state.message_i[message_row(state, first) * MESSAGE + FIRST_TERM])
    for number in range(first, end):
        if is_hole(state, number):
            continue
        row = message_row(state, number) * MESSAGE
        at = wide(state.message_i[row + FIRST_TERM])
        state.message_i[row + FIRST_TERM] = tail
        for _ in range(state.message_i[row + LENGTH]):
            state.message_terms[tail] = state.message_terms[at]
            at = at + 1 if at + 1 < capacity else 0
            tail = tail + 1 if tail + 1 < capacity else 0
    scalars[TERM_TAIL] = tail
    # Rows move up, the newest first.
    live = wide(0)
    for back in range(end - first):
        number = end - 1 - back
        if is_hole(state, number):
            continue
        live += 1
        old = message_row(state, number) * MESSAGE
        new = message_row(state, wide(renumbered[number - first])) * MESSAGE
        for field in range(MESSAGE):
            state.message_f[new + field] = state.message_f[old + field]
            state.message_i[new + field] = state.message_i[old + field]
    scalars[FIRST] = scalars[DUE] = end - live
    scalars[HOLES] = 0


@lean_kernel
def close_holes(state: TopkState, renumbered: Int32s) -> None:
    """Give the messages of the window numbers without gaps; see `renumber_window`."""
    first = state.scalars[FIRST]
    renumber_window(state, renumbered)
    state.scalars[AHEAD] = -1
    for number in range(state.scalars[FIRST], state.scalars[NEXT]):
        state.message_i[message_row(state, number) * MESSAGE + SEATS] = -1
    for sub in range(len(state.sub_i) // (2 * SUB)):
        seat = 2 * SUB * sub
        if state.sub_i[seat + TERM_COUNT] == 0:
            continue
        # Buffers lose what expired, and have no holes; every seat is filed again.
        base = wide(state.seat_i[seat + BUFFER])
        numbers = 2 * (base + size_of_class(state.seat_i[seat + K_AND_CLASS] & 15))
        begin, end = wide(state.seat_i[seat + BEGIN]), wide(state.seat_i[seat + END])
        while begin < end and state.buffer_i[numbers + begin] < first:
            begin += 1
        state.seat_i[seat + BEGIN] = begin
        for n in range(begin, end):
            state.buffer_i[numbers + n] = renumbered[state.buffer_i[numbers + n] - first]
        if state.seat_i[seat + KTH_NUMBER] >= 0:
            state.seat_i[seat + KTH_NUMBER] = renumbered[state.seat_i[seat + KTH_NUMBER] - first]
        state.seat_i[seat + NEXT_SEAT] = NOT_FILED
        wait(state, sub)


@lean_kernel
def search(
    state: TopkState, work: TopkScratch, sub: int, points: Floats, alphas: Floats, starts: Int64s,
    terms: Int32s, wanted: int, scores: Floats, numbers: Int32s,
) -> tuple[int, int]:  # fmt: skip
    """Find the `wanted` best messages of the window for a query, under a number that is free.

    They are at the front of `scores` and `numbers`, in no order. Gives how many there are, and
    what must grow before it can be answered.
    """
    code = write_record(state, sub, points, alphas, starts, terms, 0)
    if code != DONE:
        return 0, code
    since, until = wide(state.scalars[FIRST]), wide(state.scalars[NEXT])
    found = evaluate_between(state, work, sub, wanted, since, until, NOTHING, scores, numbers)
    free_record(state, sub)
    return found, DONE


@lean_kernel
def set_thetas(state: TopkState, subs: Int64s, thetas: Floats) -> None:
    """Change the thresholds of subscriptions whose results are kept elsewhere."""
    for n in range(len(subs)):
        set_theta(state, wide(subs[n]), thetas[n])
