"""Kernels of a finder: match messages with subscriptions whose thresholds they reach."""

from __future__ import annotations

from typing import NamedTuple

from nearcast._jit import lean_kernel
from nearcast.arrays.numbers import wide
from nearcast.arrays.types import Floats, Int32s, Int64s
from nearcast.topk.kernels.events import free_record, room_to_subscribe, write_record
from nearcast.topk.kernels.layout import DONE, SUB, THETA, TopkScratch, TopkState
from nearcast.topk.kernels.match import affected_by, ask_for_lists
from nearcast.topk.kernels.message import arrange, table_size
from nearcast.topk.kernels.postings import post, set_theta, withdraw


class IncomingMessages(NamedTuple):
    """Messages, with those of their terms that occur in a subscription."""

    points: Floats
    squared: Floats  # the squared length of the vector of all their terms
    starts: Int64s
    terms: Int32s
    counts: Int32s


class FoundMatches(NamedTuple):
    """Room for pairs of a subscription and a message."""

    subs: Int32s
    messages: Int32s  # places in `IncomingMessages`
    scores: Floats


@lean_kernel
def find(
    state: TopkState,
    work: TopkScratch,
    messages: IncomingMessages,
    matches: FoundMatches,
    done: int,
    written: int,
) -> tuple[int, int]:
    """Find the subscriptions whose thresholds messages reach, from message `done` on.

    Returns the message to go on with, and how many matches are written.
    """
    starts, terms = messages.starts, messages.terms
    for message in range(done, len(messages.points)):
        ask_for_lists(state, starts, terms, message, done, len(messages.points))
        start, length = starts[message], starts[message + 1] - starts[message]
        for n in range(length):
            term = wide(terms[start + n])
            idf = state.idf[term]
            work.terms[n], work.idfs[n] = term, idf
            work.weights[n] = messages.counts[start + n] * idf
        squared = messages.squared[message]
        arrange(work, length, squared)
        x, y = messages.points[message, 0], messages.points[message, 1]
        affected = affected_by(state, work, x, y, squared, length, table_size(length))
        if written + affected > len(matches.subs):
            return message, written
        for n in range(affected):
            matches.subs[written], matches.scores[written] = work.affected[n], work.scores[n]
            matches.messages[written] = message
            written += 1
    return len(messages.points), written


@lean_kernel
def post_all(
    state: TopkState, subs: Int32s, points: Floats, alphas: Floats, thetas: Floats, starts: Int64s,
    terms: Int32s, done: int,
) -> tuple[int, int]:  # fmt: skip
    """Index subscriptions under unused numbers, with their thresholds."""
    for n in range(done, len(subs)):
        sub, start = wide(subs[n]), starts[n]
        code = room_to_subscribe(state, terms, start, starts[n + 1] - start)
        if code == DONE:
            code = write_record(state, sub, points, alphas, starts, terms, n)
        if code != DONE:
            return n, code
        state.sub_f[SUB * sub + THETA] = thetas[n]
        post(state, sub)
    return len(subs), DONE


@lean_kernel
def withdraw_all(state: TopkState, subs: Int32s) -> None:
    """Remove subscriptions."""
    for n in range(len(subs)):
        withdraw(state, wide(subs[n]))
        free_record(state, wide(subs[n]))


@lean_kernel
def raise_all(state: TopkState, subs: Int32s, thetas: Floats) -> None:
    """Raise the thresholds of subscriptions."""
    for n in range(len(subs)):
        set_theta(state, wide(subs[n]), thetas[n])
