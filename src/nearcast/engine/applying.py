"""Many events in order, each by itself.

Every event is applied to the core and noted in a `Changes`. One that is refused changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from nearcast.engine.changes import Accepted, Changes
from nearcast.engine.core import Core
from nearcast.engine.outcome import Outcome
from nearcast.errors import NearcastError
from nearcast.model import Event, Publish, Update


def apply_one(core: Core, event: Event, changes: Changes) -> list[Update]:
    """Apply one event, and note what it changed."""
    updates = core.apply(event)
    changes.seq += 1
    changes.now = core.now
    at = core.now or 0.0
    match event:
        case Publish(message):
            if message.point is not None or message.ttl:
                changes.messages.append(Accepted(changes.seq, at, message))
        case _:
            id = event.subscription.id if hasattr(event, "subscription") else event.id
            changes.subscriptions[id] = core.subscription(id)
    changes.add_updates(changes.seq, at, updates)
    return updates


def apply_events(
    core: Core, events: Iterable[Event], changes: Changes, stop: bool = False
) -> list[Outcome]:
    """Apply events in order, and say what became of each; with `stop`, up to one refused."""
    outcomes: list[Outcome] = []
    for outcome in _outcomes(core, events, changes):
        outcomes.append(outcome)
        if stop and outcome.error is not None:
            break
    return outcomes


def _outcomes(core: Core, events: Iterable[Event], changes: Changes) -> Iterator[Outcome]:
    """Apply events as their outcomes are asked for, or a run of messages before that."""
    if core.plain:
        return (apply_single(core, event, changes) for event in events)
    from nearcast.engine.runs import outcomes_in_runs

    return outcomes_in_runs(core, events, changes)


def apply_single(core: Core, event: Event, changes: Changes) -> Outcome:
    """Apply one event, and say what became of it."""
    first = changes.last + 1
    try:
        updates = apply_one(core, event, changes)
    except NearcastError as error:
        return Outcome(None, error)
    return Outcome(changes.seq, None, updates, first)
