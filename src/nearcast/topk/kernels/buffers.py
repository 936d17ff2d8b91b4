"""Buffers of subscriptions: all messages of the window from its threshold on, as they came.

The k best of them are its members. A buffer is appended to and read from end to end; what expired
is in front and is passed over. A full one grows while its class may, and is then cut to the
best: its threshold rises. When fewer than k are left of one that was cut, the window is evaluated
again, and the threshold falls. One that was never cut has all there is and is never evaluated.

A seat waits for the expiry of its oldest member, chained to that message. Members leave by being
displaced too, so a seat may find, when its time comes, that it has to wait for a younger one.
"""

from __future__ import annotations

from nearcast._jit import inlined, inner
from nearcast.arrays.numbers import as_float, as_integer, unsigned, wide
from nearcast.arrays.types import Floats, Int32s
from nearcast.events.fields import ADD, REMOVE
from nearcast.topk.kernels.evaluate import evaluate
from nearcast.topk.kernels.layout import (
    ADDED,
    BEGIN,
    BUFFER,
    CHANGES,
    CUT,
    END,
    EVENT_START,
    FIRST,
    K_AND_CLASS,
    KTH_NUMBER,
    KTH_SCORE,
    LAZY,
    LOGGED,
    MEMBERS,
    NEXT_SEAT,
    NOT_FILED,
    NOTHING,
    REEVALUATED,
    REFILED,
    REFRESHED,
    REMOVED,
    SUB,
    THETA,
    TopkScratch,
    TopkState,
)
from nearcast.topk.kernels.order import before, keep_best
from nearcast.topk.kernels.postings import set_theta
from nearcast.topk.kernels.seats import (
    depth_for,
    file_seat,
    give_buffer_back,
    largest_class,
    size_of_class,
    take_buffer,
    unfile_seat,
)

_HIGHEST = (1 << 63) - 1
_LOWEST = -1  # below every score as an integer


@inlined
def log_change(
    state: TopkState, work: TopkScratch, op: int, sub: int, number: int, score: float
) -> None:
    """Note that a message came to, or went from, the results of a subscription."""
    at = state.scalars[CHANGES]
    work.changes[4 * at + 1] = op
    work.changes[4 * at + 2] = sub
    work.changes[4 * at + 3] = number
    work.change_scores[at] = score
    state.scalars[CHANGES] = at + 1
    state.scalars[ADDED if op == ADD else REMOVED] += 1


@inlined
def log_displaced(
    state: TopkState, work: TopkScratch, at: int, sub: int, number: int, score: float
) -> None:
    """Log that a member is displaced; one that this very event had promoted was never there.

    What the event did to the subscription is logged from `at` on, if there is anything.
    """
    last = state.scalars[CHANGES] - 1
    if at >= state.scalars[EVENT_START]:
        while at <= last and work.changes[4 * at + 2] == sub:
            if work.changes[4 * at + 3] == number and work.changes[4 * at + 1] == ADD:
                for field in range(4):
                    work.changes[4 * at + field] = work.changes[4 * last + field]
                work.change_scores[at] = work.change_scores[last]
                state.scalars[CHANGES] = last
                state.scalars[ADDED] -= 1
                return
            at += 1
    log_change(state, work, REMOVE, sub, number, score)


@inlined
def _write(state: TopkState, sub: int, scores: Floats, numbers: Int32s, count: int) -> None:
    """Fill the buffer of a subscription with messages, sorted by their age."""
    seat = 2 * SUB * sub
    gap = 1
    while gap < count // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for n in range(gap, count):
            score, number = scores[n], numbers[n]
            at = n
            while at >= gap and numbers[at - gap] > number:
                scores[at], numbers[at] = scores[at - gap], numbers[at - gap]
                at -= gap
            scores[at], numbers[at] = score, number
        gap //= 3
    base = wide(state.seat_i[seat + BUFFER])
    size = size_of_class(state.seat_i[seat + K_AND_CLASS] & 15)
    for n in range(count):
        state.buffer_f[base + n] = scores[n]
        state.buffer_i[2 * (base + size) + n] = numbers[n]
    state.seat_i[seat + BEGIN], state.seat_i[seat + END] = 0, count


@inner
def fill(state: TopkState, work: TopkScratch, sub: int) -> None:
    """Evaluate a subscription against the window, and set its threshold by what was found.

    Its buffer has the largest class it may have.
    """
    kind = wide(state.seat_i[2 * SUB * sub + K_AND_CLASS] & 15)
    wanted = depth_for(size_of_class(kind))
    found = evaluate(state, work, sub, wanted)
    theta = NOTHING if found < wanted else work.best_scores[wanted - 1]
    _write(state, sub, work.best_scores, work.best_numbers, found)
    if theta != state.sub_f[SUB * sub + THETA]:
        set_theta(state, sub, theta)


@inlined
def seat_new(state: TopkState, work: TopkScratch, sub: int, k: int) -> None:
    """Give a subscription that was posted a buffer, its members, and something to wait for."""
    seat = 2 * SUB * sub
    largest = largest_class(k)
    wanted = depth_for(size_of_class(largest))
    found = evaluate(state, work, sub, wanted)
    theta = NOTHING if found < wanted else work.best_scores[wanted - 1]
    kind = wide(0)
    while kind < largest and size_of_class(kind) <= found:
        kind += 1
    if found == wanted:
        kind = largest
    state.seat_i[seat + K_AND_CLASS] = 16 * k + kind
    state.seat_i[seat + BUFFER] = take_buffer(state, kind)
    state.seat_i[seat + NEXT_SEAT] = NOT_FILED
    state.seat_i[seat + LOGGED] = -1
    _write(state, sub, work.best_scores, work.best_numbers, found)
    if theta != NOTHING:
        set_theta(state, sub, theta)
    set_members(state, work, sub)
    wait(state, sub)


@inlined
def set_members(state: TopkState, work: TopkScratch, sub: int) -> None:
    """Find out which messages of a buffer, all alive, are the k best."""
    seat = 2 * SUB * sub
    k = wide(state.seat_i[seat + K_AND_CLASS] >> 4)
    begin, end = wide(state.seat_i[seat + BEGIN]), wide(state.seat_i[seat + END])
    count = end - begin
    state.seat_f[SUB * sub + KTH_SCORE], state.seat_i[seat + KTH_NUMBER] = NOTHING, -1
    state.seat_i[seat + MEMBERS] = min(k, count)
    if count < k:
        return
    base = wide(state.seat_i[seat + BUFFER])
    size = size_of_class(state.seat_i[seat + K_AND_CLASS] & 15)
    for n in range(count):
        work.best_scores[n] = state.buffer_f[base + begin + n]
        work.best_numbers[n] = state.buffer_i[2 * (base + size) + begin + n]
    keep_best(work.best_scores, work.best_numbers, 0, count, k)
    state.seat_f[SUB * sub + KTH_SCORE] = work.best_scores[k - 1]
    state.seat_i[seat + KTH_NUMBER] = work.best_numbers[k - 1]


@inlined
def wait(state: TopkState, sub: int) -> None:
    """File a seat under its oldest member, or, lazily, under its k-th youngest message."""
    seat = 2 * SUB * sub
    begin, end = wide(state.seat_i[seat + BEGIN]), wide(state.seat_i[seat + END])
    base = wide(state.seat_i[seat + BUFFER])
    numbers = 2 * (base + size_of_class(state.seat_i[seat + K_AND_CLASS] & 15))
    if state.scalars[LAZY]:
        k = wide(state.seat_i[seat + K_AND_CLASS] >> 4)
        if state.sub_f[SUB * sub + THETA] != NOTHING and end - begin >= k:
            file_seat(state, sub, wide(state.buffer_i[numbers + end - k]))
        return
    score, number = state.seat_f[SUB * sub + KTH_SCORE], state.seat_i[seat + KTH_NUMBER]
    for n in range(begin, end):
        other = state.buffer_i[numbers + n]
        if not before(score, number, state.buffer_f[base + n], other):
            file_seat(state, sub, wide(other))
            return


@inner
def resize_buffer(state: TopkState, sub: int, kind: int) -> None:
    """Move a buffer to a region of another class, without what expired."""
    seat = 2 * SUB * sub
    old = wide(state.seat_i[seat + K_AND_CLASS] & 15)
    size, had = size_of_class(kind), size_of_class(old)
    at, base = wide(0), wide(state.seat_i[seat + BUFFER])
    begin, end = wide(state.seat_i[seat + BEGIN]), wide(state.seat_i[seat + END])
    at = take_buffer(state, kind)
    for n in range(begin, end):
        state.buffer_f[at + n - begin] = state.buffer_f[base + n]
        state.buffer_i[2 * (at + size) + n - begin] = state.buffer_i[2 * (base + had) + n]
    give_buffer_back(state, old, base)
    state.seat_i[seat + BUFFER] = at
    state.seat_i[seat + K_AND_CLASS] += kind - old
    state.seat_i[seat + BEGIN], state.seat_i[seat + END] = 0, end - begin


@inner
def _make_room(state: TopkState, work: TopkScratch, sub: int) -> None:
    """Make room in a full buffer: by what expired, by growing, or by raising the threshold."""
    seat = 2 * SUB * sub
    base, kind = wide(state.seat_i[seat + BUFFER]), state.seat_i[seat + K_AND_CLASS] & 15
    k = wide(state.seat_i[seat + K_AND_CLASS] >> 4)
    size = size_of_class(kind)
    numbers = 2 * (base + size)
    begin, end = wide(state.seat_i[seat + BEGIN]), wide(state.seat_i[seat + END])
    while begin < end and state.buffer_i[numbers + begin] < state.scalars[FIRST]:
        begin += 1
    state.seat_i[seat + BEGIN] = begin
    count = end - begin
    if 8 * begin < size:
        if kind < largest_class(k):
            resize_buffer(state, sub, kind + 1)
            return
        wanted = size * 7 // 10
        for n in range(count):
            work.best_scores[n] = state.buffer_f[base + begin + n]
            work.best_numbers[n] = state.buffer_i[numbers + begin + n]
        keep_best(work.best_scores, work.best_numbers, 0, count, wanted)
        theta = work.best_scores[wanted - 1]
        _write(state, sub, work.best_scores, work.best_numbers, wanted)
        set_theta(state, sub, theta)
        state.scalars[CUT] += 1
        return
    for n in range(count):
        state.buffer_f[base + n] = state.buffer_f[base + begin + n]
        state.buffer_i[numbers + n] = state.buffer_i[numbers + begin + n]
    state.seat_i[seat + BEGIN], state.seat_i[seat + END] = 0, count


@inlined
def may_grow(state: TopkState, sub: int) -> bool:
    """Whether the next message might need a larger buffer."""
    seat = 2 * SUB * sub
    kind = state.seat_i[seat + K_AND_CLASS] & 15
    full = state.seat_i[seat + END] == size_of_class(kind)
    return bool(full) and kind < largest_class(state.seat_i[seat + K_AND_CLASS] >> 4)


@inlined
def append(state: TopkState, work: TopkScratch, sub: int, score: float, number: int) -> None:
    """Add the newest message, which reaches the threshold, and say what that changes."""
    seat = 2 * SUB * sub
    if state.seat_i[seat + END] == size_of_class(state.seat_i[seat + K_AND_CLASS] & 15):
        _make_room(state, work, sub)
        if score < state.sub_f[SUB * sub + THETA]:
            return
    base = wide(state.seat_i[seat + BUFFER])
    numbers = 2 * (base + size_of_class(state.seat_i[seat + K_AND_CLASS] & 15))
    end = wide(state.seat_i[seat + END])
    state.buffer_f[base + end], state.buffer_i[numbers + end] = score, number
    state.seat_i[seat + END] = end + 1
    k = wide(state.seat_i[seat + K_AND_CLASS] >> 4)
    if state.scalars[LAZY]:
        if state.seat_i[seat + NEXT_SEAT] == NOT_FILED:
            wait(state, sub)
        return
    members = wide(state.seat_i[seat + MEMBERS])
    kth_score, kth = state.seat_f[SUB * sub + KTH_SCORE], wide(state.seat_i[seat + KTH_NUMBER])
    if members == k and score < kth_score:
        return
    log_change(state, work, ADD, sub, number, score)
    if members == k:
        log_displaced(state, work, wide(state.seat_i[seat + LOGGED]), sub, kth, kth_score)
    elif members == 0:
        file_seat(state, sub, number)
    members = min(members + 1, k)
    state.seat_i[seat + MEMBERS] = members
    if members < k:
        return
    _find_kth(state, sub, kth_score, kth)


@inlined
def _find_kth(state: TopkState, sub: int, score: float, number: int) -> None:
    """Make the worst message that ranks before a given one the k-th: there are k of them."""
    seat = 2 * SUB * sub
    base = wide(state.seat_i[seat + BUFFER])
    numbers = 2 * (base + size_of_class(state.seat_i[seat + K_AND_CLASS] & 15))
    begin, end = wide(state.seat_i[seat + BEGIN]), wide(state.seat_i[seat + END])
    # Scores alone first, as integers: most are different, and that can be done eight at a time.
    worst, equal, floor = _HIGHEST, 0, as_integer(score)
    start = unsigned(base + begin)
    for n in range(end - begin):
        value = state.buffer_l[start + unsigned(n)]
        worst = min(worst, value if value > floor else _HIGHEST)
        equal += value == floor
    least, found = worst, wide(-1)
    if equal > 1:
        least = floor
    for n in range(begin, end):
        other = wide(state.buffer_i[numbers + n])
        if state.buffer_l[base + n] == least and (least > floor or other > number):
            found = other
            break
    if found < 0:  # the others of that score come after the given one
        least = worst
        for n in range(begin, end):
            if state.buffer_l[base + n] == least:
                found = wide(state.buffer_i[numbers + n])
                break
    state.seat_f[SUB * sub + KTH_SCORE], state.seat_i[seat + KTH_NUMBER] = (
        as_float(least),
        found,
    )


@inlined
def refresh(state: TopkState, work: TopkScratch, sub: int) -> None:
    """Bring a seat, which is not filed, up to date after messages expired, and file it again."""
    seat = 2 * SUB * sub
    base = wide(state.seat_i[seat + BUFFER])
    numbers = 2 * (base + size_of_class(state.seat_i[seat + K_AND_CLASS] & 15))
    begin, end = wide(state.seat_i[seat + BEGIN]), wide(state.seat_i[seat + END])
    kth_score, kth = state.seat_f[SUB * sub + KTH_SCORE], wide(state.seat_i[seat + KTH_NUMBER])
    first, lazy = state.scalars[FIRST], state.scalars[LAZY] != 0
    start = state.scalars[CHANGES]
    lost = wide(0)
    while begin < end and state.buffer_i[numbers + begin] < first:
        number = wide(state.buffer_i[numbers + begin])
        if not lazy and not before(kth_score, kth, state.buffer_f[base + begin], number):
            log_change(state, work, REMOVE, sub, number, state.buffer_f[base + begin])
            lost += 1
        begin += 1
    state.seat_i[seat + BEGIN] = begin
    if lost == 0 and not lazy:
        state.scalars[REFILED] += 1
        wait(state, sub)
        return
    _replace_lost(state, work, sub, lost, start, wide(1))


@inner
def lose(state: TopkState, work: TopkScratch, sub: int, number: int) -> None:
    """Take a message that was taken out of the window out of a buffer, if it is there."""
    seat = 2 * SUB * sub
    base = wide(state.seat_i[seat + BUFFER])
    numbers = 2 * (base + size_of_class(state.seat_i[seat + K_AND_CLASS] & 15))
    begin, end = wide(state.seat_i[seat + BEGIN]), wide(state.seat_i[seat + END])
    kth_score, kth = state.seat_f[SUB * sub + KTH_SCORE], wide(state.seat_i[seat + KTH_NUMBER])
    # Pass over what expired, none of it a member; find the message among the others.
    while begin < end and state.buffer_i[numbers + begin] < state.scalars[FIRST]:
        begin += 1
    state.seat_i[seat + BEGIN] = begin
    low, high = begin, end
    while low < high:
        middle = (low + high) // 2
        if state.buffer_i[numbers + middle] < number:
            low = middle + 1
        else:
            high = middle
    if low == end or state.buffer_i[numbers + low] != number:
        return
    # Close the gap; if it was a member, somebody else takes its place.
    score = state.buffer_f[base + low]
    for n in range(low, end - 1):
        state.buffer_f[base + n] = state.buffer_f[base + n + 1]
        state.buffer_i[numbers + n] = state.buffer_i[numbers + n + 1]
    state.seat_i[seat + END] = end - 1
    start, lazy = state.scalars[CHANGES], state.scalars[LAZY] != 0
    if not lazy:
        if before(kth_score, kth, score, number):
            return
        log_change(state, work, REMOVE, sub, number, score)
    unfile_seat(state, sub)
    _replace_lost(state, work, sub, wide(1), start, wide(number != kth))


@inlined
def _replace_lost(
    state: TopkState, work: TopkScratch, sub: int, lost: int, start: int, has_kth: int
) -> None:
    """Fill the places of `lost` members, logged from `start` on, and file the seat again.

    The buffer is searched from the k-th member down; `has_kth` is 0 if it was taken out of it.
    """
    seat = 2 * SUB * sub
    state.scalars[REFRESHED] += 1
    k = wide(state.seat_i[seat + K_AND_CLASS] >> 4)
    count = wide(state.seat_i[seat + END]) - wide(state.seat_i[seat + BEGIN])
    if count < k and state.sub_f[SUB * sub + THETA] != NOTHING:
        state.scalars[REEVALUATED] += 1
        fill(state, work, sub)
    if state.scalars[LAZY] != 0:
        wait(state, sub)
        return
    state.seat_i[seat + LOGGED] = start
    if state.seat_i[seat + MEMBERS] == k:
        _promote(state, work, sub, lost, has_kth)
    else:
        state.seat_i[seat + MEMBERS] -= lost
    wait(state, sub)


@inlined
def _promote(state: TopkState, work: TopkScratch, sub: int, lost: int, has_kth: int) -> None:
    """Fill the places of `lost` members, of k, by the best of the others.

    Others of the k-th score are looked for only if there are some besides the k-th itself.
    """
    seat = 2 * SUB * sub
    base = wide(state.seat_i[seat + BUFFER])
    numbers = 2 * (base + size_of_class(state.seat_i[seat + K_AND_CLASS] & 15))
    begin, end = wide(state.seat_i[seat + BEGIN]), wide(state.seat_i[seat + END])
    kth_score, kth = state.seat_f[SUB * sub + KTH_SCORE], wide(state.seat_i[seat + KTH_NUMBER])
    start = unsigned(base + begin)
    for n in range(lost):
        ceiling, best, equal = as_integer(kth_score), _LOWEST, 0
        for m in range(end - begin):
            value = state.buffer_l[start + unsigned(m)]
            best = max(best, value if value < ceiling else _LOWEST)
            equal += value == ceiling
        found = _newest(state, base, numbers, begin, end, ceiling, kth) if equal > has_kth else -1
        has_kth = wide(1)
        if found >= 0:
            best = ceiling
        elif best > _LOWEST:
            found = _newest(state, base, numbers, begin, end, best, _HIGHEST)
        else:
            state.seat_i[seat + MEMBERS] -= lost - n
            kth_score, kth = NOTHING, wide(-1)
            break
        kth_score, kth = as_float(best), found
        log_change(state, work, ADD, sub, kth, kth_score)
    state.seat_f[SUB * sub + KTH_SCORE], state.seat_i[seat + KTH_NUMBER] = kth_score, kth


@inlined
def _newest(
    state: TopkState, base: int, numbers: int, begin: int, end: int, value: int, limit: int
) -> int:
    """The newest message of a score, as an integer, that is older than `limit`, or -1."""
    for back in range(end - begin):
        n = end - 1 - back
        if state.buffer_l[base + n] == value and state.buffer_i[numbers + n] < limit:
            return wide(state.buffer_i[numbers + n])
    return wide(-1)


@inlined
def ranked(state: TopkState, work: TopkScratch, sub: int) -> int:
    """Put the k best messages of a subscription, best first, into `best_*`; give their number."""
    seat = 2 * SUB * sub
    k = wide(state.seat_i[seat + K_AND_CLASS] >> 4)
    base = wide(state.seat_i[seat + BUFFER])
    numbers = 2 * (base + size_of_class(state.seat_i[seat + K_AND_CLASS] & 15))
    found = 0
    for n in range(wide(state.seat_i[seat + BEGIN]), wide(state.seat_i[seat + END])):
        if state.buffer_i[numbers + n] >= state.scalars[FIRST]:
            work.best_scores[found] = state.buffer_f[base + n]
            work.best_numbers[found] = state.buffer_i[numbers + n]
            found += 1
    if found > k:
        keep_best(work.best_scores, work.best_numbers, 0, found, k)
        found = k
    for place in range(1, found + 1):  # a selection from the back, one rank after another
        keep_best(work.best_scores, work.best_numbers, place - 1, found - place + 1, 1)
    return found
