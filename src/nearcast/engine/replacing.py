"""Messages as columns that replace others: objects that report where they are, again and again.

What a message changes is the difference between those who match it and those who matched the one
before it, which is an earlier row of the same table or one that is still active.
"""

from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from nearcast.arrays.types import Int32s, Int64s
from nearcast.engine.bulk import FEW, events_in, keep_active, note
from nearcast.engine.changes import EngineChanges, PublishedColumns, WithdrawnMessage
from nearcast.engine.column_bodies import ColumnBodies
from nearcast.engine.comparing import compare, sort_within
from nearcast.engine.indexed import Indexed
from nearcast.engine.naming import take_strings
from nearcast.engine.window import Columns
from nearcast.events.columns import UPDATE_SCHEMA, updates_table
from nearcast.index import Matches


class _Earlier(NamedTuple):
    """What messages replace: by row the row before with its id, and the slot of an active one."""

    row: Int64s  # -1 if there is none, or it has ended by then
    slot: Int32s  # -1 if there is none, or it has ended by then
    latest: npt.NDArray[np.bool_]  # whether no later row has the id


def replace_messages(core: Indexed, messages: PublishedColumns, changes: EngineChanges) -> pa.Table:
    """Match messages at points that were decided to be in order, and may replace others."""
    _, ids, texts, points, now, ttl, carried = messages
    if not len(ids):
        return UPDATE_SCHEMA.empty_table()
    earlier = _earlier(core, messages)
    population, boxes = core.boolean, np.hstack([points, points])
    threads = (os.cpu_count() or 1) if len(ids) >= FEW else 1
    after = population.match(population.read(texts, carried), boxes, threads)
    before = _matched_before(core, earlier.slot, threads)
    updates = _difference(core, after, before, earlier, ids)
    # Let the old ones go, and the new ones come.
    core.active.end(earlier.slot[earlier.slot >= 0])
    if ttl is not None:
        keep_active(core, messages, boxes, ttl, earlier.latest)
    analyser = core.settings.analyser
    core.pass_again(Columns(ids, texts, points, now.tolist(), analyser, ttl, carried=carried))
    core.pass_time(float(now[-1]), len(ids))
    updates = core.asked_for(updates)
    messages = messages._replace(seq=changes.seq + 1)
    changes.messages.append(messages)
    again = np.flatnonzero((earlier.row >= 0) | (earlier.slot >= 0)).tolist()
    changes.withdrawn += [WithdrawnMessage(messages.seq + row, ids[row], True) for row in again]
    note(core, changes, now, updates, ColumnBodies(messages, events_in(updates), {}))
    return updates


def _earlier(core: Indexed, messages: PublishedColumns) -> _Earlier:
    """Find what each message replaces that is still active then."""
    ids, now = messages.ids, messages.at
    rows, latest = np.full(len(ids), -1, np.int64), np.ones(len(ids), np.bool_)
    slots = core.active.stored(ids)
    slots[slots >= 0] = np.where(
        core.active.ends_at(slots[slots >= 0]) > now[slots >= 0], slots[slots >= 0], -1
    )
    if len(set(ids)) < len(ids):
        last: dict[str, int] = {}
        for row, id in enumerate(ids):
            before = last.get(id)
            if before is not None:
                rows[row], latest[before], slots[row] = before, False, -1
            last[id] = row
        ends = now if messages.ttl is None else now + messages.ttl
        rows[(rows >= 0) & (ends[rows] <= now)] = -1
    return _Earlier(rows, slots, latest)


def _matched_before(core: Indexed, slots: Int32s, threads: int) -> Matches:
    """Who matched the active messages that rows replace."""
    which = np.flatnonzero(slots >= 0)
    if not len(which):
        return Matches(_NONE, _NONE, 0)
    texts, carried, boxes = core.active.columns_at(slots[which])
    read = core.boolean.read(pa.array(texts, pa.string()), carried)
    found = core.boolean.match(read, boxes, threads if len(which) >= FEW else 1)
    return found._replace(messages=which[found.messages].astype(np.int32))


def _difference(
    core: Indexed, after: Matches, before: Matches, earlier: _Earlier, ids: list[str]
) -> pa.Table:
    """The updates of all messages, in the order in which single calls would report them."""
    population, count = core.boolean, len(ids)
    names, rank = population.names_in_order(np.concatenate([after.owners, before.owners]))
    new, old = rank[after.owners], rank[before.owners]
    sort_within(after.messages, new)
    sort_within(before.messages, old)
    new_edges, old_edges = (
        np.searchsorted(found.messages, np.arange(count + 1)) for found in (after, before)
    )
    room = _room(new_edges, old_edges, earlier.row)
    events, ranks = np.empty(room, np.int32), np.empty(room, np.int32)
    ops = np.empty(room, np.int8)
    written = compare(new, new_edges, old, old_edges, earlier.row, events, ranks, ops)
    events, ranks, ops = events[:written], ranks[:written], ops[:written]
    own = take_strings(pa.array(ids, pa.string()), events)
    return updates_table(events, ops, take_strings(names, ranks), own)


def _room(new_edges: Int64s, old_edges: Int64s, rows: Int64s) -> int:
    """How many updates there are at most."""
    again = rows[rows >= 0]
    return int(new_edges[-1] + old_edges[-1] + (new_edges[again + 1] - new_edges[again]).sum())


_NONE: Int32s = np.empty(0, np.int32)
