"""A message worker: holds every M-th message of the window (a message bolt of DSkype).

It also has the messages of the current step and those that expire in it. Its answer to a request is
a superset of the messages of its part that may be among the k best at any time from one event to
another and, for a subscription that stays, enough for a fresh buffer.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nearcast.arrays.column import Column
from nearcast.spark.topk.dskype import _answer
from nearcast.spark.topk.dskype._aggregate import RequestAnswers
from nearcast.spark.topk.dskype.clock import Timeline
from nearcast.spark.topk.dskype.core_holder import CoreHolder, enough
from nearcast.spark.topk.dskype.messages import Replies, Requests, WindowMessages
from nearcast.spark.topk.dskype.terms import squares
from nearcast.topk.kernels.layout import CLASSES, FIRST, NEXT, SUB, TopkState

_ROOM = 1 << 12


class PartStep(NamedTuple):
    """The messages of a step for one part, and the oldest message that is still needed."""

    messages: WindowMessages
    first: int

    @property
    def nbytes(self) -> int:
        """About how many bytes it takes to apply."""
        return 8 * int(self.messages.terms.hashes.nbytes)


class WindowPart(CoreHolder):
    """One of `parts` parts of the window."""

    columns = {"place": (np.int64, 0)}  # noqa: RUF012 - never changed

    _place: Column  # which part, of how many, and the number that the core counts from

    def assign(self, part: int, parts: int, first: int) -> None:
        """Make this part number `part` of `parts`; no message before `first` will be added.

        Message v is in part v % parts, as number v // parts.
        """
        self._place.replace(np.array([part, parts, first // parts]))

    def __len__(self) -> int:
        """How many messages it has, with those that expire in the current step."""
        scalars = self.core.state.scalars
        return int(scalars[NEXT] - scalars[FIRST])

    def _own(self, numbers: np.ndarray) -> np.ndarray:
        """Convert message numbers: how many messages of the part after the base precede each."""
        part, parts, base = self._place.array.tolist()
        own: np.ndarray = (numbers - part + parts - 1) // parts - base
        return own

    def apply(self, step: PartStep) -> None:
        """Add the messages that belong to this part, and remove those that are not needed."""
        self._rebase()
        messages, until = step.messages, int(self._own(np.array([step.first]))[0])
        _answer.leave_until(self.core.state, min(until, int(self.core.state.scalars[NEXT])))
        self.numbers.sweep(self.core.unused_terms)
        part, parts, base = self._place.array.tolist()
        mine = messages.of(np.flatnonzero(messages.numbers % parts == part))
        if not len(mine.numbers):
            return
        following = int(self.core.state.scalars[NEXT])
        if following == 0:
            # The part is empty: the window may begin anywhere.
            self._place.array[2] = int(mine.numbers[0]) // parts
        elif int(mine.numbers[0]) // parts - base != following:
            raise ValueError(
                f"part {part} of {parts}: message {mine.numbers[0]} does not follow {following}"
            )
        terms = self.number(mine.terms)
        self.core.ensure_longest(int(np.diff(mine.terms.starts).max(initial=0)))
        self.core.until_done(
            lambda done: _answer.enter_all(
                self.core.state, self.core.work, mine.points, mine.terms.starts, terms,
                mine.counts, done,
            )
        )  # fmt: skip

    def _rebase(self) -> None:
        self._place.array[2] += self.core.rebase_if_due()

    def answer(self, requests: Requests, timeline: Timeline) -> Replies:
        """Find the messages that may matter to each request."""
        count, wanted = len(requests.since), requests.wanted
        once = np.ones(len(wanted.terms.hashes), np.int32)
        known = self.numbers.known(wanted.terms, once)
        kernel_requests = _answer.EvaluationRequests(
            wanted.points, wanted.alphas, squares(wanted.terms, once), wanted.ks, known.starts,
            known.terms, requests.since, requests.until, requests.flags,
        )  # fmt: skip
        state = _with_one(self.core.state, int(np.diff(known.starts).max(initial=0)))
        span = _answer.StepSpan(self._own(timeline.first), self._own(timeline.next), timeline.cuts)
        room = 64 * count + _ROOM
        answers = RequestAnswers(
            np.zeros(count + 1, np.int64), np.empty(room, np.int32), np.empty(room)
        )
        scores, numbers, done = np.empty(_ROOM), np.empty(_ROOM, np.int32), 0
        while True:
            done, code = _answer.answer(
                state, self.core.work, kernel_requests, span, answers, scores, numbers, done
            )
            if code != _answer.MORE_ANSWERS:
                break
            room = 2 * len(answers.scores)
            larger = RequestAnswers(answers.starts, np.empty(room, np.int32), np.empty(room))
            written = answers.starts[done]
            larger.numbers[:written] = answers.numbers[:written]
            larger.scores[:written] = answers.scores[:written]
            answers = larger
            scores, numbers = enough(scores, room), enough(numbers, room)
        part, parts, base = self._place.array.tolist()
        written = answers.starts[-1]
        found = (answers.numbers[:written].astype(np.int64) + base) * parts + part
        return Replies(answers.starts, found, answers.scores[:written])


def _with_one(state: TopkState, terms: int) -> TopkState:
    """A view of the state with its own record for one subscription of up to `terms` terms."""
    record = np.zeros(SUB)
    return state._replace(
        scalars=state.scalars.copy(),
        sub_f=record,
        sub_i=record.view(np.int32),
        more=np.empty(8 * terms + 64, np.int32),
        more_free=np.full(CLASSES, -1, np.int32),
    )
