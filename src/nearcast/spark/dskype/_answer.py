"""What a message worker knows: who of its part may matter to a request, and the part itself."""

from __future__ import annotations

from typing import NamedTuple

from nearcast._jit import inner_inlined, lean_kernel
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Bytes, Floats, Int32s, Int64s
from nearcast.spark.dskype._settle import STAYS, depth_of
from nearcast.topk.kernels.evaluate import evaluate_between
from nearcast.topk.kernels.events import free_record, write_record
from nearcast.topk.kernels.layout import DONE, DUE, FIRST, NOTHING, SQUARED, TopkScratch, TopkState
from nearcast.topk.kernels.message import prepare
from nearcast.topk.kernels.order import keep_best
from nearcast.topk.kernels.window import enter, leave_oldest, room_to_enter

MORE_ANSWERS = 100
_EVERYONE = 1 << 40


class Asking(NamedTuple):
    """Requests by their definitions; terms in the order of their letters.

    Terms that no message has are missing; `squared` is the length of the whole query, squared.
    """

    points: Floats
    alphas: Floats
    squared: Floats
    ks: Int32s
    starts: Int64s
    terms: Int32s
    since: Int32s
    until: Int32s
    flags: Bytes


class StepSpan(NamedTuple):
    """The step as the part sees it: by event, the window in numbers of its own."""

    first: Int64s
    next: Int64s
    cuts: Int64s


class Answers(NamedTuple):
    """Messages for requests, in no order, perhaps one more than once."""

    starts: Int64s
    numbers: Int32s
    scores: Floats


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
    """Take in messages."""
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
    """Let messages before a number go."""
    while state.scalars[FIRST] < number:
        leave_oldest(state)
    state.scalars[DUE] = state.scalars[FIRST]


@inner_inlined
def _append(answers: Answers, at: int, scores: Floats, numbers: Int32s, count: int) -> int:
    """Add what was found, or give -1 if there is no room."""
    if at + count > len(answers.scores):
        return wide(-1)
    for n in range(count):
        answers.scores[at + n], answers.numbers[at + n] = scores[n], numbers[n]
    return at + count


@lean_kernel
def answer(
    state: TopkState,
    work: TopkScratch,
    asking: Asking,
    span: StepSpan,
    answers: Answers,
    scores: Floats,
    numbers: Int32s,
    done: int,
) -> tuple[int, int]:
    """Find who may matter to each request; give how far it came, and what must grow.

    Between two cuts that is whoever is as good as the k-th of those that are there all the time.
    """
    events = len(span.first)
    for n in range(done, len(asking.ks)):
        code = write_record(state, 0, asking.points, asking.alphas, asking.starts, asking.terms, n)
        if code != DONE:
            return n, code
        state.sub_f[SQUARED] = asking.squared[n]
        k, at, end = wide(asking.ks[n]), answers.starts[n], wide(asking.until[n])
        event, cut = wide(asking.since[n]), 0
        while event < end and at >= 0:
            while span.cuts[cut] <= event:
                cut += 1
            stop = min(span.cuts[cut], end)
            whole = stop == events and asking.flags[n] & STAYS != 0
            wanted = depth_of(k) if whole else k
            stay, come, go = span.first[stop - 1], span.next[event], span.first[event]
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
            if go < min(stay, come):
                found = evaluate_between(
                    state, work, 0, _EVERYONE, go, min(stay, come), low, scores, numbers
                )
                at = _append(answers, at, scores, numbers, found) if found >= 0 else wide(-1)
            if at >= 0 and come < span.next[stop - 1]:
                found = evaluate_between(
                    state, work, 0, _EVERYONE, come, span.next[stop - 1], low_after, scores,
                    numbers,
                )  # fmt: skip
                at = _append(answers, at, scores, numbers, found) if found >= 0 else wide(-1)
            event = stop
        free_record(state, 0)
        if at < 0:
            return n, MORE_ANSWERS
        answers.starts[n + 1] = at
    return len(asking.ks), DONE
