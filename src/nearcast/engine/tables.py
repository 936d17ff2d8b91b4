"""Arrow tables of events, applied to an engine, and Arrow tables of updates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from nearcast.engine.applying import apply_one
from nearcast.engine.changes import EngineChanges
from nearcast.engine.place_columns import arrow_of, with_places
from nearcast.errors import InvalidValue, NearcastError, StateError
from nearcast.events import Update
from nearcast.events.columns import updates_table
from nearcast.events.fields import UPDATE_OPS
from nearcast.events.ids import new_id
from nearcast.events.reader import CheckedEvents

if TYPE_CHECKING:
    from nearcast.engine.core import EventCore
    from nearcast.engine.indexed import Indexed


class TableError(StateError):
    """A row that conflicts with the state of the engine.

    `row` is its number from 0; `updates` are those of the rows before it, which took effect.
    """

    def __init__(self, row: int, problem: str, updates: pa.Table) -> None:
        super().__init__(f"row {row}: {problem}; the rows before it took effect")
        self.row = row
        self.updates = updates


def as_table(table: Any) -> pa.Table:
    """Accept a `pyarrow.Table`, or anything that exports an Arrow stream."""
    if isinstance(table, pa.Table):
        return with_places(table)
    if hasattr(table, "__arrow_c_stream__"):
        return with_places(arrow_of(table))
    raise InvalidValue("table", table, "a pyarrow.Table or an object with __arrow_c_stream__")


def caused_table(updates: list[tuple[int, Update]]) -> pa.Table:
    """Put updates, each with the event that caused it, into columns."""
    return updates_table(
        [event for event, _ in updates],
        np.array([UPDATE_OPS.index(update.op) for _, update in updates], np.int8),
        [update.subscription for _, update in updates],
        [update.message for _, update in updates],
        [update.score for _, update in updates],
    )


def _at_once(
    core: EventCore, op: str, given: CheckedEvents, changes: EngineChanges
) -> pa.Table | None:
    """Apply whole columns; None, without any change, if a row has to be applied on its own."""
    from nearcast.engine.bulk import subscribe_columns
    from nearcast.engine.moving import move_columns
    from nearcast.engine.publishing import publish_columns

    ways = {"publish": publish_columns, "subscribe": subscribe_columns, "move": move_columns}
    return ways[op](cast("Indexed", core), given, changes)


def apply_table(core: EventCore, op: str, table: pa.Table, changes: EngineChanges) -> pa.Table:
    """Apply every row as an event of one kind; nothing takes effect if a row is not valid."""
    if op == "publish" and "id" not in table.column_names:
        new_ids = [new_id("m") for _ in range(len(table))]
        table = table.append_column("id", pa.array(new_ids, pa.string()))
    given = CheckedEvents(table, op, with_carried=not core.plain)
    for row, invalid in given.errors.items():
        raise invalid.inside(f"row {row}") if isinstance(invalid, InvalidValue) else invalid
    if not core.plain and len(given):
        updates_at_once = _at_once(core, op, given, changes)
        if updates_at_once is not None:
            return updates_at_once
    updates: list[tuple[int, Update]] = []
    for row, event in enumerate(given.events()):
        try:
            updates += [(row, update) for update in apply_one(core, event, changes)]
        except NearcastError as error:
            raise TableError(row, str(error), caused_table(updates)) from None
    return caused_table(updates)
