"""Messages at points as columns: which way they go."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from nearcast.engine.bulk import decided, publish_messages, refusal
from nearcast.engine.changes import EngineChanges, PublishedColumns
from nearcast.engine.indexed import Indexed
from nearcast.engine.order import FINE, IN_USE, Rows
from nearcast.engine.replacing import replace_messages
from nearcast.engine.tables import TableError
from nearcast.events.reader import POINT, CheckedEvents


class DecidedMessages:
    """Messages at points, whose times and refusals are known; nothing has changed yet."""

    def __init__(self, rows: Rows, messages: PublishedColumns, replaces: bool) -> None:
        self.rows = rows
        self.messages = messages
        self.replaces = replaces
        """Whether some replace others."""

    @property
    def refused(self) -> list[int]:
        """The rows of those that are refused."""
        refused: list[int] = np.flatnonzero(self.rows["verdict"] != FINE).tolist()
        return refused

    def publish(self, core: Indexed, start: int, stop: int, changes: EngineChanges) -> pa.Table:
        """Publish some that follow each other, none of which is refused."""
        some = self.messages.part(start, stop)
        publish = replace_messages if self.replaces else publish_messages
        return publish(core, some, changes)


def decided_messages(core: Indexed, messages: PublishedColumns) -> DecidedMessages | None:
    """Decide what messages at points will do; None if they have to be applied one by one."""
    ids, ttl, outside = messages.ids, messages.ttl, core.settings.outside(messages.points)
    apart = core.replaces_columns
    replaces = apart and (len(set(ids)) < len(ids) or core.uses_any(ids))
    rows = decided(core, POINT, ids, messages.at, ttl, outside, apart=apart)
    if (rows["verdict"] == IN_USE).any() or core.ends_by(float(rows["time"][-1])):
        return None  # top-k subscriptions see a message replaced, or a subscription ends
    lives = np.nan_to_num(ttl) if ttl is not None and (ttl > 0).any() else None
    return DecidedMessages(rows, messages._replace(at=rows["time"].copy(), ttl=lives), replaces)


def publish_columns(core: Indexed, given: CheckedEvents, changes: EngineChanges) -> pa.Table | None:
    """Match messages at points against a population with an index, up to a refused one."""
    if not core.takes_columns or not given.are_all(POINT):
        return None
    messages = PublishedColumns(
        0, given.ids.to_pylist(), given.texts, given.points, given.at, given.ttl, given.carried
    )
    decision = decided_messages(core, messages)
    if decision is None:
        return None
    stop = next(iter(decision.refused), len(messages.ids))
    updates = decision.publish(core, 0, stop, changes)
    if stop < len(messages.ids):
        error = refusal(core, decision.rows, decision.messages, stop)
        raise TableError(stop, str(error), updates)
    return updates
