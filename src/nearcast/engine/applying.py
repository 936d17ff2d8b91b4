"""Applies events in order, one by one.

Every event is applied to the core and recorded in `EngineChanges`. A refused one changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nearcast.engine.bodies import attach
from nearcast.engine.changes import AcceptedMessage, EngineChanges
from nearcast.engine.core import EventCore
from nearcast.engine.outcome import EventOutcome
from nearcast.errors import NearcastError
from nearcast.events import Event, Publish, Unsubscribe, Update


def apply_one(core: EventCore, event: Event, changes: EngineChanges) -> list[Update]:
    """Apply one event, and record what it changed."""
    updates = core.apply(event)
    attach(core, event, updates)
    changes.seq += 1
    changes.now = core.now
    at = core.now or 0.0
    match event:
        case Publish(message):
            if updates or message.point is not None or message.ttl:
                changes.messages.append(AcceptedMessage(changes.seq, at, message))
        case _:
            id = event.subscription.id if hasattr(event, "subscription") else event.id
            changes.subscriptions[id] = core.subscription(id)
            if isinstance(event, Unsubscribe):
                changes.ended.append(id)
    changes.add_updates(changes.seq, at, updates)
    return updates


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
