"""Bodies of messages and `meta` of subscriptions, attached to the updates of an event.

An update refers to its message as it is after the event: the message that was just published, or
the one that is active or in the window then. A body is written when it is first read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from nearcast.events import Event, LateBody, Publish, Update
from nearcast.events.fields import WITHOUT_BODY
from nearcast.events.values import JsonObject

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.engine.core import EventCore

_put = object.__setattr__  # the updates were just made, and are not shared yet


def attach(core: EventCore, event: Event, updates: Sequence[Update]) -> None:
    """Give the updates of an event, which was just applied, their bodies and `meta`."""
    if not updates:
        return
    now, metas = core.now or 0.0, core.attributes.metas
    made: dict[str, LateBody | None] = {}
    if isinstance(event, Publish):
        made[event.message.id] = LateBody(event.message, now)
    for update in updates:
        if update.op not in WITHOUT_BODY:
            if update.message not in made:
                made[update.message] = found(core, update.message)
            _put(update, "late", made[update.message])
        if metas and update.subscription in metas:
            _put(update, "meta", metas[update.subscription])


def found(core: EventCore, id: str) -> LateBody | None:
    """The body of a message that is active or in the window."""
    message = core.message(id)
    return None if message is None else LateBody(message, message.at or 0.0)


def metas_of(core: EventCore, updates: pa.Table) -> Mapping[str, JsonObject]:
    """The `meta` of those subscriptions among some updates that have one."""
    metas = core.attributes.metas
    if not metas or not len(updates):
        return {}
    return {id: metas[id] for id in updates["subscription"].unique().to_pylist() if id in metas}


def earlier_bodies(
    core: EventCore, seq: int, events: Sequence[int], messages: Sequence[str]
) -> dict[tuple[int, str], LateBody]:
    """The bodies of messages that events from `seq` on brought up again, by event and id."""
    made = {id: body for id in set(messages) if (body := found(core, id)) is not None}
    return {
        (seq + event, id): made[id]
        for event, id in zip(events, messages, strict=True)
        if id in made
    }
