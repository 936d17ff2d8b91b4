"""The bodies of messages for updates that are columns."""

from __future__ import annotations

import numpy as np

from nearcast.arrays.types import Int64s
from nearcast.engine.changes import PublishedColumns
from nearcast.events import LateBody

_SPARSE = 4  # if fewer than one in this many messages have updates, the others are let go


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
