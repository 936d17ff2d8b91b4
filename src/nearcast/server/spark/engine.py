"""The engine of a server on Spark: it checks and stores events, and the pipeline matches them.

Every event is checked as the pipeline checks it, which so refuses nothing that was accepted here,
and numbered as the pipeline will number it. Updates come back later, into the same log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from heapq import heappop
from pathlib import Path
from typing import Any

import msgspec

from nearcast.engine import Engine
from nearcast.engine.applying import Admission
from nearcast.engine.core import EventCore
from nearcast.engine.engine import Answers
from nearcast.engine.matching import (
    ArrivedMessage,
    BooleanSubscription,
    Ranking,
    Results,
    ScannedMessages,
)
from nearcast.engine.outcome import EventOutcome
from nearcast.engine.rankings import PlainRankings
from nearcast.engine.scan import Scan
from nearcast.engine.settings import Settings
from nearcast.engine.update_log import Entry, entry_of
from nearcast.events import Event, LateBody, Message, Publish, Subscription, Update, UpdateOp
from nearcast.events.fields import WITHOUT_BODY
from nearcast.server.spark.event_files import EventFiles
from nearcast.topk.score import Bag

_KEPT = 1_000_000
"""Events that are kept before the latest update, for a pipeline that must read them again."""


Row = tuple[int, UpdateOp, str, str, float | None, str | None]
"""An update of the pipeline: event, op, subscription, message, score and `meta` if it has them."""


class _MessagesByTerm(ScannedMessages):
    """Active messages, found by term."""

    def __init__(self) -> None:
        super().__init__()
        self._with: dict[str, dict[str, ArrivedMessage]] = {}  # by term

    def add(self, arrived: ArrivedMessage) -> None:
        """Add an active message."""
        super().add(arrived)
        for term in arrived.terms:
            self._with.setdefault(term, {})[arrived.message.id] = arrived

    def take_out(self, id: str) -> ArrivedMessage | None:
        """Remove and return the active message with this id, if there is one."""
        arrived = super().take_out(id)
        for term in () if arrived is None else arrived.terms:
            some = self._with[term]
            del some[id]
            if not some:
                del self._with[term]
        return arrived

    def advance(self, now: float) -> None:
        """Remove messages that have ended by `now`."""
        while self._ends and self._ends[0][0] <= now:
            end, id = heappop(self._ends)
            if id in self._messages and self._messages[id].end == end:
                self.take_out(id)

    def wanted_by(self, interest: BooleanSubscription) -> Results:
        """The active messages that a subscription matches, in order of arrival."""
        found: dict[int, ArrivedMessage] = {}
        for conjunct in interest.query.conjuncts:
            if not conjunct.required:
                return super().wanted_by(interest)
            some = min((self._with.get(term, {}) for term in conjunct.required), key=len)
            found |= {each.number: each for each in some.values()}
        return interest.among(found[number] for number in sorted(found))


class _UnrankedWindow(PlainRankings):
    """Top-k subscriptions that are ranked on request only, and a window of messages by id."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._asked: dict[str, tuple[Subscription, Bag, BooleanSubscription | None]] = {}

    def put(
        self,
        subscription: Subscription,
        terms: tuple[str, ...],
        wanted: BooleanSubscription | None = None,
    ) -> None:
        """Add a subscription, or replace the one with its id."""
        bag = self._scorer.bag(terms)
        self._asked[subscription.id] = subscription, bag, wanted
        self._rankings[subscription.id] = Ranking(subscription, bag, self._scorer, wanted)

    def drop(self, id: str) -> None:
        """Remove a known subscription."""
        super().drop(id)
        del self._asked[id]

    def enter(self, arrived: ArrivedMessage) -> None:
        """Let a message enter the window, and the oldest leave it."""
        self._window.append(arrived)
        self.advance(arrived.at)

    def changes(self, replaced: str | None = None, rescored: str | None = None) -> list[Update]:
        """None: the pipeline reports them."""
        del replaced, rescored
        return []

    def _leave(self, some: Iterable[ArrivedMessage]) -> None:
        deque(some, maxlen=0)  # they are not ranked

    def best(self, id: str) -> Results:
        """The results of one that is there, best first, from the window as it is now."""
        return self._ranked(id).best()

    def would_rank(self, arrived: ArrivedMessage) -> dict[str, float]:
        """Who would have a message among the best if it were published now, with its scores."""
        if arrived.message.ttl and arrived.end <= arrived.at:
            return {}
        gone = {other.number for other in self._window.leaving(arrived)}
        scores = {id: self._ranked(id).would_rank(arrived, gone) for id in self._asked}
        return {id: score for id, score in scores.items() if score is not None}

    def _ranked(self, id: str) -> Ranking:
        subscription, bag, wanted = self._asked[id]
        ranking = Ranking(subscription, bag, self._scorer, wanted)
        for arrived in self._window:
            if not arrived.terms.isdisjoint(bag.weights):
                ranking.enter(arrived)
        return ranking


class PipelineEngine(Engine):
    """An engine whose events go to a pipeline, and whose updates come from there."""

    def __init__(self, folder: EventFiles, path: Path, **options: Any) -> None:
        self._files = folder
        self.sent: deque[tuple[int, float, Message | None]] = deque()
        """Events whose updates may still come: number, time, and message if they published one."""
        self._time = 0.0
        super().__init__(path=path, **options)
        self.delivered = self._last_delivered()
        self._recover()

    def _new_core(self, settings: Settings) -> EventCore:
        window, messages = _UnrankedWindow(settings), _MessagesByTerm()
        return Scan(settings, None, window, messages, reports=False)

    def _last_delivered(self) -> int:
        """The number of the latest event whose updates are in the log."""
        latest = self.log.read(self.log.last - 1, 1)
        return latest[0].seq if latest else 0

    def _recover(self) -> None:
        """Apply the events that were written for the pipeline but not stored before a crash."""
        known, late = self._journal.seq, []
        for number, event in self._files.after(min(known, self.delivered)):
            if number > known:
                late.append(event)
            else:
                self._send(number, event)
        if late:
            super().apply_all(late, lambda outcomes: self._note(late, outcomes))

    def apply_all(
        self,
        events: Iterable[Event],
        remember: Answers | None = None,
        *,
        stop: bool = False,
        admission: Admission | None = None,
    ) -> list[EventOutcome]:
        """Check events; accepted ones are written for the pipeline before they are acknowledged."""
        events = list(events)

        def hand_over(outcomes: list[EventOutcome]) -> Any:
            good = [event for event, each in zip(events, outcomes, strict=False) if not each.error]
            if good:
                self._files.write(self._journal.seq + 1, good)
            self._note(events, outcomes)
            return remember(outcomes) if callable(remember) else remember or {}

        return super().apply_all(events, hand_over, stop=stop, admission=admission)

    def _note(self, events: Sequence[Event], outcomes: Sequence[EventOutcome]) -> dict[str, bytes]:
        for event, outcome in zip(events, outcomes, strict=False):
            if outcome.seq is not None:
                self._send(outcome.seq, event)
        return {}

    def _send(self, number: int, event: Event) -> None:
        """Remember an event until its updates arrive; any event's time may cause some."""
        self._time = self._time if event.at is None else event.at
        message = event.message if isinstance(event, Publish) else None
        self.sent.append((number, self._time, message))

    def deliver(
        self, updates: Sequence[Row], settled: int = 0
    ) -> tuple[list[Entry], dict[str, Message]]:
        """Add updates of the pipeline to the log, in order.

        Updates that are already there are skipped: they come again after a crash. Returns the
        new entries of the log, and their messages as far as they are known: as they are now, if
        another event published them. None of the first `settled` events has updates still to
        come, so nothing is kept for them.
        """
        while self.sent and self.sent[0][0] <= settled:
            self.sent.popleft()
        fresh = [update for update in updates if update[0] + 1 > self.delivered]
        if not fresh:
            self._files.forget(min(settled, self._journal.seq) - _KEPT)
            return [], {}
        times: dict[int, tuple[float, Message | None]] = {}
        last = fresh[-1][0] + 1
        while self.sent and self.sent[0][0] <= last:
            seq, at, sent = self.sent.popleft()
            times[seq] = at, sent
        entries: list[Entry] = []
        messages: dict[str, Message] = {}
        with self._call() as changes:
            core = self._ready()
            for event, op, subscription, message_id, score, meta in fresh:
                at, message = times.get(event + 1) or (0.0, None)
                late = None if message is None else LateBody(message, at)
                if message is None or message.id != message_id:
                    message = messages.get(message_id) or core.message(message_id)
                    late = None if message is None else LateBody(message, message.at or 0.0)
                if message is not None:
                    messages[message_id] = message
                update = Update(
                    op,
                    subscription,
                    message_id,
                    score,
                    None if meta is None else msgspec.json.decode(meta),
                    None if op in WITHOUT_BODY else late,
                )
                id = changes.add_updates(event + 1, at, [update])
                entries.append(entry_of(id, event + 1, at, update))
            self._journal.commit(core, changes, {})
        self.delivered = last
        self._files.forget(last - _KEPT)
        return entries, messages
