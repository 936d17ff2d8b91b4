"""Result buffers sorted by score (section 6): cSkyband, Skyband and kmax.

Each message knows who buffers it, so its expiry takes it out of every buffer. A k-skyband leaves
out what k newer messages with at least its score dominate; kmax keeps the best kmax.
"""

from __future__ import annotations

from math import inf, log

from nearcast._jit import inlined, inner
from nearcast.arrays.numbers import wide
from nearcast.events.fields import ADD, REMOVE
from nearcast.topk.kernels.buffers import log_change, log_displaced
from nearcast.topk.kernels.evaluate import evaluate, evaluate_between
from nearcast.topk.kernels.layout import (
    CHANGES,
    COUNT,
    FIRST,
    LIST,
    MESSAGE,
    NEXT,
    NOTHING,
    REEVALUATED,
    SEATS,
    SUB,
    TERM_COUNT,
    THETA,
    TopkScratch,
    TopkState,
)
from nearcast.topk.kernels.order import before, keep_best
from nearcast.topk.kernels.postings import term_of
from nearcast.topk.kernels.window import message_row
from nearcast.topk.skype._entries import change_theta
from nearcast.topk.skype._layout import (
    ARRIVED,
    BUFFER,
    C_SKYBAND,
    EXPIRED,
    FIRST_BEFORE,
    K_MAX,
    KIND,
    LENGTH,
    LOGGED,
    NEXT_BEFORE,
    NODE_END,
    NODE_FREE,
    PARAMETER,
    POLICY,
    RANK_END,
    RANKS,
    SKYBAND,
    SMALLEST,
    K,
    SkypeArrays,
)

MOST = 2816
"""As many messages as an evaluation can give."""

_EVEN, _ENDLESS = 1e-3, 60.0
"""A share this close to a half counts as one; a walk that grows by e to this power never ends."""

_FEWEST = 64
"""Twice the updates of the shortest period over which arrivals are counted, and how many of each
kind are taken for granted, so that a few do not decide."""


@inlined
def _room(kind: int) -> int:
    return wide(SMALLEST) << kind


@inlined
def _number_at(index: SkypeArrays, base: int, room: int, n: int) -> int:
    return wide(index.rank_i[2 * (base + room) + n])


@inner
def add_node(state: TopkState, index: SkypeArrays, sub: int, number: int) -> None:
    """Note that a subscription buffers a message."""
    node = wide(index.options[NODE_FREE])
    if node >= 0:
        index.options[NODE_FREE] = index.nodes[2 * node + 1]
    else:
        node = wide(index.options[NODE_END])
        index.options[NODE_END] += 1
    head = message_row(state, number) * MESSAGE + SEATS
    index.nodes[2 * node], index.nodes[2 * node + 1] = sub, state.message_i[head]
    state.message_i[head] = node


@inner
def ensure_room(index: SkypeArrays, sub: int) -> None:
    """Make room for one more message; the arena must have some."""
    row = RANKS * sub
    old = wide(index.ranks[row + KIND])
    if old >= 0 and index.ranks[row + LENGTH] < _room(old):
        return
    kind = old + 1
    room = _room(kind)
    at = wide(index.rank_free[kind])
    if at >= 0:
        index.rank_free[kind] = index.rank_i[2 * at]
    else:
        at = wide(index.options[RANK_END])
        index.options[RANK_END] += 2 * room
    if old >= 0:
        base, had = wide(index.ranks[row + BUFFER]), _room(old)
        for n in range(index.ranks[row + LENGTH]):
            index.rank_f[at + n] = index.rank_f[base + n]
            index.rank_i[2 * (at + room) + n] = index.rank_i[2 * (base + had) + n]
            index.rank_i[2 * (at + room) + room + n] = index.rank_i[2 * (base + had) + had + n]
        index.rank_i[2 * base] = index.rank_free[old]
        index.rank_free[old] = base
    index.ranks[row + BUFFER], index.ranks[row + KIND] = at, kind


@inner
def free_ranks(index: SkypeArrays, sub: int) -> None:
    """Give back the buffer of a subscription."""
    row = RANKS * sub
    kind = wide(index.ranks[row + KIND])
    if kind >= 0:
        base = wide(index.ranks[row + BUFFER])
        index.rank_i[2 * base] = index.rank_free[kind]
        index.rank_free[kind] = base
    index.ranks[row + KIND], index.ranks[row + LENGTH] = -1, 0


@inner
def _put(index: SkypeArrays, sub: int, score: float, number: int) -> int:
    """Put a message where it ranks; give the rank."""
    row = RANKS * sub
    ensure_room(index, sub)
    base, room = wide(index.ranks[row + BUFFER]), _room(wide(index.ranks[row + KIND]))
    numbers = 2 * (base + room)
    n = wide(index.ranks[row + LENGTH])
    while n > 0 and before(
        score, number, index.rank_f[base + n - 1], wide(index.rank_i[numbers + n - 1])
    ):
        index.rank_f[base + n] = index.rank_f[base + n - 1]
        index.rank_i[numbers + n] = index.rank_i[numbers + n - 1]
        index.rank_i[numbers + room + n] = index.rank_i[numbers + room + n - 1]
        n -= 1
    index.rank_f[base + n], index.rank_i[numbers + n] = score, number
    index.rank_i[numbers + room + n] = 0
    index.ranks[row + LENGTH] += 1
    return n


@inner
def _drop(index: SkypeArrays, sub: int, n: int) -> None:
    """Take out the message of a rank."""
    row = RANKS * sub
    base, room = wide(index.ranks[row + BUFFER]), _room(wide(index.ranks[row + KIND]))
    numbers, length = 2 * (base + room), wide(index.ranks[row + LENGTH]) - 1
    for m in range(n, length):
        index.rank_f[base + m] = index.rank_f[base + m + 1]
        index.rank_i[numbers + m] = index.rank_i[numbers + m + 1]
        index.rank_i[numbers + room + m] = index.rank_i[numbers + room + m + 1]
    index.ranks[row + LENGTH] = length


@inner
def expected_steps(k: int, n: int, arriving: float) -> float:
    """How many updates of messages above the threshold pass until fewer than k of n are left.

    The random walk of section 6.2.2, from n to k - 1, reflected at 2n: equation 12 without
    prob(theta), if as many messages arrive as expire. In a window of seconds the share of those
    that arrive among all updates may be another (section 6.3), and the walk has a drift. With r =
    arriving / (1 - arriving), to come down by one from a place x takes the sum of r^j over (1 -
    arriving), j from 0 to 2n - x; the answer is the sum of that over x from k to n.
    """
    spare = n - k + 1.0
    if abs(arriving - 0.5) < _EVEN:
        return 2.0 * spare * n + spare * (spare + 1.0)
    ratio = arriving / (1.0 - arriving)
    if (n + spare) * log(ratio) > _ENDLESS:
        return 1e300
    growth = ratio ** (n + 1.0) * (ratio**spare - 1.0) / (ratio - 1.0)
    return float((growth - spare) / ((1.0 - arriving) * (ratio - 1.0)))


@inner
def best_depth(k: int, cost: float, arriving: float) -> int:
    """How many messages to start with: where equation 13 has its least value.

    With n = |W| prob(theta) messages above the threshold, equation 9 is n / |W| * k ln(n / k),
    whatever the share of arrivals, and equation 10 is n / |W| * C_topk / steps; so |W| does not
    matter. Both parts are convex in n, so the search ends where their sum rises.
    """
    best, least = k, 1e300
    for n in range(k, MOST):
        value = n * (k * log(n / k) + cost / expected_steps(k, n, arriving))
        if value >= least:
            break
        best, least = n, value
    return best


@inner
def evaluation_cost(state: TopkState, sub: int) -> int:
    """The entries of the message index that an evaluation reads, a part of C_topk (equation 10).

    The paper takes the average of earlier evaluations. Here an evaluation reads the lists of the
    subscription's terms, so that this is known before it, and before the first.
    """
    cost = wide(0)
    for n in range(state.sub_i[2 * SUB * sub + TERM_COUNT]):
        cost += state.lists[term_of(state, sub, n) * LIST + COUNT]
    return cost


@inner
def arriving_share(state: TopkState, index: SkypeArrays) -> float:
    """The share of arrivals among the latest updates of a window of seconds (section 6.3).

    It is counted over this period and the one before; a period has as many updates as half the
    window has messages. In a window of a fixed number of messages it is a half, and also in one of
    seconds from which nothing has expired yet: that it fills says nothing of what follows.
    """
    first, end = state.scalars[FIRST], state.scalars[NEXT]
    if state.measures[3] == inf:
        return 0.5
    options = index.options
    expired, arrived = first - options[FIRST_BEFORE], end - options[NEXT_BEFORE]
    updates = options[ARRIVED] + arrived + options[EXPIRED] + expired
    share = (options[ARRIVED] + arrived + _FEWEST) / (updates + 2.0 * _FEWEST)
    if first == 0:
        expired, arrived, share = wide(0), wide(0), 0.5
    if first == 0 or 2 * (arrived + expired) > max(end - first, _FEWEST):
        options[EXPIRED], options[ARRIVED] = expired, arrived
        options[FIRST_BEFORE], options[NEXT_BEFORE] = first, end
    return float(share)


@inner
def refill(state: TopkState, work: TopkScratch, index: SkypeArrays, sub: int) -> None:
    """Fill the buffer of a subscription from the window, and set its threshold by the policy.

    `index.ranks` has a record for each subscription; its buffer is a span of `index.rank_f`
    (scores) and `index.rank_i` (numbers of messages, and how many newer and better ones each has).
    """
    # How many messages to start with, by the policy.
    row = RANKS * sub
    k = wide(index.ranks[row + K])
    policy = index.options[POLICY]
    parameter = wide(index.options[PARAMETER])
    if policy == K_MAX:
        wanted = max(k, min(MOST, parameter * k // 20))
    elif policy == C_SKYBAND:
        cost = parameter + float(evaluation_cost(state, sub))
        wanted = best_depth(k, cost, arriving_share(state, index))
    else:
        wanted = min(4 * k, MOST)
    # Search the window.
    found = evaluate(state, work, sub, wanted)
    complete = found < wanted
    if policy == SKYBAND and not complete:
        # More may reach the threshold, which is known by now.
        last = work.best_scores[found - 1]
        keep_best(work.best_scores, work.best_numbers, 0, found, k)
        theta = work.best_scores[k - 1] * parameter / 100.0
        if last >= theta:
            wanted = wide(MOST)
            found = evaluate_between(
                state, work, sub, wanted, wide(state.scalars[FIRST]), wide(state.scalars[NEXT]),
                theta, work.best_scores, work.best_numbers,
            )  # fmt: skip
    # Fill the buffer.
    free_ranks(index, sub)
    for n in range(found):
        _put(index, sub, work.best_scores[n], wide(work.best_numbers[n]))
    base, room = wide(index.ranks[row + BUFFER]), _room(max(0, wide(index.ranks[row + KIND])))
    # Set the threshold: none if the buffer holds all there is.
    theta = NOTHING
    if policy == SKYBAND and found >= k:
        theta = index.rank_f[base + k - 1] * parameter / 100.0
        while found > k and index.rank_f[base + found - 1] < theta:
            found -= 1
            complete = False
        index.ranks[row + LENGTH] = found
        if not complete and found == wanted:
            theta = max(theta, index.rank_f[base + found - 1])
    elif not complete:
        theta = index.rank_f[base + found - 1]
    if complete:
        theta = NOTHING
    # Keep the k-skyband only, and wait for each of its messages to leave the window.
    if policy != K_MAX:
        _leave_out_dominated(index, sub, k)
    base, room = wide(index.ranks[row + BUFFER]), _room(max(0, wide(index.ranks[row + KIND])))
    for n in range(wide(index.ranks[row + LENGTH])):
        add_node(state, index, sub, _number_at(index, base, room, n))
    if theta != state.sub_f[SUB * sub + THETA]:
        change_theta(state, index, sub, theta)


@inner
def _leave_out_dominated(index: SkypeArrays, sub: int, k: int) -> None:
    """Count for each message the newer ones that rank before it; drop those with k or more."""
    row = RANKS * sub
    length = wide(index.ranks[row + LENGTH])
    if length == 0:
        return
    base, room = wide(index.ranks[row + BUFFER]), _room(wide(index.ranks[row + KIND]))
    numbers = 2 * (base + room)
    kept = 0
    for n in range(length):
        number, newer = wide(index.rank_i[numbers + n]), 0
        # One that was left out has k newer and better ones itself, so counting the kept will do.
        for m in range(kept):
            newer += index.rank_i[numbers + m] > number
        if newer < k:
            index.rank_f[base + kept] = index.rank_f[base + n]
            index.rank_i[numbers + kept] = number
            index.rank_i[numbers + room + kept] = newer
            kept += 1
    index.ranks[row + LENGTH] = kept


@inner
def arrive(
    state: TopkState, work: TopkScratch, index: SkypeArrays, sub: int, score: float, number: int
) -> None:
    """Buffer a message that reaches the threshold, and say what that changes."""
    row = RANKS * sub
    k = wide(index.ranks[row + K])
    rank = _put(index, sub, score, number)
    base, room = wide(index.ranks[row + BUFFER]), _room(wide(index.ranks[row + KIND]))
    numbers, length = 2 * (base + room), wide(index.ranks[row + LENGTH])
    if rank < k:
        log_change(state, work, ADD, sub, number, score)
        if length > k:
            displaced = _number_at(index, base, room, k)
            score = index.rank_f[base + k]
            log_displaced(state, work, wide(index.ranks[row + LOGGED]), sub, displaced, score)
    add_node(state, index, sub, number)
    if index.options[POLICY] == K_MAX:
        most = max(k, min(MOST, wide(index.options[PARAMETER]) * k // 20))
        if length > most:
            index.ranks[row + LENGTH] = most
            change_theta(state, index, sub, index.rank_f[base + most - 1])
        return
    kept = rank + 1
    for n in range(rank + 1, length):
        dominating = wide(index.rank_i[numbers + room + n]) + 1
        if dominating < k:
            index.rank_f[base + kept] = index.rank_f[base + n]
            index.rank_i[numbers + kept] = index.rank_i[numbers + n]
            index.rank_i[numbers + room + kept] = dominating
            kept += 1
    index.ranks[row + LENGTH] = kept


@inner
def expire(
    state: TopkState, work: TopkScratch, index: SkypeArrays, sub: int, taken_out: int
) -> None:
    """Take what expired out of a buffer (algorithm 2), and say what that changes.

    So is the message `taken_out` of the window before its time, if it is not -1. What it dominated
    may count again, and is no longer in the buffer, which is being refilled.
    """
    row = RANKS * sub
    k = wide(index.ranks[row + K])
    first, start = state.scalars[FIRST], state.scalars[CHANGES]
    lost, n = 0, 0
    had = min(k, wide(index.ranks[row + LENGTH]))
    base, room = wide(index.ranks[row + BUFFER]), _room(max(0, wide(index.ranks[row + KIND])))
    dead = 0
    while n < index.ranks[row + LENGTH]:
        number = _number_at(index, base, room, n)
        if number < first or number == taken_out:
            if n + dead < k:
                log_change(state, work, REMOVE, sub, number, index.rank_f[base + n])
                lost += 1
            _drop(index, sub, n)
            dead += 1
        else:
            n += 1
    if dead == 0:
        return
    index.ranks[row + LOGGED] = start
    survivors = had - lost
    worst, worst_number = NOTHING, wide(-1)
    if survivors > 0:
        worst = index.rank_f[base + survivors - 1]
        worst_number = _number_at(index, base, room, survivors - 1)
    few = index.ranks[row + LENGTH] < k and state.sub_f[SUB * sub + THETA] != NOTHING
    if few or (taken_out >= 0 and index.options[POLICY] != K_MAX):
        state.scalars[REEVALUATED] += 1
        refill(state, work, index, sub)
        base, room = wide(index.ranks[row + BUFFER]), _room(max(0, wide(index.ranks[row + KIND])))
    for n in range(min(k, wide(index.ranks[row + LENGTH]))):
        score, number = index.rank_f[base + n], _number_at(index, base, room, n)
        if survivors == 0 or before(worst, worst_number, score, number):
            log_change(state, work, ADD, sub, number, score)
