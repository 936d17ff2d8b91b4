"""Kernels of a message worker: keep a part of the window, and answer requests from it."""

from __future__ import annotations

from typing import NamedTuple

from nearcast._jit import inlined, lean_kernel
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Bytes, Floats, Int32s, Int64s
from nearcast.spark.topk.dskype._aggregate import STAYS, RequestAnswers, depth_of
from nearcast.topk.kernels.evaluate import evaluate_between
from nearcast.topk.kernels.events import free_record, write_record
from nearcast.topk.kernels.layout import DONE, DUE, FIRST, NOTHING, SQUARED, TopkScratch, TopkState
from nearcast.topk.kernels.message import prepare
from nearcast.topk.kernels.order import keep_best
from nearcast.topk.kernels.window import enter, leave_oldest, room_to_enter

MORE_ANSWERS = 100
_NO_LIMIT = 1 << 40


class EvaluationRequests(NamedTuple):
    """Requests by their definitions; the terms of a query are in alphabetical order.

    Terms that no message of the part has are missing.
    """

    points: Floats
    alphas: Floats
    squared: Floats  # the squared length of the whole query vector
    ks: Int32s
    starts: Int64s  # the terms of request n are terms[starts[n] : starts[n + 1]]
    terms: Int32s
    since: Int32s  # the first event of each
    until: Int32s  # the event after its last
    flags: Bytes


class StepSpan(NamedTuple):
    """The events of a step, with the window in the part's own message numbers."""

    first: Int64s  # by event: the oldest message of the window after it
    next: Int64s  # by event: one more than the newest
    cuts: Int64s  # events, as `Timeline.cuts`


@lean_kernel
def enter_all(
    state: TopkState,
    work: TopkScratch,
    points: Floats,
    starts: Int64s,
    terms: Int32s,
    counts: Int32s,
    done: int,
) -> tuple[int, int]:
    """Add messages to the part, from number `done` on; return the next one, and what must grow."""
    for n in range(done, len(points)):
        start, length = starts[n], starts[n + 1] - starts[n]
        squared = prepare(state, work, terms, counts, start, length)
        code = room_to_enter(state, work, length)
        if code != DONE:
            return n, code
        enter(state, work, points[n, 0], points[n, 1], squared, 0.0, terms, counts, start, length)
    return len(points), DONE


@lean_kernel
def leave_until(state: TopkState, number: int) -> None:
    """Remove the messages before a number."""
    while state.scalars[FIRST] < number:
        leave_oldest(state)
    state.scalars[DUE] = state.scalars[FIRST]


@inlined
def _append(answers: RequestAnswers, at: int, scores: Floats, numbers: Int32s, count: int) -> int:
    """Append what was found, and return the new end, or -1 if there is no room."""
    if at + count > len(answers.scores):
        return wide(-1)
    for n in range(count):
        answers.scores[at + n], answers.numbers[at + n] = scores[n], numbers[n]
    return at + count


@lean_kernel
def answer(
    state: TopkState,
    work: TopkScratch,
    requests: EvaluationRequests,
    span: StepSpan,
    answers: RequestAnswers,
    scores: Floats,
    numbers: Int32s,
    done: int,
) -> tuple[int, int]:
    """Find the messages that may matter to each request, from number `done` on.

    Between two cuts these are the messages that score no lower than the k-th of those that stay in
    the window all the while. They are in no order, and one may occur more than once.

    `state` and `work` are the core with the messages of the part and its scratch space; record 0 of
    the subscriptions in `state` is used for one request at a time. Answers are appended to
    `answers`, those of request n at `starts[n] : starts[n + 1]`. `scores` and `numbers` are scratch
    space for one evaluation. Returns the request to go on with, and what must grow first.
    """
    events = len(span.first)
    for n in range(done, len(requests.ks)):
        # Write the request as a subscription that the core can evaluate.
        code = write_record(
            state, 0, requests.points, requests.alphas, requests.starts, requests.terms, n
        )
        if code != DONE:
            return n, code
        state.sub_f[SQUARED] = requests.squared[n]
        k, at, end = wide(requests.ks[n]), answers.starts[n], wide(requests.until[n])
        event, cut = wide(requests.since[n]), 0
        # Evaluate it from one cut to the next.
        while event < end and at >= 0:
            while span.cuts[cut] <= event:
                cut += 1
            stop = min(span.cuts[cut], end)
            whole = stop == events and requests.flags[n] & STAYS != 0
            wanted = depth_of(k) if whole else k
            stay, come, go = span.first[stop - 1], span.next[event], span.first[event]
            # First the best of the messages that stay: `low` is the score of the k-th, `low_after`
            # that of the last one wanted, which is beyond the k-th if a fresh buffer is due.
            low, low_after = NOTHING, NOTHING
            found = evaluate_between(
                state, work, 0, wanted, stay, come, NOTHING, work.best_scores, work.best_numbers
            )
            at = _append(answers, at, work.best_scores, work.best_numbers, found)
            if at < 0:
                break
            if found == wanted:
                low_after = work.best_scores[wanted - 1]
            if found >= k:
                keep_best(work.best_scores, work.best_numbers, 0, found, k)
                low = work.best_scores[k - 1]
            # Then the messages that expire before the cut.
            if go < min(stay, come):
                found = evaluate_between(
                    state, work, 0, _NO_LIMIT, go, min(stay, come), low, scores, numbers
                )
                at = _append(answers, at, scores, numbers, found) if found >= 0 else wide(-1)
            # Last those that arrive before it.
            if at >= 0 and come < span.next[stop - 1]:
                found = evaluate_between(
                    state, work, 0, _NO_LIMIT, come, span.next[stop - 1], low_after, scores,
                    numbers,
                )  # fmt: skip
                at = _append(answers, at, scores, numbers, found) if found >= 0 else wide(-1)
            event = stop
        free_record(state, 0)
        if at < 0:
            return n, MORE_ANSWERS
        answers.starts[n + 1] = at
    return len(requests.ks), DONE
