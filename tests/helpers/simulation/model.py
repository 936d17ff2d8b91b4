"""What must be so: the history of each store beside `scan`, and what clients were told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from expected_bodies import ExpectedBodies
from nearcast.engine import Engine
from nearcast.engine.outcome import EventOutcome
from nearcast.engine.scan import Scan
from nearcast.errors import NearcastError
from nearcast.events import Event, Publish, Subscribe, event_to_json

EventKey = tuple[str, ...]
Shown = dict[str, Any]
"""An update as it is delivered."""


class Violation(BaseException):
    """A promise that was not kept; no code of a server catches it."""


def demand(holds: bool, *what: object) -> None:
    """Raise a violation unless something holds."""
    if not holds:
        raise Violation(" ".join(map(str, what)))


def key_of(event: Event) -> EventKey:
    """What an event is known by: the tag that its sender gave it, where it can have one."""
    match event:
        case Publish(message):
            return ("publish", message.id, str((message.properties or {}).get("tag")))
        case Subscribe(subscription):
            return ("subscribe", subscription.id, str((subscription.meta or {}).get("tag")))
        case _:
            return (str(event_to_json(event)["op"]), str(event_to_json(event)["id"]))


class History:
    """The events that a store has, what `scan` makes of them, and the updates to be heard."""

    def __init__(self, events: Iterable[Event] = ()) -> None:
        self.events: list[Event] = []
        self.keys: Counter[EventKey] = Counter()
        self.scan = Scan()
        self._bodies = ExpectedBodies()
        self.updates: list[Shown] = []
        self.ends: list[int] = []  # how many updates there are after each event
        for event in events:
            self.apply(event)

    def apply(self, event: Event) -> list[Shown] | None:
        """Apply an event, and return its updates; None if it is refused."""
        try:
            updates = self.scan.apply(event)
        except NearcastError:
            return None
        self._bodies.accept(event)
        self.events.append(event)
        self.keys[key_of(event)] += 1
        shown: list[Shown] = []
        for number, update in enumerate(updates, len(self.updates) + 1):
            body, meta = self._bodies.of(update)
            fields: Shown = {"id": number, "op": update.op, "subscription": update.subscription}
            fields |= {"message": update.message, "at": self._bodies.now, "score": update.score}
            shown.append(fields | {"body": body, "meta": meta})
        self.updates += shown
        self.ends.append(len(self.updates))
        return shown

    def between(self, after: int, up_to: int, names: frozenset[str] | None) -> list[int]:
        """The ids of the updates of some subscriptions in a range."""
        found = self.updates[after:up_to]
        return [each["id"] for each in found if names is None or each["subscription"] in names]


@dataclass
class StoreModel:
    """A tenant's file on one server: its history, and the call that is under way.

    From the event `own` on, the history was made here, by a primary, and not copied from one.
    """

    history: History = field(default_factory=History)
    pending: list[Event] | None = None
    stop: bool = False
    own: int | None = 0
    copy: tuple[History, str] | None = None

    def called(self, events: Sequence[Event], stop: bool, *, repeated: bool = False) -> None:
        """Note a call before it is applied; a standby repeats those of its primary."""
        self.pending, self.stop = list(events), stop
        if repeated:
            self.own = None
        elif self.own is None:
            self.own = len(self.history.events)

    def returned(self, outcomes: Sequence[EventOutcome]) -> None:
        """Compare what came of a call with what `scan` says."""
        assert self.pending is not None
        history = self.history
        for event, outcome in zip(self.pending, outcomes, strict=False):
            before = len(history.updates)
            shown = history.apply(event)
            demand((shown is None) == (outcome.error is not None), "refused or not:", event)
            if shown is not None:
                got = [(u.op, u.subscription, u.message, u.score) for u in outcome.updates]
                wanted = [(s["op"], s["subscription"], s["message"], s["score"]) for s in shown]
                demand(got == wanted, "updates of", event, got, wanted)
                demand(outcome.seq == len(history.events), "number of", event)
                demand(not shown or outcome.first_id == before + 1, "ids of", event)
        self.pending = None

    def failed(self) -> None:
        """Note that a call was not committed."""
        self.pending = None

    def copies(self, history: History, place: str) -> None:
        """Note a copy that takes the place of the file: what it has, and its latest commit."""
        self.copy = history, place

    def replaced(self) -> None:
        """Note that the copy has taken the place of the file."""
        assert self.copy is not None
        self.history, self.own, self.pending = self.copy[0], None, None
        self.copy = None

    def opened(self, engine: Engine) -> None:
        """Compare a file that was opened with what it must have."""
        if self.copy is not None and place_of(engine) == self.copy[1]:
            self.replaced()
        self.copy = None  # a process that ended before that has kept the file it had
        if self.pending is not None and engine.seq != len(self.history.events):
            for event in self.pending:
                if self.history.apply(event) is None and self.stop:
                    break
        self.pending = None
        self.check(engine)

    def check_follows(self, before: History) -> int:
        """Compare the history of a new primary with that of the old one; how much they share.

        It is an earlier state of it. Only what this server accepted itself when it was the primary
        may differ: until it has followed the one that came after it, its file has that still.
        """
        events, others = self.history.events, before.events
        pairs = enumerate(zip(events, others, strict=False))
        shared = next((at for at, (one, other) in pairs if one != other), None)
        if shared is None:
            shared = min(len(events), len(others))
        copied = len(events) if self.own is None else self.own
        demand(shared >= copied, "another history:", shared, copied, len(events), len(others))
        return shared

    def check(self, engine: Engine) -> None:
        """Compare all that an engine has with `scan`."""
        history = self.history
        demand(engine.seq == len(history.events), "events:", engine.seq, len(history.events))
        entries = engine.log.complete(engine.log.read(0, 1 << 30))
        got = [
            {"id": e.id, "op": e.op, "subscription": e.subscription, "message": e.message,
             "at": e.at, "score": e.score, "body": e.body, "meta": e.meta}
            for e in entries
        ]  # fmt: skip
        demand(got == history.updates, "the log of a store differs:", got, history.updates)
        ids = sorted(each.id for each in history.scan.subscriptions())
        demand(
            ids == sorted(each.id for each in engine.subscriptions()), "subscriptions of a store"
        )
        for id in ids:
            demand(engine.results(id) == history.scan.results(id), "results of", id)


def place_of(engine: Engine) -> str:
    """The number and the mark of the latest commit of an engine's file."""
    return "" if engine.lineage is None else f"{engine.lineage.position} {engine.lineage.mark}"


@dataclass
class Promises:
    """What clients of a tenant have sent, and what they were told of it."""

    sent: Counter[EventKey] = field(default_factory=Counter)
    acknowledged: Counter[EventKey] = field(default_factory=Counter)
    refused: Counter[EventKey] = field(default_factory=Counter)

    def check(self, history: History, where: str) -> None:
        """All that was acknowledged is there, and nothing that was not sent."""
        for key, times in self.acknowledged.items():
            demand(history.keys[key] >= times, where, "lost", key)
        for key, times in history.keys.items():
            demand(times <= self.sent[key] - self.refused[key], where, "invented or repeated", key)

    def excuse(self, history: History) -> None:
        """Forget what a promotion without waiting for the standby may lose."""
        for key, times in self.acknowledged.items():
            self.acknowledged[key] = min(times, history.keys[key])


def read_shown(id: int, data: bytes | str) -> Shown:
    """An update as a client reads it."""
    fields = msgspec.json.decode(data)
    return {
        "id": id,
        "op": fields["op"],
        "subscription": fields["subscription"],
        "message": fields["message"],
        "at": fields["at"],
        "score": fields.get("score"),
        "body": fields.get("body"),
        "meta": fields.get("meta"),
    }
