"""A durable engine's interface over an engine in memory, until there is one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import NamedTuple

from nearcast.engine import Engine
from nearcast.errors import NearcastError
from nearcast.geo import Box
from nearcast.model import (
    Event,
    Message,
    Move,
    Publish,
    Result,
    Subscription,
    Subscribe,
    Unsubscribe,
    Update,
)


@dataclass(frozen=True, slots=True)
class Outcome:
    seq: int | None
    error: NearcastError | None
    updates: Sequence[Update]
    first_id: int


class Entry(NamedTuple):
    id: int
    seq: int
    at: float
    op: str
    subscription: str
    message: str
    score: float | None


class Log:
    def __init__(self) -> None:
        self.entries: deque[Entry] = deque(maxlen=100_000)
        self.last = 0
        self.lock = Lock()

    @property
    def first(self) -> int:
        return self.entries[0].id if self.entries else self.last + 1

    def read(self, after: int, limit: int, subscription: str | None = None) -> list[Entry]:
        with self.lock:
            return [
                e
                for e in self.entries
                if e.id > after and (subscription is None or e.subscription == subscription)
            ][:limit]


class StandIn:
    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.log = Log()
        self.seq = 0
        self.messages: dict[str, Message] = {}
        self.subs: dict[str, Subscription] = {}
        self.memory: dict[str, bytes] = {}

    @property
    def now(self) -> float | None:
        return self.engine._core.now  # type: ignore[attr-defined]

    @property
    def settings(self):
        return self.engine.settings

    @property
    def count(self) -> int:
        return len(self.subs)

    def apply_all(self, events: Iterable[Event], remember=None) -> list[Outcome]:
        outcomes = []
        for event in events:
            try:
                updates = self.engine.apply(event)
            except NearcastError as error:
                outcomes.append(Outcome(None, error, (), self.log.last + 1))
                continue
            if isinstance(event, Publish):
                self.messages[event.message.id] = event.message
            elif isinstance(event, Subscribe):
                self.subs[event.subscription.id] = event.subscription
            elif isinstance(event, Move):
                old = self.subs[event.id]
                self.subs[event.id] = Subscription(
                    old.id, old.query, event.region, event.point, old.top
                )
            elif isinstance(event, Unsubscribe):
                del self.subs[event.id]
            seq = self.seq
            self.seq += 1
            first = self.log.last + 1
            with self.log.lock:
                for u in updates:
                    self.log.last += 1
                    self.log.entries.append(
                        Entry(
                            self.log.last, seq, self.now, u.op, u.subscription, u.message, u.score
                        )
                    )
            outcomes.append(Outcome(seq, None, updates, first))
        if remember:
            self.memory |= remember(outcomes) if callable(remember) else remember
        return outcomes

    def recall(self, key: str) -> bytes | None:
        return self.memory.get(key)

    def boxes(self):
        return self.engine.boxes()

    def get(self, id: str) -> Subscription | None:
        return self.subs.get(id)

    def message(self, id: str) -> Message | None:
        return self.messages.get(id)

    def results(self, id: str) -> list[Result]:
        return self.engine.results(id)

    def page(self, after: str | None, limit: int, bbox: Box | None) -> list[Subscription]:
        found = []
        for id in sorted(self.subs):
            sub = self.subs[id]
            if after is not None and id <= after:
                continue
            if bbox is not None:
                if sub.region is not None:
                    if not sub.region.meets(bbox):
                        continue
                elif not bbox.contains(*sub.point):
                    continue
            found.append(sub)
            if len(found) == limit:
                break
        return found

    def close(self) -> None:
        pass
