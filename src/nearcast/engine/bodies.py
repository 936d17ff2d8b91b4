"""Bodies of messages and `meta` of subscriptions, attached to the updates of an event.

An update refers to its message as it is after the event: the message that was just published, or
the one that is active or in the window then. Bodies are only written when somebody asks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nearcast.events import Event, LateBody, Publish, Update
from nearcast.events.values import JsonObject

if TYPE_CHECKING:
    import pyarrow as pa

    from nearcast.arrays.types import Int64s
    from nearcast.engine.changes import PublishedColumns
    from nearcast.engine.core import EventCore

_put = object.__setattr__  # the updates were just made, and nobody has them yet
_SPARSE = 4  # if fewer than one in this many messages have updates, the others are let go


def attach(core: EventCore, event: Event, updates: Sequence[Update]) -> None:
    """Give the updates of an event, which was just applied, their bodies and `meta`."""
    if not updates:
        return
    now, metas = core.now or 0.0, core.attributes.metas
    made: dict[str, LateBody | None] = {}
    if isinstance(event, Publish):
        made[event.message.id] = LateBody(event.message, now)
    for update in updates:
        if update.op != "remove":
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


class ColumnBodies:
    """The bodies for a table of updates: of messages in columns, and of others one by one.

    `others` has those of messages that earlier events published, by event and id.
    """

    def __init__(
        self,
        messages: PublishedColumns | None = None,
        rows: Int64s | None = None,
        others: dict[tuple[int, str], LateBody] | None = None,
    ) -> None:
        """Keep columns of messages, of which `rows` have updates."""
        self.others = {} if others is None else others
        self.messages, self.seqs = messages, np.empty(0, np.int64)
        if messages is not None and rows is not None:
            self.seqs = messages.seq + rows
            if len(rows) * _SPARSE < len(messages.ids):
                self.messages, self._rows = messages.take(rows), np.arange(len(rows))
            else:
                self._rows = rows
        self._made: dict[int, LateBody] = {}

    @property
    def own(self) -> PublishedColumns | None:
        """The messages that have updates of their own event; their numbers are in `seqs`."""
        return None if self.messages is None else self.messages.take(self._rows)

    def find(self, seq: int, message: str) -> LateBody | None:
        """The body that a message had after an event."""
        place = int(np.searchsorted(self.seqs, seq))
        if place < len(self.seqs) and self.seqs[place] == seq and self.messages is not None:
            row = int(self._rows[place])
            if self.messages.ids[row] == message:
                return self._body(self.messages, row)
        return self.others.get((seq, message))

    def _body(self, messages: PublishedColumns, row: int) -> LateBody:
        made = self._made.get(row)
        if made is None:
            made = self._made[row] = LateBody(messages.message(row), float(messages.at[row]))
        return made


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
