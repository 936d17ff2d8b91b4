"""Applies events in order, one by one.

Every event is applied to the core and recorded in `EngineChanges`. A refused one changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from nearcast.engine.bodies import attach
from nearcast.engine.changes import AcceptedMessage, EngineChanges, WithdrawnMessage
from nearcast.engine.core import EventCore
from nearcast.engine.outcome import EventOutcome
from nearcast.errors import NearcastError
from nearcast.events import Event, Message, Publish, Retract, Unsubscribe, Update
from nearcast.events.events import id_of


class Admission(Protocol):
    """Refuses events that the state of an engine would accept, such as those beyond a quota."""

    def admits_all(self, core: EventCore, events: Sequence[Event]) -> bool:
        """Whether none of some events would be refused, whatever becomes of the others."""
        ...

    def refusal(self, core: EventCore, event: Event) -> NearcastError | None:
        """Why the next event is refused; None if it is not."""
        ...


def apply_one(core: EventCore, event: Event, changes: EngineChanges) -> list[Update]:
    """Apply one event, and record what it changed."""
    updates = core.apply(event)
    attach(core, event, updates)
    changes.seq += 1
    changes.now = core.now
    at, id = core.now or 0.0, id_of(event)
    for ended in core.ended:
        changes.subscriptions[ended] = None
        changes.ended.append(ended)
    match event:
        case Publish(message):
            _note_message(core, message, at, changes)
        case Retract():
            changes.withdrawn.append(WithdrawnMessage(changes.seq, id, False))
        case _:
            changes.subscriptions[id] = core.subscription(id)
            if isinstance(event, Unsubscribe):
                changes.ended.append(id)
    changes.add_updates(changes.seq, at, updates)
    return updates


def _note_message(core: EventCore, message: Message, at: float, changes: EngineChanges) -> None:
    in_window = message.point is not None
    if core.withdrew:
        changes.withdrawn.append(WithdrawnMessage(changes.seq, message.id, in_window))
    if in_window or message.ttl:
        changes.messages.append(AcceptedMessage(changes.seq, at, message))


def apply_events(
    core: EventCore, events: Iterable[Event], changes: EngineChanges, stop: bool = False
) -> list[EventOutcome]:
    """Apply events in order and return their outcomes; with `stop`, up to the first refused one."""
    outcomes: list[EventOutcome] = []
    for outcome in _outcomes(core, events, changes):
        outcomes.append(outcome)
        if stop and outcome.error is not None:
            break
    return outcomes


def apply_admitted(
    core: EventCore,
    events: Iterable[Event],
    changes: EngineChanges,
    stop: bool,
    admission: Admission,
) -> list[EventOutcome]:
    """Apply events as `apply_events` does, except those that are not admitted."""
    outcomes: list[EventOutcome] = []
    for event in events:
        error = admission.refusal(core, event)
        if error is None:
            outcomes += apply_events(core, (event,), changes)
        else:
            outcomes.append(EventOutcome(None, error))
        if stop and outcomes[-1].error is not None:
            break
    return outcomes


def _outcomes(
    core: EventCore, events: Iterable[Event], changes: EngineChanges
) -> Iterator[EventOutcome]:
    """Yield the outcomes of events; each is applied when its outcome is requested, or earlier."""
    if core.plain:
        return (apply_single(core, event, changes) for event in events)
    from nearcast.engine.runs import outcomes_in_runs

    return outcomes_in_runs(core, events, changes)


def apply_single(core: EventCore, event: Event, changes: EngineChanges) -> EventOutcome:
    """Apply one event, and return its outcome."""
    first = changes.last + 1
    try:
        updates = apply_one(core, event, changes)
    except NearcastError as error:
        return EventOutcome(None, error)
    return EventOutcome(changes.seq, None, updates, first)
